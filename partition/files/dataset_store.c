/* The list behind a dataset's pointers. A dataset has about ten arrays, so both lists are short and fixed. */
#include "partition/files/dataset_store.h"

#include "protocol/base/log.h"

#include <stdlib.h>

#define STORE_MOST 32

struct store_block {
    void *block;
    size_t n, size;
    enum memory_category category;
};

struct dataset_store {
    struct npy files[STORE_MOST];
    int n_file;
    struct store_block blocks[STORE_MOST];
    int n_block;
};

struct dataset_store *dataset_store_open(void)
{
    return memory_alloc(1, sizeof(struct dataset_store));
}

void dataset_store_close(struct dataset_store *store)
{
    if (store == NULL) {
        return;
    }
    for (int i = 0; i < store->n_file; i++) {
        npy_close(&store->files[i]);
    }
    for (int i = 0; i < store->n_block; i++) {
        memory_release(store->blocks[i].category, store->blocks[i].block, store->blocks[i].n, store->blocks[i].size);
    }
    free(store);
}

enum status dataset_store_block(struct dataset_store *store, enum memory_category category, size_t n, size_t size,
                                void *out)
{
    ASSERT(store->n_block < STORE_MOST);
    struct store_block *row = &store->blocks[store->n_block];
    enum status status = memory_acquire(category, n, size, &row->block);
    if (status != STATUS_OK) {
        return status;
    }
    row->n = n;
    row->size = size;
    row->category = category;
    store->n_block++;
    *(void **)out = row->block;
    return STATUS_OK;
}

enum status dataset_store_shrink(struct dataset_store *store, void *block_io, size_t n_new)
{
    struct store_block *row = store->blocks;
    while (row < store->blocks + store->n_block && row->block != *(void **)block_io) {
        row++;
    }
    ASSERT(row < store->blocks + store->n_block && n_new <= row->n);
    enum status status = memory_shrink(row->category, &row->block, row->n, n_new, row->size);
    if (status == STATUS_OK) {
        row->n = n_new;
        *(void **)block_io = row->block;
    }
    return status;
}

void dataset_store_keep(struct dataset_store *store, struct npy *npy)
{
    ASSERT(store->n_file < STORE_MOST);
    store->files[store->n_file++] = *npy;
    *npy = (struct npy){0};
}
