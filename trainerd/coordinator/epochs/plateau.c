#include "trainerd/coordinator/epochs/plateau.h"

#include <math.h>

/* Smaller reductions are not made. source  ReduceLROnPlateau(eps = 1e-8) */
#define LEAST_REDUCTION 1e-8

void plateau_begin(const struct job *job, struct checkpoint_state *state)
{
    state->plateau_lr = job->train.lr;
    state->plateau_best = NAN;
    state->plateau_n_bad = 0;
}

double plateau_factor(const struct job *job, const struct checkpoint_state *state)
{
    bool falls = job->train.lr_schedule == JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU && job->train.lr > 0.0;
    return ldexp(falls ? state->plateau_lr / job->train.lr : 1.0, -(int)state->n_rollback);
}

static bool is_better(const struct job_train *train, bool falls, double value, double best)
{
    if (isnan(best)) {
        return !isnan(value);
    }
    return falls ? value < best * (1.0 - train->lr_threshold) : value > best * (1.0 + train->lr_threshold);
}

bool plateau_note(const struct training *training, int64_t epoch, const struct checkpoint_score *score,
                  struct checkpoint_state *state)
{
    const struct job_train *train = &training->job->train;
    if (train->lr_schedule != JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU || epoch < train->warmup) {
        return false;
    }
    bool is_loss = train->lr_monitor == JOB_MONITOR_LOSS;
    bool falls = is_loss || job_metric_falls((enum job_metric)training->metrics.of[0]);
    double value = is_loss ? score->valid_loss : score->of[0].valid;
    if (is_better(train, falls, value, state->plateau_best)) {
        state->plateau_best = value;
        state->plateau_n_bad = 0;
        return false;
    }
    if (++state->plateau_n_bad <= train->lr_patience) {
        return false;
    }
    state->plateau_n_bad = 0;
    double lr = fmax(state->plateau_lr * train->lr_gamma, train->lr_min);
    if (!(state->plateau_lr - lr > LEAST_REDUCTION)) {
        return false;
    }
    state->plateau_lr = lr;
    return true;
}
