/* See part_side.h. Edges are read twice: to count, and to write the columns. */
#include "partition/part/part_side.h"

#include "partition/part/part_columns.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/memory.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define STRETCHES 4096    /* parts are looked up by this many stretches of places */
#define CHUNK_EDGES 32768 /* at least, unless hops divide them */
#define ROWS_AHEAD 8

/* The sections of the direction being written; types, weights, strength and edge_rows NULL where the part has
 * none. */
struct sections {
    struct part_listed *blocks;
    uint32_t *rows, *cols, *degree, *node, *hops;
    int64_t *indptr;
    uint16_t *types;
    float *weights, *strength;
    uint32_t *edge_rows;
};

/* --- tables --- */

/* Numbers below which edge_row stays. */
static size_t edge_rows_most(const struct dataset *dataset)
{
    return dataset->edge_row != NULL ? (size_t)(dataset->n_edge_row + dataset->n_node) : 0;
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

static int32_t part_of(const struct side_tables *tables, uint32_t place)
{
    int32_t part = tables->part[place >> tables->shift];
    while (place >= tables->partition->part_begin[part + 1]) {
        part++;
    }
    return part;
}

/* --- places that are taken --- */

static uint64_t word_of(const struct side *side, int64_t place)
{
    return atomic_load_explicit(&side->taken[place / 64], memory_order_relaxed);
}

static void take(const struct side *side, uint32_t place)
{
    uint64_t bit = (uint64_t)1 << place % 64;
    if ((word_of(side, place) & bit) == 0) {
        atomic_fetch_or_explicit(&side->taken[place / 64], bit, memory_order_relaxed);
    }
}

static void taken_count(struct side *side)
{
    uint32_t n = 0;
    for (size_t w = 0; w < side->n_word; w++) {
        side->before[w] = n;
        n += (uint32_t)__builtin_popcountll(word_of(side, (int64_t)w * 64));
    }
}

/* Of the places below this one, which may be n_node. */
static int64_t taken_before(const struct side *side, int64_t place)
{
    uint64_t below = ((uint64_t)1 << place % 64) - 1;
    return side->before[place / 64] + __builtin_popcountll(word_of(side, place) & below);
}

/* The next one from `from` on; `end` if it is not below that. */
static int64_t taken_next(const struct side *side, int64_t from, int64_t end)
{
    while (from < end) {
        uint64_t rest = word_of(side, from) >> from % 64;
        if (rest != 0) {
            from += __builtin_ctzll(rest);
            return from < end ? from : end;
        }
        from += 64 - from % 64;
    }
    return end;
}

int64_t side_values(const struct side_tables *tables, const struct side *side)
{
    const int64_t *indptr = tables->dataset->feature_indptr;
    int64_t n = 0, end = tables->partition->n_node;
    for (int64_t i = taken_next(side, 0, end); i < end; i = taken_next(side, i + 1, end)) {
        uint32_t u = tables->partition->order[i];
        n += indptr[u + (int64_t)1] - indptr[u];
    }
    return n;
}

/* --- counting --- */

static void row_find(const struct side *side, int64_t r, const uint32_t **first, const uint32_t **end)
{
    int64_t i = side->direction == PART_DIRECTION_IN ? side->node[r] : side->row_first + r;
    *first = side->indices + side->indptr[i];
    *end = side->indices + side->indptr[i + 1];
}

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
        row_find(side, r, &first, &end);
        n_edge += end - first;
    }
    int64_t even = n_edge / omp_get_max_threads() + 1, most = even > CHUNK_EDGES ? even : CHUNK_EDGES;
    side->chunk = memory_alloc((size_t)omp_get_max_threads() + PART_N_HOP_MOST + 2, sizeof *side->chunk);
    struct side_chunk at = {0};
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *first, *end;
        row_find(side, r, &first, &end);
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

static bool is_large(const struct side *side)
{
    return side->chunk[side->n_chunk].edge > ROWS_PARALLEL_LEAST;
}

/* Where the places of a chunk's next row go, after those of its edges so far. */
static uint32_t *places_at(const struct side *side, const struct side_chunk *chunk, int64_t edge)
{
    return side->place + (side->kept ? edge : chunk->spare);
}

static struct side_cursor *cursors_of(const struct side_tables *tables, const struct side *side, int32_t chunk)
{
    return side->cursor + chunk * (int64_t)tables->partition->n_part;
}

