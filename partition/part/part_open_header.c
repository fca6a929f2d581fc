/* Checks an encoded part's header before anything that it counts is read; part_open.c checks the sections. */
#include "partition/part/part_format.h"

#include <float.h>
#include <string.h>
#include <xxhash.h>

#define NODE_MOST ((int64_t)UINT32_MAX - 1)

static enum status fail(const char *what)
{
    return status_fail(STATUS_DATA, "encoded part: %s", what);
}

/* Numbers of the whole graph: those that programs read, and the nodes of each split. */
static enum status check_graph(const struct part_header *h)
{
    const struct graph_counts *counts = &h->counts;
    if (counts->n_node < 0 || counts->n_edge < 0 || !(counts->mean_degree >= 0.0 && counts->mean_degree <= DBL_MAX) ||
        !(counts->mean_log_degree >= 0.0 && counts->mean_log_degree <= DBL_MAX)) {
        return fail("header: expected finite numbers of the graph that are not negative");
    }
    int64_t n_split = 0, n_both = h->n_split[DATASET_SPLIT_VALID_TEST];
    for (int s = 0; s < DATASET_SPLIT_N; s++) {
        if (h->n_split[s] < 0 || h->n_split[s] > h->n_node) {
            return fail("header: expected split sizes that add up to the nodes");
        }
        n_split += s != DATASET_SPLIT_VALID_TEST ? h->n_split[s] : 0;
    }
    bool fits = n_both <= h->n_split[DATASET_SPLIT_VALID] && n_both <= h->n_split[DATASET_SPLIT_TEST];
    return fits && n_split - n_both == h->n_node ? STATUS_OK
                                                 : fail("header: expected split sizes that add up to the nodes");
}

/* Relations of edges, and numbers of pairs of links. */
static enum status check_links(const struct part_header *h)
{
    if (h->edges.n_relation_given < 0 || h->edges.n_relation_given > h->edges.n_relation) {
        return fail("header: expected at most all relations that are not inverse ones");
    }
    if (h->links.n < 0 || h->links.n > INT64_MAX / 2 || h->links.n_here < 0 || h->links.n_here > h->n_bytes ||
        h->links.n_here - h->links.n > h->links.n || h->links.n_joined < 0 || h->links.n_joined > h->links.n ||
        h->flags.link_typed > 1) {
        return fail("header: expected pairs of links that fit the bytes, at most all of the graph");
    }
    return STATUS_OK;
}

static enum status check_edge_features(const struct part_header *h)
{
    if (h->edges.n_feature < 0 || h->edges.n_feature > INT32_MAX || h->edges.n_row < 0 ||
        h->edges.n_row > h->n_bytes || (h->edges.n_feature == 0 && h->edges.n_row > 0)) {
        return fail("header: expected rows of features of edges that fit the bytes, and none without columns");
    }
    if (h->edges.n_feature > 0 && (h->flags.weighted == 1 || h->edges.n_relation > 0 || h->flags.symmetric ||
                                   h->flags.covered > 0 || h->flags.stores > 0)) {
        return fail("header: expected features of edges only of edges without weights and types, one direction "
                    "apart from the other, and no covers and stored halo rows");
    }
    return STATUS_OK;
}

static enum status check_scalars(const struct part_header *h)
{
    if (h->n_part < 1 || h->n_part > PART_N_PART_MOST || h->part < 0 || h->part >= h->n_part) {
        return fail("header: expected a part number below the number of parts (at most 65536)");
    }
    if (h->n_node < 1 || h->n_node > NODE_MOST || h->n_own < 1 || h->n_own > h->n_node) {
        return fail("header: expected 1 to n_node own rows and fewer than 2^32 - 1 nodes");
    }
    if (h->edges.n_relation < 0 || h->edges.n_relation > UINT16_MAX + 1 ||
        (h->edges.n_relation > 0 && h->flags.symmetric)) {
        return fail("header: expected at most 65536 relations, and none where the graph is symmetric");
    }
    if (h->n_hop < 0 || h->n_hop > PART_N_HOP_MOST) {
        return fail("header: expected at most 16 hops");
    }
    if (h->features.n_embedded < 0 || h->features.n_embedded > h->n_own || h->features.n_embedded_run < 0 ||
        h->features.n_embedded_run > INT32_MAX || (h->features.n_embedded > 0 && h->features.n_embedded_run == 0) ||
        (h->features.n_embedded_run > 0 && h->flags.features != PART_FEATURES_SPARSE)) {
        return fail("header: expected at most n_own embedded rows, in runs of columns of sparse features");
    }
    if (h->n_class < 0 || h->features.n_column < 0 || h->features.n_column > INT32_MAX || h->features.n_value < 0) {
        return fail("header: expected numbers of classes, features and feature values that are not negative");
    }
    if (h->flags.weighted > 1 || (h->flags.weighted == 1 && h->edges.n_relation > 0)) {
        return fail("header: expected edges that are weighted, or typed, or neither");
    }
    if (check_edge_features(h) != STATUS_OK) {
        return STATUS_DATA;
    }
    if (h->flags.covered > 1 || (h->flags.covered == 1 && h->edges.n_relation > 0)) {
        return fail("header: expected covers only of untyped edges");
    }
    if (h->flags.stores > 1 || h->n_halo < 0 || h->features.n_halo_value < 0 ||
        (h->features.n_halo_value > 0 && h->flags.features != PART_FEATURES_SPARSE) ||
        (h->flags.stores == 1 &&
         (h->flags.features == PART_FEATURES_NONE || h->features.n_embedded_run > 0 || h->edges.n_relation > 0))) {
        return fail(
            "header: expected halo rows of untyped edges, whose features are in columns that all nodes share");
    }
    if (h->flags.multi_label > 1 || h->flags.features_typed > 1 || h->flags.symmetric > 1 ||
        h->flags.loops > GRAPH_LOOPS_NONE || h->flags.features > PART_FEATURES_SPARSE ||
        (h->flags.features == PART_FEATURES_NONE) != (h->features.n_column == 0)) {
        return fail("header: expected known values of multi_label, symmetric, loops and features");
    }
    if (h->flags.class_weighted > 1 ||
        memcmp(h->flags.unused, (const uint8_t[sizeof h->flags.unused]){0}, sizeof h->flags.unused) != 0) {
        return fail("header: expected weights of classes or none, and zeros behind");
    }
    if (!(h->loss_weight >= 0.0 && h->loss_weight <= DBL_MAX)) {
        return fail("header: expected a finite weight of the training rows that is not negative");
    }
    if (check_links(h) != STATUS_OK) {
        return STATUS_DATA;
    }
    return check_graph(h);
}

