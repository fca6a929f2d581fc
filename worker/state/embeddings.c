#include "worker/state/embeddings.h"

#include <stdlib.h>

enum status embeddings_draw(struct trainer *t)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0; status == STATUS_OK && t->plan.rows.n_embedding > 0 && i < t->own.n; i++) {
        const struct part *part = t->own.part[i].part;
        const struct spill_range columns = {part->features.embedded_columns,
                                            part->features.n_embedded * (int64_t)sizeof(uint32_t), SPILL_READ};
        status = spill_pin(t->setup.spill, &columns, 1);
        if (status == STATUS_OK) {
            size_t n = (size_t)(part->features.n_embedded * t->program.n_embedding);
            float *drawn = memory_alloc(n, sizeof *drawn);
            program_init_embeddings(&t->program, (uint64_t)t->setup.job->train.seed, part->features.n_embedded,
                                    part->features.embedded_columns, drawn);
            t->ops->copy(t->device, t->parameters.embeddings.weights + t->plan.rows.begin[i].embedding, drawn,
                         n * sizeof *drawn);
            free(drawn);
            spill_unpin(t->setup.spill, &columns, 1);
        }
    }
    return status;
}

float *embeddings_at(const struct trainer *t, float *array, int param, int32_t i)
{
    int64_t at = t->program.param[param].embedding_at, n = t->own.part[i].part->features.n_embedded;
    return array != NULL && at >= 0 && n > 0 ? array + t->plan.rows.begin[i].embedding + n * at : NULL;
}

void embeddings_step(struct trainer *t, int param, const struct device_step *how)
{
    const struct trainer_embeddings *all = &t->parameters.embeddings;
    for (int32_t i = 0; i < t->own.n; i++) {
        float *weights = embeddings_at(t, all->weights, param, i);
        if (weights != NULL) {
            t->ops->step(t->device, how,
                         t->own.part[i].part->features.n_embedded * t->program.param[param].embedding_width,
                         embeddings_at(t, all->gradients, param, i), weights,
                         embeddings_at(t, all->moment_1, param, i), embeddings_at(t, all->moment_2, param, i));
        }
    }
}
