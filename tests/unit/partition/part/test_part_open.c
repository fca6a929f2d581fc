/* Encoded parts that are not what they say: each is refused, and the reason names the place and what was expected. */
#include "partition/methods/reach.h"
#include "partition/part/part_format.h"
#include "protocol/base/memory.h"
#include "tests/support/graphs/part_encode.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *bytes; /* part 1 of 3 of a directed graph with sparse features, 64-byte aligned */
static size_t n_bytes;
static bool with_class_weights;

static void encode_as(const struct tiny_graph *graph, int n_hop, bool stores)
{
    struct job job;
    struct partition partition;
    void *encoded;
    struct dataset dataset = tiny_build(graph);
    float class_weights[] = {1.0F, 0.5F, 2.0F, 3.0F, 1.0F, 1.0F, 1.0F, 1.0F};
    cr_assert_leq(dataset.facts.n_class, 8);
    dataset.labels.class_weights = with_class_weights ? class_weights : NULL;
    job_defaults(&job);
    job.partition.parts = 3;
    job.partition.method = JOB_METHOD_RANDOM;
    snprintf(job.partition.cache, sizeof job.partition.cache, "off");
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    partition.stores = stores;
    if (n_hop > 0) {
        struct reach reach;
        cr_assert_eq(reach_build(&dataset, n_hop, &reach), STATUS_OK);
        cr_assert_eq(reach_order(&reach, &partition), STATUS_OK);
    }
    cr_assert_eq(part_encode(&dataset, &partition, 1, &encoded, &n_bytes), STATUS_OK);
    bytes = aligned_alloc(PART_ALIGN, (n_bytes + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
    memcpy(bytes, encoded, n_bytes);
    memory_release(MEMORY_OTHER, encoded, n_bytes, 1);
    partition_release(&partition);
    tiny_release(&dataset);
}

static void encode_ordered(const struct tiny_graph *graph, int n_hop)
{
    encode_as(graph, n_hop, false);
}

/* With the features of halo rows. */
static void encode_stored(enum tiny_features features)
{
    free(bytes);
    struct tiny_graph graph = {.n_node = 30, .n_draw = 200, .features = features, .seed = 5};
    encode_as(&graph, 0, true);
}

static void encode(const struct tiny_graph *graph)
{
    encode_ordered(graph, 0);
}

static void encode_directed(void)
{
    struct tiny_graph graph = {.n_node = 30, .n_draw = 200, .features = TINY_FEATURES_SPARSE, .seed = 5};
    encode(&graph);
}

static void encode_typed(void)
{
    free(bytes);
    struct tiny_graph graph = {
        .n_node = 60, .n_draw = 200, .features = TINY_FEATURES_TYPED, .n_relation = 2, .seed = 6};
    encode(&graph);
}

static void encode_dense(void)
{
    free(bytes);
    struct tiny_graph graph = {.n_node = 30, .n_draw = 200, .symmetric = true, .multi_label = true, .seed = 5};
    encode(&graph);
}

static void encode_weighted(void)
{
    free(bytes);
    with_class_weights = true;
    encode_directed();
}

static void release(void)
{
    free(bytes);
}

TestSuite(part_open, .init = encode_directed, .fini = release);

static void refused(enum status status, const char *reason)
{
    cr_assert_eq(status, STATUS_DATA, "opened, expected: %s", reason);
    cr_assert_not_null(strstr(status_reason(), reason), "'%s', expected: '%s'", status_reason(), reason);
}

Test(part_open, every_byte_counts)
{
    struct part part;
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK);
    part_release(&part);
    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] ^= 0x10;
        cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_DATA, "byte %zu of %zu may be anything", i, n_bytes);
        bytes[i] ^= 0x10;
    }
}

Test(part_open, every_length_but_the_right_one_is_refused)
{
    struct part part;
    for (size_t n = 0; n < n_bytes; n++) {
        cr_assert_eq(part_open(bytes, n, &part), STATUS_DATA);
    }
    refused(part_open(bytes, 10, &part), "10 bytes, expected at least the header's");
    refused(part_open(bytes, n_bytes - 1, &part), "as the header says");
}

