/* A pruned epoch, which leaves out rows that its loss does not depend on, gives the results of all rows up to rounding. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>

TestSuite(prune, .init = folder_make, .fini = folder_remove);

static const char *const parts[] = {"parts = 4\nmethod = 'random'", "parts = 1", "parts = 5\nmethod = 'random'",
                                    "parts = 3\nmethod = 'random'"};
#define SGD "optimizer = 'sgd'\nlr = 0.02\n"

/* Against all rows: with one part and with several, on either device. One node in a hundred is trained on; some parts have none. */
static void expect_same_results(const char *model, const char *data)
{
    static const struct way ways[] = {
        {.recompute = "auto", .device = &device_cpu},
        {.recompute = "auto", .device = &device_cpu},
        {.workers = 2, .prefetch = 1, .recompute = "auto", .device = &device_cpu},
        {.workers = 2, .prefetch = 1, .is_halo = true, .recompute = "always", .device = &device_reference}};
    struct task task = {.data = data, .model = model, .partition = parts[0], .train = SGD "prune = 'never'"};
    struct cluster_result all, pruned;
    compare_run(&task, &ways[0], &all);
    cr_expect_eq(all.left_out, 0.0);
    task.train = SGD "prune = 'always'";
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w - 1, sizeof ways / sizeof *ways - 1)) {
            continue;
        }
        task.partition = parts[w];
        compare_run(&task, &ways[w], &pruned);
        cr_expect_gt(pruned.left_out, 0.05, "%s: %.3f of the work left out", model, pruned.left_out);
        compare_losses(&task, COMPARE_EPOCHS, &pruned, &all);
        double apart = compare_distance(all.n_weight, pruned.weights, all.weights);
        cr_expect_leq(apart, TOLERANCE_ARRAY, "%s: way %zu: weights are %.1e apart", model, w, apart);
        apart = compare_distance(all.n_logit, pruned.logits, all.logits);
        cr_expect_leq(apart, TOLERANCE_ARRAY, "%s: way %zu: logits are %.1e apart", model, w, apart);
        cluster_release(&pruned);
    }
    cluster_release(&all);
}

/* One of each way in which rows are summed; other models and settings are tests/property's. Statistics of batch norm are over all nodes: layers
 * before it compute all rows, layers after it are pruned. */
Test(prune, every_model_gives_the_results_of_all_rows)
{
    static const char *const models[] = {
        "kind = 'gcn'\nhidden = 16\ndropout = 0.5\ninput_dropout = 0.3",
        "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true",
        "kind = 'sage'\naggregator = 'max'\nhidden = 16\ndropout = 0.2",
        "kind = 'rgcn'\nbases = 3\nhidden = 9\nresidual = true",
        "kind = 'gat'\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4",
        "kind = 'transformer'\nhidden = 8\nheads = 3\ndropout = 0.4",
        "kind = 'gcn'\nhidden = 16\nlayers = 3\ndropout = 0.5\njumping_knowledge = 'max'",
        "kind = 'gcn'\nhidden = 16\nlayers = 2\nlabel_input = true\nlabel_rate = 0.3",
        "kind = 'sage'\nhidden = 16\nlayers = 3\nnorm = 'batch'",
        "kind = 'gat'\nheads = 2\nhidden = 8\nlayers = 2\nnorm = 'batch'"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        expect_same_results(models[m], data_few[m % 2]);
    }
}

Test(prune, auto_prunes_where_that_saves_a_tenth_of_the_work_and_changes_no_bit_elsewhere)
{
    static const char *const trains[] = {SGD "prune = 'auto'", SGD "prune = 'always'", SGD "prune = 'never'"};
    static const char many[] =
        "generator = 'sbm'\nnodes = 900\ndegree = 8\nclasses = 5\nfeatures = 24\ntrain_share = 0.9";
    struct task task = {.model = "kind = 'gcn'\nhidden = 16\nlayers = 3"};
    struct cluster_result with_few[3], with_many[3];
    for (int i = 0; i < 3; i++) {
        task.train = trains[i];
        task.data = data_few[0];
        compare_run(&task, &compare_plain, &with_few[i]);
        task.data = many;
        compare_run(&task, &compare_plain, &with_many[i]);
    }
    cr_expect_gt(with_few[0].left_out, 0.1);
    cr_expect_eq(with_few[0].left_out, with_few[1].left_out);
    compare_same(&task, &compare_plain, &with_few[1], &with_few[0]);
    cr_expect_lt(with_few[1].planned[MEMORY_ACTIVATIONS], with_few[2].planned[MEMORY_ACTIVATIONS],
                 "gradients have fewer rows");
    cr_expect(with_many[1].left_out > 0.0 && with_many[1].left_out <= 0.1, "%.3f left out", with_many[1].left_out);
    cr_expect_eq(with_many[0].left_out, 0.0);
    compare_same(&task, &compare_plain, &with_many[2], &with_many[0]);
    for (int i = 0; i < 3; i++) {
        cluster_release(&with_few[i]);
        cluster_release(&with_many[i]);
    }
}

