/* The contents of a dataset other than its edges, as hashes of the loaded arrays, so that only contents count. */
#include "partition/graph/dataset.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <xxhash.h>

#define BLOCK_BYTES ((size_t)1 << 24)
#define N_NODE_MOST 512 /* node numbers hashed at once */

/* A hash of the bytes' blocks, made by several threads. Without an array: only of its number of bytes. */
static uint64_t bytes_hash(const void *bytes, int64_t n_value, size_t size, uint64_t seed)
{
    size_t n = bytes != NULL ? (size_t)n_value * size : 0;
    int64_t n_block = (int64_t)((n + BLOCK_BYTES - 1) / BLOCK_BYTES);
    uint64_t *of_block = memory_alloc((size_t)n_block + 1, sizeof *of_block);
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < n_block; b++) {
        size_t at = (size_t)b * BLOCK_BYTES;
        of_block[b] = XXH3_64bits((const char *)bytes + at, n - at < BLOCK_BYTES ? n - at : BLOCK_BYTES);
    }
    of_block[n_block] = n;
    uint64_t hash = XXH3_64bits_withSeed(of_block, ((size_t)n_block + 1) * sizeof *of_block, seed);
    free(of_block);
    return hash;
}

static uint64_t labels_hash(const struct dataset *dataset)
{
    int64_t n = dataset->n_node;
    return dataset->facts.multi_label ? bytes_hash(dataset->labels.rows, n * dataset->facts.n_class,
                                                   sizeof *dataset->labels.rows, (uint64_t)dataset->facts.n_class)
                                      : bytes_hash(dataset->labels.classes, n, sizeof *dataset->labels.classes,
                                                   (uint64_t)dataset->facts.n_class);
}

static uint64_t features_hash(const struct dataset *dataset)
{
    int64_t n_node = dataset->n_node, n = n_node * dataset->facts.n_feature;
    if (dataset->features.indptr == NULL) {
        return dataset->features.f16 != NULL ? bytes_hash(dataset->features.f16, n, sizeof *dataset->features.f16,
                                                          (uint64_t)dataset->facts.n_feature)
                                             : bytes_hash(dataset->features.f32, n, sizeof *dataset->features.f32,
                                                          (uint64_t)dataset->facts.n_feature);
    }
    int64_t n_value = dataset->features.indptr[n_node];
    uint64_t hash = bytes_hash(dataset->features.indptr, n_node + 1, sizeof *dataset->features.indptr,
                               (uint64_t)dataset->facts.n_feature);
    hash = bytes_hash(dataset->features.indices, n_value, sizeof *dataset->features.indices, hash);
    return bytes_hash(dataset->features.data, n_value, sizeof *dataset->features.data, hash);
}

/* Of the numbers of its nodes. */
static uint64_t split_hash(const struct dataset *dataset, enum dataset_split split)
{
    int64_t node[N_NODE_MOST];
    int n = 0;
    XXH3_state_t *state = XXH3_createState();
    ASSERT(state != NULL);
    XXH3_64bits_reset(state);
    for (int64_t v = 0; v < dataset->n_node; v++) {
        if (dataset_split_has(dataset->labels.split[v], split)) {
            node[n++] = v;
        }
        if (n == N_NODE_MOST || v == dataset->n_node - 1) {
            XXH3_64bits_update(state, node, (size_t)n * sizeof *node);
            n = 0;
        }
    }
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* … and of the edges that are held out, with what they are ranked among. */
static uint64_t held_hash(const struct links_held *held, uint64_t hash)
{
    const struct links_pairs *positive = &held->positive, *negative = &held->negative;
    if (positive->n == 0) {
        return hash;
    }
    hash = bytes_hash(positive->end, 2 * positive->n, sizeof *positive->end, hash);
    if (positive->relation != NULL) {
        hash = bytes_hash(positive->relation, positive->n, sizeof *positive->relation, hash);
    }
    hash = bytes_hash(negative->end, 2 * negative->n, sizeof *negative->end, hash);
    return bytes_hash(held->tail, positive->n * held->n_tail, sizeof *held->tail, hash);
}

void dataset_contents(const struct dataset *dataset, uint64_t out[DATASET_CONTENT_N])
{
    out[DATASET_CONTENT_LABELS] = labels_hash(dataset);
    out[DATASET_CONTENT_FEATURES] = features_hash(dataset);
    for (int s = 0; s < 3; s++) {
        out[DATASET_CONTENT_TRAIN + s] = split_hash(dataset, (enum dataset_split)(DATASET_SPLIT_TRAIN + s));
    }
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        uint64_t *of = &out[DATASET_CONTENT_VALID + s];
        *of = held_hash(&dataset->links.held[s], *of);
    }
    out[DATASET_CONTENT_CLASS_WEIGHTS] = bytes_hash(dataset->labels.class_weights, dataset->facts.n_class,
                                                    sizeof *dataset->labels.class_weights,
                                                    (uint64_t)dataset->facts.n_class);
    for (int i = 0; i < DATASET_CONTENT_N; i++) {
        out[i] = out[i] != 0 ? out[i] : 1;
    }
}
