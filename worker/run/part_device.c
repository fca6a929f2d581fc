#include "worker/run/part_device.h"

#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/run/part_hop.h"

#include <stdlib.h>

static int n_direction(const struct part *part)
{
    return part->symmetric ? 1 : PART_DIRECTION_N;
}

const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t hop)
{
    return &part->blocks[d][hop < part->part->n_hop ? hop : part->part->n_hop];
}

static bool is_local(const struct part_device_setup *setup, const struct part *part, int32_t q)
{
    return q != part->part && setup->rank_of_part[q] == setup->rank && setup->spill == NULL;
}

enum status part_lend(const struct part_device_setup *setup, const void *host, int64_t n_bytes, struct part_lent *out)
{
    *out = (struct part_lent){.host = host, .n_bytes = n_bytes};
    return setup->device->ops->borrow(setup->device, MEMORY_STRUCTURE, host, (size_t)n_bytes, &out->device);
}

void part_lent_end(const struct part_device_setup *setup, const struct part_lent *lent)
{
    if (lent->device != NULL) {
        setup->device->ops->giveback(setup->device, MEMORY_STRUCTURE, lent->host, (size_t)lent->n_bytes,
                                     (void *)(uintptr_t)lent->device);
    }
}

const void *part_lent_view(const struct part_lent *lent, const void *host)
{
    return host != NULL ? lent->device + ((const char *)host - lent->host) : NULL;
}

const void *part_device_view(const struct part_device *part, const void *host)
{
    return part_lent_view(&part->bytes, host);
}

/* Memory that part_lent_end does not give back. */
static void made_release(const struct part_device_setup *setup, const struct part_lent *made)
{
    part_lent_end(setup, made);
    memory_release(MEMORY_STRUCTURE, (void *)(uintptr_t)made->host, (size_t)made->n_bytes, 1);
}

static bool is_direct(const struct part_device_setup *setup, const struct part *part, int d, int32_t q)
{
    return setup->in_place && is_local(setup, part, q) && part->block[d][q].n_edge > 0;
}

/* Columns of direct blocks, turned from payload rows into the other part's own rows, block after block; order of edges
 * untouched. */
static enum status direct_columns(const struct part_device_setup *setup, const struct part *part, int d,
                                  struct part_blocks *out)
{
    int64_t n_edge = 0, at = 0;
    for (int32_t q = 0; q < part->n_part; q++) {
        n_edge += is_direct(setup, part, d, q) ? part->block[d][q].n_edge : 0;
    }
    uint32_t *cols;
    int64_t n_bytes = n_edge * (int64_t)sizeof *cols;
    enum status status = n_edge > 0 ? memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &cols) : STATUS_OK;
    if (status != STATUS_OK || n_edge == 0) {
        return status;
    }
    for (int32_t q = 0; q < part->n_part; q++) {
        const struct part_block *block = &part->block[d][q];
        if (!is_direct(setup, part, d, q)) {
            continue;
        }
        const uint32_t *rows = setup->parts[q]->send[d][part->part].rows;
        for (int64_t e = 0; e < block->n_edge; e++) {
            cols[at++] = rows[block->cols[e]];
        }
    }
    return part_lend(setup, cols, n_bytes, &out->made);
}

/* A part's block as operations see it, with other columns where `cols` is not NULL. */
static struct device_block block_view(const struct part_device *part, const struct part_block *block, const void *cols)
{
    return (struct device_block){.n_row = block->n_row,
                                 .n_col = block->n_col,
                                 .n_edge = block->n_edge,
                                 .rows = part_device_view(part, block->rows),
                                 .indptr = part_device_view(part, block->indptr),
                                 .cols = cols != NULL ? cols : part_device_view(part, block->cols),
                                 .types = part_device_view(part, block->types),
                                 .weights = part_device_view(part, block->weights)};
}