/* Write a value at an entry of a section or at an offset of the header, look, and put the old bytes back. */
static void broken_at(size_t offset, const void *value, size_t n, const char *reason)
{
    char old[64];
    struct part part;
    memcpy(old, bytes + offset, n);
    memcpy(bytes + offset, value, n);
    refused(part_check(bytes, n_bytes, false, &part), reason);
    memcpy(bytes + offset, old, n);
}

static size_t entry(enum part_section section, int64_t index)
{
    static const size_t element[] = {
#define X(name, text, type) [PART_SECTION_##name] = sizeof(type),
        PART_SECTION_LIST(X)
#undef X
    };
    const struct part_header *header = (const void *)bytes;
    const size_t size = element[section], n = header->section[section].n_bytes / size;
    cr_assert_gt(n, 0);
    return header->section[section].offset + (index < 0 ? n - 1 : (size_t)index) * size;
}

static void broken_u32(enum part_section section, int64_t index, uint32_t value, const char *reason)
{
    broken_at(entry(section, index), &value, sizeof value, reason);
}

static void broken_i64(size_t offset, int64_t value, const char *reason)
{
    broken_at(offset, &value, sizeof value, reason);
}

#define HEADER(field) offsetof(struct part_header, field)

Test(part_open, a_header_that_cannot_be_is_refused_by_what_it_says)
{
    struct part part;
    const uint32_t one = 1, ff = UINT32_MAX;
    const uint8_t three = 3;
    broken_at(HEADER(magic), "TRNDPARA", 8, "expected the magic word TRNDPART");
    broken_at(HEADER(version), &one, 4, "version 1 with 42 sections, expected version 17 with 42");
    broken_at(HEADER(part), &ff, 4, "a part number below the number of parts");
    broken_at(HEADER(n_part), &ff, 4, "a part number below the number of parts");
    broken_i64(HEADER(n_own), 31, "1 to n_node own rows");
    broken_i64(HEADER(n_own), -1, "1 to n_node own rows");
    broken_i64(HEADER(n_node), INT64_MAX, "fewer than 2^32 - 1 nodes");
    broken_i64(HEADER(features.n_column), -1, "not negative");
    broken_i64(HEADER(features.n_value), INT64_MIN, "not negative");
    broken_i64(HEADER(features.n_value), INT64_MAX, "counts that fit the bytes");
    broken_i64(HEADER(n_split[2]), 29, "split sizes that add up to the nodes");
    broken_i64(HEADER(n_split[4]), 1, "split sizes that add up to the nodes");
    broken_at(HEADER(n_class), &ff, 4, "not negative");
    broken_at(HEADER(flags.loops), &three, 1, "known values");
    broken_at(HEADER(flags.features), &three, 1, "known values");
    broken_at(HEADER(flags.features_typed), &three, 1, "known values");
    broken_at(HEADER(flags.class_weighted), &three, 1, "weights of classes or none");
    broken_at(HEADER(flags.unused), &three, 1, "zeros behind");
    broken_at(HEADER(loss_weight), &(double){-1.0}, 8, "a finite weight of the training rows");
    broken_at(HEADER(loss_weight), &(double){NAN}, 8, "a finite weight of the training rows");
    broken_i64(HEADER(counts.n_edge), -1, "finite numbers of the graph");
    broken_at(HEADER(counts.mean_degree), &(double){NAN}, 8, "finite numbers of the graph");
    broken_at(HEADER(counts.mean_log_degree), &(double){-0.5}, 8, "finite numbers of the graph");
    broken_i64(HEADER(total[0].n_row), -8, "rows, columns and edges in all that fit the bytes");
    broken_i64(HEADER(total[1].n_edge), INT64_MAX, "rows, columns and edges in all that fit the bytes");
    broken_i64(HEADER(total[1].n_edge), 3, "counts that fit the bytes");
    broken_i64(HEADER(section[PART_SECTION_LABELS].offset), 64, "section 'labels': expected");
    bytes[8 + HEADER(n_split)] ^= 1;
    refused(part_open(bytes, n_bytes, &part), "header: the checksum does not fit the bytes");
}

