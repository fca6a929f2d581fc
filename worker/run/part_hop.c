#include "worker/run/part_hop.h"

#include "protocol/log.h"
#include "protocol/memory.h"

#include <stdlib.h>

static bool is_walked(const struct program *program, const struct op *op, enum part_direction d)
{
    const struct aggregate_def *def = aggregate_defs[op->aggregate];
    bool out = false;
    for (int k = 0; k < OP_N_BACKWARD && program->value[op->out].needs_grad; k++) {
        out = out || (def->backward[k].run != NULL && def->backward[k].direction == HALO_DIRECTION_OUT);
    }
    return d == PART_DIRECTION_IN || out;
}

bool part_hop_used(const struct program *program, enum part_direction d, int32_t hop)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        if (op->kind == OP_KIND_AGGREGATE && !op->is_static && program->value[op->out].hop == hop &&
            is_walked(program, op, d)) {
            return true;
        }
    }
    return false;
}

int64_t part_hop_edges(const struct program *program, bool implied_loops, int64_t n_edge, int64_t n_target)
{
    for (int i = 0; i < program->n_op && implied_loops; i++) {
        const struct op *op = &program->op[i];
        if (op->kind == OP_KIND_AGGREGATE && !aggregate_defs[op->aggregate]->takes_no_loops) {
            return n_edge + n_target;
        }
    }
    return n_edge;
}

int64_t part_hop_copy_bytes(const struct part_hop_sizes *s)
{
    size_t edge = sizeof(uint32_t) + (s->typed ? sizeof(uint16_t) : 0) + (s->weighted ? sizeof(float) : 0);
    return s->n_edge * (int64_t)edge + (s->n_row + s->n_listed + s->n_part) * (int64_t)sizeof(int64_t);
}

/* The first rows of every block of in-edges. */
static enum status heads_open(const struct part_device_setup *setup, int32_t hop, const struct part_blocks *all,
                              const struct part *part, struct part_blocks *out)
{
    enum status status = STATUS_OK;
    for (int32_t q = 0; q < part->n_part && status == STATUS_OK; q++) {
        const struct device_block *from[2] = {&all->block[q], &all->direct[q]};
        struct device_block *to[2] = {&out->block[q], &out->direct[q]};
        int64_t n_row = q == part->part ? part_rows_own(part, hop) : part_rows_given(part, PART_DIRECTION_OUT, q, hop);
        for (int k = 0; k < 2 && status == STATUS_OK; k++) {
            if (from[k]->indptr == NULL) {
                continue;
            }
            *to[k] = *from[k];
            to[k]->n_row = n_row;
            to[k]->n_edge = part->block[PART_DIRECTION_IN][q].indptr[n_row];
            to[k]->n_col = k == 1 ? from[k]->n_col : part_rows_taken(part, PART_DIRECTION_IN, q, program_hop_before(hop));
            to[k]->schedule = NULL;
            status = setup->device->ops->block_open(setup->device, to[k]);
        }
    }
    return status;
}

/* Where the next block's arrays are written. */
struct picked {
    int64_t *indptr;
    float *weights;
    uint32_t *cols;
    uint16_t *types;
    int64_t n_edge; /* of the block being written */
    bool loops;     /* implied loops are among the edges of the diagonal */
};

static void edge_pick(struct picked *to, const struct device_block *from, int64_t e)
{
    to->cols[to->n_edge] = from->cols[e];
    if (to->types != NULL) {
        to->types[to->n_edge] = from->types[e];
    }
    if (to->weights != NULL) {
        to->weights[to->n_edge] = from->weights[e];
    }
    to->n_edge++;
}

static void loop_pick(struct picked *to, int64_t r)
{
    to->cols[to->n_edge] = (uint32_t)r;
    if (to->types != NULL) {
        to->types[to->n_edge] = 0;
    }
    if (to->weights != NULL) {
        to->weights[to->n_edge] = 1.0F;
    }
    to->n_edge++;
}

/* Of the first n_row rows the edges to columns below n_target; with loops one more of each row that is itself such a column, in
 * its place among the others. */
