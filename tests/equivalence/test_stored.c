/* Inputs stored once: a job whose first aggregate reads rows that each part makes for itself gives the same bits however it is run, the
 * results of one that sends them up to rounding, and sends nothing in that layer. */
#include "partition/files/npy.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 3 : 6, N_NODE = 500, N_EDGE = 2200, N_FEATURE = 60 };

TestSuite(stored, .init = folder_make, .fini = folder_remove);

struct way {
    int workers, threads;
    const char *schedule, *recompute;
    const char *device; /* strict: the one whose memory the host cannot touch */
    bool spills;
};

static const struct way ways[] = {
    {1, 2, "halo", "auto", "cpu", false},          {2, 1, "sequential", "auto", "cpu", false},
    {3, 2, "sequential", "always", "cpu", false},  {5, 1, "halo", "auto", "cpu", false},
    {1, 1, "sequential", "auto", "strict", false}, {3, 1, "halo", "auto", "strict", false},
    {1, 1, "sequential", "never", "cpu", true},    {3, 1, "sequential", "always", "cpu", true},
};

/* --- data --- */

static const char wide[] = "generator = \"sbm\"\nnodes = 500\ndegree = 6\nclasses = 5\nfeatures = 40";
static const char narrow[] = "generator = \"sbm\"\nnodes = 500\ndegree = 6\nclasses = 5\nfeatures = 9";
static const char directed[] =
    "generator = \"rmat\"\nnodes = 512\ndegree = 5\nclasses = 4\nfeatures = 40\nundirected = \"no\"";
static const char tiny[] = "generator = \"sbm\"\nnodes = 20\ndegree = 3\nclasses = 3\nfeatures = 40";
static const char far[] =
    "generator = \"sbm\"\nnodes = 900\ndegree = 3\nclasses = 5\nfeatures = 40\ntrain_share = 0.01";

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static void save(const char *name, enum npy_type type, int64_t rows, int64_t columns, const void *data)
{
    int64_t shape[] = {rows, columns};
    cr_assert_eq(npy_save(folder_path(name), type, columns > 0 ? 2 : 1, shape, data), STATUS_OK, "%s",
                 status_reason());
}

/* A folder whose features are mostly zeros, which a dataset keeps as sparse rows; the graph is made symmetric or not. */
static const char *sparse(bool is_directed)
{
    static int64_t edges[2][N_EDGE], labels[N_NODE];
    static float features[N_NODE][N_FEATURE];
    static int64_t set[3][N_NODE];
    static const char *const splits[] = {"train_idx.npy", "valid_idx.npy", "test_idx.npy"};
    static char text[256];
    int64_t n_set[3] = {0};
    uint32_t state = 7;
    for (int e = 0; e < N_EDGE; e++) {
        edges[0][e] = draw(&state) % N_NODE;
        edges[1][e] = draw(&state) % N_NODE;
    }
    for (int v = 0; v < N_NODE; v++) {
        labels[v] = draw(&state) % 4;
        int s = (int)(draw(&state) % 3);
        set[s][n_set[s]++] = v;
        for (int k = 0; k < 5; k++) {
            features[v][draw(&state) % N_FEATURE] = 0.25F * (float)(1 + draw(&state) % 7);
        }
    }
    for (int s = 0; s < 3; s++) {
        save(splits[s], NPY_TYPE_I64, n_set[s], 0, set[s]);
    }
    save("edges.npy", NPY_TYPE_I64, 2, N_EDGE, edges);
    save("labels.npy", NPY_TYPE_I64, N_NODE, 0, labels);
    save("features.npy", NPY_TYPE_F32, N_NODE, N_FEATURE, features);
    snprintf(text, sizeof text, "path = \"%s\"\nundirected = \"%s\"", folder, is_directed ? "no" : "yes");
    return text;
}

/* --- runs --- */

static void run_with(const char *model, const char *data, const struct way *way, int64_t limit, const char *more,
                     int epochs, struct cluster_result *out)
{
    char text[2048], memory[256];
    bool strict = strcmp(way->device, "strict") == 0;
    cluster_device = strict ? &device_strict : strcmp(way->device, "cpu") == 0 ? compare_narrow_cpu() : NULL;
    const char *disk = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(memory, sizeof memory, "recompute = \"%s\"\nlimit = %lld\n", way->recompute, (long long)limit);
    if (way->spills) {
        snprintf(memory + strlen(memory), sizeof memory - strlen(memory), "spill = \"%s\"\n", disk);
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 5\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n[train]\n"
             "epochs = %d\noptimizer = \"sgd\"\nlr = 0.05\n[workers]\ncount = %d\nthreads = %d\ndevice = "
             "\"%s\"\n[memory]\n%s"
             "[exchange]\nschedule = \"%s\"\n%s",
             data, model, epochs, way->workers, way->threads, strict ? "auto" : way->device, memory, way->schedule,
             more);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: %d workers, %s, %s, %s%s: exit %d", model, way->workers, way->schedule,
                 way->recompute, way->device, way->spills ? ", spilled" : "", out->exit_code);
}

