/* See part_side.h. Edges are read three times: nodes that are taken, sizes of blocks, and the columns themselves. */
#include "partition/part/part_side.h"

#include "partition/part/part_columns.h"
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

static void row_find(const struct side *side, int64_t r, const uint32_t **first, const uint32_t **end)
{
    int64_t i = side->direction == PART_DIRECTION_IN ? side->node[r] : side->row_first + r;
    *first = side->indices + side->indptr[i];
    *end = side->indices + side->indptr[i + 1];
}

/* Room for the places of all nodes that may be taken, twice: the second half is for sorting. */
static enum status payload_acquire(const struct side_tables *tables, struct side *side)
{
    int64_t n_edge = 0;
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *first, *end;
        row_find(side, r, &first, &end);
        n_edge += end - first;
        side->widest = end - first > side->widest ? end - first : side->widest;
    }
    int64_t n_other = tables->partition->n_node - side->n_own;
    side->n_room = 2 * (n_edge < n_other ? n_edge : n_other);
    return memory_acquire(MEMORY_OTHER, (size_t)side->n_room, sizeof *side->payload, &side->payload);
}

/* List each node of another part once. */
static void payload_list(const struct side_tables *tables, struct side *side)
{
    const int32_t *owner = tables->partition->owner;
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (row_find(side, r, &u, &end); u < end; u++) {
            if (owner[*u] != side->part && tables->column[*u] == SIDE_COLUMN_NONE) {
                tables->column[*u] = 0;
                side->payload[side->n_payload++] = tables->place[*u];
            }
        }
    }
    part_columns_sort(side->payload, NULL, NULL, side->n_payload, side->payload + side->n_room / 2);
}

static void block_add(struct side *side, int32_t part)
{
    side->block[side->n_block++] = (struct side_block){.part = part};
}

/* The blocks of the nodes taken, and the diagonal in its place among them. */
static void blocks_list(const struct side_tables *tables, struct side *side)
{
    const struct partition *partition = tables->partition;
    int32_t n_block = 1, last = -1;
    for (int64_t k = 0; k < side->n_payload; k++) {
        int32_t j = partition->owner[partition->order[side->payload[k]]];
        n_block += j != last;
        last = j;
    }
    side->block = memory_alloc((size_t)n_block, sizeof *side->block);
    last = -1;
    for (int64_t k = 0; k < side->n_payload; k++) {
        int32_t j = partition->owner[partition->order[side->payload[k]]];
        if (j != last && last < side->part && j > side->part) {
            block_add(side, side->part);
        }
        if (j != last) {
            block_add(side, j);
        }
        side->block[side->n_block - 1].counts.n_col++;
        last = j;
    }
    if (last < side->part) {
        block_add(side, side->part);
    }
    for (int32_t b = 0; b < side->n_block; b++) {
        tables->slot[side->block[b].part] = b;
    }
}

/* Rows and edges of each block. */
static void blocks_count(const struct side_tables *tables, struct side *side)
{
    for (int64_t r = 0; r < side->n_own; r++) {
        const uint32_t *u, *end;
        for (row_find(side, r, &u, &end); u < end; u++) {
            struct side_block *block = &side->block[tables->slot[tables->partition->owner[*u]]];
            block->counts.n_edge++;
            block->counts.n_row += block->seen != r + 1;
            block->seen = r + 1;
        }
    }
    struct part_counts *diagonal = &side->block[tables->slot[side->part]].counts;
    diagonal->n_row = diagonal->n_col = side->n_own;
}

static void columns_clear(const struct side_tables *tables, const struct side *side)
{
    for (int64_t k = 0; k < side->n_payload; k++) {
        tables->column[tables->partition->order[side->payload[k]]] = SIDE_COLUMN_NONE;
    }
}

enum status side_count(const struct side_tables *tables, enum part_direction direction, int32_t part,
                       const struct out_edges *out_edges, struct side *out)
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
                         .row_first = in ? 0 : part_begin[part] - part_begin[out_edges->first]};
    enum status status = payload_acquire(tables, out);
    if (status != STATUS_OK) {
        return status;
    }
    payload_list(tables, out);
    blocks_list(tables, out);
    blocks_count(tables, out);
    columns_clear(tables, out);
    return STATUS_OK;
}

void side_release(struct side *side)
{
    free(side->block);
    memory_release(MEMORY_OTHER, side->payload, (size_t)side->n_room, sizeof *side->payload);
    *side = (struct side){0};
}

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
            if (*place == SIDE_COLUMN_NONE) {
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
            tables->edge_place[side->edge_rows[u - side->indices]] = SIDE_COLUMN_NONE;
        }
    }
}

/* Where each block's rows, row ends and edges go. */
static void blocks_place(const struct side_tables *tables, struct side *side, struct part_listed *out)
{
    int64_t n_row = 0, n_ptr = 0, n_edge = 0;
    for (int32_t b = 0; b < side->n_block; b++) {
        struct side_block *block = &side->block[b];
        tables->slot[block->part] = b;
        block->seen = 0;
        block->row = block->first_row = n_row;
        block->first_ptr = n_ptr + b;
        block->ptr = block->first_ptr + 1;
        block->edge = block->first_edge = n_edge;
        n_row += block->part == side->part ? 0 : block->counts.n_row;
        n_ptr += block->counts.n_row;
        n_edge += block->counts.n_edge;
        out[b] = (struct part_listed){.part = (uint32_t)block->part,
                                      .n_row = (uint32_t)block->counts.n_row,
                                      .n_col = (uint32_t)block->counts.n_col};
    }
}

