/* Splits of an npy folder: numbers of nodes, or masks; one split, or several in each file, of which dataset.split is
 * used. */
#include "partition/formats/dataset_npy_splits.h"

#include "partition/files/dataset_path.h"
#include "partition/graph/dataset_build.h"

#include <inttypes.h>
#include <string.h>

static const struct split_files {
    enum dataset_split split;
    const char *idx, *mask[2]; /* the first existing one is read */
} all_files[] = {{DATASET_SPLIT_TRAIN, "train_idx.npy", {"train_mask.npy", NULL}},
                 {DATASET_SPLIT_VALID, "valid_idx.npy", {"val_mask.npy", "valid_mask.npy"}},
                 {DATASET_SPLIT_TEST, "test_idx.npy", {"test_mask.npy", NULL}}};

enum { N_SPLIT = sizeof all_files / sizeof *all_files };

/* The file that a split is read from; NULL: missing. */
static const char *file_of(const char *folder, const struct split_files *files, bool *is_mask_out)
{
    *is_mask_out = false;
    if (dataset_path_exists(folder, files->idx)) {
        return files->idx;
    }
    for (int k = 0; k < 2 && files->mask[k] != NULL; k++) {
        if (dataset_path_exists(folder, files->mask[k])) {
            *is_mask_out = true;
            return files->mask[k];
        }
    }
    return NULL;
}

bool dataset_npy_splits_read(const char *folder, const char *name)
{
    bool any = false, is_mask;
    for (int s = 0; s < N_SPLIT && !any; s++) {
        const char *file = file_of(folder, &all_files[s], &is_mask);
        any = file != NULL && strcmp(file, name) == 0;
    }
    return any;
}

/* Does the file have a split per column (masks) or row (numbers of nodes)? A column of numbers is one split, as from
 * numpy.argwhere and torch.nonzero. */
static bool is_of_several(const struct npy *npy, bool is_mask)
{
    return npy->rank == 2 && (is_mask || npy->shape[1] != 1);
}

/* A mask has a row for each node, and with several splits a column for each; numbers of nodes have a row for each
 * split. */
static enum status shape_check(const struct npy *npy, bool is_mask, const struct dataset *dataset)
{
    if (npy->rank == 2 && is_mask && npy->shape[0] != dataset->n_node && npy->shape[1] == dataset->n_node) {
        return status_fail(STATUS_DATA,
                           "%s: has shape [%" PRId64 ", %" PRId64
                           "], expected a row for each node and a column for each split: transpose it",
                           npy->name, npy->shape[0], npy->shape[1]);
    }
    return is_mask ? npy_expect(npy, NPY_KIND_INTEGER, npy->rank == 2 ? 2 : 1, dataset->n_node, -1)
                   : dataset_split_check(npy, npy->rank == 2 ? 2 : 1);
}

/* The number of splits by this file and those before it, *n_io. A file without a second dimension holds for all
 * splits. */
static enum status count_more(const struct npy *npy, bool is_mask, int64_t *n_io)
{
    bool several = is_of_several(npy, is_mask);
    int64_t n = several ? npy->shape[is_mask ? 1 : 0] : 1;
    if (n < 1) {
        return status_fail(STATUS_DATA, "%s: has no split, expected at least one", npy->name);
    }
    if (several && !is_mask && n > npy->shape[1]) {
        return status_fail(
            STATUS_DATA,
            "%s: has shape [%" PRId64 ", %" PRId64 "], which is %" PRId64 " splits of %" PRId64
            " nodes at most: expected no more splits than nodes, as [splits, nodes], or [nodes] for one split",
            npy->name, n, npy->shape[1], n, npy->shape[1]);
    }
    if (several && *n_io > 1 && n != *n_io) {
        return status_fail(STATUS_DATA,
                           "%s: has %" PRId64 " splits, expected %" PRId64 ", as many as the file before it",
                           npy->name, n, *n_io);
    }
    *n_io = several ? n : *n_io;
    return STATUS_OK;
}

static enum status count_check(const struct npy *npy, bool is_mask, const struct job *job, struct dataset *out)
{
    enum status status = count_more(npy, is_mask, &out->labels.splits.n);
    if (status == STATUS_OK && is_of_several(npy, is_mask) && job->dataset.split >= out->labels.splits.n) {
        return status_fail(STATUS_CONFIG,
                           "dataset.split = %" PRId64 ": %s has %" PRId64 " splits, expected 0 to %" PRId64,
                           job->dataset.split, npy->name, out->labels.splits.n, out->labels.splits.n - 1);
    }
    return status;
}