/* Places of a chunk's edges' other ends, its rows and edges in each block, and the nodes it takes. */
static void chunk_count(const struct side_tables *tables, const struct side *side, int32_t c)
{
    const struct side_chunk *chunk = &side->chunk[c];
    struct side_cursor *cursor = cursors_of(tables, side, c);
    int64_t edge = chunk->edge;
    for (int64_t r = chunk->row; r < chunk[1].row; r++) {
        const uint32_t *u, *end;
        if (r + ROWS_AHEAD < chunk[1].row) {
            row_find(side, r + ROWS_AHEAD, &u, &end);
            __builtin_prefetch(u);
        }
        row_find(side, r, &u, &end);
        int64_t n = end - u;
        uint32_t *place = places_at(side, chunk, edge);
        for (int64_t i = 0; i < n; i++) {
            place[i] = tables->place[u[i]];
        }
        for (int64_t i = 0; i < n; i++) {
            int32_t j = part_of(tables, place[i]);
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
            counts.n_row += cursors_of(tables, side, c)[j].row;
            counts.n_edge += cursors_of(tables, side, c)[j].edge;
        }
        if (j == side->part) {
            counts.n_row = counts.n_col = side->n_own;
        } else {
            counts.n_col = taken_before(side, partition->part_begin[j + 1]) -
                           taken_before(side, partition->part_begin[j]);
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
                         .edge_rows = in ? dataset->edge_row : out_edges->edge_rows,
                         .row_first = in ? 0 : part_begin[part] - part_begin[out_edges->first],
                         .kept = keeps};
    chunks_cut(tables, out);
    out->n_place = keeps ? out->chunk[out->n_chunk].edge : out->chunk[out->n_chunk].spare;
    out->n_word = (size_t)dataset->n_node / 64 + 1;
    out->cursor = memory_alloc((size_t)out->n_chunk * (size_t)tables->partition->n_part, sizeof *out->cursor);
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)out->n_place, sizeof *out->place, &out->place);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, out->n_word, sizeof *out->taken, &out->taken);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, out->n_word, sizeof *out->before, &out->before);
    }
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(dynamic) if (is_large(out))
    for (int32_t c = 0; c < out->n_chunk; c++) {
        chunk_count(tables, out, c);
    }
    taken_count(out);
    blocks_list(tables, out);
    return STATUS_OK;
}

void side_release(struct side *side)
{
    free(side->block);
    free(side->chunk);
    free(side->cursor);
    memory_release(MEMORY_OTHER, side->before, side->n_word, sizeof *side->before);
    memory_release(MEMORY_OTHER, side->taken, side->n_word, sizeof *side->taken);
    memory_release(MEMORY_OTHER, side->place, (size_t)side->n_place, sizeof *side->place);
    *side = (struct side){0};
}

/* The places of a block's columns: own ones, or those taken from its part. */
struct columns {
    int64_t begin, end;
    bool own;
};

static struct columns columns_of(const struct side_tables *tables, const struct side *side, int32_t b)
{
    int32_t part = side->block[b].part;
    const int64_t *begin = tables->partition->part_begin + part;
    return (struct columns){.begin = begin[0], .end = begin[1], .own = part == side->part};
}

static int64_t column_next(const struct side *side, const struct columns *columns, int64_t from)
{
    return columns->own ? from : taken_next(side, from, columns->end);
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
    const struct columns columns = columns_of(tables, side, b);
    for (int64_t i = column_next(side, &columns, columns.begin); i < columns.end;
         i = column_next(side, &columns, i + 1)) {
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
        const struct side_cursor *cursor = &cursors_of(tables, side, c)[side->block[b].part];
        const struct side_chunk *chunk = &side->chunk[c];
        for (int32_t h = hop_of(tables, side, chunk->row); h < partition->n_hop; h++) {
            n_row_out[h] += (uint32_t)(own ? chunk[1].row - chunk->row : cursor->row);
            n_edge_out[h] += cursor->edge;
        }
    }
}

/* --- writing --- */

static struct sections sections_find(const struct part_header *header, enum part_direction d, void *bytes)
{
    void *at[PART_SIDE_HOPS + 1];
    for (int s = 0; s <= PART_SIDE_HOPS; s++) {
        const struct part_section_row *row = &header->section[part_side_section(d, (enum part_side)s)];
        at[s] = row->n_bytes > 0 ? (char *)bytes + row->offset : NULL;
    }
    return (struct sections){.blocks = at[PART_SIDE_BLOCKS],
                             .rows = at[PART_SIDE_ROWS],
                             .indptr = at[PART_SIDE_INDPTR],
                             .cols = at[PART_SIDE_COLS],
                             .degree = at[PART_SIDE_DEGREE],
                             .node = at[PART_SIDE_NODE],
                             .types = at[PART_SIDE_TYPES],
                             .weights = at[PART_SIDE_WEIGHTS],
                             .strength = at[PART_SIDE_STRENGTH],
                             .edge_rows = at[PART_SIDE_EDGE_ROWS],
                             .hops = at[PART_SIDE_HOPS]};
}

