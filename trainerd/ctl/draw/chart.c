#include "trainerd/ctl/draw/chart.h"

#include "protocol/memory.h"
#include "trainerd/ctl/text.h"

#include <math.h>
#include <stdlib.h>

#define LEFT 80.0
#define RIGHT 25.0
#define TOP 45.0
#define GAP 45.0
#define BOTTOM 45.0
#define N_TICK 5
#define POINTS_MOST 2000u /* of a curve; of more epochs, every n-th is drawn */
#define BARS_MOST 200u
#define INK 0x222222
#define FAINT 0xdddddd

static const uint32_t colours[CURVE_N] = {
    [CURVE_LOSS] = 0xd62728,  [CURVE_TRAIN] = 0x1f77b4,   [CURVE_VALID] = 0x2ca02c, [CURVE_TEST] = 0x17becf,
    [CURVE_EPOCH] = 0xbbbbbb, [CURVE_COMPUTE] = 0x4c78a8, [CURVE_WAIT] = 0xf58518};

/* One of the three panels: its place, and its ranges. */
struct panel {
    struct canvas *canvas;
    const struct curves *curves;
    double x0, x1, y0, y1;          /* y0 is the top */
    double begin, end, least, most; /* epochs, values */
};

static double x_of(const struct panel *panel, double at)
{
    return panel->x0 + (at - panel->begin) / (panel->end - panel->begin) * (panel->x1 - panel->x0);
}

static double y_of(const struct panel *panel, double value)
{
    return panel->y1 - (value - panel->least) / (panel->most - panel->least) * (panel->y1 - panel->y0);
}

static void draw_segment(struct canvas *canvas, double x0, double y0, double x1, double y1, uint32_t colour)
{
    const struct canvas_point ends[2] = {{x0, y0}, {x1, y1}};
    canvas->ops->line(canvas, ends, 2, colour, 1);
}

static void draw_axes(const struct panel *panel, const char *unit, bool is_percent)
{
    const struct canvas_ops *ops = panel->canvas->ops;
    double step = curves_step(panel->least, panel->most, N_TICK);
    for (double at = ceil(panel->least / step - 1e-6) * step; at <= panel->most + 1e-9 * step; at += step) {
        char label[TEXT_BYTES];
        double y = y_of(panel, at), shown = fabs(at) < 1e-9 * step ? 0 : at;
        snprintf(label, sizeof label, is_percent ? "%.4g %%" : "%.4g", is_percent ? 100 * shown : shown);
        draw_segment(panel->canvas, panel->x0, y, panel->x1, y, FAINT);
        ops->text(panel->canvas, &(struct canvas_text){panel->x0 - 6, y + 4, CANVAS_ANCHOR_END, 11, INK}, label);
    }
    step = fmax(1, curves_step(panel->begin, panel->end, 10));
    for (double at = ceil(panel->begin / step - 1e-6) * step; at <= panel->end; at += step) {
        char label[TEXT_BYTES];
        snprintf(label, sizeof label, "%.0f", at);
        draw_segment(panel->canvas, x_of(panel, at), panel->y1, x_of(panel, at), panel->y1 + 4, INK);
        ops->text(panel->canvas, &(struct canvas_text){x_of(panel, at), panel->y1 + 16, CANVAS_ANCHOR_MIDDLE, 11, INK}, label);
    }
    draw_segment(panel->canvas, panel->x0, panel->y1, panel->x1, panel->y1, INK);
    ops->text(panel->canvas, &(struct canvas_text){panel->x0, panel->y0 - 8, CANVAS_ANCHOR_START, 12, INK}, unit);
}

/* Names at the right above a panel, in the colours of their curves. */
static void draw_legend(const struct panel *panel, const enum curve *curve, int n, const char *const *labels)
{
    double x = panel->x1;
    for (int i = n - 1; i >= 0; i--) {
        const char *label = labels != NULL ? labels[i] : curve_text(curve[i]);
        panel->canvas->ops->text(panel->canvas,
                                 &(struct canvas_text){x, panel->y0 - 8, CANVAS_ANCHOR_END, 12, colours[curve[i]]}, label);
        x -= 70;
    }
}

static void draw_curve(const struct panel *panel, enum curve curve)
{
    const struct curves *curves = panel->curves;
    size_t n = 0, stride = (curves->n + POINTS_MOST - 1) / POINTS_MOST;
    struct canvas_point *point = memory_alloc(curves->n + 1, sizeof *point);
    size_t next = 0; /* the next epoch to draw, if it has a value */
    for (size_t i = 0; i < curves->n; i++) {
        double value = curves->value[curve][i];
        if (isfinite(value) && (i >= next || i + 1 == curves->n)) {
            point[n++] = (struct canvas_point){x_of(panel, curves->at[i]), y_of(panel, value)};
            next = i + stride;
        }
    }
    if (n == 1) { /* a single evaluation is drawn as a short line */
        point[1] = (struct canvas_point){point[0].x + 3, point[0].y};
        n = 2;
    }
    if (n > 0) {
        panel->canvas->ops->line(panel->canvas, point, n, colours[curve], 1.6);
    }
    free(point);
}

/* A round range; false: none of the curves has a value. */
static bool find_range(struct panel *panel, const enum curve *curve, int n)
{
    bool found = false;
    panel->least = INFINITY;
    panel->most = -INFINITY;
    for (int i = 0; i < n; i++) {
        found = curves_range(panel->curves, curve[i], &panel->least, &panel->most) || found;
    }
    if (panel->most <= panel->least) {
        panel->least -= 0.5 * fmax(1e-6, fabs(panel->least));
        panel->most += 0.5 * fmax(1e-6, fabs(panel->most));
    }
    double step = curves_step(panel->least, panel->most, N_TICK);
    panel->least = floor(panel->least / step + 1e-6) * step;
    panel->most = ceil(panel->most / step - 1e-6) * step;
    return found;
}

