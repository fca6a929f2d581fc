/* The numbers of a job's epochs, for screens and charts. Does not draw. */
#ifndef TRAINERD_CTL_CURVES_H
#define TRAINERD_CTL_CURVES_H

#include "protocol/job/job.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*         name     key of an event       label */
#define CURVE_LIST(X)                                                                                                \
    X(LOSS, "loss", "loss")                                                                                          \
    X(VALID_LOSS, "valid_loss", "valid")                                                                             \
    X(TRAIN, "train_metric", "train")                                                                                \
    X(VALID, "valid_metric", "valid")                                                                                \
    X(TEST, "test_metric", "test")                                                                                   \
    X(EPOCH, "epoch_s", "epoch")                                                                                     \
    X(COMPUTE, "compute_s", "compute")                                                                               \
    X(WAIT, "wait_s", "waiting")                                                                                     \
    X(RECEIVED, "bytes_received", "received")                                                                        \
    X(EVALUATE, "bytes_evaluate", "received to evaluate")

enum curve {
#define X(name, key, text) CURVE_##name,
    CURVE_LIST(X)
#undef X
        CURVE_N
};

/* The x axis. Bytes are those received in training, without evaluations. */
enum curves_axis { CURVES_AXIS_EPOCH, CURVES_AXIS_BYTES, CURVES_AXIS_TIME, CURVES_AXIS_N };

struct curves {
    size_t n, capacity;
    enum curves_axis axis;
    enum job_metric metric; /* AUTO: not known */
    double *at;             /* n epochs, ascending; or bytes or seconds up to the end of each */
    double *value[CURVE_N]; /* n each; NaN where not known */
    /* n each, of a mean: one standard deviation of the sample below and above it; NaN of fewer than two */
    double *low[CURVE_N], *high[CURVE_N];
};

const char *curve_key(enum curve curve);
const char *curve_text(enum curve curve);

void curves_init(struct curves *curves);
void curves_release(struct curves *curves);

/* Add an "epoch" event. Epochs of a resumed attempt replace those after the checkpoint. */
void curves_add(struct curves *curves, const json_t *event);

/* The first place of the best validation metric; n: there is no such metric. */
size_t curves_best(const struct curves *curves);

/* Make the mean of several jobs' epochs with its deviations, where not all have as many of those that there are. Laid
 * along no other axis.
 * shapes  of n · owns  *out, which was empty: curves_release */
void curves_mean(struct curves *out, const struct curves *of, size_t n);

/* The axis of this name, "epoch", "bytes" or "time"; CURVES_AXIS_N: no axis has this name. */
enum curves_axis curves_axis_of(const char *name);

/* Lay the epochs, when all are there, along another axis. */
void curves_lay(struct curves *curves, enum curves_axis axis);

/* Widen a range to a curve's finite values and their deviations; false: it has no finite values. */
bool curves_range(const struct curves *curves, enum curve curve, double *least_io, double *most_io);

/* A round step so that a range has about n_tick of them: 1, 2 or 5 times a power of ten. */
double curves_step(double least, double most, int n_tick);

#endif
