/* The least time of an epoch's steps on a device (`--plan --roofline`): that of arithmetic at its peak rate, or of
 * bytes at its memory's. Steps of a fused chain may overlap: the chain's floor is that of its sums, and each step has
 * what it adds. Between the floor with each row read once and that with a row for each edge lies what caches can do.
 * source  Williams, Waterman & Patterson, CACM 52(4), 2009
 */
#ifndef TRAINERD_ROOFLINE_H
#define TRAINERD_ROOFLINE_H

#include "trainerd/coordinator/plan/plan.h"

#include <jansson.h>

enum { ROOFLINE_FP32, ROOFLINE_BF16, ROOFLINE_BANDWIDTH, ROOFLINE_SMS, ROOFLINE_N };

struct roofline {
    char name[64];
    double number[ROOFLINE_N]; /* TFLOP/s twice, GB/s; multiprocessors, 0: not known */
    int peak;                  /* that of the job's products (train.products) */
};

/* The device of a file (configs/devices), for this job; path NULL: numbers of a cpu.
 *
 *   errors  STATUS_USAGE no path, and the job's device is a GPU; STATUS_CONFIG a key that is unknown, missing or out
 *           of range; STATUS_NO_INPUT, STATUS_DATA, STATUS_IO of the file
 */
enum status roofline_load(const char *path, const struct job *job, struct roofline *out);

/* The steps of worker 0, a line each, then the sums by kind of op, and of all. */
void roofline_print(const struct plan_input *input, const struct plan *plan, FILE *file);

/* {"device": …, "precision": …, "workers": [{"steps": […], "kinds": [… and last all]}, …]} */
json_t *roofline_json(const struct plan_input *input, const struct plan *plan);

#endif
