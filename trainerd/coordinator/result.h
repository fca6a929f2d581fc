/* result.json: the figures of a finished job. Knows fields and layout; others measure. */
#ifndef TRAINERD_RESULT_H
#define TRAINERD_RESULT_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"
#include "trainerd/coordinator/epochs/training.h"
#include "trainerd/coordinator/plan/plan_traffic.h"

/* Phases with their seconds:   name        text in result.json */
#define RESULT_PHASE_LIST(X)                                                                                         \
    X(LOAD, "load")             /* reading and checking the dataset */                                               \
    X(PARTITION, "partition")   /* parts, their quality, their sizes */                                              \
    X(START, "start")           /* starting the workers */                                                           \
    X(SHIP, "ship")             /* encoding parts and sending them */                                                \
    X(PREPARE, "prepare")       /* workers' memory, static operations */                                             \
    X(TRAIN, "train")           /* epochs, with their evaluations */                                                 \
    X(EVALUATE, "evaluate")     /* evaluation without training */                                                    \
    X(CHECKPOINT, "checkpoint") /* writing checkpoints */                                                            \
    X(WRITE, "write")           /* weights and logits */                                                             \
    X(POST, "post")             /* propagations after it */

enum result_phase {
#define X(name, text) RESULT_PHASE_##name,
    RESULT_PHASE_LIST(X)
#undef X
        RESULT_PHASE_N
};

/* What is propagated after the training ([post]). */
enum result_post { RESULT_POST_SMOOTHED, RESULT_POST_PROPAGATED, RESULT_POST_N };

struct result_posted {
    const char *key, *file; /* of [post]; that has the rows. NULL: not asked for */
    struct training_scores scores;
    double seconds;
};

/* What is measured for it alone; its other figures are the coordinator's. */
struct result {
    struct plan_measured traffic;
    struct training_scores scores; /* of a prediction */
    /* of test nodes, with the weights that logits.npy is of; n_class 0: not counted */
    struct score_confusion confusion;
    double calibration[DATASET_SPLIT_N]; /* of VALID and TEST, where there are probabilities of classes */
    struct result_posted posted[RESULT_POST_N];
    double phase_s[RESULT_PHASE_N]; /* PHASE_TRAIN without the two after it */
    double total_s;
};

/* Was the best model chosen by the valid metric? / Why it was not. */
bool result_is_chosen(const struct training *training);
const char *result_no_choice(const struct dataset *dataset);

struct coordinator;

/* Write result.json into the folder of results, complete or not at all, with checksums of the other result files
 * there, which are complete.
 * errors  STATUS_CREATE, STATUS_IO */
enum status result_save(const struct coordinator *c);

#endif