static void block_pick(const struct device_block *from, int64_t n_row, int64_t n_target, bool loops, struct picked *to)
{
    to->n_edge = 0;
    to->indptr[0] = 0;
    for (int64_t r = 0; r < n_row; r++) {
        bool loop = loops && r < n_target;
        for (int64_t e = from->indptr[r]; e < from->indptr[r + 1]; e++) {
            if (loop && from->cols[e] > r) {
                loop_pick(to, r);
                loop = false;
            }
            if (from->cols[e] < n_target) {
                edge_pick(to, from, e);
            }
        }
        if (loop) {
            loop_pick(to, r);
        }
        to->indptr[r + 1] = to->n_edge;
    }
}

/* The edges of the block just picked, and on to the next one. Its pointers are the host's yet. */
static void picked_take(struct picked *to, int64_t n_row, struct device_block *out)
{
    out->n_row = n_row;
    out->n_edge = to->n_edge;
    out->indptr = to->indptr;
    out->cols = to->cols;
    out->types = to->types;
    out->weights = to->weights;
    out->schedule = NULL;
    to->indptr += n_row + 1;
    to->cols += to->n_edge;
    to->types += to->types != NULL ? to->n_edge : 0;
    to->weights += to->weights != NULL ? to->n_edge : 0;
}

/* The host's arrays of one of all blocks. */
static struct device_block host_block(const struct part *part, const struct part_blocks *all, int32_t q)
{
    const struct part_block *block = &part->block[PART_DIRECTION_OUT][q];
    const uint32_t *cols = block->cols;
    if (all->direct[q].indptr != NULL) {
        cols = (const uint32_t *)(const void *)(all->made.host + ((const char *)all->direct[q].cols - all->made.device));
    }
    return (struct device_block){.indptr = block->indptr, .cols = cols, .types = block->types, .weights = block->weights};
}

static void blocks_pick(const struct part_device_setup *setup, int32_t hop, const struct part_blocks *all,
                        const struct part *part, struct picked *to, struct part_blocks *out)
{
    int32_t before = program_hop_before(hop);
    for (int32_t q = 0; q < part->n_part; q++) {
        bool own = q == part->part, direct = all->direct[q].indptr != NULL;
        const struct device_block *from = direct ? &all->direct[q] : &all->block[q];
        struct device_block *block = direct ? &out->direct[q] : &out->block[q];
        if (from->indptr == NULL) {
            continue;
        }
        int64_t n_row = own ? part_rows_own(part, before) : part_rows_given(part, PART_DIRECTION_IN, q, before);
        int64_t n_target = direct ? part_rows_own(setup->parts[q], hop) : part_rows_taken(part, PART_DIRECTION_OUT, q, hop);
        const struct device_block edges = host_block(part, all, q);
        block_pick(&edges, n_row, n_target, own && to->loops, to);
        *block = *from;
        picked_take(to, n_row, block);
        block->n_col = direct ? block->n_col : n_target;
    }
}

/* Lend what was picked, and open the blocks over it. */
static enum status picks_lend(const struct part_device_setup *setup, const struct part *part, struct part_blocks *out)
{
    const struct part_lent made = out->made;
    enum status status = part_lend(setup, made.host, made.n_bytes, &out->made);
    for (int32_t q = 0; q < part->n_part; q++) {
        struct device_block *block = out->direct[q].indptr != NULL ? &out->direct[q] : &out->block[q];
        if (status != STATUS_OK || block->indptr == NULL) {
            block->indptr = NULL;
            continue;
        }
        block->indptr = part_lent_view(&out->made, block->indptr);
        block->cols = part_lent_view(&out->made, block->cols);
        block->types = part_lent_view(&out->made, block->types);
        block->weights = part_lent_view(&out->made, block->weights);
        status = setup->device->ops->block_open(setup->device, block);
    }
    return status;
}

