#include "trainerd/ctl/screen.h"

#include "protocol/base/memory.h"
#include "trainerd/ctl/base/text.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAVE "\x1b[0m\x1b[?25h\x1b[?1049l" /* colours off, cursor on, the normal screen */
#define ENTER "\x1b[?1049h\x1b[?25l"
#define SPARKS_MOST 80

/* --- the terminal --- */

static struct screen *open_screen; /* for the signal handler */

static void on_signal(int number)
{
    if (open_screen != NULL) {
        ssize_t n = write(fileno(open_screen->output), LEAVE, sizeof LEAVE - 1);
        (void)n;
        if (open_screen->input >= 0) {
            tcsetattr(open_screen->input, TCSANOW, &open_screen->before);
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void on_resize(int number)
{
    (void)number; /* it ends the wait; the next frame has the new size */
}

static void handle(int number, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void screen_open(struct screen *screen, int input, FILE *output)
{
    *screen = (struct screen){.input = input, .output = output, .is_open = true};
    if (input >= 0 && tcgetattr(input, &screen->before) == 0) {
        struct termios raw = screen->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(input, TCSANOW, &raw);
    } else {
        screen->input = -1;
    }
    open_screen = screen;
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGHUP, on_signal);
    handle(SIGWINCH, on_resize);
    signal(SIGTSTP, SIG_IGN); /* a stopped process would leave the terminal on the alternate screen */
    fputs(ENTER, output);
    fflush(output);
}

void screen_close(struct screen *screen)
{
    if (!screen->is_open) {
        return;
    }
    fputs(LEAVE, screen->output);
    fflush(screen->output);
    if (screen->input >= 0) {
        tcsetattr(screen->input, TCSANOW, &screen->before);
    }
    open_screen = NULL;
    screen->is_open = false;
    handle(SIGINT, SIG_DFL);
    handle(SIGTERM, SIG_DFL);
    handle(SIGHUP, SIG_DFL);
    handle(SIGWINCH, SIG_DFL);
    handle(SIGTSTP, SIG_DFL);
}

char screen_key(const struct screen *screen)
{
    char key = 0;
    struct pollfd ready = {.fd = screen->input, .events = POLLIN};
    return screen->input >= 0 && poll(&ready, 1, 0) == 1 && read(screen->input, &key, 1) == 1 ? key : 0;
}

/* --- a frame --- */

struct frame {
    FILE *file;
    int n_column, n_left; /* rows that are left above the footer */
};

/* Text in one line, made printable and cut at the edge. */
static void print_cut(const struct frame *frame, const char *content)
{
    char *text = text_printable(content);
    fprintf(frame->file, "%.*s\x1b[K", text_prefix_bytes(text, frame->n_column), text);
    free(text);
}

static void line(struct frame *frame, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void line(struct frame *frame, const char *format, ...)
{
    char content[1024];
    va_list arguments;
    if (frame->n_left <= 0) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(content, sizeof content, format, arguments);
    va_end(arguments);
    print_cut(frame, content);
    fputs("\r\n", frame->file);
    frame->n_left--;
}

static void draw_bar(struct frame *frame, double share)
{
    int n_cell = frame->n_column - 2;
    if (frame->n_left <= 0 || n_cell < 10) {
        return;
    }
    fputc('[', frame->file);
    for (int i = 0; i < n_cell; i++) {
        fputs(share * n_cell >= i + 1 ? "\xe2\x96\x88" : "\xc2\xb7", frame->file);
    }
    fputs("]\x1b[K\r\n", frame->file);
    frame->n_left--;
}

/* --- sparks --- */

void history_add(struct history *history, const json_t *event)
{
    double at = field_number(event, "epoch");
    if (!isfinite(at)) {
        return;
    }
    while (history->n > 0 && history->epoch[history->n - 1].at >= at) {
        history->n--;
    }
    history->epoch = memory_list_grow(history->epoch, (int32_t)history->n, sizeof *history->epoch);
    history->epoch[history->n++] = (struct history_epoch){
        at, {field_number(event, "loss"), field_number(event, "valid_metric")}};
}

void history_release(struct history *history)
{
    free(history->epoch);
    *history = (struct history){0};
}

static double mean(const struct history *history, enum history_value value, size_t from, size_t to)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        double one = history->epoch[i].value[value];
        sum += isfinite(one) ? one : 0;
        n += isfinite(one);
    }
    return n > 0 && isfinite(sum) ? sum / (double)n : NAN;
}

void history_sparks(const struct history *history, enum history_value value, int n_cell, char *out)
{
    double cell[SPARKS_MOST], least = INFINITY, most = -INFINITY;
    size_t n = history->n < (size_t)n_cell ? history->n : (size_t)n_cell;
    for (size_t i = 0; i < n; i++) {
        cell[i] = mean(history, value, i * history->n / n, (i + 1) * history->n / n);
        least = fmin(least, cell[i]); /* of a number and NaN the number */
        most = fmax(most, cell[i]);
    }
    for (size_t i = 0; i < n; i++) {
        double share = (cell[i] - least) / (most - least);
        int level = share > 0 ? (int)(fmin(1, share) * 7.999) : 0; /* of equal values the share is NaN */
        out += isnan(cell[i]) ? sprintf(out, " ") : sprintf(out, "\xe2\x96%c", 0x81 + level); /* U+2581 to U+2588 */
    }
    *out = '\0';
}

/* The first place of the best validation metric; n: there is no such metric. */
static size_t best_of(const struct history *history, bool falls)
{
    size_t best = history->n;
    for (size_t i = 0; i < history->n; i++) {
        double value = history->epoch[i].value[HISTORY_VALID];
        double most = best < history->n ? history->epoch[best].value[HISTORY_VALID] : NAN;
        if (isfinite(value) && (best == history->n || (falls ? value < most : value > most))) {
            best = i;
        }
    }
    return best;
}

/* Two lines of sparks and numbers, and where the metric is best:
 *
 *     loss      ▇▅▃▂▁▁  0.1234
 *     accuracy  ▁▃▆▇▆▇  valid 81.50 %  train 99.10 %  test 80.20 %
 *               best valid 82.00 % at epoch 53
 */
static void draw_sparks(struct frame *frame, const json_t *job, const struct history *history)
{
    char sparks[3 * SPARKS_MOST + 1];
    enum job_metric metric = JOB_METRIC_AUTO;
    int n_cell = frame->n_column / 3;
    n_cell = n_cell < SPARKS_MOST ? n_cell : SPARKS_MOST;
    job_metric_find(field_text(job, "metric"), &metric);
    const char *name = metric != JOB_METRIC_AUTO ? job_choice_text("train", "metric", (int)metric) : "metric";
    int label = (int)strlen(name) + 2;
    history_sparks(history, HISTORY_LOSS, n_cell, sparks);
    line(frame, "%-*s%s  %s", label, "loss", sparks, figure_number(field_number(job, "loss")).text);
    history_sparks(history, HISTORY_VALID, n_cell, sparks);
    line(frame, "%-*s%s  valid %s  train %s  test %s", label, name, sparks, text_metric(job, "valid_metric").text,
         text_metric(job, "train_metric").text, text_metric(job, "test_metric").text);
    size_t best = best_of(history, job_metric_falls(metric));
    if (best < history->n) {
        double value = history->epoch[best].value[HISTORY_VALID];
        const struct figure text = (job_metric_is_fraction(metric) ? figure_fraction : figure_number)(value);
        line(frame, "%*sbest valid %s at epoch %.0f", label, "", text.text, history->epoch[best].at);
    }
}

/* --- the whole --- */

static void draw_head(struct frame *frame, const json_t *job)
{
    char progress[4 * FIGURE_BYTES] = "no epochs";
    line(frame, "job %lld  %s  %s  %s", (long long)field_integer(job, "id"), field_text(job, "name"),
         field_text(job, "state"), text_reason(job).text);
    if (field_integer(job, "epochs") > 0) {
        snprintf(progress, sizeof progress, "epoch %s, %s left, %s/epoch", text_epochs(job).text,
                 figure_seconds(field_number(job, "seconds_left")).text,
                 figure_seconds(field_number(job, "epoch_s")).text);
    }
    line(frame, "%s  %s, attempt %lld  memory %s of %s planned", progress,
         figure_count(field_integer(job, "workers"), "worker").text, (long long)field_integer(job, "attempt"),
         figure_bytes(field_number(job, "memory_measured")).text, figure_bytes(field_number(job, "memory")).text);
    draw_bar(frame, field_number(job, "percent") / 100.0);
}

void screen_draw(FILE *file, const struct screen_view *view)
{
    struct frame frame = {.file = file, .n_column = view->n_column, .n_left = view->n_row - 1};
    fputs("\x1b[H", file);
    draw_head(&frame, view->job);
    if (view->history->n > 0) {
        draw_sparks(&frame, view->job, view->history);
    }
    while (frame.n_left > 0) {
        line(&frame, "%s", "");
    }
    print_cut(&frame, view->footer);
    fflush(file);
}
