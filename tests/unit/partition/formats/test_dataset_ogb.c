#include "tests/unit/partition/fixture.h"

#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void folders(const char *root)
{
    static const char *const names[] = {"", "/raw", "/split", "/split/time"};
    for (int i = 0; i < 4; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", root, names[i]);
        cr_assert_eq(mkdir(folder_path(name), 0777), 0);
    }
}

/* A folder of tables: a path of four nodes, two columns, classes 2 0 none 1, train 0, valid 1, test 3. */
static void tables(const char *root)
{
    static const char *const files[][2] = {
        {"raw/edge.csv.gz", "0,1\n1,2\n2,3\n"},      {"raw/num-node-list.csv.gz", "4\n"},
        {"raw/num-edge-list.csv.gz", "3\n"},         {"raw/node-feat.csv.gz", "0.5,1\n2,3\n-4,5e1\n6,7\n"},
        {"raw/node-label.csv.gz", "2\n0\nnan\n1\n"}, {"split/time/train.csv.gz", "0\n"},
        {"split/time/valid.csv.gz", "1\n"},          {"split/time/test.csv.gz", "3\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s/%s", root, files[i][0]);
        fixture_gz(name, files[i][1]);
    }
}

static void open_arxiv(void)
{
    folder_make();
    folders("arxiv");
    tables("arxiv");
}

static struct job job_of(const char *root)
{
    struct job job = fixture_job();
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path(root));
    return job;
}

static struct dataset loaded(const char *root)
{
    struct job job = job_of(root);
    return fixture_loaded(&job);
}

TestSuite(dataset_ogb, .init = open_arxiv, .fini = fixture_end);

/* An additional edge file, as the package's own reader calls it: one number per line of edge.csv.gz. */
Test(dataset_ogb, a_table_of_weights_is_read_line_by_line)
{
    fixture_gz("arxiv/raw/edge_weight.csv.gz", "0.5\n2\n3e0\n");
    struct dataset d = loaded("arxiv");
    const float weights[] = {1.0f, 0.5f, 1.0f, 2.0f, 1.0f, 3.0f, 1.0f};
    cr_assert(d.facts.weighted && d.n_edge == 3 + 4);
    cr_assert_arr_eq(d.edge_weight, weights, sizeof weights);
    struct job job = job_of("arxiv");
    fixture_gz("arxiv/raw/edge_weight.csv.gz", "0.5\n2\n");
    fixture_refused(&job, STATUS_DATA, "edge_weight.csv.gz: ends after 2 lines", "expected more");
    fixture_gz("arxiv/raw/edge_weight.csv.gz", "0.5\n2\n3\n4\n");
    fixture_refused(&job, STATUS_DATA, "edge_weight.csv.gz: goes on after line 3", "expected that many edges");
    fixture_gz("arxiv/raw/edge_weight.csv.gz", "0.5\n2,1\n3\n");
    fixture_refused(&job, STATUS_DATA, "edge_weight.csv.gz: line 2: '2,1'", "expected 1 number");
    fixture_gz("arxiv/raw/edge_weight.csv.gz", "0.5\n2\n-3\n");
    fixture_refused(&job, STATUS_DATA, "edge_weight.csv.gz: edge 2: weight -3", "expected a finite float32");
    job.dataset.edge_weights = JOB_SWITCH_YES;
    fixture_remove("arxiv/raw/edge_weight.csv.gz");
    fixture_refused(&job, STATUS_NO_INPUT, "edge_weight.csv.gz: no such file", "dataset.edge_weights");
}

Test(dataset_ogb, a_table_of_edge_features_is_read_line_by_line)
{
    struct job job = job_of("arxiv");
    job.model.kind = JOB_KIND_TRANSFORMER;
    fixture_gz("arxiv/raw/edge-feat.csv.gz", "0.5,1\n2,-1\n3e0,4\n");
    struct dataset d = fixture_loaded(&job);
    const float rows[] = {0.5f, 1.0f, 2.0f, -1.0f, 3.0f, 4.0f};
    cr_assert(d.facts.n_edge_feature == 2 && d.n_edge == 3 && d.edges.n_row == 3);
    cr_assert_arr_eq(d.edges.features, rows, sizeof rows);
    fixture_gz("arxiv/raw/edge-feat.csv.gz", "0.5\n2\n");
    fixture_refused(&job, STATUS_DATA, "edge-feat.csv.gz", "expected");
    job.dataset.edge_features = JOB_SWITCH_YES;
    fixture_remove("arxiv/raw/edge-feat.csv.gz");
    fixture_refused(&job, STATUS_NO_INPUT, "edge-feat.csv.gz: no such file", "dataset.edge_features");
}

