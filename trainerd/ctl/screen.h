/* A job on a terminal: opening and closing the screen, and drawing a frame, with sparks of loss and metric. Knows no
 * daemon. */
#ifndef TRAINERD_CTL_SCREEN_H
#define TRAINERD_CTL_SCREEN_H

#include "protocol/job/job.h"

#include <jansson.h>
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

enum history_value { HISTORY_LOSS, HISTORY_VALID, HISTORY_N };

/* A job's epochs, from {0} on: history_release. */
struct history {
    size_t n;
    struct history_epoch {
        double at, value[HISTORY_N]; /* ascending; NaN where not known */
    } * epoch;
};

/* Add an "epoch" event. Epochs of a resumed attempt replace those after the checkpoint. */
void history_add(struct history *history, const json_t *event);
void history_release(struct history *history);

/* A value's sparks, ▁ to █ from the lowest to the highest: one for each epoch, or of more than n_cell as many for
 * means of epochs; a blank where none has the value. shapes  n_cell 1 to 80 · out 3 · n_cell + 1 bytes */
void history_sparks(const struct history *history, enum history_value value, int n_cell, char *out);

struct screen_view {
    int n_column, n_row;
    const json_t *job; /* as the request status gives it */
    const struct history *history;
    const char *footer; /* the last line */
};

/* Draw the whole frame. */
void screen_draw(FILE *file, const struct screen_view *view);

#endif