Test(part_open, a_section_whose_checksum_does_not_fit_is_named)
{
    struct part part;
    const enum part_section sections[] = {PART_SECTION_NODE, PART_SECTION_FEATURE_DATA, PART_SECTION_OUT_COLS};
    const char *const names[] = {"section 'node': the checksum", "section 'feature data': the checksum",
                                 "section 'out columns': the checksum"};
    for (int i = 0; i < 3; i++) {
        bytes[entry(sections[i], -1)] ^= 1;
        refused(part_open(bytes, n_bytes, &part), names[i]);
        bytes[entry(sections[i], -1)] ^= 1;
    }
}

Test(part_open, rows_out_of_range_are_refused_by_section_and_entry)
{
    const uint8_t five = 5;
    broken_u32(PART_SECTION_NODE, 2, 30, "section 'node', entry 2: expected a node number below n_node");
    broken_u32(PART_SECTION_DEGREE, 1, 31, "section 'degree', entry 1: expected at most n_node neighbours");
    broken_u32(PART_SECTION_DEGREE, 1, 29, "entry 1: expected the number of edges of that row in all blocks");
    broken_at(entry(PART_SECTION_SPLIT, 3), &five, 1, "section 'split', entry 3: expected a split number of 0 to 4");
    broken_u32(PART_SECTION_LABELS, 0, 4, "section 'labels', entry 0: expected -1 or a class below n_class");
    broken_u32(PART_SECTION_LABELS, 0, (uint32_t)-2, "section 'labels', entry 0: expected -1");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, 0), 1, "section 'feature indptr', entry 0: expected 0 first");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, -1), 1, "the number of stored values last");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, 2), -5, "entry 2: expected ends of rows that do not fall");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, 2), INT64_MAX, "entry 2: expected ends of rows that do not fall");
    broken_u32(PART_SECTION_FEATURE_INDICES, -1, 3, "expected ascending columns below those that all nodes share");
    broken_u32(PART_SECTION_FEATURE_DATA, 0, 0x7f800000, "section 'feature data', entry 0: expected a finite number");
}

Test(part_open, links_that_cannot_be_are_refused_by_section_and_entry)
{
    free(bytes);
    encode(&(struct tiny_graph){.n_node = 30, .n_draw = 100, .of_links = true, .seed = 5});
    broken_i64(HEADER(links.n), -1, "pairs of links that fit the bytes");
    broken_i64(HEADER(links.n_here), INT64_MAX, "pairs of links that fit the bytes");
    broken_i64(HEADER(links.n_joined), INT64_MAX, "pairs of links that fit the bytes");
    broken_u32(PART_SECTION_LINK_ROWS, 0, 29, "section 'link rows', entry 1: expected own rows of all parts");
    broken_i64(entry(PART_SECTION_LINK_INDPTR, 0), 1, "section 'link indptr', entry 0: expected 0 first");
    broken_i64(entry(PART_SECTION_LINK_INDPTR, -1), 1, "section 'link indptr', entry 0: expected 0 first");
    broken_i64(entry(PART_SECTION_LINK_INDPTR, 2), INT64_MAX, "entry 2: expected ends of rows that do not fall");
    broken_u32(PART_SECTION_LINK_PLACES, 1, 30, "section 'link places', entry 1: expected places below n_node");
    broken_i64(entry(PART_SECTION_LINK_ENDS, 0), -1, "section 'link ends', entry 0: expected ends of pairs");
    broken_i64(entry(PART_SECTION_LINK_ENDS, 0), INT64_MAX, "section 'link ends', entry 0: expected ends of pairs");
    broken_i64(entry(PART_SECTION_LINK_ENDS, 1), 0, "section 'link ends', entry 1: expected ends of own rows' pairs");
    broken_i64(HEADER(links.n), INT64_MAX, "pairs of links that fit the bytes");
}

Test(part_open, relations_of_links_that_cannot_be_are_refused)
{
    const uint8_t five = 5, six = 6, none = 0;
    free(bytes);
    encode(&(struct tiny_graph){.n_node = 30, .n_draw = 100, .n_relation = 3, .of_links = true, .seed = 5});
    broken_i64(HEADER(edges.n_relation_given), 4, "at most all relations that are not inverse ones");
    broken_i64(HEADER(edges.n_relation_given), 0, "section 'link types', entry");
    broken_at(HEADER(flags.link_typed), &five, 1, "pairs of links that fit the bytes");
    broken_at(HEADER(flags.link_typed), &none, 1, "counts that fit the bytes");
    broken_at(entry(PART_SECTION_LINK_TYPES, 2), &six, 1,
              "section 'link types', entry 2: expected a relation of the pairs");
}

