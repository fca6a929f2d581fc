/* See model_kinds.h. */
#include "protocol/job/model_kinds.h"

#define FACTS_ROW(list, name, text, builder, ...) [JOB_##list##_##name] = {__VA_ARGS__},
static const struct model_kind model_kinds[JOB_KIND_N] = {JOB_KIND_LIST(FACTS_ROW, KIND)};

_Static_assert(JOB_KIND_N <= 32, "a set of kinds is a uint32_t");
_Static_assert(JOB_KEY_train_epochs - JOB_KEY_model_kind <= 64, "a set of keys of [model] is a uint64_t");

const struct model_kind *model_kind_of(const struct job *job)
{
    return job->model.kind == JOB_KIND_PROGRAM ? &job->program.kind : &model_kinds[job->model.kind];
}

bool model_is_sum(const struct job *job)
{
    bool is_max = job->model.kind == JOB_KIND_SAGE && job->model.aggregator == JOB_AGGREGATOR_MAX;
    return model_kind_of(job)->is_sum && !is_max;
}

uint32_t model_kinds_with_key(enum job_key_id key)
{
    int bit = (int)key - (int)JOB_KEY_model_kind;
    uint32_t kinds = 0;
    if (bit < 0 || bit >= 64) {
        return 0;
    }
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        kinds |= (uint32_t)(model_kinds[kind].keys >> bit & 1) << kind;
    }
    return kinds;
}

uint32_t model_kinds_of_sums(void)
{
    uint32_t kinds = 0;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        kinds |= (uint32_t)model_kinds[kind].is_sum << kind;
    }
    return kinds;
}

uint32_t model_kinds_with_edge_features(void)
{
    uint32_t kinds = 0;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        kinds |= (uint32_t)model_kinds[kind].takes_edge_features << kind;
    }
    return kinds;
}
