/* A canvas for lines, areas and text, in points from the upper left, which cairo writes as SVG or PNG. */
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

struct canvas_text {
    double x, y;
    enum canvas_anchor anchor;
    double size;
    uint32_t colour;
};

struct canvas;

/* A white canvas. owns  the caller owns it: canvas_close */
struct canvas *canvas_open(bool is_svg, double width, double height);
void canvas_close(struct canvas *canvas);

/* Draw on it. Colours are 0xrrggbb. */
void canvas_line(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width);
void canvas_area(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double opacity);
void canvas_text(struct canvas *canvas, const struct canvas_text *place, const char *text);

/* Write the file, once, after all drawing. errors  STATUS_CREATE names the file */
enum status canvas_save(struct canvas *canvas, const char *path);

#endif
