/* Copies a part's rows out of the dataset into the layout of part_format.h.
 *
 * Each direction is counted first, so that the sections have their final place, and then written (part_side.c). What
 * all parts need of the graph is in the encoder: each node's place, and for graphs that are not symmetric the
 * out-edges of some parts ahead (out_edges.c).
 */
#include "partition/links/links_places.h"
#include "partition/part/part.h"
#include "partition/part/part_format.h"
#include "partition/part/part_side.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct part_encoder {
    struct side_tables tables;
    int n_side;                 /* directions encoded: 1 when symmetric */
    struct out_edges out_edges; /* unless symmetric */
    struct links_places links;
};

/* One part. */
struct encoding {
    const struct dataset *dataset;
    int64_t n_own;
    const uint32_t *node; /* n_own */
    struct part_header header;
    const uint32_t *row_node; /* n_own + n_halo: of own rows and of halo rows, once they are written */
};

static void *section(const struct encoding *e, void *bytes, enum part_section s)
{
    return (char *)bytes + e->header.section[s].offset;
}

static void write_sparse_features(const struct encoding *e, void *bytes)
{
    const struct dataset *dataset = e->dataset;
    int64_t *indptr = section(e, bytes, PART_SECTION_FEATURE_INDPTR);
    uint32_t *indices = section(e, bytes, PART_SECTION_FEATURE_INDICES);
    float *data = section(e, bytes, PART_SECTION_FEATURE_DATA);
    uint32_t *rows = section(e, bytes, PART_SECTION_EMBEDDED_ROWS);
    uint32_t *columns = section(e, bytes, PART_SECTION_EMBEDDED_COLUMNS);
    for (int64_t r = 0; r < e->n_own + e->header.n_halo; r++) {
        uint32_t v = e->row_node[r];
        int64_t first = dataset->features.indptr[v];
        int64_t n = dataset->features.indptr[v + (int64_t)1] - first;
        const uint32_t *from = dataset->features.indices + first;
        if (dataset_is_embedded(dataset, v)) {
            *rows++ = (uint32_t)r;
            *columns++ = from[0];
            n = 0;
        }
        for (int64_t i = 0; i < n; i++) {
            indices[indptr[r] + i] = (uint32_t)embedded_shared(&dataset->features.embedded, from[i]);
        }
        memcpy(data + indptr[r], dataset->features.data + first, (size_t)n * sizeof *data);
        indptr[r + 1] = indptr[r] + n;
    }
    struct embedded_run *run = section(e, bytes, PART_SECTION_EMBEDDED_RUNS);
    for (int32_t i = 0; i < dataset->features.embedded.n_run; i++) {
        run[i] = dataset->features.embedded.run[i];
    }
}

/* Own rows and behind them halo rows, the payload rows of in-edges, which are written. */
static void write_nodes(struct encoding *e, void *bytes)
{
    uint32_t *node = section(e, bytes, PART_SECTION_NODE);
    memcpy(node, e->node, (size_t)e->n_own * sizeof *node);
    if (e->header.n_halo > 0) {
        memcpy(node + e->n_own, section(e, bytes, PART_SECTION_IN_NODE), (size_t)e->header.n_halo * sizeof *node);
    }
    e->row_node = node;
}

