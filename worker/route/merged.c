#include "worker/route/merged.h"

#include "protocol/base/memory.h"
#include "worker/rows/part_hop.h"

#include <stdlib.h>
#include <string.h>

#define N_HOP (PART_N_HOP_MOST + 1) /* the hops, and all */

struct merged {
    const struct own_parts *own;
    const struct memory_plan *plan;
    int64_t most_edges;
    int32_t n_hop;  /* of the parts */
    int64_t *begin; /* n_hop + 1 × own parts: where rows of a part that are of this very hop begin */
    struct device_block block[PART_DIRECTION_N][N_HOP]; /* indptr NULL: not merged */
    struct part_lent made[PART_DIRECTION_N][N_HOP];     /* its arrays; empty: another's */
    struct part_lent order[N_HOP]; /* where in an array of this hop's rows each lies; empty: in order, or not read */
    struct part_lent scale[N_HOP]; /* memory_plan_rows floats; empty: none */
    struct part_lent node;         /* of all rows, as they lie in the arena; empty: none */
};

/* --- rows --- */

static int64_t rows_own(const struct merged *merged, int32_t i, int32_t hop)
{
    return hop >= 0 ? part_rows_own(merged->own->part[i].part, hop) : 0;
}

static void rows_lay_out(struct merged *merged)
{
    int32_t n = merged->own->n;
    int64_t at = 0;
    merged->begin = memory_alloc(((size_t)merged->n_hop + 1) * (size_t)n, sizeof *merged->begin);
    for (int32_t hop = 0; hop <= merged->n_hop; hop++) {
        for (int32_t i = 0; i < n; i++) {
            bool as_they_lie = merged->n_hop == 0;
            merged->begin[hop * (int64_t)n + i] = as_they_lie ? merged->plan->rows.begin[i].row : at;
            at += rows_own(merged, i, hop) - rows_own(merged, i, hop - 1);
        }
    }
}

/* Which row of merged blocks each row of own part i is, up to a hop. */
static void places_fill(const struct merged *merged, int32_t i, int32_t hop, int64_t *place)
{
    for (int32_t h = 0; h <= hop && h <= merged->n_hop; h++) {
        int64_t first = rows_own(merged, i, h - 1), end = rows_own(merged, i, h);
        for (int64_t r = first; r < end; r++) {
            place[r] = merged->begin[h * (int64_t)merged->own->n + i] + r - first;
        }
    }
}

/* --- edges --- */

/* A direction's block for outputs of a hop. Rows are destinations of in-edges, or sources. */
struct side {
    enum part_direction d;
    int32_t hop;
    bool loops; /* of rows that count as destinations are among the edges (part_hop.h) */
};

static struct side side_of(const struct merged *merged, enum part_direction d, int32_t hop)
{
    const struct part *part = merged->own->part[0].part;
    bool picks = d == PART_DIRECTION_OUT && hop < merged->n_hop && part->facts.loops == GRAPH_LOOPS_IMPLICIT;
    return (struct side){d, hop, picks && part_hop_edges(merged->own->setup.program, true, 0, 1) > 0};
}

/* A block of own part i. Rows below n_row have edges, to columns below n_col; loops: and one to themselves, if they
 * are below n_col. */
struct cut {
    struct part_block block;
    int64_t n_row, n_col;
    bool loops;
    int32_t j;        /* the other own part */
    bool is_separate; /* its sums are separate partial sums */
};

/* That with the pair that is s further than the diagonal. */
static struct cut cut_of(const struct merged *merged, const struct side *side, int32_t i, int32_t s)
{
    const struct part *part = merged->own->part[i].part;
    const struct part_pairs *pairs = &part->halo.pairs[side->d];
    int32_t k = (pairs->own + s) % pairs->n_pair, j = merged->own->index[pairs->pair[k].part];
    bool picks = side->d == PART_DIRECTION_OUT;
    return (struct cut){.block = part_device_host_block(&merged->own->part[i], side->d, k),
                        .n_row = rows_own(merged, i, part_hop_rows(side->d, side->hop)),
                        .n_col = picks ? rows_own(merged, j, side->hop) : INT64_MAX,
                        .loops = side->loops && s == 0,
                        .j = j,
                        .is_separate = s > 0 && part->covered};
}

static int64_t cut_row(const struct cut *cut, int64_t r)
{
    return cut->block.rows != NULL ? cut->block.rows[r] : r;
}

