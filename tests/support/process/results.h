/* What a job left in its output folder, and whether another left the same. Failing, these end the test. */
#ifndef TESTS_SUPPORT_RESULTS_H
#define TESTS_SUPPORT_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The first MiB of a file; the caller frees it. */
char *results_bytes(const char *path, size_t *n_out);

/* Epochs of the newest checkpoint in a folder; 0: there is none. */
long long results_checkpoint(const char *folder);

/* metrics.jsonl of a folder as an array, without what depends on time; without traffic too where it may differ. */
json_t *results_metrics(const char *folder, bool with_traffic);

/* A file of two folders, bit for bit / weights, best weights, logits and metrics. */
void results_expect_same_file(const char *a, const char *b, const char *name);
void results_expect_same(const char *a, const char *b, bool with_traffic);

#endif
