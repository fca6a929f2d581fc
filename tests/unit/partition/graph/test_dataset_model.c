/* Data sets that a trained model predicts for: without labels and splits, and what does not fit the model. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(dataset_model, .init = folder_make, .fini = fixture_end);

static struct dataset_model model = {.folder = "runs/m", .n_feature = 3, .n_class = 4, .graph = ""};

static struct job predicting(void)
{
    struct job job = fixture_job();
    snprintf(job.predict.model, sizeof job.predict.model, "runs/m");
    return job;
}

static void remove_labels(void)
{
    static const char *const names[] = {"labels.npy", "train_idx.npy", "valid_idx.npy", "test_idx.npy"};
    for (size_t i = 0; i < 4; i++) {
        fixture_remove(names[i]);
    }
}

static void refused(const char *reason)
{
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    snprintf(dataset.name, sizeof dataset.name, "small"); /* the test's folder has a name that no one knows before */
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_DATA);
    cr_assert_str_eq(status_reason(), reason);
}

Test(dataset_model, neither_labels_nor_splits_are_needed)
{
    fixture_small();
    remove_labels();
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_NO_INPUT, "labels.npy", "");
    job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert(dataset.n_node == 6 && dataset.facts.n_class == 4 && !dataset.facts.multi_label);
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_NONE], 6);
    for (int64_t node = 0; node < 6; node++) {
        cr_assert_eq(dataset.labels.classes[node], -1);
    }
}

Test(dataset_model, without_labels_a_model_of_several_has_them_unknown)
{
    fixture_small();
    remove_labels();
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    model.multi_label = true;
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert(dataset.facts.multi_label && dataset.labels.classes == NULL);
    for (int i = 0; i < 6 * 4; i++) {
        cr_assert(isnan(dataset.labels.rows[i]));
    }
}

Test(dataset_model, labels_that_are_there_may_have_fewer_classes_than_the_model)
{
    fixture_small();
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.facts.n_class, 2);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert(dataset.facts.n_class == 4 && dataset.labels.classes[1] == 1 &&
              dataset.labels.n_split[DATASET_SPLIT_TRAIN] == 2);
}

Test(dataset_model, labels_without_splits_belong_to_no_split)
{
    fixture_small();
    fixture_remove("train_idx.npy");
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_NONE], 6);
    cr_assert_eq(dataset.labels.classes[1], 1);
}

Test(dataset_model, what_does_not_fit_the_model_is_named_with_both_numbers)
{
    fixture_small();
    model.n_feature = 5;
    refused("dataset 'small' has 3 feature columns, expected 5, as many as the model in 'runs/m' was trained with");
    model.n_feature = 3;
    model.n_class = 1;
    refused("dataset 'small': node 1 has label 1, expected one of the 1 classes of the model in 'runs/m'");
    model.n_class = 4;
    model.multi_label = true;
    refused("dataset 'small' has one label per node, and the model in 'runs/m' was trained for several");
    model.multi_label = false;
    model.n_relation = 3;
    refused("dataset 'small' has 0 relations, expected 3, as many as the model in 'runs/m' was trained with "
            "(\"relations\" in meta.json says how many there are)");
}

Test(dataset_model, classes_have_the_names_and_the_order_of_the_training)
{
    fixture_small();
    struct job job = predicting();
    model.class_names = "[\"a\",\"b\",\"c\",\"d\"]";
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(dataset.labels.class_names, model.class_names);
    folder_write("class_names.json", "[\"b\", \"a\"]");
    refused("dataset 'small': class_names.json has [\"b\",\"a\"], expected [\"a\",\"b\",\"c\",\"d\"] as in the "
            "training of the model in 'runs/m'");
    model.class_names = NULL;
    dataset = fixture_loaded(&job);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(dataset.labels.class_names, "[\"b\",\"a\"]");
}

Test(dataset_model, embeddings_of_nodes_ask_for_the_same_graph)
{
    fixture_small();
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    char graph[33];
    dataset_fingerprint(&dataset, true, graph);
    model.n_embedded = 2;
    model.graph = "0123";
    refused("dataset 'small' is another graph than the model in 'runs/m' was trained on, and the model has "
            "embeddings of 2 nodes of that graph: expected the same graph");
    model.of_links = true;
    refused(
        "dataset 'small' has 0 nodes with embeddings, expected the 2 that the model in 'runs/m' was trained with");
}

Test(dataset_model, a_model_that_takes_labels_wants_training_nodes_with_labels)
{
    fixture_small();
    model.label_input = true;
    struct job job = predicting();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset_fit_model(&dataset, &model), STATUS_OK, "%s", status_reason());
    const int64_t train[] = {0, 5};
    fixture_i64("train_idx.npy", 1, (int64_t[]){2}, train);
    refused("dataset 'small': training node 5 has no label, expected one: the model in 'runs/m' takes them as input "
            "(model.label_input)");
    remove_labels();
    refused("dataset 'small' has no training nodes, expected some with their labels: the model in 'runs/m' takes "
            "these as input (model.label_input)");
}

Test(dataset_model, without_labels_the_number_of_nodes_is_that_of_the_features_or_of_meta_json)
{
    fixture_small();
    remove_labels();
    fixture_remove("features.npy");
    struct job job = predicting();
    fixture_refused(&job, STATUS_NO_INPUT, "nothing says how many nodes there are",
                    "the number \"nodes\" in meta.json");
    folder_write("meta.json", "{\"nodes\": 9}");
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.n_node, 9);
}
