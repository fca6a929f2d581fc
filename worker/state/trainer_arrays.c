/* A trainer seen from outside: its program, its arrays read and set, its memory. */
#include "protocol/base/log.h"
#include "worker/state/trainer_state.h"

#include <string.h>

const struct trace *trainer_trace(const struct trainer *t)
{
    return t->trace;
}

const struct traffic *trainer_traffic(const struct trainer *t)
{
    return t->traffic;
}

const struct program *trainer_program(const struct trainer *t)
{
    return &t->program;
}

static float *state_array(const struct trainer *t, enum trainer_state what)
{
    switch (what) {
    case TRAINER_STATE_WEIGHTS:
        return t->weights;
    case TRAINER_STATE_MOMENT_1:
        return t->moment_1;
    case TRAINER_STATE_MOMENT_2:
        return t->moment_2;
    default:
        return what == TRAINER_STATE_BEST ? t->best : NULL;
    }
}

enum status trainer_get(struct trainer *t, enum trainer_state what, float *to)
{
    size_t n_bytes = (size_t)t->program.n_weight * sizeof *to;
    const float *from = state_array(t, what);
    if (from == NULL) {
        memset(to, 0, n_bytes);
        return STATUS_OK;
    }
    t->ops->download(t->device, to, from, n_bytes);
    return device_sync(t->device);
}

enum status trainer_set(struct trainer *t, enum trainer_state what, const float *from)
{
    float *to = state_array(t, what);
    if (to != NULL) {
        t->ops->upload(t->device, to, from, (size_t)t->program.n_weight * sizeof *to);
    }
    return device_sync(t->device);
}

void trainer_keep_best(struct trainer *t)
{
    if (t->best != NULL) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->best, t->weights,
                     (size_t)t->program.n_weight * sizeof(float));
    }
    if (t->embeddings.best != NULL) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->embeddings.best, t->embeddings.weights,
                     (size_t)t->plan.n_embedding * sizeof(float));
    }
}

enum status trainer_rows_of(struct trainer *t, int value, int32_t part, float *to)
{
    ASSERT(part >= 0 && part < t->setup.n_part && t->own_index[part] >= 0);
    int32_t i = t->own_index[part];
    size_t n = (size_t)t->part[i].part->n_own * (size_t)t->program.value[value].width;
    const float *rows = trainer_value(t, value, i);
    const struct spill_range all = {rows, (int64_t)(n * sizeof *to), SPILL_READ};
    enum status status = spill_pin(t->setup.spill, &all, 1);
    if (status == STATUS_OK) {
        t->ops->download(t->device, to, rows, n * sizeof *to);
        status = device_sync(t->device);
        spill_unpin(t->setup.spill, &all, 1);
    }
    return status;
}

/* Features travel inside the encoded parts, which are counted as structure when they arrive. */
static int64_t features_in_parts(const struct trainer *t)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_own; i++) {
        const struct part *part = t->part[i].part;
        int64_t n_row = part->n_own + part->n_halo;
        int64_t n_value = part->n_feature_value + part->n_halo_value + part->n_embedded;
        n += part->feature_indptr != NULL ? (n_row + 1) * 8 + n_value * 8 : n_row * part->n_feature * 4;
    }
    return n;
}

struct library_versions trainer_libraries(const struct trainer *t)
{
    return t->device->capacity.libraries;
}

void trainer_memory(const struct trainer *t, struct memory_table *planned_out, struct memory_table *measured_out)
{
    enum memory_place computes = t->ops->unified ? MEMORY_PLACE_HOST : MEMORY_PLACE_DEVICE;
    memory_plan_table(&t->plan, planned_out);
    for (int place = 0; place < MEMORY_PLACE_N; place++) {
        for (int c = 0; c < MEMORY_N; c++) {
            measured_out->bytes[place][c] = memory_peak_at((enum memory_place)place, (enum memory_category)c);
        }
    }
    if (t->setup.spill != NULL) {
        return;
    }
    int64_t features = features_in_parts(t), *host = measured_out->bytes[MEMORY_PLACE_HOST],
            *arrays = measured_out->bytes[computes];
    host[MEMORY_FEATURES] += features;
    host[MEMORY_STRUCTURE] -= features;
    if (arrays != host) { /* parts are lent whole */
        arrays[MEMORY_FEATURES] += features;
        arrays[MEMORY_STRUCTURE] -= features;
    }
    /* Other payloads lie in the arena. */
    int64_t in_arena = t->plan.bytes[MEMORY_PAYLOADS] - t->plan.n_kept_bytes;
    arrays[MEMORY_PAYLOADS] += in_arena;
    arrays[MEMORY_ACTIVATIONS] -= in_arena;
}
