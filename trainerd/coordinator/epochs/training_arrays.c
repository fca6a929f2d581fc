#include "trainerd/coordinator/epochs/training_arrays.h"

#include "protocol/base/memory.h"

#include <string.h>

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
    for (int32_t part = 0; training->n_kept != NULL && part < training->partition->n_part && status == STATUS_OK;
         part++) {
        status = fleet_get_kept(training->fleet, part, to, training->n_kept[part]);
        to += training->n_kept[part];
    }
    return status;
}

/* --- rows of the last evaluation --- */

enum status training_rows_each(struct training *training, const struct training_rows *how)
{
    const struct partition *partition = training->partition;
    size_t f = (size_t)how->width;
    int64_t most = 0;
    for (int32_t part = 0; part < partition->n_part; part++) {
        int64_t n = partition->part_begin[part + 1] - partition->part_begin[part];
        most = n > most ? n : most;
    }
    float *rows;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)most * f, sizeof *rows, &rows);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t part = 0; part < partition->n_part && status == STATUS_OK; part++) {
        int64_t begin = partition->part_begin[part], n = partition->part_begin[part + 1] - begin;
        status = fleet_rows(training->fleet, how->what, part, rows, (size_t)n * f * sizeof *rows);
        if (status == STATUS_OK) {
            how->take(how->context, partition->order + begin, n, rows);
        }
    }
    memory_release(MEMORY_OTHER, rows, (size_t)most * f, sizeof *rows);
    return status;
}

struct placed {
    float *out;
    size_t width;
};

static void rows_put(void *context, const uint32_t *node, int64_t n, const float *rows)
{
    const struct placed *to = context;
    for (int64_t r = 0; r < n; r++) {
        memcpy(to->out + node[r] * to->width, rows + (size_t)r * to->width, to->width * sizeof *rows);
    }
}

enum status training_rows_place(struct training *training, uint32_t what, int64_t width, float *out)
{
    struct placed to = {out, (size_t)width};
    return training_rows_each(
        training, &(struct training_rows){.what = what, .width = width, .take = rows_put, .context = &to});
}

enum status training_logits(struct training *training, float *out)
{
    return training_rows_place(training, MESSAGE_GET_LOGITS, training->n_class, out);
}