static struct part_hop_sizes sizes_of(const struct part_device_setup *setup, const struct part *part, int32_t hop)
{
    int32_t before = program_hop_before(hop);
    const struct part_block *diagonal = &part->block[PART_DIRECTION_OUT][part->part];
    struct part_hop_sizes sizes = {.n_part = part->n_part,
                                   .n_edge = part_hop_edges(setup->program, part->loops == DATASET_LOOPS_IMPLICIT,
                                                            part_edges(part, PART_DIRECTION_OUT, hop),
                                                            part_rows_own(part, hop)),
                                   .n_row = part_rows_own(part, before),
                                   .typed = diagonal->types != NULL,
                                   .weighted = diagonal->weights != NULL};
    for (int32_t q = 0; q < part->n_part; q++) {
        sizes.n_listed += q != part->part ? part_rows_given(part, PART_DIRECTION_IN, q, before) : 0;
    }
    return sizes;
}

/* Edges of the transposed blocks, picked out into one piece of memory: 8-byte arrays first, then 4, then 2. */
static enum status picks_open(const struct part_device_setup *setup, int32_t hop, const struct part_blocks *all,
                              const struct part *part, struct part_blocks *out)
{
    const struct part_hop_sizes sizes = sizes_of(setup, part, hop);
    int64_t n_bytes = part_hop_copy_bytes(&sizes), n_indptr = sizes.n_row + sizes.n_listed + sizes.n_part;
    char *made = NULL;
    enum status status = setup->spill != NULL ? spill_take(setup->spill, n_bytes, &made)
                                              : memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    const struct spill_range piece = {made, n_bytes, SPILL_WRITE};
    out->made = (struct part_lent){.host = made, .n_bytes = n_bytes};
    status = status == STATUS_OK ? spill_pin(setup->spill, &piece, 1) : status;
    if (status != STATUS_OK) {
        return status;
    }
    struct picked to = {.indptr = (int64_t *)(void *)made};
    to.cols = (uint32_t *)(void *)(to.indptr + n_indptr);
    if (sizes.weighted) {
        to.weights = (float *)(void *)(to.cols + sizes.n_edge);
    }
    if (sizes.typed) {
        to.types = (uint16_t *)(void *)(to.cols + (sizes.weighted ? 2 : 1) * sizes.n_edge);
    }
    to.loops = sizes.n_edge > part_edges(part, PART_DIRECTION_OUT, hop);
    blocks_pick(setup, hop, all, part, &to, out);
    status = picks_lend(setup, part, out);
    spill_unpin(setup->spill, &piece, 1);
    return status;
}

enum status part_hop_open(const struct part_device_setup *setup, enum part_direction d, int32_t hop, struct part_device *part)
{
    struct part_blocks *out = &part->blocks[d][hop];
    const struct part_blocks *all = part_device_blocks(part, d, part->part->n_hop);
    if (!part_hop_used(setup->program, d, hop)) {
        return STATUS_OK;
    }
    out->block = memory_alloc((size_t)part->part->n_part, sizeof *out->block);
    out->direct = memory_alloc((size_t)part->part->n_part, sizeof *out->direct);
    return (d == PART_DIRECTION_IN ? heads_open : picks_open)(setup, hop, all, part->part, out);
}

void part_hop_close(const struct part_device_setup *setup, struct part_device *part, int d, int32_t hop)
{
    struct part_blocks *blocks = &part->blocks[d][hop];
    int32_t n_part = blocks->block != NULL ? part->part->n_part : 0;
    for (int32_t q = 0; q < n_part; q++) {
        struct device_block *const both[2] = {&blocks->block[q], &blocks->direct[q]};
        for (int k = 0; k < 2; k++) {
            if (both[k]->indptr != NULL) {
                setup->device->ops->block_close(setup->device, both[k]);
            }
        }
    }
    part_lent_end(setup, &blocks->made);
    if (setup->spill == NULL) {
        memory_release(MEMORY_STRUCTURE, (void *)(uintptr_t)blocks->made.host, (size_t)blocks->made.n_bytes, 1);
    }
    free(blocks->block);
    free(blocks->direct);
    *blocks = (struct part_blocks){0};
}