/* The edges of one block add to the ends of its rows. end: behind each row of merged blocks */
static void rows_count(const struct cut *cut, const int64_t *place, int64_t *end)
{
    for (int64_t r = 0; r < cut->block.n_row && cut_row(cut, r) < cut->n_row; r++) {
        int64_t *to = &end[place[cut_row(cut, r)]];
        *to += cut->loops && r < cut->n_col;
        for (int64_t e = cut->block.indptr[r]; e < cut->block.indptr[r + 1]; e++) {
            *to += cut->block.cols[e] < cut->n_col;
        }
    }
}

static void edge_put(const struct part_edges *to, int64_t at, uint32_t col, float weight)
{
    to->cols[at] = col;
    if (to->weights != NULL) {
        to->weights[at] = weight;
    }
}

/* An own row while its edges come: where the next one goes; whether the last one before it is a piece's. */
struct filled {
    int64_t at;
    bool is_behind_piece;
};

/* Mark one block's edges of a row, from `begin` on, where they are not simply added to those before. */
static void row_mark(const struct cut *cut, uint32_t *cols, int64_t begin, struct filled *row)
{
    const bool has_pieces = row->at - begin > DEVICE_PIECE_EDGES;
    if (row->at == begin) {
        return;
    }
    cols[begin] |= has_pieces || cut->is_separate ? DEVICE_BORDER : row->is_behind_piece ? DEVICE_BACK : 0;
    for (int64_t e = begin + DEVICE_PIECE_EDGES; e < row->at; e += DEVICE_PIECE_EDGES) {
        cols[e] |= cut->is_separate ? DEVICE_MARKS : DEVICE_BORDER;
    }
    row->is_behind_piece = has_pieces;
}

/* Put the edges of one block behind those that its rows have so far; a loop where it stands among the others.
 * first_row: of the columns' part, in their array */
static void cut_join(const struct cut *cut, uint32_t first_row, const struct part_edges *to, struct filled *own)
{
    const struct part_block *block = &cut->block;
    for (int64_t r = 0; r < block->n_row && cut_row(cut, r) < cut->n_row; r++) {
        struct filled *row = &own[cut_row(cut, r)];
        int64_t *at = &row->at, begin = *at;
        bool loop = cut->loops && r < cut->n_col;
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
            if (loop && block->cols[e] > r) {
                edge_put(to, (*at)++, first_row + (uint32_t)r, 1.0F);
                loop = false;
            }
            if (block->cols[e] < cut->n_col) {
                edge_put(to, (*at)++, first_row + block->cols[e], to->weights != NULL ? block->weights[e] : 1.0F);
            }
        }
        if (loop) {
            edge_put(to, (*at)++, first_row + (uint32_t)r, 1.0F);
        }
        row_mark(cut, to->cols, begin, row);
    }
}

/* Ends of all rows, by their edges in all blocks; returns the edges of the longest. */
static int64_t indptr_fill(const struct merged *merged, const struct side *side, int64_t n_row, int64_t *indptr)
{
    int64_t most = 0;
    for (int32_t i = 0; i < merged->own->n; i++) {
        const struct part *part = merged->own->part[i].part;
        int64_t *place = memory_alloc((size_t)part->n_own, sizeof *place);
        places_fill(merged, i, part_hop_rows(side->d, side->hop), place);
        for (int32_t s = 0; s < part->halo.pairs[side->d].n_pair; s++) {
            const struct cut cut = cut_of(merged, side, i, s);
            rows_count(&cut, place, indptr + 1);
        }
        free(place);
    }
    for (int64_t r = 0; r < n_row; r++) {
        most = indptr[r + 1] > most ? indptr[r + 1] : most;
        indptr[r + 1] += indptr[r];
    }
    return most;
}

/* Own part i's blocks, in the order i, i+1, … (mod K). */
static void part_join(const struct merged *merged, const struct side *side, int32_t i, const struct part_edges *to)
{
    const struct part *part = merged->own->part[i].part;
    int32_t cols = side->d == PART_DIRECTION_OUT ? side->hop : PROGRAM_HOP_ALL; /* in an array of these rows */
    int64_t *place = memory_alloc((size_t)part->n_own, sizeof *place);
    struct filled *own = memory_alloc((size_t)part->n_own, sizeof *own);
    places_fill(merged, i, part_hop_rows(side->d, side->hop), place);
    for (int64_t r = 0; r < rows_own(merged, i, part_hop_rows(side->d, side->hop)); r++) {
        own[r].at = to->indptr[place[r]];
    }
    for (int32_t s = 0; s < part->halo.pairs[side->d].n_pair; s++) {
        const struct cut cut = cut_of(merged, side, i, s);
        cut_join(&cut, (uint32_t)memory_plan_row_begin(merged->plan, cols, cut.j), to, own);
    }
    free(own);
    free(place);
}

