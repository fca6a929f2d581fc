/* Labels, classes and splits of npy folders: what is loaded and what is refused. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(dataset_labels, .init = folder_make, .fini = fixture_end);

static void bad(const char *where, const char *expected)
{
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, where, expected);
}

Test(dataset_labels, valid_and_test_nodes_may_be_missing)
{
    fixture_small();
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_NONE], 4);
}

Test(dataset_labels, labels_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, -2, 1, 0, 0});
    bad("labels.npy: node 2 has label -2", "expected -1 (none) or a class");
    bad("labels.npy: node 2", "; numbers to be predicted need train.loss = \"mse\"");
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0, 1, 0, 1, 0, 1});
    bad("labels.npy: holds float32",
        "expected integers, a class for each node; numbers to be predicted need train.loss");
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

Test(dataset_labels, labels_that_are_too_few_are_told_as_such)
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

Test(dataset_labels, labels_without_columns_are_refused_with_how_many_there_may_be)
{
    fixture_small();
    fixture_i64("labels.npy", 2, (int64_t[]){6, 0}, NULL);
    bad("labels.npy: has 0 label columns", "expected 1 to 16777216");
}

Test(dataset_labels, meta_may_name_more_classes_than_the_labels_use)
{
    fixture_small();
    fixture_bytes("meta.json", "{\"classes\": 5, \"name\": \"six\"}", 29);
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.facts.n_class, 5);
    cr_assert_str_eq(dataset.name, "six");
}

Test(dataset_labels, rows_of_labels_are_multi_label)
{
    fixture_small();
    struct job job = fixture_job();
    float rows[12] = {0, 1, 1, 1, NAN, 0, 0, 0, 1, 0, -1, -1};
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.facts.multi_label && dataset.labels.classes == NULL);
    cr_assert_eq(dataset.facts.n_class, 2);
    cr_assert(dataset.labels.rows[3] == 1 && isnan(dataset.labels.rows[4]) && dataset.labels.rows[5] == 0);
    cr_assert(isnan(dataset.labels.rows[10]));
    fixture_i64("labels.npy", 2, (int64_t[]){6, 2}, (int64_t[]){0, 1, 1, 1, -1, 0, 0, 0, 1, 0, -1, -1});
    dataset = fixture_loaded(&job);
    cr_assert(dataset.facts.multi_label && isnan(dataset.labels.rows[4]) && dataset.labels.rows[2] == 1);
    fixture_i64("labels.npy", 2, (int64_t[]){6, 1}, (int64_t[]){0, 1, 0, 1, 0, -1});
    dataset = fixture_loaded(&job);
    cr_assert(!dataset.facts.multi_label && dataset.labels.classes[5] == -1);

    rows[7] = 0.5f;
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    bad("labels.npy: row 3, column 1 is 0.5", "expected 0, 1 or NaN");
    fixture_f32("labels.npy", 2, (int64_t[]){6, 1}, (float[]){0, 1, 2, 1, 0, 1});
    bad("labels.npy: row 2, column 0 is 2",
        "classes, one a node, are integers, as labels.astype(\"int64\") makes them");
    rows[7] = 0;
    rows[0] = rows[1] = NAN;
    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, rows);
    bad("training node 0 has no label", "expected one");
}

Test(dataset_labels, one_hot_rows_are_several_labels_with_a_remark)
{
    const float rows[] = {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, NAN, NAN, NAN};
    float others[18];
    fixture_small();
    struct job job = fixture_job();
    fixture_f32("labels.npy", 2, (int64_t[]){6, 3}, rows);
    const char *log = fixture_remarks(&job);
    cr_assert(
        strstr(log,
               "labels.npy: each row with labels has one 1, as one-hot labels have, and is taken for 3 labels") !=
                NULL &&
            strstr(log, "one label a node is an array of [6] integers, numpy.argmax(labels, 1)") != NULL,
        "%s", log);
    const float changed[] = {1, NAN, 0}; /* a second 1; not known; none */
    for (int i = 0; i < 3; i++) {
        memcpy(others, rows, sizeof rows);
        others[i == 2 ? 1 : 2] = changed[i];
        fixture_f32("labels.npy", 2, (int64_t[]){6, 3}, others);
        cr_assert_str_eq(fixture_remarks(&job), "");
    }
}

