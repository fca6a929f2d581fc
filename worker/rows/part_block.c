/* Blocks of a part on the device, put together from the part's pairs when they are asked for, and the schedules of
 * the large ones. */
#include "protocol/base/memory.h"
#include "worker/rows/part_remap.h"

#include <stdlib.h>

const float *part_device_col_scale(const struct part_device *part, int d, int32_t pair)
{
    const float *scale = part->col_scale[d];
    return scale == NULL ? NULL
           : pair == part->part->halo.pairs[d].own
               ? part->scale
               : scale + part_pair_off_diagonal(&part->part->halo.pairs[d], pair).col;
}

const uint32_t *part_device_col_node(const struct part_device *part, int d, int32_t pair)
{
    const struct part *from = part->part;
    return pair == from->halo.pairs[d].own
               ? part->node
               : part_device_view(part,
                                  from->arrays[d].node + part_pair_off_diagonal(&from->halo.pairs[d], pair).col);
}

const uint32_t *part_device_rows(const struct part_device *own, int d, int32_t pair)
{
    const struct part *part = own->part;
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const uint32_t *rows = part->arrays[d].rows + part_pair_off_diagonal(pairs, pair).row;
    return pair != pairs->own ? part_device_view(own, rows) : NULL;
}

struct part_block part_device_host_block(const struct part_device *own, enum part_direction d, int32_t pair)
{
    return part_remap_block(own->part, d, pair, part_device_blocks(own, d, own->part->n_hop)->remap);
}

static struct part_schedule schedule_of(const struct part_blocks *blocks, int32_t pair)
{
    int32_t begin = 0, end = blocks->n_schedule;
    while (begin < end) {
        int32_t middle = begin + (end - begin) / 2;
        if (blocks->schedule[middle].pair < pair) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    bool is_there = begin < blocks->n_schedule && blocks->schedule[begin].pair == pair;
    return is_there ? blocks->schedule[begin] : (struct part_schedule){.pair = pair};
}

/* The block's first rows, up to the hop: their edges are all there. */
static void block_cut(const struct part *part, int d, int32_t pair, int32_t hop, const struct part_block *host,
                      struct device_block *block)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    int32_t before = program_hop_before(hop);
    int64_t at = pair * (int64_t)part->n_hop;
    block->n_row = pairs->n_row_hop[at + hop];
    block->n_col = before < part->n_hop ? pairs->n_col_hop[at + before] : block->n_col;
    block->n_edge = host->indptr[block->n_row];
}

/* The block's arrays where it is remapped, in the part's bytes or in a copy. */
static void block_remap(const struct part_device *own, const struct part_remap *remap, const struct part_block *host,
                        struct device_block *block)
{
    const struct part_lent *lent = remap->made.host != NULL ? &remap->made : &own->bytes;
    block->n_edge = host->n_edge;
    block->cols = part_lent_view(lent, host->cols);
    block->indptr = remap->edges.indptr != NULL ? part_lent_view(lent, host->indptr) : block->indptr;
    block->weights = remap->edges.weights != NULL ? part_lent_view(lent, host->weights) : block->weights;
}

struct device_block part_device_block(const struct part_device *own, int d, int32_t hop, int32_t pair,
                                      enum part_columns columns)
{
    const struct part_blocks *blocks = part_device_blocks(own, d, hop);
    const struct part_pairs *pairs = &own->part->halo.pairs[d];
    const struct part_pair *at = &blocks->at[pair];
    const struct part_schedule of_device = schedule_of(blocks, pair);
    const bool as_received = columns == PART_COLUMNS_PAYLOAD && own->part->arrays[d].cols != NULL;
    const struct part_remap *remap = as_received ? NULL : blocks->remap;
    const struct part_block host = part_remap_block(own->part, (enum part_direction)d, pair, remap);
    struct device_block block = {.n_row = at[1].row - at->row,
                                 .n_col = at[1].col - at->col,
                                 .n_edge = at[1].edge - at->edge,
                                 .rows = part_device_rows(own, d, pair),
                                 .indptr = blocks->indptr + at->row + pair,
                                 .cols = blocks->cols + at->edge,
                                 .edge_table = blocks->edge_table,
                                 .schedule = of_device.schedule,
                                 .matrix = of_device.matrix};
    if (blocks->types != NULL) {
        block.types = blocks->types + at->edge;
    }
    if (blocks->weights != NULL) {
        block.weights = blocks->weights + at->edge;
    }
    if (remap != NULL && pair != pairs->own) {
        block_remap(own, remap, &host, &block);
    }
    if (blocks->hop < own->part->n_hop) {
        block_cut(own->part, d, pair, blocks->hop, &host, &block);
    }
    return block;
}

bool part_device_has_edges(const struct part_device *own, int d, int32_t hop, int32_t pair)
{
    const struct part_blocks *blocks = part_device_blocks(own, d, hop);
    const struct part_pair *at = &blocks->at[pair];
    if (blocks->hop < own->part->n_hop) { /* the first of rows that all have an edge */
        return own->part->halo.pairs[d].n_row_hop[pair * (int64_t)own->part->n_hop + blocks->hop] > 0;
    }
    return at[1].edge > at->edge;
}

/* One more schedule behind those there are. */
static void schedule_add(struct part_blocks *blocks, int32_t pair, const struct device_block *block)
{
    blocks->schedule = memory_list_grow(blocks->schedule, blocks->n_schedule, sizeof *blocks->schedule);
    blocks->schedule[blocks->n_schedule++] = (struct part_schedule){
        .pair = pair, .schedule = block->schedule, .matrix = block->matrix};
}

enum status part_schedules_open(const struct part_device_setup *setup, const struct part_device *part, int d,
                                int32_t hop)
{
    struct part_blocks *blocks = &part->blocks[d][hop];
    enum status status = STATUS_OK;
    for (int32_t k = 0; k < part->part->halo.pairs[d].n_pair && status == STATUS_OK; k++) {
        struct device_block block = part_device_block(part, d, hop, k, PART_COLUMNS_OWN);
        status = setup->device->ops->block_open(setup->device, &block);
        if (status == STATUS_OK && (block.schedule != NULL || block.matrix != NULL)) {
            schedule_add(blocks, k, &block);
        }
    }
    return status;
}

void part_schedules_close(const struct part_device_setup *setup, struct part_blocks *blocks)
{
    for (int32_t s = 0; s < blocks->n_schedule; s++) {
        struct device_block block = {.schedule = blocks->schedule[s].schedule, .matrix = blocks->schedule[s].matrix};
        setup->device->ops->block_close(setup->device, &block);
    }
    free(blocks->schedule);
    blocks->schedule = NULL;
    blocks->n_schedule = 0;
}
