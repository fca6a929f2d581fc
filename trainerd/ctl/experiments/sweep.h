/* The jobs of a sweep: every combination of its keys' values. Settings are texts here. */
#ifndef TRAINERD_CTL_SWEEP_H
#define TRAINERD_CTL_SWEEP_H

#include "protocol/base/status.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SWEEP_KEYS_MOST 8
#define SWEEP_JOBS_MOST 1000 /* that the daemon takes in one submission */

struct sweep_key {
    char *name;    /* "train.lr" */
    char **values; /* n texts, as after the "=" of a setting */
    size_t n;
};

struct sweep {
    struct sweep_key key[SWEEP_KEYS_MOST];
    int n_key;
};

void sweep_release(struct sweep *sweep);

/* Add a key with its values, "train.lr=0.01,0.003". Commas between quotes or brackets are part of a value.
 *
 *   owns    the caller owns *sweep, from {0} on: sweep_release
 *   errors  STATUS_USAGE no key, no value, a value or a key twice, more than SWEEP_KEYS_MOST keys; `option` names the
 *           argument
 */
enum status sweep_add(struct sweep *sweep, const char *option, const char *text);

/* Add a key with whole numbers: "N" is N of them from `base` on, "A,B" these. errors  those of sweep_add */
enum status sweep_add_seeds(struct sweep *sweep, const char *option, const char *key, const char *text, int64_t base);

/* Its jobs, as the request submit takes them: an array of settings for each; the first key changes least often.
 *
 *   owns    *out: json_decref
 *   errors  STATUS_USAGE more than SWEEP_JOBS_MOST; a value is not UTF-8
 */
enum status sweep_jobs(const struct sweep *sweep, json_t **out);

#endif
