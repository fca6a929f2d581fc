/* What a job's results depend on, by rounding alone or by more: windows, parts, devices; features and weights of edges; the objective. Memory
 * that recomputing saves. */
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>

TestSuite(results, .init = folder_make, .fini = folder_remove);

/* Sums over rows in another order: many windows of rows against one; parts cut rows' edges into other blocks. */
static void expect_near(const struct task *a, const struct way *way_a, const struct task *b, const struct way *way_b)
{
    struct cluster_result one, other;
    compare_run(a, way_a, &one);
    compare_run(b, way_b, &other);
    compare_losses(b, 3, &other, &one);
    cr_expect_leq(compare_distance(one.n_weight, other.weights, one.weights), TOLERANCE_ARRAY, "%s", a->model);
    cr_expect_leq(compare_distance(one.n_logit, other.logits, one.logits), TOLERANCE_ARRAY, "%s", a->model);
    cluster_release(&one);
    cluster_release(&other);
}

static const struct way cpu = {.device = &device_cpu}, two = {.workers = 2, .device = &device_cpu},
                        three = {.workers = 3, .device = &device_cpu}, reference = {.device = &device_reference};
#define SGD "optimizer = 'sgd'\nlr = 0.1"

Test(results, windows_of_rows_change_rounding_alone)
{
    static const char *const models[] = {
        "kind = 'sage'\nhidden = 32\ndropout = 0.5\nlayers = 3\nnorm = 'layer'\nresidual = true",
        "kind = 'gat'\nhidden = 8\nheads = 3\ndropout = 0.4\nlayers = 3",
        "kind = 'gin'\nhidden = 16\nlearn_eps = true\nnorm = 'batch'\nactivation = 'gelu'"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const struct task task = {
            .data = data_graphs[0], .model = models[m], .partition = "parts = 2", .train = SGD, .epochs = 3};
        expect_near(&task, &compare_plain, &task, &cpu);
    }
}

Test(results, batch_norm_takes_its_statistics_over_all_nodes_for_any_number_of_parts)
{
    struct task one = {.data = data_graphs[0],
                       .model = "kind = 'sage'\nhidden = 16\nlayers = 3\nnorm = 'batch'",
                       .partition = "parts = 1",
                       .train = SGD,
                       .epochs = 5},
                eight = one;
    eight.partition = "parts = 8\nmethod = 'random'";
    expect_near(&one, &cpu, &eight, &three);
}

static const char *const attention[] = {
    "kind = 'gat'\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4",
    "kind = 'gatv2'\nhidden = 8\nheads = 3\nlayers = 3\nattention_dropout = 0.4",
    "kind = 'transformer'\nhidden = 8\nheads = 3\ninput_dropout = 0.3\nattention_dropout = 0.4"};

Test(results, parts_devices_and_rows_left_out_change_attention_over_edges_features_by_rounding_alone)
{
    const char *data = data_write(&(struct data_folder){.has_edge_features = true, .is_far = true}, true);
    for (size_t m = 0; m < 3; m++) {
        struct task four = {.data = data, .model = attention[m], .train = SGD "\nprune = 'never'"}, other = four;
        expect_near(&four, &cpu, &four, &reference);
        other.train = SGD "\nprune = 'always'";
        expect_near(&four, &cpu, &other, &cpu);
        other = four;
        other.partition = "parts = 1";
        expect_near(&four, &cpu, &other, &cpu);
        other.partition = "parts = 8\nmethod = 'random'";
        expect_near(&four, &cpu, &other, &two);
    }
}

Test(results, rows_left_out_change_sums_of_weighted_edges_by_rounding_alone)
{
    const char *data = data_write(&(struct data_folder){.has_weights = true, .is_far = true}, true);
    for (int m = 0; m < 2; m++) {
        const struct task all = {.data = data,
                                 .model = m == 0 ? "kind = 'gcn'\nlayers = 3" : "kind = 'sage'",
                                 .train = SGD "\nprune = 'never'"};
        struct task pruned = all;
        pruned.train = SGD "\nprune = 'always'";
        expect_near(&all, &cpu, &pruned, &two);
    }
}

