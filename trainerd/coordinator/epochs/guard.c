#include "trainerd/coordinator/epochs/guard.h"

#include <math.h>
#include <stdio.h>

void guard_begin(struct checkpoint_state *state)
{
    state->n_back_off = state->n_guard = 0;
    state->guard_epoch = -1;
    state->guard_loss = state->guard_error = state->guard_cosine = NAN;
}

struct level guard_level(const struct job *job, const struct checkpoint_state *state, int64_t epoch)
{
    return level_at(job, (uint32_t)(epoch > 0 ? epoch : 0), state->n_back_off);
}

struct figure guard_codecs(const struct level *level)
{
    struct figure out;
    bool is_same = level->codec_backward == level->codec;
    snprintf(out.text, sizeof out.text, is_same ? "%s" : "%s, gradients %s", level_codec_text(level->codec),
             level_codec_text(level->codec_backward));
    return out;
}

#define LEVEL_BYTES 96

/* "0.2 of the boundary rows, int8", or "exact epochs". */
static void guard_level_text(const struct level *level, char out[LEVEL_BYTES])
{
    int n = 0;
    if (level_is_exact(level)) {
        snprintf(out, LEVEL_BYTES, "exact epochs");
        return;
    }
    if (level->stale) {
        n = snprintf(out, LEVEL_BYTES, "rows of the epoch before, ");
    }
    if (level->sampling < 1.0) {
        n = snprintf(out, LEVEL_BYTES, "%.4g of the boundary rows, ", level->sampling);
    }
    snprintf(out + n, LEVEL_BYTES - (size_t)n, "%s", guard_codecs(level).text);
}

static void back_off_note(struct training *training, int64_t epoch)
{
    const struct checkpoint_state *state = &training->state;
    double limit = training->job->exchange.guard_limit;
    const struct level level = guard_level(training->job, state, epoch + 1);
    char text[LEVEL_BYTES];
    guard_level_text(&level, text);
    progress_print(
        training->progress,
        "epoch %lld: the gradient's relative error is %.3g, more than exchange.guard_limit = %g; backed off to %s",
        (long long)epoch, state->guard_error, limit, text);
    const struct events_back_off what = {.epoch = epoch,
                                         .n_back_off = state->n_back_off,
                                         .error = state->guard_error,
                                         .limit = limit,
                                         .sampling = level.sampling,
                                         .stale = level.stale,
                                         .codec = level_codec_text(level.codec),
                                         .codec_backward = level_codec_text(level.codec_backward)};
    events_back_off(training->events, &what);
}

enum status guard_note(struct training *training, int64_t epoch)
{
    struct checkpoint_state *state = &training->state;
    struct fleet_guard found;
    if (!level_guards(training->job, (uint32_t)epoch)) {
        return STATUS_OK;
    }
    enum status status = fleet_guard(training->fleet, (uint32_t)epoch, &found);
    if (status != STATUS_OK || !found.compared) {
        return status;
    }
    bool backs_off = found.n_back_off > state->n_back_off;
    state->n_guard++;
    state->n_back_off = found.n_back_off;
    state->guard_epoch = epoch;
    state->guard_loss = found.loss;
    state->guard_error = found.error;
    state->guard_cosine = found.cosine;
    if (backs_off) {
        back_off_note(training, epoch);
    }
    return STATUS_OK;
}

enum status guard_restore(const struct training *training)
{
    int64_t n = training->state.n_back_off;
    return training->job->exchange.guard_every > 0
               ? fleet_put(training->fleet, WORKER_STATE_BACK_OFFS, 0, &n, sizeof n)
               : STATUS_OK;
}
