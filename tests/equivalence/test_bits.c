/* The same job gives the same bits for any number of workers and threads, either schedule, any prefetch depth. */
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"
#include "worker/plan/memory_plan.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

/* How a job is run; none of it may change a bit. */
struct way {
    int workers, threads, prefetch;
    const char *schedule;
    bool strict; /* on the device whose memory the host cannot touch */
};

static const struct way ways[] = {
    {1, 1, 1, "sequential", false}, {1, 2, 1, "halo", false},       {2, 1, 0, "sequential", false},
    {2, 2, 1, "sequential", false}, {2, 1, 3, "sequential", false}, {2, 1, 1, "halo", false},
    {4, 2, 3, "sequential", false}, {4, 1, 1, "halo", false},       {1, 1, 1, "sequential", true},
    {2, 1, 1, "sequential", true},  {3, 2, 0, "sequential", true},  {4, 1, 1, "halo", true},
};

static void run(const char *model, const char *data, const struct way *way, int epochs, struct cluster_result *out)
{
    char text[2048];
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\nlr = 0.01\nweight_decay = 5e-4\n[exchange]\nschedule = \"%s\"\nprefetch = %d\n[workers]\n"
             "count = %d\nthreads = %d\n",
             data, model, epochs, way->schedule, way->prefetch, way->workers, way->threads);
    cluster_device = way->strict ? &device_strict : compare_narrow_cpu();
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d threads %d prefetch %d %s%s: exit %d", model, way->workers,
                 way->threads, way->prefetch, way->schedule, way->strict ? " strict" : "", out->exit_code);
}

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 512\ndegree = 6\nclasses = 4\nfeatures = 9\nundirected = \"no\"";

static void expect_equal(const char *model, const struct way *way, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    char how[512];
    snprintf(how, sizeof how, "%s: workers %d, threads %d, prefetch %d, %s%s", model, way->workers, way->threads,
             way->prefetch, way->schedule, way->strict ? ", strict" : "");
    compare_expect_same(first, other, "%s", how);
    compare_expect_planned(other, "%s", how);
}

static void expect_same_bits(const char *model, const char *data)
{
    struct cluster_result first;
    run(model, data, &ways[0], EPOCHS, &first);
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++) {
        if (compare_skips(w - 1, sizeof ways / sizeof *ways - 1, ways[w].strict)) {
            continue;
        }
        struct cluster_result other;
        run(model, data, &ways[w], EPOCHS, &other);
        expect_equal(model, &ways[w], &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

/* Many windows against one: sums over rows in another order. */
static void expect_windows_round_alone(const char *model)
{
    const struct device_ops *devices[2] = {compare_narrow_cpu(), &device_cpu};
    struct cluster_result result[2];
    for (int i = 0; i < 2; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "[dataset]\n%s\n[partition]\nparts = 2\ncache = \"off\"\n[model]\n%s\n[train]\nepochs = 3\n",
                 symmetric, model);
        cluster_device = devices[i];
        cluster_run(text, &result[i]);
        cr_assert_eq(result[i].exit_code, 0);
    }
    for (int e = 0; e < 3; e++) {
        cr_expect_float_eq(result[0].loss[e], result[1].loss[e], TOLERANCE_LOSS * result[1].loss[e],
                           "%s: epoch %d: %.9g, %.9g", model, e, result[0].loss[e], result[1].loss[e]);
    }
    cluster_release(&result[0]);
    cluster_release(&result[1]);
}

Test(bits, windows_of_rows_change_rounding_alone)
{
    expect_windows_round_alone(
        "kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nnorm = \"layer\"\nresidual = true");
    expect_windows_round_alone("kind = \"gat\"\nhidden = 8\nheads = 3\ndropout = 0.4\nlayers = 3");
    expect_windows_round_alone(
        "kind = \"gin\"\nhidden = 16\nlearn_eps = true\nnorm = \"batch\"\nactivation = \"gelu\"");
}

/* workers 1, 2, 4 × threads 1, 2 × prefetch 0, 1, 3 × both schedules */
Test(bits, all_36_combinations_of_workers_threads_prefetch_and_schedule_give_the_same_bits)
{
    static const int workers[] = {1, 2, 4}, prefetches[] = {0, 1, 3};
    const char *model = "kind = \"gcn\"\nhidden = 16\ndropout = 0.5";
    struct cluster_result first;
    run(model, symmetric, &ways[0], EPOCHS, &first);
    for (int i = 0; i < 36; i++) {
        if (sanitized_leaves_out() && i % 5 != 0) { /* some of each */
            continue;
        }
        struct way way = {workers[i % 3], 1 + i / 3 % 2, prefetches[i / 6 % 3], i < 18 ? "sequential" : "halo",
                          false};
        struct cluster_result other;
        run(model, symmetric, &way, EPOCHS, &other);
        expect_equal(model, &way, &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(bits, gcn_with_dropout_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ndropout = 0.5\ninput_dropout = 0.3", symmetric);
}

Test(bits, gcn_on_a_directed_graph_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ndropout = 0.5\nlayers = 3\nnorm = \"layer\"", directed);
}

Test(bits, sage_mean_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"sage\"\nhidden = 32\ndropout = 0.5\nlayers = 3\nresidual = true", symmetric);
}

Test(bits, sage_max_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"sage\"\naggregator = \"max\"\nhidden = 16\ndropout = 0.2", directed);
}

Test(bits, gin_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gin\"\nhidden = 16\nlearn_eps = true\ndropout = 0.5", symmetric);
}

