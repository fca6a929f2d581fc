/* A valid dataset folder of a few files, of which the fuzzer's input replaces one: the input's first byte is the file's number, the
 * rest its contents. The corpus is seeded with every valid file.
 */
#ifndef TESTS_FUZZ_INPUT_FOLDER_H
#define TESTS_FUZZ_INPUT_FOLDER_H

#include "partition/graph/dataset.h"
#include "protocol/base/log.h"

#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct input_folder {
    char path[64];
    size_t n_file;
    const char *const *names; /* below the folder */
    void **bytes;             /* of the valid files */
    size_t *n_bytes;
    void (*write)(const char *path, const void *bytes,
                  size_t n_bytes); /* contents to a file, compressed where the format is */
};

static struct input_folder input_folder;

static int input_folder_unlink(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void input_folder_remove(void)
{
    nftw(input_folder.path, input_folder_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

static void input_folder_name(size_t i, char *out, size_t n_out)
{
    snprintf(out, n_out, "%s/%s", input_folder.path, input_folder.names[i]);
}

static void input_folder_put(size_t i, const void *bytes, size_t n_bytes)
{
    char path[PATH_MAX];
    input_folder_name(i, path, sizeof path);
    for (char *slash = path + strlen(input_folder.path) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    input_folder.write(path, bytes, n_bytes);
}

static inline void input_folder_write(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    ASSERT(file != NULL && fwrite(bytes, 1, n_bytes, file) == n_bytes);
    ASSERT(fclose(file) == 0);
}

/* A seed for each file, where the last argument is a corpus folder. */
static void input_folder_seed(int argc, char **argv)
{
    const char *corpus = argv[argc - 1];
    struct stat info;
    if (argc < 2 || stat(corpus, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return;
    }
    for (size_t i = 0; i < input_folder.n_file; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/seed-%zu", corpus, i);
        uint8_t *seed = malloc(input_folder.n_bytes[i] + 1);
        ASSERT(seed != NULL);
        seed[0] = (uint8_t)i;
        memcpy(seed + 1, input_folder.bytes[i], input_folder.n_bytes[i]);
        input_folder_write(path, seed, input_folder.n_bytes[i] + 1);
        free(seed);
    }
}

/* Make the folder from its files. */
static void input_folder_make(int argc, char **argv)
{
    log_init("fuzz", -1, LOG_LEVEL_ERROR);
    snprintf(input_folder.path, sizeof input_folder.path, "%s/trainerd-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(input_folder.path) != NULL);
    atexit(input_folder_remove);
    for (size_t i = 0; i < input_folder.n_file; i++) {
        input_folder_put(i, input_folder.bytes[i], input_folder.n_bytes[i]);
    }
    input_folder_seed(argc, argv);
}

/* The row's sparse features are finite and in known columns. */
static void row_check(const struct dataset *d, int64_t v)
{
    for (int64_t i = d->features.indptr[v]; i < d->features.indptr[v + 1]; i++) {
        ASSERT(d->features.indices[i] < d->facts.n_feature);
        ASSERT(isfinite(d->features.data[i]));
    }
}

/* The features of the row's edges are there and finite. */
static void edges_check(const struct dataset *d, int64_t v)
{
    for (int64_t i = d->indptr[v]; d->edges.row != NULL && i < d->indptr[v + 1]; i++) {
        ASSERT(d->edges.row[i] < d->edges.n_row + (d->edges.loop_features != NULL ? d->n_node : 0));
        for (int64_t c = 0; c < d->facts.n_edge_feature; c++) {
            ASSERT(isfinite(dataset_edge_features(d, d->edges.row[i])[c]));
        }
    }
}

/* The contract of a loaded dataset, for its graph and its sparse features. */
static void dataset_walk(const struct dataset *d)
{
    ASSERT(d->n_node > 0 && d->indptr[d->n_node] == d->n_edge);
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t i = d->indptr[v]; i < d->indptr[v + 1]; i++) {
            ASSERT(d->indices[i] < d->n_node);
            ASSERT(d->edge_type == NULL || d->edge_type[i] < d->facts.n_relation);
            ASSERT(!d->facts.weighted || (isfinite(d->edge_weight[i]) && d->edge_weight[i] >= 0.0f));
        }
        ASSERT(!d->facts.weighted || isfinite(d->strength[v]));
        edges_check(d, v);
        ASSERT(d->facts.multi_label || (d->labels.classes[v] >= -1 && d->labels.classes[v] < d->facts.n_class));
        if (d->features.indptr != NULL) {
            row_check(d, v);
        }
    }
}

/* Load the folder as this kind of model reads it: refused as missing or invalid data, or a dataset that keeps its contract. */
static void input_folder_load(int kind)
{
    struct job job;
    struct dataset dataset;
    job_defaults(&job);
    job.model.kind = kind;
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", input_folder.path);
    enum status status = dataset_load(&job, &dataset);
    if (status == STATUS_OK) {
        dataset_walk(&dataset);
        dataset_release(&dataset);
    } else {
        ASSERT(status == STATUS_DATA || status == STATUS_NO_INPUT);
    }
}

/* Load the folder with one file replaced, for a model that takes relations, for one that takes weights of edges and for one that takes their
 * features. */
static void input_folder_try(const uint8_t *bytes, size_t n)
{
    size_t which = bytes[0] % input_folder.n_file;
    input_folder_put(which, bytes + 1, n - 1);
    input_folder_load(JOB_KIND_RGCN);
    input_folder_load(JOB_KIND_GCN);
    input_folder_load(JOB_KIND_GAT);
    input_folder_put(which, input_folder.bytes[which], input_folder.n_bytes[which]);
}

#endif
