#include "models/program/level.h"

#include "models/program/row_filter.h"

#include <math.h>
#include <stdio.h>

#define LEAST_SHARE 0.01 /* first share of a back-off from 0 */

#define CODEC(list, name, text) [JOB_CODEC_##name] = DEVICE_CODEC_##name,
static const enum device_codec device_codecs[JOB_CODEC_N] = {JOB_CODEC_LIST(CODEC, CODEC)};
#undef CODEC

const char *level_codec_text(enum device_codec codec)
{
    int c = 0;
    while (c < JOB_CODEC_N - 1 && device_codecs[c] != codec) {
        c++;
    }
    return job_codec_text((enum job_codec)c);
}

static struct level level_of(const struct job *job, const struct job_codecs *rows, const struct job_codecs *gradients,
                             int64_t epoch)
{
    return (struct level){.sampling = row_filter_share(job),
                          .codec = device_codecs[job_codecs_at(rows, epoch)],
                          .codec_backward = device_codecs[job_codecs_at(gradients, epoch)],
                          .stale = job->exchange.stale != 0 && epoch > 0}; /* epoch 0 has no epoch before it */
}

static enum device_codec wider(enum device_codec codec, int64_t n)
{
    return n < (int64_t)codec ? (enum device_codec)((int64_t)codec - n) : DEVICE_CODEC_FP32;
}

/* A share of rows after so many back-offs. */
static double greater(double share, int64_t n)
{
    for (int64_t k = 0; k < n && share < 1.0; k++) {
        share = share > 0.0 ? fmin(2.0 * share, 1.0) : LEAST_SHARE;
    }
    return share;
}

struct level level_at(const struct job *job, uint32_t epoch, int64_t n_back_off)
{
    const struct job_codecs rows = job_codecs(job, false), gradients = job_codecs(job, true);
    struct level level = level_of(job, &rows, &gradients, epoch);
    level.sampling = greater(level.sampling, n_back_off);
    level.codec = wider(level.codec, n_back_off);
    level.codec_backward = wider(level.codec_backward, n_back_off);
    level.stale = level.stale && n_back_off == 0;
    return level;
}

struct level level_exact(void)
{
    return (struct level){.sampling = 1.0, .codec = DEVICE_CODEC_FP32, .codec_backward = DEVICE_CODEC_FP32};
}

bool level_is_exact(const struct level *level)
{
    return level->sampling >= 1.0 && level->codec == DEVICE_CODEC_FP32 &&
           level->codec_backward == DEVICE_CODEC_FP32 && !level->stale;
}

/* Epochs before `epoch` that compare. */
static int64_t guards_before(const struct job *job, int64_t epoch)
{
    return job->exchange.guard_every > 0 ? epoch / job->exchange.guard_every : 0;
}

bool level_guards(const struct job *job, uint32_t epoch)
{
    return guards_before(job, (int64_t)epoch + 1) > guards_before(job, epoch);
}

struct level level_before(const struct job *job, uint32_t epoch)
{
    return level_guards(job, epoch - 1) ? level_exact()
                                        : level_at(job, epoch - 1, 0); /* no stale epoch comes after a back-off */
}

uint32_t level_codecs(const struct job *job, bool backward)
{
    const struct job_codecs codecs = job_codecs(job, backward);
    uint32_t all = 0;
    for (int k = 0; k < codecs.n; k++) {
        all |= 1U << device_codecs[codecs.at[k].codec];
    }
    for (int c = DEVICE_CODEC_INT2; job->exchange.guard_every > 0 && c > DEVICE_CODEC_FP32; c--) {
        all |= (all >> c & 1) << (c - 1);
    }
    return all;
}

/* The first epoch after `epoch` in which a codec changes, at most `last`. */
static int64_t change_after(const struct job_codecs *codecs, int64_t epoch, int64_t last)
{
    for (int k = 0; k < codecs->n; k++) {
        if (codecs->at[k].epoch > epoch && codecs->at[k].epoch < last) {
            return codecs->at[k].epoch;
        }
    }
    return last;
}

/* Epochs of a stage that compare gradients: epoch 0 may be less lossy than the others. */
static int64_t n_guard(const struct job *job, const struct job_codecs *rows, const struct job_codecs *gradients,
                       const struct level_stage *stage)
{
    int64_t end = stage->epoch + stage->n_epoch;
    if (stage->n_epoch <= 0) {
        return 0;
    }
    const struct level first = level_of(job, rows, gradients, stage->epoch),
                       last = level_of(job, rows, gradients, end - 1);
    int64_t n_first = level_guards(job, (uint32_t)stage->epoch) && level_is_exact(&first);
    return level_is_exact(&last) ? 0 : guards_before(job, end) - guards_before(job, stage->epoch) - n_first;
}

int level_stages(const struct job *job, struct level_stage out[LEVEL_STAGES_MOST])
{
    const struct job_codecs rows = job_codecs(job, false), gradients = job_codecs(job, true);
    int n = 0;
    int64_t epoch = 0;
    do {
        int64_t end = change_after(&gradients, epoch, change_after(&rows, epoch, job->train.epochs));
        struct level_stage *stage = &out[n++];
        *stage = (struct level_stage){
            .epoch = epoch, .n_epoch = end - epoch, .level = level_of(job, &rows, &gradients, epoch)};
        stage->n_guard = n_guard(job, &rows, &gradients, stage);
        epoch = end;
    } while (epoch < job->train.epochs);
    return n;
}

enum status level_check(const struct job *job, const struct device_ops *ops)
{
    char has[128] = "";
    size_t at = 0;
    for (int c = 0; c < JOB_CODEC_N; c++) {
        if ((ops->codecs >> device_codecs[c] & 1) != 0) {
            at += (size_t)snprintf(has + at, sizeof has - at, "%s%s", at > 0 ? ", " : "",
                                   job_codec_text((enum job_codec)c));
        }
    }
    for (int backward = 0; backward < 2; backward++) {
        uint32_t lacks = level_codecs(job, backward != 0) & ~ops->codecs;
        for (int c = 0; c < JOB_CODEC_N; c++) {
            if ((lacks >> device_codecs[c] & 1) != 0) {
                return status_fail(
                    STATUS_CONFIG, "exchange.%s has %s, which the device \"%s\" lacks; expected one of %s",
                    backward != 0 ? "codec_backward" : "codec", job_codec_text((enum job_codec)c), ops->name, has);
            }
        }
    }
    return STATUS_OK;
}