Test(part_open, weights_of_classes_that_cannot_be_are_refused_by_entry)
{
    encode_weighted();
    broken_u32(PART_SECTION_CLASS_WEIGHTS, 1, 0x7f800000,
               "section 'class weights', entry 1: expected a finite number");
    broken_u32(PART_SECTION_CLASS_WEIGHTS, 0, 0xbf800000,
               "section 'class weights', entry 0: expected a finite number that is not");
}

Test(part_open, halo_rows_that_do_not_fit_are_refused_by_section_and_entry)
{
    const uint8_t one = 1, two = 2;
    broken_i64(HEADER(n_halo), 1, "or where none are stored 0");
    broken_at(HEADER(flags.stores), &one, 1, "as many halo rows as in-edges have payload rows");
    encode_stored(TINY_FEATURES_SPARSE);
    const struct part_header *header = (const void *)bytes;
    int64_t n_own = header->n_own, n_halo = header->n_halo;
    cr_assert_gt(n_halo, 2);
    broken_at(HEADER(flags.stores), &two, 1,
              "halo rows of untyped edges, whose features are in columns that all nodes share");
    broken_i64(HEADER(n_halo), -1, "halo rows of untyped edges");
    broken_i64(HEADER(features.n_halo_value), -1, "halo rows of untyped edges");
    broken_i64(HEADER(n_halo), n_halo - 1, "as many halo rows as in-edges have payload rows");
    broken_i64(HEADER(features.n_halo_value), INT64_MAX, "counts that fit the bytes");
    broken_u32(PART_SECTION_NODE, n_own, header->n_node > 0 ? (uint32_t)header->n_node : 0,
               "a node number below n_node");
    const uint32_t *node = (const void *)(bytes + header->section[PART_SECTION_NODE].offset);
    broken_u32(PART_SECTION_NODE, n_own + 1, node[n_own], "expected the node of that payload row of in-edges");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, n_own), 1, "and of own rows behind these");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, n_own + 1), INT64_MAX, "expected ends of rows that do not fall");
    broken_i64(entry(PART_SECTION_FEATURE_INDPTR, -1), 1, "the number of stored values last");
    broken_u32(PART_SECTION_FEATURE_INDICES, -1, 3, "expected ascending columns below those that all nodes share");
    broken_u32(PART_SECTION_FEATURE_DATA, -1, 0x7f800000, "expected a finite number");
    encode_stored(TINY_FEATURES_F32);
    broken_u32(PART_SECTION_FEATURES, -1, 0x7f800000, "section 'features', entry");
}

Test(part_open, embedded_rows_that_do_not_fit_are_refused_by_section_and_entry)
{
    broken_i64(HEADER(features.n_embedded), 1, "at most n_own embedded rows, in runs of columns of sparse features");
    broken_i64(HEADER(features.n_embedded_run), 1, "counts that fit the bytes");
    encode_typed();
    const struct part_header *header = (const void *)bytes;
    const uint32_t *rows = (const void *)(bytes + header->section[PART_SECTION_EMBEDDED_ROWS].offset);
    cr_assert_geq(header->features.n_embedded, 2);
    broken_i64(HEADER(features.n_embedded), -1, "at most n_own embedded rows");
    broken_i64(HEADER(features.n_embedded), 61, "at most n_own embedded rows");
    broken_i64(HEADER(features.n_embedded_run), INT64_MAX, "at most n_own embedded rows");
    broken_i64(entry(PART_SECTION_EMBEDDED_RUNS, 0), -1, "section 'embedded runs', entry 0: expected ascending runs");
    broken_i64(entry(PART_SECTION_EMBEDDED_RUNS, 0), 21, "section 'embedded runs', entry 0: expected ascending runs");
    broken_i64(entry(PART_SECTION_EMBEDDED_RUNS, 0) + 8, INT64_MAX,
               "section 'embedded runs', entry 0: expected ascending runs");
    broken_u32(PART_SECTION_EMBEDDED_ROWS, -1, 60, "expected ascending own rows below n_own");
    broken_u32(PART_SECTION_EMBEDDED_COLUMNS, 1, 0,
               "section 'embedded columns', entry 1: expected a column in one of the runs");
    broken_u32(PART_SECTION_EMBEDDED_COLUMNS, 0, 21,
               "section 'embedded columns', entry 0: expected a column in one of the runs");
    broken_u32(PART_SECTION_EMBEDDED_ROWS, 1, rows[0], "entry 1: expected ascending own rows");
    uint32_t row = rows[0] > 0 ? rows[0] - 1 : rows[0] + 1;
    broken_u32(PART_SECTION_EMBEDDED_ROWS, 0, row, "entry 0: expected a row without entries in shared columns");
}

