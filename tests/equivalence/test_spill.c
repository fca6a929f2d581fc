/* A job that spills gives the bits of the same job in memory, and stays within its limit. */
#include "tests/equivalence/compare.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define PARTS(n) "parts = " #n "\nmethod = 'block'"

#define GRAPH_OF_DEGREE(n) "generator = 'sbm'\nnodes = 40000\ndegree = " #n "\nclasses = 8\nfeatures = 64"

static const char symmetric[] = "generator = 'sbm'\nnodes = 4000\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = 'rmat'\nnodes = 4096\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = 'no'";

/* In the least memory that a step needs, so that hardly any array stays in memory from one step to the next. */
static void expect_same_bits(const char *model, const char *data)
{
    static const struct way ways[] = {
        {.prefetch = 1, .spills = true, .device = &device_cpu},
        {.workers = 2, .prefetch = 1, .recompute = "always", .spills = true, .device = &device_cpu},
        {.workers = 2, .prefetch = 1, .is_halo = true, .spills = true, .device = &device_cpu}};
    struct task task = {.data = data, .model = model, .partition = PARTS(16), .epochs = 3};
    const struct way plain = {.prefetch = 1, .device = &device_cpu};
    struct cluster_result first, roomy, other;
    compare_run(&task, &plain, &first);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w, sizeof ways / sizeof *ways)) {
            continue;
        }
        struct way way = ways[w];
        way.limit = 1 << 30;
        task.epochs = COMPARE_NO_EPOCH;
        compare_run(&task, &way, &roomy);
        int64_t all = roomy.planned[MEMORY_SPILL], least = roomy.limit_least - memory_sum(roomy.planned) + all;
        cr_expect_gt(5 * all, 6 * least, "%s: too small to spill, way %zu: %ld of %ld", model, w, (long)least,
                     (long)all);
        task.epochs = 3;
        way.limit = roomy.limit_least;
        compare_run(&task, &way, &other);
        compare_same(&task, &way, &first, &other);
        cr_expect_geq(10 * other.measured[MEMORY_SPILL], 9 * other.planned[MEMORY_SPILL], "%s: way %zu: %ld of %ld",
                      model, w, (long)other.measured[MEMORY_SPILL], (long)other.planned[MEMORY_SPILL]);
        cr_expect_leq(memory_sum(other.planned), way.limit);
        cluster_release(&roomy);
        cluster_release(&other);
    }
    cluster_release(&first);
}

/* Other layers spill in test_bits.c, where an array is small. */
Test(spill, sums_and_batch_norm_give_the_bits_that_they_give_in_memory)
{
    expect_same_bits("kind = 'gcn'\nhidden = 128\nlayers = 3\ndropout = 0.5\nnorm = 'batch'", symmetric);
}

Test(spill, attention_gives_the_bits_that_it_gives_in_memory)
{
    expect_same_bits("kind = 'gat'\nhidden = 32\nheads = 4\nlayers = 3\nresidual = true\ndropout = 0.3\n"
                     "attention_dropout = 0.4",
                     directed);
}

Test(spill, embeddings_stay_in_memory_and_give_the_same_bits, .fini = folder_remove)
{
    char data[256];
    folder_make();
    typed_folder_write(folder_path("data"), &(struct typed_folder){.n_node = 4000, .n_edge = 16000});
    snprintf(data, sizeof data, "path = '%s'", folder_path("data"));
    expect_same_bits("kind = 'rgcn'\nhidden = 64\nlayers = 3\ndropout = 0.3\ninput_dropout = 0.3", data);
}

