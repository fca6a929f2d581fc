#include "trainerd/coordinator/folder/progress.h"

#include "protocol/base/printable.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_BYTES 512
#define PRINT_BYTES 8192 /* a path and a sentence */
#define N_LINE_MOST 20
#define BAR_CELLS 20
#define NAME_COLUMNS 100 /* in a narrower window, the metrics need the columns of their name; … */
#define BAR_COLUMNS 125  /* … in one narrower than this, those of the bar */

struct figure progress_metric(const struct progress *progress, double value)
{
    struct figure out = {"-"};
    if (!isnan(value)) {
        snprintf(out.text, sizeof out.text, progress->is_of_numbers ? "%.5g" : "%.2f %%",
                 progress->is_of_numbers ? value : 100.0 * value);
    }
    return out;
}

bool progress_is_terminal(FILE *file)
{
    const char *term = getenv("TERM");
    return isatty(fileno(file)) && (term == NULL || strcmp(term, "dumb") != 0);
}

void progress_init(struct progress *progress, FILE *file, bool is_live)
{
    *progress = (struct progress){.file = file, .is_live = is_live};
}

static void clear(struct progress *progress)
{
    if (progress->is_drawn) {
        fputs("\r\x1b[K", progress->file);
        progress->is_drawn = false;
    }
}