/* The section table against the layout that the counts ask for, zeros between sections, and their checksums. */
static enum status check_sections(const struct part_header *h, const char *bytes, bool checksums)
{
    struct part_header expected = *h;
    if (!part_layout(&expected) || expected.n_bytes != h->n_bytes) {
        return fail("header: expected counts that fit the bytes");
    }
    uint64_t end = sizeof *h;
    for (int s = 0; s < PART_SECTION_N; s++) {
        const struct part_section_row *row = &h->section[s];
        if (row->offset != expected.section[s].offset || row->n_bytes != expected.section[s].n_bytes) {
            return status_fail(STATUS_DATA, "encoded part: section '%s': expected %llu bytes at offset %llu",
                               part_section_name(s), (unsigned long long)expected.section[s].n_bytes,
                               (unsigned long long)expected.section[s].offset);
        }
        for (; end < row->offset; end++) {
            if (bytes[end] != 0) {
                return status_fail(STATUS_DATA, "encoded part: offset %llu: expected zeros before section '%s'",
                                   (unsigned long long)end, part_section_name(s));
            }
        }
        end += row->n_bytes;
        if (checksums && row->checksum != XXH3_64bits(bytes + row->offset, row->n_bytes)) {
            return status_fail(STATUS_DATA, "encoded part: section '%s': the checksum does not fit the bytes",
                               part_section_name(s));
        }
    }
    return STATUS_OK;
}

/* Size, magic, version, checksums, scalars, and the section table against the layout that the counts ask for. */
enum status part_header_check(const void *bytes, size_t n_bytes, bool checksums)
{
    const struct part_header *h = bytes;
    if (n_bytes < sizeof *h) {
        return status_fail(STATUS_DATA, "encoded part: %zu bytes, expected at least the header's %zu", n_bytes,
                           sizeof *h);
    }
    if (memcmp(h->magic, PART_MAGIC, sizeof h->magic) != 0) {
        return fail("expected the magic word " PART_MAGIC);
    }
    if (h->version != PART_VERSION || h->n_section != PART_SECTION_N) {
        return status_fail(STATUS_DATA,
                           "encoded part: version %u with %u sections, expected version %u with %u: coordinator and "
                           "workers are to be of one version of trainerd",
                           h->version, h->n_section, PART_VERSION, (unsigned)PART_SECTION_N);
    }
    if (checksums && h->checksum != XXH3_64bits(h, offsetof(struct part_header, checksum))) {
        return fail("header: the checksum does not fit the bytes");
    }
    if (h->n_bytes < 0 || (uint64_t)h->n_bytes != n_bytes) {
        return status_fail(STATUS_DATA, "encoded part: %zu bytes, expected %lld as the header says", n_bytes,
                           (long long)h->n_bytes);
    }
    enum status status = check_scalars(h);
    if (status != STATUS_OK) {
        return status;
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        const struct part_counts *t = &h->total[d];
        bool there = d == PART_DIRECTION_IN || !h->flags.symmetric;
        if (h->n_block[d] < there || h->n_block[d] > (there ? h->n_part : 0)) {
            return fail(
                "header: expected a block at least and one for each part at most, in directions that there are");
        }
        if (t->n_row < 0 || t->n_row > h->n_bytes || t->n_col < 0 || t->n_col > h->n_bytes || t->n_edge < 0 ||
            t->n_edge > h->n_bytes) {
            return fail("header: expected rows, columns and edges in all that fit the bytes");
        }
    }
    if (h->n_halo != (h->flags.stores == 1 ? h->total[PART_DIRECTION_IN].n_col : 0)) {
        return fail("header: expected as many halo rows as in-edges have payload rows, or where none are stored 0");
    }
    return check_sections(h, bytes, checksums);
}
