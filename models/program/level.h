/* The approximation of an epoch's payloads: the share of rows that are sent, their codecs, and staleness.
 *
 * An epoch's level depends only on the job and the epoch's number, the same on every worker and in a resumed job. A
 * program, and the memory of a worker, are made for all levels that its epochs may have.
 */
#ifndef MODELS_LEVEL_H
#define MODELS_LEVEL_H

#include "models/device/device.h"
#include "protocol/job/codecs.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

struct level {
    double sampling;                  /* share of boundary rows that travel; 1: all */
    enum device_codec codec;          /* of rows */
    enum device_codec codec_backward; /* of gradients */
    bool stale;                       /* rows and gradients are those of the epoch before */
};

/* More back-offs than it takes from any level to the exact one: 0.5^1075 is 0. */
#define LEVEL_BACK_OFFS_MOST 2000

/* The level of an epoch after this many back-offs: each doubles the share (0 becomes 0.01) and takes codecs one step
 * wider; none is stale after the first. */
struct level level_at(const struct job *job, uint32_t epoch, int64_t n_back_off);

/* The level of the rows that a stale epoch has from the one before: that epoch's, or exact if it compared
 * gradients. */
struct level level_before(const struct job *job, uint32_t epoch);

/* Nothing is lost. */
struct level level_exact(void);
bool level_is_exact(const struct level *level);

/* Does exchange.guard_every compare gradients in this epoch? */
bool level_guards(const struct job *job, uint32_t epoch);

/* "int4" */
const char *level_codec_text(enum device_codec codec);

/* Codecs that rows, or gradients, may have in some epoch, with a guard also by its back-offs: bit c for enum
 * device_codec c. */
uint32_t level_codecs(const struct job *job, bool backward);

/* Epochs in a row with the same codecs. */
#define LEVEL_STAGES_MOST (2 * JOB_CODECS_MOST)
struct level_stage {
    int64_t epoch, n_epoch; /* the first; how many of train.epochs */
    int64_t n_guard;        /* how many of them compare gradients: an exact epoch on top */
    struct level level;     /* without back-offs */
};

/* Those of a job, one after another; returns how many: at least 1, though it may have no epochs. */
int level_stages(const struct job *job, struct level_stage out[LEVEL_STAGES_MOST]);

/* Does the device have the codecs that the job may use?
 *
 *   errors  STATUS_CONFIG the codec, the device, and the codecs that it has
 */
enum status level_check(const struct job *job, const struct device_ops *ops);

#endif
