/* Rows of features in npy folders, dense and sparse: what is loaded and what is refused. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>

TestSuite(dataset_features, .init = folder_make, .fini = fixture_end);

static void bad(const char *where, const char *expected)
{
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, where, expected);
}

/* The rows of the fixture's features, whichever way they are stored. */
static void features_are(const struct job *job, const float *expected)
{
    struct dataset dataset = fixture_loaded(job);
    float rows[18];
    dataset_feature_rows(&dataset, (uint32_t[]){0, 1, 2, 3, 4, 5}, 6, rows);
    for (int i = 0; i < 18; i++) {
        cr_assert_float_eq(rows[i], expected[i], 1e-6f, "value %d", i);
    }
}

static const float diagonal[18] = {2, 0, 0, 0, -2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 3, 0, 0, 0};

static void sparse_write(const int64_t *indptr, const int64_t *indices, const float *data)
{
    fixture_i64("feat_indptr.npy", 1, (int64_t[]){7}, indptr);
    fixture_i64("feat_indices.npy", 1, (int64_t[]){5}, indices);
    fixture_f32("feat_data.npy", 1, (int64_t[]){5}, data);
    fixture_bytes("meta.json", "{\"features\": 3, \"other\": [1, {\"x\": null}]}", 42);
}

Test(dataset_features, sparse_rows_load_sorted_or_not)
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

Test(dataset_features, sparse_rows_that_do_not_fit_are_refused)
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

Test(dataset_features, dense_rows_of_zeros_are_stored_sparsely)
{
    enum { N = 40 };
    static float features[6 * N];
    features[3 * N + 7] = 8;
    fixture_small();
    fixture_f32("features.npy", 2, (int64_t[]){6, N}, features);
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_null(dataset.features.f32);
    cr_assert_eq(dataset.features.indptr[6], 1);
    float rows[2 * N];
    dataset_feature_rows(&dataset, (uint32_t[]){3, 4}, 2, rows);
    cr_assert_arr_eq(rows, &features[3 * N], sizeof rows);
}

Test(dataset_features, other_number_types_become_float)
{
    fixture_small();
    const uint16_t halves[18] = {0x4000, 0x3c00, 0x3c00, 0x3c00, 0xc000, 0x3c00, 0x3c00, 0x3c00, 0x4400,
                                 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x4200, 0x3c00, 0x3c00, 0x3c00};
    const float expected[18] = {2, 1, 1, 1, -2, 1, 1, 1, 4, 1, 1, 1, 1, 1, 3, 1, 1, 1};
    struct job job = fixture_job();
    fixture_header("features.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (6, 3)}\n ", halves,
                   sizeof halves);
    features_are(&job, expected);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_not_null(dataset.features.f16);
    double doubles[18];
    for (int i = 0; i < 18; i++) {
        doubles[i] = (double)expected[i];
    }
    fixture_header("features.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3)}\n ", doubles,
                   sizeof doubles);
    features_are(&job, expected);
    doubles[4] = 1e300;
    fixture_header("features.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (6, 3)}\n ", doubles,
                   sizeof doubles);
    bad("features.npy: row 1, column 1 is 1e+300", "expected a finite number (float32)");
    job.dataset.normalize_features = JOB_NORMALIZE_ROW;
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, expected);
    features_are(&job, (float[]){.5f, .25f, .25f, .25f, -.5f, .25f, 1 / 6.f, 1 / 6.f, 4 / 6.f, 1 / 3.f, 1 / 3.f,
                                 1 / 3.f, .2f, .2f, .6f, 1 / 3.f, 1 / 3.f, 1 / 3.f});
}

/* As pandas' to_numpy() and numpy.asfortranarray give them. */
Test(dataset_features, columns_may_lie_one_after_another)
{
    fixture_small();
    const float expected[18] = {2, 1, 1, 1, -2, 1, 1, 1, 4, 1, 1, 1, 1, 1, 3, 1, 1, 1};
    const float floats[18] = {2, 1, 1, 1, 1, 1, 1, -2, 1, 1, 1, 1, 1, 1, 4, 1, 3, 1};
    const uint16_t halves[18] = {0x4000, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0xc000, 0x3c00,
                                 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x4400, 0x3c00, 0x4200, 0x3c00};
    struct job job = fixture_job();
    fixture_header("features.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (6, 3)}\n  ", floats,
                   sizeof floats);
    features_are(&job, expected);
    fixture_header("features.npy", "{'descr': '<f2', 'fortran_order': True, 'shape': (6, 3)}\n  ", halves,
                   sizeof halves);
    features_are(&job, expected);
}

