/* The model that a prediction is made with: where it is found, and whose keys hold. */
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/model_source.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void begin(void)
{
    folder_make();
    cr_assert_eq(chdir(folder), 0);
}

TestSuite(model_source, .init = begin, .fini = folder_remove);

#define DATASET                                                                                                      \
    "{\"features\": 7, \"classes\": 3, \"multi_label\": false, \"edge_weights\": true, \"edge_features\": 2, "       \
    "\"relations\": "                                                                                                \
    "0, "                                                                                                            \
    "\"embedded_nodes\": 2, \"fingerprint\": \"00112233445566778899aabbccddeeff\"}"

/* A folder of results with this dataset and these lines of the job's file, as JSON has them. */
static void leave_model(const char *dataset, const char *job)
{
    char text[2048];
    snprintf(text, sizeof text, "{\"job_text\": \"[dataset]\\npath = \\\"d\\\"\\n%s\", \"dataset\": %s}\n", job,
             dataset);
    folder_write("result.json", text);
    folder_write("model.safetensors", "last");
    folder_write("best.safetensors", "best");
}

static struct model_source source;
static struct job own; /* that predicts */

static void refused(const char *model, enum status status, const char *reason)
{
    cr_assert_eq(model_source_open(model, &own, &source), status, "%s", status_reason());
    cr_assert_not_null(strstr(status_reason(), reason), "%s", status_reason());
}

Test(model_source, a_folder_is_its_best_weights_and_a_file_itself)
{
    leave_model(DATASET, "");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(source.weights, "./best.safetensors");
    cr_assert(source.model.n_feature == 7 && source.model.n_class == 3 && source.model.n_embedded == 2 &&
              source.weighted);
    cr_assert_eq(source.model.n_edge_feature, 2);
    cr_assert_str_eq(source.model.graph, "00112233445566778899aabbccddeeff");
    cr_assert_eq(model_source_open("model.safetensors", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(source.weights, "model.safetensors");
    cr_assert_str_eq(source.folder, ".");
    cr_assert_eq(unlink("best.safetensors"), 0);
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(source.weights, "./model.safetensors");
}

Test(model_source, what_is_no_model_is_refused_with_what_was_expected)
{
    refused("nowhere", STATUS_NO_INPUT,
            "predict.model: 'nowhere': No such file or directory, expected the folder of a training's");
    refused(".", STATUS_NO_INPUT, "predict.model: '.' has neither best.safetensors nor model.safetensors");
    folder_write("best.safetensors", "best");
    refused(".", STATUS_NO_INPUT, "expected the result.json of the training beside its weights");
    folder_write("result.json", "[]");
    refused(".", STATUS_DATA, "'./result.json' is no JSON object");
    folder_write("result.json", "{\"job_text\": 1}");
    refused(".", STATUS_DATA, "'./result.json': has no text job_text");
    leave_model("{\"features\": 0, \"classes\": 3, \"multi_label\": false}", "");
    refused(".", STATUS_DATA, "has no number dataset.features of at least 1");
    leave_model("{\"features\": 3, \"classes\": 3}", "");
    refused(".", STATUS_DATA, "has no number dataset.classes, or no dataset.multi_label");
    leave_model("{\"features\": 3, \"classes\": 3, \"multi_label\": true, \"relations\": -1}", "");
    refused(".", STATUS_DATA, "has no valid number dataset.relations");
    leave_model("{\"features\": 3, \"classes\": 3, \"multi_label\": true, \"edge_features\": \"x\"}", "");
    refused(".", STATUS_DATA,
            "has no valid number dataset.relations, dataset.embedded_nodes or dataset.edge_features");
    leave_model(DATASET, "[predict]\\nmodel = \\\"x\\\"");
    refused(".", STATUS_DATA, "is of a prediction, expected that of a training");
    leave_model(DATASET, "[model]\\nhiden = 3");
    refused(".", STATUS_CONFIG, "./result.json:4:1: unknown key 'hiden'");
}

Test(model_source, a_result_of_an_older_trainerd_has_neither_relations_nor_embeddings)
{
    leave_model("{\"features\": 7, \"classes\": 3, \"multi_label\": true}", "");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert(source.model.n_relation == 0 && source.model.n_embedded == 0 && source.model.multi_label &&
              !source.weighted);
    cr_assert_eq(source.model.n_edge_feature, 0);
    cr_assert_str_eq(source.model.graph, "");
    cr_assert_null(source.model.class_names);
}

Test(model_source, classes_may_have_names_as_many_as_there_are)
{
    leave_model("{\"features\": 7, \"classes\": 2, \"multi_label\": false, \"class_names\": [\"a\", \"b\"]}", "");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(source.model.class_names, "[\"a\",\"b\"]");
    leave_model("{\"features\": 7, \"classes\": 3, \"multi_label\": false, \"class_names\": [\"a\", \"b\"]}", "");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert_null(source.model.class_names);
}

static void job_of(const char *text, struct job *out)
{
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, out), STATUS_OK, "%s", status_reason());
}

