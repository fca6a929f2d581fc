#include "trainerd/ctl/draw/panel.h"

#include "protocol/base/memory.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/draw/legend.h"

#include <math.h>
#include <stdlib.h>

#define N_TICK 5
#define N_TICK_AXIS 10
#define NEAREST 1.0 /* the least distance of a curve's points, but for its last one */
#define FAINT 0xdddddd
#define BAND_OPACITY 0.2

double panel_x(const struct panel *panel, double at)
{
    double share = (at - panel->begin) / (panel->end - panel->begin);
    if (panel->is_log) {
        share = log(fmax(at, panel->begin) / panel->begin) / log(panel->end / panel->begin);
    }
    return panel->x0 + share * (panel->x1 - panel->x0);
}

double panel_y(const struct panel *panel, double value)
{
    return panel->y1 - (value - panel->least) / (panel->most - panel->least) * (panel->y1 - panel->y0);
}

void panel_range_begin(struct panel *panel)
{
    panel->least = INFINITY;
    panel->most = -INFINITY;
}

bool panel_range_add(struct panel *panel, const struct curves *curves, enum curve curve)
{
    return curves_range(curves, curve, &panel->least, &panel->most);
}

void panel_range_end(struct panel *panel)
{
    if (panel->most <= panel->least) {
        panel->least -= 0.5 * fmax(1e-6, fabs(panel->least));
        panel->most += 0.5 * fmax(1e-6, fabs(panel->most));
    }
    double step = curves_step(panel->least, panel->most, N_TICK);
    panel->least = floor(panel->least / step + 1e-6) * step;
    panel->most = ceil(panel->most / step - 1e-6) * step;
}

/* --- axes --- */

/* A unit of the horizontal axis in which its end is a number of few digits. */
struct unit {
    double size;
    const char *name;
};

static struct unit unit_of(const struct panel *panel)
{
    static const struct unit epochs[] = {{1, "epoch"}};
    static const struct unit bytes[] = {{1, "bytes received in training"},
                                        {1e3, "kB received in training"},
                                        {1e6, "MB received in training"},
                                        {1e9, "GB received in training"},
                                        {1e12, "TB received in training"}};
    static const struct unit times[] = {
        {1, "seconds of epochs"}, {60, "minutes of epochs"}, {3600, "hours of epochs"}};
    const struct unit *units[CURVES_AXIS_N] = {epochs, bytes, times};
    static const size_t n[CURVES_AXIS_N] = {1, 5, 3};
    size_t i = 0;
    while (i + 1 < n[panel->axis] && panel->end >= 2 * units[panel->axis][i + 1].size) {
        i++;
    }
    return units[panel->axis][i];
}

void panel_axis_name(const struct panel *panel, double y)
{
    canvas_text(panel->canvas,
                &(struct canvas_text){(panel->x0 + panel->x1) / 2, y, CANVAS_ANCHOR_MIDDLE, 12, PANEL_INK},
                unit_of(panel).name);
}

static void draw_segment(struct canvas *canvas, double x0, double y0, double x1, double y1, uint32_t colour)
{
    const struct canvas_point ends[2] = {{x0, y0}, {x1, y1}};
    canvas_line(canvas, ends, 2, colour, 1);
}

static void draw_tick(const struct panel *panel, double at, double unit)
{
    char label[TEXT_BYTES];
    double x = panel_x(panel, at);
    snprintf(label, sizeof label, panel->axis == CURVES_AXIS_EPOCH ? "%.0f" : "%.4g", at / unit);
    draw_segment(panel->canvas, x, panel->y1, x, panel->y1 + 4, PANEL_INK);
    canvas_text(panel->canvas, &(struct canvas_text){x, panel->y1 + 16, CANVAS_ANCHOR_MIDDLE, 11, PANEL_INK}, label);
}

static void draw_ticks(const struct panel *panel)
{
    double unit = unit_of(panel).size;
    if (panel->is_log) {
        static const double times[] = {1, 2, 5};
        for (double power = pow(10, floor(log10(panel->begin))); power <= panel->end; power *= 10) {
            for (int i = 0; i < 3; i++) {
                if (times[i] * power >= panel->begin && times[i] * power <= panel->end) {
                    draw_tick(panel, times[i] * power, unit);
                }
            }
        }
        return;
    }
    double step = curves_step(panel->begin / unit, panel->end / unit, N_TICK_AXIS) * unit;
    step = panel->axis == CURVES_AXIS_EPOCH ? fmax(1, step) : step;
    for (double at = ceil(panel->begin / step - 1e-6) * step; at <= panel->end; at += step) {
        draw_tick(panel, fabs(at) < 1e-9 * step ? 0 : at, unit); /* not -0 */
    }
}

