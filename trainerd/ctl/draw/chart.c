#include "trainerd/ctl/draw/chart.h"

#include "trainerd/ctl/draw/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 80.0
#define RIGHT 25.0
#define TOP 45.0
#define GAP 45.0
#define BOTTOM 45.0
#define N_PANEL 3
#define N_TICK 5
#define BARS_MOST 200u
#define LEGEND 70.0     /* points from one word to the next */
#define LETTER 7.0      /* points, about */
#define NAME_LETTERS 24 /* of a job's name, at most */

static const uint32_t colours[CURVE_N] = {
    [CURVE_LOSS] = 0xd62728, [CURVE_VALID_LOSS] = 0x2ca02c, [CURVE_TRAIN] = 0x1f77b4,   [CURVE_VALID] = 0x2ca02c,
    [CURVE_TEST] = 0x17becf, [CURVE_EPOCH] = 0xbbbbbb,      [CURVE_COMPUTE] = 0x4c78a8, [CURVE_WAIT] = 0xf58518};

static const uint32_t job_colours[CHART_JOBS_MOST] = {0x1f77b4, 0xd62728, 0x2ca02c, 0xff7f0e,
                                                      0x9467bd, 0x8c564b, 0xe377c2, 0x17becf};

/* Names at the right above a panel, in the colours of their curves. */
static void draw_legend(const struct panel *panel, const enum curve *curve, int n, const char *const *labels)
{
    for (int i = 0; i < n; i++) {
        panel_legend(panel, LEGEND * (n - 1 - i), labels != NULL ? labels[i] : curve_text(curve[i]), colours[curve[i]]);
    }
}

