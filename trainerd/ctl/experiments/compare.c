/* The command compare: runs by their settings, best first, as a table, CSV or JSON. */
#include "protocol/base/printable.h"
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/experiments/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_SHOWN_MOST 8 /* a table's columns; CSV and JSON have all */
#define CELL_MOST 24      /* characters of a name or a value in it */
#define PAGE_COLUMNS 80   /* of what is no terminal */

/* table.worth: what a table leaves out first. Of keys the last goes first. */
enum worth {
    WORTH_STAYS,
    WORTH_TIME,
    WORTH_BEST_EPOCH,
    WORTH_STATE,
    WORTH_KEY,
    WORTH_JOB = WORTH_KEY + 2 * KEYS_SHOWN_MOST
};

/* --- reading --- */

static enum status read_runs(const struct ctl_arguments *arguments, struct runs *out)
{
    struct client client = {.file = -1};
    enum status status = STATUS_OK;
    for (int i = 0; i < arguments->n_operand && status == STATUS_OK; i++) {
        const char *name = arguments->operand[i];
        if (runs_is_folder(name) || strchr(name, '/') != NULL) {
            status = runs_add_folder(out, name);
            continue;
        }
        status = client.file < 0 ? ctl_connect(arguments, &client) : STATUS_OK;
        if (status == STATUS_OK) {
            status = runs_add_named(out, &client, name);
        }
    }
    client_close(&client);
    return status;
}

/* "'runs/a' is of data/cora (2708 nodes)" */
static void describe_data(const struct run *run, char *out, size_t capacity)
{
    char folder[256], path[256];
    const char *generator = job_choice_text("dataset", "generator", (int)run->settings->dataset.generator);
    printable_copy(run->folder, folder, sizeof folder);
    printable_copy(run->settings->dataset.path, path, sizeof path);
    int n = snprintf(out, capacity, "'%s' is of %s", folder, path[0] != '\0' ? path : generator);
    if (isfinite(run->n_node)) {
        snprintf(out + n, capacity - (size_t)n, " (%.0f nodes)", run->n_node);
    }
}

/* Metrics of different data cannot be ranked. Runs without a result have no metric. */
static enum status check_data(const struct runs *runs)
{
    const struct run *first = NULL;
    for (size_t i = 0; i < runs->n; i++) {
        const struct run *run = &runs->run[i];
        if (run->metric == JOB_METRIC_AUTO) {
            continue;
        }
        if (first != NULL && !run_shares_data(run, first)) {
            char one[700], other[700];
            describe_data(first, one, sizeof one);
            describe_data(run, other, sizeof other);
            return status_fail(STATUS_USAGE, "%s, and %s: runs of different data cannot be ranked; --all ranks them",
                               one, other);
        }
        first = first != NULL ? first : run;
    }
    return STATUS_OK;
}

/* --- the table --- */

/* "81.52 ± 0.43 %", "0.1234 ± 0.0021"; without a deviation where it is not known. */
static struct figure sample_text(const struct sample *sample, enum job_metric metric)
{
    struct figure out = {"-"};
    bool is_fraction = job_metric_is_fraction(metric), has_std = isfinite(sample->std);
    double mean = is_fraction ? 100.0 * sample->mean : sample->mean;
    double std = is_fraction ? 100.0 * sample->std : sample->std;
    if (isfinite(mean) && is_fraction) {
        snprintf(out.text, sizeof out.text, has_std ? "%.2f ± %.2f %%" : "%.2f %%", mean, std);
    } else if (isfinite(mean)) {
        snprintf(out.text, sizeof out.text, has_std ? "%.4g ± %.2g" : "%.4g", mean, std);
    }
    return out;
}

static void add_title(struct table *table, const char *title, bool is_right, int worth)
{
    table->is_right[table->n_cell] = is_right;
    table->worth[table->n_cell] = worth;
    table_add(table, title);
}

static void add_key_titles(struct table *table, const enum job_key_id *keys, int n)
{
    for (int k = 0; k < n; k++) {
        char label[JOB_LABEL_BYTES];
        job_key_label(&job_keys[keys[k]], label);
        add_title(table, label, false, WORTH_JOB - (int)table->n_cell - 1);
    }
}

static void add_cell(struct table *table, const char *text, bool keeps_end)
{
    char *cut = text_cut(text, CELL_MOST, keeps_end);
    table_add(table, cut);
    free(cut);
}

static void add_values(struct table *table, const struct run *run, const enum job_key_id *keys, int n)
{
    for (int k = 0; k < n; k++) {
        char *text = run_value(run, keys[k]);
        add_cell(table, text[0] != '\0' ? text : "-", true);
        free(text);
    }
}

/* Print it; keys that are in none of its columns are counted. n_key: that differ · first, n: columns of keys */
static void print_table(struct table *table, int n_key, int first, int n)
{
    bool is_out[TABLE_COLUMNS_MOST];
    int n_column = text_columns(stdout);
    table_print(table, stdout, n_column > 0 ? n_column : PAGE_COLUMNS, is_out);
    int n_out = n_key - n;
    for (int i = 0; i < n; i++) {
        n_out += is_out[first + i];
    }
    if (n_out > 0) {
        fprintf(stderr, "%d more key%s; --csv and --json have all\n", n_out, n_out == 1 ? " differs" : "s differ");
    }
}

