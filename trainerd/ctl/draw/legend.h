/* What the colours of a chart mean: keys and names, in rows as wide as the chart. Knows no curves. */
#ifndef TRAINERD_CTL_LEGEND_H
#define TRAINERD_CTL_LEGEND_H

#include "trainerd/ctl/draw/canvas.h"

#define LEGEND_ROW 18.0 /* points from one row to the next */

struct legend_item {
    const char *name;
    uint32_t colour;
    bool is_mark; /* the key is a mark (legend_mark), else a line */
};

/* Rows that n names need, and draw them from the left; a name that is wider than a row is cut. */
int legend_rows(const struct legend_item *item, int n, double wide);
void legend_draw(struct canvas *canvas, const struct legend_item *item, int n, double x0, double x1, double y);

/* Draw them in one row that ends at x1. */
void legend_draw_right(struct canvas *canvas, const struct legend_item *item, int n, double x1, double y);

/* The mark of a point. */
void legend_mark(struct canvas *canvas, double x, double y, uint32_t colour);

/* A text, cut where it would be wider. */
void legend_text(struct canvas *canvas, const struct canvas_text *place, const char *text, double wide);

#endif