Test(bits, batch_norm_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"\nresidual = true",
                     symmetric);
    expect_same_bits("kind = \"sage\"\nhidden = 16\nlayers = 3\nnorm = \"batch\"", directed);
    expect_same_bits(
        "kind = \"gat\"\nheads = 2\nhidden = 8\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.3\nnorm = \"batch\"",
        symmetric);
}

Test(bits, rgcn_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"rgcn\"\nhidden = 16\ndropout = 0.3\nnorm = \"batch\"", symmetric);
    expect_same_bits("kind = \"rgcn\"\nbases = 3\nhidden = 9\nlayers = 3\nresidual = true", directed);
    expect_same_bits("kind = \"rgcn\"\nblocks = 3\nhidden = 18\nlinear_layers = 1", symmetric);
}

/* Text of a [dataset] section over a folder of typed nodes. */
static const char *typed_data(bool is_bare)
{
    static char text[256];
    folder_make();
    typed_folder_write(folder_path("data"),
                       &(struct typed_folder){.n_node = 400, .n_edge = 3000, .is_bare = is_bare});
    snprintf(text, sizeof text, "path = \"%s\"", folder_path("data"));
    return text;
}

Test(bits, embeddings_are_the_same_however_the_job_is_run, .fini = folder_remove)
{
    const char *data = typed_data(false);
    expect_same_bits("kind = \"rgcn\"\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4\nnorm = \"batch\"", data);
    expect_same_bits("kind = \"sage\"\nhidden = 9\nlayers = 3\nresidual = true\ninput_dropout = 0.2", data);
}

Test(bits, rows_of_nodes_own_are_the_same_however_the_job_is_run, .fini = folder_remove)
{
    const char *data = typed_data(true);
    expect_same_bits(
        "kind = \"rgcn\"\nembedding = false\nhidden = 16\ndropout = 0.3\ninput_dropout = 0.4\nnorm = \"batch\"",
        data);
    expect_same_bits("kind = \"rgcn\"\nembedding = false\nbases = 3\nhidden = 9\nlayers = 3\nresidual = true", data);
}

static double relative_difference(const float *a, const float *b, int64_t n)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(apart / size);
}

