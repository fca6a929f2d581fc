#include "trainerd/ctl/draw/legend.h"

#include "trainerd/ctl/base/text.h"

#include <math.h>
#include <stdlib.h>

#define SIZE 12.0
#define INK 0x222222
#define KEY 18.0  /* points of a key */
#define SPACE 6.0 /* between a key and its name */
#define BETWEEN 16.0
#define LETTER 0.6 /* the width of a letter of a sans-serif, about, in sizes */
#define MARK 4.5   /* points from a mark's middle to its corners */

/* About how wide a text is: no kind of canvas tells all widths. */
static double width_of(const char *text, double size)
{
    double n = 0;
    for (; *text != '\0'; text++) {
        n += (*text & 0xc0) != 0x80; /* a character's first byte */
    }
    return LETTER * size * n;
}

static double item_width(const struct legend_item *item)
{
    return KEY + SPACE + width_of(item->name, SIZE);
}

void legend_mark(struct canvas *canvas, double x, double y, uint32_t colour)
{
    const struct canvas_point corners[4] = {{x, y - MARK}, {x + MARK, y}, {x, y + MARK}, {x - MARK, y}};
    canvas_area(canvas, corners, 4, colour, 1);
}

void legend_text(struct canvas *canvas, const struct canvas_text *place, const char *text, double wide)
{
    char *cut = text_cut(text, (int)fmax(1, floor(wide / (LETTER * place->size))), false);
    canvas_text(canvas, place, cut);
    free(cut);
}

static void draw_item(struct canvas *canvas, const struct legend_item *item, double x, double y, double wide)
{
    const struct canvas_point ends[2] = {{x, y - 4}, {x + KEY, y - 4}};
    if (item->is_mark) {
        legend_mark(canvas, x + KEY / 2, y - 4, item->colour);
    } else {
        canvas_line(canvas, ends, 2, item->colour, 3);
    }
    legend_text(canvas, &(struct canvas_text){x + KEY + SPACE, y, CANVAS_ANCHOR_START, SIZE, INK}, item->name,
                wide - KEY - SPACE);
}

/* Draw them, or, on no canvas, count the rows. */
static int lay(struct canvas *canvas, const struct legend_item *item, int n, double x0, double x1, double y)
{
    double x = x0;
    int n_row = n > 0;
    for (int i = 0; i < n; i++) {
        double wide = item_width(&item[i]);
        if (x > x0 && x + wide > x1) {
            x = x0;
            n_row++;
        }
        if (canvas != NULL) {
            draw_item(canvas, &item[i], x, y + (n_row - 1) * LEGEND_ROW, x1 - x);
        }
        x += wide + BETWEEN;
    }
    return n_row;
}

int legend_rows(const struct legend_item *item, int n, double wide)
{
    return lay(NULL, item, n, 0, wide, 0);
}

void legend_draw(struct canvas *canvas, const struct legend_item *item, int n, double x0, double x1, double y)
{
    lay(canvas, item, n, x0, x1, y);
}

void legend_draw_right(struct canvas *canvas, const struct legend_item *item, int n, double x1, double y)
{
    double x = x1 + BETWEEN;
    for (int i = 0; i < n; i++) {
        x -= item_width(&item[i]) + BETWEEN;
    }
    lay(canvas, item, n, x, x1 + BETWEEN, y);
}