int64_t side_edge_rows_number(const struct side_tables *tables, const struct side *side, int64_t n_row)
{
    for (int64_t r = 0; side->edge_rows != NULL && r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (row_find(side, r, &u, &end); u < end; u++) {
            uint32_t *place = &tables->edge_place[side->edge_rows[u - side->indices]];
            if (*place == SIDE_EDGE_ROW_NONE) {
                *place = (uint32_t)n_row++;
            }
        }
    }
    return n_row;
}

void side_edge_rows_write(const struct side_tables *tables, const struct side *side, float *out)
{
    size_t n = (size_t)tables->dataset->n_edge_feature;
    for (int64_t r = 0; side->edge_rows != NULL && r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (row_find(side, r, &u, &end); u < end; u++) {
            uint32_t row = side->edge_rows[u - side->indices];
            memcpy(out + tables->edge_place[row] * n, dataset_edge_features(tables->dataset, row), n * sizeof *out);
        }
    }
}

void side_edge_rows_clear(const struct side_tables *tables, const struct side *side)
{
    for (int64_t r = 0; side->edge_rows != NULL && r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (row_find(side, r, &u, &end); u < end; u++) {
            tables->edge_place[side->edge_rows[u - side->indices]] = SIDE_EDGE_ROW_NONE;
        }
    }
}

/* Where each block's rows, row ends and edges go, and of them each chunk's. */
static void blocks_place(const struct side_tables *tables, struct side *side, struct part_listed *out)
{
    int64_t n_row = 0, n_ptr = 0, n_edge = 0;
    for (int32_t b = 0; b < side->n_block; b++) {
        struct side_block *block = &side->block[b];
        int64_t row = n_row, edge = n_edge;
        tables->slot[block->part] = b;
        block->first_row = n_row;
        block->first_ptr = n_ptr + b;
        block->first_edge = n_edge;
        for (int32_t c = 0; c < side->n_chunk; c++) {
            struct side_cursor *cursor = &cursors_of(tables, side, c)[block->part];
            const struct side_cursor counted = *cursor;
            *cursor = (struct side_cursor){.row = row, .edge = edge};
            row += counted.row;
            edge += counted.edge;
        }
        n_row += block->part == side->part ? 0 : block->counts.n_row;
        n_ptr += block->counts.n_row;
        n_edge += block->counts.n_edge;
        out[b] = (struct part_listed){.part = (uint32_t)block->part,
                                      .n_row = (uint32_t)block->counts.n_row,
                                      .n_col = (uint32_t)block->counts.n_col};
    }
}

/* What is stored of the columns of each block. */
static void columns_write(const struct side_tables *tables, const struct side *side, const struct sections *to)
{
    const struct dataset *dataset = tables->dataset;
    const struct partition *partition = tables->partition;
    int64_t k = 0;
    for (int32_t b = 0; b < side->n_block; b++) {
        const struct columns columns = columns_of(tables, side, b);
        if (partition->n_hop > 0) {
            side_columns_hops(tables, side, b, to->hops + b * (int64_t)partition->n_hop);
        }
        if (columns.own) {
            continue;
        }
        for (int64_t i = column_next(side, &columns, columns.begin); i < columns.end;
             i = column_next(side, &columns, i + 1), k++) {
            uint32_t u = partition->order[i];
            to->degree[k] = (uint32_t)(dataset->indptr[u + (int64_t)1] - dataset->indptr[u]);
            to->node[k] = u;
            if (to->strength != NULL) {
                to->strength[k] = dataset->strength[u];
            }
        }
    }
}

/* Write one row's columns, types, weights and rows of features into the blocks in which it has edges; returns how
 * many, their parts in `touched`. */
static int32_t row_write(const struct side_tables *tables, const struct side *side, int64_t r, const uint32_t *place,
                         struct side_cursor *cursors, const struct sections *to, int32_t *touched)
{
    const int64_t *part_begin = tables->partition->part_begin;
    int32_t n_touched = 0;
    const uint32_t *u, *end;
    row_find(side, r, &u, &end);
    for (int64_t i = 0, at = u - side->indices; i < end - u; i++, at++) {
        int32_t j = part_of(tables, place[i]);
        struct side_cursor *cursor = &cursors[j];
        if (cursor->seen != r + 1) {
            cursor->seen = r + 1;
            cursor->row_edge = cursor->edge;
            touched[n_touched++] = j;
        }
        if (side->types != NULL) {
            to->types[cursor->edge] = side->types[at];
        }
        if (side->weights != NULL) {
            to->weights[cursor->edge] = side->weights[at];
        }
        if (side->edge_rows != NULL) {
            to->edge_rows[cursor->edge] = tables->edge_place[side->edge_rows[at]];
        }
        to->cols[cursor->edge++] = (uint32_t)(j == side->part
                                                  ? place[i] - part_begin[j]
                                                  : taken_before(side, place[i]) - taken_before(side, part_begin[j]));
    }
    return n_touched;
}

