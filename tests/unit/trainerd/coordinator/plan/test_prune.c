/* When train.prune = "auto" prunes: by how much is left out. */
#include "partition/part/partition.h"
#include "trainerd/coordinator/plan/prune.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define OK(call) cr_assert_eq(call, STATUS_OK, "%s", status_reason())

static double degree = 3;

/* The decision for a graph of 2000 nodes and about 2 · degree edges a node. */
static struct prune prune_of(const char *model, const char *train, double train_share, int n_part)
{
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct program program;
    struct prune prune;
    char text[512];
    snprintf(text, sizeof text,
             "[dataset]\ngenerator = \"sbm\"\nnodes = 2000\ndegree = %g\nfeatures = 8\ntrain_share = "
             "%g\n[partition]\nparts = %d\n"
             "method = \"block\"\ncache = \"off\"\n[model]\n%s\n[train]\nprune = \"%s\"\n",
             degree, train_share, n_part, model, train);
    OK(job_load_text(text, strlen(text), "test", NULL, 0, &job));
    OK(dataset_load(&job, &dataset));
    const struct program_input input = {
        .facts = {.n_feature = dataset.facts.n_feature, .n_class = dataset.facts.n_class}};
    OK(program_build(&job, &input, &program));
    OK(partition_build(&dataset, &job, &partition));
    OK(prune_build(&job, &dataset, &program, &partition, &prune));
    partition_release(&partition);
    program_release(&program);
    dataset_release(&dataset);
    return prune;
}

static const char sage[] = "kind = \"sage\"\nlayers = 2\nhidden = 16";
static const char gat[] = "kind = \"gat\"\nlayers = 2\nhidden = 8\nheads = 2";

Test(prune, auto_asks_for_a_tenth_of_the_work_whatever_the_number_of_parts)
{
    static const int n_parts[] = {1, 8, 512};
    for (size_t k = 0; k < sizeof n_parts / sizeof *n_parts; k++) {
        double little = prune_of(sage, "always", 0.5, n_parts[k]).left_out;
        cr_assert(little > 0.1 && little < 0.3, "%.3f left out", little);
        cr_expect_eq(prune_of(sage, "auto", 0.5, n_parts[k]).left_out, little);
        cr_expect_eq(prune_of(sage, "auto", 0.98, n_parts[k]).n_hop, 0);
        cr_expect_gt(prune_of(sage, "always", 0.98, n_parts[k]).n_hop, 0);
        cr_expect_gt(prune_of(gat, "auto", 0.1, n_parts[k]).n_hop, 0);
        cr_expect_eq(prune_of(gat, "auto", 0.95, n_parts[k]).left_out, 0.0);
    }
}

/* Three layers copy the transposed edges twice: much beside narrow rows, little beside wide ones. */
Test(prune, auto_asks_for_more_of_the_work_than_it_adds_to_the_memory)
{
    static const char narrow[] = "kind = \"gin\"\nlayers = 3\nhidden = 8",
                      wide[] = "kind = \"gin\"\nlayers = 3\nhidden = 256";
    degree = 40;
    cr_expect_gt(prune_of(narrow, "always", 0.2, 8).left_out, 0.1);
    cr_expect_eq(prune_of(narrow, "auto", 0.2, 8).n_hop, 0);
    cr_expect_gt(prune_of(wide, "auto", 0.2, 8).n_hop, 0);
}
