#include "worker/run/guard.h"

#include "worker/run/reduce.h"
#include "worker/state/embeddings.h"

#include <math.h>

double guard_error(const double sums[3])
{
    return sums[2] == 0.0 ? 0.0 : sqrt(sums[2]) / sqrt(sums[0]);
}

/* 2 a·b = ‖a‖² + ‖b‖² − ‖a − b‖² */
double guard_cosine(const double sums[3])
{
    return sums[2] == 0.0 ? 1.0 : 0.5 * (sums[0] + sums[1] - sums[2]) / (sqrt(sums[0]) * sqrt(sums[1]));
}

bool guard_is_due(const struct trainer *t)
{
    return level_guards(t->setup.job, t->run.epoch) && !level_is_exact(&t->run.level);
}

/* The gradients that were made go aside. */
static void gradients_keep(const struct trainer *t)
{
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->parameters.compared, trainer_gradients(t, 0),
                 (size_t)t->program.n_weight * sizeof(float));
    if (t->parameters.embeddings.compared != NULL) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->parameters.embeddings.compared,
                     t->parameters.embeddings.gradients, (size_t)t->plan.rows.n_embedding * sizeof(float));
    }
}

/* Parts' own weights: each part's sums alone, then along the tree, so that every rank has them. */
static enum status embeddings_compare(struct trainer *t)
{
    for (int32_t i = 0; i < t->own.n; i++) {
        t->ops->fill_zero(t->device, trainer_sums(t, i), MEMORY_PLAN_N_SUM * sizeof(double));
        for (int p = 0; p < t->program.n_param; p++) {
            const float *exact = embeddings_at(t, t->parameters.embeddings.gradients, p, i);
            if (exact != NULL && t->program.param[p].trains) {
                t->ops->floats_compare(
                    t->device, t->own.part[i].part->features.n_embedded * t->program.param[p].embedding_width, exact,
                    embeddings_at(t, t->parameters.embeddings.compared, p, i), trainer_sums(t, i));
            }
        }
    }
    return t->program.n_embedding > 0 ? reduce_run(t, REDUCE_SUMS, true) : STATUS_OK;
}

/* The gradients kept aside against those that are there now: sums to the host. */
static enum status gradients_compare(struct trainer *t)
{
    enum status status = embeddings_compare(t);
    double *sums = trainer_sums(t, 0);
    for (int p = 0; p < t->program.n_param; p++) {
        const struct parameter *param = &t->program.param[p];
        if (param->trains) {
            t->ops->floats_compare(t->device, param->n_shared, trainer_gradients(t, 0) + param->offset,
                                   t->parameters.compared + param->offset, sums);
        }
    }
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->memory.shared->compared, sums, sizeof t->memory.shared->compared);
    return status == STATUS_OK ? device_sync(t->device) : status;
}

enum status guard_run(struct trainer *t)
{
    struct trainer_guard *guard = &t->run.guard;
    t->run.tentative = true;
    enum status status = trainer_run(t, STEP_PHASE_TRAIN);
    t->run.tentative = false;
    if (status != STATUS_OK) {
        return status;
    }
    guard->loss = trainer_loss(t);
    gradients_keep(t);
    t->run.level = level_exact();
    status = trainer_run(t, STEP_PHASE_TRAIN);
    status = status == STATUS_OK ? gradients_compare(t) : status;
    if (status != STATUS_OK) {
        return status;
    }
    guard->compared = true;
    guard->error = guard_error(t->memory.shared->compared);
    guard->cosine = guard_cosine(t->memory.shared->compared);
    /* Written so that an error that is not a number is too large. */
    if (isfinite(trainer_loss(t)) && !(guard->error <= t->setup.job->exchange.guard_limit)) {
        t->run.n_back_off++;
    }
    return STATUS_OK;
}