Test(dataset_ogb, tables_load_as_stored)
{
    struct dataset dataset = loaded("arxiv");
    cr_assert_str_eq(dataset.name, "arxiv");
    cr_assert(dataset.n_node == 4 && dataset.n_edge == 3 && dataset.facts.n_feature == 2 &&
              dataset.facts.n_class == 3);
    cr_assert(!dataset.facts.symmetric);
    cr_assert(dataset.indices[0] == 0 && dataset.indptr[1] == 0 && dataset.indptr[2] == 1);
    const int32_t labels[] = {2, 0, -1, 1};
    const uint8_t split[] = {1, 2, 0, 3};
    cr_assert_arr_eq(dataset.labels.classes, labels, sizeof labels);
    cr_assert_arr_eq(dataset.labels.split, split, sizeof split);
    float row[2];
    dataset_feature_rows(&dataset, (uint32_t[]){2}, 1, row);
    cr_assert(row[0] == -4 && row[1] == 50);
}

Test(dataset_ogb, products_and_proteins_get_their_reverse_edges)
{
    static const char *const names[] = {"ogbn_products", "ogbn_proteins"};
    for (int i = 0; i < 2; i++) {
        folders(names[i]);
        tables(names[i]);
        struct dataset dataset = loaded(names[i]);
        cr_assert(dataset.n_edge == 6 && dataset.facts.symmetric, "%s", names[i]);
    }
}

Test(dataset_ogb, several_label_columns_are_multi_label)
{
    fixture_gz("arxiv/raw/node-label.csv.gz", "0,1,0\n1,1,0\n0,0,0\n0,0,1\n");
    fixture_remove("arxiv/raw/node-feat.csv.gz");
    struct dataset dataset = loaded("arxiv");
    cr_assert(dataset.facts.multi_label && dataset.facts.n_class == 3 && dataset.facts.n_feature == 0);
    cr_assert_eq(dataset.labels.rows[4], 1);
}

Test(dataset_ogb, arrays_load_like_tables)
{
    static const char *const data[][2] = {{"edges.npy", "edge_index.npy"},
                                          {"nodes.npy", "num_nodes_list.npy"},
                                          {"features.npy", "node_feat.npy"},
                                          {"weights.npy", "edge_weight.npy"}};
    static const char *const label[][2] = {{"labels.npy", "node_label.npy"}};
    fixture_i64("edges.npy", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 2, 1, 2, 3});
    fixture_i64("nodes.npy", 1, (int64_t[]){1}, (int64_t[]){4});
    fixture_f32("features.npy", 2, (int64_t[]){4, 2}, (float[]){.5f, 1, 2, 3, -4, 50, 6, 7});
    fixture_f32("labels.npy", 2, (int64_t[]){4, 1}, (float[]){2, 0, NAN, 1});
    struct dataset tables_dataset = loaded("arxiv");
    fixture_remove("arxiv/raw/edge.csv.gz");
    fixture_zip("arxiv/raw/data.npz", data, 3);
    fixture_zip("arxiv/raw/node-label.npz", label, 1);
    struct dataset dataset = loaded("arxiv");
    cr_assert(dataset.n_node == 4 && dataset.n_edge == 3 && dataset.facts.n_class == 3);
    cr_assert_arr_eq(dataset.indptr, tables_dataset.indptr, 5 * sizeof(int64_t));
    cr_assert_arr_eq(dataset.indices, tables_dataset.indices, 3 * sizeof(uint32_t));
    cr_assert_arr_eq(dataset.features.f32, tables_dataset.features.f32, 8 * sizeof(float));
    cr_assert_arr_eq(dataset.labels.classes, tables_dataset.labels.classes, 4 * sizeof(int32_t));
    fixture_f32("rows.npy", 2, (int64_t[]){3, 2}, (float[]){4, 5, 6, 7, 8, 9});
    fixture_zip("arxiv/raw/data.npz",
                (const char *const[][2]){{"edges.npy", "edge_index.npy"},
                                         {"nodes.npy", "num_nodes_list.npy"},
                                         {"features.npy", "node_feat.npy"},
                                         {"rows.npy", "edge_feat.npy"}},
                4);
    struct job job = job_of("arxiv");
    job.model.kind = JOB_KIND_TRANSFORMER;
    dataset = fixture_loaded(&job);
    cr_assert(dataset.facts.n_edge_feature == 2 && dataset.edges.features[5] == 9.0f);
    fixture_f32("weights.npy", 1, (int64_t[]){3}, (float[]){4, 5, 6});
    fixture_zip("arxiv/raw/data.npz", data, 4);
    dataset = loaded("arxiv");
    cr_assert(dataset.facts.weighted && dataset.strength[1] == 5 && dataset.strength[3] == 7);
}