/* Blocks of one direction: payload columns where rows travel or are packed, direct ones where they lie in this process. */
static enum status blocks_open(const struct part_device_setup *setup, const struct part_device *own, int d,
                               struct part_blocks *out)
{
    const struct part *part = own->part;
    struct device *device = setup->device;
    out->block = memory_alloc((size_t)part->n_part, sizeof *out->block);
    out->direct = memory_alloc((size_t)part->n_part, sizeof *out->direct);
    enum status status = direct_columns(setup, part, d, out);
    const uint32_t *cols = (const uint32_t *)(const void *)out->made.device;
    for (int32_t q = 0; q < part->n_part && status == STATUS_OK; q++) {
        const struct part_block *block = &part->block[d][q];
        if (block->n_edge == 0 && q != part->part) {
            continue;
        }
        if (!is_local(setup, part, q) || setup->as_payload) {
            out->block[q] = block_view(own, block, NULL);
            status = device->ops->block_open(device, &out->block[q]);
        }
        if (status == STATUS_OK && is_direct(setup, part, d, q)) {
            out->direct[q] = block_view(own, block, cols);
            out->direct[q].n_col = setup->parts[q]->n_own;
            cols += block->n_edge;
            status = device->ops->block_open(device, &out->direct[q]);
        }
    }
    return status;
}

/* Rows of other parts whose scales this one knows: payload rows that travel. */
static bool has_col_scale(const struct part_device_setup *setup, const struct part *part, int d, int32_t q)
{
    return q != part->part && part->block[d][q].n_edge > 0 && !is_local(setup, part, q);
}

static float scale_of(const struct part_device_setup *setup, const struct part *part, const float *strength,
                      const uint32_t *degree, int64_t r)
{
    return setup->scaled->scale(strength != NULL ? (double)strength[r] : degree[r], part->loops == DATASET_LOOPS_IMPLICIT);
}

static enum status scales_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    int64_t n = part->n_own;
    for (int d = 0; d < n_direction(part); d++) {
        out->col_scale[d] = memory_alloc((size_t)part->n_part, sizeof *out->col_scale[d]);
        for (int32_t q = 0; q < part->n_part; q++) {
            n += has_col_scale(setup, part, d, q) ? part->block[d][q].n_col : 0;
        }
    }
    float *scale;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n * sizeof *scale, 1, &scale);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t r = 0; r < part->n_own; r++) {
        scale[r] = scale_of(setup, part, part->strength, part->degree, r);
    }
    int64_t at = part->n_own;
    for (int d = 0; d < n_direction(part); d++) {
        for (int32_t q = 0; q < part->n_part; q++) {
            const struct part_block *block = &part->block[d][q];
            if (!has_col_scale(setup, part, d, q)) {
                continue;
            }
            out->col_scale[d][q] = scale + at;
            for (int64_t c = 0; c < block->n_col; c++) {
                scale[at++] = scale_of(setup, part, block->strength, block->degree, c);
            }
        }
    }
    status = part_lend(setup, scale, n * (int64_t)sizeof *scale, &out->scales);
    out->scale = (const float *)(const void *)out->scales.device;
    for (int d = 0; d < n_direction(part); d++) {
        for (int32_t q = 0; q < part->n_part; q++) {
            out->col_scale[d][q] = part_lent_view(&out->scales, out->col_scale[d][q]);
        }
    }
    return status;
}

/* Dense rows of sparse features. */
static enum status features_expand(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    size_t n = (size_t)part->n_own * (size_t)part->n_feature;
    enum status status = setup->spill != NULL ? spill_take(setup->spill, (int64_t)(n * sizeof(float)), &out->expanded)
                                              : setup->device->ops->acquire(setup->device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES,
                                                                            n * sizeof(float), &out->expanded);
    const struct spill_range all = {out->expanded, (int64_t)(n * sizeof(float)), SPILL_WRITE};
    status = status == STATUS_OK ? spill_pin(setup->spill, &all, 1) : status;
    if (status == STATUS_OK) {
        setup->device->ops->csr_dense(setup->device, &out->csr, out->expanded);
        spill_unpin(setup->spill, &all, 1);
        out->features = out->expanded;
    }
    return status;
}

