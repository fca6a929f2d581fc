/* A part's rows out of the dataset, laid out as part_format.h says.
 *
 * Two passes over the part's edges: one counts (so that the sections have their final place), one writes. Rows of the
 * transposed direction are gathered by one scan of all edges, and only for graphs that are not symmetric.
 */
#include "partition/part/part.h"
#include "partition/part/part_columns.h"
#include "partition/part/part_format.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define COLUMN_NONE UINT32_MAX

/* One direction of one part while it is encoded. Row r's neighbours: indices[indptr[i] … indptr[i+1]), i =
 * row_node[r] for the dataset's own in-edges, i = r for the out-edges gathered here. */
struct side {
    const int64_t *indptr;
    const uint32_t *indices;
    const uint16_t *types;    /* of the same entries; NULL when untyped */
    const float *weights;     /* likewise; NULL unless weighted */
    const uint32_t *row_node; /* NULL: r itself */
    int64_t *gathered_indptr; /* what the pointers above stand on, when it was gathered here */
    uint32_t *gathered_indices;
    uint16_t *gathered_types;
    float *gathered_weights;
    int64_t n_gathered;
    uint32_t *column;           /* n_node: payload row of each neighbour in its part's payload; own nodes: their place */
    struct part_counts *counts; /* n_part */
    int64_t *levels;            /* n_part × n_level: columns of hop ≤ level */
};

struct encoder {
    const struct dataset *dataset;
    const struct partition *partition;
    int32_t part;
    int64_t n_own;
    const uint32_t *node; /* n_own */
    int n_side;           /* directions encoded: 1 when symmetric */
    struct side side[PART_DIRECTION_N];
    struct part_header header;
};

static uint32_t degree_of(const struct dataset *dataset, uint32_t node)
{
    return (uint32_t)(dataset->indptr[node + (int64_t)1] - dataset->indptr[node]);
}

/* Gather the out-edges of the part's rows: destinations of every edge that leaves row r, ascending. */
static enum status gather_out(struct encoder *e, struct side *side)
{
    const struct dataset *dataset = e->dataset;
    const int32_t *owner = e->partition->owner;
    const uint32_t *place = e->side[PART_DIRECTION_IN].column; /* own nodes: their place */
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)e->n_own + 1, sizeof(int64_t), &side->gathered_indptr);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t *end = side->gathered_indptr + 1;
    for (int64_t i = 0; i < dataset->n_edge; i++) {
        uint32_t u = dataset->indices[i];
        if (owner[u] == e->part) {
            end[place[u]]++;
        }
    }
    for (int64_t r = 1; r < e->n_own; r++) {
        end[r] += end[r - 1];
    }
    side->n_gathered = end[e->n_own - 1];
    status = memory_acquire(MEMORY_OTHER, (size_t)side->n_gathered, sizeof(uint32_t), &side->gathered_indices);
    if (status == STATUS_OK && dataset->edge_type != NULL) {
        status = memory_acquire(MEMORY_OTHER, (size_t)side->n_gathered, sizeof(uint16_t), &side->gathered_types);
    }
    if (status == STATUS_OK && dataset->weighted) {
        status = memory_acquire(MEMORY_OTHER, (size_t)side->n_gathered, sizeof(float), &side->gathered_weights);
    }
    if (status != STATUS_OK) {
        return status;
    }
    /* Filled from the back, so that `end` becomes `begin` and destinations stay ascending. */
    for (int64_t v = dataset->n_node - 1; v >= 0; v--) {
        for (int64_t i = dataset->indptr[v + 1] - 1; i >= dataset->indptr[v]; i--) {
            uint32_t u = dataset->indices[i];
            if (owner[u] == e->part) {
                int64_t at = --end[place[u]];
                side->gathered_indices[at] = (uint32_t)v;
                if (side->gathered_types != NULL) {
                    side->gathered_types[at] = dataset->edge_type[i];
                }
                if (side->gathered_weights != NULL) {
                    side->gathered_weights[at] = dataset->edge_weight[i];
                }
            }
        }
    }
    memmove(side->gathered_indptr, end, (size_t)e->n_own * sizeof *end);
    side->gathered_indptr[e->n_own] = side->n_gathered;
    side->indptr = side->gathered_indptr;
    side->indices = side->gathered_indices;
    side->types = side->gathered_types;
    side->weights = side->gathered_weights;
    return STATUS_OK;
}

