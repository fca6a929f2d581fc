#include "trainerd/ctl/draw/screen.h"

#include "protocol/base/memory.h"
#include "trainerd/ctl/base/columns.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/draw/braille.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAVE "\x1b[0m\x1b[?25h\x1b[?1049l" /* colours off, cursor on, the normal screen */
#define ENTER "\x1b[?1049h\x1b[?25l"
#define LABEL_COLUMNS 10
#define ROWS_LEAST 3
#define BEST_MARK "\xe2\x96\xb2" /* an upward triangle, one column wide */

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
    int n_column, n_left; /* rows that are left */
    bool in_colour;
};

static void line_begin(struct frame *frame)
{
    frame->n_left--;
}

static void line_end(struct frame *frame)
{
    fputs("\x1b[K", frame->file);
    if (frame->n_left > 0) {
        fputs("\r\n", frame->file);
    }
}

/* One line of text, made printable and cut at the edge. */
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
    struct table table; /* of one cell: it cuts the line */
    table_init(&table, 1);
    table_add(&table, content);
    char *text = NULL;
    size_t n;
    FILE *memory = open_memstream(&text, &n);
    table_print(&table, memory, frame->n_column, NULL);
    fclose(memory);
    line_begin(frame);
    fwrite(text, 1, n - 1, frame->file); /* without its end */
    free(text);
    line_end(frame);
}

static void draw_bar(struct frame *frame, double share)
{
    int n_cell = frame->n_column - 2;
    if (frame->n_left <= 0 || n_cell < 10) {
        return;
    }
    line_begin(frame);
    fputc('[', frame->file);
    for (int i = 0; i < n_cell; i++) {
        fputs(share * n_cell >= i + 1 ? "\xe2\x96\x88" : "\xc2\xb7", frame->file);
    }
    fputc(']', frame->file);
    line_end(frame);
}

static const int colours[CURVE_N] = {
    [CURVE_LOSS] = 3, [CURVE_TRAIN] = 4, [CURVE_VALID] = 2, [CURVE_TEST] = 6}; /* ANSI's */

/* The curves first … last of a chart, in one range of values. */
struct chart {
    const struct curves *curves;
    enum curve first, last;
    double least, most;
};

static void draw_curve(struct braille *braille, const struct chart *chart, enum curve curve, int colour)
{
    const struct curves *curves = chart->curves;
    double x0 = NAN, y0 = NAN, begin = curves->at[0], end = curves->at[curves->n - 1];
    double wide = end > begin ? end - begin : 1, high = chart->most > chart->least ? chart->most - chart->least : 1;
    for (size_t i = 0; i < curves->n; i++) {
        double value = curves->value[curve][i];
        if (!isfinite(value)) {
            continue;
        }
        double x = (curves->at[i] - begin) / wide * (2 * braille->n_column - 1);
        double y = (value - chart->least) / high * (4 * braille->n_row - 1);
        braille_line(braille, isfinite(x0) ? x0 : x, isfinite(y0) ? y0 : y, x, y, colour);
        x0 = x;
        y0 = y;
    }
}

static void draw_chart(struct frame *frame, struct chart *chart, int n_row)
{
    struct braille braille;
    bool found = false;
    chart->least = INFINITY;
    chart->most = -INFINITY;
    for (int curve = chart->first; curve <= (int)chart->last; curve++) {
        found = curves_range(chart->curves, (enum curve)curve, &chart->least, &chart->most) || found;
    }
    int n_column = frame->n_column - LABEL_COLUMNS - 1;
    if (!found || n_column < 10 || n_row < ROWS_LEAST) {
        return;
    }
    braille_init(&braille, n_column, n_row);
    for (int curve = chart->first; curve <= (int)chart->last; curve++) {
        draw_curve(&braille, chart, (enum curve)curve, colours[curve]);
    }
    for (int row = 0; row < n_row; row++) {
        char label[TEXT_BYTES] = "";
        if (row == 0 || row == n_row - 1) {
            text_value(row == 0 ? chart->most : chart->least, label);
        }
        line_begin(frame);
        fprintf(frame->file, "%*s ", LABEL_COLUMNS, label);
        braille_print(&braille, row, frame->in_colour, frame->file);
        line_end(frame);
    }
    braille_release(&braille);
}

/* A name in the colour of its curve, and its value. */
static void draw_legend(const struct frame *frame, const char *name, int colour, const char *value)
{
    if (frame->in_colour) {
        fprintf(frame->file, "  \x1b[3%dm%s\x1b[0m %s", colour, name, value);
    } else {
        fprintf(frame->file, "  %s %s", name, value);
    }
}

/* "best 82.00 % at epoch 53", where there is place for it behind what was printed. */
static void draw_best(const struct frame *frame, const json_t *job, const struct curves *curves, int n_printed)
{
    char text[2 * TEXT_BYTES], value[TEXT_BYTES];
    size_t best = curves_best(curves);
    if (best == curves->n) {
        return;
    }
    json_t *metric = json_pack("{s:s, s:f}", "metric", text_of(job, "metric"), "best",
                               curves->value[CURVE_VALID][best]);
    text_metric(metric, "best", value);
    json_decref(metric);
    for (int words = 1; words >= 0; words--) { /* as much of it as there is place for */
        int n = snprintf(text, sizeof text, " best %s at %s%.0f", value, words ? "epoch " : "", curves->at[best]);
        if (n_printed + 3 + n <= frame->n_column) {
            fprintf(frame->file, "  " BEST_MARK "%s", text);
            return;
        }
    }
}

