#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

TestSuite(dataset_npy, .init = folder_make, .fini = folder_remove);

static struct dataset loaded(const struct job *job)
{
    struct dataset dataset;
    cr_assert_eq(dataset_load(job, &dataset), STATUS_OK, "%s", status_reason());
    return dataset;
}

static void edges_are(int64_t n, const int64_t *values)
{
    fixture_i64("edges.npy", 2, (int64_t[]){2, n}, values);
}

static void bad(const char *where, const char *expected)
{
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, where, expected);
}

Test(dataset_npy, a_small_folder_loads_as_it_is)
{
    fixture_small();
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_eq(dataset.n_node, 6);
    cr_assert_eq(dataset.n_edge, 10);
    cr_assert_eq(dataset.n_feature, 3);
    cr_assert_eq(dataset.n_class, 2);
    cr_assert(!dataset.multi_label && dataset.symmetric);
    const int64_t indptr[] = {0, 1, 3, 5, 7, 9, 10};
    const uint32_t indices[] = {1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
    const int32_t labels[] = {0, 1, 0, 1, 0, -1};
    const uint8_t split[] = {1, 1, 2, 3, 3, 0};
    cr_assert_arr_eq(dataset.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    cr_assert_arr_eq(dataset.labels, labels, sizeof labels);
    cr_assert_arr_eq(dataset.split, split, sizeof split);
    cr_assert(dataset.n_split[0] == 1 && dataset.n_split[1] == 2 && dataset.n_split[2] == 1 && dataset.n_split[3] == 2);
    float rows[6];
    dataset_feature_rows(&dataset, (uint32_t[]){5, 0}, 2, rows);
    const float expected[] = {16, 17, -18, 1, 2, 3};
    cr_assert_arr_eq(rows, expected, sizeof rows);
    dataset_release(&dataset);
}

Test(dataset_npy, rows_are_sorted_and_repeats_left_out)
{
    fixture_small();
    edges_are(5, (int64_t[]){5, 1, 3, 1, 2, /**/ 0, 0, 0, 0, 2});
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_eq(dataset.n_edge, 3);
    cr_assert_eq(dataset.n_duplicate, 1);
    const uint32_t indices[] = {1, 3, 5};
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    cr_assert(!dataset.symmetric);
    dataset_release(&dataset);
}

Test(dataset_npy, long_rows_are_sorted_too)
{
    enum { N = 3000 };
    static int64_t edges[2 * N], labels[N];
    for (int64_t i = 0; i < N; i++) {
        edges[i] = i * 1009 % N;
    }
    fixture_small();
    fixture_remove("features.npy");
    edges_are(N, edges);
    fixture_i64("labels.npy", 1, (int64_t[]){N}, labels);
    struct job job = fixture_job();
    job.dataset.self_loops = JOB_SWITCH_NO;
    struct dataset dataset = loaded(&job);
    cr_assert_eq(dataset.n_edge, N - 1);
    for (uint32_t i = 0; i < N - 1; i++) {
        cr_assert_eq(dataset.indices[i], i + 1);
    }
    cr_assert_eq(dataset.n_feature, 0);
    dataset_release(&dataset);
}

Test(dataset_npy, self_loops_are_what_the_job_and_the_layer_say)
{
    static const struct {
        int loops, kind;
        enum dataset_loops expected;
        int64_t n_edge;
    } rows[] = {{JOB_SWITCH_AUTO, JOB_KIND_GCN, DATASET_LOOPS_IMPLICIT, 2},   {JOB_SWITCH_AUTO, JOB_KIND_APPNP, DATASET_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_SGC, DATASET_LOOPS_IMPLICIT, 2},   {JOB_SWITCH_AUTO, JOB_KIND_GAT, DATASET_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_SAGE, DATASET_LOOPS_STORED, 3},    {JOB_SWITCH_AUTO, JOB_KIND_GIN, DATASET_LOOPS_STORED, 3},
                {JOB_SWITCH_YES, JOB_KIND_SAGE, DATASET_LOOPS_IMPLICIT, 2},   {JOB_SWITCH_NO, JOB_KIND_GCN, DATASET_LOOPS_NONE, 2}};
    fixture_small();
    edges_are(4, (int64_t[]){0, 2, 2, 4, /**/ 1, 2, 2, 3});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job = fixture_job();
        job.dataset.self_loops = rows[i].loops;
        job.model.kind = rows[i].kind;
        struct dataset dataset = loaded(&job);
        cr_assert_eq(dataset.loops, rows[i].expected, "row %zu", i);
        cr_assert_eq(dataset.n_edge, rows[i].n_edge, "row %zu", i);
        cr_assert_eq(dataset.n_duplicate, rows[i].expected == DATASET_LOOPS_STORED, "row %zu", i);
        dataset_release(&dataset);
    }
}

Test(dataset_npy, undirected_adds_the_reverse_edges_once)
{
    fixture_small();
    edges_are(5, (int64_t[]){0, 1, 2, 2, 4, /**/ 1, 0, 3, 3, 4});
    struct job job = fixture_job();
    job.dataset.undirected = JOB_SWITCH_YES;
    job.model.kind = JOB_KIND_SAGE;
    struct dataset dataset = loaded(&job);
    const int64_t indptr[] = {0, 1, 2, 3, 4, 5, 5};
    const uint32_t indices[] = {1, 0, 3, 2, 4};
    cr_assert_eq(dataset.n_edge, 5);
    cr_assert_eq(dataset.n_duplicate, 2);
    cr_assert(dataset.symmetric);
    cr_assert_arr_eq(dataset.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    dataset_release(&dataset);
}

Test(dataset_npy, in_edges_by_destination_load_like_an_edge_list)
{
    fixture_small();
    struct job job = fixture_job();
    char list[33], rows[33];
    struct dataset dataset = loaded(&job);
    dataset_fingerprint(&dataset, true, list);
    dataset_release(&dataset);
    fixture_remove("edges.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 5, 7, 9, 10});
    fixture_i64("indices.npy", 1, (int64_t[]){10}, (int64_t[]){1, 2, 0, 1, 3, 2, 4, 3, 5, 4});
    dataset = loaded(&job);
    dataset_fingerprint(&dataset, true, rows);
    dataset_release(&dataset);
    cr_assert_str_eq(list, rows);

    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 2, 7, 9, 10});
    bad("indptr.npy: entry 3 is 2", "expected 3 to 10");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 5, 7, 9, 9});
    bad("indptr.npy: entry 6 is 9", "expected 10 to 10");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){1, 1, 3, 5, 7, 9, 10});
    bad("indptr.npy: entry 0 is 1", "expected 0 to 0");
    fixture_i64("indptr.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 3, 5, 7, 10});
    bad("indptr.npy: has shape [6]", "expected [7]");
}

