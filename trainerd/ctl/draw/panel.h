/* A panel of a chart: a horizontal axis that the chart's panels share, a range of values, and curves. */
#ifndef TRAINERD_CTL_PANEL_H
#define TRAINERD_CTL_PANEL_H

#include "trainerd/ctl/draw/canvas.h"
#include "trainerd/ctl/draw/curves.h"

#define PANEL_INK 0x222222

struct panel {
    struct canvas *canvas;
    enum curves_axis axis;
    bool is_log;                    /* the horizontal axis; begin is above 0 */
    double x0, x1, y0, y1;          /* y0 is the top */
    double begin, end, least, most; /* of the axis; of values */
};

double panel_x(const struct panel *panel, double at);
double panel_y(const struct panel *panel, double value);

/* Widen the range to a curve's values; false: it has no values. Begin with an empty range; panel_range_end ends. */
void panel_range_begin(struct panel *panel);
bool panel_range_add(struct panel *panel, const struct curves *curves, enum curve curve);
void panel_range_end(struct panel *panel); /* round */

void panel_axes(const struct panel *panel, const char *unit, bool is_percent);
void panel_curve(const struct panel *panel, const struct curves *curves, enum curve curve, uint32_t colour);

/* Between the deviations of a mean below and above it. */
void panel_band(const struct panel *panel, const struct curves *curves, enum curve curve, uint32_t colour);
/* A mark on a curve at one of its places; none where it has no value. */
void panel_mark(const struct panel *panel, const struct curves *curves, enum curve curve, size_t at, uint32_t colour);

/* In place of curves: there are no values. */
void panel_empty(const struct panel *panel);

/* Under the lowest panel: what the axis is. */
void panel_axis_name(const struct panel *panel, double y);

#endif