static void bad(enum status status, const char *where, const char *expected)
{
    struct job job = job_of("arxiv");
    fixture_refused(&job, status, where, expected);
}

Test(dataset_ogb, tables_that_do_not_fit_are_refused)
{
    fixture_gz("arxiv/raw/edge.csv.gz", "0,1\n1,4\n2,3\n");
    bad(STATUS_DATA, "edge.csv.gz: edge 1: destination 4", "expected 0 to 3");
    fixture_gz("arxiv/raw/edge.csv.gz", "0,1\n1,2\n");
    bad(STATUS_DATA, "edge.csv.gz: ends after 2 lines", "expected more");
    fixture_gz("arxiv/raw/edge.csv.gz", "0,1\n1,2\n2,3\n3,0\n");
    bad(STATUS_DATA, "edge.csv.gz: goes on after line 3", "expected that many edges");
    tables("arxiv");
    fixture_gz("arxiv/raw/node-feat.csv.gz", "0.5,1\n2,nan\n-4,5e1\n6,7\n");
    bad(STATUS_DATA, "node-feat.csv.gz: row 1, column 1 is nan", "expected a finite number");
    fixture_gz("arxiv/raw/node-feat.csv.gz", "0.5,1\n2,3\n-4,5e1\n");
    bad(STATUS_DATA, "node-feat.csv.gz: ends after 3 lines", "expected 4");
    tables("arxiv");
    fixture_gz("arxiv/raw/node-label.csv.gz", "0\n1.5\n0\n0\n");
    bad(STATUS_DATA, "node-label.csv.gz: node 1 has label 1.5", "expected -1 (none) or a class");
    tables("arxiv");
    fixture_gz("arxiv/raw/num-node-list.csv.gz", "4\n4\n");
    bad(STATUS_DATA, "num-node-list.csv.gz: goes on after line 1", "expected 1 lines");
    fixture_gz("arxiv/raw/num-node-list.csv.gz", "0\n");
    bad(STATUS_DATA, "num-node-list.csv.gz: has no nodes", "expected at least one");
    tables("arxiv");
    fixture_gz("arxiv/split/time/test.csv.gz", "0\n");
    bad(STATUS_DATA, "test.csv.gz: entry 0: node 0 is in the train split already",
        "training nodes to be in no other split");
    fixture_gz("arxiv/split/time/train.csv.gz", "");
    bad(STATUS_DATA, "has no training nodes", "expected at least one");
}

/* The most that was alive since `before` is less than a byte for each of the nodes or edges that a count claims. */
static void bad_and_small(int64_t claimed, const char *where, const char *expected)
{
    int64_t before = memory_now(MEMORY_N);
    bad(STATUS_DATA, where, expected);
    cr_assert_lt(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before, claimed, "%s", where);
}

