#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
        {"raw/edge.csv.gz", "0,1\n1,2\n2,3\n"},   {"raw/num-node-list.csv.gz", "4\n"},
        {"raw/num-edge-list.csv.gz", "3\n"},       {"raw/node-feat.csv.gz", "0.5,1\n2,3\n-4,5e1\n6,7\n"},
        {"raw/node-label.csv.gz", "2\n0\nnan\n1\n"}, {"split/time/train.csv.gz", "0\n"},
        {"split/time/valid.csv.gz", "1\n"},        {"split/time/test.csv.gz", "3\n"},
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
    struct dataset dataset;
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
    return dataset;
}

TestSuite(dataset_ogb, .init = open_arxiv, .fini = folder_remove);

Test(dataset_ogb, tables_load_as_stored)
{
    struct dataset dataset = loaded("arxiv");
    cr_assert_str_eq(dataset.name, "arxiv");
    cr_assert(dataset.n_node == 4 && dataset.n_edge == 3 && dataset.n_feature == 2 && dataset.n_class == 3);
    cr_assert(!dataset.symmetric);
    cr_assert(dataset.indices[0] == 0 && dataset.indptr[1] == 0 && dataset.indptr[2] == 1);
    const int32_t labels[] = {2, 0, -1, 1};
    const uint8_t split[] = {1, 2, 0, 3};
    cr_assert_arr_eq(dataset.labels, labels, sizeof labels);
    cr_assert_arr_eq(dataset.split, split, sizeof split);
    float row[2];
    dataset_feature_rows(&dataset, (uint32_t[]){2}, 1, row);
    cr_assert(row[0] == -4 && row[1] == 50);
    dataset_release(&dataset);
}

Test(dataset_ogb, products_and_proteins_get_their_reverse_edges)
{
    static const char *const names[] = {"ogbn_products", "ogbn_proteins"};
    for (int i = 0; i < 2; i++) {
        folders(names[i]);
        tables(names[i]);
        struct dataset dataset = loaded(names[i]);
        cr_assert(dataset.n_edge == 6 && dataset.symmetric, "%s", names[i]);
        dataset_release(&dataset);
    }
}

Test(dataset_ogb, several_label_columns_are_multi_label)
{
    fixture_gz("arxiv/raw/node-label.csv.gz", "0,1,0\n1,1,0\n0,0,0\n0,0,1\n");
    fixture_remove("arxiv/raw/node-feat.csv.gz");
    struct dataset dataset = loaded("arxiv");
    cr_assert(dataset.multi_label && dataset.n_class == 3 && dataset.n_feature == 0);
    cr_assert_eq(dataset.label_rows[4], 1);
    dataset_release(&dataset);
}

Test(dataset_ogb, arrays_load_like_tables)
{
    static const char *const data[][2] = {{"edges.npy", "edge_index.npy"},
                                          {"nodes.npy", "num_nodes_list.npy"},
                                          {"features.npy", "node_feat.npy"}};
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
    cr_assert(dataset.n_node == 4 && dataset.n_edge == 3 && dataset.n_class == 3);
    cr_assert_arr_eq(dataset.indptr, tables_dataset.indptr, 5 * sizeof(int64_t));
    cr_assert_arr_eq(dataset.indices, tables_dataset.indices, 3 * sizeof(uint32_t));
    cr_assert_arr_eq(dataset.features_f32, tables_dataset.features_f32, 8 * sizeof(float));
    cr_assert_arr_eq(dataset.labels, tables_dataset.labels, 4 * sizeof(int32_t));
    dataset_release(&dataset);
    dataset_release(&tables_dataset);
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
    bad(STATUS_DATA, "test.csv.gz: entry 0: node 0 is in the train split already", "expected disjoint");
    fixture_gz("arxiv/split/time/train.csv.gz", "");
    bad(STATUS_DATA, "has no training nodes", "expected at least one");
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

Test(dataset_ogb, missing_files_and_typed_graphs_are_named)
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
    bad(STATUS_CONFIG, "arxiv: has", "typed edges are not available yet");
}
