/* What a job's loss and step are made of (clipping, weights of classes, smoothing, numbers
 * in place of classes): the same bits however the job is run. */
#include "partition/files/npy.h"
#include "tests/equivalence/compare.h"
#include "tests/support/device/strict.h"
#include "tests/support/graphs/graph.h"
#include "tests/support/graphs/typed_folder.h"
#include "tests/support/process/folder.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { EPOCHS = SANITIZED ? 3 : 6 };

TestSuite(objective, .init = folder_make, .fini = folder_remove);

/* How a job is run; none of it may change a bit. */
struct way {
    int workers, threads;
    const char *schedule, *recompute;
    const struct device_ops *device;
    long long limit; /* 0: all in memory */
};

/* What a job trains. */
struct task {
    const char *data, *model, *train, *exchange;
};

static const char symmetric[] = "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24";
static const char gcn[] = "kind = \"gcn\"\nhidden = 17\ndropout = 0.5\nlayers = 3\nnorm = \"batch\"";

static void run(const struct task *task, const struct way *way, struct cluster_result *out)
{
    char text[2048], spill[128] = "";
    if (way->limit > 0) {
        snprintf(spill, sizeof spill, "limit = %lld\nspill = \"%s\"\n", way->limit,
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    }
    snprintf(text, sizeof text,
             "[dataset]\n%s\n[partition]\nparts = 6\nmethod = \"random\"\ncache = "
             "\"off\"\n[model]\n%s\n[train]\nepochs = %d\n"
             "lr = 0.05\n%s\n[exchange]\n%s\nschedule = \"%s\"\n[workers]\ncount = %d\nthreads = %d\n[memory]\n"
             "recompute = \"%s\"\n%s",
             task->data, task->model, EPOCHS, task->train, task->exchange, way->schedule, way->workers, way->threads,
             way->recompute, spill);
    cluster_device = way->device;
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "%s, %s: %d workers: exit %d", task->model, task->train, way->workers,
                 out->exit_code);
}

/* On 1, 2 and 3 workers, recomputed, on the strict device, and spilled. */
static void expect_same_bits(const struct task *task)
{
    const struct device_ops *cpu = compare_narrow_cpu();
    const struct way ways[] = {{1, 1, "sequential", "never", cpu, 0},
                               {2, 2, "sequential", "always", cpu, 0},
                               {3, 1, "halo", "never", cpu, 0},
                               {3, 1, "sequential", "never", &device_strict, 0},
                               {2, 1, "sequential", "never", cpu, 1 << 20}};
    struct cluster_result first, other;
    run(task, &ways[0], &first);
    for (size_t w = 1; w < sizeof ways / sizeof *ways; w++) {
        if (ways_skip(w - 1, sizeof ways / sizeof *ways - 1)) {
            continue;
        }
        run(task, &ways[w], &other);
        compare_expect_same(&first, &other, "%s, %s, %s: way %zu", task->model, task->train, task->exchange, w);
        if (ways[w].limit == 0) {
            compare_expect_planned(&other, "%s, %s: way %zu", task->model, task->train, w);
        }
        cluster_release(&other);
    }
    cluster_release(&first);
}

/* Two jobs that must not come out the same. */
static void expect_other_bits(const struct task *a, const struct task *b)
{
    const struct way way = {1, 1, "sequential", "never", &device_cpu, 0};
    struct cluster_result one, two;
    run(a, &way, &one);
    run(b, &way, &two);
    cr_assert_eq(one.n_weight, two.n_weight);
    cr_expect_arr_neq(one.weights, two.weights, (size_t)one.n_weight * sizeof(float), "%s and %s", a->train,
                      b->train);
    cluster_release(&one);
    cluster_release(&two);
}

#define CLIPPED "optimizer = \"sgd\"\nmomentum = 0.9\nclip_norm = 0.01"

Test(objective, clipped_gradients_are_the_same_however_they_are_made)
{
    expect_same_bits(&(struct task){symmetric, gcn, CLIPPED, ""});
    expect_same_bits(&(struct task){symmetric, gcn, CLIPPED "\nprune = \"always\"", "sampling = 0.4"});
    expect_same_bits(&(struct task){symmetric, "kind = \"gat\"\nheads = 2\nhidden = 8", CLIPPED,
                                    "codec = \"int4\"\nguard_every = 2"});
    expect_other_bits(&(struct task){symmetric, gcn, CLIPPED, ""},
                      &(struct task){symmetric, gcn, "optimizer = \"sgd\"\nmomentum = 0.9", ""});
}