static enum status features_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    out->features = part_device_view(out, part->features);
    if (part->feature_indptr == NULL) {
        return STATUS_OK;
    }
    out->csr = (struct device_csr){.n_row = part->n_own,
                                   .n_col = part->n_shared,
                                   .n_value = part->n_feature_value,
                                   .indptr = part_device_view(out, part->feature_indptr),
                                   .cols = part_device_view(out, part->feature_indices),
                                   .values = part_device_view(out, part->feature_data),
                                   .embedded = &setup->program->embedded,
                                   .n_embedded = part->n_embedded,
                                   .embedded_rows = part_device_view(out, part->embedded_rows),
                                   .embedded_columns = part_device_view(out, part->embedded_columns)};
    if (setup->program->value[0].is_sparse) {
        return setup->device->ops->csr_open(setup->device, &out->csr);
    }
    return features_expand(setup, part, out);
}

enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out)
{
    *out = (struct part_device){.part = part};
    halo_counts_from_part(part, &out->halo);
    enum status status = part_lend(setup, part->bytes, part->n_bytes, &out->bytes);
    out->labels = (struct op_labels){.labels = part_device_view(out, part->labels),
                                     .label_rows = part_device_view(out, part->label_rows),
                                     .split = part_device_view(out, part->split),
                                     .train = DATASET_SPLIT_TRAIN};
    out->node = part_device_view(out, part->node);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out->blocks[d] = memory_alloc((size_t)part->n_hop + 1, sizeof *out->blocks[d]);
    }
    for (int d = 0; status == STATUS_OK && d < n_direction(part); d++) {
        status = blocks_open(setup, out, d, &out->blocks[d][part->n_hop]);
    }
    if (status == STATUS_OK && setup->scaled != NULL) {
        status = scales_open(setup, part, out);
    }
    if (part->symmetric) {
        out->blocks[PART_DIRECTION_OUT][part->n_hop] = out->blocks[PART_DIRECTION_IN][part->n_hop];
        out->col_scale[PART_DIRECTION_OUT] = out->col_scale[PART_DIRECTION_IN];
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t hop = 0; status == STATUS_OK && hop < part->n_hop; hop++) {
            status = part_hop_open(setup, (enum part_direction)d, hop, out);
        }
    }
    return status == STATUS_OK ? features_open(setup, part, out) : status;
}

static void blocks_close(const struct part_device_setup *setup, struct part_device *part, int d)
{
    const struct part_blocks *blocks = &part->blocks[d][part->part->n_hop];
    for (int32_t q = 0; blocks->block != NULL && q < part->part->n_part; q++) {
        if (blocks->block[q].indptr != NULL) {
            setup->device->ops->block_close(setup->device, &blocks->block[q]);
        }
        if (blocks->direct[q].indptr != NULL) {
            setup->device->ops->block_close(setup->device, &blocks->direct[q]);
        }
    }
    made_release(setup, &blocks->made);
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
        for (int32_t hop = 0; hop < part->part->n_hop; hop++) {
            part_hop_close(setup, part, d, hop);
        }
    }
    for (int d = 0; d < n_direction(part->part); d++) {
        blocks_close(setup, part, d);
    }
    free(part->blocks[PART_DIRECTION_IN]);
    free(part->blocks[PART_DIRECTION_OUT]);
    made_release(setup, &part->scales);
    if (part->csr.by_column != NULL) {
        setup->device->ops->csr_close(setup->device, &part->csr);
    }
    if (setup->spill == NULL) {
        setup->device->ops->release(setup->device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, part->expanded,
                                    (size_t)part->part->n_own * (size_t)part->part->n_feature * sizeof(float));
    }
    part_lent_end(setup, &part->bytes);
    halo_counts_release(&part->halo);
    *part = (struct part_device){0};
}
