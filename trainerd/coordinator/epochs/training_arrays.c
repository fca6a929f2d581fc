#include "trainerd/coordinator/epochs/training_arrays.h"

#include "protocol/base/memory.h"

#include <string.h>

_Static_assert(CHECKPOINT_ARRAY_N == WORKER_STATE_N_SECTION, "arrays are the sections of worker_state.def");

static bool has_array(const struct training *training, enum checkpoint_array array)
{
    const struct job_train *train = &training->job->train;
    bool is_sgd = train->optimizer == JOB_OPTIMIZER_SGD;
    switch (array) {
    case CHECKPOINT_ARRAY_MOMENT_1:
        return !is_sgd || train->momentum > 0.0;
    case CHECKPOINT_ARRAY_MOMENT_2:
        return !is_sgd;
    case CHECKPOINT_ARRAY_BEST:
        return training->state.best_epoch >= 0;
    default:
        return true;
    }
}

/* Floats of a row, of one part; those of a row that is not of parts count as part 0's. */
static int64_t row_floats(const struct training *training, const struct worker_state_row *row, int32_t part)
{
    if (row->scope != WORKER_STATE_SCOPE_PART) {
        return part == 0 ? training->floats.n_weight : 0;
    }
    const int64_t *n = row->what == WORKER_STATE_BUFFERS ? training->floats.n_buffer : training->floats.n_embedding;
    return n != NULL ? n[part] : 0;
}

/* The rows of an array, part after part: to `to`, else from `from`, else nowhere. Returns the floats so far. */
static enum status array_walk(const struct training *training, enum checkpoint_array array, float *to,
                              const float *from, int64_t *n_out)
{
    enum status status = STATUS_OK;
    int64_t at = 0;
    for (int32_t part = 0; part < training->partition->n_part; part++) {
        for (uint32_t what = 0; what < WORKER_STATE_END && status == STATUS_OK; what++) {
            const struct worker_state_row *row = worker_state_row(what);
            int64_t n = row != NULL && row->section == (int)array ? row_floats(training, row, part) : 0;
            size_t n_bytes = (size_t)n * sizeof(float);
            if (n > 0 && to != NULL) {
                status = fleet_get(training->fleet, row->what, part, to + at, n_bytes);
            } else if (n > 0 && from != NULL) {
                status = fleet_put(training->fleet, row->what, part, from + at, n_bytes);
            }
            at += n;
        }
    }
    *n_out = at;
    return status;
}

int64_t training_array_floats(const struct training *training, enum checkpoint_array array)
{
    int64_t n = 0;
    if (has_array(training, array)) {
        array_walk(training, array, NULL, NULL, &n);
    }
    return n;
}

enum status training_array_put(struct training *training, enum checkpoint_array array, const float *from)
{
    int64_t n;
    return array_walk(training, array, NULL, from, &n);
}

enum status training_array_get(struct training *training, enum checkpoint_array array, float *to)
{
    int64_t n;
    return array_walk(training, array, to, NULL, &n);
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
        status = fleet_get(training->fleet, how->what, part, rows, (size_t)n * f * sizeof *rows);
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

enum status training_rows_place(struct training *training, enum worker_state what, int64_t width, float *out)
{
    struct placed to = {out, (size_t)width};
    return training_rows_each(
        training, &(struct training_rows){.what = what, .width = width, .take = rows_put, .context = &to});
}

enum status training_logits(struct training *training, float *out)
{
    return training_rows_place(training, WORKER_STATE_LOGITS, training->n_class, out);
}
