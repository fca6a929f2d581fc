#include "worker/rows/part_device.h"

#include "protocol/base/memory.h"
#include "worker/rows/part_hop.h"
#include "worker/rows/part_remap.h"

#include <stdlib.h>

/* Directions that some step walks: forward goes over in-edges alone. */
static int n_direction(const struct part_device_setup *setup, const struct part *part)
{
    return part->facts.symmetric || setup->program->forward_only ? 1 : PART_DIRECTION_N;
}

const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t hop)
{
    return &part->blocks[d][hop < part->part->n_hop ? hop : part->part->n_hop];
}

bool part_is_local(const struct part_device_setup *setup, const struct part *part, int32_t q)
{
    return q != part->part && setup->rank_of_part[q] == setup->rank && setup->spill == NULL &&
           !program_is_lossy(setup->program);
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
                                     lent->device);
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

void part_made_release(const struct part_device_setup *setup, const struct part_lent *made)
{
    part_lent_end(setup, made);
    memory_release(MEMORY_STRUCTURE, (void *)(uintptr_t)made->host, (size_t)made->n_bytes, 1);
}

/* Do rows of a direction travel for this part alone? */
static bool takes_payloads(const struct part_device_setup *setup, const struct part *part, int d)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    bool any = false;
    for (int32_t k = 0; k < pairs->n_pair && !any; k++) {
        any = k != pairs->own && !part_is_local(setup, part, pairs->pair[k].part);
    }
    return any && !setup->dedups;
}

/* All blocks of one direction. */
static enum status blocks_open(const struct part_device_setup *setup, const struct part_device *own, int d,
                               struct part_remap *remap)
{
    const struct part *part = own->part;
    const struct part_arrays *from = &part->arrays[d];
    const struct part_edges *received = &remap->edges;
    struct part_blocks *out = &own->blocks[d][part->n_hop];
    *out = (struct part_blocks){
        .at = part->halo.pairs[d].pair,
        .hop = PROGRAM_HOP_ALL,
        .indptr = part_device_view(own, from->indptr != NULL ? from->indptr : received->indptr),
        .cols = part_device_view(own, from->cols != NULL ? from->cols : received->cols),
        .types = part_device_view(own, from->types),
        .weights = part_device_view(own, from->weights != NULL ? from->weights : received->weights),
        .edge_table = part_device_view(own, part->edges.features),
        .remap = remap};
    enum status status = STATUS_OK;
    if (remap->made.host != NULL) {
        status = part_lend(setup, remap->made.host, remap->made.n_bytes, &remap->made);
    }
    return status == STATUS_OK ? part_schedules_open(setup, own, d, part->n_hop) : status;
}

float part_device_scale(const struct part_device_setup *setup, const struct part *part, const float *strength,
                        const uint32_t *degree, int64_t r)
{
    bool weighs = strength != NULL && !setup->scaled->scale_counts;
    return setup->scaled->scale(weighs ? (double)strength[r] : degree[r], part->facts.loops == GRAPH_LOOPS_IMPLICIT);
}

/* Scales of own rows, and where some payload rows of a direction travel for this part alone, or are halo rows, of all
 * of them. */
static enum status scales_open(const struct part_device_setup *setup, const struct part *part,
                               struct part_device *out)
{
    int64_t n = part->n_own, n_col[PART_DIRECTION_N] = {0};
    for (int d = 0; d < n_direction(setup, part); d++) {
        const struct part_pairs *pairs = &part->halo.pairs[d];
        bool stored = part->n_halo > 0 && d == PART_DIRECTION_IN;
        n_col[d] = stored || takes_payloads(setup, part, d) ? pairs->pair[pairs->n_pair].col - part->n_own : 0;
        n += n_col[d];
    }
    float *scale;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n * sizeof *scale, 1, &scale);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t r = 0; r < part->n_own; r++) {
        scale[r] = part_device_scale(setup, part, part->strength, part->degree, r);
    }
    int64_t at = part->n_own;
    for (int d = 0; d < n_direction(setup, part); d++) {
        const struct part_arrays *from = &part->arrays[d];
        for (int64_t c = 0; c < n_col[d]; c++) {
            scale[at + c] = part_device_scale(setup, part, from->strength, from->degree, c);
        }
        out->col_scale[d] = n_col[d] > 0 ? scale + at : NULL;
        at += n_col[d];
    }
    status = part_lend(setup, scale, n * (int64_t)sizeof *scale, &out->scales);
    out->scale = (const float *)(const void *)out->scales.device;
    for (int d = 0; d < n_direction(setup, part); d++) {
        out->col_scale[d] = part_lent_view(&out->scales, out->col_scale[d]);
    }
    return status;
}