static void side_row(const struct side *side, int64_t r, const uint32_t **first, const uint32_t **end)
{
    int64_t i = side->row_node != NULL ? side->row_node[r] : r;
    *first = side->indices + side->indptr[i];
    *end = side->indices + side->indptr[i + 1];
}

/* Count rows, columns and edges of every block, and number the payload rows of each part. */
static enum status side_count(struct encoder *e, struct side *side)
{
    const struct partition *partition = e->partition;
    int32_t n_part = partition->n_part;
    int64_t *seen; /* n_part: last row + 1 that had an edge from this part */
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n_part, sizeof *seen, &seen);
    if (status != STATUS_OK) {
        return status;
    }
    memset(side->column, 0xff, (size_t)partition->n_node * sizeof *side->column);
    for (int64_t r = 0; r < e->n_own; r++) {
        const uint32_t *u, *end;
        for (side_row(side, r, &u, &end); u < end; u++) {
            int32_t j = partition->owner[*u];
            side->column[*u] = 0;
            side->counts[j].n_edge++;
            if (seen[j] != r + 1) {
                seen[j] = r + 1;
                side->counts[j].n_row++;
            }
        }
    }
    memory_release(MEMORY_OTHER, seen, (size_t)n_part, sizeof *seen);
    for (int32_t j = 0; j < n_part; j++) {
        int64_t n_col = 0;
        for (int64_t i = partition->part_begin[j]; i < partition->part_begin[j + 1]; i++) {
            uint32_t u = partition->order[i];
            if (j == e->part || side->column[u] != COLUMN_NONE) {
                side->column[u] = (uint32_t)n_col++;
                for (int32_t level = partition->n_level - 1; level >= 0 && partition->hop[u] <= level; level--) {
                    side->levels[j * (int64_t)partition->n_level + level] = n_col;
                }
            }
        }
        side->counts[j].n_col = n_col;
    }
    side->counts[e->part].n_row = e->n_own;
    return STATUS_OK;
}

/* Where the next row, row end, column of one block are written. */
struct cursor {
    uint32_t *rows;
    int64_t *indptr; /* the next row's end */
    uint32_t *cols;
    uint32_t *cols_begin; /* of the block */
    uint32_t *row_begin;  /* of the row being written; NULL: none yet */
};

static void *section(const struct encoder *e, void *bytes, enum part_section s)
{
    return (char *)bytes + e->header.section[s].offset;
}

static void *side_section(const struct encoder *e, void *bytes, enum part_direction d, enum part_side s)
{
    return section(e, bytes, part_side_section(d, s));
}

/* Place every block's cursor and write degree, strength and node of its payload rows. */
static void side_place(const struct encoder *e, enum part_direction d, void *bytes, struct cursor *cursor)
{
    const struct partition *partition = e->partition;
    const struct side *side = &e->side[d];
    uint32_t *rows = side_section(e, bytes, d, PART_SIDE_ROWS);
    int64_t *indptr = side_section(e, bytes, d, PART_SIDE_INDPTR);
    uint32_t *cols = side_section(e, bytes, d, PART_SIDE_COLS);
    uint32_t *degree = side_section(e, bytes, d, PART_SIDE_DEGREE);
    uint32_t *node = side_section(e, bytes, d, PART_SIDE_NODE);
    float *strength = side_section(e, bytes, d, PART_SIDE_STRENGTH);
    for (int32_t j = 0; j < partition->n_part; j++) {
        const struct part_counts *counts = &side->counts[j];
        bool diagonal = j == e->part;
        cursor[j] = (struct cursor){.rows = diagonal ? NULL : rows, .indptr = indptr + 1, .cols = cols, .cols_begin = cols};
        indptr += counts->n_row + 1;
        cols += counts->n_edge;
        if (diagonal) {
            continue;
        }
        rows += counts->n_row;
        for (int64_t i = partition->part_begin[j]; i < partition->part_begin[j + 1]; i++) {
            uint32_t u = partition->order[i];
            if (side->column[u] != COLUMN_NONE) {
                *degree++ = degree_of(e->dataset, u);
                *node++ = u;
                if (e->dataset->weighted) {
                    *strength++ = e->dataset->strength[u];
                }
            }
        }
    }
}

