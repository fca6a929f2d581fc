#include "trainerd/coordinator/folder/splits.h"

#include "partition/files/npy_header.h"
#include "protocol/base/memory.h"

#include <string.h>

enum status splits_keep(const struct dataset *dataset, struct splits *out)
{
    *out = (struct splits){.n_node = dataset->n_node};
    if (dataset->labels.splits.origin != DATASET_ORIGIN_DRAWN) {
        return STATUS_OK;
    }
    memcpy(out->n_split, dataset->labels.n_split, sizeof out->n_split);
    return memory_copy(MEMORY_OTHER, dataset->labels.split, (size_t)out->n_node, sizeof *out->split, &out->split);
}

void splits_release(struct splits *splits)
{
    memory_release(MEMORY_OTHER, splits->split, (size_t)splits->n_node, sizeof *splits->split);
    *splits = (struct splits){0};
}

struct split_file {
    const struct splits *splits;
    enum dataset_split split;
    char header[256];
    size_t n_header;
};

static enum status split_fill(void *context, char *bytes)
{
    const struct split_file *file = context;
    int64_t *nodes = (int64_t *)(void *)(bytes + file->n_header);
    memcpy(bytes, file->header, file->n_header);
    for (int64_t node = 0; node < file->splits->n_node; node++) {
        if (file->splits->split[node] == file->split) {
            *nodes++ = node;
        }
    }
    return STATUS_OK;
}

enum status splits_save(const struct splits *splits, const struct dir *dir)
{
    static const char *const names[] = {[DATASET_SPLIT_TRAIN] = "drawn_train_idx.npy",
                                        [DATASET_SPLIT_VALID] = "drawn_valid_idx.npy",
                                        [DATASET_SPLIT_TEST] = "drawn_test_idx.npy"};
    enum status status = STATUS_OK;
    for (int split = DATASET_SPLIT_TRAIN; splits->split != NULL && split <= DATASET_SPLIT_TEST && status == STATUS_OK;
         split++) {
        const int64_t n = splits->n_split[split];
        struct split_file file = {.splits = splits, .split = (enum dataset_split)split};
        file.n_header = npy_header_write(NPY_TYPE_I64, 1, &n, file.header, sizeof file.header);
        status = dir_replace_mapped(dir, names[split], file.n_header + (size_t)n * sizeof n, split_fill, &file);
    }
    return status;
}
