/* A trainer seen from outside: its program, the arrays that are read and set between epochs, its memory. */
#include "worker/state/trainer_state.h"

#include <string.h>

const struct trace *trainer_trace(const struct trainer *t)
{
    return t->records.trace;
}

const struct traffic *trainer_traffic(const struct trainer *t)
{
    return t->records.traffic;
}

const struct program *trainer_program(const struct trainer *t)
{
    return &t->program;
}

/* --- the rows of worker_state.def --- */

static bool owns(const struct trainer *t, int32_t part)
{
    return part >= 0 && part < t->setup.n_part && t->own.index[part] >= 0;
}

/* A row of this rank in one piece; at NULL: not on this rank. */
struct place {
    void *at;
    int64_t n_bytes;
    bool on_host;
};

/* part: own, where the row is of parts. */
static struct place place_of(struct trainer *t, enum worker_state what, int32_t part)
{
    const struct trainer_embeddings *e = &t->parameters.embeddings;
    float *const arrays[] = {
        [WORKER_STATE_WEIGHTS] = t->parameters.weights,   [WORKER_STATE_MOMENT_1] = t->parameters.moment_1,
        [WORKER_STATE_MOMENT_2] = t->parameters.moment_2, [WORKER_STATE_BEST] = t->parameters.best,
        [WORKER_STATE_EMBEDDINGS] = e->weights,           [WORKER_STATE_EMBEDDINGS_MOMENT_1] = e->moment_1,
        [WORKER_STATE_EMBEDDINGS_MOMENT_2] = e->moment_2, [WORKER_STATE_EMBEDDINGS_BEST] = e->best};
    const int64_t one = (int64_t)sizeof(float);
    if (what == WORKER_STATE_BACK_OFFS) {
        return (struct place){&t->run.n_back_off, sizeof t->run.n_back_off, true};
    }
    if (what == WORKER_STATE_RATE) {
        return (struct place){&t->run.rate, sizeof t->run.rate, true};
    }
    if ((size_t)what >= sizeof arrays / sizeof *arrays || arrays[what] == NULL) {
        return (struct place){0};
    }
    if (worker_state_rows[what].scope != WORKER_STATE_SCOPE_PART) {
        return (struct place){arrays[what], t->program.n_weight * one, false};
    }
    return (struct place){arrays[what] + t->plan.rows.begin[t->own.index[part]].embedding,
                          t->setup.parts[part]->features.n_embedded * t->program.n_embedding * one, false};
}

/* The value whose rows of the last evaluation are read; -1: none. */
static int rows_value(const struct trainer *t, enum worker_state what)
{
    return what == WORKER_STATE_LOGITS ? t->program.logits : what == WORKER_STATE_LAYER ? t->program.kept : -1;
}

int64_t trainer_state_bytes(struct trainer *t, enum worker_state what, int32_t part)
{
    const int64_t one = (int64_t)sizeof(float);
    int value = rows_value(t, what);
    if (worker_state_rows[what].scope == WORKER_STATE_SCOPE_PART && !owns(t, part)) {
        return 0;
    }
    if (what == WORKER_STATE_BUFFERS) {
        return trainer_n_buffers(t, part) * one;
    }
    return value < 0 ? place_of(t, what, part).n_bytes
                     : t->setup.parts[part]->n_own * t->program.value[value].width * one;
}

static enum status rows_get(struct trainer *t, int value, int32_t part, float *to)
{
    int32_t i = t->own.index[part];
    size_t n = (size_t)t->own.part[i].part->n_own * (size_t)t->program.value[value].width;
    const float *rows = trainer_value(t, value, i);
    const struct spill_range all = {rows, (int64_t)(n * sizeof *to), SPILL_READ};
    enum status status = spill_pin(t->setup.spill, &all, 1);
    if (status == STATUS_OK) {
        t->ops->copy(t->device, to, rows, n * sizeof *to);
        status = device_sync(t->device);
        spill_unpin(t->setup.spill, &all, 1);
    }
    return status;
}

