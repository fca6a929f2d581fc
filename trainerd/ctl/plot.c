/* The command plot: charts of jobs, from the daemon or from an output folder. */
#include "trainerd/ctl/draw/chart.h"
#include "trainerd/ctl/run.h"
#include "trainerd/ctl/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TITLE_BYTES 256

/* --- the numbers --- */

static enum status read_daemon(const struct ctl_arguments *arguments, struct curves *curves, char *name)
{
    struct client client;
    json_t *event = NULL;
    enum status status = ctl_connect(arguments, &client);
    if (status != STATUS_OK) {
        return status;
    }
    status = client_ask(&client, ctl_job_request(arguments, "status"), &event);
    if (status == STATUS_OK) {
        snprintf(name, TITLE_BYTES, "%s", text_of(json_array_get(json_object_get(event, "jobs"), 0), "name"));
        json_decref(event);
        status = client_send(&client, ctl_job_request(arguments, "metrics"));
    }
    for (bool ends = false; status == STATUS_OK && !ends;) {
        status = client_next(&client, -1, &event);
        ends = json_is_true(json_object_get(event, "end"));
        curves_add(curves, event);
        json_decref(event);
        event = NULL;
    }
    client_close(&client);
    return status;
}

static enum status read_folder(const char *folder, struct curves *curves, char *name)
{
    char path[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return status_fail(STATUS_NO_INPUT, "cannot open '%s': %s", path, strerror(errno));
    }
    while (getline(&line, &capacity, file) > 0) {
        json_t *event = json_loads(line, 0, NULL);
        curves_add(curves, event);
        json_decref(event);
    }
    free(line);
    fclose(file);
    snprintf(path, sizeof path, "%s/result.json", folder);
    json_t *result = json_load_file(path, 0, NULL);
    snprintf(name, TITLE_BYTES, "%s", text_of(result, "name")[0] != '\0' ? text_of(result, "name") : folder);
    json_decref(result);
    return STATUS_OK;
}

/* --- the chart --- */

static void make_title(const struct curves *curves, const char *name, char *title)
{
    char loss[TEXT_BYTES] = "", best_text[TEXT_BYTES], *printable = text_printable(name);
    double best = -INFINITY, least = INFINITY;
    bool is_evaluated = curves_range(curves, CURVE_VALID, &least, &best);
    text_value(curves->n > 0 ? curves->value[CURVE_LOSS][curves->n - 1] : NAN, loss);
    text_percent(is_evaluated ? best : NAN, best_text);
    snprintf(title, TITLE_BYTES, "%.120s: %zu epochs, loss %s, best valid %s", printable, curves->n, loss, best_text);
    free(printable);
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

static enum status draw(const char *path, const char *title, const struct curves *curves)
{
    const char *ending = strrchr(path, '.');
    struct canvas *canvas = NULL;
    if (ending != NULL && strcmp(ending, ".svg") == 0) {
        canvas = canvas_svg(CHART_WIDTH, CHART_HEIGHT);
    } else if (ending != NULL && strcmp(ending, ".png") == 0) {
        canvas = canvas_png(CHART_WIDTH, CHART_HEIGHT);
    } else {
        return status_fail(STATUS_USAGE, "'%s' ends in neither .svg nor .png", path);
    }
    chart_draw(canvas, title, curves);
    enum status status = canvas->ops->save(canvas, path);
    canvas->ops->close(canvas);
    return status;
}

enum status run_plot(const struct ctl_arguments *arguments, int *exit_code_out)
{
    struct curves curves;
    char name[TITLE_BYTES] = "", title[TITLE_BYTES], path[PATH_MAX];
    const char *folder = arguments->value[CTL_OPTION_FROM];
    (void)exit_code_out;
    if ((folder != NULL) == (arguments->n_operand > 0)) {
        return status_fail(STATUS_USAGE, "plot takes either JOB or --from FOLDER; see trainctl plot --help");
    }
    curves_init(&curves);
    enum status status = folder != NULL ? read_folder(folder, &curves, name) : read_daemon(arguments, &curves, name);
    if (status == STATUS_OK && curves.n == 0) {
        status = status_fail(STATUS_NO_INPUT, "there is no epoch to draw yet");
    }
    if (status == STATUS_OK) {
        choose_path(arguments, name, path);
        make_title(&curves, name, title);
        status = draw(path, title, &curves);
    }
    if (status == STATUS_OK && ctl_given(arguments, CTL_OPTION_JSON)) {
        json_t *answer = json_pack("{s:s%, s:I}", "file", path, strlen(path), "epochs", (json_int_t)curves.n);
        text_print_json(answer);
        json_decref(answer);
    } else if (status == STATUS_OK) {
        printf("%s\n", path);
    }
    curves_release(&curves);
    return status;
}