Test(dataset_npy, the_fingerprint_knows_the_edges_and_not_the_features)
{
    fixture_small();
    struct job job = fixture_job();
    char first[33], second[33];
    struct dataset dataset = loaded(&job);
    dataset_fingerprint(&dataset, true, first);
    dataset_release(&dataset);
    fixture_remove("features.npy");
    dataset = loaded(&job);
    dataset_fingerprint(&dataset, true, second);
    dataset_release(&dataset);
    cr_assert_str_eq(first, second);
    edges_are(1, (int64_t[]){0, 1});
    dataset = loaded(&job);
    dataset_fingerprint(&dataset, true, second);
    dataset_release(&dataset);
    cr_assert_str_neq(first, second);
}

/* The rows of the fixture's features, whichever way they are stored. */
static void features_are(const struct job *job, const float *expected)
{
    struct dataset dataset = loaded(job);
    float rows[18];
    dataset_feature_rows(&dataset, (uint32_t[]){0, 1, 2, 3, 4, 5}, 6, rows);
    for (int i = 0; i < 18; i++) {
        cr_assert_float_eq(rows[i], expected[i], 1e-6f, "value %d", i);
    }
    dataset_release(&dataset);
}

static const float diagonal[18] = {2, 0, 0, 0, -2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 3, 0, 0, 0};