Test(part_open, blocks_that_do_not_fit_are_refused_by_section_and_block)
{
    const size_t n_row = offsetof(struct part_listed, n_row), n_col = offsetof(struct part_listed, n_col);
    const size_t first = entry(PART_SECTION_IN_BLOCKS, 0), diagonal = entry(PART_SECTION_IN_BLOCKS, 1);
    const uint32_t two = 2, three = 3, none = 0, most = UINT32_MAX;
    broken_at(first, &two, 4, "block 1: expected ascending part numbers below the number of parts");
    broken_at(diagonal, &none, 4, "block 0: expected ascending part numbers below the number of parts");
    broken_at(entry(PART_SECTION_IN_BLOCKS, 2), &three, 4,
              "block 3: expected ascending part numbers below the number of parts");
    broken_at(HEADER(n_block[0]), &none, 4, "a block at least and one for each part at most");
    broken_at(HEADER(n_block[1]), &most, 4, "a block at least and one for each part at most");
    broken_at(HEADER(n_block[1]), &two, 4, "section 'out blocks': expected 24 bytes");
    broken_at(first + n_row, &most, 4, "section 'in blocks', block 0: expected rows and columns within the part");
    broken_at(first + n_col, &most, 4, "section 'in blocks', block 0: expected rows and columns within the part");
    broken_at(first + n_row, &none, 4,
              "section 'in blocks', block 0: expected an edge for each row and for each column");
    broken_at(diagonal + n_col, &two, 4, "block 1: expected all own rows and columns on the diagonal");
    broken_i64(entry(PART_SECTION_IN_INDPTR, 0), 1, "block 0: expected an indptr from 0 to the number of edges");
    broken_i64(entry(PART_SECTION_IN_INDPTR, -1), INT64_MAX,
               "block 2: expected an indptr from 0 to the number of edges");
    broken_i64(entry(PART_SECTION_IN_INDPTR, -1), -1, "block 2: expected an indptr from 0 to the number of edges");
    broken_i64(entry(PART_SECTION_IN_INDPTR, 2), INT64_MAX, "block 0: expected an indptr that rises");
    broken_i64(entry(PART_SECTION_IN_INDPTR, 1), 0, "block 0: expected an indptr that rises");
    broken_u32(PART_SECTION_IN_ROWS, 0, UINT32_MAX, "block 0: expected ascending own rows below n_own");
    broken_u32(PART_SECTION_IN_ROWS, -1, 0, "block 2: expected ascending own rows below n_own");
    broken_u32(PART_SECTION_IN_COLS, 0, 30, "block 0: expected ascending columns below n_col in each row");
    broken_u32(PART_SECTION_IN_DEGREE, 1, 31, "section 'in degree', entry 1: expected at most n_node neighbours");
    broken_u32(PART_SECTION_IN_NODE, 0, 30, "section 'in node', entry 0: expected a node number below n_node");
    broken_u32(PART_SECTION_OUT_NODE, -1, UINT32_MAX, "section 'out node', entry");
    broken_u32(PART_SECTION_OUT_COLS, -1, 30,
               "section 'out blocks', block 2: expected ascending columns below n_col");
    broken_u32(PART_SECTION_OUT_ROWS, 0, 30,
               "section 'out blocks', block 0: expected ascending own rows below n_own");
}

