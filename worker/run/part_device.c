#include "worker/run/part_device.h"

#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/run/part_level.h"

#include <stdlib.h>

static int n_direction(const struct part *part)
{
    return part->symmetric ? 1 : PART_DIRECTION_N;
}

const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t level)
{
    return &part->blocks[d][level < part->part->n_level ? level : part->part->n_level];
}

static bool is_local(const struct part_device_setup *setup, const struct part *part, int32_t q)
{
    return q != part->part && setup->rank_of_part[q] == setup->rank && setup->spill == NULL;
}

/* The block with columns turned from payload rows into the other part's own rows, order of edges untouched. */
static enum status direct_open(const struct part_device_setup *setup, const struct part *part, int d, int32_t q,
                               struct device_block *out)
{
    const struct part_block *block = &part->block[d][q];
    const uint32_t *rows = setup->parts[q]->send[d][part->part].rows;
    uint32_t *cols;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)block->n_edge, sizeof *cols, &cols);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t e = 0; e < block->n_edge; e++) {
        cols[e] = rows[block->cols[e]];
    }
    *out = (struct device_block){.n_row = block->n_row,
                                 .n_col = setup->parts[q]->n_own,
                                 .n_edge = block->n_edge,
                                 .rows = block->rows,
                                 .indptr = block->indptr,
                                 .cols = cols,
                                 .types = block->types,
                                 .weights = block->weights};
    return setup->device->ops->block_open(setup->device, out);
}

/* Blocks of one direction: payload columns where rows travel or are packed, direct ones where they lie in this process. */
static enum status blocks_open(const struct part_device_setup *setup, const struct part *part, int d, struct part_blocks *out)
{
    out->block = memory_alloc((size_t)part->n_part, sizeof *out->block);
    out->direct = memory_alloc((size_t)part->n_part, sizeof *out->direct);
    for (int32_t q = 0; q < part->n_part; q++) {
        const struct part_block *block = &part->block[d][q];
        if (block->n_edge == 0 && q != part->part) {
            continue;
        }
        bool local = is_local(setup, part, q);
        enum status status = STATUS_OK;
        if (!local || setup->as_payload) {
            out->block[q] = (struct device_block){.n_row = block->n_row,
                                                  .n_col = block->n_col,
                                                  .n_edge = block->n_edge,
                                                  .rows = block->rows,
                                                  .indptr = block->indptr,
                                                  .cols = block->cols,
                                                  .types = block->types,
                                                  .weights = block->weights};
            status = setup->device->ops->block_open(setup->device, &out->block[q]);
        }
        if (status == STATUS_OK && local && setup->in_place) {
            status = direct_open(setup, part, d, q, &out->direct[q]);
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status scales_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    const struct aggregate_def *def = setup->scaled;
    bool self = part->loops == DATASET_LOOPS_IMPLICIT;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)part->n_own, sizeof(float), &out->scale);
    for (int64_t r = 0; status == STATUS_OK && r < part->n_own; r++) {
        out->scale[r] = def->scale(part->strength != NULL ? (double)part->strength[r] : part->degree[r], self);
    }
    for (int d = 0; status == STATUS_OK && d < n_direction(part); d++) {
        out->col_scale[d] = memory_alloc((size_t)part->n_part, sizeof *out->col_scale[d]);
        for (int32_t q = 0; status == STATUS_OK && q < part->n_part; q++) {
            const struct part_block *block = &part->block[d][q];
            if (q == part->part || block->n_edge == 0 || is_local(setup, part, q)) {
                continue;
            }
            float **scale = &out->col_scale[d][q];
            status = memory_acquire(MEMORY_STRUCTURE, (size_t)block->n_col, sizeof **scale, scale);
            for (int64_t c = 0; status == STATUS_OK && c < block->n_col; c++) {
                (*scale)[c] = def->scale(block->strength != NULL ? (double)block->strength[c] : block->degree[c], self);
            }
        }
    }
    return status;
}

/* Dense rows of sparse features. */
static enum status features_expand(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    size_t n = (size_t)part->n_own * (size_t)part->n_feature;
    enum status status = setup->spill != NULL ? spill_take(setup->spill, (int64_t)(n * sizeof(float)), &out->expanded)
                                              : memory_acquire(MEMORY_FEATURES, n, sizeof(float), &out->expanded);
    const struct spill_range all = {out->expanded, (int64_t)(n * sizeof(float)), SPILL_WRITE};
    status = status == STATUS_OK ? spill_use(setup->spill, &all, 1) : status;
    if (status == STATUS_OK) {
        setup->device->ops->csr_dense(setup->device, &out->csr, out->expanded);
        spill_done(setup->spill, &all, 1);
        out->features = out->expanded;
    }
    return status;
}

