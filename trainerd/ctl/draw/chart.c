#include "trainerd/ctl/draw/chart.h"

#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/draw/legend.h"
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
#define TITLE_SIZE 15.0
#define BEST_TEXT "best valid"

static const uint32_t colours[CURVE_N] = {
    [CURVE_LOSS] = 0xd62728, [CURVE_VALID_LOSS] = 0x2ca02c, [CURVE_TRAIN] = 0x1f77b4,   [CURVE_VALID] = 0x2ca02c,
    [CURVE_TEST] = 0x17becf, [CURVE_EPOCH] = 0xbbbbbb,      [CURVE_COMPUTE] = 0x4c78a8, [CURVE_WAIT] = 0xf58518};

static const uint32_t job_colours[CHART_JOBS_MOST] = {0x1f77b4, 0xd62728, 0x2ca02c, 0xff7f0e,
                                                      0x9467bd, 0x8c564b, 0xe377c2, 0x17becf};

/* At the right above a panel; marks: one more for the best. */
static void draw_legend(const struct panel *panel, const enum curve *curve, int n, const char *const *labels,
                        bool marks)
{
    struct legend_item item[CURVE_N + 1];
    for (int i = 0; i < n; i++) {
        item[i] = (struct legend_item){.name = labels != NULL ? labels[i] : curve_text(curve[i]),
                                       .colour = colours[curve[i]]};
    }
    item[n] = (struct legend_item){.name = BEST_TEXT, .colour = PANEL_INK, .is_mark = true};
    legend_draw_right(panel->canvas, item, n + marks, panel->x1, panel->y0 - 8);
}

static void draw_lines(struct panel *panel, const struct curves *curves, const enum curve *curve, int n,
                       const char *unit, bool is_percent)
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
    size_t best = curve[0] != CURVE_LOSS ? curves_best(curves) : curves->n;
    for (int i = 0; i < n; i++) {
        panel_curve(panel, curves, curve[i], colours[curve[i]]);
    }
    for (int i = 0; i < n; i++) {
        panel_mark(panel, curves, curve[i], best, colours[curve[i]]);
    }
    draw_legend(panel, curve, n, NULL, best < curves->n);
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
        canvas_area(panel->canvas, corners, 4, colour, 1);
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The top of the bars' axis, above nearly all bars; a first epoch far above is cut. *highest is its bar. */
static double find_top(const struct curves *curves, size_t n_bar, double *highest)
{
    double height[BARS_MOST], top;
    for (size_t i = 0; i < n_bar; i++) {
        height[i] = mean(curves, CURVE_EPOCH, i * curves->n / n_bar, (i + 1) * curves->n / n_bar);
    }
    qsort(height, n_bar, sizeof *height, compare);
    *highest = height[n_bar - 1];
    top = fmin(*highest, 1.5 * height[n_bar * 95 / 100]);
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

/* Stacked bars of compute, waiting and the rest; as maxima over workers their sum may exceed the epoch. */
static void draw_time(struct panel *panel, const struct curves *curves)
{
    static const enum curve all[] = {CURVE_COMPUTE, CURVE_WAIT, CURVE_EPOCH};
    static const char *const labels[] = {"compute", "waiting", "other"};
    char unit[96] = "seconds per epoch", cut[TEXT_BYTES];
    double highest;
    panel_range_begin(panel);
    if (!panel_range_add(panel, curves, CURVE_EPOCH)) {
        return;
    }
    size_t n_bar = curves->n < BARS_MOST ? curves->n : BARS_MOST;
    panel->least = 0;
    panel->most = find_top(curves, n_bar, &highest);
    if (highest > panel->most) {
        text_value(highest, cut);
        snprintf(unit, sizeof unit, "seconds per epoch (bars above are cut, the highest is %s)", cut);
    }
    panel_axes(panel, unit, false);
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
    draw_legend(panel, all, 3, labels, false);
}

/* --- charts --- */

/* The first panel of a chart, with its title. legend: points that one below it needs */
static struct panel begin_chart(struct canvas *canvas, const char *title, enum curves_axis axis, double legend)
{
    double top = TOP + legend, high = (CHART_HEIGHT - top - (N_PANEL - 1) * GAP - BOTTOM) / N_PANEL;
    legend_text(canvas, &(struct canvas_text){CHART_WIDTH / 2, 22, CANVAS_ANCHOR_MIDDLE, TITLE_SIZE, PANEL_INK},
                title, CHART_WIDTH - 2 * RIGHT);
    return (struct panel){
        .canvas = canvas, .axis = axis, .x0 = LEFT, .x1 = CHART_WIDTH - RIGHT, .y0 = top, .y1 = top + high, .end = 1};
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
    static const enum curve loss[] = {CURVE_LOSS, CURVE_VALID_LOSS},
                            metrics[] = {CURVE_TRAIN, CURVE_VALID, CURVE_TEST};
    struct panel panel = begin_chart(canvas, title, curves->axis, 0);
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

/* The axis from the first epoch of any job to the last of any; logarithmic for bytes. */
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

/* Each job's band and curve, and where it is best. */
static void draw_jobs(const struct panel *panel, const struct chart_job *job, int n, enum curve curve)
{
    for (int j = 0; j < n; j++) {
        panel_band(panel, job[j].curves, curve, job_colours[j]);
    }
    for (int j = 0; j < n; j++) {
        panel_curve(panel, job[j].curves, curve, job_colours[j]);
    }
    for (int j = 0; j < n && curve != CURVE_LOSS; j++) {
        panel_mark(panel, job[j].curves, curve, curves_best(job[j].curves), job_colours[j]);
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
    struct legend_item item[CHART_JOBS_MOST + 1];
    bool has_best = false;
    for (int j = 0; j < n; j++) {
        item[j] = (struct legend_item){.name = job[j].name, .colour = job_colours[j]};
        has_best = has_best || curves_best(job[j].curves) < job[j].curves->n;
    }
    item[n] = (struct legend_item){.name = BEST_TEXT, .colour = PANEL_INK, .is_mark = true};
    double left = RIGHT, right = CHART_WIDTH - RIGHT;
    struct panel panel = begin_chart(canvas, title, job[0].curves->axis,
                                     LEGEND_ROW * legend_rows(item, n + has_best, right - left) + LEGEND_ROW / 2);
    legend_draw(canvas, item, n + has_best, left, right, TOP);
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
        if (found) {
            draw_jobs(&panel, job, n, panels[p].curve);
        }
        if (p + 1 < N_PANEL) {
            next_panel(&panel);
        }
    }
    panel_axis_name(&panel, CHART_HEIGHT - 10);
}
