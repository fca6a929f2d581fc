/* Runs grouped by settings, seeds and split apart: what differs, mean and deviation of their metrics. */
#ifndef TRAINERD_CTL_SETTINGS_H
#define TRAINERD_CTL_SETTINGS_H

#include "trainerd/ctl/experiments/runs.h"

#include <stddef.h>

/* Of n finite values; the sample's standard deviation (n - 1), NaN below two. */
struct sample {
    size_t n;
    double mean, std;
};

struct sample sample_make(const double *values, size_t n);

/* Runs of one setting. */
struct setting {
    size_t *run; /* n_run places in the runs, in their order */
    size_t n_run, n_done;
    struct sample valid, test, best_epoch, seconds;
};

struct settings {
    const struct runs *runs;
    /* n, best first by mean validation (else test) metric; those without a result last. */
    struct setting *setting;
    size_t n;
    enum job_metric metric; /* of all runs; JOB_METRIC_AUTO: none has a result */
    /* Keys whose values differ between settings that they apply to, in the job file's order. */
    enum job_key_id differs[JOB_KEY_N];
    int n_differs;
    enum job_key_id varies[JOB_KEY_N]; /* seeds and split, where they differ between runs */
    int n_varies;
};

/* Put runs of the same settings together. Names and [output] play no part in it.
 *
 *   owns    borrows runs; the caller owns *out: settings_release
 *   errors  STATUS_USAGE runs have different metrics
 */
enum status settings_build(const struct runs *runs, struct settings *out);
void settings_release(struct settings *settings);

#endif