static void draw_titles(struct frame *frame, const json_t *job, const struct curves *curves, enum curve first,
                        enum curve last)
{
    int n_printed = LABEL_COLUMNS - 1;
    if (frame->n_left <= 0) {
        return;
    }
    line_begin(frame);
    fprintf(frame->file, "%*s", LABEL_COLUMNS - 1, "");
    for (int curve = first; curve <= (int)last; curve++) {
        char value[TEXT_BYTES];
        if (curve == CURVE_LOSS) {
            text_value(number_of(job, curve_key(CURVE_LOSS)), value);
        } else {
            text_metric(job, curve_key((enum curve)curve), value);
        }
        draw_legend(frame, curve_text((enum curve)curve), colours[curve], value);
        n_printed += 3 + (int)strlen(curve_text((enum curve)curve)) + (int)strlen(value);
    }
    if (first != CURVE_LOSS) {
        draw_best(frame, job, curves, n_printed);
    }
    line_end(frame);
}

/* Write a label into the cells of an axis; false: they are not free. */
static bool put_label(char *cells, int n_cell, int at, const char *label)
{
    int n = (int)strlen(label);
    for (int i = at - 1; i <= at + n; i++) { /* a blank on both sides */
        if (i >= 0 && i < n_cell && cells[i] != ' ') {
            return false;
        }
    }
    if (at < 0 || at + n > n_cell) {
        return false;
    }
    memcpy(cells + at, label, (size_t)n);
    return true;
}

/* Epochs under the charts, and a mark under the best one. */
static void draw_axis(struct frame *frame, const struct curves *curves)
{
    int n_cell = frame->n_column - LABEL_COLUMNS - 1, mark = -1;
    size_t best = curves_best(curves);
    double begin = curves->at[0], end = curves->at[curves->n - 1], wide = end > begin ? end - begin : 1;
    if (frame->n_left <= 0 || n_cell < 10) {
        return;
    }
    char *cells = memory_alloc((size_t)n_cell + 1, 1), label[TEXT_BYTES];
    memset(cells, ' ', (size_t)n_cell);
    if (best < curves->n) {
        mark = (int)lround((curves->at[best] - begin) / wide * (n_cell - 1));
        cells[mark] = '^';
    }
    snprintf(label, sizeof label, "%.0f", begin);
    put_label(cells, n_cell, mark >= 0 && mark <= (int)strlen(label) ? mark + 2 : 0, label);
    int n = snprintf(label, sizeof label, "%.0f", end);
    put_label(cells, n_cell, mark >= n_cell - n - 1 ? mark - n - 1 : n_cell - n, label);
    if (!put_label(cells, n_cell, n_cell / 2 - 2, "epoch")) {
        put_label(cells, n_cell, n_cell / 4 - 2, "epoch");
    }
    line_begin(frame);
    fprintf(frame->file, "%*s ", LABEL_COLUMNS, "");
    for (int i = 0; i < n_cell; i++) {
        fputs(i == mark ? BEST_MARK : (char[2]){cells[i], '\0'}, frame->file);
    }
    free(cells);
    line_end(frame);
}

static void draw_head(struct frame *frame, const json_t *job)
{
    char left[TEXT_BYTES], epoch_s[TEXT_BYTES], planned[TEXT_BYTES], held[TEXT_BYTES], workers[TEXT_BYTES],
        epochs[TEXT_BYTES];
    char progress[4 * TEXT_BYTES] = "no epochs", reason[REASON_BYTES];
    text_reason(job, reason);
    text_count(integer_of(job, "workers"), "worker", workers);
    text_epochs(job, epochs);
    text_duration(number_of(job, "seconds_left"), left);
    text_duration(number_of(job, "epoch_s"), epoch_s);
    text_bytes(number_of(job, "memory"), planned);
    text_bytes(number_of(job, "memory_measured"), held);
    line(frame, "job %lld  %s  %s  %s", (long long)integer_of(job, "id"), text_of(job, "name"), text_of(job, "state"),
         reason);
    if (integer_of(job, "epochs") > 0) {
        snprintf(progress, sizeof progress, "epoch %s, %s left, %s/epoch", epochs, left, epoch_s);
    }
    line(frame, "%s  %s, attempt %lld  memory %s of %s planned", progress, workers,
         (long long)integer_of(job, "attempt"), held, planned);
    draw_bar(frame, number_of(job, "percent") / 100.0);
}

void screen_draw(FILE *file, const struct screen_view *view)
{
    struct frame frame = {file, view->n_column, view->n_row, view->in_colour};
    const struct curves *curves = view->curves;
    fputs("\x1b[H", file);
    draw_head(&frame, view->job);
    int n_chart = (frame.n_left - 4) / 2; /* rows, beside two titles, the axis and the footer */
    if (curves->n > 0 && n_chart >= ROWS_LEAST) {
        draw_titles(&frame, view->job, curves, CURVE_LOSS, CURVE_LOSS);
        draw_chart(&frame, &(struct chart){.curves = curves, .first = CURVE_LOSS, .last = CURVE_LOSS}, n_chart);
        draw_titles(&frame, view->job, curves, CURVE_TRAIN, CURVE_TEST);
        draw_chart(&frame, &(struct chart){.curves = curves, .first = CURVE_TRAIN, .last = CURVE_TEST}, n_chart);
        draw_axis(&frame, curves);
    }
    while (frame.n_left > 1) {
        line(&frame, "%s", "");
    }
    line(&frame, "%s", view->footer);
    fflush(file);
}
