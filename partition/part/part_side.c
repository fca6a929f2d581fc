/* See part_side.h: the tables, and counting. */
#include "partition/part/part_side.h"

#include "protocol/base/memory.h"

#include <omp.h>
#include <stdlib.h>

#define STRETCHES 4096    /* parts are looked up by this many stretches of places */
#define CHUNK_EDGES 32768 /* at least, unless hops divide them */
#define ROWS_AHEAD 8

/* --- tables --- */

/* Numbers below which edge_row stays. */
static size_t edge_rows_most(const struct dataset *dataset)
{
    return dataset->edges.row != NULL ? (size_t)(dataset->edges.n_row + dataset->n_node) : 0;
}

/* The part of each stretch's first place. */
static void parts_list(struct side_tables *tables)
{
    const struct partition *partition = tables->partition;
    int32_t part = 0;
    for (int64_t i = 0; i << tables->shift < partition->n_node; i++) {
        while (partition->part_begin[part + 1] <= i << tables->shift) {
            part++;
        }
        tables->part[i] = part;
    }
}

enum status side_tables_open(const struct dataset *dataset, const struct partition *partition,
                             struct side_tables *out)
{
    size_t n_node = (size_t)dataset->n_node;
    *out = (struct side_tables){.dataset = dataset, .partition = partition};
    while (dataset->n_node >> out->shift > STRETCHES) {
        out->shift++;
    }
    size_t n_edge_row = edge_rows_most(dataset);
    enum status status = memory_acquire(MEMORY_OTHER, n_node, sizeof *out->place, &out->place);
    if (status == STATUS_OK && n_edge_row > 0) {
        status = memory_acquire(MEMORY_OTHER, n_edge_row, sizeof *out->edge_place, &out->edge_place);
    }
    if (status != STATUS_OK) {
        return status;
    }
    out->part = memory_alloc(STRETCHES + 1, sizeof *out->part);
    out->slot = memory_alloc((size_t)partition->n_part, sizeof *out->slot);
    for (size_t i = 0; i < n_node; i++) {
        out->place[partition->order[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < n_edge_row; i++) {
        out->edge_place[i] = SIDE_EDGE_ROW_NONE;
    }
    parts_list(out);
    return STATUS_OK;
}

void side_tables_close(struct side_tables *tables)
{
    if (tables->dataset == NULL) {
        return;
    }
    free(tables->slot);
    free(tables->part);
    memory_release(MEMORY_OTHER, tables->edge_place, edge_rows_most(tables->dataset), sizeof *tables->edge_place);
    memory_release(MEMORY_OTHER, tables->place, (size_t)tables->dataset->n_node, sizeof *tables->place);
    *tables = (struct side_tables){0};
}

/* --- places that are taken --- */

static void take(const struct side *side, uint32_t place)
{
    uint64_t bit = (uint64_t)1 << place % 64;
    if ((side_word(side, place) & bit) == 0) {
        atomic_fetch_or_explicit(&side->received[place / 64], bit, memory_order_relaxed);
    }
}

static void received_count(struct side *side)
{
    uint32_t n = 0;
    for (size_t w = 0; w < side->n_word; w++) {
        side->before[w] = n;
        n += (uint32_t)__builtin_popcountll(side_word(side, (int64_t)w * 64));
    }
}

int64_t side_values(const struct side_tables *tables, const struct side *side)
{
    const int64_t *indptr = tables->dataset->features.indptr;
    int64_t n = 0, end = tables->partition->n_node;
    for (int64_t i = side_received_next(side, 0, end); i < end; i = side_received_next(side, i + 1, end)) {
        uint32_t u = tables->partition->order[i];
        n += indptr[u + (int64_t)1] - indptr[u];
    }
    return n;
}

/* --- counting --- */

static int32_t hop_of(const struct side_tables *tables, const struct side *side, int64_t r)
{
    return tables->partition->n_hop > 0 ? tables->partition->hop[side->node[r]] : 0;
}

/* Cut the rows where hops change, and into as many chunks of even edges as there are threads. */
static void chunks_cut(const struct side_tables *tables, struct side *side)
{
    int64_t n_edge = 0;
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *first, *end;
        side_row(side, r, &first, &end);
        n_edge += end - first;
    }
    int64_t even = n_edge / omp_get_max_threads() + 1, most = even > CHUNK_EDGES ? even : CHUNK_EDGES;
    side->chunk = memory_alloc((size_t)omp_get_max_threads() + PART_N_HOP_MOST + 2, sizeof *side->chunk);
    struct side_chunk at = {0};
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *first, *end;
        side_row(side, r, &first, &end);
        struct side_chunk *now = side->n_chunk > 0 ? &side->chunk[side->n_chunk - 1] : NULL;
        at.row = r;
        if (now == NULL || at.edge - now->edge >= most || hop_of(tables, side, r) != hop_of(tables, side, r - 1)) {
            at.spare += now != NULL ? now->widest : 0;
            now = &side->chunk[side->n_chunk++];
            *now = at;
        }
        now->widest = end - first > now->widest ? end - first : now->widest;
        at.edge += end - first;
    }
    at.row = side->n_own;
    at.spare += side->n_chunk > 0 ? side->chunk[side->n_chunk - 1].widest : 0;
    side->chunk[side->n_chunk] = at;
}

/* Where the places of a chunk's next row go, after those of its edges so far. */
static uint32_t *places_at(const struct side *side, const struct side_chunk *chunk, int64_t edge)
{
    return side->place + (side->kept ? edge : chunk->spare);
}