Test(results, features_and_weights_of_edges_change_the_result)
{
    const char *bare = data_write(&(struct data_folder){0}, true);
    const char *features = data_write(&(struct data_folder){.has_edge_features = true}, true);
    const char *weights = data_write(&(struct data_folder){.has_weights = true}, true);
    static const char *const sums[] = {"kind = 'gcn'", "kind = 'sage'", "kind = 'gin'"};
    for (int m = 0; m < 3; m++) {
        compare_differ(&(struct task){.data = bare, .model = attention[m]},
                       &(struct task){.data = features, .model = attention[m]});
        compare_differ(&(struct task){.data = bare, .model = sums[m]},
                       &(struct task){.data = weights, .model = sums[m]});
    }
}

Test(results, objectives_change_the_result)
{
    static const char gcn[] = "kind = 'gcn'\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = 'batch'";
    static const char several[] =
        "generator = 'sbm'\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24\nlabels_per_node = 2";
    const char *numbers = data_write(&(struct data_folder){.has_numbers = true}, false);
    const struct {
        const char *data, *train[2];
    } pairs[] = {{data_graphs[0],
                  {"optimizer = 'sgd'\nmomentum = 0.9\nclip_norm = 0.01", "optimizer = 'sgd'\nmomentum = 0.9"}},
                 {data_graphs[0], {"label_smoothing = 0.2", ""}},
                 {data_graphs[0], {"class_weights = 'balanced'", ""}},
                 {several, {"class_weights = 'balanced'", ""}},
                 {numbers, {"loss = 'huber'", "loss = 'mse'"}}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        compare_differ(&(struct task){.data = pairs[i].data, .model = gcn, .train = pairs[i].train[0]},
                       &(struct task){.data = pairs[i].data, .model = gcn, .train = pairs[i].train[1]});
    }
}

/* Recompute nothing, everything, and with `auto` what a limit forces: a quarter of the way from the plan of all recomputed to that of nothing
 * recomputed. */
static void expect_saved(const char *model, const char *data)
{
    const struct task task = {.data = data, .model = model};
    static const char *const hows[] = {"never", "always", "auto"};
    struct cluster_result result[3];
    int64_t limit = 0;
    for (int i = 0; i < 3; i++) {
        const struct way way = {.workers = 2, .prefetch = 1, .recompute = hows[i], .limit = limit};
        compare_run(&task, &way, &result[i]);
        compare_same(&task, &way, &result[0], &result[i]);
        limit = i == 1 ? (memory_sum(result[0].planned) + 3 * memory_sum(result[1].planned)) / 4 : 0;
    }
    int64_t never = result[0].planned[MEMORY_ACTIVATIONS], always = result[1].planned[MEMORY_ACTIVATIONS];
    cr_expect_lt(always, never, "%s", model);
    cr_expect_lt(result[2].planned[MEMORY_ACTIVATIONS], never, "%s: as much as without a limit", model);
    cr_expect_geq(result[2].planned[MEMORY_ACTIVATIONS], always);
    for (int i = 0; i < 3; i++) {
        cluster_release(&result[i]);
    }
}

Test(results, recomputed_values_have_the_bits_of_saved_ones_and_take_no_memory)
{
    expect_saved("kind = 'gcn'\nhidden = 48\nlayers = 4\ndropout = 0.5\ninput_dropout = 0.3\nnorm = 'layer'\n"
                 "residual = true",
                 data_graphs[0]);
    expect_saved("kind = 'sage'\nhidden = 16\nlayers = 5\ndropout = 0.5\nresidual = true", data_graphs[1]);
    expect_saved("kind = 'gin'\nhidden = 16\nlayers = 3\ndropout = 0.5\nlearn_eps = true\nnorm = 'batch'",
                 data_graphs[0]);
    expect_saved("kind = 'gat'\nhidden = 8\nheads = 3\nlayers = 3\ndropout = 0.4\nattention_dropout = 0.4",
                 data_graphs[0]);
    expect_saved("kind = 'agnn'\nhidden = 16\nsteps = 3\nlayers = 3\ndropout = 0.4\nnorm = 'layer'", data_graphs[0]);
    expect_saved("kind = 'gatv2'\nhidden = 8\nheads = 3\nlayers = 3\ndropout = 0.4\nattention_dropout = 0.4",
                 data_graphs[1]);
    expect_saved("kind = 'rgcn'\nhidden = 16\nlayers = 3\ndropout = 0.3\ninput_dropout = 0.4\nbases = 2",
                 data_typed("typed", 0, 4, false, false));
}