static void run(const char *model, const char *data, const struct way *way, const char *more,
                struct cluster_result *out)
{
    int64_t limit = 0;
    if (way->spills) { /* in the least memory that a step needs */
        run_with(model, data, way, 1 << 30, more, 0, out);
        limit = out->limit_least;
        cluster_release(out);
    }
    run_with(model, data, way, limit, more, EPOCHS, out);
}

static void expect_equal(const char *model, size_t w, const struct cluster_result *first,
                         const struct cluster_result *other)
{
    compare_expect_same(first, other, "%s: way %zu", model, w);
    if (!ways[w].spills) {
        compare_expect_planned(other, "%s: way %zu", model, w);
    }
}

static const struct way plain = {1, 1, "sequential", "auto", "cpu", false};

/* In all ways, or those that do not spill. */
static void expect_same_bits_with(const char *model, const char *data, const char *more, bool spills)
{
    struct cluster_result first;
    run(model, data, &plain, more, &first);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct cluster_result other;
        if (compare_skips(w, sizeof ways / sizeof *ways, strcmp(ways[w].device, "strict") == 0) ||
            (ways[w].spills && !spills)) {
            continue;
        }
        run(model, data, &ways[w], more, &other);
        expect_equal(model, w, &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

static void expect_same_bits(const char *model, const char *data)
{
    struct cluster_result first, sent;
    expect_same_bits_with(model, data, "", true);
    run(model, data, &plain, "", &first);
    run(model, data, &plain, "store_inputs = false\n", &sent);
    for (int e = 0; e < EPOCHS; e++) {
        cr_expect_float_eq(first.loss[e], sent.loss[e], TOLERANCE_LOSS * sent.loss[e],
                           "%s: epoch %d: %.9g, %.9g sent", model, e, first.loss[e], sent.loss[e]);
    }
    cluster_release(&sent);
    cluster_release(&first);
}

Test(stored, sparse_inputs_give_the_same_bits_however_the_job_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ninput_dropout = 0.5", sparse(false));
    expect_same_bits("kind = \"sage\"\nhidden = 16\nlayers = 3\ninput_dropout = 0.5\ndropout = 0.5", sparse(false));
}

Test(stored, sparse_inputs_of_a_directed_graph_give_the_same_bits)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16", sparse(true));
    expect_same_bits("kind = \"sage\"\nhidden = 16\naggregator = \"sum\"\ninput_dropout = 0.5", sparse(true));
}

Test(stored, dense_inputs_that_are_multiplied_first_give_the_same_bits)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ninput_dropout = 0.5", wide);
    expect_same_bits("kind = \"sage\"\nhidden = 16\ninput_dropout = 0.5", directed);
}

Test(stored, dropped_out_inputs_that_are_aggregated_give_the_same_bits)
{
    expect_same_bits("kind = \"sage\"\nhidden = 16\ninput_dropout = 0.5", narrow);
    expect_same_bits("kind = \"sage\"\nhidden = 16\naggregator = \"max\"\ninput_dropout = 0.5", directed);
    expect_same_bits("kind = \"gin\"\nhidden = 16\ninput_dropout = 0.5", narrow);
    expect_same_bits("kind = \"sage\"\nhidden = 9\nresidual = true\nlayers = 3\ninput_dropout = 0.5", narrow);
    expect_same_bits("kind = \"sage\"\nhidden = 16\naggregator = \"max\"\ninput_dropout = 0.5", sparse(false));
}

/* One worker stores none of these inputs: its sums are apart nevertheless where those of several are. */
Test(stored, one_layer_of_inputs_gives_the_same_bits_where_nothing_else_could_be_covered)
{
    expect_same_bits("kind = \"gcn\"\nlayers = 1\ninput_dropout = 0.5", narrow);
    expect_same_bits("kind = \"sgc\"\nsteps = 1\ninput_dropout = 0.5", narrow);
}

/* A row of a dense product has other bits among few rows than among many. */
Test(stored, dense_inputs_of_parts_of_a_few_rows_give_the_same_bits)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ninput_dropout = 0.5", tiny);
    expect_same_bits("kind = \"sage\"\nhidden = 5\ninput_dropout = 0.5", tiny);
}

Test(stored, epochs_that_leave_out_rows_give_the_same_bits)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\ninput_dropout = 0.5", far);
    expect_same_bits("kind = \"sage\"\nhidden = 16\ninput_dropout = 0.5\nlayers = 3", far);
}

Test(stored, attention_over_maps_gives_the_same_bits)
{
    expect_same_bits("kind = \"gat\"\nheads = 2\nhidden = 8\ninput_dropout = 0.5\nattention_dropout = 0.3",
                     sparse(false));
    expect_same_bits("kind = \"gat\"\nheads = 3\nhidden = 5\nlayers = 3\ndropout = 0.5\nresidual = true",
                     sparse(true));
    expect_same_bits("kind = \"gatv2\"\nheads = 2\nhidden = 7\ninput_dropout = 0.5\nattention_dropout = 0.3",
                     sparse(true));
    expect_same_bits("kind = \"transformer\"\nheads = 2\nhidden = 8\ninput_dropout = 0.5", wide);
    expect_same_bits("kind = \"gat\"\nheads = 2\nhidden = 8\ninput_dropout = 0.5", far);
    expect_same_bits("kind = \"gatv2\"\nheads = 2\nhidden = 8\ninput_dropout = 0.5\nlayers = 3", far);
}

