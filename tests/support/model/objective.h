/* What a test's loss is made of, and its truth in double by plain formulas; shares no code with devices. */
#ifndef TESTS_SUPPORT_OBJECTIVE_H
#define TESTS_SUPPORT_OBJECTIVE_H

#include "models/device/device.h"

#include <stdbool.h>
#include <stdint.h>

struct objective {
    enum device_loss loss;
    const float *weights;    /* of classes; NULL: 1 each */
    double smoothing;        /* cross entropy */
    double delta;            /* huber */
    const float *label_rows; /* n_node × n_class, NaN: unknown; NULL for cross entropy */
    int64_t negatives;   /* drawn pairs for each edge, of links, whose loss is truth_links_loss; 0: labels as above */
    int link_loss;       /* of these: enum job_loss, AUTO for bce */
    const char *decoder; /* task.decoder; NULL: dot */
    /* of a text instead: a pair's score, from the decoder's weights */
    double (*score)(const double *head, const double *tail, const double *weight, int64_t width);
    bool ends; /* pairs of edges' ends; margin and cross entropy have these alone */
    double margin;
};

/* The loss of one row of logits z, and the weight that it adds to the mean's: 0 for a row without labels. */
double objective_row(const struct objective *objective, int64_t n_class, const double *z, int32_t label,
                     const float *label_row, double *weight_out);

/* The weight of all training rows, as struct device_now takes it. objective NULL: cross entropy, plain */
double objective_weight(const struct objective *objective, int64_t n_node, int64_t n_class, const int32_t *labels,
                        const uint8_t *split);

#endif
