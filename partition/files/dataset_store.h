/* The memory behind a dataset's pointers: mapped files and counted blocks, listed together and released at once. */
#ifndef PARTITION_DATASET_STORE_H
#define PARTITION_DATASET_STORE_H

#include "partition/files/npy.h"
#include "protocol/base/memory.h"
#include "protocol/base/status.h"

#include <stddef.h>

struct dataset_store;

struct dataset_store *dataset_store_open(void);
void dataset_store_close(struct dataset_store *store);

/* A zeroed block that lives as long as the store; errors as memory_acquire. */
enum status dataset_store_block(struct dataset_store *store, enum memory_category category, size_t n, size_t size,
                                void *out);

/* Keep only the first n_new elements of a block of this store; *block_io may move. */
enum status dataset_store_shrink(struct dataset_store *store, void *block_io, size_t n_new);

/* Take over an open array: *npy is empty afterwards, its data live as long as the store. */
void dataset_store_keep(struct dataset_store *store, struct npy *npy);

#endif
