#include "trainerd/coordinator/records/embeddings.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

enum status embeddings_build(const struct dataset *dataset, const struct partition *partition,
                             const struct part_sizes *sizes, const struct program *program, struct embeddings *out)
{
    *out = (struct embeddings){.n_part = partition->n_part, .width = program->n_embedding};
    if (out->width == 0) {
        return STATUS_OK;
    }
    out->n_node = embedded_count(&program->embedded);
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_node, sizeof *out->column, &out->column);
    if (status != STATUS_OK) {
        return status;
    }
    out->n_float = memory_alloc((size_t)out->n_part, sizeof *out->n_float);
    for (int32_t part = 0; part < out->n_part; part++) {
        out->n_float[part] = sizes[part].n_embedded * out->width;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < partition->n_node; i++) {
        int64_t node = partition->order[i];
        if (dataset_is_embedded(dataset, node)) {
            out->column[n++] = dataset->features.indices[dataset->features.indptr[node]];
        }
    }
    ASSERT(n == out->n_node);
    return STATUS_OK;
}

void embeddings_release(struct embeddings *embeddings)
{
    memory_release(MEMORY_OTHER, embeddings->column, (size_t)embeddings->n_node, sizeof *embeddings->column);
    free(embeddings->n_float);
    *embeddings = (struct embeddings){0};
}

/* A buffer for the largest part. */
static enum status buffer_open(const struct embeddings *embeddings, int64_t *n_out, float **buffer_out)
{
    *n_out = 0;
    for (int32_t part = 0; part < embeddings->n_part; part++) {
        *n_out = embeddings->n_float[part] > *n_out ? embeddings->n_float[part] : *n_out;
    }
    return memory_acquire(MEMORY_OTHER, (size_t)*n_out, sizeof **buffer_out, buffer_out);
}

/* Copy part after part, from the workers to the tensors' columns, or from these to the workers. */
static enum status parts_move(const struct embeddings *embeddings, struct fleet *fleet, enum worker_state what,
                              const struct weights *weights, bool to_workers)
{
    if (embeddings->n_float == NULL) {
        return STATUS_OK;
    }
    int64_t capacity;
    float *buffer;
    enum status status = buffer_open(embeddings, &capacity, &buffer);
    if (status != STATUS_OK) {
        return status;
    }
    const uint32_t *column = embeddings->column;
    for (int32_t part = 0; status == STATUS_OK && part < embeddings->n_part; part++) {
        int64_t n_float = embeddings->n_float[part], n = n_float / embeddings->width;
        if (to_workers) {
            weights_copy_embeddings(weights, n, column, buffer, true);
            status = fleet_put(fleet, what, part, buffer, (size_t)n_float * sizeof *buffer);
        } else {
            status = fleet_get(fleet, what, part, buffer, (size_t)n_float * sizeof *buffer);
            if (status == STATUS_OK) {
                weights_copy_embeddings(weights, n, column, buffer, false);
            }
        }
        column += n;
    }
    memory_release(MEMORY_OTHER, buffer, (size_t)capacity, sizeof *buffer);
    return status;
}

enum status embeddings_get(const struct embeddings *embeddings, struct fleet *fleet, enum worker_state what,
                           struct weights *weights)
{
    return parts_move(embeddings, fleet, what, weights, false);
}

enum status embeddings_put(const struct embeddings *embeddings, struct fleet *fleet, enum worker_state what,
                           const struct weights *weights)
{
    return parts_move(embeddings, fleet, what, weights, true);
}
