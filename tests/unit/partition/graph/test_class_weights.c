/* train.class_weights: balanced as scikit-learn does it, from a file, and what is refused. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

TestSuite(class_weights, .init = folder_make, .fini = fixture_end);

/* Four classes; of the training nodes three are of class 0, one of class 2, none of classes 1 and 3. */
static struct job uneven(const char *how)
{
    struct job job = fixture_job();
    snprintf(job.train.class_weights, sizeof job.train.class_weights, "%s", how); /* which may be folder_path's */
    fixture_small();
    fixture_bytes("meta.json", "{\"classes\": 4}", 14);
    fixture_i64("labels.npy", 1, (int64_t[]){6}, (int64_t[]){0, 0, 2, 0, 1, -1});
    fixture_i64("train_idx.npy", 1, (int64_t[]){4}, (int64_t[]){0, 1, 2, 3});
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    return job;
}

Test(class_weights, there_are_none_by_default)
{
    fixture_small();
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_expect_null(dataset.labels.class_weights);
    cr_expect_eq(dataset.labels.loss_weight, 0.0);
}

Test(class_weights, balanced_ones_give_each_class_that_is_trained_on_the_same_share)
{
    const struct job job = uneven("balanced");
    struct dataset dataset = fixture_loaded(&job);
    /* 4 / (2 · 3) and 4 / (2 · 1) */
    const float expected[] = {4.0F / 6.0F, 1.0F, 2.0F, 1.0F};
    cr_expect_arr_eq(dataset.labels.class_weights, expected, sizeof expected);
    cr_expect_eq(dataset.labels.loss_weight, 3.0 * expected[0] + 2.0);
}

Test(class_weights, balanced_ones_of_several_labels_are_negatives_over_positives)
{
    struct job job = uneven("balanced");
    fixture_remove("meta.json");
    const float rows[] = {1, 0, 0, 0, 0, NAN, 0, 0, 1, 0, NAN, 0, 1, 1, 1, 1, 1, 1};
    fixture_f32("labels.npy", 2, (int64_t[]){6, 3}, rows);
    struct dataset dataset = fixture_loaded(&job);
    const float expected[] = {3.0F, 1.0F, 2.0F}; /* label 1 has no positive training node */
    cr_expect_arr_eq(dataset.labels.class_weights, expected, sizeof expected);
    cr_expect_eq(dataset.labels.loss_weight, 10.0, "the mean is over the labels that are there");
}

Test(class_weights, a_file_has_one_for_each_class)
{
    const struct job job = uneven(folder_path("weights.npy"));
    const float given[] = {0.5F, 0.0F, 4.0F, 1.0F};
    fixture_f32("weights.npy", 1, (int64_t[]){4}, given);
    struct dataset dataset = fixture_loaded(&job);
    cr_expect_arr_eq(dataset.labels.class_weights, given, sizeof given);
    cr_expect_eq(dataset.labels.loss_weight, 5.5);
}

Test(class_weights, a_prediction_has_none)
{
    struct job job = uneven("nowhere.npy");
    snprintf(job.predict.model, sizeof job.predict.model, "model");
    struct dataset dataset = fixture_loaded(&job);
    cr_expect_null(dataset.labels.class_weights);
}

Test(class_weights, files_that_do_not_fit_are_refused)
{
    const struct job job = uneven(folder_path("weights.npy"));
    fixture_refused(&job, STATUS_NO_INPUT, "weights.npy", "No such file");
    fixture_f32("weights.npy", 1, (int64_t[]){3}, (float[]){1, 1, 1});
    fixture_refused(&job, STATUS_DATA, "weights.npy: has shape [3]", "expected [4]");
    fixture_f32("weights.npy", 1, (int64_t[]){4}, (float[]){1, 1, -0.5F, 1});
    fixture_refused(&job, STATUS_DATA, "weights.npy: class 2 has weight -0.5", "not negative");
    fixture_f32("weights.npy", 1, (int64_t[]){4}, (float[]){1, NAN, 1, 1});
    fixture_refused(&job, STATUS_DATA, "weights.npy: class 1 has weight", "finite");
    fixture_f32("weights.npy", 1, (int64_t[]){4}, (float[]){0, 1, 0, 1});
    fixture_refused(&job, STATUS_DATA, "all training nodes", "weight above 0");
}