enum status trainer_get(struct trainer *t, enum worker_state what, int32_t part, void *to)
{
    int value = rows_value(t, what);
    if (value >= 0) {
        return rows_get(t, value, part, to);
    }
    if (what == WORKER_STATE_BUFFERS) {
        return trainer_get_buffers(t, part, to);
    }
    const struct place from = place_of(t, what, part);
    if (from.on_host) {
        memcpy(to, from.at, (size_t)from.n_bytes);
        return STATUS_OK;
    }
    t->ops->copy(t->device, to, from.at, (size_t)from.n_bytes);
    return device_sync(t->device);
}

static enum status number_set(struct trainer *t, enum worker_state what, const void *from)
{
    int64_t n_back_off;
    double rate;
    if (what == WORKER_STATE_BACK_OFFS) {
        memcpy(&n_back_off, from, sizeof n_back_off);
        if (n_back_off < 0 || n_back_off > LEVEL_BACK_OFFS_MOST) {
            return status_fail(STATUS_PEER, "%lld back-offs are to be set, expected at most %d",
                               (long long)n_back_off, LEVEL_BACK_OFFS_MOST);
        }
        t->run.n_back_off = n_back_off;
        return STATUS_OK;
    }
    memcpy(&rate, from, sizeof rate);
    if (!(rate > 0.0 && rate <= 1.0)) {
        return status_fail(STATUS_PEER,
                           "the learning rate is to be multiplied by %g, expected more than 0 and at most 1", rate);
    }
    t->run.rate = rate;
    return STATUS_OK;
}

enum status trainer_set(struct trainer *t, enum worker_state what, int32_t part, const void *from)
{
    if (what == WORKER_STATE_BUFFERS) {
        return trainer_set_buffers(t, part, from);
    }
    const struct place to = place_of(t, what, part);
    if (to.on_host) {
        return number_set(t, what, from);
    }
    t->ops->copy(t->device, to.at, from, (size_t)to.n_bytes);
    return device_sync(t->device);
}

void trainer_keep_best(struct trainer *t)
{
    if (t->parameters.best != NULL) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->parameters.best, t->parameters.weights,
                     (size_t)t->program.n_weight * sizeof(float));
    }
    if (t->parameters.embeddings.best != NULL) {
        t->ops->move(t->device, DEVICE_LANE_COMPUTE, t->parameters.embeddings.best, t->parameters.embeddings.weights,
                     (size_t)t->plan.rows.n_embedding * sizeof(float));
    }
}

/* Features travel inside the encoded parts, which are counted as structure when they arrive. */
static int64_t features_in_parts(const struct trainer *t)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->own.n; i++) {
        const struct part *part = t->own.part[i].part;
        int64_t n_row = part->n_own + part->n_halo;
        int64_t n_value = part->features.n_value + part->features.n_halo_value + part->features.n_embedded;
        n += part->features.indptr != NULL ? (n_row + 1) * 8 + n_value * 8 : n_row * part->facts.n_feature * 4;
    }
    return n;
}

struct library_versions trainer_libraries(const struct trainer *t)
{
    struct library_versions used = t->device->capacity.libraries;
    used.of[LIBRARY_BLAS] = t->device->products == DEVICE_PRODUCTS_FP32 ? used.of[LIBRARY_BLAS] : LIBRARY_UNKNOWN;
    return used;
}

void trainer_memory(const struct trainer *t, struct memory_table *planned_out, struct memory_table *measured_out)
{
    enum memory_place computes = t->ops->unified ? MEMORY_PLACE_HOST : MEMORY_PLACE_DEVICE;
    memory_plan_table(&t->plan, planned_out);
    for (int place = 0; place < MEMORY_PLACE_N; place++) {
        for (int c = 0; c < MEMORY_N; c++) {
            measured_out->bytes[place][c] = memory_peak((enum memory_place)place, (enum memory_category)c);
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
    int64_t in_arena = t->plan.bytes[MEMORY_PAYLOADS] - t->plan.payloads.n_kept_bytes;
    arrays[MEMORY_PAYLOADS] += in_arena;
    arrays[MEMORY_ACTIVATIONS] -= in_arena;
}