static int n_shown(int n_key)
{
    return n_key < KEYS_SHOWN_MOST ? n_key : KEYS_SHOWN_MOST;
}

static void add_metric_titles(struct table *table)
{
    add_title(table, "VALID", true, WORTH_STAYS);
    add_title(table, "TEST", true, WORTH_STAYS);
    add_title(table, "BEST EPOCH", true, WORTH_BEST_EPOCH);
    add_title(table, "TIME", true, WORTH_TIME);
}

static void print_settings(const struct settings *settings)
{
    struct table table;
    int n_key = n_shown(settings->n_differs);
    table_init(&table, n_key + 5);
    add_key_titles(&table, settings->differs, n_key);
    add_title(&table, "RUNS", true, WORTH_STAYS);
    add_metric_titles(&table);
    for (size_t s = 0; s < settings->n; s++) {
        const struct setting *setting = &settings->setting[s];
        char runs[FIGURE_BYTES];
        snprintf(runs, sizeof runs, setting->n_done < setting->n_run ? "%zu of %zu" : "%zu", setting->n_done,
                 setting->n_run);
        add_values(&table, &settings->runs->run[setting->run[0]], settings->differs, n_key);
        table_add(&table, runs);
        table_add(&table, sample_text(&setting->valid, settings->metric).text);
        table_add(&table, sample_text(&setting->test, settings->metric).text);
        table_add(&table, figure_whole(setting->best_epoch.mean).text);
        table_add(&table, figure_seconds(setting->seconds.mean).text);
    }
    print_table(&table, settings->n_differs, 0, n_key);
}

static void print_runs(const struct settings *settings)
{
    struct table table;
    int n_key = n_shown(settings->n_differs + settings->n_varies);
    int n_differs = settings->n_differs < n_key ? settings->n_differs : n_key, n_varies = n_key - n_differs;
    table_init(&table, n_key + 7);
    add_title(&table, "JOB", true, WORTH_JOB);
    add_title(&table, "NAME", false, WORTH_STAYS);
    add_title(&table, "STATE", false, WORTH_STATE);
    add_key_titles(&table, settings->differs, n_differs);
    add_key_titles(&table, settings->varies, n_varies);
    add_metric_titles(&table);
    for (size_t s = 0; s < settings->n; s++) {
        for (size_t i = 0; i < settings->setting[s].n_run; i++) {
            const struct run *run = &settings->runs->run[settings->setting[s].run[i]];
            table_add(&table, figure_whole(run->job > 0 ? (double)run->job : NAN).text);
            const char *last = strrchr(run->folder, '/'); /* runs of one name are told by their folders */
            add_cell(&table, run->job == 0 && last != NULL ? last + 1 : run->name, false);
            table_add(&table, run->state);
            add_values(&table, run, settings->differs, n_differs);
            add_values(&table, run, settings->varies, n_varies);
            table_add(&table, sample_text(&(struct sample){1, run->valid, NAN}, settings->metric).text);
            table_add(&table, sample_text(&(struct sample){1, run->test, NAN}, settings->metric).text);
            table_add(&table, figure_whole(run->best_epoch).text);
            table_add(&table, figure_seconds(run->seconds).text);
        }
    }
    print_table(&table, settings->n_differs + settings->n_varies, 3, n_key);
}

/* --- CSV --- */

/* A field, in quotes where it has to be (RFC 4180). */
static void csv_text(const char *raw)
{
    char *text = text_printable(raw);
    bool is_quoted = strpbrk(text, ",\"") != NULL;
    fputs(is_quoted ? "\"" : "", stdout);
    for (const char *at = text; *at != '\0'; at++) {
        fputs(*at == '"' ? "\"\"" : (char[2]){*at, '\0'}, stdout);
    }
    fputs(is_quoted ? "\"" : "", stdout);
    free(text);
}

/* Empty where it is not known. */
static void csv_number(double value)
{
    char text[JOB_REAL_BYTES] = "";
    if (isfinite(value)) {
        job_real_text(value, text);
    }
    printf(",%s", text);
}

/* Each with a comma behind it, as the next. */
static void csv_titles(const enum job_key_id *keys, int n)
{
    for (int k = 0; k < n; k++) {
        char label[JOB_LABEL_BYTES];
        job_key_label(&job_keys[keys[k]], label);
        printf("%s,", label);
    }
}

static void csv_values(const struct run *run, const enum job_key_id *keys, int n)
{
    for (int k = 0; k < n; k++) {
        char *text = run_value(run, keys[k]);
        csv_text(text);
        putchar(',');
        free(text);
    }
}

static const char *metric_text(enum job_metric metric)
{
    return metric != JOB_METRIC_AUTO ? job_choice_text("train", "metric", (int)metric) : "";
}