Test(dataset_ogb, counts_that_tables_contradict_are_refused_before_memory_is_taken_for_them)
{
    fixture_gz("arxiv/raw/num-node-list.csv.gz", "2147483648\n");
    bad_and_small(1 << 24, "arxiv/raw/num-node-list.csv.gz: line 1: 2147483648 nodes",
                  "arxiv/raw/node-label.csv.gz has 4 lines, expected as many");
    fixture_remove("arxiv/raw/node-label.csv.gz");
    bad_and_small(1 << 24, "arxiv/raw/num-node-list.csv.gz: line 1: 2147483648 nodes",
                  "arxiv/raw/node-feat.csv.gz has 4 lines, expected as many");
    tables("arxiv");
    fixture_gz("arxiv/raw/num-edge-list.csv.gz", "0\n");
    bad(STATUS_DATA, "arxiv/raw/num-edge-list.csv.gz: line 1: 0 edges",
        "arxiv/raw/edge.csv.gz has 3 lines, expected as many");
    fixture_gz("arxiv/raw/num-edge-list.csv.gz", "2147483648\n");
    fixture_gz("arxiv/raw/edge-feat.csv.gz", "0.5,1\n2,-1\n3,4\n");
    struct job job = job_of("arxiv");
    job.model.kind = JOB_KIND_TRANSFORMER;
    fixture_refused(&job, STATUS_DATA, "num-edge-list.csv.gz: line 1: 2147483648 edges",
                    "edge-feat.csv.gz has 3 lines");
    cr_assert_lt(memory_peak(MEMORY_PLACE_HOST, MEMORY_N), 1 << 24);
}

Test(dataset_ogb, a_count_of_nodes_that_arrays_contradict_is_refused_before_memory_is_taken_for_it)
{
    static const char *const data[][2] = {
        {"edges.npy", "edge_index.npy"}, {"nodes.npy", "num_nodes_list.npy"}, {"features.npy", "node_feat.npy"}};
    static const char *const label[][2] = {{"labels.npy", "node_label.npy"}};
    fixture_i64("edges.npy", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 2, 1, 2, 3});
    fixture_i64("nodes.npy", 1, (int64_t[]){1}, (int64_t[]){2147483648});
    fixture_f32("features.npy", 2, (int64_t[]){4, 2}, (float[]){.5f, 1, 2, 3, -4, 50, 6, 7});
    fixture_f32("labels.npy", 2, (int64_t[]){4, 1}, (float[]){2, 0, NAN, 1});
    fixture_remove("arxiv/raw/edge.csv.gz");
    fixture_zip("arxiv/raw/data.npz", data, 3);
    fixture_zip("arxiv/raw/node-label.npz", label, 1);
    bad_and_small(1 << 24, "data.npz:num_nodes_list.npy: entry 0: 2147483648 nodes",
                  "node-label.npz:node_label.npy has 4 rows, expected as many");
}

Test(dataset_ogb, any_table_cut_at_any_byte_is_refused)
{
    static const char *const names[] = {"arxiv/raw/edge.csv.gz", "arxiv/raw/node-feat.csv.gz",
                                        "arxiv/split/time/valid.csv.gz"};
    for (size_t i = 0; i < 3; i++) {
        size_t n;
        char *bytes = fixture_read(names[i], &n);
        for (size_t cut = 0; cut < n; cut++) {
            fixture_bytes(names[i], bytes, cut);
            bad(STATUS_DATA, ".csv.gz: line ", "");
        }
        fixture_bytes(names[i], bytes, n);
        free(bytes);
    }
}

Test(dataset_ogb, missing_files_are_named)
{
    fixture_remove("arxiv/raw/node-label.csv.gz");
    bad(STATUS_NO_INPUT, "node-label.csv.gz", "No such file");
    tables("arxiv");
    fixture_remove("arxiv/split/time/train.csv.gz");
    bad(STATUS_NO_INPUT, "split: has 0 folders with train.csv.gz", "expected one");
    tables("arxiv");
    cr_assert_eq(mkdir(folder_path("arxiv/split/other"), 0777), 0);
    fixture_gz("arxiv/split/other/train.csv.gz", "0\n");
    bad(STATUS_DATA, "split: has 2 folders with train.csv.gz", "expected one");
    cr_assert_eq(mkdir(folder_path("arxiv/raw/relations"), 0777), 0);
    bad(STATUS_NO_INPUT, "num-node-dict.csv.gz", "No such file");
}

/* Two authors, three papers, one field: two relations, features and labels of papers alone. Name and contents. */
static const char *const mag_folders[] = {"mag",
                                          "mag/raw",
                                          "mag/raw/relations",
                                          "mag/raw/relations/author___writes___paper",
                                          "mag/raw/relations/paper___has___field",
                                          "mag/raw/node-feat",
                                          "mag/raw/node-feat/paper",
                                          "mag/raw/node-feat/author",
                                          "mag/raw/node-label",
                                          "mag/raw/node-label/paper",
                                          "mag/split",
                                          "mag/split/time",
                                          "mag/split/time/paper"};