/* --- blocks --- */

/* The device looks at a block whose arrays are there. */
static enum status block_lend(struct merged *merged, const struct side *side, int64_t n_row,
                              const struct part_lent *lent, const struct part_edges *host)
{
    struct device *device = merged->own->setup.device;
    struct device_block *block = &merged->block[side->d][side->hop];
    *block = (struct device_block){.n_row = n_row,
                                   .n_edge = host->indptr[n_row],
                                   .indptr = part_lent_view(lent, host->indptr),
                                   .cols = part_lent_view(lent, host->cols),
                                   .weights = part_lent_view(lent, host->weights),
                                   .bordered = merged->own->part[0].part->covered,
                                   .marked = true};
    return device->ops->block_open(device, block);
}

static struct part_edges edges_at(char *made, int64_t n_row, int64_t n_edge, bool weighted)
{
    struct part_edges to = {.indptr = (int64_t *)(void *)made};
    to.cols = (uint32_t *)(void *)(to.indptr + n_row + 1);
    to.weights = weighted ? (float *)(void *)(to.cols + n_edge) : NULL;
    return to;
}

/* In-edges at a hop, which are the first rows of all. */
static enum status heads_open(struct merged *merged, const struct part_lent *lent, const struct part_edges *host)
{
    enum status status = STATUS_OK;
    for (int32_t hop = 0; hop < merged->n_hop && status == STATUS_OK; hop++) {
        const struct side side = side_of(merged, PART_DIRECTION_IN, hop);
        if (merged->plan->merged.n_edge[side.d][hop] > 0) {
            status = block_lend(merged, &side, memory_merged_rows(merged->plan, hop), lent, host);
        }
    }
    return status;
}

/* A row has too many edges: the parts' own transposed blocks at a hop are walked, after all. */
static enum status parts_open(const struct merged *merged, int32_t hop)
{
    const struct own_parts *own = merged->own;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < own->n && status == STATUS_OK && (own->setup.merged >> hop & 1) != 0; i++) {
        status = part_hop_open(&own->setup, PART_DIRECTION_OUT, hop, &own->part[i]);
    }
    return status;
}

static enum status side_open(struct merged *merged, enum part_direction d, int32_t hop)
{
    const struct side side = side_of(merged, d, hop);
    bool weighted = merged->own->part[0].part->facts.weighted;
    int64_t n_edge = merged->plan->merged.n_edge[d][hop],
            n_row = memory_merged_rows(merged->plan, part_hop_rows(d, hop));
    int64_t n_bytes = memory_merged_bytes(n_row, n_edge, weighted);
    struct part_lent *lent = &merged->made[d][hop];
    char *made;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    if (status != STATUS_OK) {
        return status;
    }
    const struct part_edges to = edges_at(made, n_row, n_edge, weighted);
    if (indptr_fill(merged, &side, n_row, to.indptr) > merged->most_edges) {
        memory_release(MEMORY_STRUCTURE, made, (size_t)n_bytes, 1);
        return d == PART_DIRECTION_OUT ? parts_open(merged, hop) : STATUS_OK;
    }
    for (int32_t i = 0; i < merged->own->n; i++) {
        part_join(merged, &side, i, &to);
    }
    status = part_lend(&merged->own->setup, made, n_bytes, lent);
    if (status == STATUS_OK) {
        status = block_lend(merged, &side, n_row, lent, &to);
    }
    return status != STATUS_OK || d == PART_DIRECTION_OUT ? status : heads_open(merged, lent, &to);
}

/* --- lists by hop --- */

/* Where each row lies in an array of a hop's rows. */
static enum status order_open(const struct merged *merged, int32_t hop, struct part_lent *out)
{
    int64_t n = memory_merged_rows(merged->plan, hop);
    uint32_t *order;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n, sizeof *order, &order);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t i = 0; i < merged->own->n; i++) {
        int64_t *place = memory_alloc((size_t)rows_own(merged, i, hop), sizeof *place);
        places_fill(merged, i, hop, place);
        for (int64_t r = 0; r < rows_own(merged, i, hop); r++) {
            order[place[r]] = (uint32_t)(memory_plan_row_begin(merged->plan, hop, i) + r);
        }
        free(place);
    }
    return part_lend(&merged->own->setup, order, n * (int64_t)sizeof *order, out);
}