Test(part_open, dense_features_and_label_rows_must_be_finite_but_unknown_labels_may_be_nan)
{
    struct part part;
    encode_dense();
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK);
    bool any_nan = false;
    for (int64_t i = 0; i < part.n_own * part.facts.n_class; i++) {
        any_nan |= isnan(part.labels.rows[i]);
    }
    cr_assert(any_nan);
    part_release(&part);
    broken_u32(PART_SECTION_LABEL_ROWS, 3, 0xff800000,
               "section 'label rows', entry 3: expected a finite number or NaN");
    broken_u32(PART_SECTION_FEATURES, -1, 0x7fc00000, "section 'features', entry");
}

Test(part_open, weights_and_strengths_that_are_not_finite_or_negative_are_refused)
{
    const uint8_t one = 1, two = 2;
    broken_at(HEADER(flags.weighted), &two, 1, "weighted, or typed, or neither");
    broken_at(HEADER(flags.weighted), &one, 1, "counts that fit the bytes");
    free(bytes);
    struct part part;
    struct tiny_graph graph = {.n_node = 30, .n_draw = 400, .weighted = true, .seed = 5};
    encode(&graph);
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    cr_assert(part.facts.weighted && part.strength != NULL);
    part_release(&part);
    broken_u32(PART_SECTION_IN_WEIGHTS, 2, 0x7fc00000,
               "section 'in weights', entry 2: expected a finite number that is not negative");
    broken_u32(PART_SECTION_OUT_WEIGHTS, 0, 0xbf800000,
               "section 'out weights', entry 0: expected a finite number that is not negative");
    broken_u32(PART_SECTION_STRENGTH, 1, 0x7f800000,
               "section 'strength', entry 1: expected a finite number that is not negative");
    broken_u32(PART_SECTION_IN_STRENGTH, 0, 0xbf800000, "section 'in strength', entry 0: expected");
    broken_u32(PART_SECTION_OUT_STRENGTH, -1, 0x7f800000, "section 'out strength', entry");
    broken_i64(HEADER(edges.n_relation), 3, "weighted, or typed, or neither");
}

Test(part_open, features_of_edges_that_are_not_finite_or_not_there_are_refused)
{
    const uint8_t one = 1;
    broken_i64(HEADER(edges.n_feature), -1, "rows of features of edges that fit the bytes");
    broken_i64(HEADER(edges.n_row), 1, "and none without columns");
    broken_i64(HEADER(edges.n_feature), 2, "counts that fit the bytes");
    free(bytes);
    struct part part;
    struct tiny_graph graph = {.n_node = 30, .n_draw = 400, .symmetric = true, .n_edge_feature = 2, .seed = 5};
    encode(&graph);
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    int64_t n_row = part.edges.n_row;
    cr_assert(part.facts.n_edge_feature == 2 && n_row > 2);
    part_release(&part);
    broken_u32(PART_SECTION_EDGE_FEATURES, 3, 0x7fc00000,
               "section 'edge features', entry 3: expected a finite number");
    broken_u32(PART_SECTION_IN_EDGE_ROWS, 2, (uint32_t)n_row,
               "section 'in edge rows', entry 2: expected a row of features below");
    broken_u32(PART_SECTION_OUT_EDGE_ROWS, -1, UINT32_MAX, "section 'out edge rows', entry");
    broken_i64(HEADER(edges.n_feature), INT64_MAX, "rows of features of edges that fit the bytes");
    broken_i64(HEADER(edges.n_row), INT64_MAX, "rows of features of edges that fit the bytes");
    broken_i64(HEADER(edges.n_row), n_row + 64, "counts that fit the bytes");
    broken_at(HEADER(flags.weighted), &one, 1, "features of edges only of edges without weights and types");
    broken_at(HEADER(flags.symmetric), &one, 1, "one direction apart from the other");
    broken_at(HEADER(flags.stores), &one, 1, "no covers and stored halo rows");
    broken_i64(HEADER(edges.n_relation), 3, "without weights and types");
}