Test(bits, batch_norm_takes_its_statistics_over_all_nodes_for_any_number_of_parts)
{
    struct cluster_result result[2];
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "[dataset]\n%s\n[partition]\nparts = %d\nmethod = \"random\"\ncache = \"off\"\n[model]\nkind = \"sage\"\n"
            "hidden = 16\nlayers = 3\nnorm = \"batch\"\n[train]\nepochs = 5\noptimizer = \"sgd\"\nlr = "
            "0.1\n[workers]\n"
            "count = %d\n",
            symmetric, i == 0 ? 1 : 8, i == 0 ? 1 : 3);
        cluster_run(text, &result[i]);
        cr_assert_eq(result[i].exit_code, 0);
    }
    cr_expect_leq(relative_difference(result[1].weights, result[0].weights, result[0].n_weight), TOLERANCE_ARRAY);
    cr_expect_leq(relative_difference(result[1].logits, result[0].logits, result[0].n_logit), TOLERANCE_ARRAY);
    cluster_release(&result[0]);
    cluster_release(&result[1]);
}

Test(bits, jumping_knowledge_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\nlayers = 3\ndropout = 0.5\njumping_knowledge = \"max\"",
                     symmetric);
    expect_same_bits("kind = \"sage\"\nhidden = 9\nlayers = 3\njumping_knowledge = \"concat\"", directed);
}

Test(bits, labels_as_input_give_the_same_bits_however_the_job_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\nlabel_input = true\nlabel_rate = 0.3\ndropout = 0.5", symmetric);
}

Test(bits, appnp_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"appnp\"\nhidden = 16\nsteps = 4\ndropout = 0.5", symmetric);
}

Test(bits, gcnii_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcnii\"\nhidden = 16\nlayers = 5\ndropout = 0.5\ninput_dropout = 0.3", symmetric);
    expect_same_bits("kind = \"gcnii\"\nhidden = 9\nlayers = 3\nnorm = \"batch\"\nresidual = true", directed);
}

Test(bits, sgc_with_features_aggregated_once_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"sgc\"\nlayers = 1\nsteps = 3", symmetric);
}

Test(bits, gat_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gat\"\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4",
                     symmetric);
    expect_same_bits("kind = \"gat\"\nhidden = 8\nheads = 2\nlayers = 3\nresidual = true\nattention_dropout = 0.4",
                     directed);
}

Test(bits, gatv2_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gatv2\"\nhidden = 8\nheads = 3\ndropout = 0.4\nattention_dropout = 0.4", symmetric);
    expect_same_bits("kind = \"gatv2\"\nhidden = 5\nheads = 2\nout_heads = 2\nattention_dropout = 0.4", directed);
}

Test(bits, transformer_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"transformer\"\nhidden = 8\nheads = 3\ndropout = 0.4\nattention_dropout = 0.4",
                     directed);
}

Test(bits, agnn_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"agnn\"\nhidden = 16\nsteps = 3\ndropout = 0.4\ninput_dropout = 0.4", symmetric);
    expect_same_bits("kind = \"agnn\"\nhidden = 9\nsteps = 2\nlayers = 3\nnorm = \"batch\"\nattention_dropout = 0.3",
                     directed);
}

/* Recompute nothing, everything, and with `auto` what a limit forces: a quarter of the way from the plan of all recomputed to that of
 * none. */