/* Columns of hop ≤ h, h = 0 … n_hop - 1, of a block whose columns stand at these places, or one after another from
 * `first`. */
static void hops_count(const struct partition *partition, const uint32_t *place, int64_t first, int64_t n_col,
                       uint32_t *out)
{
    for (int64_t c = 0; c < n_col; c++) {
        int32_t hop = partition->hop[partition->order[place != NULL ? place[c] : first + c]];
        if (hop < partition->n_hop) {
            out[hop]++;
        }
    }
    for (int32_t h = 1; h < partition->n_hop; h++) {
        out[h] += out[h - 1];
    }
}

/* Number the columns of each block, and write what is stored of them. */
static void columns_write(const struct side_tables *tables, const struct side *side, const struct sections *to)
{
    const struct dataset *dataset = tables->dataset;
    const struct partition *partition = tables->partition;
    int64_t k = 0;
    for (int32_t b = 0; b < side->n_block; b++) {
        const struct side_block *block = &side->block[b];
        bool diagonal = block->part == side->part;
        const uint32_t *place = diagonal ? NULL : side->payload + k;
        if (partition->n_hop > 0) {
            hops_count(partition, place, partition->part_begin[side->part], block->counts.n_col,
                       to->hops + b * (int64_t)partition->n_hop);
        }
        if (diagonal) {
            continue;
        }
        for (int64_t c = 0; c < block->counts.n_col; c++, k++) {
            uint32_t u = partition->order[place[c]];
            tables->column[u] = (uint32_t)c;
            to->degree[k] = (uint32_t)(dataset->indptr[u + (int64_t)1] - dataset->indptr[u]);
            to->node[k] = u;
            if (to->strength != NULL) {
                to->strength[k] = dataset->strength[u];
            }
        }
    }
}

/* Write one row's columns, types, weights and rows of features into the blocks in which it has edges; returns how
 * many, their numbers in `touched`. */
static int32_t row_write(const struct side_tables *tables, struct side *side, int64_t r, const struct sections *to,
                         int32_t *touched)
{
    uint32_t own_begin = (uint32_t)tables->partition->part_begin[side->part];
    int32_t n_touched = 0;
    const uint32_t *u, *end;
    for (row_find(side, r, &u, &end); u < end; u++) {
        int32_t j = tables->partition->owner[*u];
        struct side_block *block = &side->block[tables->slot[j]];
        if (block->seen != r + 1) {
            block->seen = r + 1;
            block->row_edge = block->edge;
            touched[n_touched++] = tables->slot[j];
        }
        if (side->types != NULL) {
            to->types[block->edge] = side->types[u - side->indices];
        }
        if (side->weights != NULL) {
            to->weights[block->edge] = side->weights[u - side->indices];
        }
        if (side->edge_rows != NULL) {
            to->edge_rows[block->edge] = tables->edge_place[side->edge_rows[u - side->indices]];
        }
        to->cols[block->edge++] = j == side->part ? tables->place[*u] - own_begin : tables->column[*u];
    }
    return n_touched;
}

/* Write and sort every row. spare: as part_columns_sort takes it, for the widest row */
static void rows_write(const struct side_tables *tables, struct side *side, const struct sections *to, void *spare)
{
    struct side_block *diagonal = &side->block[tables->slot[side->part]];
    int32_t *touched = memory_alloc((size_t)side->n_block, sizeof *touched);
    char *values = side->weights != NULL     ? (char *)to->weights
                   : side->edge_rows != NULL ? (char *)to->edge_rows
                                             : NULL;
    for (int64_t r = 0; r < side->n_own; r++) {
        int32_t n_touched = row_write(tables, side, r, to, touched);
        for (int32_t t = 0; t < n_touched; t++) {
            struct side_block *block = &side->block[touched[t]];
            part_columns_sort(to->cols + block->row_edge, side->types != NULL ? to->types + block->row_edge : NULL,
                              values != NULL ? values + block->row_edge * (int64_t)sizeof *to->edge_rows : NULL,
                              block->edge - block->row_edge, spare);
            if (block != diagonal) {
                to->rows[block->row++] = (uint32_t)r;
                to->indptr[block->ptr++] = block->edge - block->first_edge;
            }
        }
        to->indptr[diagonal->ptr++] = diagonal->edge - diagonal->first_edge;
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
    size_t key = alone ? sizeof(uint32_t) : sizeof(uint64_t);
    void *spare;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)side->widest, key, &spare);
    if (status != STATUS_OK) {
        return status;
    }
    blocks_place(tables, side, to.blocks);
    columns_write(tables, side, &to);
    rows_write(tables, side, &to, spare);
    columns_clear(tables, side);
    memory_release(MEMORY_OTHER, spare, (size_t)side->widest, key);
    if (side->types != NULL) {
        edges_weigh(tables, side, &to);
    }
    return STATUS_OK;
}