/* Dense rows of sparse features. */
static enum status features_expand(const struct part_device_setup *setup, const struct part *part,
                                   struct part_device *out)
{
    size_t n = (size_t)(part->n_own + part->n_halo) * (size_t)part->facts.n_feature;
    enum status status = setup->spill != NULL
                             ? spill_take(setup->spill, (int64_t)(n * sizeof(float)), &out->expanded)
                             : setup->device->ops->acquire(setup->device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES,
                                                           n * sizeof(float), &out->expanded);
    const struct spill_range all = {out->expanded, (int64_t)(n * sizeof(float)), SPILL_WRITE};
    status = status == STATUS_OK ? spill_pin(setup->spill, &all, 1) : status;
    if (status == STATUS_OK) {
        setup->device->ops->csr_dense(setup->device, &out->csr_halo, out->expanded);
        spill_unpin(setup->spill, &all, 1);
        out->features = out->expanded;
    }
    return status;
}

/* The columns that linear maps read. */
static enum status csrs_open(const struct part_device_setup *setup, struct part_device *out)
{
    const struct device_ops *ops = setup->device->ops;
    enum status status = STATUS_OK;
    if (setup->maps_own || program_maps_sparse(setup->program, PROGRAM_HOP_ALL)) {
        status = ops->csr_open(setup->device, &out->csr);
    }
    if (status == STATUS_OK && program_maps_sparse(setup->program, PROGRAM_HOP_HALO)) {
        status = ops->csr_open(setup->device, &out->csr_halo);
    }
    return status;
}

static enum status features_open(const struct part_device_setup *setup, const struct part *part,
                                 struct part_device *out)
{
    out->features = part_device_view(out, part->features.rows);
    if (part->features.indptr == NULL) {
        return STATUS_OK;
    }
    out->csr = (struct device_csr){.n_row = part->n_own,
                                   .n_col = part->features.n_shared,
                                   .n_value = part->features.n_value,
                                   .indptr = part_device_view(out, part->features.indptr),
                                   .cols = part_device_view(out, part->features.indices),
                                   .values = part_device_view(out, part->features.data),
                                   .embedded = &setup->program->embedded,
                                   .n_embedded = part->features.n_embedded,
                                   .embedded_rows = part_device_view(out, part->features.embedded_rows),
                                   .embedded_columns = part_device_view(out, part->features.embedded_columns)};
    out->csr_halo = out->csr;
    out->csr_halo.n_row += part->n_halo;
    out->csr_halo.n_value += part->features.n_halo_value;
    return setup->program->value[0].is_sparse ? csrs_open(setup, out) : features_expand(setup, part, out);
}

enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_remap *remap,
                             struct part_device *out)
{
    *out = (struct part_device){.part = part};
    enum status status = part_lend(setup, part->bytes, part->n_bytes, &out->bytes);
    out->labels = (struct op_labels){.labels = part_device_view(out, part->labels.classes),
                                     .label_rows = part_device_view(out, part->labels.rows),
                                     .split = part_device_view(out, part->labels.split),
                                     .train = DATASET_SPLIT_TRAIN};
    out->node = part_device_view(out, part->node);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out->blocks[d] = memory_alloc((size_t)part->n_hop + 1, sizeof *out->blocks[d]);
    }
    for (int d = 0; status == STATUS_OK && d < n_direction(setup, part); d++) {
        status = blocks_open(setup, out, d, &remap[d]);
    }
    if (status == STATUS_OK && setup->scaled != NULL) {
        status = scales_open(setup, part, out);
    }
    if (part->facts.symmetric) {
        out->blocks[PART_DIRECTION_OUT][part->n_hop] = out->blocks[PART_DIRECTION_IN][part->n_hop];
        out->col_scale[PART_DIRECTION_OUT] = out->col_scale[PART_DIRECTION_IN];
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t hop = 0; status == STATUS_OK && hop < part->n_hop; hop++) {
            bool merged = d == PART_DIRECTION_OUT && (setup->merged >> hop & 1) != 0;
            status = merged ? STATUS_OK : part_hop_open(setup, (enum part_direction)d, hop, out);
        }
    }
    return status == STATUS_OK ? features_open(setup, part, out) : status;
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
    for (int d = 0; d < n_direction(setup, part->part); d++) {
        part_schedules_close(setup, &part->blocks[d][part->part->n_hop]);
    }
    free(part->blocks[PART_DIRECTION_IN]);
    free(part->blocks[PART_DIRECTION_OUT]);
    part_made_release(setup, &part->scales);
    if (part->csr.by_column != NULL) {
        setup->device->ops->csr_close(setup->device, &part->csr);
    }
    if (part->csr_halo.by_column != NULL) {
        setup->device->ops->csr_close(setup->device, &part->csr_halo);
    }
    if (setup->spill == NULL) {
        setup->device->ops->release(setup->device, DEVICE_PLACE_DEVICE, MEMORY_FEATURES, part->expanded,
                                    (size_t)(part->part->n_own + part->part->n_halo) *
                                        (size_t)part->part->facts.n_feature * sizeof(float));
    }
    part_lent_end(setup, &part->bytes);
    *part = (struct part_device){0};
}