static void draw_lines(struct panel *panel, const enum curve *curve, int n, const char *unit, bool is_percent)
{
    if (!find_range(panel, curve, n)) {
        panel->canvas->ops->text(
            panel->canvas,
            &(struct canvas_text){(panel->x0 + panel->x1) / 2, (panel->y0 + panel->y1) / 2, CANVAS_ANCHOR_MIDDLE, 12, INK},
            "no values yet");
        return;
    }
    draw_axes(panel, unit, is_percent);
    for (int i = 0; i < n; i++) {
        draw_curve(panel, curve[i]);
    }
    draw_legend(panel, curve, n, NULL);
}

static double mean(const struct curves *curves, enum curve curve, size_t from, size_t to)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (isfinite(curves->value[curve][i])) {
            sum += curves->value[curve][i];
            n++;
        }
    }
    return n > 0 ? sum / (double)n : 0;
}

static void draw_bar(const struct panel *panel, double x0, double x1, double from, double to, uint32_t colour)
{
    double y0 = y_of(panel, fmin(to, panel->most)), y1 = y_of(panel, fmin(from, panel->most));
    const struct canvas_point corners[4] = {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}};
    if (to > from) {
        panel->canvas->ops->area(panel->canvas, corners, 4, colour);
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The top of the bars' axis, above nearly all of them. The first epoch is often far above, and is cut. */
static double find_top(const struct curves *curves, size_t n_bar)
{
    double height[BARS_MOST], top;
    for (size_t i = 0; i < n_bar; i++) {
        height[i] = mean(curves, CURVE_EPOCH, i * curves->n / n_bar, (i + 1) * curves->n / n_bar);
    }
    qsort(height, n_bar, sizeof *height, compare);
    top = fmin(height[n_bar - 1], 1.5 * height[n_bar * 95 / 100]);
    double step = curves_step(0, top, N_TICK);
    return top > 0 ? ceil(top / step - 1e-6) * step : 1;
}

/* Stacked bars of compute, waiting and the rest. Compute and waiting are maxima over workers, so their sum may exceed the epoch. */
static void draw_time(struct panel *panel)
{
    static const enum curve all[] = {CURVE_COMPUTE, CURVE_WAIT, CURVE_EPOCH};
    static const char *const labels[] = {"compute", "waiting", "other"};
    const struct curves *curves = panel->curves;
    if (!find_range(panel, all + 2, 1)) {
        return;
    }
    size_t n_bar = curves->n < BARS_MOST ? curves->n : BARS_MOST;
    panel->least = 0;
    panel->most = find_top(curves, n_bar);
    draw_axes(panel, "seconds per epoch", false);
    for (size_t i = 0; i < n_bar; i++) {
        size_t from = i * curves->n / n_bar, to = (i + 1) * curves->n / n_bar;
        double x0 = panel->x0 + (panel->x1 - panel->x0) * (double)i / (double)n_bar;
        double x1 = panel->x0 + (panel->x1 - panel->x0) * (double)(i + 1) / (double)n_bar;
        double whole = mean(curves, CURVE_EPOCH, from, to);
        double compute = fmin(whole, mean(curves, CURVE_COMPUTE, from, to));
        double wait = fmin(whole - compute, mean(curves, CURVE_WAIT, from, to));
        x1 -= n_bar < 100 ? 1 : 0;
        draw_bar(panel, x0, x1, 0, compute, colours[CURVE_COMPUTE]);
        draw_bar(panel, x0, x1, compute, compute + wait, colours[CURVE_WAIT]);
        draw_bar(panel, x0, x1, compute + wait, whole, colours[CURVE_EPOCH]);
    }
    draw_legend(panel, all, 3, labels);
}

void chart_draw(struct canvas *canvas, const char *title, const struct curves *curves)
{
    static const enum curve loss[] = {CURVE_LOSS}, metrics[] = {CURVE_TRAIN, CURVE_VALID, CURVE_TEST};
    double high = (CHART_HEIGHT - TOP - 2 * GAP - BOTTOM) / 3;
    struct panel panel = {.canvas = canvas, .curves = curves, .x0 = LEFT, .x1 = CHART_WIDTH - RIGHT};
    canvas->ops->text(canvas, &(struct canvas_text){CHART_WIDTH / 2, 22, CANVAS_ANCHOR_MIDDLE, 15, INK}, title);
    panel.begin = curves->n > 0 ? curves->at[0] : 0;
    panel.end = curves->n > 1 ? curves->at[curves->n - 1] : panel.begin + 1;
    panel.y0 = TOP;
    panel.y1 = TOP + high;
    draw_lines(&panel, loss, 1, "loss", false);
    panel.y0 += high + GAP;
    panel.y1 += high + GAP;
    draw_lines(&panel, metrics, 3, "metric", true);
    panel.y0 += high + GAP;
    panel.y1 += high + GAP;
    draw_time(&panel);
    canvas->ops->text(canvas,
                      &(struct canvas_text){(LEFT + CHART_WIDTH - RIGHT) / 2, CHART_HEIGHT - 10, CANVAS_ANCHOR_MIDDLE, 12, INK},
                      "epoch");
}