/* All parts' scales, or their nodes, which take 4 bytes, too, as rows of a hop lie in an array. */
static enum status numbers_open(const struct merged *merged, int32_t hop, bool nodes, struct part_lent *out)
{
    const int64_t n = memory_plan_rows(merged->plan, hop), each = sizeof(uint32_t);
    char *numbers;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n, (size_t)each, &numbers);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t i = 0; i < merged->own->n; i++) {
        const struct part_device *own = &merged->own->part[i];
        const void *from = nodes ? (const void *)own->part->node : own->scales.host;
        memcpy(numbers + memory_plan_row_begin(merged->plan, hop, i) * each, from,
               (size_t)(rows_own(merged, i, hop) * each));
    }
    return part_lend(&merged->own->setup, numbers, n * each, out);
}

static enum status lists_open(struct merged *merged, int32_t hop)
{
    enum status status = STATUS_OK;
    if (hop > 0) { /* no sum writes gradients of hop 0: sources are a hop further */
        status = order_open(merged, hop, &merged->order[hop]);
    }
    if (status == STATUS_OK && merged->own->setup.scaled != NULL) {
        status = numbers_open(merged, hop, false, &merged->scale[hop]);
    }
    return status;
}

enum status merged_open(const struct own_parts *own, const struct memory_plan *plan, int64_t most_edges,
                        struct merged **out)
{
    struct merged *merged = *out = memory_alloc(1, sizeof *merged);
    *merged = (struct merged){.own = own, .plan = plan, .most_edges = most_edges, .n_hop = plan->n_hop};
    bool any = false;
    enum status status = STATUS_OK;
    rows_lay_out(merged);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t hop = 0; hop <= plan->n_hop && status == STATUS_OK; hop++) {
            bool first = d == PART_DIRECTION_IN && hop < plan->n_hop;
            bool wanted = plan->merged.n_edge[d][hop] > 0;
            any = any || wanted;
            if (wanted && !first) {
                status = side_open(merged, (enum part_direction)d, hop);
            }
        }
    }
    for (int32_t hop = 0; hop <= plan->n_hop && any && status == STATUS_OK; hop++) {
        status = lists_open(merged, hop);
    }
    return status == STATUS_OK && plan->merged.nodes ? numbers_open(merged, PROGRAM_HOP_ALL, true, &merged->node)
                                                     : status;
}

void merged_close(struct merged *merged)
{
    if (merged == NULL) {
        return;
    }
    const struct part_device_setup *setup = &merged->own->setup;
    for (int32_t hop = 0; hop <= merged->n_hop; hop++) {
        for (int d = 0; d < PART_DIRECTION_N; d++) {
            if (merged->block[d][hop].indptr != NULL) {
                setup->device->ops->block_close(setup->device, &merged->block[d][hop]);
            }
        }
    }
    for (int32_t hop = 0; hop <= merged->n_hop; hop++) {
        for (int d = 0; d < PART_DIRECTION_N; d++) {
            part_made_release(setup, &merged->made[d][hop]);
        }
        part_made_release(setup, &merged->order[hop]);
        part_made_release(setup, &merged->scale[hop]);
    }
    part_made_release(setup, &merged->node);
    free(merged->begin);
    free(merged);
}

static int32_t hop_at(const struct merged *merged, int32_t hop)
{
    return hop < merged->n_hop ? hop : merged->n_hop;
}

bool merged_block(const struct merged *merged, enum part_direction d, const struct merged_hops *hops,
                  struct device_block *out)
{
    int32_t of = hop_at(merged, hops->of);
    bool shared = of == merged->n_hop && merged->own->part[0].part->facts.symmetric;
    *out = merged->block[shared ? PART_DIRECTION_IN : d][of];
    out->rows = (const uint32_t *)(const void *)merged->order[hop_at(merged, hops->to)].device;
    out->n_col = memory_plan_rows(merged->plan, hops->from);
    return out->indptr != NULL;
}

const float *merged_scale(const struct merged *merged, int32_t hop)
{
    return (const float *)(const void *)merged->scale[hop_at(merged, hop)].device;
}

const uint32_t *merged_node(const struct merged *merged)
{
    return (const uint32_t *)(const void *)merged->node.device;
}