static void expect_same_bits_recomputed(const char *model, const char *data)
{
    static const char *const hows[] = {"never", "always", "auto"};
    struct cluster_result result[3];
    int64_t limit = 0, total[3];
    for (int i = 0; i < 3; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "[dataset]\n%s\n[partition]\nparts = 4\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
                 "epochs = 8\nlr = 0.01\n[workers]\ncount = 2\n[memory]\nrecompute = \"%s\"\nlimit = %lld\n",
                 data, model, hows[i], (long long)limit);
        cluster_device = compare_narrow_cpu(); /* chains with other steps have the same windows */
        cluster_run(text, &result[i]);
        cr_assert_eq(result[i].exit_code, 0, "%s: %s: exit %d", model, hows[i], result[i].exit_code);
        expect_equal(model, &(struct way){.workers = 2, .schedule = hows[i]}, &result[0], &result[i]);
        total[i] = 0;
        for (int c = 0; c < MEMORY_N; c++) {
            total[i] += result[i].planned[c];
        }
        limit = i == 1 ? (total[0] + 3 * total[1]) / 4 : 0;
    }
    int64_t never = result[0].planned[MEMORY_ACTIVATIONS], always = result[1].planned[MEMORY_ACTIVATIONS];
    cr_expect_lt(always, never, "%s", model);
    cr_expect_lt(result[2].planned[MEMORY_ACTIVATIONS], never, "%s: as much as without a limit", model);
    cr_expect_geq(result[2].planned[MEMORY_ACTIVATIONS], always);
    for (int i = 0; i < 3; i++) {
        cluster_release(&result[i]);
    }
}

Test(bits, recomputed_values_have_the_bits_of_saved_ones)
{
    expect_same_bits_recomputed(
        "kind = \"gcn\"\nhidden = 48\nlayers = 4\ndropout = 0.5\ninput_dropout = 0.3\nnorm = \"layer\"\n"
        "residual = true",
        symmetric);
    expect_same_bits_recomputed("kind = \"sage\"\nhidden = 16\nlayers = 5\ndropout = 0.5\nresidual = true", directed);
    expect_same_bits_recomputed(
        "kind = \"gin\"\nhidden = 16\nlayers = 3\ndropout = 0.5\nlearn_eps = true\nnorm = \"batch\"", symmetric);
    expect_same_bits_recomputed(
        "kind = \"gat\"\nhidden = 8\nheads = 3\nlayers = 3\ndropout = 0.4\nattention_dropout = 0.4", symmetric);
    expect_same_bits_recomputed(
        "kind = \"agnn\"\nhidden = 16\nsteps = 3\nlayers = 3\ndropout = 0.4\nnorm = \"layer\"", symmetric);
    expect_same_bits_recomputed(
        "kind = \"gatv2\"\nhidden = 8\nheads = 3\nlayers = 3\ndropout = 0.4\nattention_dropout = 0.4", directed);
}

Test(bits, values_recomputed_from_embeddings_have_the_bits_of_saved_ones, .fini = folder_remove)
{
    expect_same_bits_recomputed(
        "kind = \"rgcn\"\nhidden = 16\nlayers = 3\ndropout = 0.3\ninput_dropout = 0.4\nbases = 2", typed_data(false));
}

/* 4 000 rows of 640 bytes and more, of the second layer, are several pieces; values and keys are in one payload. */
Test(bits, payloads_sent_in_pieces_give_the_bits_of_rows_read_in_place)
{
    static const char large[] = "generator = \"sbm\"\nnodes = 8000\ndegree = 10\nclasses = 4\nfeatures = 8";
    static const char model[] = "kind = \"gat\"\nlayers = 3\nhidden = 40\nheads = 4\nattention_dropout = 0.2";
    static const struct way pieces[] = {
        {1, 2, 1, "sequential", false}, {2, 1, 0, "sequential", false}, {2, 1, 1, "halo", false}};
    struct cluster_result result[3];
    for (int i = 0; i < 3; i++) {
        run(model, large, &pieces[i], 2, &result[i]);
        expect_equal(model, &pieces[i], &result[0], &result[i]);
    }
    cr_expect_gt(result[2].planned[MEMORY_PAYLOADS], 4 * MEMORY_PACK_BYTES, "no payload is larger than a piece");
    for (int i = 0; i < 3; i++) {
        cluster_release(&result[i]);
    }
}

