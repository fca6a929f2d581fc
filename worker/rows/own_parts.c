#include "worker/rows/own_parts.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

void own_parts_list(struct part *const *parts, int32_t n_part, uint32_t n_rank, struct own_parts *out)
{
    *out = (struct own_parts){.setup = {.parts = parts},
                              .n_part = n_part,
                              .n_rank = n_rank,
                              .number = memory_alloc((size_t)n_part, sizeof *out->number),
                              .index = memory_alloc((size_t)n_part, sizeof *out->index),
                              .halo = memory_alloc((size_t)n_part, sizeof *out->halo)};
    for (int32_t p = 0; p < n_part; p++) {
        out->index[p] = parts[p] != NULL ? out->n : -1;
        if (parts[p] != NULL) {
            out->halo[out->n] = &parts[p]->halo;
            out->number[out->n++] = p;
        }
    }
    ASSERT(out->n > 0);
}

enum status own_parts_remap(struct own_parts *own)
{
    enum status status = STATUS_OK;
    own->remap = memory_alloc((size_t)own->n, sizeof *own->remap);
    for (int32_t i = 0; i < own->n && status == STATUS_OK; i++) {
        struct part *part = own->setup.parts[own->number[i]];
        struct part_remap *remap = own->remap[i];
        status = part_remap_open(&own->setup, part, PART_DIRECTION_IN, &remap[PART_DIRECTION_IN]);
        if (part->facts.symmetric) {
            remap[PART_DIRECTION_OUT] = remap[PART_DIRECTION_IN];
        } else if (!own->setup.program->forward_only && status == STATUS_OK) {
            status = part_remap_open(&own->setup, part, PART_DIRECTION_OUT, &remap[PART_DIRECTION_OUT]);
        }
    }
    return status;
}

enum status own_parts_open(struct own_parts *own)
{
    enum status status = STATUS_OK;
    own->part = memory_alloc((size_t)own->n, sizeof *own->part);
    for (int32_t i = 0; i < own->n && status == STATUS_OK; i++) {
        const struct part *part = own_part(own, i);
        const struct spill_range all = {part->bytes, part->n_bytes, SPILL_READ};
        status = spill_pin(own->setup.spill, &all, 1);
        if (status == STATUS_OK) {
            status = part_device_open(&own->setup, part, own->remap[i], &own->part[i]);
            spill_unpin(own->setup.spill, &all, 1);
        }
    }
    return status;
}

void own_parts_close(struct own_parts *own)
{
    for (int32_t i = 0; own->part != NULL && i < own->n; i++) {
        part_device_close(&own->setup, &own->part[i]);
    }
    for (int32_t i = 0; own->remap != NULL && i < own->n; i++) {
        part_remap_close(&own->setup, &own->remap[i][PART_DIRECTION_IN]);
        if (!own_part(own, i)->facts.symmetric) {
            part_remap_close(&own->setup, &own->remap[i][PART_DIRECTION_OUT]);
        }
    }
    free(own->part);
    free(own->remap);
    free(own->halo);
    free(own->index);
    free(own->number);
    *own = (struct own_parts){0};
}

enum status own_parts_acquire(const struct own_parts *own, size_t n_bytes, void *out)
{
    struct device *d = own->setup.device;
    return n_bytes == 0 ? STATUS_OK : d->ops->acquire(d, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, n_bytes, out);
}

void own_parts_release(const struct own_parts *own, void *bytes, size_t n_bytes)
{
    struct device *d = own->setup.device;
    if (bytes != NULL) {
        d->ops->release(d, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, bytes, n_bytes);
    }
}

struct halo_owners own_parts_owners(const struct own_parts *own)
{
    return (struct halo_owners){
        .n_own_part = own->n, .own = own->halo, .rank_of_part = own->setup.rank_of_part, .rank = own->setup.rank};
}
