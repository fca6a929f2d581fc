/* Runs by their settings: what is put together, in which order, and the numbers. */
#include "trainerd/ctl/experiments/settings.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_MOST = 8 };

static struct run run[N_MOST];
static struct job job[N_MOST];
static struct runs runs = {.run = run};
static struct settings settings;

static void end(void)
{
    settings_release(&settings);
}

TestSuite(settings, .fini = end);

/* One more run, of a job file; valid NaN: it has no result. */
static void add(const char *text, enum job_metric metric, double valid, double test)
{
    cr_assert_eq(job_load_text(text, strlen(text), "job.toml", NULL, 0, &job[runs.n]), STATUS_OK, "%s",
                 status_reason());
    run[runs.n] = (struct run){.settings = &job[runs.n],
                               .folder = "folder",
                               .metric = metric,
                               .valid = valid,
                               .test = test,
                               .best_epoch = 3,
                               .seconds = NAN};
    runs.n++;
}

static void build(void)
{
    cr_assert_eq(settings_build(&runs, &settings), STATUS_OK, "%s", status_reason());
}

#define DATA "[dataset]\ngenerator = \"sbm\"\n"

Test(settings, a_sample_has_a_mean_and_the_deviation_of_a_sample)
{
    struct sample some = sample_make((const double[]){2, NAN, 4, 4, 4, 5, 5, 7, 9}, 9);
    cr_expect_eq(some.n, 8);
    cr_expect_eq(some.mean, 5);
    cr_expect_float_eq(some.std, sqrt(32.0 / 7.0), 1e-15);
    struct sample one = sample_make((const double[]){2}, 1), none = sample_make((const double[]){NAN}, 1);
    cr_expect(one.n == 1 && one.mean == 2 && isnan(one.std));
    cr_expect(none.n == 0 && isnan(none.mean) && isnan(none.std));
}

Test(settings, runs_that_differ_in_name_output_seeds_and_split_are_one_setting)
{
    add("name = \"a\"\n" DATA "seed = 1\n[train]\nseed = 1\n[partition]\nparts = 2\nseed = 1\n", JOB_METRIC_ACCURACY,
        0.5, 0.25);
    add("name = \"b\"\n" DATA
        "seed = 2\n[train]\nseed = 2\n[partition]\nparts = 2\nseed = 7\n[output]\ndir = \"x\"\ntrace = true\n",
        JOB_METRIC_ACCURACY, 0.7, 0.75);
    build();
    cr_assert_eq(settings.n, 1);
    cr_assert_eq(settings.setting[0].n_run, 2);
    cr_expect_float_eq(settings.setting[0].valid.mean, 0.6, 1e-15);
    cr_expect_eq(settings.setting[0].test.mean, 0.5);
    cr_expect_eq(settings.n_differs, 0);
    cr_assert_eq(settings.n_varies, 3);
    cr_expect(settings.varies[0] == JOB_KEY_dataset_seed && settings.varies[1] == JOB_KEY_partition_seed &&
              settings.varies[2] == JOB_KEY_train_seed);
}

/* A program is its text and its arguments, wherever the text came from. */
static void add_program(const char *behind, double slope, int seed)
{
    char text[512];
    snprintf(text, sizeof text,
             DATA "[model]\nkind = \"program\"\nprogram = '''def layer(v, out, slope):\n    return "
                  "leaky_relu(linear(\"a\", v.x, out), slope)%s'''\n[model.args]\nslope = %f\n[train]\nseed = %d\n",
             behind, slope, seed);
    add(text, JOB_METRIC_ACCURACY, 0.5, 0.5);
}

Test(settings, programs_differ_by_their_texts_and_arguments)
{
    char *value[4];
    add_program("", 0.5, 1);
    add_program("", 0.25, 1);
    add_program("", 0.5, 2);
    add_program(" ", 0.5, 1);
    build();
    cr_assert_eq(settings.n, 3);
    cr_assert(settings.n_differs == 1 && settings.differs[0] == JOB_KEY_model_program);
    for (size_t i = 0; i < 4; i++) {
        value[i] = run_value(&run[i], JOB_KEY_model_program);
    }
    cr_expect_str_eq(value[0], value[2]);
    cr_expect_str_eq(value[1] + 8, " slope = 0.25");
    cr_expect(strncmp(value[0], value[1], 8) == 0 && strncmp(value[0], value[3], 8) != 0, "%s %s", value[0],
              value[3]);
    for (size_t i = 0; i < 4; i++) {
        free(value[i]);
    }
}

Test(settings, the_best_validation_metric_comes_first_whatever_the_test_metric_is)
{
    add(DATA "[train]\nlr = 0.1\n", JOB_METRIC_ACCURACY, 0.5, 0.9);
    add(DATA "[train]\nlr = 0.2\n", JOB_METRIC_AUTO, NAN, NAN);
    add(DATA "[train]\nlr = 0.3\n", JOB_METRIC_ACCURACY, 0.8, 0.1);
    add(DATA "[train]\nlr = 0.1\nseed = 2\n", JOB_METRIC_AUTO, NAN, NAN);
    build();
    cr_assert_eq(settings.n, 3);
    cr_expect_eq(settings.setting[0].run[0], 2);
    cr_expect_eq(settings.setting[1].run[0], 0);
    cr_expect(settings.setting[1].n_run == 2 && settings.setting[1].n_done == 1 && settings.setting[1].valid.n == 1);
    cr_expect(settings.setting[2].run[0] == 1 && settings.setting[2].n_done == 0, "one without a result is last");
    cr_assert(settings.n_differs == 1 && settings.differs[0] == JOB_KEY_train_lr);
    char *value = run_value(&run[settings.setting[0].run[0]], JOB_KEY_train_lr);
    cr_expect_str_eq(value, "0.3");
    free(value);
}