static const char *const mag_files[][2] = {
    {"mag/raw/num-node-dict.csv.gz", "paper,author,field\n3,2,1\n"},
    {"mag/raw/triplet-type-list.csv.gz", "author,writes,paper\npaper,has,field\n"},
    {"mag/raw/relations/author___writes___paper/edge.csv.gz", "0,2\n1,0\n1,2\n"},
    {"mag/raw/relations/author___writes___paper/num-edge-list.csv.gz", "3\n"},
    {"mag/raw/relations/paper___has___field/edge.csv.gz", "0,0\n2,0\n"},
    {"mag/raw/relations/paper___has___field/num-edge-list.csv.gz", "2\n"},
    {"mag/raw/node-feat/paper/node-feat.csv.gz", "1,0\n2,3\n0,4\n"},
    {"mag/raw/node-label/paper/node-label.csv.gz", "1\n0\nnan\n"},
    {"mag/split/time/paper/train.csv.gz", "0\n"},
    {"mag/split/time/paper/valid.csv.gz", "1\n"},
    {"mag/split/time/paper/test.csv.gz", "2\n"},
};

static void mag_make(void)
{
    for (size_t i = 0; i < sizeof mag_folders / sizeof *mag_folders; i++) {
        mkdir(folder_path(mag_folders[i]), 0777);
    }
    for (size_t i = 0; i < sizeof mag_files / sizeof *mag_files; i++) {
        fixture_gz(mag_files[i][0], mag_files[i][1]);
    }
}

static struct job mag_job(void)
{
    struct job job = job_of("mag");
    job.model.kind = JOB_KIND_RGCN;
    return job;
}

Test(dataset_ogb, several_node_types_are_numbered_one_after_another)
{
    mag_make();
    struct job job = mag_job();
    struct dataset d = fixture_loaded(&job);
    const int64_t indptr[] = {0, 1, 1, 3, 3, 3, 5};
    const uint32_t indices[] = {4, 3, 4, 0, 2};
    const uint16_t types[] = {0, 0, 0, 1, 1};
    const int32_t labels[] = {1, 0, -1, -1, -1, -1};
    const uint8_t split[] = {1, 2, 3, 0, 0, 0};
    cr_assert(d.n_node == 6 && d.n_edge == 5 && d.facts.n_relation == 2 && d.facts.n_class == 2 &&
              d.facts.features_typed);
    cr_assert_arr_eq(d.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(d.indices, indices, sizeof indices);
    cr_assert_arr_eq(d.edge_type, types, sizeof types);
    cr_assert_arr_eq(d.labels.classes, labels, sizeof labels);
    cr_assert_arr_eq(d.labels.split, split, sizeof split);
    const float features[] = {1, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0, 4, 0, 0, 0,
                              0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1};
    const uint32_t nodes[] = {0, 1, 2, 3, 4, 5};
    float rows[30];
    cr_assert_eq(d.facts.n_feature, 5);
    dataset_feature_rows(&d, nodes, 6, rows);
    cr_assert_arr_eq(rows, features, sizeof rows);
}

Test(dataset_ogb, relations_are_merged_for_models_that_know_none_and_a_relation_may_be_empty)
{
    mag_make();
    fixture_gz("mag/raw/relations/author___writes___paper/edge.csv.gz", "");
    fixture_gz("mag/raw/relations/author___writes___paper/num-edge-list.csv.gz", "0\n");
    struct job job = job_of("mag");
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_edge == 2 && d.edge_type == NULL);
    job = mag_job();
    d = fixture_loaded(&job);
    cr_assert(d.n_edge == 2 && d.facts.n_relation == 2 && d.edge_type[0] == 1);
}