Test(dataset_features, features_that_do_not_fit_are_refused)
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

/* Six nodes, edges 0-1, 1-2 and so on both ways, and 5 -> 0 one way. */
static struct job without_features(int word)
{
    const int64_t edges[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 2, /* sources */
                             1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 0, 2};
    fixture_small();
    fixture_i64("edges.npy", 2, (int64_t[]){2, 12}, edges);
    fixture_remove("features.npy");
    struct job job = fixture_job();
    job.dataset.features = word;
    return job;
}

Test(dataset_features, degrees_make_columns_loops_left_out)
{
    struct job job = without_features(JOB_WORD(JOB_FEATURES_DEGREE));
    struct dataset dataset = fixture_loaded(&job);
    const float in[] = {2, 2, 2, 2, 2, 1}, out[] = {1, 2, 2, 2, 2, 2};
    float rows[18];
    cr_assert_eq(dataset.facts.n_feature, 3);
    dataset_feature_rows(&dataset, (uint32_t[]){0, 1, 2, 3, 4, 5}, 6, rows);
    for (int i = 0; i < 6; i++) {
        cr_expect_eq(rows[3 * i], 1.0f);
        cr_expect_float_eq(rows[3 * i + 1], logf(1 + in[i]), 1e-6f, "node %d", i);
        cr_expect_float_eq(rows[3 * i + 2], logf(1 + out[i]), 1e-6f, "node %d", i);
    }
    job.dataset.normalize_features = JOB_NORMALIZE_ROW;
    dataset = fixture_loaded(&job);
    dataset_feature_rows(&dataset, (uint32_t[]){5}, 1, rows);
    cr_expect_float_eq(rows[0] + rows[1] + rows[2], 1.0f, 1e-6f);
}

Test(dataset_features, a_column_for_each_node_is_one_entry_for_each_node)
{
    static const int words[] = {JOB_FEATURES_ONE_HOT, JOB_FEATURES_LEARNED};
    for (int w = 0; w < 2; w++) {
        struct job job = without_features(JOB_WORD(words[w]));
        struct dataset dataset = fixture_loaded(&job);
        cr_assert_eq(dataset.facts.n_feature, 6);
        cr_assert_null(dataset.features.f32);
        cr_assert_eq(dataset.features.indptr[6], 6);
        cr_assert_eq(embedded_count(&dataset.features.embedded), 6);
        for (int64_t node = 0; node < 6; node++) {
            cr_expect_eq(dataset.features.indices[node], node);
            cr_expect_eq(dataset.features.data[node], 1.0f);
            cr_expect(dataset_is_embedded(&dataset, node));
        }
    }
}

Test(dataset_features, features_made_of_the_graph_take_the_place_of_those_of_the_data_and_of_generators)
{
    float bad_values[18] = {NAN};
    fixture_small();
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, bad_values);
    struct job job = fixture_job();
    job.dataset.features = JOB_WORD(JOB_FEATURES_DEGREE);
    struct dataset dataset = fixture_loaded(&job);
    cr_expect_eq(dataset.facts.n_feature, 3);
    static const int generators[] = {JOB_GENERATOR_KARATE, JOB_GENERATOR_SBM, JOB_GENERATOR_RMAT};
    for (int g = 0; g < 3; g++) {
        struct dataset own;
        job_defaults(&job);
        job.dataset.generator = generators[g];
        job.dataset.nodes = 64;
        own = fixture_loaded(&job);
        job.dataset.features = JOB_WORD(JOB_FEATURES_ONE_HOT);
        dataset = fixture_loaded(&job);
        cr_expect_eq(dataset.facts.n_feature, dataset.n_node);
        cr_expect_eq(embedded_count(&dataset.features.embedded), dataset.n_node);
        cr_expect_arr_eq(dataset.labels.classes, own.labels.classes,
                         (size_t)own.n_node * sizeof *own.labels.classes); /* which are of features */
    }
}
