#include "worker/run/clip.h"

#include "worker/state/embeddings.h"

void clip_begin(struct trainer *t)
{
    for (int32_t i = 0; t->setup.job->train.clip_norm > 0.0 && i < t->own.n; i++) {
        double *sum = trainer_sums(t, i) + MEMORY_PLAN_SUM_SQUARES;
        t->ops->fill_zero(t->device, sum, sizeof *sum);
        for (int p = 0; p < t->program.n_param; p++) {
            const float *grad = embeddings_at(t, t->parameters.embeddings.gradients, p, i);
            if (grad != NULL && t->program.param[p].trains) {
                t->ops->squares_add(t->device,
                                    t->own.part[i].part->features.n_embedded * t->program.param[p].embedding_width,
                                    grad, sum);
            }
        }
    }
}

const double *clip_end(struct trainer *t)
{
    double most = t->setup.job->train.clip_norm, *sum = trainer_sums(t, 0) + MEMORY_PLAN_SUM_SQUARES;
    if (most == 0.0) {
        return NULL;
    }
    for (int p = 0; p < t->program.n_param; p++) {
        const struct parameter *param = &t->program.param[p];
        if (param->trains) {
            t->ops->squares_add(t->device, param->n_shared, trainer_gradients(t, 0) + param->offset, sum);
        }
    }
    t->ops->clip_factor(t->device, most, sum, t->memory.now);
    t->ops->move(t->device, DEVICE_LANE_COMPUTE, &t->memory.shared->grad_norm, &t->memory.now->grad_norm,
                 sizeof t->memory.shared->grad_norm);
    return &t->memory.now->clip;
}