Test(dataset_ogb, tables_of_types_that_do_not_fit_are_refused)
{
    static const struct {
        const char *file, *text, *where, *expected;
        enum status status;
    } cases[] = {
        {"raw/num-node-dict.csv.gz", "", "num-node-dict.csv.gz: is empty", "expected the names", STATUS_DATA},
        {"raw/num-node-dict.csv.gz", "paper,../x,field\n3,2,1\n", "'../x' is no name", "a folder's name",
         STATUS_DATA},
        {"raw/num-node-dict.csv.gz", "paper,author,field\n3,2\n", "num-node-dict.csv.gz: line 2", "integers",
         STATUS_DATA},
        {"raw/num-node-dict.csv.gz", "paper,author,field\n3,-2,1\n", "-2 nodes of type 'author'", "expected 0 to",
         STATUS_DATA},
        {"raw/num-node-dict.csv.gz", "paper,author,field\n0,0,0\n", "has no nodes", "at least one", STATUS_DATA},
        {"raw/triplet-type-list.csv.gz", "author,writes\n", "triplet-type-list.csv.gz: line 1", "head,relation,tail",
         STATUS_DATA},
        {"raw/triplet-type-list.csv.gz", "author,writes,book\n", "'book' is no node type", "num-node-dict",
         STATUS_DATA},
        {"raw/triplet-type-list.csv.gz", "author,reads,paper\n", "author___reads___paper", "No such file",
         STATUS_NO_INPUT},
        {"raw/triplet-type-list.csv.gz", "", "triplet-type-list.csv.gz: is empty", "a line for each", STATUS_DATA},
        {"raw/relations/author___writes___paper/edge.csv.gz", "0,2\n1,0\n2,2\n",
         "author___writes___paper/edge.csv.gz: line 3: node 2", "expected 0 to 1, the nodes of type 'author'",
         STATUS_DATA},
        {"raw/relations/author___writes___paper/edge.csv.gz", "0,2\n1,0\n", "ends after 2 lines", "expected more",
         STATUS_DATA},
        {"raw/relations/author___writes___paper/edge.csv.gz", "0,2\n1,0\n1,1\n1,2\n", "goes on after line 3",
         "that many", STATUS_DATA},
        {"raw/relations/paper___has___field/edge.csv.gz", "0,0\n1,0\n2,0\n", "goes on after line 2", "that many",
         STATUS_DATA},
        {"raw/node-feat/paper/node-feat.csv.gz", "1,0\n2,3\n", "node-feat.csv.gz: ends after 2 lines",
         "expected more", STATUS_DATA},
        {"raw/node-feat/paper/node-feat.csv.gz", "1,0\n2,3\n0,4\n5,6\n", "goes on after line 3", "expected 3 lines",
         STATUS_DATA},
        {"raw/node-feat/paper/node-feat.csv.gz", "1,0\n2\n0,4\n", "node-feat.csv.gz: line 2: '2'",
         "expected 2 numbers", STATUS_DATA},
        {"raw/node-feat/paper/node-feat.csv.gz", "1,0\n2,inf\n0,4\n", "row 1, column 1 is inf", "finite",
         STATUS_DATA},
        {"raw/node-label/paper/node-label.csv.gz", "1\n0\n", "num-node-dict.csv.gz: line 2: 3 nodes of type 'paper'",
         "paper/node-label.csv.gz has 2 lines, expected as many", STATUS_DATA},
        {"raw/relations/paper___has___field/num-edge-list.csv.gz", "0\n",
         "paper___has___field/num-edge-list.csv.gz: line 1: 0 edges", "edge.csv.gz has 2 lines, expected as many",
         STATUS_DATA},
        {"raw/relations/paper___has___field/num-edge-list.csv.gz", "9223372036854775807\n",
         "num-edge-list.csv.gz: line 1", "expected a count", STATUS_DATA},
        {"split/time/paper/test.csv.gz", "3\n", "test.csv.gz: entry 0: node 3", "the nodes of type 'paper'",
         STATUS_DATA},
        {"split/time/paper/test.csv.gz", "0\n", "node 0 is in the train split already", "in no other split",
         STATUS_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[128];
        mag_make();
        snprintf(name, sizeof name, "mag/%s", cases[i].file);
        fixture_gz(name, cases[i].text);
        struct job job = mag_job();
        fixture_refused(&job, cases[i].status, cases[i].where, cases[i].expected);
    }
}

Test(dataset_ogb, files_of_types_that_are_missing_are_refused)
{
    struct job job = mag_job();
    mag_make();
    fixture_remove("mag/raw/node-label/paper/node-label.csv.gz");
    fixture_refused(&job, STATUS_NO_INPUT, "raw/node-label: 0 node types have node-label.csv.gz", "expected one");
    mag_make();
    fixture_remove("mag/split/time/paper/train.csv.gz");
    fixture_refused(&job, STATUS_NO_INPUT, "split: has 0 folders with paper/train.csv.gz", "expected one");
    mag_make();
    fixture_gz("mag/raw/node-feat/author/node-feat.csv.gz", "");
    fixture_refused(&job, STATUS_DATA, "num-node-dict.csv.gz: line 2: 2 nodes of type 'author'",
                    "author/node-feat.csv.gz has 0 lines, expected as many");
}

Test(dataset_ogb, a_graph_without_types_is_refused_for_a_model_of_relations)
{
    struct job job = job_of("arxiv");
    job.model.kind = JOB_KIND_RGCN;
    fixture_refused(&job, STATUS_DATA, "edge.csv.gz: the edges have no types",
                    "expected edge_type.npy or raw/triplet-type-list");
    job.program.line.relation = 7;
    fixture_refused(&job, STATUS_DATA, "the edges have no types", "\"rgcn\", whose line 7 reads e.relation");
}

Test(dataset_ogb, typed_features_take_little_more_memory_than_what_stays)
{
    enum { N = 3000, WIDTH = 40 };
    static char rows[N * WIDTH * 2 + 1], labels[2 * N + 1];
    mag_make();
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < WIDTH; c++) {
            rows[(i * WIDTH + c) * 2] = (char)('1' + (i + c) % 9);
            rows[(i * WIDTH + c) * 2 + 1] = c + 1 < WIDTH ? ',' : '\n';
        }
        memcpy(labels + 2 * i, i % 2 == 0 ? "0\n" : "1\n", 2);
    }
    fixture_gz("mag/raw/num-node-dict.csv.gz", "author,field,paper\n2,1,3000\n");
    fixture_gz("mag/raw/node-feat/paper/node-feat.csv.gz", rows);
    fixture_gz("mag/raw/node-label/paper/node-label.csv.gz", labels);
    struct job job = mag_job();
    int64_t before = memory_now(MEMORY_N);
    struct dataset d = fixture_loaded(&job);
    int64_t stays = memory_now(MEMORY_N) - before;
    cr_assert_eq(d.features.indptr[d.n_node], N * WIDTH + 3);
    cr_assert_lt((double)(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before), 1.3 * (double)stays);
}

