#include "trainerd/ctl/experiments/settings.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample sample_make(const double *values, size_t n)
{
    struct sample sample = {.mean = NAN, .std = NAN};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) {
            sum += values[i];
            sample.n++;
        }
    }
    sample.mean = sample.n > 0 ? sum / (double)sample.n : NAN;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) {
            squares += (values[i] - sample.mean) * (values[i] - sample.mean);
        }
    }
    sample.std = sample.n > 1 ? sqrt(squares / (double)(sample.n - 1)) : NAN;
    return sample;
}

/* --- keys --- */

/* What a run is repeated with. */
static bool is_repeated(enum job_key_id key)
{
    return key == JOB_KEY_train_seed || key == JOB_KEY_dataset_seed || key == JOB_KEY_dataset_split ||
           key == JOB_KEY_partition_seed;
}

static bool is_name(enum job_key_id key)
{
    return key == JOB_KEY_job_name || strcmp(job_keys[key].section, "output") == 0;
}

/* Every run's values. */
struct values {
    size_t n;
    char *(*of)[JOB_KEY_N]; /* n × JOB_KEY_N */
    char **whole;           /* n: those that make a setting, one after another */
};

static char *join(char *const of[JOB_KEY_N])
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    for (int k = 0; k < JOB_KEY_N; k++) {
        if (!is_repeated((enum job_key_id)k) && !is_name((enum job_key_id)k)) {
            fprintf(file, "%zu:%s", strlen(of[k]), of[k]);
        }
    }
    fclose(file);
    return text;
}

static void values_init(struct values *values, const struct runs *runs)
{
    values->n = runs->n;
    values->of = memory_alloc(runs->n + 1, sizeof *values->of);
    values->whole = memory_alloc(runs->n + 1, sizeof *values->whole);
    for (size_t i = 0; i < runs->n; i++) {
        for (int k = 0; k < JOB_KEY_N; k++) {
            values->of[i][k] = run_value(&runs->run[i], (enum job_key_id)k);
        }
        values->whole[i] = join(values->of[i]);
    }
}

static void values_release(struct values *values)
{
    for (size_t i = 0; i < values->n; i++) {
        for (int k = 0; k < JOB_KEY_N; k++) {
            free(values->of[i][k]);
        }
        free(values->whole[i]);
    }
    free(values->of);
    free(values->whole);
}

/* Does it differ between runs that it applies to? Where it does not, another key says so, as model.kind. */
static bool differs_at(const struct values *values, const struct runs *runs, enum job_key_id key)
{
    const char *first = NULL;
    for (size_t i = 0; i < values->n; i++) {
        if (job_key_applies(runs->run[i].settings, key)) {
            if (first != NULL && strcmp(values->of[i][key], first) != 0) {
                return true;
            }
            first = values->of[i][key];
        }
    }
    return false;
}

static void find_keys(const struct values *values, struct settings *out)
{
    for (int k = 0; k < JOB_KEY_N; k++) {
        enum job_key_id key = (enum job_key_id)k;
        bool differs = differs_at(values, out->runs, key);
        if (differs && is_repeated(key)) {
            out->varies[out->n_varies++] = key;
        } else if (differs && !is_name(key)) {
            out->differs[out->n_differs++] = key;
        }
    }
}

/* --- settings --- */

static struct sample sample_runs(const struct settings *settings, const struct setting *setting, size_t offset)
{
    double *values = memory_alloc(setting->n_run + 1, sizeof *values);
    for (size_t i = 0; i < setting->n_run; i++) {
        values[i] = *(const double *)((const char *)&settings->runs->run[setting->run[i]] + offset);
    }
    struct sample sample = sample_make(values, setting->n_run);
    free(values);
    return sample;
}

static void group_runs(const struct values *values, struct settings *out)
{
    size_t *setting_of = memory_alloc(values->n + 1, sizeof *setting_of),
           *first = memory_alloc(values->n + 1, sizeof *first);
    out->setting = memory_alloc(values->n + 1, sizeof *out->setting);
    for (size_t i = 0; i < values->n; i++) {
        size_t s = 0;
        while (s < out->n && strcmp(values->whole[first[s]], values->whole[i]) != 0) {
            s++;
        }
        if (s == out->n) {
            first[out->n++] = i;
        }
        setting_of[i] = s;
        out->setting[s].n_run++;
    }
    for (size_t s = 0; s < out->n; s++) {
        struct setting *setting = &out->setting[s];
        setting->run = memory_alloc(setting->n_run, sizeof *setting->run);
        setting->n_run = 0;
    }
    for (size_t i = 0; i < values->n; i++) {
        struct setting *setting = &out->setting[setting_of[i]];
        setting->run[setting->n_run++] = i;
        setting->n_done += out->runs->run[i].metric != JOB_METRIC_AUTO;
    }
    free(setting_of);
    free(first);
}

static enum status find_metric(const struct runs *runs, enum job_metric *out)
{
    const struct run *first = NULL;
    *out = JOB_METRIC_AUTO;
    for (size_t i = 0; i < runs->n; i++) {
        const struct run *run = &runs->run[i];
        if (run->metric == JOB_METRIC_AUTO) {
            continue;
        }
        if (first != NULL && run->metric != first->metric) {
            return status_fail(STATUS_USAGE,
                               "'%.200s' has the metric %s and '%.200s' %s: expected runs of one metric",
                               first->folder, job_choice_text("train", "metric", (int)first->metric), run->folder,
                               job_choice_text("train", "metric", (int)run->metric));
        }
        first = first != NULL ? first : run;
        *out = run->metric;
    }
    return STATUS_OK;
}

static int order(double a, double b, bool falls)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) - isnan(b);
    }
    return a == b ? 0 : (a > b) != falls ? -1 : 1;
}

static int compare(const void *left, const void *right, void *metric)
{
    const struct setting *a = left, *b = right;
    bool falls = job_metric_falls(*(const enum job_metric *)metric);
    int by = order(a->valid.mean, b->valid.mean, falls);
    by = by != 0 ? by : order(a->test.mean, b->test.mean, falls);
    return by != 0 ? by : a->run[0] < b->run[0] ? -1 : 1;
}

enum status settings_build(const struct runs *runs, struct settings *out)
{
    *out = (struct settings){.runs = runs};
    enum status status = find_metric(runs, &out->metric);
    if (status != STATUS_OK) {
        return status;
    }
    struct values values;
    values_init(&values, runs);
    group_runs(&values, out);
    find_keys(&values, out);
    values_release(&values);
    for (size_t s = 0; s < out->n; s++) {
        struct setting *setting = &out->setting[s];
        setting->valid = sample_runs(out, setting, offsetof(struct run, valid));
        setting->test = sample_runs(out, setting, offsetof(struct run, test));
        setting->best_epoch = sample_runs(out, setting, offsetof(struct run, best_epoch));
        setting->seconds = sample_runs(out, setting, offsetof(struct run, seconds));
    }
    qsort_r(out->setting, out->n, sizeof *out->setting, compare, &out->metric);
    return STATUS_OK;
}

void settings_release(struct settings *settings)
{
    for (size_t s = 0; s < settings->n; s++) {
        free(settings->setting[s].run);
    }
    free(settings->setting);
    *settings = (struct settings){0};
}