/* Per-node arrays and features, in the part's order. */
static void write_rows(const struct encoding *e, void *bytes)
{
    const struct dataset *dataset = e->dataset;
    size_t n_class = (size_t)dataset->facts.n_class;
    uint32_t *degree = section(e, bytes, PART_SECTION_DEGREE);
    float *strength = section(e, bytes, PART_SECTION_STRENGTH);
    uint8_t *split = section(e, bytes, PART_SECTION_SPLIT);
    int32_t *labels = section(e, bytes, PART_SECTION_LABELS);
    float *label_rows = section(e, bytes, PART_SECTION_LABEL_ROWS);
    for (size_t r = 0; r < (size_t)e->n_own; r++) {
        uint32_t v = e->node[r];
        degree[r] = (uint32_t)(dataset->indptr[v + (int64_t)1] - dataset->indptr[v]);
        split[r] = dataset->labels.split[v];
        if (dataset->facts.weighted) {
            strength[r] = dataset->strength[v];
        }
        if (dataset->facts.multi_label) {
            memcpy(label_rows + r * n_class, dataset->labels.rows + v * n_class, n_class * sizeof *label_rows);
        } else {
            labels[r] = dataset->labels.classes[v];
        }
    }
    if (dataset->labels.class_weights != NULL) {
        memcpy(section(e, bytes, PART_SECTION_CLASS_WEIGHTS), dataset->labels.class_weights, n_class * sizeof(float));
    }
    if (e->header.flags.features == PART_FEATURES_DENSE) {
        dataset_feature_rows(dataset, e->row_node, e->n_own + e->header.n_halo,
                             section(e, bytes, PART_SECTION_FEATURES));
    } else if (e->header.flags.features == PART_FEATURES_SPARSE) {
        write_sparse_features(e, bytes);
    }
}

/* Fill the header's counts from what was counted. */
static void header_count(const struct part_encoder *encoder, int32_t part, const struct side *side,
                         struct encoding *e)
{
    struct part_header *header = &e->header;
    part_header_init(header, e->dataset, encoder->tables.partition);
    header->part = part;
    header->n_own = e->n_own;
    header->links.n = encoder->links.n_pair;
    header->links.n_joined = encoder->links.n_joined;
    if (header->links.n > 0) {
        const int64_t *indptr = encoder->links.indptr + encoder->tables.partition->part_begin[part];
        header->links.n_here = indptr[e->n_own] - indptr[0];
    }
    if (header->flags.features == PART_FEATURES_SPARSE) {
        header->features.n_value = part_feature_values(e->dataset, e->node, e->n_own, &header->features.n_embedded);
    }
    for (int d = 0; d < encoder->n_side; d++) {
        header->n_block[d] = side[d].n_block;
        for (int32_t b = 0; b < side[d].n_block; b++) {
            const struct side_block *block = &side[d].block[b];
            header->total[d].n_row += block->part == part ? 0 : block->counts.n_row;
            header->total[d].n_col += block->part == part ? 0 : block->counts.n_col;
            header->total[d].n_edge += block->counts.n_edge;
        }
    }
    if (encoder->tables.partition->stores) {
        header->n_halo = header->total[PART_DIRECTION_IN].n_col;
        header->features.n_halo_value = header->flags.features == PART_FEATURES_SPARSE
                                            ? side_values(&encoder->tables, &side[PART_DIRECTION_IN])
                                            : 0;
    }
}

static void write_links(const struct part_encoder *encoder, const struct encoding *e, void *bytes)
{
    const struct links_places *links = &encoder->links;
    const int64_t *begin = encoder->tables.partition->part_begin;
    uint32_t *rows = section(e, bytes, PART_SECTION_LINK_ROWS);
    int64_t *indptr = section(e, bytes, PART_SECTION_LINK_INDPTR);
    int64_t *ends = section(e, bytes, PART_SECTION_LINK_ENDS);
    for (int32_t p = 0; p < e->header.n_part; p++) {
        rows[p] = (uint32_t)(begin[p + 1] - begin[p]);
        ends[p] = links->indptr[begin[p + 1]] - links->indptr[begin[p]];
    }
    int64_t first = begin[e->header.part];
    for (int64_t r = 0; r <= e->n_own; r++) {
        indptr[r] = links->indptr[first + r] - links->indptr[first];
    }
    memcpy(section(e, bytes, PART_SECTION_LINK_PLACES), links->places + links->indptr[first],
           (size_t)e->header.links.n_here * sizeof *links->places);
    if (links->types != NULL) {
        memcpy(section(e, bytes, PART_SECTION_LINK_TYPES), links->types + links->indptr[first],
               (size_t)e->header.links.n_here * sizeof *links->types);
    }
}