static void sparse_write(const int64_t *indptr, const int64_t *indices, const float *data)
{
    const char meta[] = "{\"features\": 3, \"other\": [1, {\"x\": null}]}";
    fixture_i64("feat_indptr.npy", 1, (int64_t[]){7}, indptr);
    fixture_i64("feat_indices.npy", 1, (int64_t[]){5}, indices);
    fixture_f32("feat_data.npy", 1, (int64_t[]){5}, data);
    fixture_bytes("meta.json", meta, sizeof meta - 1);
}

Test(dataset_npy, sparse_rows_load_sorted_or_not)
{
    fixture_small();
    fixture_remove("features.npy");
    struct job job = fixture_job();
    sparse_write((int64_t[]){0, 1, 2, 3, 3, 5, 5}, (int64_t[]){0, 1, 2, 2, 0}, (float[]){2, -2, 4, 3, 1});
    features_are(&job, diagonal);
    sparse_write((int64_t[]){0, 1, 2, 3, 3, 5, 5}, (int64_t[]){0, 1, 2, 0, 2}, (float[]){2, -2, 4, 1, 3});
    features_are(&job, diagonal);
    job.dataset.normalize_features = JOB_NORMALIZE_ROW;
    features_are(&job, (float[]){1, 0, 0, 0, -1, 0, 0, 0, 1, 0, 0, 0, 0.25f, 0, 0.75f, 0, 0, 0});
}

Test(dataset_npy, sparse_rows_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_remove("features.npy");
    const int64_t indptr[] = {0, 1, 2, 3, 3, 5, 5}, indices[] = {0, 1, 2, 0, 2};
    const float data[] = {2, -2, 4, 1, 3};
    sparse_write(indptr, (int64_t[]){0, 1, 3, 0, 2}, data);
    bad("feat_indices.npy: row 2, entry 2: column 3", "expected 0 to 2");
    sparse_write(indptr, (int64_t[]){0, 1, -1, 0, 2}, data);
    bad("feat_indices.npy: row 2, entry 2: column -1", "expected 0 to 2");
    sparse_write(indptr, (int64_t[]){0, 1, 2, 2, 2}, data);
    bad("feat_indices.npy: row 4 has column 2 twice", "expected it once");
    sparse_write(indptr, indices, (float[]){2, -2, 4, NAN, 3});
    bad("feat_data.npy: row 4, column 0 is nan", "expected a finite number");
    sparse_write((int64_t[]){0, 1, 2, 3, 3, 5, 4}, indices, data);
    bad("feat_indptr.npy: ends at 4", "expected 5");
    sparse_write((int64_t[]){0, 1, 9, 3, 3, 5, 5}, indices, data);
    bad("feat_indptr.npy: row 1 goes from 1 to 9", "expected ascending offsets up to 5");
    sparse_write(indptr, indices, data);
    fixture_bytes("meta.json", "{}", 2);
    bad("meta.json: has no number \"features\"", "expected the columns");
    fixture_remove("meta.json");
    bad("meta.json: has no number \"features\"", "expected the columns");
}

Test(dataset_npy, dense_rows_of_zeros_are_stored_sparsely)
{
    enum { N = 40 };
    static float features[6 * N];
    features[3 * N + 7] = 8;
    fixture_small();
    fixture_f32("features.npy", 2, (int64_t[]){6, N}, features);
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_null(dataset.features_f32);
    cr_assert_eq(dataset.feature_indptr[6], 1);
    float rows[2 * N];
    dataset_feature_rows(&dataset, (uint32_t[]){3, 4}, 2, rows);
    cr_assert_arr_eq(rows, &features[3 * N], sizeof rows);
    dataset_release(&dataset);
}