/* Places of a chunk's edges' other ends, its rows and edges in each block, and the nodes it takes. */
static void chunk_count(const struct side_tables *tables, const struct side *side, int32_t c)
{
    const struct side_chunk *chunk = &side->chunk[c];
    struct side_cursor *cursor = side_cursors(tables, side, c);
    int64_t edge = chunk->edge;
    for (int64_t r = chunk->row; r < chunk[1].row; r++) {
        const uint32_t *u, *end;
        if (r + ROWS_AHEAD < chunk[1].row) {
            side_row(side, r + ROWS_AHEAD, &u, &end);
            __builtin_prefetch(u);
        }
        side_row(side, r, &u, &end);
        int64_t n = end - u;
        uint32_t *place = places_at(side, chunk, edge);
        for (int64_t i = 0; i < n; i++) {
            place[i] = tables->place[u[i]];
        }
        for (int64_t i = 0; i < n; i++) {
            int32_t j = side_part_at(tables, place[i]);
            cursor[j].edge++;
            cursor[j].row += cursor[j].seen != r + 1;
            cursor[j].seen = r + 1;
            if (j != side->part) {
                take(side, place[i]);
            }
        }
        edge += n;
    }
}

/* The blocks with edges, and the diagonal. */
static void blocks_list(const struct side_tables *tables, struct side *side)
{
    const struct partition *partition = tables->partition;
    side->block = memory_alloc((size_t)partition->n_part, sizeof *side->block);
    for (int32_t j = 0; j < partition->n_part; j++) {
        struct part_counts counts = {0};
        for (int32_t c = 0; c < side->n_chunk; c++) {
            counts.n_row += side_cursors(tables, side, c)[j].row;
            counts.n_edge += side_cursors(tables, side, c)[j].edge;
        }
        if (j == side->part) {
            counts.n_row = counts.n_col = side->n_own;
        } else {
            counts.n_col = side_received_before(side, partition->part_begin[j + 1]) -
                           side_received_before(side, partition->part_begin[j]);
        }
        if (counts.n_edge > 0 || j == side->part) {
            side->block[side->n_block++] = (struct side_block){.part = j, .counts = counts};
        }
    }
}

enum status side_count(const struct side_tables *tables, enum part_direction direction, int32_t part,
                       const struct out_edges *out_edges, bool keeps, struct side *out)
{
    const struct dataset *dataset = tables->dataset;
    const int64_t *part_begin = tables->partition->part_begin;
    bool in = direction == PART_DIRECTION_IN;
    *out = (struct side){.direction = direction,
                         .part = part,
                         .n_own = part_begin[part + 1] - part_begin[part],
                         .node = tables->partition->order + part_begin[part],
                         .indptr = in ? dataset->indptr : out_edges->indptr,
                         .indices = in ? dataset->indices : out_edges->indices,
                         .types = in ? dataset->edge_type : out_edges->types,
                         .weights = in ? dataset->edge_weight : out_edges->weights,
                         .edge_rows = in ? dataset->edges.row : out_edges->edge_rows,
                         .row_first = in ? 0 : part_begin[part] - part_begin[out_edges->first],
                         .kept = keeps};
    chunks_cut(tables, out);
    out->n_place = keeps ? out->chunk[out->n_chunk].edge : out->chunk[out->n_chunk].spare;
    out->n_word = (size_t)dataset->n_node / 64 + 1;
    out->cursor = memory_alloc((size_t)out->n_chunk * (size_t)tables->partition->n_part, sizeof *out->cursor);
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_place, sizeof *out->place, &out->place);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, out->n_word, sizeof *out->received, &out->received);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, out->n_word, sizeof *out->before, &out->before);
    }
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(dynamic) if (side_is_large(out))
    for (int32_t c = 0; c < out->n_chunk; c++) {
        chunk_count(tables, out, c);
    }
    received_count(out);
    blocks_list(tables, out);
    return STATUS_OK;
}

void side_release(struct side *side)
{
    free(side->block);
    free(side->chunk);
    free(side->cursor);
    memory_release(MEMORY_OTHER, side->before, side->n_word, sizeof *side->before);
    memory_release(MEMORY_OTHER, side->received, side->n_word, sizeof *side->received);
    memory_release(MEMORY_OTHER, side->place, (size_t)side->n_place, sizeof *side->place);
    *side = (struct side){0};
}

static void hops_add(uint32_t *counts, int32_t n_hop)
{
    for (int32_t h = 1; h < n_hop; h++) {
        counts[h] += counts[h - 1];
    }
}

void side_columns_hops(const struct side_tables *tables, const struct side *side, int32_t b, uint32_t *out)
{
    const struct partition *partition = tables->partition;
    const struct side_columns columns = side_columns_at(tables, side, b);
    for (int64_t i = side_column_next(side, &columns, columns.begin); i < columns.end;
         i = side_column_next(side, &columns, i + 1)) {
        int32_t hop = partition->hop[partition->order[i]];
        if (hop < partition->n_hop) {
            out[hop]++;
        }
    }
    hops_add(out, partition->n_hop);
}

void side_rows_hops(const struct side_tables *tables, const struct side *side, int32_t b, uint32_t *n_row_out,
                    int64_t *n_edge_out)
{
    const struct partition *partition = tables->partition;
    bool own = side->block[b].part == side->part;
    for (int32_t c = 0; c < side->n_chunk; c++) {
        const struct side_cursor *cursor = &side_cursors(tables, side, c)[side->block[b].part];
        const struct side_chunk *chunk = &side->chunk[c];
        for (int32_t h = hop_of(tables, side, chunk->row); h < partition->n_hop; h++) {
            n_row_out[h] += (uint32_t)(own ? chunk[1].row - chunk->row : cursor->row);
            n_edge_out[h] += cursor->edge;
        }
    }
}