Test(settings, a_key_that_only_some_settings_have_differs_where_it_has_two_values)
{
    add(DATA "[model]\nkind = \"gcn\"\n", JOB_METRIC_ACCURACY, 0.5, 0.5);
    add(DATA "[model]\nkind = \"gat\"\nhidden = 64\nheads = 2\n", JOB_METRIC_ACCURACY, 0.5, 0.5);
    build();
    cr_assert_eq(settings.n, 2);
    cr_expect(settings.n_differs == 1 && settings.differs[0] == JOB_KEY_model_kind);
    settings_release(&settings);
    add(DATA "[model]\nkind = \"gat\"\nhidden = 64\nheads = 4\n", JOB_METRIC_ACCURACY, 0.5, 0.5);
    build();
    cr_assert_eq(settings.n, 3);
    cr_expect(settings.n_differs == 2 && settings.differs[1] == JOB_KEY_model_heads);
}

Test(settings, of_errors_the_least_is_best)
{
    add(DATA "[train]\nlr = 0.1\n", JOB_METRIC_RMSE, 0.5, 0.5);
    add(DATA "[train]\nlr = 0.2\n", JOB_METRIC_RMSE, 0.25, 0.5);
    add(DATA "[train]\nlr = 0.3\n", JOB_METRIC_RMSE, NAN, NAN);
    build();
    cr_expect(settings.setting[0].run[0] == 1 && settings.setting[2].run[0] == 2);
}

Test(settings, without_a_validation_metric_the_test_metric_orders)
{
    add(DATA "[train]\nlr = 0.1\n", JOB_METRIC_ACCURACY, NAN, 0.5);
    add(DATA "[train]\nlr = 0.2\n", JOB_METRIC_ACCURACY, NAN, 0.75);
    build();
    cr_expect_eq(settings.setting[0].run[0], 1);
}

Test(settings, runs_of_two_metrics_cannot_be_ordered)
{
    add(DATA, JOB_METRIC_ACCURACY, 0.5, 0.5);
    add(DATA, JOB_METRIC_AUTO, NAN, NAN);
    add(DATA, JOB_METRIC_ROC_AUC, 0.5, 0.5);
    cr_assert_eq(settings_build(&runs, &settings), STATUS_USAGE);
    cr_expect_not_null(
        strstr(status_reason(), "has the metric accuracy and 'folder' roc_auc: expected runs of one metric"), "%s",
        status_reason());
}

/* A run's data as its result tells them. */
static struct run *with_data(size_t i, double n_node, const char *fingerprint)
{
    run[i].n_node = n_node;
    run[i].n_class = 7;
    snprintf(run[i].fingerprint, sizeof run[i].fingerprint, "%s", fingerprint);
    return &run[i];
}

Test(settings, data_are_the_same_by_path_or_content_whatever_is_made_of_them)
{
    add("[dataset]\npath = \"data/a\"\n", JOB_METRIC_ACCURACY, 1, 1);
    add("[dataset]\npath = \"data/a\"\nundirected = \"yes\"\nsplit = 3\nnormalize_features = \"row\"\n",
        JOB_METRIC_ACCURACY, 1, 1);
    add("[dataset]\npath = \"/scratch/a\"\n", JOB_METRIC_ACCURACY, 1, 1);
    add(DATA, JOB_METRIC_ACCURACY, 1, 1);
    add(DATA "seed = 4\n", JOB_METRIC_ACCURACY, 1, 1);
    add(DATA "noise = 0.5\n", JOB_METRIC_ACCURACY, 1, 1);
    const struct run *first = with_data(0, 10, "aa");
    cr_expect(run_shares_data(with_data(1, 10, "bb"), first), "the reverse edges were added");
    cr_expect_not(run_shares_data(with_data(1, 11, "bb"), first), "another graph lay there");
    cr_expect(run_shares_data(with_data(2, 10, "aa"), first), "a copy");
    cr_expect_not(run_shares_data(with_data(2, 10, "cc"), first));
    cr_expect_not(run_shares_data(with_data(3, 10, "aa"), first), "a generator");
    cr_expect(run_shares_data(with_data(4, 10, "dd"), &run[3]), "another seed");
    cr_expect_not(run_shares_data(with_data(5, 10, "ee"), &run[3]));
}

Test(settings, values_are_plain_texts_and_typed_json)
{
    add(DATA "[model]\nkind = \"sage\"\ndropout = 0.5\nhidden = 32\n", JOB_METRIC_ACCURACY, 1, 1);
    static const struct {
        enum job_key_id key;
        const char *text, *json;
    } cases[] = {{JOB_KEY_model_kind, "sage", "\"sage\""},
                 {JOB_KEY_model_dropout, "0.5", "0.5"},
                 {JOB_KEY_model_hidden, "32", "32"},
                 {JOB_KEY_exchange_codec_backward, "same", "\"same\""},
                 {JOB_KEY_output_trace, "false", "false"},
                 {JOB_KEY_dataset_split, "", "null"}}; /* does not go with a generator */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = run_value(&run[0], cases[i].key);
        json_t *value = run_value_json(&run[0], cases[i].key);
        char *dumped = json_dumps(value, JSON_ENCODE_ANY);
        cr_expect_str_eq(text, cases[i].text);
        cr_expect_str_eq(dumped, cases[i].json);
        json_decref(value);
        free(dumped);
        free(text);
    }
}