Test(dataset_npy, other_number_types_become_float)
{
    fixture_small();
    const uint16_t halves[18] = {0x4000, 0x3c00, 0x3c00, 0x3c00, 0xc000, 0x3c00, 0x3c00, 0x3c00, 0x4400,
                                 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x4200, 0x3c00, 0x3c00, 0x3c00};
    const float expected[18] = {2, 1, 1, 1, -2, 1, 1, 1, 4, 1, 1, 1, 1, 1, 3, 1, 1, 1};
    struct job job = fixture_job();
    fixture_header("features.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (6, 3)}\n ", halves, sizeof halves);
    features_are(&job, expected);
    struct dataset dataset = loaded(&job);
    cr_assert_not_null(dataset.features_f16);
    dataset_release(&dataset);
    double doubles[18];
    for (int i = 0; i < 18; i++) {
        doubles[i] = (double)expected[i];
    }
    fixture_header("features.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3)}\n ", doubles, sizeof doubles);
    features_are(&job, expected);
    doubles[4] = 1e300;
    fixture_header("features.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3)}\n ", doubles, sizeof doubles);
    bad("features.npy: row 1, column 1 is 1e+300", "expected a finite number (float32)");
    job.dataset.normalize_features = JOB_NORMALIZE_ROW;
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, expected);
    features_are(&job, (float[]){.5f, .25f, .25f, .25f, -.5f, .25f, 1 / 6.f, 1 / 6.f, 4 / 6.f, 1 / 3.f, 1 / 3.f, 1 / 3.f,
                                 .2f, .2f, .6f, 1 / 3.f, 1 / 3.f, 1 / 3.f});
}

Test(dataset_npy, features_that_do_not_fit_are_refused)
{
    float features[18] = {0};
    fixture_small();
    features[5] = NAN;
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, features);
    bad("features.npy: row 1, column 2 is nan", "expected a finite number");
    features[5] = INFINITY;
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, features);
    bad("features.npy: row 1, column 2 is inf", "expected a finite number");
    fixture_f32("features.npy", 2, (int64_t[]){5, 3}, features);
    bad("labels.npy: has 6 rows, expected 5, the rows of ", "features.npy");
    fixture_bytes("meta.json", "{\"nodes\": 6}", 12);
    bad("features.npy: has shape [5, 3]", "expected [6, any]");
    fixture_f32("features.npy", 1, (int64_t[]){18}, features);
    bad("features.npy: has shape [18]", "expected [6, any]");
    fixture_f32("features.npy", 2, (int64_t[]){6, 0}, features);
    bad("features.npy: has 0 columns", "expected at least one");
}

Test(dataset_npy, edges_that_do_not_fit_are_refused)
{
    fixture_small();
    edges_are(2, (int64_t[]){0, 6, /**/ 1, 2});
    bad("edges.npy: column 1: source 6", "expected 0 to 5");
    edges_are(2, (int64_t[]){0, 5, /**/ -1, 2});
    bad("edges.npy: column 0: destination -1", "expected 0 to 5");
    fixture_i64("edges.npy", 2, (int64_t[]){3, 2}, (int64_t[]){0, 0, 0, 0, 0, 0});
    bad("edges.npy: has shape [3, 2]", "expected [2, any]");
    fixture_i64("edges.npy", 1, (int64_t[]){2}, (int64_t[]){0, 0});
    bad("edges.npy: has shape [2]", "expected [2, any]");
    fixture_f32("edges.npy", 2, (int64_t[]){2, 1}, (float[]){0, 1});
    bad("edges.npy: holds float32", "expected integers");
}

Test(dataset_npy, any_file_cut_at_any_byte_is_refused)
{
    static const char *const names[] = {"edges.npy", "features.npy", "labels.npy", "train_idx.npy", "test_idx.npy"};
    fixture_small();
    struct job job = fixture_job();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        char *bytes = fixture_read(names[i], &n);
        for (size_t cut = 0; cut < n; cut += cut < 128 ? 9 : 1) {
            fixture_bytes(names[i], bytes, cut);
            fixture_refused(&job, STATUS_DATA, names[i], "expected");
        }
        fixture_bytes(names[i], bytes, n);
        free(bytes);
    }
}