/* --- merged blocks --- */

/* The cpu, where blocks with a row of more edges come one by one; 0: all do. */
static const struct device_ops *merging(int64_t most_edges)
{
    static struct device_ops ops[2];
    ops[most_edges > 0] = *compare_narrow_cpu();
    ops[most_edges > 0].merged_edges = most_edges;
    return &ops[most_edges > 0];
}

/* One worker merges the blocks of each hop, and of all rows for evaluations; the job has the bits that it has without, and with
 * several workers. */
static void expect_merged_bits(const struct task *task)
{
    const struct way ways[] = {{.threads = 2, .recompute = "always"},
                               {.device = merging(9)},
                               {.workers = 2, .is_halo = true},
                               {.workers = 4, .prefetch = 1}};
    const struct way one_by_one = {.device = merging(0)};
    struct cluster_result want, merged;
    compare_run(task, &one_by_one, &want);
    compare_run(task, &compare_plain, &merged);
    cr_expect_gt(merged.left_out, 0.0);
    cr_expect_neq(merged.planned[MEMORY_STRUCTURE], want.planned[MEMORY_STRUCTURE], "%s: nothing is merged",
                  task->model);
    compare_same(task, &one_by_one, &want, &want);
    compare_same(task, &compare_plain, &want, &merged);
    cluster_release(&want);
    cluster_release(&merged);
    compare_ways(task, &compare_plain, ways, sizeof ways / sizeof *ways);
}

Test(prune, one_worker_that_merges_blocks_of_rows_that_count_changes_no_bit)
{
    static const char *const models[] = {
        "kind = 'gcn'\nhidden = 17\nlayers = 3\ndropout = 0.5",
        "kind = 'sage'\nhidden = 16\nlayers = 4\nresidual = true",
        "kind = 'gcnii'\nhidden = 9\nlayers = 3",
        "kind = 'gcn'\nhidden = 8\nlayers = 4\nnorm = 'batch'\njumping_knowledge = 'concat'",
        "kind = 'gin'\nhidden = 12\nlayers = 3\nlearn_eps = true",
        "kind = 'appnp'\nhidden = 16\nsteps = 4"};
    static const char *const cuts[] = {"parts = 24\nmethod = 'random'", "parts = 7\nmethod = 'random'",
                                       "parts = 61\nmethod = 'block'"};
    /* Of sparse features all rows are computed; gradients of those that do not count are zero. */
    static const char far[] = "generator = 'rmat'\nnodes = 1024\ndegree = 3\nclasses = 4\nfeatures = "
                              "'one_hot'\nundirected = 'no'\ntrain_share = 0.01";
    const struct data_folder sparse = {.is_sparse = true, .is_far = true},
                             weighted = {.has_weights = true, .is_far = true};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const char *data[] = {data_few[0], data_few[1], far, data_write(&sparse, m % 2 == 0),
                              data_write(&weighted, m % 2 == 1)};
        for (size_t g = 0; g < sizeof data / sizeof *data; g++) {
            if (ways_skip(g, SANITIZED ? sizeof data / sizeof *data : 1)) {
                continue;
            }
            struct task task = {.data = data[g],
                                .model = models[m],
                                .exchange = (m + g / 2) % 2 == 0 ? "cover = true" : "cover = false",
                                .train = SGD "prune = 'always'",
                                .partition = cuts[(m + g) % 3]};
            expect_merged_bits(&task);
        }
    }
}
