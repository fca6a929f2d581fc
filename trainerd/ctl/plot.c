/* The command plot: charts of jobs and groups, from the daemon or from an output folder. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/draw/chart.h"
#include "trainerd/ctl/experiments/settings.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TITLE_BYTES 256
#define NAME_MOST 32 /* characters of a name in a title, which has as many numbers as it has place for */

/* Curves of jobs, or of the settings of groups, over one axis. */
struct plot {
    enum curves_axis axis;
    int n;                   /* curves */
    bool has_means;          /* of a group's runs */
    char title[TITLE_BYTES]; /* the groups */
    struct curves curves[CHART_JOBS_MOST];
    char name[CHART_JOBS_MOST][TITLE_BYTES];
    char origin[CHART_JOBS_MOST][TITLE_BYTES]; /* tells two of one name apart: a job's number, a folder, a group */
};

/* --- the numbers --- */

/* metrics.jsonl numbers epochs from 0, logs, tables and charts from 1. */
static void add_line(struct curves *curves, json_t *line)
{
    json_t *epoch = json_object_get(line, "epoch");
    json_integer_set(epoch, json_integer_value(epoch) + 1);
    curves_add(curves, line);
}

/* All epochs of a job, whose reference is taken. */
static enum status read_metrics(struct client *client, json_t *job, struct curves *curves)
{
    json_t *event = NULL;
    enum status status = client_send(client, json_pack("{s:s, s:o}", "cmd", "metrics", "job", job));
    for (bool ends = false; status == STATUS_OK && !ends;) {
        status = client_next(client, -1, &event);
        ends = json_is_true(json_object_get(event, "end"));
        add_line(curves, event);
        json_decref(event);
        event = NULL;
    }
    return status;
}

/* Of one job, by name or number. */
static enum status read_job(struct client *client, const char *job, struct curves *curves, char *name, char *origin)
{
    json_t *answer = NULL, *text = json_string(job);
    text = text != NULL ? text : json_null();
    enum status status = client_ask(client, json_pack("{s:s, s:O}", "cmd", "status", "job", text), &answer);
    if (status == STATUS_OK) {
        const json_t *shown = json_array_get(json_object_get(answer, "jobs"), 0);
        snprintf(name, TITLE_BYTES, "%s", text_of(shown, "name"));
        snprintf(origin, TITLE_BYTES, "job %lld", (long long)integer_of(shown, "id"));
        job_metric_find(text_of(shown, "metric"), &curves->metric);
        json_decref(answer);
        status = read_metrics(client, json_incref(text), curves);
    }
    json_decref(text);
    return status;
}

/* Of the runs of a setting of a group: their mean. */
static enum status read_setting(struct client *client, const struct settings *settings, const struct setting *setting,
                                struct curves *out)
{
    struct curves *of = memory_alloc(setting->n_run, sizeof *of);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < setting->n_run && status == STATUS_OK; i++) {
        status = read_metrics(client, json_integer((json_int_t)settings->runs->run[setting->run[i]].job), &of[i]);
    }
    for (size_t i = 0; i < setting->n_run; i++) {
        of[i].metric = settings->metric;
    }
    if (status == STATUS_OK) {
        curves_mean(out, of, setting->n_run);
    }
    for (size_t i = 0; i < setting->n_run; i++) {
        curves_release(&of[i]);
    }
    free(of);
    return status;
}

/* A key's last word, unless another key that differs has the same: then all of it. */
static void name_key(const struct settings *settings, int k, char label[JOB_LABEL_BYTES])
{
    const char *word = job_keys[settings->differs[k]].name;
    bool is_alone = true;
    for (int other = 0; other < settings->n_differs; other++) {
        is_alone = is_alone && (other == k || strcmp(job_keys[settings->differs[other]].name, word) != 0);
    }
    if (is_alone) {
        snprintf(label, JOB_LABEL_BYTES, "%s", word);
    } else {
        job_key_label(&job_keys[settings->differs[k]], label);
    }
}

/* A setting's label and number of runs: "lr=0.01, hidden=16 (3 runs)"; the group's name where it is the only one. */
static void name_setting(const struct settings *settings, const struct setting *setting, const char *group,
                         char *name)
{
    char *text = NULL, n_run[TEXT_BYTES];
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    fputs(settings->n_differs == 0 ? group : "", file);
    for (int k = 0; k < settings->n_differs; k++) {
        char label[JOB_LABEL_BYTES];
        char *value = run_value(&settings->runs->run[setting->run[0]], settings->differs[k]);
        name_key(settings, k, label);
        fprintf(file, "%s%s=%s", k > 0 ? ", " : "", label, value[0] != '\0' ? value : "-");
        free(value);
    }
    text_count((int64_t)setting->n_run, "run", n_run);
    fprintf(file, " (%s)", n_run);
    fclose(file);
    snprintf(name, TITLE_BYTES, "%s", text);
    free(text);
}