/* Write and sort a chunk's rows. spare: as part_columns_sort takes it, for the chunk's widest row */
static void chunk_write(const struct side_tables *tables, const struct side *side, int32_t c,
                        const struct sections *to, void *spare)
{
    const struct side_chunk *chunk = &side->chunk[c];
    struct side_cursor *cursors = cursors_of(tables, side, c);
    const struct side_block *diagonal = &side->block[tables->slot[side->part]];
    int32_t *touched = memory_alloc((size_t)side->n_block, sizeof *touched);
    char *values = side->weights != NULL     ? (char *)to->weights
                   : side->edge_rows != NULL ? (char *)to->edge_rows
                                             : NULL;
    int64_t edge = chunk->edge;
    for (int64_t r = chunk->row; r < chunk[1].row; r++) {
        int32_t n_touched = row_write(tables, side, r, side->place + edge, cursors, to, touched);
        for (int32_t t = 0; t < n_touched; t++) {
            struct side_cursor *cursor = &cursors[touched[t]];
            const struct side_block *block = &side->block[tables->slot[touched[t]]];
            int64_t n = cursor->edge - cursor->row_edge;
            edge += n;
            part_columns_sort(to->cols + cursor->row_edge, side->types != NULL ? to->types + cursor->row_edge : NULL,
                              values != NULL ? values + cursor->row_edge * (int64_t)sizeof *to->edge_rows : NULL, n,
                              spare);
            if (block != diagonal) {
                to->rows[cursor->row] = (uint32_t)r;
                to->indptr[block->first_ptr + 1 + cursor->row++ - block->first_row] = cursor->edge -
                                                                                      block->first_edge;
            }
        }
        to->indptr[diagonal->first_ptr + 1 + r] = cursors[side->part].edge - diagonal->first_edge;
    }
    free(touched);
}

/* Weigh every typed edge, once rows and columns are in place: by its destination, which is a row of IN and a column
 * of OUT. */
static void edges_weigh(const struct side_tables *tables, const struct side *side, const struct sections *to)
{
    const uint32_t *node = to->node;
    for (int32_t b = 0; b < side->n_block; b++) {
        const struct side_block *block = &side->block[b];
        bool diagonal = block->part == side->part;
        const uint32_t *col_node = diagonal ? side->node : node;
        const int64_t *indptr = to->indptr + block->first_ptr;
        for (int64_t r = 0; r < block->counts.n_row; r++) {
            uint32_t own = side->node[diagonal ? r : to->rows[block->first_row + r]];
            for (int64_t i = block->first_edge + indptr[r]; i < block->first_edge + indptr[r + 1]; i++) {
                uint32_t destination = side->direction == PART_DIRECTION_IN ? own : col_node[to->cols[i]];
                to->weights[i] = part_relation_weight(tables->dataset, destination, to->types[i]);
            }
        }
        node += diagonal ? 0 : block->counts.n_col;
    }
}

enum status side_write(const struct side_tables *tables, struct side *side, const struct part_header *header,
                       void *bytes)
{
    struct sections to = sections_find(header, side->direction, bytes);
    bool alone = side->types == NULL && side->weights == NULL && side->edge_rows == NULL;
    size_t key = alone ? sizeof(uint32_t) : sizeof(uint64_t), n_spare = (size_t)side->chunk[side->n_chunk].spare;
    char *spare;
    enum status status = memory_acquire(MEMORY_OTHER, n_spare, key, &spare);
    if (status != STATUS_OK) {
        return status;
    }
    blocks_place(tables, side, to.blocks);
    columns_write(tables, side, &to);
#pragma omp parallel for schedule(dynamic) if (is_large(side))
    for (int32_t c = 0; c < side->n_chunk; c++) {
        chunk_write(tables, side, c, &to, spare + (size_t)side->chunk[c].spare * key);
    }
    memory_release(MEMORY_OTHER, spare, n_spare, key);
    if (side->types != NULL) {
        edges_weigh(tables, side, &to);
    }
    return STATUS_OK;
}
