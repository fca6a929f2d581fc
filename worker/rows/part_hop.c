#include "worker/rows/part_hop.h"

#include "protocol/base/memory.h"

#include <string.h>

bool part_hop_walks(const struct program *program, const struct op *op, enum part_direction d, int32_t hop)
{
    const struct value *out = &program->value[op->out];
    return op->kind == OP_KIND_AGGREGATE && !op->is_static && out->hop == hop &&
           (d == PART_DIRECTION_IN || (out->needs_grad && aggregate_walks_out(program, op->aggregate)));
}

/* Does an aggregate of training walk such blocks, of those whose rows travel, or of any? */
static bool any_walks(const struct program *program, enum part_direction d, int32_t hop, bool travelling)
{
    bool any = false;
    for (int i = 0; i < program->n_op && !any; i++) {
        const struct op *op = &program->op[i];
        any = part_hop_walks(program, op, d, hop) &&
              !(travelling && program->value[op->in[0]].hop == PROGRAM_HOP_HALO);
    }
    return any;
}

bool part_hop_used(const struct program *program, enum part_direction d, int32_t hop)
{
    return !program->forward_only && any_walks(program, d, hop, false);
}

/* A prediction has the covers of its training, which are made, or not, for all hops together. */
bool part_hop_travels(const struct program *program, enum part_direction d, int32_t hop)
{
    return any_walks(program, d, hop, true);
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
    return s->n_edge * (int64_t)edge + (s->n_row + s->n_listed + s->n_pair) * (int64_t)sizeof(int64_t);
}

/* The first rows of every block of in-edges. */
static enum status heads_open(const struct part_device_setup *setup, int32_t hop, const struct part_device *part)
{
    struct part_blocks *out = &part->blocks[PART_DIRECTION_IN][hop];
    *out = *part_device_blocks(part, PART_DIRECTION_IN, part->part->n_hop);
    out->hop = hop;
    out->n_schedule = 0;
    out->schedule = NULL;
    out->made = (struct part_lent){0};
    return part_schedules_open(setup, part, PART_DIRECTION_IN, hop);
}

/* Where the next block's arrays are written. */
struct picked {
    int64_t *indptr;
    float *weights; /* or edges' rows of a table */
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
        memcpy(&to->weights[to->n_edge], &from->weights[e], sizeof *to->weights);
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

/* Of the first n_row rows the edges to columns below n_target; with loops one more of each row that is itself such a
 * column, in its place among the others. */
static void block_pick(const struct device_block *from, int64_t n_row, int64_t n_target, bool loops,
                       struct picked *to)
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

/* On from the block just picked to the next one, whose place follows. */
static void picked_take(struct picked *to, const struct device_block *block, struct part_pair *at)
{
    at[1] = (struct part_pair){
        .row = at->row + block->n_row, .edge = at->edge + to->n_edge, .col = at->col + (uint32_t)block->n_col};
    to->indptr += block->n_row + 1;
    to->cols += to->n_edge;
    to->types += to->types != NULL ? to->n_edge : 0;
    to->weights += to->weights != NULL ? to->n_edge : 0;
}

/* Do rows come as a cover of the hop's edges? */
static bool comes_covered(const struct part_device_setup *setup, enum part_direction d, int32_t hop)
{
    return setup->covers && part_hop_travels(setup->program, d, hop);
}

/* The hop of the rows that columns count. */
static int32_t hop_of_cols(enum part_direction d, int32_t hop)
{
    return d == PART_DIRECTION_OUT ? hop : program_hop_before(hop);
}

/* The host's arrays of one of all blocks, as many rows as have edges that count, and how many columns do. */
static struct device_block host_block(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                                      const struct part_device *own, int32_t k)
{
    const struct part *part = own->part;
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_block block = part_device_host_block(own, d, k);
    int32_t rows = part_hop_rows(d, hop), cols = hop_of_cols(d, hop), q = pairs->pair[k].part;
    int64_t at = k * (int64_t)part->n_hop;
    struct device_block out = {.n_row = rows < part->n_hop ? pairs->n_row_hop[at + rows] : block.n_row,
                               .n_col = cols < part->n_hop ? pairs->n_col_hop[at + cols] : block.n_col,
                               .indptr = block.indptr,
                               .cols = block.cols,
                               .types = block.types,
                               .weights = block.weights};
    if (part_is_local(setup, part, q) && setup->in_place) {
        out.n_col = part_rows_own(setup->parts[q], cols);
    } else if (setup->dedups && k != pairs->own) {
        out.n_col = part_dedup_rows(setup->dedup, d, q, setup->rank, part_dedup_side_at(q, part->part), hop);
        if (comes_covered(setup, d, hop)) {
            const struct part_edges *trimmed = &setup->trimmed[part->part][part_hop_place(part, d, hop, k)];
            out.indptr = trimmed->indptr;
            out.cols = trimmed->cols;
            out.weights = trimmed->weights;
        }
    }
    return out;
}

static void blocks_pick(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                        const struct part_device *part, struct picked *to, struct part_pair *at)
{
    const struct part_pairs *pairs = &part->part->halo.pairs[d];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const struct device_block block = host_block(setup, d, hop, part, k);
        block_pick(&block, block.n_row, block.n_col, k == pairs->own && to->loops, to);
        picked_take(to, &block, &at[k]);
    }
}

