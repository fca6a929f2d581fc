#include "trainerd/ctl/draw/braille.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <stdlib.h>

void braille_init(struct braille *braille, int n_column, int n_row)
{
    *braille = (struct braille){.n_column = n_column, .n_row = n_row};
    braille->dots = memory_alloc((size_t)n_column * (size_t)n_row + 1, 1);
    braille->colour = memory_alloc((size_t)n_column * (size_t)n_row + 1, 1);
}

void braille_release(struct braille *braille)
{
    free(braille->dots);
    free(braille->colour);
    *braille = (struct braille){0};
}

static void dot(struct braille *braille, int x, int y, int colour)
{
    /* Bits of U+2800 by column and row of a character, the upper row first. */
    static const uint8_t bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    int row = braille->n_row - 1 - y / 4, column = x / 2;
    if (x < 0 || y < 0 || column >= braille->n_column || row < 0) {
        return;
    }
    size_t at = (size_t)row * (size_t)braille->n_column + (size_t)column;
    braille->dots[at] |= bits[x % 2][3 - y % 4];
    braille->colour[at] = (uint8_t)colour;
}

void braille_line(struct braille *braille, double x0, double y0, double x1, double y1, int colour)
{
    double far = fmax(fabs(x1 - x0), fabs(y1 - y0));
    int n = far < 1 ? 1 : far > 10000 ? 10000 : (int)ceil(far);
    for (int i = 0; i <= n; i++) {
        double share = (double)i / n;
        dot(braille, (int)lround(x0 + share * (x1 - x0)), (int)lround(y0 + share * (y1 - y0)), colour);
    }
}

void braille_print(const struct braille *braille, int row, bool in_colour, FILE *file)
{
    int colour = 0;
    for (int column = 0; column < braille->n_column; column++) {
        size_t at = (size_t)row * (size_t)braille->n_column + (size_t)column;
        uint8_t dots = braille->dots[at];
        int wanted = dots != 0 && in_colour ? braille->colour[at] : 0;
        if (wanted != colour) {
            fprintf(file, wanted != 0 ? "\x1b[3%dm" : "\x1b[0m", wanted);
            colour = wanted;
        }
        if (dots == 0) {
            fputc(' ', file);
        } else { /* U+2800 + dots as UTF-8 */
            fprintf(file, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
        }
    }
    if (colour != 0) {
        fputs("\x1b[0m", file);
    }
}