static void draw_lines(struct panel *panel, const struct curves *curves, const enum curve *curve, int n, const char *unit,
                       bool is_percent)
{
    bool found = false;
    panel_range_begin(panel);
    for (int i = 0; i < n; i++) {
        found = panel_range_add(panel, curves, curve[i]) || found;
    }
    if (!found) {
        panel_empty(panel);
        return;
    }
    panel_range_end(panel);
    panel_axes(panel, unit, is_percent);
    for (int i = 0; i < n; i++) {
        panel_curve(panel, curves, curve[i], colours[curve[i]]);
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
    double y0 = panel_y(panel, fmin(to, panel->most)), y1 = panel_y(panel, fmin(from, panel->most));
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

/* The bars' place: each has as much of the axis as its epochs. */
static double bar_x(const struct panel *panel, const struct curves *curves, size_t epoch)
{
    if (curves->axis == CURVES_AXIS_EPOCH) {
        return panel->x0 + (panel->x1 - panel->x0) * (double)epoch / (double)curves->n;
    }
    return panel_x(panel, epoch > 0 ? curves->at[epoch - 1] : panel->begin);
}

/* Stacked bars of compute, waiting and the rest. Compute and waiting are maxima over workers, so their sum may exceed the epoch. */
static void draw_time(struct panel *panel, const struct curves *curves)
{
    static const enum curve all[] = {CURVE_COMPUTE, CURVE_WAIT, CURVE_EPOCH};
    static const char *const labels[] = {"compute", "waiting", "other"};
    panel_range_begin(panel);
    if (!panel_range_add(panel, curves, CURVE_EPOCH)) {
        return;
    }
    size_t n_bar = curves->n < BARS_MOST ? curves->n : BARS_MOST;
    panel->least = 0;
    panel->most = find_top(curves, n_bar);
    panel_axes(panel, "seconds per epoch", false);
    for (size_t i = 0; i < n_bar; i++) {
        size_t from = i * curves->n / n_bar, to = (i + 1) * curves->n / n_bar;
        double x0 = bar_x(panel, curves, from), x1 = bar_x(panel, curves, to);
        double whole = mean(curves, CURVE_EPOCH, from, to);
        double compute = fmin(whole, mean(curves, CURVE_COMPUTE, from, to));
        double wait = fmin(whole - compute, mean(curves, CURVE_WAIT, from, to));
        x1 -= n_bar < 100 ? fmin(1, 0.5 * (x1 - x0)) : 0;
        draw_bar(panel, x0, x1, 0, compute, colours[CURVE_COMPUTE]);
        draw_bar(panel, x0, x1, compute, compute + wait, colours[CURVE_WAIT]);
        draw_bar(panel, x0, x1, compute + wait, whole, colours[CURVE_EPOCH]);
    }
    draw_legend(panel, all, 3, labels);
}

/* --- charts --- */

/* The first panel of a chart, with its title. */
static struct panel begin_chart(struct canvas *canvas, const char *title, enum curves_axis axis)
{
    double high = (CHART_HEIGHT - TOP - (N_PANEL - 1) * GAP - BOTTOM) / N_PANEL;
    canvas->ops->text(canvas, &(struct canvas_text){CHART_WIDTH / 2, 22, CANVAS_ANCHOR_MIDDLE, 15, PANEL_INK}, title);
    return (struct panel){
        .canvas = canvas, .axis = axis, .x0 = LEFT, .x1 = CHART_WIDTH - RIGHT, .y0 = TOP, .y1 = TOP + high, .end = 1};
}

static void next_panel(struct panel *panel)
{
    double down = panel->y1 - panel->y0 + GAP;
    panel->y0 += down;
    panel->y1 += down;
}

/* "valid accuracy": what an axis is of. "valid metric" where jobs have different ones, or it is not known. */
#define UNIT_BYTES 64
static void name_metric(enum job_metric metric, const char *split, char unit[UNIT_BYTES])
{
    const char *name = metric != JOB_METRIC_AUTO ? job_choice_text("train", "metric", (int)metric) : "metric";
    snprintf(unit, UNIT_BYTES, "%s%s%s", split, split[0] != '\0' ? " " : "", name);
}

void chart_draw(struct canvas *canvas, const char *title, const struct curves *curves)
{
    static const enum curve loss[] = {CURVE_LOSS, CURVE_VALID_LOSS}, metrics[] = {CURVE_TRAIN, CURVE_VALID, CURVE_TEST};
    struct panel panel = begin_chart(canvas, title, curves->axis);
    bool from_zero = curves->n == 0 || curves->axis != CURVES_AXIS_EPOCH;
    panel.begin = from_zero ? 0 : curves->at[0];
    panel.end = curves->n > 0 ? curves->at[curves->n - 1] : 0;
    panel.end = panel.end > panel.begin ? panel.end : panel.begin + 1;
    double least = INFINITY, most = -INFINITY;
    draw_lines(&panel, curves, loss, curves_range(curves, CURVE_VALID_LOSS, &least, &most) ? 2 : 1, "loss", false);
    next_panel(&panel);
    char unit[UNIT_BYTES];
    name_metric(curves->metric, "", unit);
    draw_lines(&panel, curves, metrics, 3, unit, job_metric_is_fraction(curves->metric));
    next_panel(&panel);
    draw_time(&panel, curves);
    panel_axis_name(&panel, CHART_HEIGHT - 10);
}

/* --- several jobs --- */

/* The axis from the first epoch of any job to the last of any. Bytes of jobs differ by orders of magnitude: their logarithm. */
static void find_axis(struct panel *panel, const struct chart_job *job, int n)
{
    double begin = INFINITY, end = -INFINITY;
    for (int j = 0; j < n; j++) {
        const struct curves *curves = job[j].curves;
        for (size_t i = 0; i < curves->n; i++) {
            begin = curves->at[i] > 0 ? fmin(begin, curves->at[i]) : begin;
            end = fmax(end, curves->at[i]);
        }
    }
    panel->is_log = panel->axis == CURVES_AXIS_BYTES && begin < end;
    panel->begin = panel->is_log ? begin : 0;
    panel->end = end > panel->begin ? end : panel->begin + 1;
}

static void draw_names(const struct panel *panel, const struct chart_job *job, int n)
{
    double right = 0;
    for (int j = n - 1; j >= 0; j--) {
        char name[NAME_LETTERS + 1];
        snprintf(name, sizeof name, "%s", job[j].name);
        panel_legend(panel, right, name, job_colours[j]);
        right += LETTER * (double)strlen(name) + 2 * LETTER;
    }
}

void chart_compare(struct canvas *canvas, const char *title, const struct chart_job *job, int n)
{
    static const struct {
        enum curve curve;
        const char *split;
    } panels[N_PANEL] = {{CURVE_LOSS, ""}, {CURVE_VALID, "valid"}, {CURVE_TEST, "test"}};
    enum job_metric metric = job[0].curves->metric;
    bool are_fractions = true;
    for (int j = 0; j < n; j++) {
        metric = job[j].curves->metric == metric ? metric : JOB_METRIC_AUTO;
        are_fractions = are_fractions && job_metric_is_fraction(job[j].curves->metric);
    }
    struct panel panel = begin_chart(canvas, title, job[0].curves->axis);
    find_axis(&panel, job, n);
    for (int p = 0; p < N_PANEL; p++) {
        bool found = false;
        panel_range_begin(&panel);
        for (int j = 0; j < n; j++) {
            found = panel_range_add(&panel, job[j].curves, panels[p].curve) || found;
        }
        if (found) {
            panel_range_end(&panel);
            char unit[UNIT_BYTES] = "loss";
            if (panels[p].curve != CURVE_LOSS) {
                name_metric(metric, panels[p].split, unit);
            }
            panel_axes(&panel, unit, panels[p].curve != CURVE_LOSS && are_fractions);
        } else {
            panel_empty(&panel);
        }
        for (int j = 0; j < n && found; j++) {
            panel_curve(&panel, job[j].curves, panels[p].curve, job_colours[j]);
        }
        draw_names(&panel, job, n);
        if (p + 1 < N_PANEL) {
            next_panel(&panel);
        }
    }
    panel_axis_name(&panel, CHART_HEIGHT - 10);
}
