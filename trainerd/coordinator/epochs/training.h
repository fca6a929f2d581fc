/* The epochs of a job: commands, scores, best weights, metrics, checkpoints, and when to stop.
 *
 * Separate from the coordinator's flow, which prepares the workers before and writes the results after. Everything
 * that a resume must restore is in struct checkpoint_state.
 */
#ifndef TRAINERD_TRAINING_H
#define TRAINERD_TRAINING_H

#include "partition/part/partition.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/fleet/fleet.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/folder/events.h"
#include "trainerd/coordinator/folder/output.h"
#include "trainerd/coordinator/folder/progress.h"
#include "trainerd/coordinator/score/score.h"
#include "trainerd/coordinator/score/score_links.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum training_end { TRAINING_END_EPOCHS, TRAINING_END_PATIENCE };

/* Sizes of the arrays that checkpoints hold. */
struct training_floats {
    int64_t n_weight;           /* that every worker has */
    const int64_t *n_embedding; /* n_part: of each part's embeddings; NULL: there are no embeddings */
    const int64_t *n_buffer;    /* n_part: of each part's stale buffers and residuals; NULL: there are no such */
};

/* In this run. */
struct training_spent {
    struct fleet_waits waits; /* of the epoch that waited most for a device (fleet_waits_most) */
    int64_t n_replay;         /* epochs whose training was replayed */
    int64_t n_staged;         /* bytes by way of host memory, of the epoch with most (fleet_report) */
    double evaluate_s;        /* of evaluations without an epoch */
    double checkpoint_s;
};

/* What edges are scored by. */
struct training_links {
    const struct program *program;           /* borrowed; of every job */
    struct links held;                       /* score_held_copy */
    struct links_known known[LINKS_SPLIT_N]; /* of splits that are ranked among all nodes */
};

struct training {
    /* Set by the caller before training_run; all borrowed. */
    const struct job *job;
    struct fleet *fleet;
    struct output *output;
    struct progress *progress;
    struct events *events; /* NULL: no supervisor */
    const struct partition *partition;
    const uint64_t *content;           /* CHECKPOINT_N_CONTENT, contents_find; NULL: no checkpoints */
    const volatile sig_atomic_t *stop; /* not 0: stop after the running epoch */
    volatile sig_atomic_t *save; /* not 0: write a checkpoint after the running epoch, and set to 0. NULL: never */
    int32_t n_class;
    bool multi_label;
    struct job_choices metrics; /* score_metrics; the first one chooses the best weights */
    /* of the whole graph; filled where a metric, or the counts of the result, take logits */
    struct score_labels labels;
    struct training_links links; /* of a job of links */
    struct training_floats floats;
    struct library_ranges libraries; /* of all workers; for checkpoints */
    int64_t memory;                  /* bytes of all workers together, measured; for events */

    /* Progress, from training_begin or training_resume on. */
    struct checkpoint_state state;
    struct training_spent spent;
    int64_t n_regular; /* epochs of the last checkpoint that was written because of train.checkpoint_every, or 0 */
    bool has_saved;    /* a checkpoint, in this run */
    bool is_scored;    /* the workers' logits and state.last are of the present weights */
    enum training_end end;
};

/* Start from epoch 0. `dataset` and `partition` are fingerprints that a resume compares. */
void training_begin(struct training *training, const char *dataset, uint64_t partition);

/* After training_begin: continue from a checkpoint of this job; sets the state of the workers.
 *
 *   errors  STATUS_DATA another graph, another partition, another number of weights; those of fleet_put
 */
enum status training_resume(struct training *training, const struct checkpoint *checkpoint);

/* Epochs until the last one, or patience, or a signal; then an evaluation if the last weights had none.
 *
 *   errors  STATUS_INTERRUPTED a checkpoint is saved, the reason has its path · STATUS_TRAINING loss or weights are
 *           not finite, and train.on_nan allows no (further) rollback · those of fleet, output and checkpoint
 */
enum status training_run(struct training *training);

/* Write a checkpoint of the present weights. errors  those of fleet and checkpoint; STATUS_TRAINING */
enum status training_save(struct training *training);

/* After training_run: evaluate the best weights, so that logits are theirs; the workers' last weights are lost.
 * Nothing where the last ones are the best. errors  those of the fleet; STATUS_NOMEM */
enum status training_evaluate_best(struct training *training);

/* Rows that workers have since the last evaluation. */
struct training_rows {
    enum worker_state what; /* LOGITS, or of a prediction LAYER */
    int64_t width;          /* columns */
    /* Take n rows of these nodes; all nodes come once, part after part. */
    void (*take)(void *context, const uint32_t *node, int64_t n, const float *rows);
    void *context;
};

/* Hand over the rows. errors  those of the fleet; STATUS_NOMEM. cost  memory of the largest part's rows */
enum status training_rows_each(struct training *training, const struct training_rows *rows);

/* The same into the dataset's order. out n_node × width */
enum status training_rows_place(struct training *training, enum worker_state what, int64_t width, float *out);

/* Logits of the last evaluation in the dataset's order. out n_node × n_class */
enum status training_logits(struct training *training, float *out);

/* The decoder of a job of links, with the workers' weights. In training_score.c. owns  the caller: decoder_close,
 * also after a failure. errors  as decoder_open; those of the fleet */
enum status training_decoder_open(const struct training *training, struct decoder *out);

/* The job's metrics by split; NaN: without labelled rows. */
struct training_scores {
    double valid_loss;
    double of[JOB_CHOICES_MOST][SCORE_N_SPLIT]; /* DATASET_SPLIT_NONE: of labelled nodes outside of all splits */
};

/* The metrics of the splits from `first` to `last` of an evaluation, from its sums and where metrics take rows from
 * the workers' logits. In training_score.c. errors  STATUS_NOMEM, STATUS_TRAINING, those of the fleet */
enum status training_score(struct training *training, const struct fleet_report *report, int first, int last,
                           struct training_scores *out);

/* Instead of training_run: evaluate the workers' weights. In training_score.c. errors  those of the fleet */
enum status training_predict(struct training *training, struct training_scores *out);

/* A hash of the nodes' parts and order. */
uint64_t training_partition_hash(const struct partition *partition);

#endif