/* Rows that several parts of a worker take travel once: 11 parts on 2, 3 and 4 workers, round robin, so that most come by twice. */
static void expect_same_bits_shared(const char *model, const char *data, const char *prune, const char *exchange)
{
    static const struct way shared_ways[] = {{1, 2, 1, "sequential", false},
                                             {2, 1, 0, "sequential", false},
                                             {3, 1, 2, "sequential", true},
                                             {4, 1, 1, "halo", false}};
    struct cluster_result result[4] = {0};
    for (size_t w = 0; w < 4; w++) {
        if (w > 0 && ways_skip(w - 1, 3)) {
            continue;
        }
        const struct way *way = &shared_ways[w];
        char text[2048];
        snprintf(
            text, sizeof text,
            "[dataset]\n%s\n[partition]\nparts = 11\nmethod = \"random\"\ncache = "
            "\"off\"\n[model]\n%s\n[train]\nepochs = 4\n"
            "prune = \"%s\"\n[exchange]\n%s\nschedule = \"%s\"\nprefetch = %d\n[workers]\ncount = %d\nthreads = %d\n",
            data, model, prune, exchange, way->schedule, way->prefetch, way->workers, way->threads);
        cluster_device = way->strict ? &device_strict : compare_narrow_cpu();
        cluster_run(text, &result[w]);
        cr_assert_eq(result[w].exit_code, 0, "%s, %s: workers %d: exit %d", model, exchange, way->workers,
                     result[w].exit_code);
        expect_equal(model, way, &result[0], &result[w]);
    }
    for (int w = 0; w < 4; w++) {
        cluster_release(&result[w]);
    }
}

Test(bits, rows_that_parts_of_a_worker_share_change_no_bit)
{
    static const char *const models[] = {"kind = \"sage\"\nlayers = 3\nhidden = 12\ndropout = 0.3",
                                         "kind = \"gat\"\nhidden = 8\nheads = 2\nattention_dropout = 0.3",
                                         "kind = \"gatv2\"\nhidden = 8\nheads = 2"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        expect_same_bits_shared(models[m], symmetric, "never", "");
        expect_same_bits_shared(models[m], directed, "always", "");
    }
}

/* Each part picks its own rows out of those that came, where they are sampled, coded, or counted by places. */
Test(bits, rows_that_parts_of_a_worker_pick_out_of_shared_ones_change_no_bit)
{
    static const char max[] = "kind = \"sage\"\naggregator = \"max\"\nlayers = 3\nhidden = 12\ndropout = 0.3";
    static const char *const models[] = {"kind = \"sage\"\nlayers = 3\nhidden = 12\ndropout = 0.3",
                                         "kind = \"gat\"\nhidden = 7\nheads = 2\nattention_dropout = 0.3",
                                         "kind = \"gatv2\"\nhidden = 8\nheads = 2", max};
    static const char *const exchanges[] = {"sampling = 0.3", "codec = \"int4\"\nerror_feedback = true",
                                            "sampling = 0.3\ncodec = \"int8, fp32@2\"\nguard_every = 2"};
    expect_same_bits_shared(max, symmetric, "never", "");
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        expect_same_bits_shared(models[m], symmetric, "never", exchanges[m % 3]);
        expect_same_bits_shared(models[m], directed, "always", exchanges[(m + 1) % 3]);
    }
}

Test(bits, the_reference_device_gives_the_same_bits_on_one_worker_and_two)
{
    struct cluster_result one, two;
    char data[256];
    snprintf(data, sizeof data, "%s", symmetric);
    char text[1024];
    for (int workers = 1; workers <= 2; workers++) {
        snprintf(
            text, sizeof text,
            "[dataset]\n%s\n[partition]\nparts = 4\ncache = \"off\"\n[model]\ndropout = 0.5\n[train]\nepochs = 5\n"
            "[workers]\ncount = %d\ndevice = \"reference\"\n",
            data, workers);
        cluster_run(text, workers == 1 ? &one : &two);
    }
    cr_assert_eq(one.exit_code, 0);
    cr_assert_eq(two.exit_code, 0);
    compare_expect_same(&one, &two, "workers 2");
    cluster_release(&one);
    cluster_release(&two);
}