static int64_t side_widest(const struct encoder *e, const struct side *side)
{
    int64_t widest = 0;
    for (int64_t r = 0; r < e->n_own; r++) {
        const uint32_t *first, *end;
        side_row(side, r, &first, &end);
        widest = end - first > widest ? end - first : widest;
    }
    return widest;
}

/* Write one row's columns, types and weights into the blocks that it has edges in; returns those in `touched`. */
static int32_t row_write(const struct encoder *e, enum part_direction d, int64_t r, void *bytes, struct cursor *cursor,
                         int32_t *touched)
{
    const struct side *side = &e->side[d];
    const uint32_t *cols = side_section(e, bytes, d, PART_SIDE_COLS);
    uint16_t *types = side_section(e, bytes, d, PART_SIDE_TYPES);
    float *weights = side_section(e, bytes, d, PART_SIDE_WEIGHTS);
    int32_t n_touched = 0;
    const uint32_t *u, *end;
    for (side_row(side, r, &u, &end); u < end; u++) {
        int32_t j = e->partition->owner[*u];
        if (cursor[j].row_begin == NULL) {
            cursor[j].row_begin = cursor[j].cols;
            touched[n_touched++] = j;
        }
        if (side->types != NULL) {
            types[cursor[j].cols - cols] = side->types[u - side->indices];
        }
        if (side->weights != NULL) {
            weights[cursor[j].cols - cols] = side->weights[u - side->indices];
        }
        *cursor[j].cols++ = side->column[*u];
    }
    return n_touched;
}

static enum status side_write(struct encoder *e, enum part_direction d, void *bytes)
{
    const struct side *side = &e->side[d];
    size_t n_part = (size_t)e->partition->n_part;
    bool pairs = side->types != NULL || side->weights != NULL;
    size_t n_spare = (size_t)side_widest(e, side), key = pairs ? sizeof(uint64_t) : sizeof(uint32_t);
    const uint32_t *cols = side_section(e, bytes, d, PART_SIDE_COLS);
    uint16_t *types = side_section(e, bytes, d, PART_SIDE_TYPES);
    float *weights = side_section(e, bytes, d, PART_SIDE_WEIGHTS);
    void *spare;
    enum status status = memory_acquire(MEMORY_OTHER, n_spare, key, &spare);
    if (status != STATUS_OK) {
        return status;
    }
    struct cursor *cursor = memory_alloc(n_part, sizeof *cursor);
    int32_t *touched = memory_alloc(n_part, sizeof *touched);
    memcpy(side_section(e, bytes, d, PART_SIDE_BLOCKS), side->counts, n_part * sizeof *side->counts);
    memcpy(side_section(e, bytes, d, PART_SIDE_LEVELS), side->levels,
           n_part * (size_t)e->partition->n_level * sizeof *side->levels);
    side_place(e, d, bytes, cursor);
    for (int64_t r = 0; r < e->n_own; r++) {
        int32_t n_touched = row_write(e, d, r, bytes, cursor, touched);
        for (int32_t t = 0; t < n_touched; t++) {
            struct cursor *c = &cursor[touched[t]];
            part_columns_sort(c->row_begin, side->types != NULL ? types + (c->row_begin - cols) : NULL,
                              side->weights != NULL ? weights + (c->row_begin - cols) : NULL, c->cols - c->row_begin, spare);
            c->row_begin = NULL;
            if (touched[t] != e->part) {
                *c->rows++ = (uint32_t)r;
                *c->indptr++ = c->cols - c->cols_begin;
            }
        }
        struct cursor *own = &cursor[e->part];
        *own->indptr++ = own->cols - own->cols_begin;
    }
    free(touched);
    free(cursor);
    memory_release(MEMORY_OTHER, spare, n_spare, key);
    return STATUS_OK;
}