Test(part_open, types_and_weights_out_of_range_or_order_are_refused)
{
    const uint16_t four = 4;
    struct part part;
    free(bytes);
    struct tiny_graph graph = {.n_node = 30, .n_draw = 400, .n_relation = 4, .seed = 5};
    encode(&graph);
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    cr_assert_eq(part.facts.n_relation, 4);
    const struct part_block diagonal = part_block(&part, PART_DIRECTION_IN, 1);
    int64_t at = diagonal.types - part.arrays[PART_DIRECTION_IN].types, row = 0;
    while (diagonal.types[diagonal.indptr[row]] == 0 || diagonal.indptr[row + 1] - diagonal.indptr[row] < 2) {
        row++;
    }
    at += diagonal.indptr[row];
    part_release(&part);
    const uint16_t zero = 0;
    broken_at(entry(PART_SECTION_IN_TYPES, 3), &four, 2,
              "section 'in types', entry 3: expected a relation below n_relation");
    broken_at(entry(PART_SECTION_OUT_TYPES, -1), &four, 2, "section 'out types', entry");
    broken_at(entry(PART_SECTION_IN_TYPES, at + 1), &zero, 2, "block 1: expected ascending types in each row");
    broken_u32(PART_SECTION_IN_WEIGHTS, 0, 0x7f800000, "section 'in weights', entry 0: expected a finite number");
    broken_u32(PART_SECTION_OUT_WEIGHTS, -1, 0x7fc00000, "section 'out weights', entry");
    broken_i64(HEADER(edges.n_relation), 65537, "at most 65536 relations");
    broken_i64(HEADER(edges.n_relation), -1, "at most 65536 relations");
    broken_i64(HEADER(edges.n_relation), 0, "at most all relations that are not inverse ones");
    const uint8_t one = 1;
    broken_at(HEADER(flags.symmetric), &one, 1, "none where the graph is symmetric");
}

/* A directed graph of few edges: rows of every hop, and some of none. */
static void encode_by_hop(void)
{
    free(bytes);
    struct tiny_graph graph = {.n_node = 60, .n_draw = 90, .seed = 9};
    encode_ordered(&graph, 3);
}

Test(part_open, hops_that_do_not_fit_the_rows_are_refused)
{
    const uint32_t none[3] = {0, 0, 0};
    struct part part;
    encode_by_hop();
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    int64_t training = part_rows_own(&part, 0), all = part.n_own, q = 0;
    cr_assert(training > 0 && part_rows_own(&part, 1) > training && part_rows_own(&part, 2) < all);
    cr_assert_eq(part.halo.pairs[PART_DIRECTION_IN].n_pair, 3);
    while (q == 1 || part_block_at(&part, PART_DIRECTION_IN, (int32_t)q).rows[0] >= training) {
        q++; /* some training row here has an edge from there */
    }
    part_release(&part);
    broken_i64(HEADER(n_hop), 17, "at most 16 hops");
    broken_i64(HEADER(n_hop), -1, "at most 16 hops");
    broken_i64(HEADER(n_hop), 2, "counts that fit the bytes");
    broken_u32(PART_SECTION_IN_HOPS, 3, (uint32_t)training + 1, "expected the training rows at hop 0");
    broken_u32(PART_SECTION_OUT_HOPS, 3, (uint32_t)training + 1,
               "part 1: expected the same own rows in both directions");
    broken_u32(PART_SECTION_IN_HOPS, 4, (uint32_t)training - 1,
               "part 1: expected counts that do not fall, within the rows there are");
    broken_u32(PART_SECTION_IN_HOPS, 0, UINT32_MAX,
               "part 0: expected counts that do not fall, within the rows there are");
    broken_u32(PART_SECTION_IN_HOPS, 5, (uint32_t)all + 1, "counts that do not fall, within the rows there are");
    broken_at(entry(PART_SECTION_IN_HOPS, 3 * q), none, sizeof none, "expected no edge that skips a hop");
}

Test(part_open, every_byte_of_a_part_with_halo_rows_counts)
{
    struct part part;
    encode_stored(TINY_FEATURES_SPARSE);
    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] ^= 0x10;
        cr_expect_eq(part_open(bytes, n_bytes, &part), STATUS_DATA, "byte %zu", i);
        bytes[i] ^= 0x10;
    }
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    part_release(&part);
}

Test(part_open, every_byte_of_a_part_with_levels_counts)
{
    struct part part;
    encode_by_hop();
    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] ^= 0x10;
        cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_DATA, "byte %zu of %zu may be anything", i, n_bytes);
        bytes[i] ^= 0x10;
    }
}
