/* See part_side.h: writing, where counting has put everything. */
#include "partition/part/part_columns.h"
#include "partition/part/part_side.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

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
        for (side_row(side, r, &u, &end); u < end; u++) {
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
    size_t n = (size_t)tables->dataset->facts.n_edge_feature;
    for (int64_t r = 0; side->edge_rows != NULL && r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (side_row(side, r, &u, &end); u < end; u++) {
            uint32_t row = side->edge_rows[u - side->indices];
            memcpy(out + tables->edge_place[row] * n, dataset_edge_features(tables->dataset, row), n * sizeof *out);
        }
    }
}

void side_edge_rows_clear(const struct side_tables *tables, const struct side *side)
{
    for (int64_t r = 0; side->edge_rows != NULL && r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (side_row(side, r, &u, &end); u < end; u++) {
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
            struct side_cursor *cursor = &side_cursors(tables, side, c)[block->part];
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
        const struct side_columns columns = side_columns_at(tables, side, b);
        if (partition->n_hop > 0) {
            side_columns_hops(tables, side, b, to->hops + b * (int64_t)partition->n_hop);
        }
        if (columns.own) {
            continue;
        }
        for (int64_t i = side_column_next(side, &columns, columns.begin); i < columns.end;
             i = side_column_next(side, &columns, i + 1), k++) {
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
    side_row(side, r, &u, &end);
    for (int64_t i = 0, at = u - side->indices; i < end - u; i++, at++) {
        int32_t j = side_part_at(tables, place[i]);
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
        to->cols[cursor->edge++] = (uint32_t)(j == side->part ? place[i] - part_begin[j]
                                                              : side_received_before(side, place[i]) -
                                                                    side_received_before(side, part_begin[j]));
    }
    return n_touched;
}

/* Write and sort a chunk's rows. spare: as part_columns_sort takes it, for the chunk's widest row */
static void chunk_write(const struct side_tables *tables, const struct side *side, int32_t c,
                        const struct sections *to, void *spare)
{
    const struct side_chunk *chunk = &side->chunk[c];
    struct side_cursor *cursors = side_cursors(tables, side, c);
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
#pragma omp parallel for schedule(dynamic) if (side_is_large(side))
    for (int32_t c = 0; c < side->n_chunk; c++) {
        chunk_write(tables, side, c, &to, spare + (size_t)side->chunk[c].spare * key);
    }
    memory_release(MEMORY_OTHER, spare, n_spare, key);
    if (side->types != NULL) {
        edges_weigh(tables, side, &to);
    }
    return STATUS_OK;
}