static void header_write(struct encoding *e, void *bytes)
{
    for (int s = 0; s < PART_SECTION_N; s++) {
        struct part_section_row *row = &e->header.section[s];
        row->checksum = XXH3_64bits((char *)bytes + row->offset, row->n_bytes);
    }
    e->header.checksum = XXH3_64bits(&e->header, offsetof(struct part_header, checksum));
    memcpy(bytes, &e->header, sizeof e->header);
}

enum status part_encoder_open(const struct dataset *dataset, const struct partition *partition,
                              struct part_encoder **out)
{
    struct part_encoder *encoder = memory_alloc(1, sizeof *encoder);
    encoder->n_side = dataset->facts.symmetric ? 1 : PART_DIRECTION_N;
    enum status status = side_tables_open(dataset, partition, &encoder->tables);
    if (status != STATUS_OK) {
        part_encoder_close(encoder);
        return status;
    }
    status = links_places_open(dataset, partition->order, encoder->tables.place, &encoder->links);
    if (status != STATUS_OK) {
        part_encoder_close(encoder);
        return status;
    }
    if (!dataset->facts.symmetric) {
        out_edges_init(dataset, partition, encoder->tables.place, partition->n_part, &encoder->out_edges);
    }
    *out = encoder;
    return STATUS_OK;
}

void part_encoder_close(struct part_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    out_edges_release(&encoder->out_edges);
    links_places_close(&encoder->links);
    side_tables_close(&encoder->tables);
    free(encoder);
}

static enum status sides_count(struct part_encoder *encoder, int32_t part, struct side *side)
{
    enum status status = STATUS_OK;
    for (int d = 0; d < encoder->n_side && status == STATUS_OK; d++) {
        if (d == PART_DIRECTION_OUT) {
            status = out_edges_gather(&encoder->out_edges, part);
        }
        if (status == STATUS_OK) {
            status = side_count(&encoder->tables, (enum part_direction)d, part, &encoder->out_edges, true, &side[d]);
        }
    }
    return status;
}

enum status part_encoder_encode(struct part_encoder *encoder, int32_t part, void **bytes_out, size_t *n_out)
{
    const struct partition *partition = encoder->tables.partition;
    struct encoding e = {.dataset = encoder->tables.dataset,
                         .n_own = partition->part_begin[part + 1] - partition->part_begin[part],
                         .node = partition->order + partition->part_begin[part]};
    struct side side[PART_DIRECTION_N] = {0};
    void *bytes = NULL;
    enum status status = sides_count(encoder, part, side);
    if (status == STATUS_OK) {
        header_count(encoder, part, side, &e);
        for (int d = 0; d < encoder->n_side; d++) {
            e.header.edges.n_row = side_edge_rows_number(&encoder->tables, &side[d], e.header.edges.n_row);
        }
        if (!part_layout(&e.header)) {
            status = status_fail(STATUS_NOMEM, "part %d is too large to be encoded", part);
        }
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)e.header.n_bytes, 1, &bytes);
    }
    for (int d = 0; d < encoder->n_side && status == STATUS_OK; d++) {
        status = side_write(&encoder->tables, &side[d], &e.header, bytes);
    }
    for (int d = 0; d < encoder->n_side && status == STATUS_OK; d++) {
        side_edge_rows_write(&encoder->tables, &side[d], section(&e, bytes, PART_SECTION_EDGE_FEATURES));
    }
    for (int d = 0; d < encoder->n_side; d++) {
        side_edge_rows_clear(&encoder->tables, &side[d]);
        side_release(&side[d]);
    }
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, bytes, (size_t)e.header.n_bytes, 1);
        return status;
    }
    write_nodes(&e, bytes);
    write_rows(&e, bytes);
    if (e.header.links.n > 0) {
        write_links(encoder, &e, bytes);
    }
    header_write(&e, bytes);
    *bytes_out = bytes;
    *n_out = (size_t)e.header.n_bytes;
    return STATUS_OK;
}