static enum status features_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    out->features = part->features;
    if (part->feature_indptr == NULL) {
        return STATUS_OK;
    }
    out->csr = (struct device_csr){.n_row = part->n_own,
                                   .n_col = part->n_shared,
                                   .n_value = part->n_feature_value,
                                   .indptr = part->feature_indptr,
                                   .cols = part->feature_indices,
                                   .values = part->feature_data,
                                   .embedded = &setup->program->embedded,
                                   .n_embedded = part->n_embedded,
                                   .embedded_rows = part->embedded_rows,
                                   .embedded_columns = part->embedded_columns};
    if (setup->program->value[0].is_sparse) {
        return setup->device->ops->csr_open(setup->device, &out->csr);
    }
    return features_expand(setup, part, out);
}

enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    *out = (struct part_device){
        .part = part,
        .labels = {.labels = part->labels, .label_rows = part->label_rows, .split = part->split, .train = DATASET_SPLIT_TRAIN}};
    ASSERT(setup->device->ops->host_visible);
    halo_counts_from_part(part, &out->halo);
    enum status status = STATUS_OK;
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out->blocks[d] = memory_alloc((size_t)part->n_level + 1, sizeof *out->blocks[d]);
    }
    for (int d = 0; status == STATUS_OK && d < n_direction(part); d++) {
        status = blocks_open(setup, part, d, &out->blocks[d][part->n_level]);
    }
    if (status == STATUS_OK && setup->scaled != NULL) {
        status = scales_open(setup, part, out);
    }
    if (part->symmetric) {
        out->blocks[PART_DIRECTION_OUT][part->n_level] = out->blocks[PART_DIRECTION_IN][part->n_level];
        out->col_scale[PART_DIRECTION_OUT] = out->col_scale[PART_DIRECTION_IN];
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t level = 0; status == STATUS_OK && level < part->n_level; level++) {
            status = part_level_open(setup, (enum part_direction)d, level, out);
        }
    }
    return status == STATUS_OK ? features_open(setup, part, out) : status;
}

static void blocks_close(const struct part_device_setup *setup, struct part_device *part, int d)
{
    const struct part_blocks *blocks = &part->blocks[d][part->part->n_level];
    for (int32_t q = 0; blocks->block != NULL && q < part->part->n_part; q++) {
        if (blocks->block[q].indptr != NULL) {
            setup->device->ops->block_close(setup->device, &blocks->block[q]);
        }
        struct device_block *direct = &blocks->direct[q];
        if (direct->indptr != NULL) {
            setup->device->ops->block_close(setup->device, direct);
            memory_release(MEMORY_STRUCTURE, (void *)(uintptr_t)direct->cols, (size_t)direct->n_edge, sizeof *direct->cols);
        }
        if (part->col_scale[d] != NULL) {
            memory_release(MEMORY_STRUCTURE, part->col_scale[d][q], (size_t)part->part->block[d][q].n_col, sizeof(float));
        }
    }
    free(blocks->block);
    free(blocks->direct);
    free(part->col_scale[d]);
}

void part_device_close(const struct part_device_setup *setup, struct part_device *part)
{
    if (part->part == NULL) {
        return;
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t level = 0; level < part->part->n_level; level++) {
            part_level_close(setup, part, d, level);
        }
    }
    for (int d = 0; d < n_direction(part->part); d++) {
        blocks_close(setup, part, d);
    }
    free(part->blocks[PART_DIRECTION_IN]);
    free(part->blocks[PART_DIRECTION_OUT]);
    memory_release(MEMORY_STRUCTURE, part->scale, (size_t)part->part->n_own, sizeof(float));
    if (part->csr.by_column != NULL) {
        setup->device->ops->csr_close(setup->device, &part->csr);
    }
    if (setup->spill == NULL) {
        memory_release(MEMORY_FEATURES, part->expanded, (size_t)part->part->n_own * (size_t)part->part->n_feature,
                       sizeof(float));
    }
    halo_counts_release(&part->halo);
    *part = (struct part_device){0};
}