Test(dataset_labels, classes_without_a_node_are_remarked_on)
{
    fixture_small();
    struct job job = fixture_job();
    cr_assert_str_eq(fixture_remarks(&job), "");
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 255, 1, 2, -1});
    const char *log = fixture_remarks(&job);
    cr_assert(
        strstr(log,
               "labels.npy: the largest label is 255, which makes 256 classes, 252 of them without a node; a node "
               "without a label has -1") != NULL,
        "%s", log);
    fixture_bytes("meta.json", "{\"classes\": 256}", 16);
    cr_assert_str_eq(fixture_remarks(&job), "", "as many as are meant");
    snprintf(job.predict.model, sizeof job.predict.model, "model");
    fixture_remove("meta.json");
    cr_assert_str_eq(fixture_remarks(&job), "", "a model says how many there are");
}

Test(dataset_labels, splits_that_do_not_fit_are_refused)
{
    fixture_small();
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, (int64_t[]){3, 1});
    bad("test_idx.npy: entry 1: node 1 is in the train split already",
        "expected training nodes to be in no other split");
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

/* --- numbers to be predicted --- */

static struct job regression(void)
{
    struct job job = fixture_job();
    job.train.loss = JOB_LOSS_MSE;
    fixture_small();
    return job;
}

Test(dataset_labels, labels_are_numbers_where_the_loss_is_of_numbers)
{
    const struct job job = regression();
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0.5F, -3.25F, 0, 1e6F, NAN, NAN});
    struct dataset dataset = fixture_loaded(&job);
    cr_expect(dataset.regression && dataset.facts.multi_label && dataset.labels.classes == NULL);
    cr_expect_eq(dataset.facts.n_class, 1);
    cr_expect(dataset.labels.rows[1] == -3.25F && dataset.labels.rows[3] == 1e6F && isnan(dataset.labels.rows[4]));
    cr_expect_eq(dataset.labels.loss_weight, 2.0, "two training nodes, a number each");

    fixture_f32("labels.npy", 2, (int64_t[]){6, 2}, (float[]){1, 2, 3, NAN, 5, 6, 7, 8, 9, 10, NAN, NAN});
    dataset = fixture_loaded(&job);
    cr_expect_eq(dataset.facts.n_class, 2);
    cr_expect_eq(dataset.labels.loss_weight, 3.0, "one of the four numbers of training nodes is not known");

    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){7, -1, 0, 0, 0, 0});
    dataset = fixture_loaded(&job);
    cr_expect(dataset.labels.rows[0] == 7.0F && dataset.labels.rows[1] == -1.0F,
              "a whole number is a number: -1, too");
}

Test(dataset_labels, numbers_that_do_not_fit_are_refused)
{
    const struct job job = regression();
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0, 1, INFINITY, 1, 0, 1});
    fixture_refused(&job, STATUS_DATA, "labels.npy: row 2, column 0 is inf",
                    "expected a finite float32, or NaN (none)");
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0, NAN, 1, 1, 0, 1});
    fixture_refused(&job, STATUS_DATA, "training node 1 has no label", "expected one");
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){NAN, NAN, NAN, NAN, NAN, NAN});
    fixture_refused(&job, STATUS_DATA, "no node has a label", "at least one number");
    fixture_f32("labels.npy", 2, (int64_t[]){5, 1}, (float[]){0, 1, 1, 1, 1});
    fixture_refused(&job, STATUS_DATA, "labels.npy: has 5 rows", "expected 6");
    fixture_f32("labels.npy", 2, (int64_t[]){6, 0}, NULL);
    fixture_refused(&job, STATUS_DATA, "labels.npy: has 0 label columns", "expected 1 at least");
    fixture_f32("labels.npy", 1, (int64_t[]){6}, (float[]){0, 1, 0, 1, 0, 1});
    fixture_bytes("meta.json", "{\"classes\": 3}", 14);
    fixture_refused(&job, STATUS_DATA, "labels.npy: has 1 label columns", "expected 3, the \"classes\" of meta.json");
}

Test(dataset_labels, numbers_are_of_npy_folders)
{
    struct job job = regression();
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path("graph.npz"));
    fixture_bytes("graph.npz", "PK", 2);
    fixture_refused(&job, STATUS_CONFIG, "graph.npz' has classes", "expected an npy folder");
    job.dataset.path[0] = '\0';
    job.dataset.generator = JOB_GENERATOR_SBM;
    fixture_refused(&job, STATUS_CONFIG, "dataset.generator makes classes", "expected dataset.path");
}