/* The metrics of the newest unfinished run in an output folder, FOLDER/.run-<id>; NULL without one. */
static FILE *open_run(const char *folder)
{
    char path[PATH_MAX], newest[PATH_MAX] = "";
    struct timespec newest_at = {0};
    DIR *all = opendir(folder);
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        struct stat about;
        if (strncmp(entry->d_name, ".run-", 5) == 0 &&
            snprintf(path, sizeof path, "%s/%s/metrics.jsonl", folder, entry->d_name) < PATH_MAX &&
            stat(path, &about) == 0) {
            const struct timespec *at = &about.st_mtim;
            bool is_newer = at->tv_sec != newest_at.tv_sec ? at->tv_sec > newest_at.tv_sec
                                                           : at->tv_nsec > newest_at.tv_nsec;
            if (is_newer) {
                newest_at = *at;
                memcpy(newest, path, sizeof newest);
            }
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return newest[0] != '\0' ? fopen(newest, "r") : NULL;
}

static enum status read_folder(const char *folder, struct curves *curves, char *name, char *origin)
{
    char path[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    int error = errno;
    file = file != NULL ? file : open_run(folder);
    if (file == NULL) {
        return status_fail(STATUS_NO_INPUT, "cannot open '%s': %s", path, strerror(error));
    }
    while (getline(&line, &capacity, file) > 0) {
        json_t *event = json_loads(line, 0, NULL);
        add_line(curves, event);
        json_decref(event);
    }
    free(line);
    fclose(file);
    snprintf(path, sizeof path, "%s/result.json", folder);
    json_t *result = json_load_file(path, 0, NULL);
    snprintf(name, TITLE_BYTES, "%s", text_of(result, "name")[0] != '\0' ? text_of(result, "name") : folder);
    job_metric_find(text_of(result, "metric"), &curves->metric);
    snprintf(origin, TITLE_BYTES, "%s", folder);
    json_decref(result);
    return STATUS_OK;
}

/* --- the chart --- */

static void make_title(const struct curves *curves, const char *name, char *title)
{
    char loss[TEXT_BYTES] = "", best_text[TEXT_BYTES], epochs[TEXT_BYTES], *cut = text_cut(name, NAME_MOST, false);
    size_t best = curves_best(curves);
    double valid = best < curves->n ? curves->value[CURVE_VALID][best] : NAN;
    text_value(curves->n > 0 ? curves->value[CURVE_LOSS][curves->n - 1] : NAN, loss);
    (job_metric_is_fraction(curves->metric) ? text_percent : text_value)(valid, best_text);
    text_count((int64_t)curves->n, "epoch", epochs);
    int n = snprintf(title, TITLE_BYTES, "%s: %s, loss %s, best valid %s", cut, epochs, loss, best_text);
    if (best < curves->n && curves->axis == CURVES_AXIS_EPOCH) {
        snprintf(title + n, (size_t)(TITLE_BYTES - n), " at epoch %.0f", curves->at[best]);
    }
    free(cut);
}

/* A file name from the job's name: slashes, control characters and a leading point are replaced. */
static void choose_path(const struct ctl_arguments *arguments, const char *name, char path[PATH_MAX])
{
    const char *output = arguments->value[CTL_OPTION_OUTPUT];
    if (output != NULL) {
        snprintf(path, PATH_MAX, "%s", output);
        return;
    }
    const char *last = strrchr(name, '/');
    snprintf(path, PATH_MAX, "%s.svg", last != NULL && last[1] != '\0' ? last + 1 : name);
    for (char *at = path; *at != '\0'; at++) {
        *at = *at == '/' || (unsigned char)*at < ' ' ? '_' : *at;
    }
    path[0] = path[0] == '.' ? '_' : path[0];
}

static enum status read_axis(const struct ctl_arguments *arguments, enum curves_axis *out)
{
    const char *axis = arguments->value[CTL_OPTION_X];
    *out = axis != NULL ? curves_axis_of(axis) : CURVES_AXIS_EPOCH;
    return *out < CURVES_AXIS_N ? STATUS_OK
                                : status_fail(STATUS_USAGE, "--x is '%s', expected epoch, bytes or time", axis);
}

/* The last component of a folder's path: jobs that are compared often have one name. */
static void name_folder(const char *folder, char *name)
{
    size_t n = strlen(folder), begin;
    while (n > 1 && folder[n - 1] == '/') {
        n--;
    }
    for (begin = n; begin > 0 && folder[begin - 1] != '/'; begin--) {
    }
    snprintf(name, TITLE_BYTES, "%.*s", (int)(n - begin), folder + begin);
}

/* A place for one more. errors  STATUS_USAGE there are as many as a chart has */
static enum status add(struct plot *plot)
{
    if (plot->n == CHART_JOBS_MOST) {
        return status_fail(STATUS_USAGE, "more than %d jobs are given, a chart has at most %d", CHART_JOBS_MOST,
                           CHART_JOBS_MOST);
    }
    plot->n++;
    return STATUS_OK;
}

/* Names that are not the only ones get their origin. */
static void tell_apart(struct plot *plot)
{
    bool is_twice[CHART_JOBS_MOST] = {false};
    for (int j = 0; j < plot->n; j++) {
        for (int other = 0; other < plot->n; other++) {
            is_twice[j] = is_twice[j] || (other != j && strcmp(plot->name[j], plot->name[other]) == 0);
        }
    }
    for (int j = 0; j < plot->n; j++) {
        size_t n = strlen(plot->name[j]);
        if (is_twice[j]) {
            snprintf(plot->name[j] + n, TITLE_BYTES - n, " (%s)", plot->origin[j]);
        }
    }
}

/* The settings of a group, the best first, as far as there is place. */
static enum status read_group(struct client *client, const char *group, const struct runs *runs, struct plot *plot)
{
    struct settings settings;
    enum status status = settings_build(runs, &settings);
    size_t n_left = (size_t)(CHART_JOBS_MOST - plot->n);
    plot->has_means = true;
    size_t n_title = strlen(plot->title);
    snprintf(plot->title + n_title, TITLE_BYTES - n_title, "%s%s", n_title > 0 ? ", " : "", group);
    if (settings.n > n_left && n_left > 0) {
        fprintf(stderr, "the best %zu of %zu settings are drawn\n", n_left, settings.n);
    }
    status = status == STATUS_OK && n_left == 0 ? add(plot) : status;
    for (size_t s = 0; s < settings.n && s < n_left && status == STATUS_OK; s++) {
        status = add(plot);
        if (status == STATUS_OK) {
            status = read_setting(client, &settings, &settings.setting[s], &plot->curves[plot->n - 1]);
        }
        name_setting(&settings, &settings.setting[s], group, plot->name[plot->n - 1]);
        snprintf(plot->origin[plot->n - 1], TITLE_BYTES, "%s", group);
        plot->n -= plot->curves[plot->n - 1].n == 0; /* none of its runs has begun */
    }
    settings_release(&settings);
    return status;
}

static enum status read_named(struct client *client, const char *name, struct plot *plot)
{
    struct runs runs = {0};
    enum status status = runs_add_group(&runs, client, name);
    if (status == STATUS_OK && runs.n > 0) {
        status = read_group(client, name, &runs, plot);
    } else if (status == STATUS_OK) {
        status = add(plot);
        if (status == STATUS_OK) {
            status = read_job(client, name, &plot->curves[plot->n - 1], plot->name[plot->n - 1],
                              plot->origin[plot->n - 1]);
        }
    }
    runs_release(&runs);
    return status;
}

static enum status read_given(const struct ctl_arguments *arguments, struct plot *plot)
{
    struct client client = {.file = -1};
    enum status status = arguments->n_operand > 0 ? ctl_connect(arguments, &client) : STATUS_OK;
    for (int i = 0; i < arguments->n_operand && status == STATUS_OK; i++) {
        status = read_named(&client, arguments->operand[i], plot);
    }
    client_close(&client);
    for (size_t i = 0; i < arguments->list[CTL_OPTION_FROM].n && status == STATUS_OK; i++) {
        const char *folder = arguments->list[CTL_OPTION_FROM].value[i];
        status = add(plot);
        if (status == STATUS_OK) {
            status = read_folder(folder, &plot->curves[plot->n - 1], plot->name[plot->n - 1],
                                 plot->origin[plot->n - 1]);
        }
        if (status == STATUS_OK && arguments->list[CTL_OPTION_FROM].n > 1) {
            name_folder(folder, plot->name[plot->n - 1]);
        }
    }
    return status;
}

static enum status read_all(const struct ctl_arguments *arguments, struct plot *plot)
{
    if ((arguments->list[CTL_OPTION_FROM].n > 0) == (arguments->n_operand > 0)) {
        return status_fail(STATUS_USAGE, "plot takes either JOB or --from FOLDER; see trainctl plot --help");
    }
    if (arguments->list[CTL_OPTION_FROM].n > CHART_JOBS_MOST) {
        return status_fail(STATUS_USAGE, "%zu jobs are given, a chart has at most %d",
                           arguments->list[CTL_OPTION_FROM].n, CHART_JOBS_MOST);
    }
    enum status status = read_axis(arguments, &plot->axis);
    if (status == STATUS_OK) {
        status = read_given(arguments, plot);
    }
    if (status == STATUS_OK && plot->n == 0) {
        return status_fail(STATUS_NO_INPUT, "there is no epoch to draw: none is done yet, or it is a prediction");
    }
    for (int j = 0; j < plot->n && status == STATUS_OK; j++) {
        struct curves *curves = &plot->curves[j];
        if (curves->n == 0) {
            return status_fail(STATUS_NO_INPUT,
                               "there is no epoch to draw%s%s: none is done yet, or it is a prediction",
                               plot->n > 1 ? " of " : "", plot->n > 1 ? plot->name[j] : "");
        }
        curves_lay(curves, plot->axis);
        if (plot->axis == CURVES_AXIS_BYTES && !(curves->at[curves->n - 1] > 0)) {
            return status_fail(STATUS_NO_INPUT, "%s: its workers received nothing: there are no bytes to draw over",
                               plot->name[j]);
        }
    }
    return status;
}

static void draw_on(struct canvas *canvas, const struct plot *plot)
{
    char title[TITLE_BYTES];
    if (plot->n == 1 && !plot->has_means) {
        make_title(&plot->curves[0], plot->name[0], title);
        chart_draw(canvas, title, &plot->curves[0]);
        return;
    }
    struct chart_job job[CHART_JOBS_MOST];
    for (int j = 0; j < plot->n; j++) {
        job[j] = (struct chart_job){.name = plot->name[j], .curves = &plot->curves[j]};
    }
    snprintf(title, sizeof title, "%d jobs", plot->n);
    if (plot->has_means) {
        char *groups = text_cut(plot->title, NAME_MOST, false);
        snprintf(title, sizeof title, "%s: means over seeds and splits, bands of one standard deviation", groups);
        free(groups);
    }
    chart_compare(canvas, title, job, plot->n);
}

static enum status draw(const char *path, const struct plot *plot)
{
    const char *ending = strrchr(path, '.');
    bool is_svg = ending != NULL && strcmp(ending, ".svg") == 0;
    if (!is_svg && (ending == NULL || strcmp(ending, ".png") != 0)) {
        return status_fail(STATUS_USAGE, "'%s' ends in neither .svg nor .png", path);
    }
    struct canvas *canvas = canvas_open(is_svg, CHART_WIDTH, CHART_HEIGHT);
    draw_on(canvas, plot);
    enum status status = canvas_save(canvas, path);
    canvas_close(canvas);
    return status;
}

static size_t most_epochs(const struct plot *plot)
{
    size_t most = 0;
    for (int j = 0; j < plot->n; j++) {
        most = plot->curves[j].n > most ? plot->curves[j].n : most;
    }
    return most;
}

enum status run_plot(const struct ctl_arguments *arguments, int *exit_code_out)
{
    char path[PATH_MAX];
    struct plot *plot = memory_alloc(1, sizeof *plot);
    (void)exit_code_out;
    enum status status = read_all(arguments, plot);
    if (status == STATUS_OK) {
        choose_path(arguments, plot->has_means ? arguments->operand[0] : plot->name[0], path);
        tell_apart(plot);
        status = draw(path, plot);
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *answer = json_pack("{s:s%, s:I}", "file", path, strlen(path), "epochs",
                                   (json_int_t)most_epochs(plot));
        text_print_json(answer);
        json_decref(answer);
    } else if (status == STATUS_OK) {
        printf("%s\n", path);
    }
    for (int j = 0; j < CHART_JOBS_MOST; j++) {
        curves_release(&plot->curves[j]);
    }
    free(plot);
    return status;
}