Test(model_source, the_models_keys_hold_but_those_of_data_parts_workers_memory_and_output)
{
    static struct job job;
    leave_model(DATASET, "features = \\\"degree\\\"\\nundirected = \\\"yes\\\"\\nnormalize_features = "
                         "\\\"row\\\"\\n[model]\\nhidden = 5\\n[train]\\nseed = 9\\n"
                         "epochs = 40\\n[exchange]\\nprefetch = 3");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    job_of(
        "name = \"n\"\n[dataset]\npath = \"other\"\nundirected = \"no\"\n[partition]\nparts = 6\n[model]\nhidden = "
        "32\n[train]\n"
        "seed = 2\n[exchange]\nprefetch = 2\n[workers]\ncount = 3\n[output]\ndir = \"o\"\ntensorboard = "
        "true\n[predict]\n"
        "model = \".\"",
        &job);
    model_source_apply(&source, &job);
    cr_assert(job.model.hidden == 5 && job.train.seed == 9 && job.train.epochs == 0);
    cr_assert_eq(job.dataset.undirected, JOB_SWITCH_YES);
    cr_assert_eq(job.dataset.normalize_features, JOB_NORMALIZE_ROW);
    cr_assert_eq(job.dataset.edge_weights, JOB_SWITCH_YES, "the model's graph had weights");
    cr_assert_eq(job.dataset.edge_features, JOB_SWITCH_YES, "and features of edges");
    cr_assert_eq(job.dataset.features, JOB_WORD(JOB_FEATURES_DEGREE));
    cr_assert_str_eq(job.dataset.path, "other");
    cr_assert_str_eq(job.job.name, "n");
    cr_assert_str_eq(job.output.dir, "o");
    cr_assert(job.partition.parts == 6 && job.workers.count == 3 && job.exchange.prefetch == 2 &&
              !job.output.tensorboard);
    cr_assert(job_predicts(&job));
}

Test(model_source, a_prediction_is_exact_and_has_covers_where_the_training_had_some)
{
    static struct job job;
    static const char text[] = "[dataset]\npath = \"d\"\n[exchange]\ncodec = \"int8\"\n[predict]\nmodel = \".\"";
    leave_model(DATASET, "[exchange]\\nsampling = 0.1\\nstore_inputs = false");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    job_of(text, &job);
    model_source_apply(&source, &job);
    cr_assert(job.exchange.sampling == 1.0 && !job.exchange.cover && !job.exchange.store_inputs);
    cr_assert_str_eq(job.exchange.codec, "fp32");
    leave_model(DATASET, "");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    job_of(text, &job);
    model_source_apply(&source, &job);
    cr_assert(job.exchange.cover && job.exchange.store_inputs);
    leave_model(DATASET, "[model]\\nkernel = \\\"cusparse\\\"");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    job_of(text, &job);
    model_source_apply(&source, &job);
    cr_assert(!job.exchange.cover, "sums of a library have none");
    cr_assert_eq(job.model.kernel, JOB_KERNEL_OWN, "what makes sums is the prediction's own choice");
}

Test(model_source, a_model_of_links_has_outputs_and_its_task_holds)
{
    static struct job job;
    leave_model("{\"features\": 7, \"outputs\": 6, \"multi_label\": false}",
                "[task]\\nkind = \\\"link\\\"\\nchannels = 6\\nseed = 3");
    cr_assert_eq(model_source_open(".", &own, &source), STATUS_OK, "%s", status_reason());
    cr_assert(source.model.of_links && source.model.n_class == 6 && !source.model.regression &&
              !source.model.multi_label);
    job_of("[dataset]\npath = \"d\"\n[predict]\nmodel = \".\"\npairs = \"p\"", &job);
    model_source_apply(&source, &job);
    cr_assert(job_predicts_links(&job) && job.task.channels == 6 && job.task.seed == 3);
    cr_assert_str_eq(job.predict.pairs, "p");
    leave_model(DATASET, "[task]\\nkind = \\\"link\\\"");
    refused(".", STATUS_DATA, "has no number dataset.outputs, or no dataset.multi_label");
}
