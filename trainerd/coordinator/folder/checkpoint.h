/* Checkpoints: one file with everything that an interrupted job needs to end with the same bits.
 *
 * A file is a head (magic, version, sizes and XXH3-64 of each section), then the sections in a fixed order, 64-byte
 * aligned. It is complete or absent, checksums cover every byte, and the last two files are kept. Knows neither
 * workers nor models: arrays are plain numbers.
 */
#ifndef TRAINERD_CHECKPOINT_H
#define TRAINERD_CHECKPOINT_H

#include "partition/graph/dataset.h"
#include "protocol/base/libraries.h"
#include "protocol/base/status.h"
#include "protocol/files/dir.h"
#include "protocol/job/job.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKPOINT_ROLLBACK_MOST 1000

/* Sections of worker_state.def. All but BUFFERS are as long as WEIGHTS; those of other optimizers are absent. */
enum checkpoint_array {
    CHECKPOINT_ARRAY_WEIGHTS,
    CHECKPOINT_ARRAY_MOMENT_1,
    CHECKPOINT_ARRAY_MOMENT_2,
    CHECKPOINT_ARRAY_BEST,
    CHECKPOINT_ARRAY_BUFFERS,
    CHECKPOINT_ARRAY_N
};

/* "weights" */
const char *checkpoint_array_name(enum checkpoint_array array);

/* Loss and metrics of one epoch; NaN where not known. */
struct checkpoint_score {
    double loss;       /* of the training step */
    double valid_loss; /* of the evaluation behind it */
    struct checkpoint_metric {
        double train, valid, test;
    } of[JOB_CHOICES_MOST]; /* the job's metrics, the one that chooses the best weights first */
};

/* What contents.h has hashes of: the dataset's, then the file of model.init. */
enum { CHECKPOINT_CONTENT_INIT = DATASET_CONTENT_N, CHECKPOINT_N_CONTENT };

/* The job's progress. Has the same layout in the file and in memory: 8-byte fields, little-endian. */
struct checkpoint_state {
    int64_t n_epoch;    /* done: the next epoch's number */
    int64_t n_stale;    /* patience.h: evaluations since one that was better than those before */
    int64_t best_epoch; /* -1: none yet */
    struct checkpoint_score best, last;
    double train_s;                               /* of the epochs done */
    int64_t n_sent, n_received;                   /* bytes */
    int64_t n_call;                               /* allocations in epochs */
    int64_t n_metrics_bytes;                      /* of metrics.jsonl */
    int64_t n_rollback;                           /* rollbacks; each halved the learning rate */
    int64_t n_guard;                              /* epochs that compared gradients */
    int64_t n_back_off;                           /* of them those after which less is lost */
    int64_t guard_epoch;                          /* the last one; -1: none yet */
    double guard_loss, guard_error, guard_cosine; /* what it found (struct fleet_guard); NaN: none yet */
    double plateau_lr, plateau_best;              /* plateau.h: the rate, the best value seen; NaN: none yet */
    int64_t plateau_n_bad;                        /* evaluations since that were no better */
    double patience_best;                         /* patience.h: the value of that evaluation; NaN: none yet */
    uint64_t partition;                           /* training_partition_hash */
    char dataset[40];                             /* dataset_fingerprint, NUL-terminated */
    uint64_t content[CHECKPOINT_N_CONTENT];       /* contents_find */
};

struct checkpoint {
    struct checkpoint_state state;
    const char *job; /* canonical text of the job, n_job bytes, not NUL-terminated */
    size_t n_job;
    struct library_ranges libraries;     /* that its workers used */
    int64_t n_float[CHECKPOINT_ARRAY_N]; /* 0: absent, as is … */
    const float *array[CHECKPOINT_ARRAY_N];

    void *bytes; /* of the file, owned, after checkpoint_load; else NULL */
    size_t n_bytes;
    char path[PATH_MAX]; /* of the file */
    char warning[512];   /* why a newer file was skipped; "" */
};

/* Write epoch-<n_epoch>.ckpt in the open folder, then checkpoint_prune.
 *
 *   owns    borrows all
 *   errors  STATUS_CREATE, STATUS_IO: older checkpoints are then untouched
 */
enum status checkpoint_save(const struct dir *folder, const struct checkpoint *checkpoint, int64_t rollback);

/* Remove incomplete files of a killed process, and all checkpoints but that of `rollback` epochs (-1: of none) and
 * the newest two up to n_epoch: later ones are damaged, or belong to a discarded trajectory. */
void checkpoint_prune(const struct dir *folder, int64_t n_epoch, int64_t rollback);

/* Is this the name of a checkpoint? Has the folder a file of such a name? */
bool checkpoint_is(const char *name);
bool checkpoint_exists(const char *folder);

/* Read the newest undamaged checkpoint of the folder that has at most n_most epochs.
 *
 *   owns    the caller owns *out: checkpoint_release
 *   errors  STATUS_NO_INPUT there is no checkpoint · STATUS_DATA all are damaged: the reason is that of the newest ·
 *           STATUS_NOMEM
 */
enum status checkpoint_load(const char *folder, int64_t n_most, struct checkpoint *out);
void checkpoint_release(struct checkpoint *checkpoint);

/* Check bytes and point a checkpoint into them; `origin` stands for the file in messages.
 *
 *   owns    *out borrows `bytes`, 8-byte aligned
 *   errors  STATUS_DATA: too short, too long, not a checkpoint, another version, which section is damaged, which
 *           number of the state
 *   notes   arrays may hold any number: they are the trainer's
 */
enum status checkpoint_decode(const void *bytes, size_t n_bytes, const char *origin, struct checkpoint *out);

/* Is this the checkpoint of this job? All keys that change the computed numbers must be equal: not workers, exchange,
 * memory, output, nor train.epochs (unless the learning rate depends on it), train.checkpoint_every and the handling
 * of divergence. A job that leaves partition.parts out gets the checkpoint's. Of data only the contents count where
 * the checkpoint knows them (contents_match): their files may lie elsewhere.
 *
 *   errors  STATUS_CONFIG names the key with both values; train.epochs below the epochs done. STATUS_DATA the job in
 *           the checkpoint cannot be read, or its state does not fit this job
 */
enum status checkpoint_match(const struct checkpoint *checkpoint, struct job *job_io);

/* Say in `out` how a library of this checkpoint's workers differs from what workers have now: the job's bits will not
 * be those of a job that never stopped. false: not, as far as is known. */
bool checkpoint_library_differs(const struct checkpoint *checkpoint, enum library library, struct library_range now,
                                char *out, size_t capacity);

#endif