void progress_print(struct progress *progress, const char *format, ...)
{
    clear(progress);
    va_list arguments;
    va_start(arguments, format);
    char text[PRINT_BYTES], line[PRINT_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable_copy(text, line, sizeof line); /* it contains names of jobs, datasets and folders */
    fprintf(progress->file, "%s\n", line);
    fflush(progress->file);
}

void progress_begin(struct progress *progress, int64_t n_first, int64_t n_epoch, int64_t eval_every, double now_s)
{
    progress->n_first = n_first;
    progress->n_epoch = n_epoch;
    progress->start_s = progress->shown_s = now_s;
    int64_t n = eval_every > 0 ? (n_epoch - n_first) / eval_every : 1;
    progress->stride = (n + N_LINE_MOST - 1) / N_LINE_MOST;
    progress->last = (struct progress_epoch){.train_metric = NAN,
                                             .valid_metric = NAN,
                                             .test_metric = NAN,
                                             .best_valid_metric = NAN,
                                             .best_test_metric = NAN};
    for (int i = 0; i < PROGRESS_METRICS_MOST; i++) {
        progress->last.valid_of[i] = NAN;
    }
}

/* Columns of the window, less one: a full line would wrap. */
static size_t window_columns(const struct progress *progress)
{
    struct winsize size = {0};
    if (ioctl(fileno(progress->file), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
        return 79;
    }
    return size.ws_col - 1u < LINE_BYTES - 8 ? size.ws_col - 1u : LINE_BYTES - 8;
}

/* A line under way: the first piece that does not fit ends it. All pieces are ASCII. */
struct line {
    char text[LINE_BYTES];
    size_t columns;
    bool is_full;
};

static void append(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(struct line *line, const char *format, ...)
{
    char piece[96];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    size_t n = strlen(line->text);
    line->is_full = line->is_full || n + 2 + strlen(piece) > line->columns;
    if (!line->is_full) {
        snprintf(line->text + n, sizeof line->text - n, "%s%s", n > 0 ? "  " : "", piece);
    }
}

/* "accuracy: valid 81.5 %"; metric "": without its name. */
static void append_metric(const struct progress *progress, struct line *line, const char *metric, const char *split,
                          double value)
{
    bool is_number = progress->is_of_numbers;
    append(line, is_number ? "%s%s%s %.4g" : "%s%s%s %.1f %%", metric, metric[0] != '\0' ? ": " : "", split,
           is_number ? value : 100.0 * value);
}

/* The first metric of all splits, named once, and the others of the validation split. */
static void append_metrics(const struct progress *progress, struct line *line)
{
    const struct progress_epoch *now = &progress->last;
    const struct {
        const char *name;
        double value;
    } splits[] = {{"train", now->train_metric}, {"valid", now->valid_metric}, {"test", now->test_metric}};
    bool is_named = progress->n_metric > 0 && (!progress->is_live || line->columns >= NAME_COLUMNS);
    const char *metric = is_named ? progress->metric[0] : "";
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (!isnan(splits[i].value)) {
            append_metric(progress, line, metric, splits[i].name, splits[i].value);
            metric = "";
        }
    }
    for (int i = 1; i < progress->n_metric; i++) {
        if (!isnan(now->valid_of[i])) {
            append_metric(progress, line, progress->metric[i], "valid", now->valid_of[i]);
        }
    }
}

static void append_bar(struct line *line, int64_t n_done, int64_t n_epoch)
{
    char bar[BAR_CELLS + 1] = "";
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = n_done * BAR_CELLS >= (i + 1) * n_epoch ? '#' : '.';
    }
    append(line, "[%s]", bar);
}

/* The most important pieces first: a narrow window loses the last ones, and the bar. */
static void line_build(const struct progress *progress, struct line *line)
{
    const struct progress_epoch *now = &progress->last;
    append(line, "epoch %lld/%lld", (long long)now->n_done, (long long)progress->n_epoch);
    if (progress->is_live && line->columns >= BAR_COLUMNS && progress->n_epoch > 0) {
        append_bar(line, now->n_done, progress->n_epoch);
    }
    append(line, "loss %.4g", now->loss);
    if (now->seconds_left > 0.0) {
        append(line, "%s left", figure_seconds(now->seconds_left).text);
    }
    append_metrics(progress, line);
    append(line, "%s/epoch", figure_seconds(now->epoch_s).text);
    if (now->bytes_received > 0) {
        append(line, "%s/epoch", figure_bytes(now->bytes_received).text);
    }
}

static double left_s(const struct progress *progress, double now_s)
{
    int64_t n_done = progress->last.n_done, n_here = n_done - progress->n_first;
    if (n_here <= 0) {
        return NAN;
    }
    double per_epoch = (now_s - progress->start_s) / (double)(n_here > 1 ? n_here - 1 : 1);
    return n_done < progress->n_epoch ? per_epoch * (double)(progress->n_epoch - n_done) : 0.0;
}

void progress_epoch(struct progress *progress, const struct progress_epoch *epoch, double now_s)
{
    struct progress_epoch now = *epoch;
    bool is_first = progress->n_evaluation == 0, is_last = now.n_done >= progress->n_epoch;
    if (now.is_evaluated) {
        progress->n_evaluation++;
    } else {
        now.train_metric = progress->last.train_metric;
        now.valid_metric = progress->last.valid_metric;
        now.test_metric = progress->last.test_metric;
        memcpy(now.valid_of, progress->last.valid_of, sizeof now.valid_of);
    }
    progress->last = now;
    progress->last.seconds_left = left_s(progress, now_s);
    double since = now_s - progress->shown_s;
    if (now.n_done - progress->n_first == 1) {
        progress->start_s = now_s; /* estimates leave out the first epoch, which warms up caches */
    }
    bool show = progress->is_live ? !progress->is_drawn || since >= 0.1
                                  : now.is_evaluated && (is_first || is_last || since >= 10.0 ||
                                                         progress->n_evaluation % progress->stride == 0);
    if (!show) {
        return;
    }
    struct line line = {.columns = progress->is_live ? window_columns(progress) : LINE_BYTES - 8};
    line_build(progress, &line);
    fprintf(progress->file, progress->is_live ? "\r%s\x1b[K" : "%s\n", line.text);
    fflush(progress->file);
    progress->is_drawn = progress->is_live;
    progress->shown_s = now_s;
}

void progress_end(struct progress *progress)
{
    clear(progress);
    fflush(progress->file);
}
