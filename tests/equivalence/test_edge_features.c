/* Attention that reads features of edges gives the same bits however it is run, in the memory that is planned. */
#include "partition/files/npy.h"
#include "protocol/base/status.h"
#include "tests/equivalence/compare.h"
#include "tests/support/graphs/graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_NODE = 500, N_EDGE = 3000, N_FEATURE = 20, N_EDGE_FEATURE = 5, EPOCHS = SANITIZED ? 3 : 6 };

static int64_t below(uint64_t row, uint32_t column, int64_t n)
{
    return (int64_t)((test_number(3, row, column) + 1.0f) / 2.0f * (float)n);
}

static void save(const char *name, enum npy_type type, int rank, const int64_t *shape, const void *values)
{
    cr_assert_eq(npy_save(folder_path(name), type, rank, shape, values), STATUS_OK, "%s", status_reason());
}

/* An edge's row depends on its ends alone, the lesser first: repeats and reverses agree. */
static void write_dataset(void)
{
    static int64_t edges[2][N_EDGE], labels[N_NODE], train[N_NODE / 5];
    static float rows[N_EDGE][N_EDGE_FEATURE], features[N_NODE][N_FEATURE];
    folder_make();
    for (int e = 0; e < N_EDGE; e++) {
        int64_t u = edges[0][e] = below((uint64_t)e, 0, N_NODE), v = edges[1][e] = below((uint64_t)e, 1, N_NODE);
        uint64_t pair = (uint64_t)(u < v ? u * N_NODE + v : v * N_NODE + u);
        for (int c = 0; c < N_EDGE_FEATURE; c++) {
            rows[e][c] = test_number(4, pair, (uint32_t)c);
        }
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = below((uint64_t)i, 7, 4);
        train[i / 5] = i;
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(5, (uint64_t)i, (uint32_t)c);
        }
    }
    save("edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    save("edge_attr.npy", NPY_TYPE_F32, 2, (int64_t[]){N_EDGE, N_EDGE_FEATURE}, rows);
    save("features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    save("labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    save("train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE / 5}, train);
}

TestSuite(edge_features, .init = write_dataset, .fini = folder_remove);

struct way {
    int workers, threads, prefetch;
    const char *schedule, *recompute;
    bool spill;
};

static const struct way ways[] = {
    {1, 1, 1, "sequential", "auto", false},  {1, 2, 0, "halo", "always", false},
    {2, 1, 0, "sequential", "never", false}, {4, 2, 3, "sequential", "auto", false},
    {2, 1, 1, "sequential", "auto", true},
};

static const char gat[] =
    "kind = \"gat\"\nhidden = 8\nheads = 3\nout_heads = 2\ndropout = 0.4\nattention_dropout = 0.4";
static const char gatv2[] = "kind = \"gatv2\"\nhidden = 8\nheads = 3\nlayers = 3\nattention_dropout = 0.4";
static const char transformer[] =
    "kind = \"transformer\"\nhidden = 8\nheads = 3\ninput_dropout = 0.3\nattention_dropout = 0.4";
static const char *const models[] = {gat, gatv2, transformer};

static const char *dataset = "undirected = \"no\"", *more = "",
                  *prune = "auto"; /* of [dataset], [exchange], [train] */
static const char *device = "cpu";
static int n_part = 4;

static void run(const char *model, const struct way *way, struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->spill) {
        snprintf(spill, sizeof spill, "limit = \"1GiB\"\nspill = \"%s\"",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(
        text, sizeof text,
        "[dataset]\npath = \"%s\"\n%s\n[partition]\nparts = %d\nmethod = \"random\"\ncache = \"off\"\n[model]\n%s\n"
        "[train]\nepochs = %d\nprune = \"%s\"\n[exchange]\n%s\nschedule = \"%s\"\nprefetch = %d\n[workers]\ncount = "
        "%d\n"
        "threads = %d\ndevice = \"%s\"\n[memory]\nrecompute = \"%s\"\n%s\n",
        folder, dataset, n_part, model, EPOCHS, prune, more, way->schedule, way->prefetch, way->workers, way->threads,
        device, way->recompute, spill);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: %s: workers %d %s: exit %d", model, more, way->workers, way->schedule,
                 out->exit_code);
}

static void expect_same_bits(const char *model)
{
    struct cluster_result first;
    run(model, &ways[0], &first);
    compare_expect_planned(&first, "%s", model);
    cr_expect_eq(first.n_call, 0, "%s: %ld allocations in epochs", model, (long)first.n_call);
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++) {
        struct cluster_result other;
        run(model, &ways[w], &other);
        compare_expect_same(&first, &other, "%s: way %zu", model, w);
        if (!ways[w].spill) {
            compare_expect_planned(&other, "%s: way %zu", model, w);
        }
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(edge_features, attention_over_them_is_the_same_however_it_is_run)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        expect_same_bits(models[m]);
    }
}

Test(edge_features, edges_and_their_reverses_are_the_same_however_they_are_run)
{
    dataset = "undirected = \"yes\"\nself_loops = \"yes\"";
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        expect_same_bits(models[m]);
    }
}