enum status dataset_npy_splits_count(const char *folder, int64_t *out)
{
    enum status status = STATUS_OK;
    *out = 1;
    for (int s = 0; s < N_SPLIT && status == STATUS_OK; s++) {
        bool is_mask;
        const char *name = file_of(folder, &all_files[s], &is_mask);
        struct npy npy = {0};
        if (name == NULL) {
            continue;
        }
        struct dataset_path path = dataset_path_join(folder, name);
        status = npy_open(path.text, &npy);
        if (status == STATUS_OK) {
            status = count_more(&npy, is_mask, out);
        }
        npy_close(&npy);
    }
    return status;
}

/* Row `row` of numbers of nodes. Rows of shorter splits are filled with -1. */
static enum status row_add(const struct npy *npy, int64_t row, enum dataset_split split, struct dataset *out)
{
    int64_t n = 0;
    enum status status = dataset_split_begin(npy->name, split, out);
    for (int64_t i = row * npy->shape[1]; i < (row + 1) * npy->shape[1] && status == STATUS_OK; i++) {
        int64_t node = npy_int(npy, i);
        n += node != -1;
        status = node != -1 ? dataset_split_node(npy->name, i, node, split, out) : STATUS_OK;
    }
    if (status == STATUS_OK && split == DATASET_SPLIT_TRAIN && npy->shape[0] > 1 && n < 2) {
        status = status_fail(STATUS_DATA,
                             "%s: has shape [%" PRId64 ", %" PRId64 "], and split %" PRId64 " of these has %" PRId64
                             " training node%s: expected two at least, as [splits, nodes]",
                             npy->name, npy->shape[0], npy->shape[1], row, n, n == 1 ? "" : "s");
    }
    return status;
}

static enum status mask_add(const struct npy *npy, int64_t column, enum dataset_split split, struct dataset *out)
{
    int64_t n_column = npy->rank == 2 ? npy->shape[1] : 1;
    enum status status = dataset_split_begin(npy->name, split, out);
    for (int64_t node = 0; node < out->n_node && status == STATUS_OK; node++) {
        int64_t value = npy_int(npy, node * n_column + column);
        if (value == 1) {
            status = dataset_split_node(npy->name, node, node, split, out);
        } else if (value != 0) {
            status = status_fail(STATUS_DATA, "%s: node %" PRId64 " has %" PRId64 ", expected 0 or 1 in a mask",
                                 npy->name, node, value);
        }
    }
    return status;
}

static enum status split_load(const struct job *job, const char *folder, const struct split_files *files,
                              struct dataset *out)
{
    bool is_mask, needed = files->split == DATASET_SPLIT_TRAIN && !out->predicts;
    const char *name = file_of(folder, files, &is_mask);
    if (name == NULL && !needed) {
        return STATUS_OK;
    }
    struct npy npy = {0};
    struct dataset_path path = dataset_path_join(folder, name != NULL ? name : files->idx);
    enum status status = npy_open(path.text, &npy);
    if (status == STATUS_OK) {
        status = shape_check(&npy, is_mask, out);
    }
    if (status == STATUS_OK) {
        status = count_check(&npy, is_mask, job, out);
    }
    if (status == STATUS_OK) {
        bool several = is_of_several(&npy, is_mask);
        int64_t at = several ? job->dataset.split : 0;
        status = is_mask   ? mask_add(&npy, at, files->split, out)
                 : several ? row_add(&npy, at, files->split, out)
                           : dataset_split_add(&npy, files->split, out);
    }
    npy_close(&npy);
    return status;
}

enum status dataset_npy_splits_load(const struct job *job, const char *folder, struct dataset *out)
{
    enum status status = STATUS_OK;
    out->labels.splits = (struct dataset_splits){.index = job->dataset.split, .n = 1};
    for (int s = 0; s < N_SPLIT && status == STATUS_OK; s++) {
        status = split_load(job, folder, &all_files[s], out);
    }
    if (status == STATUS_OK && job->dataset.split >= out->labels.splits.n) {
        return status_fail(STATUS_CONFIG, "dataset.split = %" PRId64 ": '%s' has one split, expected 0",
                           job->dataset.split, folder);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_split_finish(out);
}
