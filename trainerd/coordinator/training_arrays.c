#include "trainerd/coordinator/training_arrays.h"

bool training_has_array(const struct training *training, enum checkpoint_array array)
{
    bool is_sgd = training->job->train.optimizer == JOB_OPTIMIZER_SGD;
    switch (array) {
    case CHECKPOINT_ARRAY_MOMENT_1:
        return !is_sgd || training->job->train.momentum > 0.0;
    case CHECKPOINT_ARRAY_MOMENT_2:
        return !is_sgd;
    case CHECKPOINT_ARRAY_BEST:
        return training->state.best_epoch >= 0;
    case CHECKPOINT_ARRAY_WEIGHTS:
    case CHECKPOINT_ARRAY_N:
        break;
    }
    return true;
}

static int32_t n_part_with_embeddings(const struct training *training)
{
    return training->n_embedding != NULL ? training->partition->n_part : 0;
}

int64_t training_n_weight(const struct training *training)
{
    int64_t n = training->n_weight;
    for (int32_t part = 0; part < n_part_with_embeddings(training); part++) {
        n += training->n_embedding[part];
    }
    return n;
}

enum status training_array_put(struct training *training, uint32_t what, const float *from)
{
    enum status status = fleet_put(training->fleet, what, from, training->n_weight);
    from += training->n_weight;
    for (int32_t part = 0; part < n_part_with_embeddings(training) && status == STATUS_OK; part++) {
        status = fleet_put_embeddings(training->fleet, what, part, from, training->n_embedding[part]);
        from += training->n_embedding[part];
    }
    return status;
}

enum status training_array_get(struct training *training, uint32_t what, float *to)
{
    enum status status = fleet_get(training->fleet, what, to, training->n_weight);
    to += training->n_weight;
    for (int32_t part = 0; part < n_part_with_embeddings(training) && status == STATUS_OK; part++) {
        status = fleet_get_embeddings(training->fleet, what, part, to, training->n_embedding[part]);
        to += training->n_embedding[part];
    }
    return status;
}

int64_t training_n_kept(const struct training *training)
{
    int64_t n = 0;
    for (int32_t part = 0; training->n_kept != NULL && part < training->partition->n_part; part++) {
        n += training->n_kept[part];
    }
    return n;
}

enum status training_kept_put(struct training *training, const struct checkpoint *checkpoint)
{
    int64_t n = training_n_kept(training);
    const float *from = checkpoint->kept;
    if (n == 0) {
        return STATUS_OK;
    }
    if (checkpoint->n_kept != n) {
        return status_fail(STATUS_DATA,
                           "cannot resume: checkpoint '%s' has %lld numbers of payloads that are kept: expected %lld",
                           checkpoint->path, (long long)checkpoint->n_kept, (long long)n);
    }
    enum status status = STATUS_OK;
    for (int32_t part = 0; part < training->partition->n_part && status == STATUS_OK; part++) {
        status = fleet_put_kept(training->fleet, part, from, training->n_kept[part]);
        from += training->n_kept[part];
    }
    return status;
}

enum status training_kept_get(struct training *training, float *to)
{
    enum status status = STATUS_OK;
    for (int32_t part = 0; training->n_kept != NULL && part < training->partition->n_part && status == STATUS_OK; part++) {
        status = fleet_get_kept(training->fleet, part, to, training->n_kept[part]);
        to += training->n_kept[part];
    }
    return status;
}