void panel_axes(const struct panel *panel, const char *unit, bool is_percent)
{
    double step = curves_step(panel->least, panel->most, N_TICK);
    for (double at = ceil(panel->least / step - 1e-6) * step; at <= panel->most + 1e-9 * step; at += step) {
        char label[TEXT_BYTES];
        double y = panel_y(panel, at), shown = fabs(at) < 1e-9 * step ? 0 : at;
        snprintf(label, sizeof label, is_percent ? "%.4g %%" : "%.4g", is_percent ? 100 * shown : shown);
        draw_segment(panel->canvas, panel->x0, y, panel->x1, y, FAINT);
        canvas_text(panel->canvas, &(struct canvas_text){panel->x0 - 6, y + 4, CANVAS_ANCHOR_END, 11, PANEL_INK},
                    label);
    }
    draw_ticks(panel);
    draw_segment(panel->canvas, panel->x0, panel->y1, panel->x1, panel->y1, PANEL_INK);
    canvas_text(panel->canvas, &(struct canvas_text){panel->x0, panel->y0 - 8, CANVAS_ANCHOR_START, 12, PANEL_INK},
                unit);
}

/* --- curves --- */

void panel_empty(const struct panel *panel)
{
    canvas_text(panel->canvas,
                &(struct canvas_text){(panel->x0 + panel->x1) / 2, (panel->y0 + panel->y1) / 2, CANVAS_ANCHOR_MIDDLE,
                                      12, PANEL_INK},
                "no values yet");
}

/* Up to where it has values. */
static size_t n_known(const struct curves *curves, enum curve curve)
{
    size_t n = curves->n;
    while (n > 0 && !isfinite(curves->value[curve][n - 1])) {
        n--;
    }
    return n;
}

void panel_band(const struct panel *panel, const struct curves *curves, enum curve curve, uint32_t colour)
{
    size_t n = 0, last = n_known(curves, curve);
    struct canvas_point *low = memory_alloc(2 * curves->n + 1, sizeof *low),
                        *high = memory_alloc(curves->n + 1, sizeof *high);
    for (size_t i = 0; i < last; i++) {
        double x = panel_x(panel, curves->at[i]);
        if (isfinite(curves->low[curve][i]) && (n == 0 || i + 1 == last || x >= low[n - 1].x + NEAREST)) {
            low[n] = (struct canvas_point){x, panel_y(panel, curves->low[curve][i])};
            high[n++] = (struct canvas_point){x, panel_y(panel, curves->high[curve][i])};
        }
    }
    for (size_t i = 0; i < n; i++) { /* there, and back */
        low[n + i] = high[n - 1 - i];
    }
    if (n > 1) {
        canvas_area(panel->canvas, low, 2 * n, colour, BAND_OPACITY);
    }
    free(low);
    free(high);
}

void panel_mark(const struct panel *panel, const struct curves *curves, enum curve curve, size_t at, uint32_t colour)
{
    if (at < curves->n && isfinite(curves->value[curve][at])) {
        legend_mark(panel->canvas, panel_x(panel, curves->at[at]), panel_y(panel, curves->value[curve][at]), colour);
    }
}

void panel_curve(const struct panel *panel, const struct curves *curves, enum curve curve, uint32_t colour)
{
    size_t n = 0, last = n_known(curves, curve);
    struct canvas_point *point = memory_alloc(curves->n + 1, sizeof *point);
    for (size_t i = 0; i < last; i++) {
        double value = curves->value[curve][i], x = panel_x(panel, curves->at[i]);
        if (isfinite(value) && (n == 0 || i + 1 == last || x >= point[n - 1].x + NEAREST)) {
            point[n++] = (struct canvas_point){x, panel_y(panel, value)};
        }
    }
    if (n == 1) { /* a single evaluation is drawn as a short line */
        point[1] = (struct canvas_point){point[0].x + 3, point[0].y};
        n = 2;
    }
    if (n > 0) {
        canvas_line(panel->canvas, point, n, colour, 1.6);
    }
    free(point);
}
