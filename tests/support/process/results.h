/* A job's output folder, and its comparison with another job's. A failure ends the test. */
#ifndef TESTS_SUPPORT_RESULTS_H
#define TESTS_SUPPORT_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The first MiB of a file; the caller frees it. */
char *results_bytes(const char *path, size_t *n_out);

/* The folder of the unfinished run in an output folder, or that folder where there is none; valid until the next call. */
const char *results_run(const char *dir);

/* Epochs of the newest checkpoint of an output folder, or of the unfinished run in it; 0 without one. */
long long results_checkpoint(const char *dir);

/* metrics.jsonl of a folder as an array; without the fields of time, and without those of traffic unless with_traffic. */
json_t *results_epochs(const char *dir);
json_t *results_metrics(const char *dir, bool with_traffic);

/* A file of JSON, or the result.json of an output folder below the test's; the caller releases it. A number of an
 * object. */
json_t *results_json(const char *path);
json_t *results_of(const char *name);
double results_number(const json_t *object, const char *name);

/* What a result.json says of each worker's memory of a category, as "all": planned and measured are at most 10 % of the smaller apart. */
void results_expect_memory(const json_t *result, const char *category, const char *what);

/* One file of two folders has the same bytes / the last weights have them, and logits where the best weights have: a job that was stopped
 * has evaluated weights that another one has not / weights, best weights and logits have them, and metrics are the same, too. */
bool results_have_same_file(const char *a, const char *b, const char *name);
void results_expect_same_file(const char *a, const char *b, const char *name);
void results_expect_same_model(const char *a, const char *b);
void results_expect_same(const char *a, const char *b, bool with_traffic);

#endif