Test(dataset_npy, missing_files_are_named)
{
    static const char *const names[] = {"labels.npy", "train_idx.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture_small();
        fixture_remove(names[i]);
        struct job job = fixture_job();
        fixture_refused(&job, STATUS_NO_INPUT, names[i], "No such file");
    }
    fixture_small();
    fixture_remove("edges.npy");
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, folder, "expected a folder with edges.npy or indptr.npy");
    job.dataset.format = JOB_FORMAT_NPY;
    fixture_refused(&job, STATUS_NO_INPUT, "edges.npy", "No such file");
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s/nothing", folder);
    fixture_refused(&job, STATUS_NO_INPUT, "nothing", "No such file");
    job.dataset.path[0] = '\0';
    fixture_refused(&job, STATUS_CONFIG, "dataset.path", "expected a dataset folder or a generator");
}

Test(dataset_npy, valid_and_test_nodes_may_be_missing)
{
    fixture_small();
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_eq(dataset.n_split[DATASET_SPLIT_NONE], 4);
    dataset_release(&dataset);
}

Test(dataset_npy, labels_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, -2, 1, 0, 0});
    bad("labels.npy: node 2 has label -2", "expected -1 (none) or a class");
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0, 1, 0, 1, 0, 1});
    bad("labels.npy: holds float32", "expected integers");
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){-1, -1, -1, -1, -1, -1});
    bad("labels.npy: no node has a label", "expected at least one class");
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){-1, 1, 0, 1, 0, 0});
    bad("training node 0 has no label", "expected one");
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 1, 0, 0});
    fixture_bytes("meta.json", "{\"classes\": 2}", 14);
    bad("labels.npy: node 2 has label 2", "a class from 0 to 1");
    fixture_bytes("meta.json", "{\"nodes\": 7}", 12);
    bad("labels.npy: has 6 rows", "expected 7");
    fixture_bytes("meta.json", "{\"classes\": -1}", 15);
    bad("meta.json: \"classes\" is -1", "expected 0 to");
    fixture_bytes("meta.json", "{\"features\": 4}", 15);
    bad("features.npy: has shape [6, 3]", "expected [6, 4]");
    fixture_bytes("meta.json", "{\"classes\": 2,\n}", 16);
    bad("meta.json:2:1: ", "expected a JSON object");
    fixture_bytes("meta.json", "[1]", 3);
    bad("meta.json", "expected a JSON object");
}