/* Samples, codes and rows of the epoch before, on one worker and on three; and rows that epochs leave out. */
Test(edge_features, attention_is_the_same_on_any_number_of_workers_in_what_travels_otherwise)
{
    static const char *const lossy[] = {"sampling = 0.4", "codec = \"int8\"", "sampling = 0.5\ncodec = \"int8\"",
                                        "stale = 1", "plain = true"};
    for (size_t i = 0; i < sizeof lossy / sizeof *lossy; i++) {
        for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
            struct cluster_result one, three;
            more = lossy[i];
            run(models[m], &(struct way){1, 1, 1, "sequential", "auto", false}, &one);
            run(models[m], &(struct way){3, 1, 1, "sequential", "auto", false}, &three);
            compare_expect_same(&one, &three, "%s: %s", models[m], more);
            compare_expect_planned(&three, "%s: %s", models[m], more);
            cluster_release(&one);
            cluster_release(&three);
        }
    }
}

Test(edge_features, epochs_that_leave_out_rows_are_the_same_however_they_are_run)
{
    prune = "always";
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cluster_result one;
        run(models[m], &ways[0], &one);
        cr_expect_gt(one.left_out, 0.01, "%s: %.3f of the work left out", models[m], one.left_out);
        cluster_release(&one);
        expect_same_bits(models[m]);
    }
}

static void expect_near(const struct cluster_result *a, const struct cluster_result *b, const char *model,
                        const char *what)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < b->n_logit; i++) {
        apart += ((double)a->logits[i] - b->logits[i]) * ((double)a->logits[i] - b->logits[i]);
        size += (double)b->logits[i] * b->logits[i];
    }
    cr_expect_leq(apart, TOLERANCE_ARRAY * TOLERANCE_ARRAY * size, "%s: %s: logits are apart", model, what);
}

/* Parts cut rows' edges into other blocks; pruning and the reference device sum in another order: nothing but rounding differs. */
Test(edge_features, parts_devices_and_rows_left_out_change_the_result_by_rounding_alone)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cluster_result four, other;
        run(models[m], &ways[0], &four);
        static const int parts[] = {1, 2, 8};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            n_part = parts[p];
            run(models[m], &(struct way){n_part > 1 ? 2 : 1, 1, 1, "sequential", "auto", false}, &other);
            expect_near(&other, &four, models[m], "other parts");
            cluster_release(&other);
        }
        n_part = 4;
        device = "reference";
        run(models[m], &ways[0], &other);
        expect_near(&other, &four, models[m], "reference");
        cluster_release(&other);
        device = "cpu";
        prune = "always";
        run(models[m], &ways[0], &other);
        expect_near(&other, &four, models[m], "pruned");
        cluster_release(&other);
        prune = "auto";
        cluster_release(&four);
    }
}

Test(edge_features, change_the_result)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cluster_result with, without;
        run(models[m], &ways[0], &with);
        dataset = "edge_features = \"no\"";
        run(models[m], &ways[0], &without);
        dataset = "undirected = \"no\"";
        cr_assert_neq(memcmp(with.logits, without.logits, (size_t)with.n_logit * sizeof(float)), 0, "%s", models[m]);
        cr_expect_gt(with.n_weight, without.n_weight);
        cluster_release(&with);
        cluster_release(&without);
    }
}