static const char *const losses[] = {"sampling = 0.3\n", "codec = \"int4\"\n",
                                     "sampling = 0.5\ncodec = \"int2, int8@2\"\nguard_every = 2\n", "stale = 1\n",
                                     "codec = \"int2\"\nerror_feedback = true\n"};
enum { N_LOSS = sizeof losses / sizeof *losses };

Test(stored, other_layers_may_lose_something)
{
    for (int l = 0; l < N_LOSS; l++) {
        bool spills = strstr(losses[l], "stale") == NULL;
        expect_same_bits_with("kind = \"sage\"\nhidden = 16\nlayers = 3\ninput_dropout = 0.5\nnorm = \"batch\"",
                              sparse(l % 2), losses[l], spills);
        expect_same_bits_with("kind = \"gcn\"\nhidden = 16\ninput_dropout = 0.5", far, losses[l], spills);
        expect_same_bits_with("kind = \"gin\"\nhidden = 16\ninput_dropout = 0.5", narrow, losses[l], spills);
        expect_same_bits_with("kind = \"gat\"\nheads = 2\nhidden = 8\ninput_dropout = 0.5", sparse(l % 2), losses[l],
                              spills);
    }
}

/* The layer that makes its halo rows itself is that of an exact job, whatever the others lose: alone it has the exact job's bits. */
Test(stored, layer_is_exact_beside_others_that_are_not)
{
    static const char *const models[] = {
        "kind = \"gcn\"\nlayers = 1\ninput_dropout = 0.5", "kind = \"sage\"\nlayers = 1\ninput_dropout = 0.5",
        "kind = \"gat\"\nlayers = 1\ninput_dropout = 0.5\nattention_dropout = 0.3", "kind = \"gatv2\"\nlayers = 1"};
    static const char *const ends[] = {"sampling = 0.0\n", "codec = \"int2\"\n", "stale = 1\n",
                                       "codec = \"int2\"\nerror_feedback = true\n"};
    static const struct way three = {3, 1, "sequential", "auto", "cpu", false};
    for (int m = 0; m < 4; m++) {
        for (int e = 0; e < 4; e++) {
            struct cluster_result exact, lossy;
            run(models[m], sparse(m % 2), &plain, "", &exact);
            run(models[m], sparse(m % 2), &three, ends[e], &lossy);
            cr_expect_arr_eq(lossy.weights, exact.weights, (size_t)exact.n_weight * sizeof(float), "%s, %s",
                             models[m], ends[e]);
            cr_expect_arr_eq(lossy.loss, exact.loss, sizeof exact.loss, "%s, %s", models[m], ends[e]);
            cr_expect_eq(lossy.halo_received, 0, "%s, %s: %lu bytes", models[m], ends[e],
                         (unsigned long)lossy.halo_received);
            cluster_release(&exact);
            cluster_release(&lossy);
        }
    }
}

/* With one layer, nothing is left that travels; evaluations included. */
static void expect_nothing_sent(const char *model, const char *data)
{
    static const struct way four = {4, 1, "sequential", "auto", "cpu", false};
    struct cluster_result stored, sent;
    run(model, data, &four, "", &stored);
    run(model, data, &four, "store_inputs = false\n", &sent);
    cr_expect_eq(stored.halo_received, 0, "%s: %lu bytes", model, (unsigned long)stored.halo_received);
    cr_expect_gt(sent.halo_received, 0, "%s", model);
    cluster_release(&stored);
    cluster_release(&sent);
}

Test(stored, layer_sends_nothing)
{
    expect_nothing_sent("kind = \"gcn\"\nlayers = 1", sparse(false));
    expect_nothing_sent("kind = \"sage\"\nlayers = 1\ninput_dropout = 0.5", sparse(true));
    expect_nothing_sent("kind = \"sage\"\nlayers = 1\ninput_dropout = 0.5", wide);
    expect_nothing_sent("kind = \"gat\"\nlayers = 1\nout_heads = 2", sparse(true));
    expect_nothing_sent("kind = \"gatv2\"\nlayers = 1\ninput_dropout = 0.5", wide);
    expect_nothing_sent("kind = \"transformer\"\nlayers = 1", sparse(false));
}

Test(stored, the_reference_device_gives_the_same_bits_on_one_worker_and_three)
{
    static const struct way one = {1, 1, "sequential", "auto", "reference", false},
                            three = {3, 1, "sequential", "auto", "reference", false};
    static const char model[] = "kind = \"sage\"\nhidden = 16\ninput_dropout = 0.5";
    const char *data = sparse(false);
    struct cluster_result first, other;
    run(model, data, &one, "", &first);
    run(model, data, &three, "", &other);
    compare_expect_same(&first, &other, "%s: three workers", model);
    cluster_release(&first);
    cluster_release(&other);
}