static void csv_settings(const struct settings *settings)
{
    csv_titles(settings->differs, settings->n_differs);
    printf("runs,done,metric,valid_mean,valid_std,test_mean,test_std,best_epoch_mean,seconds_mean\n");
    for (size_t s = 0; s < settings->n; s++) {
        const struct setting *setting = &settings->setting[s];
        csv_values(&settings->runs->run[setting->run[0]], settings->differs, settings->n_differs);
        printf("%zu,%zu,%s", setting->n_run, setting->n_done, metric_text(settings->metric));
        csv_number(setting->valid.mean);
        csv_number(setting->valid.std);
        csv_number(setting->test.mean);
        csv_number(setting->test.std);
        csv_number(setting->best_epoch.mean);
        csv_number(setting->seconds.mean);
        putchar('\n');
    }
}

static void csv_runs(const struct settings *settings)
{
    printf("job,name,state,folder,");
    csv_titles(settings->differs, settings->n_differs);
    csv_titles(settings->varies, settings->n_varies);
    printf("metric,valid,test,loss,best_epoch,epochs,seconds\n");
    for (size_t s = 0; s < settings->n; s++) {
        for (size_t i = 0; i < settings->setting[s].n_run; i++) {
            const struct run *run = &settings->runs->run[settings->setting[s].run[i]];
            printf(run->job > 0 ? "%lld," : ",", (long long)run->job);
            csv_text(run->name);
            printf(",%s,", run->state);
            csv_text(run->folder);
            putchar(',');
            csv_values(run, settings->differs, settings->n_differs);
            csv_values(run, settings->varies, settings->n_varies);
            printf("%s", metric_text(run->metric));
            csv_number(run->valid);
            csv_number(run->test);
            csv_number(run->loss);
            csv_number(run->best_epoch);
            csv_number(run->n_epoch);
            csv_number(run->seconds);
            putchar('\n');
        }
    }
}

/* --- JSON --- */

static json_t *sample_json(const struct sample *sample)
{
    return json_pack("{s:I, s:o, s:o}", "n", (json_int_t)sample->n, "mean", number_json(sample->mean), "std",
                     number_json(sample->std));
}

static json_t *values_json(const struct run *run, const enum job_key_id *keys, int n)
{
    json_t *all = json_object();
    for (int k = 0; k < n; k++) {
        char label[JOB_LABEL_BYTES];
        job_key_label(&job_keys[keys[k]], label);
        json_object_set_new(all, label, run_value_json(run, keys[k]));
    }
    return all;
}

static json_t *run_json(const struct settings *settings, const struct run *run)
{
    json_t *folder = json_string(run->folder);
    return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "job",
                     run->job > 0 ? json_integer(run->job) : json_null(), "name", run->name, "state", run->state,
                     "folder", folder != NULL ? folder : json_null(), "repeated",
                     values_json(run, settings->varies, settings->n_varies), "valid", number_json(run->valid), "test",
                     number_json(run->test), "loss", number_json(run->loss), "best_epoch",
                     number_json(run->best_epoch), "epochs", number_json(run->n_epoch), "seconds",
                     number_json(run->seconds));
}

static json_t *setting_json(const struct settings *settings, const struct setting *setting)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < setting->n_run; i++) {
        json_array_append_new(runs, run_json(settings, &settings->runs->run[setting->run[i]]));
    }
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "settings",
                     values_json(&settings->runs->run[setting->run[0]], settings->differs, settings->n_differs),
                     "done", (json_int_t)setting->n_done, "valid", sample_json(&setting->valid), "test",
                     sample_json(&setting->test), "best_epoch", sample_json(&setting->best_epoch), "seconds",
                     sample_json(&setting->seconds), "runs", runs);
}

static void print_json(const struct settings *settings)
{
    json_t *all = json_object(), *list = json_array();
    bool is_known = settings->metric != JOB_METRIC_AUTO;
    for (size_t s = 0; s < settings->n; s++) {
        json_array_append_new(list, setting_json(settings, &settings->setting[s]));
    }
    json_object_set_new(all, "metric", is_known ? json_string(metric_text(settings->metric)) : json_null());
    json_object_set_new(all, "less_is_better", json_boolean(job_metric_falls(settings->metric)));
    json_object_set_new(all, "settings", list);
    text_print_json(all);
    json_decref(all);
}

enum status run_compare(const struct ctl_arguments *arguments)
{
    struct runs runs = {0};
    struct settings settings = {0};
    bool by_run = ctl_given(arguments, CTL_OPTION_RUNS);
    if (ctl_given(arguments, CTL_OPTION_CSV) && ctl_given(arguments, CTL_OPTION_JSON)) {
        return status_fail(STATUS_USAGE, "compare takes either --csv or --json");
    }
    enum status status = read_runs(arguments, &runs);
    status = status == STATUS_OK && !ctl_given(arguments, CTL_OPTION_ALL) ? check_data(&runs) : status;
    if (status == STATUS_OK) {
        status = settings_build(&runs, &settings);
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        print_json(&settings);
    } else if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_CSV)) {
        (by_run ? csv_runs : csv_settings)(&settings);
    } else if (status == STATUS_OK) {
        (by_run ? print_runs : print_settings)(&settings);
    }
    settings_release(&settings);
    runs_release(&runs);
    return status;
}