/* The norm is over embeddings, too, which no worker has all of. */
Test(objective, clipped_gradients_of_embeddings_are_the_same_however_they_are_made)
{
    char data[512];
    typed_folder_write(folder_path("own"), &(struct typed_folder){.n_node = 300, .n_edge = 2000, .n_part = 6});
    snprintf(data, sizeof data, "path = \"%s\"", folder_path("own"));
    const char *rgcn = "kind = \"rgcn\"\nhidden = 16\ndropout = 0.3";
    expect_same_bits(&(struct task){data, rgcn, CLIPPED, ""});
    expect_other_bits(&(struct task){data, rgcn, CLIPPED, ""},
                      &(struct task){data, rgcn, "optimizer = \"sgd\"\nmomentum = 0.9", ""});
}

Test(objective, weights_of_classes_and_smoothing_are_the_same_however_they_are_used)
{
    static const char several[] =
        "generator = \"sbm\"\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24\nlabels_per_node = 2";
    expect_same_bits(&(struct task){symmetric, gcn, "class_weights = \"balanced\"\nlabel_smoothing = 0.2", ""});
    expect_same_bits(
        &(struct task){symmetric, gcn, "class_weights = \"balanced\"\nprune = \"always\"", "sampling = 0.4"});
    expect_same_bits(&(struct task){several, gcn, "class_weights = \"balanced\"", ""});
    expect_other_bits(&(struct task){symmetric, gcn, "label_smoothing = 0.2", ""},
                      &(struct task){symmetric, gcn, "", ""});
    expect_other_bits(&(struct task){symmetric, gcn, "class_weights = \"balanced\"", ""},
                      &(struct task){symmetric, gcn, "", ""});
    expect_other_bits(&(struct task){several, gcn, "class_weights = \"balanced\"", ""},
                      &(struct task){several, gcn, "", ""});
}

static void save(const char *name, enum npy_type type, int rank, const int64_t *shape, const void *data)
{
    cr_assert_eq(npy_save(folder_path(name), type, rank, shape, data), STATUS_OK, "%s", status_reason());
}

/* A graph whose labels are numbers, two a node, some of them none. */
static const char *numbers_write(void)
{
    enum { N_NODE = 600, N_EDGE = 4000, N_FEATURE = 12 };
    static char data[512];
    static int64_t edges[2][N_EDGE], train[N_NODE / 3];
    static float features[N_NODE][N_FEATURE], labels[N_NODE][2];
    for (uint32_t e = 0; e < N_EDGE; e++) {
        for (uint32_t end = 0; end < 2; end++) {
            edges[end][e] = (int64_t)(0.5F * (1.0F + test_number(31, e, end)) * N_NODE);
        }
    }
    for (uint32_t i = 0; i < N_NODE; i++) {
        for (uint32_t c = 0; c < N_FEATURE; c++) {
            features[i][c] = test_number(32, i, c);
        }
        labels[i][0] = 5.0F * features[i][0] + test_number(33, i, 0);
        labels[i][1] = i % 3 == 1 ? NAN : features[i][1];
    }
    for (int64_t i = 0; i < N_NODE / 3; i++) {
        train[i] = 3 * i + i % 2;
    }
    save("edges.npy", NPY_TYPE_I64, 2, (const int64_t[]){2, N_EDGE}, edges);
    save("features.npy", NPY_TYPE_F32, 2, (const int64_t[]){N_NODE, N_FEATURE}, features);
    save("labels.npy", NPY_TYPE_F32, 2, (const int64_t[]){N_NODE, 2}, labels);
    save("train_idx.npy", NPY_TYPE_I64, 1, (const int64_t[]){N_NODE / 3}, train);
    snprintf(data, sizeof data, "path = \"%s\"", folder);
    return data;
}

Test(objective, losses_of_numbers_are_the_same_however_they_are_made)
{
    const char *data = numbers_write();
    expect_same_bits(&(struct task){data, gcn, "loss = \"mse\"", ""});
    expect_same_bits(&(struct task){data, gcn, "loss = \"mae\"\nprune = \"always\"", "sampling = 0.4"});
    expect_same_bits(&(struct task){data, "kind = \"gat\"\nheads = 2\nhidden = 8", "loss = \"huber\"\n" CLIPPED,
                                    "codec = \"int8\""});
    expect_other_bits(&(struct task){data, gcn, "loss = \"huber\"", ""},
                      &(struct task){data, gcn, "loss = \"mse\"", ""});
}