/* By the kernel's count of the process's pages. */
Test(spill, a_job_with_activations_of_three_times_the_limit_stays_within_it_and_changes_no_bit)
{
    const struct task task = {.data = "generator = 'sbm'\nnodes = 20000\ndegree = 4\nclasses = 5\nfeatures = 64",
                              .model = "kind = 'sage'\nhidden = 192\nlayers = 4\ndropout = 0.5",
                              .partition = PARTS(16),
                              .epochs = SANITIZED ? 1 : 3};
    struct way way = {.prefetch = 1, .device = &device_cpu};
    struct cluster_result plain, spilled;
    compare_run(&task, &way, &plain);
    way.spills = true;
    way.limit = plain.planned[MEMORY_ACTIVATIONS] / 3;
    compare_run(&task, &way, &spilled);
    compare_same(&task, &way, &plain, &spilled);
    cr_expect_leq(memory_sum(spilled.planned), way.limit);
    cr_expect_geq(10 * spilled.measured[MEMORY_SPILL], 9 * spilled.planned[MEMORY_SPILL]);
#if !defined(__SANITIZE_ADDRESS__)
    cr_expect_gt(spilled.resident, way.limit / 2);
    cr_expect_leq(100 * spilled.resident, 108 * way.limit, "%ld bytes resident, the limit is %ld",
                  (long)spilled.resident, (long)way.limit);
    cr_expect_gt(plain.resident, 5 * way.limit / 2, "%ld bytes resident without, the limit is %ld",
                 (long)plain.resident, (long)way.limit);
#endif
    cluster_release(&plain);
    cluster_release(&spilled);
}

/* Which blocks of a hop have edges is known while they are not in memory. */
Test(spill, pruned_parts_that_a_cover_was_made_for_give_the_bits_that_they_give_in_memory)
{
    const struct task task = {
        .data = "generator = 'rmat'\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = 'no'",
        .model = "kind = 'gin'\nhidden = 16\nlearn_eps = true\nlayers = 3",
        .partition = "parts = 11\nmethod = 'random'"};
    const struct way plain = {.prefetch = 1, .device = &device_cpu},
                     spilled = {.prefetch = 1, .spills = true, .device = &device_cpu};
    struct cluster_result first, other;
    compare_run(&task, &plain, &first);
    compare_run(&task, &spilled, &other);
    compare_same(&task, &spilled, &first, &other);
    cluster_release(&other);
    cluster_release(&first);
}

/* Limits are a 2.4th of the activations (`width` floats a node) beside the parameters and the process; of GAT more, for its steps need it.
 * Once for each use less what is still in memory from the step before, and more for other parts' rows that come by again. 1.02 and 1.33
 * times where each part reads them for itself. */
Test(spill, an_epoch_moves_no_more_than_each_array_once_for_each_use)
{
    static const struct {
        const char *model;
        int64_t width;
    } jobs[] = {{"kind = 'sage'\nhidden = 128\nlayers = 3\ndropout = 0.0", 563},
                {"kind = 'gcn'\nhidden = 128\nlayers = 3\ndropout = 0.5", 480},
                {"kind = 'gat'\nhidden = 16\nheads = 4\nlayers = 3\ndropout = 0.5", 1000}};
    for (size_t m = 0; m < (SANITIZED ? 1 : sizeof jobs / sizeof *jobs); m++) {
        const struct task task = {.data = SANITIZED ? GRAPH_OF_DEGREE(4) : GRAPH_OF_DEGREE(30),
                                  .model = jobs[m].model,
                                  .train = "",
                                  .partition = PARTS(8),
                                  .epochs = 3};
        const struct way way = {.prefetch = 1,
                                .threads = 2,
                                .spills = true,
                                .limit = jobs[m].width * 4 * 40000 * 10 / 24 + 2900000 + MEMORY_PROCESS_RESIDENT,
                                .device = &device_cpu};
        struct cluster_result spilled;
        compare_run(&task, &way, &spilled);
        cr_expect_leq(memory_sum(spilled.planned), way.limit - MEMORY_PROCESS_RESIDENT);
        double times = (double)spilled.moved / (double)spilled.used;
        cr_expect(times > 0.5 && times <= 0.95, "%s: %.2f times (%.0f bytes a node)", jobs[m].model, times,
                  (double)spilled.moved / 40000.0);
        cluster_release(&spilled);
    }
}
