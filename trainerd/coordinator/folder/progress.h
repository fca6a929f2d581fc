/* Progress of a job on stderr: phases, epochs, the end.
 *
 * On a terminal: one live line, redrawn at most ten times a second and never wider than the window. Elsewhere: plain
 * lines, about a hundred at most, with the first and the last evaluation; more only when they are ten seconds apart.
 * Metrics are in per cent. Knows neither job nor clock: the caller gives the time.
 */
#ifndef TRAINERD_PROGRESS_H
#define TRAINERD_PROGRESS_H

#include "trainerd/base/figure.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRESS_METRICS_MOST 8

struct progress_epoch {
    int64_t n_done; /* epochs done, this one included */
    bool is_evaluated;
#define FIGURE(field, name, form) double field;
#include "trainerd/base/epoch_figures.def"
    double pack_s;                          /* part of epoch_s */
    double valid_of[PROGRESS_METRICS_MOST]; /* by metric: valid_metric, and that of the others */
};

struct progress {
    FILE *file;
    bool is_live;
    bool is_of_numbers; /* metrics are numbers as they are; else fractions, shown in per cent */
    int n_metric;       /* their names, that of train_metric first; 0: not known */
    const char *metric[PROGRESS_METRICS_MOST];
    bool is_drawn;              /* the live line is on the screen */
    int64_t n_epoch, n_first;   /* epochs of the job; done when training began here */
    int64_t n_evaluation;       /* seen so far */
    int64_t stride;             /* of evaluations between plain lines */
    double start_s, shown_s;    /* of training, after its first epoch; of the last line */
    struct progress_epoch last; /* with the metrics of the last evaluation */
};

/* Write to `file`; `is_live` when it is a terminal that can redraw a line (progress_is_terminal). */
void progress_init(struct progress *progress, FILE *file, bool is_live);
bool progress_is_terminal(FILE *file);

/* Print one line, above the live line. */
void progress_print(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Training begins: n_first of n_epoch epochs are done, evaluation every eval_every epochs (0: at the end). */
void progress_begin(struct progress *progress, int64_t n_first, int64_t n_epoch, int64_t eval_every, double now_s);

/* An epoch is done; its seconds_left is estimated here. */
void progress_epoch(struct progress *progress, const struct progress_epoch *epoch, double now_s);

/* Clear the live line, before other messages and at the end. */
void progress_end(struct progress *progress);

/* A metric, fractions in per cent; NaN: "-". */
struct figure progress_metric(const struct progress *progress, double value);

#endif
