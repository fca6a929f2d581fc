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
    double loss;
    double train, valid, test;              /* NaN where not known */
    double best_valid, best_test;           /* of the best evaluation so far */
    double valid_of[PROGRESS_METRICS_MOST]; /* by metric: `valid`, and that of the others */
    double epoch_s, compute_s, pack_s, wait_s, evaluate_s;
    int64_t n_sent, n_bytes; /* sent, received by all workers */
};

struct progress {
    FILE *file;
    bool is_live;
    bool is_of_numbers; /* metrics are numbers as they are; else fractions, shown in per cent */
    int n_metric;       /* their names, the one of `train`, `valid` and `test` first; 0: not known */
    const char *metric[PROGRESS_METRICS_MOST];
    bool is_drawn;              /* the live line is on the screen */
    int64_t n_epoch, n_first;   /* epochs of the job; done when training began here */
    int64_t n_evaluation;       /* seen so far */
    int64_t stride;             /* of evaluations between plain lines */
    double start_s, shown_s;    /* of training, after its first epoch; of the last line */
    double left_s;              /* estimated time of the remaining epochs; NaN: not known */
    struct progress_epoch last; /* with the metrics of the last evaluation */
};

/* Write to `file`; `is_live` when it is a terminal that can redraw a line (progress_is_terminal). */
void progress_init(struct progress *progress, FILE *file, bool is_live);
bool progress_is_terminal(FILE *file);

/* Print one line, above the live line. */
void progress_print(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Training begins: n_first of n_epoch epochs are done, evaluation every eval_every epochs (0: at the end). */
void progress_begin(struct progress *progress, int64_t n_first, int64_t n_epoch, int64_t eval_every, double now_s);

/* An epoch is done. */
void progress_epoch(struct progress *progress, const struct progress_epoch *epoch, double now_s);

/* Clear the live line, before other messages and at the end. */
void progress_end(struct progress *progress);

/* A metric, fractions in per cent; NaN: "-". */
struct figure progress_metric(const struct progress *progress, double value);

#endif
