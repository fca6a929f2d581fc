/* A job on a terminal: opening and closing the screen, and drawing a frame. Knows no daemon. */
#ifndef TRAINERD_CTL_SCREEN_H
#define TRAINERD_CTL_SCREEN_H

#include "trainerd/ctl/draw/curves.h"

#include <stdbool.h>
#include <stdio.h>
#include <termios.h>

struct screen {
    int input; /* a terminal; -1: none, keys are not read */
    FILE *output;
    bool is_open;
    struct termios before; /* the input's settings */
};

/* Switch to the alternate screen, without cursor, line buffering and echo. INT, TERM and HUP restore it. */
void screen_open(struct screen *screen, int input, FILE *output);
void screen_close(struct screen *screen);

/* The key that was pressed; 0: none. */
char screen_key(const struct screen *screen);

struct screen_view {
    int n_column, n_row;
    bool in_colour;
    const json_t *job; /* as the request status gives it */
    const struct curves *curves;
    const char *footer; /* the last line */
};

/* Draw the whole frame. */
void screen_draw(FILE *file, const struct screen_view *view);

#endif
