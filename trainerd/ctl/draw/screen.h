/* A job on a terminal: a frame of it drawn from what is known, and the terminal taken and given back. Knows no
 * daemon. */
#ifndef TRAINERD_CTL_SCREEN_H
#define TRAINERD_CTL_SCREEN_H

#include "trainerd/ctl/draw/curves.h"

#include <stdbool.h>
#include <stdio.h>
#include <termios.h>

struct screen {
    int input; /* a terminal; -1: none, and keys are not read */
    FILE *output;
    bool is_taken;
    struct termios before; /* the input's settings */
};

/* Take the terminal: its other screen, no cursor, keys as they come. INT, TERM and HUP give it back before they end
 * the process. */
void screen_open(struct screen *screen, int input, FILE *output);
void screen_close(struct screen *screen);

/* What was pressed; 0: nothing. */
char screen_key(const struct screen *screen);

/* Draw the whole frame: job as status gives it, curves, and a last line of words. */
void screen_draw(FILE *file, int n_column, int n_row, bool in_colour, const json_t *job, const struct curves *curves,
                 const char *words);

#endif
