/* Something to draw on: lines, areas and words in points from the upper left. SVG is written by canvas_svg.c itself;
 * PNG by cairo, which canvas_png.c alone sees. */
#ifndef TRAINERD_CTL_CANVAS_H
#define TRAINERD_CTL_CANVAS_H

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum canvas_anchor { CANVAS_ANCHOR_START, CANVAS_ANCHOR_MIDDLE, CANVAS_ANCHOR_END };

struct canvas_point {
    double x, y;
};

struct canvas;

/* What a kind of canvas can do. Colours are 0xrrggbb. */
struct canvas_ops {
    void (*line)(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width);
    void (*area)(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour);
    void (*text)(struct canvas *canvas, double x, double y, enum canvas_anchor anchor, double size, uint32_t colour,
                 const char *words);
    enum status (*save)(struct canvas *canvas, const char *path);
    void (*close)(struct canvas *canvas);
};

struct canvas {
    const struct canvas_ops *ops; /* first member of every kind */
};

/* owns  the caller owns the canvas: ops->close */
struct canvas *canvas_svg(double width, double height);
struct canvas *canvas_png(double width, double height);

#endif
