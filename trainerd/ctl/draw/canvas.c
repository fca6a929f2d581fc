#include "trainerd/ctl/draw/canvas.h"

#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/files/file.h"

#include <cairo/cairo-svg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE 2.0 /* pixels per point */

/* The end of cairo's SVG, before which the texts go. */
#define SVG_END "</svg>\n"

struct canvas {
    cairo_surface_t *surface;
    cairo_t *cairo;
    bool is_svg;
    FILE *file; /* what cairo writes, in memory */
    char *bytes;
    size_t n_bytes;
    /* cairo writes letters as curves: the texts of an SVG again, invisible, to be searched and selected */
    FILE *texts;
    char *texts_bytes;
    size_t n_texts_bytes;
};

static cairo_status_t append(void *context, const unsigned char *piece, unsigned n)
{
    struct canvas *canvas = context;
    return fwrite(piece, 1, n, canvas->file) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

struct canvas *canvas_open(bool is_svg, double width, double height)
{
    struct canvas *canvas = memory_alloc(1, sizeof *canvas);
    double scale = is_svg ? 1.0 : SCALE;
    canvas->is_svg = is_svg;
    canvas->file = open_memstream(&canvas->bytes, &canvas->n_bytes);
    canvas->texts = open_memstream(&canvas->texts_bytes, &canvas->n_texts_bytes);
    canvas->surface = is_svg ? cairo_svg_surface_create_for_stream(append, canvas, width, height)
                             : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(SCALE * width),
                                                          (int)(SCALE * height));
    if (is_svg) {
        cairo_svg_surface_set_document_unit(canvas->surface, CAIRO_SVG_UNIT_PX);
    }
    canvas->cairo = cairo_create(canvas->surface);
    cairo_scale(canvas->cairo, scale, scale);
    cairo_set_source_rgb(canvas->cairo, 1, 1, 1);
    cairo_paint(canvas->cairo);
    return canvas;
}

void canvas_close(struct canvas *canvas)
{
    cairo_destroy(canvas->cairo);
    cairo_surface_destroy(canvas->surface);
    cairo_debug_reset_static_data(); /* frees its font caches */
    fclose(canvas->file);
    fclose(canvas->texts);
    free(canvas->bytes);
    free(canvas->texts_bytes);
    free(canvas);
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

void canvas_line(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width)
{
    colour_set(canvas->cairo, colour, 1);
    cairo_set_line_width(canvas->cairo, width);
    cairo_set_line_join(canvas->cairo, CAIRO_LINE_JOIN_ROUND);
    path_set(canvas->cairo, point, n);
    cairo_stroke(canvas->cairo);
}

void canvas_area(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double opacity)
{
    colour_set(canvas->cairo, colour, opacity);
    path_set(canvas->cairo, point, n);
    cairo_close_path(canvas->cairo);
    cairo_fill(canvas->cairo);
}

static void print_text(FILE *file, const struct canvas_text *place, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" font-size=\"%.1f\">", place->x, place->y,
            anchors[place->anchor], place->size);
    for (; *text != '\0'; text++) {
        const char *escaped = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        if (escaped != NULL) {
            fputs(escaped, file);
        } else {
            fputc(*text, file);
        }
    }
    fputs("</text>\n", file);
}

void canvas_text(struct canvas *canvas, const struct canvas_text *place, const char *text)
{
    cairo_t *cairo = canvas->cairo;
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
    print_text(canvas->texts, place, printable);
}

enum status canvas_save(struct canvas *canvas, const char *path)
{
    cairo_status_t error = cairo_status(canvas->cairo);
    if (canvas->is_svg) {
        cairo_surface_finish(canvas->surface);
    } else if (error == CAIRO_STATUS_SUCCESS) {
        error = cairo_surface_write_to_png_stream(canvas->surface, append, canvas);
    }
    error = error == CAIRO_STATUS_SUCCESS ? cairo_surface_status(canvas->surface) : error;
    if (error != CAIRO_STATUS_SUCCESS) {
        return status_fail(STATUS_CREATE, "cannot draw '%s': %s", path, cairo_status_to_string(error));
    }
    fflush(canvas->file);
    fflush(canvas->texts);
    static char group[] = "<g font-family=\"sans-serif\" fill-opacity=\"0\">\n", group_end[] = "</g>\n</svg>\n";
    size_t n_end = sizeof SVG_END - 1;
    const struct iovec svg[] = {{canvas->bytes, canvas->n_bytes - (canvas->is_svg ? n_end : 0)},
                                {group, sizeof group - 1},
                                {canvas->texts_bytes, canvas->n_texts_bytes},
                                {group_end, sizeof group_end - 1}};
    return file_replace(path, svg, canvas->is_svg ? 4 : 1);
}