static struct part_hop_sizes sizes_of(const struct part_device_setup *setup, const struct part_device *own,
                                      enum part_direction d, int32_t hop)
{
    const struct part *part = own->part;
    const struct part_blocks *all = part_device_blocks(own, d, part->n_hop);
    const struct part_rows listed = part_halo_sent(&part->halo, PART_DIRECTION_N - 1 - d, part_hop_rows(d, hop));
    bool loops = d == PART_DIRECTION_OUT && part->facts.loops == GRAPH_LOOPS_IMPLICIT;
    return (struct part_hop_sizes){
        .n_pair = listed.pairs->n_pair,
        .n_edge = part_hop_edges(setup->program, loops, part_edges(part, d, hop), part_rows_own(part, hop)),
        .n_row = part_rows_own(part, part_hop_rows(d, hop)),
        .n_listed = part_rows_all(&listed),
        .typed = all->types != NULL,
        .weighted = all->weights != NULL};
}

/* The arrays in the piece of memory where picked edges go: 8-byte ones first, then 4, then 2. */
static struct picked picked_lay_out(const struct part_hop_sizes *sizes, char *made)
{
    struct picked to = {.indptr = (int64_t *)(void *)made};
    to.cols = (uint32_t *)(void *)(to.indptr + sizes->n_row + sizes->n_listed + sizes->n_pair);
    if (sizes->weighted) {
        to.weights = (float *)(void *)(to.cols + sizes->n_edge);
    }
    if (sizes->typed) {
        to.types = (uint16_t *)(void *)(to.cols + (sizes->weighted ? 2 : 1) * sizes->n_edge);
    }
    return to;
}

/* Lend what was picked, and have the device look at its blocks. */
static enum status picks_lend(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                              const struct picked *arrays, const struct part_device *part)
{
    struct part_blocks *out = &part->blocks[d][hop];
    const struct part_lent made = out->made;
    enum status status = part_lend(setup, made.host, made.n_bytes, &out->made);
    if (status != STATUS_OK) {
        return status;
    }
    out->indptr = part_lent_view(&out->made, arrays->indptr);
    out->types = part_lent_view(&out->made, arrays->types);
    out->weights = part_lent_view(&out->made, arrays->weights);
    out->edge_table = part_device_blocks(part, d, part->part->n_hop)->edge_table;
    out->cols = part_lent_view(&out->made, arrays->cols);
    return part_schedules_open(setup, part, d, hop);
}

/* Edges picked out into one piece of memory. */
static enum status picks_open(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                              const struct part_device *part)
{
    struct part_blocks *out = &part->blocks[d][hop];
    const struct part_hop_sizes sizes = sizes_of(setup, part, d, hop);
    int64_t n_bytes = part_hop_copy_bytes(&sizes);
    char *made = NULL;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)part_pairs_bytes(sizes.n_pair, 0), 1, &out->picked);
    if (status == STATUS_OK) {
        status = setup->spill != NULL ? spill_take(setup->spill, n_bytes, &made)
                                      : memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    }
    const struct spill_range piece = {made, n_bytes, SPILL_WRITE};
    out->at = out->picked;
    out->hop = PROGRAM_HOP_ALL;
    out->made = (struct part_lent){.host = made, .n_bytes = made != NULL ? n_bytes : 0};
    status = status == STATUS_OK ? spill_pin(setup->spill, &piece, 1) : status;
    if (status != STATUS_OK) {
        return status;
    }
    const struct picked arrays = picked_lay_out(&sizes, made);
    struct picked to = arrays;
    to.loops = sizes.n_edge > part_edges(part->part, d, hop);
    blocks_pick(setup, d, hop, part, &to, out->picked);
    status = picks_lend(setup, d, hop, &arrays, part);
    spill_unpin(setup->spill, &piece, 1);
    return status;
}

enum status part_hop_open(const struct part_device_setup *setup, enum part_direction d, int32_t hop,
                          const struct part_device *part)
{
    if (!part_hop_used(setup->program, d, hop)) {
        return STATUS_OK;
    }
    return d == PART_DIRECTION_IN && !comes_covered(setup, d, hop) ? heads_open(setup, hop, part)
                                                                   : picks_open(setup, d, hop, part);
}

void part_hop_close(const struct part_device_setup *setup, const struct part_device *part, int d, int32_t hop)
{
    struct part_blocks *blocks = &part->blocks[d][hop];
    part_schedules_close(setup, blocks);
    (setup->spill == NULL ? part_made_release : part_lent_end)(setup, &blocks->made);
    int32_t n_pair = part->part->halo.pairs[d].n_pair;
    memory_release(MEMORY_STRUCTURE, blocks->picked, (size_t)part_pairs_bytes(n_pair, 0), 1);
    *blocks = (struct part_blocks){0};
}
