/* A job that spills gives the bits of the same job in memory, and stays within its limit. */
#include "tests/equivalence/compare.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static const char symmetric[] = "generator = \"sbm\"\nnodes = 4000\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 4096\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

struct way {
    int workers;
    const char *schedule, *recompute;
    long long limit; /* 0: all in memory */
    int epochs;
};

static void run(const char *model, const char *data, const struct way *way, struct cluster_result *out)
{
    /* In memory where possible: the bits do not depend on a disk's speed. */
    char text[2048], spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "spill = \"%s\"\n", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 16\nmethod = \"block\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\nlr = 0.01\n[exchange]\nschedule = \"%s\"\n[workers]\ncount = %d\nthreads = 1\n[memory]\n"
             "recompute = \"%s\"\nlimit = %lld\n%s",
             data, model, way->epochs, way->schedule, way->workers, way->recompute, way->limit, spill);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d %s: exit %d", model, way->workers, way->schedule, out->exit_code);
}

static int64_t total(const int64_t bytes[MEMORY_N])
{
    int64_t n = 0;
    for (int c = 0; c < MEMORY_N; c++) {
        n += bytes[c];
    }
    return n;
}

/* In the least memory that a step needs, so that hardly any array stays in memory from one step to the next. */
static void expect_same_bits(const char *model, const char *data)
{
    const struct way plain = {1, "sequential", "never", 0, 3};
    static const struct way ways[] = {{1, "sequential", "never", 1 << 30, 0},
                                      {2, "sequential", "always", 1 << 30, 0},
                                      {2, "halo", "never", 1 << 30, 0}};
    struct cluster_result first;
    run(model, data, &plain, &first);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        struct cluster_result planned, other;
        struct way way = ways[w];
        run(model, data, &way, &planned);
        int64_t all = planned.planned[MEMORY_SPILL], least = planned.limit_least - total(planned.planned) + all;
        cr_expect_gt(5 * all, 6 * least, "%s: too small to spill, way %zu: %ld of %ld", model, w, (long)least,
                     (long)all);
        way.limit = planned.limit_least;
        way.epochs = plain.epochs;
        run(model, data, &way, &other);
        compare_expect_same(&first, &other, "%s: way %zu", model, w);
        cr_expect_leq(other.measured[MEMORY_SPILL], other.planned[MEMORY_SPILL], "%s: way %zu", model, w);
        cr_expect_geq(10 * other.measured[MEMORY_SPILL], 9 * other.planned[MEMORY_SPILL], "%s: way %zu: %ld of %ld",
                      model, w, (long)other.measured[MEMORY_SPILL], (long)other.planned[MEMORY_SPILL]);
        cr_expect_leq(total(other.planned), way.limit);
        cluster_release(&planned);
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(spill, gcn_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 128\nlayers = 3\ndropout = 0.5\nnorm = \"batch\"", symmetric);
}

Test(spill, a_maximum_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = \"sage\"\naggregator = \"max\"\nhidden = 64\nlayers = 3\ndropout = 0.2", directed);
}

Test(spill, gat_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = \"gat\"\nhidden = 32\nheads = 4\nlayers = 3\nresidual = true\ndropout = 0.3\n"
                     "attention_dropout = 0.4",
                     directed);
}

Test(spill, gatv2_and_layer_norm_give_the_bits_that_they_give_in_memory)
{
    expect_same_bits("kind = \"gatv2\"\nhidden = 32\nheads = 2\nlayers = 3\nnorm = \"layer\"", symmetric);
}

Test(spill, gin_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = \"gin\"\nhidden = 64\nlearn_eps = true\ndropout = 0.5\ninput_dropout = 0.2", symmetric);
}

Test(spill, rgcn_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = \"rgcn\"\nbases = 3\nhidden = 64\nlayers = 3\nresidual = true\ndropout = 0.3", directed);
}

Test(spill, embeddings_stay_in_memory_and_give_the_same_bits, .fini = folder_remove)
{
    char data[256];
    folder_make();
    typed_folder_write(folder_path("data"), &(struct typed_folder){.n_node = 4000, .n_edge = 16000});
    snprintf(data, sizeof data, "path = \"%s\"", folder_path("data"));
    expect_same_bits("kind = \"rgcn\"\nhidden = 64\nlayers = 3\ndropout = 0.3\ninput_dropout = 0.3", data);
}

Test(spill, labels_as_input_and_jumping_knowledge_give_the_bits_that_they_give_in_memory)
{
    expect_same_bits("kind = \"sage\"\nhidden = 64\nlayers = 3\njumping_knowledge = \"max\"\nlabel_input = true\n"
                     "label_rate = 0.3\ndropout = 0.5",
                     symmetric);
}

/* By the kernel's count of the process's pages. */
Test(spill, a_job_with_activations_of_three_times_the_limit_stays_within_it_and_changes_no_bit)
{
    const char *model = "kind = \"sage\"\nhidden = 192\nlayers = 4\ndropout = 0.5";
    char data[128];
    snprintf(data, sizeof data, "generator = \"sbm\"\nnodes = %d\ndegree = 4\nclasses = 5\nfeatures = 64",
             SANITIZED ? 20000 : 40000);
    struct way way = {1, "sequential", "never", 0, 3};
    struct cluster_result plain, spilled;
    run(model, data, &way, &plain);
    way.limit = plain.planned[MEMORY_ACTIVATIONS] / 3;
    run(model, data, &way, &spilled);
    compare_expect_same(&plain, &spilled, "%s", model);
    cr_expect_leq(total(spilled.planned), way.limit);
    cr_expect_leq(spilled.measured[MEMORY_SPILL], spilled.planned[MEMORY_SPILL]);
    cr_expect_geq(10 * spilled.measured[MEMORY_SPILL], 9 * spilled.planned[MEMORY_SPILL]);
#if !defined(__SANITIZE_ADDRESS__)
    cr_expect_gt(spilled.resident, way.limit / 2);
    cr_expect_leq(10 * spilled.resident, 11 * way.limit, "%ld bytes resident, the limit is %lld",
                  (long)spilled.resident, way.limit);
    cr_expect_gt(plain.resident, 5 * way.limit / 2, "%ld bytes resident without, the limit is %lld",
                 (long)plain.resident, way.limit);
#endif
    cluster_release(&plain);
    cluster_release(&spilled);
}

/* 28.9 KB before chains were fused and payloads gathered; each array written once and read once per use is 7.0. */
Test(spill, an_epoch_moves_little_more_than_each_array_once_for_each_use)
{
    const int64_t n_node = 40000,
                  limit = 938 * n_node + 2900000; /* a 2.4th of the activations, beside the parameters */
    char text[1024];
    snprintf(text, sizeof text,
             "[dataset]\ngenerator = \"sbm\"\nnodes = %ld\ndegree = 30\nclasses = 8\nfeatures = "
             "64\n[partition]\nparts = 8\n"
             "method = \"block\"\ncache = \"off\"\n[model]\nkind = \"sage\"\nhidden = 128\nlayers = 3\ndropout = "
             "0.0\n[train]\n"
             "epochs = 3\n[memory]\nrecompute = \"never\"\nlimit = %ld\nspill = \"%s\"\n",
             (long)n_node, (long)limit, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    struct cluster_result spilled;
    cluster_run(text, &spilled);
    cr_assert_eq(spilled.exit_code, 0);
    cr_expect_leq(total(spilled.planned), limit);
    double moved = (double)spilled.moved / (double)n_node;
    cr_expect(moved > 1000.0 && moved <= 14150.0, "%.0f bytes per node and epoch", moved);
    cluster_release(&spilled);
}
