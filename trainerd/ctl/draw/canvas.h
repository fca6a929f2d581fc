/* A canvas for lines, areas and text, in points from the upper left. canvas_svg.c writes SVG itself; only canvas_png.c sees cairo. */
#ifndef TRAINERD_CTL_CANVAS_H
#define TRAINERD_CTL_CANVAS_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum canvas_anchor { CANVAS_ANCHOR_START, CANVAS_ANCHOR_MIDDLE, CANVAS_ANCHOR_END };

struct canvas_point {
    double x, y;
};

struct canvas;

struct canvas_text {
    double x, y;
    enum canvas_anchor anchor;
    double size;
    uint32_t colour;
};

/* The operations of a kind of canvas. Colours are 0xrrggbb. */
struct canvas_ops {
    void (*line)(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width);
    void (*area)(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double opacity);
    void (*text)(struct canvas *canvas, const struct canvas_text *place, const char *text);
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