/* The job holds a third of the edges of this folder out, and reads no labels: there are none. */
static void expect_links(struct job job, int64_t n_pair)
{
    job.task = (struct job_task){.kind = JOB_TASK_LINK, .valid_share = 0.0, .test_share = 0.34, .seed = 1};
    struct dataset all = fixture_loaded(&job);
    int64_t n_held = (int64_t)(0.34 * (double)n_pair);
    cr_assert_eq(all.links.held[LINKS_SPLIT_TEST].positive.n, n_held);
    cr_assert_eq(all.n_edge, n_pair - n_held, "stored one way");
    cr_assert(all.labels.classes[0] == -1 && all.labels.n_split[DATASET_SPLIT_TRAIN] == all.n_node &&
              all.facts.n_class == 64);
    snprintf(job.predict.model, sizeof job.predict.model, "x");
    struct dataset prediction = fixture_loaded(&job);
    cr_assert(prediction.n_edge == n_pair && prediction.labels.classes == NULL &&
              prediction.labels.n_split[DATASET_SPLIT_NONE] == prediction.n_node);
}

Test(dataset_ogb, links_need_neither_labels_nor_splits)
{
    mag_make();
    fixture_remove("mag/raw/node-label/paper/node-label.csv.gz");
    fixture_remove("mag/split/time/paper/train.csv.gz");
    expect_links(mag_job(), 5);
    fixture_remove("arxiv/raw/node-label.csv.gz");
    fixture_remove("arxiv/split/time/train.csv.gz");
    expect_links(job_of("arxiv"), 3);
    fixture_i64("edges.npy", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 2, 1, 2, 3});
    fixture_i64("nodes.npy", 1, (int64_t[]){1}, (int64_t[]){4});
    fixture_remove("arxiv/raw/edge.csv.gz");
    fixture_zip("arxiv/raw/data.npz",
                (const char *const[][2]){{"edges.npy", "edge_index.npy"}, {"nodes.npy", "num_nodes_list.npy"}}, 2);
    expect_links(job_of("arxiv"), 3);
}
