/* A training whose fleet is fake: opened, resumed, and what it leaves behind. */
#ifndef TESTS_TRAINING_TRAINING_CASE_H
#define TESTS_TRAINING_TRAINING_CASE_H

#include "trainerd/coordinator/epochs/training.h"

#include "tests/unit/trainerd/coordinator/epochs/fake_fleet.h"

#include <jansson.h>
#include <stdio.h>

/* One job in a folder of its own, run by the fake fleet. */
struct run {
    struct job job;
    struct fleet fleet;
    struct output output;
    struct progress progress;
    FILE *words;
    volatile sig_atomic_t asked;
    struct training training;
    struct run *next;
};

/* A job with these lines of [train], in folder/name. It is closed at the test's end, or before another one opens the same folder. */
struct run *open_run(const char *name, const char *train_keys);
void close_run(struct run *run);

/* The end of each test (.fini): close what is open, and remove the folder. */
void training_case_end(void);

/* Go on from the newest checkpoint in the folder, as the coordinator does. */
struct run *resume_run(const char *name, const char *train_keys);

void expect_done(struct run *run);

/* Lines of metrics.jsonl, until the test's end. Each line is a JSON object of its own. */
json_t *metrics_of(const char *name);
double field(json_t *metrics, size_t line, const char *name);

/* The runs "one" and "two" have come to the same. */
void expect_same_end(const struct run *a, const struct run *b);

/* Interrupted after any of its epochs, and resumed, the job comes to the same. */
void expect_resumed_alike(const char *train_keys);

#endif