/* Weigh every typed edge, once rows and columns are in place: by its destination, which is a row of IN and a column of OUT. */
static void side_weigh(const struct encoder *e, enum part_direction d, void *bytes)
{
    const uint32_t *rows = side_section(e, bytes, d, PART_SIDE_ROWS);
    const int64_t *indptr = side_section(e, bytes, d, PART_SIDE_INDPTR);
    const uint32_t *cols = side_section(e, bytes, d, PART_SIDE_COLS);
    const uint32_t *node = side_section(e, bytes, d, PART_SIDE_NODE);
    const uint16_t *types = side_section(e, bytes, d, PART_SIDE_TYPES);
    float *weights = side_section(e, bytes, d, PART_SIDE_WEIGHTS);
    for (int32_t j = 0; j < e->partition->n_part; j++) {
        const struct part_counts *counts = &e->side[d].counts[j];
        bool diagonal = j == e->part;
        const uint32_t *col_node = diagonal ? e->node : node;
        for (int64_t r = 0; r < counts->n_row; r++) {
            uint32_t own = e->node[diagonal ? r : rows[r]];
            for (int64_t i = indptr[r]; i < indptr[r + 1]; i++) {
                weights[i] = part_relation_weight(e->dataset, d == PART_DIRECTION_IN ? own : col_node[cols[i]], types[i]);
            }
        }
        rows += diagonal ? 0 : counts->n_row;
        node += diagonal ? 0 : counts->n_col;
        indptr += counts->n_row + 1;
        cols += counts->n_edge;
        types += counts->n_edge;
        weights += counts->n_edge;
    }
}

static void write_sparse_features(const struct encoder *e, void *bytes)
{
    const struct dataset *dataset = e->dataset;
    int64_t *indptr = section(e, bytes, PART_SECTION_FEATURE_INDPTR);
    uint32_t *indices = section(e, bytes, PART_SECTION_FEATURE_INDICES);
    float *data = section(e, bytes, PART_SECTION_FEATURE_DATA);
    uint32_t *rows = section(e, bytes, PART_SECTION_EMBEDDED_ROWS);
    uint32_t *columns = section(e, bytes, PART_SECTION_EMBEDDED_COLUMNS);
    for (int64_t r = 0; r < e->n_own; r++) {
        int64_t first = dataset->feature_indptr[e->node[r]];
        int64_t n = dataset->feature_indptr[e->node[r] + (int64_t)1] - first;
        const uint32_t *from = dataset->feature_indices + first;
        if (dataset_is_embedded(dataset, e->node[r])) {
            *rows++ = (uint32_t)r;
            *columns++ = from[0];
            n = 0;
        }
        for (int64_t i = 0; i < n; i++) {
            indices[indptr[r] + i] = (uint32_t)embedded_shared(&dataset->embedded, from[i]);
        }
        memcpy(data + indptr[r], dataset->feature_data + first, (size_t)n * sizeof *data);
        indptr[r + 1] = indptr[r] + n;
    }
    struct embedded_run *run = section(e, bytes, PART_SECTION_EMBEDDED_RUNS);
    for (int32_t i = 0; i < dataset->embedded.n_run; i++) {
        run[i] = dataset->embedded.run[i];
    }
}

/* Per-node arrays and features, in the part's order. */
static void write_rows(const struct encoder *e, void *bytes)
{
    const struct dataset *dataset = e->dataset;
    size_t n_class = (size_t)dataset->n_class;
    uint32_t *degree = section(e, bytes, PART_SECTION_DEGREE);
    float *strength = section(e, bytes, PART_SECTION_STRENGTH);
    uint8_t *split = section(e, bytes, PART_SECTION_SPLIT);
    int32_t *labels = section(e, bytes, PART_SECTION_LABELS);
    float *label_rows = section(e, bytes, PART_SECTION_LABEL_ROWS);
    memcpy(section(e, bytes, PART_SECTION_NODE), e->node, (size_t)e->n_own * sizeof *e->node);
    for (size_t r = 0; r < (size_t)e->n_own; r++) {
        uint32_t v = e->node[r];
        degree[r] = degree_of(dataset, v);
        split[r] = dataset->split[v];
        if (dataset->weighted) {
            strength[r] = dataset->strength[v];
        }
        if (dataset->multi_label) {
            memcpy(label_rows + r * n_class, dataset->label_rows + v * n_class, n_class * sizeof *label_rows);
        } else {
            labels[r] = dataset->labels[v];
        }
    }
    if (e->header.features == PART_FEATURES_DENSE) {
        dataset_feature_rows(dataset, e->node, e->n_own, section(e, bytes, PART_SECTION_FEATURES));
    } else if (e->header.features == PART_FEATURES_SPARSE) {
        write_sparse_features(e, bytes);
    }
}

