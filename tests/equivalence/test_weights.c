/* Jobs on weighted edges give the same bits however they are run, in the memory that is planned. */
#include "partition/files/npy.h"
#include "protocol/base/status.h"
#include "tests/equivalence/compare.h"
#include "tests/support/graphs/graph.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

enum { N_NODE = 500, N_EDGE = 3000, N_FEATURE = 20 };

static int64_t below(uint64_t row, uint32_t column, int64_t n)
{
    return (int64_t)((test_number(3, row, column) + 1.0f) / 2.0f * (float)n);
}

static void save(const char *name, enum npy_type type, int rank, const int64_t *shape, const void *values)
{
    cr_assert_eq(npy_save(folder_path(name), type, rank, shape, values), STATUS_OK, "%s", status_reason());
}

static void write_dataset(void)
{
    static int64_t edges[2][N_EDGE], labels[N_NODE], train[N_NODE / 2];
    static float weights[N_EDGE], features[N_NODE][N_FEATURE];
    folder_make();
    for (int e = 0; e < N_EDGE; e++) {
        edges[0][e] = below((uint64_t)e, 0, N_NODE);
        edges[1][e] = below((uint64_t)e, 1, N_NODE);
        weights[e] = 1.0f + test_number(4, (uint64_t)e, 0);
    }
    for (int i = 0; i < N_NODE; i++) {
        labels[i] = below((uint64_t)i, 7, 4);
        train[i / 2] = i;
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(5, (uint64_t)i, (uint32_t)c);
        }
    }
    save("edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, N_EDGE}, edges);
    save("edge_weight.npy", NPY_TYPE_F32, 1, (int64_t[]){N_EDGE}, weights);
    save("features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    save("labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    save("train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE / 2}, train);
}

TestSuite(weights, .init = write_dataset, .fini = folder_remove);

struct way {
    int workers, threads, prefetch;
    const char *schedule;
    bool spill;
};

static const struct way ways[] = {
    {1, 1, 1, "sequential", false}, {1, 2, 0, "halo", false},      {2, 1, 0, "sequential", false},
    {4, 2, 3, "sequential", false}, {2, 1, 1, "sequential", true},
};

static bool asked;            /* dataset.edge_weights */
static const char *more = ""; /* of [exchange] */

static void run(const char *model, const char *undirected, const struct way *way, struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->spill) {
        snprintf(spill, sizeof spill, "limit = \"1GiB\"\nspill = \"%s\"",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(
        text, sizeof text,
        "[dataset]\npath = \"%s\"\nundirected = \"%s\"\nedge_weights = \"%s\"\n[partition]\nparts = 4\nmethod = "
        "\"random\"\ncache = \"off\"\n"
        "[model]\n%s\n[train]\nepochs = 8\n[exchange]\n%s\nschedule = \"%s\"\nprefetch = %d\n[workers]\ncount = %d\n"
        "threads = %d\n[memory]\n%s\n",
        folder, undirected, asked ? "yes" : "auto", model, more, way->schedule, way->prefetch, way->workers,
        way->threads, spill);
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s: workers %d %s: exit %d", model, way->workers, way->schedule, out->exit_code);
}

static void expect_same_bits(const char *model, const char *undirected)
{
    struct cluster_result first;
    run(model, undirected, &ways[0], &first);
    compare_expect_planned(&first, "%s", model);
    cr_expect_eq(first.n_call, 0, "%s: %ld allocations in epochs", model, (long)first.n_call);
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w - 1, sizeof ways / sizeof *ways - 1)) {
            continue;
        }
        struct cluster_result other;
        run(model, undirected, &ways[w], &other);
        compare_expect_same(&first, &other, "%s: way %zu", model, w);
        if (!ways[w].spill) {
            compare_expect_planned(&other, "%s: way %zu", model, w);
        }
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(weights, gcn_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcn\"\nhidden = 16\nlayers = 3\ndropout = 0.5", "yes");
    expect_same_bits("kind = \"gcn\"\nhidden = 24\ninput_dropout = 0.3", "no");
}

Test(weights, appnp_and_sgc_are_the_same_however_they_are_run)
{
    expect_same_bits("kind = \"appnp\"\nhidden = 16\nsteps = 3\ndropout = 0.5", "no");
    expect_same_bits("kind = \"sgc\"\nlayers = 1\nsteps = 3", "yes");
}

Test(weights, gcnii_is_the_same_however_it_is_run)
{
    expect_same_bits("kind = \"gcnii\"\nhidden = 16\nlayers = 3\ndropout = 0.5", "yes");
}

Test(weights, sage_and_gin_are_the_same_however_they_are_run)
{
    asked = true;
    expect_same_bits("kind = \"sage\"\nhidden = 16\nlayers = 3\ndropout = 0.5", "yes");
    expect_same_bits("kind = \"sage\"\naggregator = \"sum\"\nhidden = 24\ninput_dropout = 0.3", "no");
    expect_same_bits("kind = \"gin\"\nhidden = 16\nlearn_eps = true\ndropout = 0.5", "no");
}

/* Samples, codes and rows that epochs leave out, on one worker and on three. */
Test(weights, sage_is_the_same_on_any_number_of_workers_in_what_travels_otherwise)
{
    static const char *const lossy[] = {"sampling = 0.4", "codec = \"int8\"", "stale = 1"};
    asked = true;
    for (size_t i = 0; i < sizeof lossy / sizeof *lossy; i++) {
        struct cluster_result one, three;
        more = lossy[i];
        run("kind = \"sage\"\nhidden = 16\nlayers = 3", "no", &(struct way){1, 1, 1, "sequential", false}, &one);
        run("kind = \"sage\"\nhidden = 16\nlayers = 3", "no", &(struct way){3, 1, 1, "sequential", false}, &three);
        compare_expect_same(&one, &three, "%s", more);
        compare_expect_planned(&three, "%s", more);
        cluster_release(&one);
        cluster_release(&three);
    }
}

static void expect_changed(const char *model)
{
    struct cluster_result with, without;
    run(model, "no", &ways[0], &with);
    cr_assert_eq(rename(folder_path("edge_weight.npy"), folder_path("away")), 0);
    asked = false;
    run(model, "no", &ways[0], &without);
    cr_assert_eq(rename(folder_path("away"), folder_path("edge_weight.npy")), 0);
    cr_assert_arr_neq(with.logits, without.logits, (size_t)with.n_logit * sizeof(float), "%s", model);
    cluster_release(&with);
    cluster_release(&without);
}

Test(weights, change_the_result)
{
    expect_changed("kind = \"gcn\"");
    asked = true;
    expect_changed("kind = \"sage\"");
    asked = true;
    expect_changed("kind = \"gin\"");
}
