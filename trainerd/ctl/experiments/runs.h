/* Runs of jobs with their settings and results, from the daemon and from output folders. Does not compare them. */
#ifndef TRAINERD_CTL_RUNS_H
#define TRAINERD_CTL_RUNS_H

#include "protocol/job/job.h"
#include "protocol/job/job_keys.h"
#include "trainerd/ctl/base/client.h"

#include <stdbool.h>
#include <stddef.h>

/* NaN: not known. Metrics of the best epoch, or the last where nothing chooses; of a prediction, its own. */
struct run {
    int64_t job; /* its number; 0: from a folder */
    char *name, *folder;
    char state[16];
    struct job *settings;
    enum job_metric metric; /* JOB_METRIC_AUTO: it has no result */
    double valid, test, loss;
    double best_epoch, n_epoch; /* epochs up to the best; done */
    double seconds;             /* of all phases */
    double n_node, n_class;     /* of its data */
    char fingerprint[40];       /* of its graph; "": not known */
};

struct runs {
    struct run *run;
    size_t n;
};

void runs_release(struct runs *runs);

/* Add a folder of results / the jobs of the client's group, if there are some, or else the job of that name or
 * number. Jobs come in the order of their numbers.
 *
 *   owns    the caller owns *runs, from {0} on: runs_release
 *   errors  STATUS_NO_INPUT nothing has that name; STATUS_DATA its result.json is not valid, or of another version
 */
enum status runs_add_folder(struct runs *runs, const char *folder);
enum status runs_add_named(struct runs *runs, struct client *client, const char *name);

/* Does the folder have results? */
bool runs_is_folder(const char *name);

/* Are two runs of the same data? Paths, seeds, splits and preparation play no part. */
bool run_shares_data(const struct run *run, const struct run *other);

/* A run's value of a key, as text ("": does not apply) / as JSON (null). owns  the caller frees it */
char *run_value(const struct run *run, enum job_key_id key);
json_t *run_value_json(const struct run *run, enum job_key_id key);

#endif