/* Fill the header's counts from what was counted. */
static void header_count(struct encoder *e)
{
    const struct dataset *dataset = e->dataset;
    part_header_init(&e->header, dataset, e->partition);
    e->header.part = e->part;
    e->header.n_own = e->n_own;
    if (e->header.features == PART_FEATURES_SPARSE) {
        e->header.n_feature_value = part_feature_values(dataset, e->node, e->n_own, &e->header.n_embedded);
    }
    for (int d = 0; d < e->n_side; d++) {
        for (int32_t j = 0; j < e->partition->n_part; j++) {
            const struct part_counts *counts = &e->side[d].counts[j];
            e->header.total[d].n_row += j == e->part ? 0 : counts->n_row;
            e->header.total[d].n_col += j == e->part ? 0 : counts->n_col;
            e->header.total[d].n_edge += counts->n_edge;
        }
    }
}

static void header_write(struct encoder *e, void *bytes)
{
    for (int s = 0; s < PART_SECTION_N; s++) {
        struct part_section_row *row = &e->header.section[s];
        row->checksum = XXH3_64bits((char *)bytes + row->offset, row->n_bytes);
    }
    e->header.checksum = XXH3_64bits(&e->header, offsetof(struct part_header, checksum));
    memcpy(bytes, &e->header, sizeof e->header);
}

static enum status encoder_count(struct encoder *e)
{
    const struct dataset *dataset = e->dataset;
    for (int d = 0; d < e->n_side; d++) {
        struct side *side = &e->side[d];
        enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof(uint32_t), &side->column);
        if (status != STATUS_OK) {
            return status;
        }
        side->counts = memory_alloc((size_t)e->partition->n_part, sizeof *side->counts);
        side->levels = memory_alloc((size_t)e->partition->n_part * (size_t)e->partition->n_level, sizeof *side->levels);
        if (d == PART_DIRECTION_IN) {
            side->indptr = dataset->indptr;
            side->indices = dataset->indices;
            side->types = dataset->edge_type;
            side->weights = dataset->edge_weight;
            side->row_node = e->node;
        } else if ((status = gather_out(e, side)) != STATUS_OK) {
            return status;
        }
        if ((status = side_count(e, side)) != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static void encoder_release(struct encoder *e)
{
    for (int d = 0; d < e->n_side; d++) {
        struct side *side = &e->side[d];
        memory_release(MEMORY_OTHER, side->gathered_weights, (size_t)side->n_gathered, sizeof(float));
        memory_release(MEMORY_OTHER, side->gathered_types, (size_t)side->n_gathered, sizeof(uint16_t));
        memory_release(MEMORY_OTHER, side->gathered_indices, (size_t)side->n_gathered, sizeof(uint32_t));
        memory_release(MEMORY_OTHER, side->gathered_indptr, (size_t)e->n_own + 1, sizeof(int64_t));
        memory_release(MEMORY_OTHER, side->column, (size_t)e->dataset->n_node, sizeof(uint32_t));
        free(side->levels);
        free(side->counts);
    }
}

enum status part_encode(const struct dataset *dataset, const struct partition *partition, int32_t part, void **bytes_out,
                        size_t *n_out)
{
    int64_t begin = partition->part_begin[part];
    struct encoder e = {.dataset = dataset,
                        .partition = partition,
                        .part = part,
                        .n_own = partition->part_begin[part + 1] - begin,
                        .node = partition->order + begin,
                        .n_side = dataset->symmetric ? 1 : PART_DIRECTION_N};
    void *bytes = NULL;
    enum status status = encoder_count(&e);
    if (status != STATUS_OK) {
        goto done;
    }
    header_count(&e);
    if (!part_layout(&e.header)) {
        status = status_fail(STATUS_NOMEM, "part %d is too large to be encoded", part);
        goto done;
    }
    status = memory_acquire(MEMORY_OTHER, (size_t)e.header.n_bytes, 1, &bytes);
    for (int d = 0; d < e.n_side && status == STATUS_OK; d++) {
        status = side_write(&e, (enum part_direction)d, bytes);
        if (status == STATUS_OK && dataset->edge_type != NULL) {
            side_weigh(&e, (enum part_direction)d, bytes);
        }
    }
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, bytes, (size_t)e.header.n_bytes, 1);
        goto done;
    }
    write_rows(&e, bytes);
    header_write(&e, bytes);
    *bytes_out = bytes;
    *n_out = (size_t)e.header.n_bytes;
done:
    encoder_release(&e);
    return status;
}
