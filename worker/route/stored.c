#include "worker/route/stored.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

struct stored {
    const struct own_parts *own;
    /* n_own × (n_hop + 1) × pairs: the device's, of rows up to a hop that some pass walks, and of all. NULL: those of
     * the part's blocks */
    struct part_schedule **schedule;
};

static const struct part_pairs *pairs_of(const struct stored *s, int32_t i)
{
    return &s->own->part[i].part->halo.pairs[PART_DIRECTION_IN];
}

int64_t stored_rows_before(const struct stored *s, int32_t i, int32_t k)
{
    return part_pair_off_diagonal(pairs_of(s, i), k).col;
}

static struct part_schedule *schedule_at(const struct stored *s, int32_t i, int32_t hop, int32_t k)
{
    int32_t n_hop = s->own->part[i].part->n_hop;
    return &s->schedule[i][(hop < n_hop ? hop : n_hop) * (int64_t)pairs_of(s, i)->n_pair + k];
}

/* The block as the part has it: its first rows, up to the hop, whose edges come first, or all. */
static struct device_block block_of(const struct stored *s, int32_t i, int32_t hop, int32_t k)
{
    const struct part *part = s->own->part[i].part;
    const struct part_pairs *pairs = pairs_of(s, i);
    struct device_block block = part_device_block(&s->own->part[i], PART_DIRECTION_IN, part->n_hop, k,
                                                  PART_COLUMNS_PAYLOAD);
    block.n_row = hop < part->n_hop ? pairs->n_row_hop[k * (int64_t)part->n_hop + hop] : block.n_row;
    block.n_edge = part_block_at(part, PART_DIRECTION_IN, k).indptr[block.n_row];
    block.schedule = schedule_at(s, i, hop, k)->schedule;
    block.matrix = schedule_at(s, i, hop, k)->matrix;
    return block;
}

/* Have the device make schedules of the blocks that passes walk. */
static enum status schedules_open(const struct stored *s, int32_t i)
{
    const struct part_pairs *pairs = pairs_of(s, i);
    int32_t n_hop = s->own->part[i].part->n_hop;
    enum status status = STATUS_OK;
    s->schedule[i] = memory_alloc((size_t)(n_hop + 1) * (size_t)pairs->n_pair, sizeof **s->schedule);
    for (int32_t hop = 0; hop <= n_hop && status == STATUS_OK; hop++) {
        bool walks = hop == n_hop || program_stores_at(s->own->setup.program, hop);
        for (int32_t k = 0; walks && k < pairs->n_pair && status == STATUS_OK; k++) {
            struct device_block block = k != pairs->own ? block_of(s, i, hop, k) : (struct device_block){0};
            status = k != pairs->own ? s->own->setup.device->ops->block_open(s->own->setup.device, &block)
                                     : STATUS_OK;
            *schedule_at(s, i, hop,
                         k) = (struct part_schedule){.pair = k, .schedule = block.schedule, .matrix = block.matrix};
        }
    }
    return status;
}

enum status stored_open(const struct own_parts *own, struct stored **out)
{
    struct stored *s = *out = memory_alloc(1, sizeof *s);
    s->own = own;
    s->schedule = memory_alloc((size_t)own->n, sizeof *s->schedule);
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < s->own->n && status == STATUS_OK; i++) {
        status = s->own->remap[i][PART_DIRECTION_IN].edges.cols != NULL ? schedules_open(s, i) : STATUS_OK;
    }
    return status;
}

void stored_close(struct stored *s)
{
    if (s == NULL) {
        return;
    }
    for (int32_t i = 0; i < s->own->n; i++) {
        struct part_schedule *schedule = s->schedule[i];
        int32_t n = schedule != NULL ? (s->own->part[i].part->n_hop + 1) * pairs_of(s, i)->n_pair : 0;
        for (int32_t k = 0; k < n; k++) {
            struct device_block block = {.schedule = schedule[k].schedule, .matrix = schedule[k].matrix};
            s->own->setup.device->ops->block_close(s->own->setup.device, &block);
        }
        free(schedule);
    }
    free(s->schedule);
    free(s);
}

struct device_block stored_block(const struct stored *s, int32_t i, int32_t hop, int32_t k)
{
    struct device_block block = s->schedule[i] != NULL ? block_of(s, i, hop, k)
                                                       : part_device_block(&s->own->part[i], PART_DIRECTION_IN, hop,
                                                                           k, PART_COLUMNS_PAYLOAD);
    block.n_col = part_pair_cols(pairs_of(s, i), k);
    return block;
}