Test(dataset_npy, labels_that_are_too_few_are_told_as_such)
{
    fixture_small();
    fixture_i64("labels.npy", 1, (int64_t[]){4}, (int64_t[]){0, 1, 0, 1});
    bad("labels.npy: has 4 rows, expected 6, the rows of ", "features.npy");
    fixture_remove("features.npy");
    bad("edges.npy: column 6: destination 4 is out of range, expected 0 to 3, the rows of labels.npy", "labels.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 2, 3, 4, 5, 5});
    fixture_i64("indices.npy", 1, (int64_t[]){5}, (int64_t[]){1, 2, 3, 4, 5});
    fixture_remove("edges.npy");
    bad("labels.npy: has 4 rows, expected 6, the rows of ", "indptr.npy");
}

Test(dataset_npy, labels_without_columns_are_refused_with_how_many_there_may_be)
{
    fixture_small();
    fixture_i64("labels.npy", 2, (int64_t[]){6, 0}, NULL);
    bad("labels.npy: has 0 label columns", "expected 1 to 16777216");
}

Test(dataset_npy, meta_may_name_more_classes_than_the_labels_use)
{
    fixture_small();
    fixture_bytes("meta.json", "{\"classes\": 5, \"name\": \"six\"}", 29);
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_eq(dataset.n_class, 5);
    cr_assert_str_eq(dataset.name, "six");
    dataset_release(&dataset);
}

Test(dataset_npy, a_name_is_cut_behind_a_whole_character_and_has_nothing_unprintable)
{
    char meta[256], wanted[128] = "a\\x1b";
    strcpy(meta, "{\"name\": \"a\\u001b");
    for (int i = 0; i < 70; i++) {
        strcat(meta, "\xc3\xa9");
    }
    while (strlen(wanted) + 2 < sizeof wanted) {
        strcat(wanted, "\xc3\xa9");
    }
    strcat(meta, "\"}");
    fixture_small();
    fixture_bytes("meta.json", meta, strlen(meta));
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_str_eq(dataset.name, wanted);
    dataset_release(&dataset);
}

Test(dataset_npy, edges_may_lie_pair_after_pair)
{
    const int64_t pairs[] = {0, 1, 1, 0, 1, 2, 2, 1, 2, 3, 3, 2, 3, 4, 4, 3, 4, 5, 5, 4};
    const uint32_t indices[] = {1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
    fixture_small();
    fixture_header("edges.npy", "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 10)}\n", pairs, sizeof pairs);
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    dataset_release(&dataset);
}

Test(dataset_npy, rows_of_labels_are_multi_label)
{
    fixture_small();
    struct job job = fixture_job();
    float rows[12] = {0, 1, 1, 1, NAN, 0, 0, 0, 1, 0, -1, -1};
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    struct dataset dataset = loaded(&job);
    cr_assert(dataset.multi_label && dataset.labels == NULL);
    cr_assert_eq(dataset.n_class, 2);
    cr_assert(dataset.label_rows[3] == 1 && isnan(dataset.label_rows[4]) && dataset.label_rows[5] == 0);
    cr_assert(isnan(dataset.label_rows[10]));
    dataset_release(&dataset);
    fixture_i64("labels.npy", 2, (int64_t[]){6, 2}, (int64_t[]){0, 1, 1, 1, -1, 0, 0, 0, 1, 0, -1, -1});
    dataset = loaded(&job);
    cr_assert(dataset.multi_label && isnan(dataset.label_rows[4]) && dataset.label_rows[2] == 1);
    dataset_release(&dataset);
    fixture_i64("labels.npy", 2, (int64_t[]){6, 1}, (int64_t[]){0, 1, 0, 1, 0, -1});
    dataset = loaded(&job);
    cr_assert(!dataset.multi_label && dataset.labels[5] == -1);
    dataset_release(&dataset);

    rows[7] = 0.5f;
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    bad("labels.npy: row 3, column 1 is 0.5", "expected 0, 1 or NaN");
    rows[7] = 0;
    rows[0] = rows[1] = NAN;
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    bad("training node 0 has no label", "expected one");
}

Test(dataset_npy, splits_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, (int64_t[]){3, 1});
    bad("test_idx.npy: entry 1: node 1 is in the train split already", "expected disjoint splits");
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, (int64_t[]){3, 3});
    bad("test_idx.npy: entry 1: node 3 is listed twice", "expected once");
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, (int64_t[]){3, 6});
    bad("test_idx.npy: entry 1: node 6 is out of range", "expected 0 to 5");
    fixture_header("test_idx.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (6,)}", "\0\0\0\1\1\0", 6);
    bad("test_idx.npy: holds bool", "expected node numbers");
    fixture_f32("test_idx.npy", 1, (int64_t[]){1}, (float[]){3});
    bad("test_idx.npy: holds float32", "expected integers");
    fixture_small();
    fixture_i64("train_idx.npy", 1, (int64_t[]){0}, NULL);
    bad("has no training nodes", "expected at least one");
}

Test(dataset_npy, no_nodes_is_an_error_and_one_node_is_not)
{
    fixture_small();
    fixture_i64("labels.npy", 1, (int64_t[]){0}, NULL);
    bad("labels.npy: has no nodes", "expected at least one");
    fixture_remove("features.npy");
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    fixture_i64("edges.npy", 2, (int64_t[]){2, 0}, NULL);
    fixture_i64("labels.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    struct job job = fixture_job();
    struct dataset dataset = loaded(&job);
    cr_assert(dataset.n_node == 1 && dataset.n_edge == 0 && dataset.symmetric);
    dataset_release(&dataset);
}
