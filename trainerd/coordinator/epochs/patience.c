#include "trainerd/coordinator/epochs/patience.h"

#include <math.h>

static bool is_of_loss(const struct training *training)
{
    return training->job->train.patience_monitor == JOB_MONITOR_LOSS;
}

void patience_begin(struct checkpoint_state *state)
{
    state->n_stale = 0;
    state->patience_best = NAN;
}

void patience_note(const struct training *training, const struct checkpoint_score *score,
                   struct checkpoint_state *state)
{
    double value = is_of_loss(training) ? score->valid_loss : score->of[0].valid, best = state->patience_best;
    double delta = training->job->train.min_delta;
    bool falls = is_of_loss(training) || job_metric_falls((enum job_metric)training->metrics.of[0]);
    bool better = falls ? value < best - delta : value > best + delta;
    if (better || isnan(best)) {
        state->patience_best = value;
        state->n_stale = 0;
    } else {
        state->n_stale++;
    }
}

bool patience_is_over(const struct job *job, const struct checkpoint_state *state)
{
    return job->train.patience > 0 && state->n_stale >= job->train.patience;
}

const char *patience_text(const struct training *training)
{
    return is_of_loss(training) ? "loss" : score_name(training->metrics.of[0]);
}
