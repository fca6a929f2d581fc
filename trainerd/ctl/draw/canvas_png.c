#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/files/file.h"
#include "trainerd/ctl/draw/canvas.h"

#include <cairo/cairo.h>
#include <stdlib.h>
#include <string.h>

#define SCALE 2.0 /* pixels per point */

struct png {
    struct canvas canvas;
    cairo_surface_t *surface;
    cairo_t *cairo;
};

/* The file's bytes, collected from cairo's writer. */
struct bytes {
    unsigned char *at;
    size_t n, capacity;
};

static cairo_t *cairo_of(struct canvas *canvas)
{
    return ((struct png *)canvas)->cairo;
}

static void colour_set(cairo_t *cairo, uint32_t colour, double opacity)
{
    cairo_set_source_rgba(cairo, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0, (colour & 255) / 255.0,
                          opacity);
}

static void path_set(cairo_t *cairo, const struct canvas_point *point, size_t n)
{
    cairo_new_path(cairo);
    for (size_t i = 0; i < n; i++) {
        cairo_line_to(cairo, point[i].x, point[i].y);
    }
}

static void line(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width)
{
    cairo_t *cairo = cairo_of(canvas);
    colour_set(cairo, colour, 1);
    cairo_set_line_width(cairo, width);
    cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
    path_set(cairo, point, n);
    cairo_stroke(cairo);
}

static void area(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double opacity)
{
    cairo_t *cairo = cairo_of(canvas);
    colour_set(cairo, colour, opacity);
    path_set(cairo, point, n);
    cairo_close_path(cairo);
    cairo_fill(cairo);
}

static void text(struct canvas *canvas, const struct canvas_text *place, const char *text)
{
    cairo_t *cairo = cairo_of(canvas);
    cairo_text_extents_t extents;
    char printable[512]; /* invalid UTF-8 would put cairo into an error state */
    printable_copy(text, printable, sizeof printable);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, place->size);
    cairo_text_extents(cairo, printable, &extents);
    double shift = place->anchor == CANVAS_ANCHOR_START ? 0 : place->anchor == CANVAS_ANCHOR_MIDDLE ? 0.5 : 1;
    colour_set(cairo, place->colour, 1);
    cairo_move_to(cairo, place->x - shift * extents.x_advance, place->y);
    cairo_show_text(cairo, printable);
}

static cairo_status_t append(void *context, const unsigned char *piece, unsigned n)
{
    struct bytes *bytes = context;
    if (bytes->n + n > bytes->capacity) {
        bytes->capacity = 2 * (bytes->n + n);
        unsigned char *more = memory_alloc(bytes->capacity, 1);
        if (bytes->n > 0) {
            memcpy(more, bytes->at, bytes->n);
        }
        free(bytes->at);
        bytes->at = more;
    }
    memcpy(bytes->at + bytes->n, piece, n);
    bytes->n += n;
    return CAIRO_STATUS_SUCCESS;
}

static enum status save(struct canvas *canvas, const char *path)
{
    struct png *png = (struct png *)canvas;
    struct bytes bytes = {0};
    cairo_status_t error = cairo_surface_write_to_png_stream(png->surface, append, &bytes);
    const struct iovec piece = {.iov_base = bytes.at, .iov_len = bytes.n};
    enum status status = error == CAIRO_STATUS_SUCCESS ? file_replace(path, &piece, 1)
                                                       : status_fail(STATUS_CREATE, "cannot draw '%s': %s", path,
                                                                     cairo_status_to_string(error));
    free(bytes.at);
    return status;
}

static void release(struct canvas *canvas)
{
    struct png *png = (struct png *)canvas;
    cairo_destroy(png->cairo);
    cairo_surface_destroy(png->surface);
    free(png);
    cairo_debug_reset_static_data(); /* frees its font caches */
}

static const struct canvas_ops ops = {line, area, text, save, release};

struct canvas *canvas_png(double width, double height)
{
    struct png *png = memory_alloc(1, sizeof *png);
    png->canvas.ops = &ops;
    png->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(SCALE * width), (int)(SCALE * height));
    png->cairo = cairo_create(png->surface);
    cairo_scale(png->cairo, SCALE, SCALE);
    cairo_set_source_rgb(png->cairo, 1, 1, 1);
    cairo_paint(png->cairo);
    return &png->canvas;
}
