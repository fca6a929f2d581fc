/* Curves in braille characters, each two dots wide and four high, in one colour. */
#ifndef TRAINERD_CTL_BRAILLE_H
#define TRAINERD_CTL_BRAILLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct braille {
    int n_column, n_row; /* characters */
    uint8_t *dots;       /* n_row × n_column */
    uint8_t *colour;     /* of the last curve through it: 0 none, else 1 to 7 of ANSI */
};

void braille_init(struct braille *braille, int n_column, int n_row);
void braille_release(struct braille *braille);

/* Connect two points, in dots from the lower left: 0 … 2 n_column - 1, 0 … 4 n_row - 1. Dots outside are left out. */
void braille_line(struct braille *braille, double x0, double y0, double x1, double y1, int colour);

/* Print one row; the top row is 0. */
void braille_print(const struct braille *braille, int row, bool in_colour, FILE *file);

#endif
