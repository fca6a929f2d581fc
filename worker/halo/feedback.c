#include "worker/halo/feedback.h"

#include "protocol/base/log.h"
#include "worker/route/sample.h"

#include <stdlib.h>

/* Residuals of one kind of rows, own part after own part: in floats from the beginning. */
struct feedback_places {
    int64_t *part; /* n_own + 1 */
    int64_t next,
        n_next_float; /* of the next epoch's: likewise own part after own part; none of gradients that return */
};

struct feedback {
    const struct feedback_list *list;
    struct feedback_places *places; /* by rows of the list */
    float *residual;
    size_t n_bytes;
};

static float *residual_at(const struct feedback *feedback, int p, int32_t i)
{
    return feedback->residual + feedback->places[p].part[i];
}

/* Where the next epoch's residuals are made. */
static float *next_at(const struct feedback *feedback, int p, int32_t i)
{
    const struct feedback_places *places = &feedback->places[p];
    return places->n_next_float > 0 ? feedback->residual + places->next + places->part[i] - places->part[0]
                                    : residual_at(feedback, p, i);
}

/* --- opening and closing --- */

static int64_t places_lay_out(const struct trainer *t, struct feedback *feedback)
{
    int64_t at = 0;
    for (int p = 0; p < feedback->list->n; p++) {
        struct feedback_places *places = &feedback->places[p];
        places->part = memory_alloc((size_t)t->own.n + 1, sizeof *places->part);
        for (int32_t i = 0; i < t->own.n; i++) {
            const struct part_halo *own = &t->own.part[i].part->halo;
            places->part[i] = at;
            at += feedback_floats(&feedback->list->rows[p], own);
            places->n_next_float += feedback_floats_next(&feedback->list->rows[p], own);
        }
        places->part[t->own.n] = places->next = at;
        at += places->n_next_float;
    }
    return at;
}

enum status feedback_open(struct trainer *t)
{
    if (!t->program.lossy.feedback) {
        return STATUS_OK;
    }
    struct feedback *feedback = t->routes.feedback = memory_alloc(1, sizeof *feedback);
    feedback->list = &t->plan.payloads.feedback;
    feedback->places = memory_alloc((size_t)feedback->list->n, sizeof *feedback->places);
    size_t n_bytes = (size_t)places_lay_out(t, feedback) * sizeof(float);
    ASSERT((int64_t)n_bytes == t->plan.payloads.n_kept_bytes);
    enum status status = t->ops->acquire(t->device, DEVICE_PLACE_DEVICE, MEMORY_PAYLOADS, n_bytes,
                                         &feedback->residual);
    feedback->n_bytes = status == STATUS_OK ? n_bytes : 0;
    return status;
}

void feedback_close(struct trainer *t)
{
    struct feedback *feedback = t->routes.feedback;
    if (feedback == NULL) {
        return;
    }
    if (feedback->n_bytes > 0) {
        t->ops->release(t->device, DEVICE_PLACE_DEVICE, MEMORY_PAYLOADS, feedback->residual, feedback->n_bytes);
    }
    for (int p = 0; p < feedback->list->n; p++) {
        free(feedback->places[p].part);
    }
    free(feedback->places);
    free(feedback);
    t->routes.feedback = NULL;
}

/* --- a pass --- */

void feedback_rows(const struct halo *h, enum halo_direction direction, int p, int32_t i, struct device_coding *how)
{
    const struct feedback *feedback = h->trainer->routes.feedback;
    int rows = feedback_list_find(feedback->list, h->step->op, direction, p);
    ASSERT(rows >= 0);
    how->factor = 1.0F;
    how->residual = residual_at(feedback, rows, i);
    how->residual_out = next_at(feedback, rows, i);
}

void feedback_gradients(const struct halo *h, int p, int32_t i, int32_t k, struct device_coding *how)
{
    const struct trainer *t = h->trainer;
    int rows = feedback_list_find(t->routes.feedback->list, h->step->op, HALO_DIRECTION_RETURN, p);
    ASSERT(rows >= 0);
    const struct part_rows made = halo_rows_out(h->owners.own[i], HALO_DIRECTION_RETURN, h->hop.travelling);
    int64_t n_before = 0;
    for (int32_t pair = 0; pair < k; pair++) {
        n_before += part_rows_at(&made, pair);
    }
    how->residual = how->residual_out = residual_at(t->routes.feedback, rows, i) + n_before * how->f;
    how->residual_rows = h->sample != NULL ? sample_received(h->sample, i, k) : NULL;
}

void feedback_weigh(const struct halo *h, int64_t n_row, int64_t width, float *rows)
{
    const struct trainer *t = h->trainer;
    if (h->sample == NULL || h->pass->direction != HALO_DIRECTION_IN) { /* gradients are multiplied elsewhere */
        return;
    }
    const float factor = halo_factor(h);
    if (factor != 1.0F) {
        t->ops->axpby(t->device, n_row * width, factor, NULL, rows, 0.0F, NULL, rows);
    }
}

void feedback_settle(struct trainer *t, const struct level *level)
{
    const struct feedback *feedback = t->routes.feedback;
    for (int p = 0; p < feedback->list->n; p++) {
        const struct feedback_rows *rows = &feedback->list->rows[p];
        const struct feedback_places *places = &feedback->places[p];
        int64_t begin = places->part[0], n_float = places->next + places->n_next_float - begin;
        if (n_float == 0) {
            continue;
        }
        if (halo_codec(&t->program, &t->program.op[rows->op], rows->role, level) == DEVICE_CODEC_FP32) {
            t->ops->fill_zero(t->device, feedback->residual + begin, (size_t)n_float * sizeof(float));
        } else if (places->n_next_float > 0) {
            t->ops->move(t->device, DEVICE_LANE_COMPUTE, feedback->residual + begin,
                         feedback->residual + places->next, (size_t)places->n_next_float * sizeof(float));
        }
    }
}

/* --- state --- */

/* Floats of own part i. */
static int64_t n_float_of(const struct feedback_places *places, int32_t i)
{
    return places->part[i + 1] - places->part[i];
}

enum status feedback_get(struct trainer *t, int32_t i, float *to)
{
    const struct feedback *feedback = t->routes.feedback;
    for (int p = 0; p < feedback->list->n; p++) {
        int64_t n = n_float_of(&feedback->places[p], i);
        if (n > 0) {
            t->ops->copy(t->device, to, residual_at(feedback, p, i), (size_t)n * sizeof *to);
        }
        to += n;
    }
    return device_sync(t->device);
}

enum status feedback_set(struct trainer *t, int32_t i, const float *from)
{
    const struct feedback *feedback = t->routes.feedback;
    for (int p = 0; p < feedback->list->n; p++) {
        int64_t n = n_float_of(&feedback->places[p], i);
        if (n > 0) {
            t->ops->copy(t->device, residual_at(feedback, p, i), from, (size_t)n * sizeof *from);
            t->ops->move(t->device, DEVICE_LANE_COMPUTE, next_at(feedback, p, i), residual_at(feedback, p, i),
                         (size_t)n * sizeof *from);
        }
        from += n;
    }
    return device_sync(t->device);
}
