#include "protocol/base/memory.h"
#include "protocol/base/printable.h"
#include "protocol/files/file.h"
#include "trainerd/ctl/draw/canvas.h"

#include <stdio.h>
#include <stdlib.h>

struct svg {
    struct canvas canvas;
    FILE *file; /* in memory */
    char *text;
    size_t n;
};

static FILE *file_of(struct canvas *canvas)
{
    return ((struct svg *)canvas)->file;
}

static void print_points(FILE *file, const struct canvas_point *point, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(file, "%s%.1f,%.1f", i > 0 ? " " : "", point[i].x, point[i].y);
    }
}

static void line(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double width)
{
    FILE *file = file_of(canvas);
    fprintf(file,
            "<polyline fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.2f\" stroke-linejoin=\"round\" points=\"",
            (unsigned)colour, width);
    print_points(file, point, n);
    fputs("\"/>\n", file);
}

static void area(struct canvas *canvas, const struct canvas_point *point, size_t n, uint32_t colour, double opacity)
{
    FILE *file = file_of(canvas);
    fprintf(file, "<polygon fill=\"#%06x\"", (unsigned)colour);
    if (opacity < 1) {
        fprintf(file, " fill-opacity=\"%.2f\"", opacity);
    }
    fputs(" points=\"", file);
    print_points(file, point, n);
    fputs("\"/>\n", file);
}

/* Text from outside: XML's special characters are escaped, unprintable bytes are left out. */
static void print_escaped(FILE *file, const char *text)
{
    while (*text != '\0') {
        size_t n = printable_length(text);
        if (*text == '<' || *text == '>' || *text == '&') {
            fputs(*text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;", file);
        } else if (n > 0) {
            fwrite(text, 1, n, file);
        }
        text += n > 0 ? n : 1;
    }
}

static void text(struct canvas *canvas, const struct canvas_text *place, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    FILE *file = file_of(canvas);
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" font-size=\"%.1f\" fill=\"#%06x\">", place->x,
            place->y, anchors[place->anchor], place->size, (unsigned)place->colour);
    print_escaped(file, text);
    fputs("</text>\n", file);
}

static enum status save(struct canvas *canvas, const char *path)
{
    struct svg *svg = (struct svg *)canvas;
    fputs("</svg>\n", svg->file);
    fflush(svg->file);
    const struct iovec piece = {.iov_base = svg->text, .iov_len = svg->n};
    return file_replace(path, &piece, 1);
}

static void release(struct canvas *canvas)
{
    struct svg *svg = (struct svg *)canvas;
    fclose(svg->file);
    free(svg->text);
    free(svg);
}

static const struct canvas_ops ops = {line, area, text, save, release};

struct canvas *canvas_svg(double width, double height)
{
    struct svg *svg = memory_alloc(1, sizeof *svg);
    svg->canvas.ops = &ops;
    svg->file = open_memstream(&svg->text, &svg->n);
    fprintf(svg->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            width, height, width, height);
    return &svg->canvas;
}
