/* What own part i's pairs with part q add to loss and gradient, from rows of both. */
#include "worker/pairs/pairs_ends.h"
#include "worker/run/link_decoder.h"
#include "worker/run/link_pass.h"

#include <math.h>
#include <string.h>

static void *memory_at(const struct link_pass *p, int64_t at)
{
    return p->trainer->links.block + at;
}

static struct pairs_item *items_of(const struct link_pass *p)
{
    return memory_at(p, p->trainer->plan.links.items_at);
}

static float *slopes_of(const struct link_pass *p, int32_t i)
{
    return (float *)memory_at(p, p->trainer->plan.links.slopes_at) + p->trainer->links.n_before[i];
}

/* The list of items, by the own part's rows; the last one's are read no more. */
static enum status list_make(struct link_pass *p, int32_t i, const struct pairs_item *items, int64_t n, bool by_other,
                             struct pairs_list *out)
{
    struct trainer *t = p->trainer;
    const int64_t n_row = own_part(&t->own, i)->n_own;
    *out = pairs_list_in(memory_at(p, t->plan.links.list_at), n_row, t->plan.links.n_item);
    enum status status = t->ops->wait(t->device, p->pairs_unread);
    if (status == STATUS_OK) {
        pairs_list_sort(items, n, by_other, n_row, out);
    }
    return status;
}

static struct link_pairs pairs_of(const struct link_pass *p, int32_t i, const struct pairs_list *list, const float *x)
{
    return (struct link_pairs){.step = p->step, .i = i, .list = list, .own = link_own_rows(p, i), .x = x};
}

static void pairs_end(struct link_pass *p)
{
    p->pairs_unread = p->trainer->ops->mark(p->trainer->device, DEVICE_LANE_COMPUTE);
}

/* --- uniform pairs --- */

/* Dot products: score, loss and gradient in one operation. */
static void dots_run(const struct link_pass *p, int32_t i, struct device_links *how)
{
    struct trainer *t = p->trainer;
    how->n_row = own_part(&t->own, i)->n_own;
    how->f = p->width;
    how->own = link_own_rows(p, i);
    how->grad = trainer_operand(t, step_operand(p->step, OP_ROLE_GRAD_IN_0), i);
    how->scratch = trainer_operand(t, step_operand(p->step, OP_ROLE_WORKSPACE), i);
    t->ops->link_loss(t->device, how, trainer_sums(t, i));
}

static double weight_of_drawn(const struct pairs_draw *draw)
{
    return draw->n_kept > 0.0 ? 1.0 / draw->n_kept : 0.0; /* a graph may have all edges */
}

static enum status dots_block(struct link_pass *p, int32_t i, int32_t q, const float *x)
{
    struct trainer *t = p->trainer;
    const struct part *part = own_part(&t->own, i);
    const struct part_device *device = &t->own.part[i];
    const struct pairs_draw *draw = &t->links.draw;
    struct device_links edges = {.indptr = part_device_view(device, part->links.indptr),
                                 .places = part_device_view(device, part->links.places),
                                 .first = (uint32_t)draw->begin[q],
                                 .end = (uint32_t)draw->begin[q + 1],
                                 .joined = true,
                                 .weight = 1.0 / (double)part->links.n,
                                 .x = x};
    dots_run(p, i, &edges);
    enum status status = t->ops->wait(t->device, p->pairs_unread);
    if (status != STATUS_OK) {
        return status;
    }
    const struct pairs_block drawn = pairs_draw_block(draw, &p->drawn, part, q, t->device,
                                                      memory_at(p, t->plan.links.drawn_at));
    struct device_links others = {.indptr = drawn.indptr,
                                  .places = drawn.places,
                                  .end = (uint32_t)pairs_part_rows(draw, q),
                                  .weight = weight_of_drawn(draw),
                                  .x = x};
    dots_run(p, i, &others);
    pairs_end(p);
    return STATUS_OK;
}

/* Gradients of listed items, and the half of their losses that counts at this end. */
static enum status items_run(struct link_pass *p, int32_t i, int64_t n, const float *x, bool are_edges, double weight)
{
    struct trainer *t = p->trainer;
    struct pairs_list list;
    enum status status = list_make(p, i, items_of(p), n, false, &list);
    if (status == STATUS_OK) {
        const struct link_pairs pairs = pairs_of(p, i, &list, x);
        const struct device_pair_losses losses = {.loss = DEVICE_PAIR_LOSS_BCE,
                                                  .n_negative = are_edges ? 0 : 1,
                                                  .has_edge = are_edges,
                                                  .weight = weight,
                                                  .share = 0.5};
        link_decoder_train(t, &pairs, &losses);
        pairs_end(p);
    }
    return status;
}

/* A text, which takes pairs by the batch. */
static enum status lists_block(struct link_pass *p, int32_t i, int32_t q, const float *x)
{
    struct trainer *t = p->trainer;
    const struct part *part = own_part(&t->own, i);
    const struct pairs_draw *draw = &t->links.draw;
    enum status status = items_run(p, i, pairs_ends_edges(draw, part, q, items_of(p)), x, true,
                                   1.0 / (double)part->links.n);
    if (status != STATUS_OK) {
        return status;
    }
    const struct pairs_block drawn = pairs_draw_block(draw, &p->drawn, part, q, t->device,
                                                      memory_at(p, t->plan.links.drawn_at));
    return items_run(p, i, pairs_draw_items(draw, &drawn, part, q, items_of(p)), x, false, weight_of_drawn(draw));
}

enum status link_block_uniform(struct link_pass *p, int32_t i, int32_t q, const float *x)
{
    return p->trainer->program.scorer == NULL ? dots_block(p, i, q, x) : lists_block(p, i, q, x);
}

/* --- groups of edges' ends --- */

/* No operation reads the slopes of a walk before any more. */
enum status link_groups_begin(struct link_pass *p)
{
    struct trainer *t = p->trainer;
    enum status status = t->ops->wait(t->device, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
    for (int32_t i = 0; i < t->own.n && status == STATUS_OK; i++) {
        int64_t n = t->links.draw.n_end[t->own.number[i]] * (1 + t->links.draw.negatives);
        memset(slopes_of(p, i), 0, (size_t)n * sizeof(float));
    }
    return status;
}

enum status link_block_scores(struct link_pass *p, int32_t i, int32_t q, const float *x)
{
    struct trainer *t = p->trainer;
    struct pairs_item *items = items_of(p);
    float *score = slopes_of(p, i);
    struct pairs_list list;
    int64_t n = pairs_ends_block(&t->links.draw, &p->drawn, own_part(&t->own, i), q, t->device, items);
    for (int64_t k = 0; k < n; k++) {
        if (items[k].other == PAIRS_LEFT_OUT) {
            score[items[k].number] = -INFINITY;
        }
    }
    enum status status = list_make(p, i, items, n, false, &list);
    if (status == STATUS_OK) {
        struct link_pairs pairs = pairs_of(p, i, &list, x);
        pairs.numbered = true;
        link_decoder_scores(t, &pairs, score);
        pairs_end(p);
    }
    return status;
}

static enum device_pair_loss loss_of(const struct job *job)
{
    return job->train.loss == JOB_LOSS_MARGIN          ? DEVICE_PAIR_LOSS_MARGIN
           : job->train.loss == JOB_LOSS_CROSS_ENTROPY ? DEVICE_PAIR_LOSS_CROSS_ENTROPY
                                                       : DEVICE_PAIR_LOSS_BCE;
}

enum status link_groups_slopes(struct link_pass *p)
{
    struct trainer *t = p->trainer;
    for (int32_t i = 0; i < t->own.n; i++) {
        const struct device_pair_losses losses = {
            .loss = loss_of(t->setup.job),
            .n_group = t->links.draw.n_end[t->own.number[i]],
            .n_negative = t->links.draw.negatives,
            .has_edge = true,
            .weight = 0.5 / (double)own_part(&t->own, i)->links.n,
            .share = 1.0,
            .margin = (float)t->setup.job->task.margin,
            .score = slopes_of(p, i),
            .scratch = trainer_operand(t, step_operand(p->step, OP_ROLE_WORKSPACE), i)};
        t->ops->pair_losses(t->device, &losses, trainer_sums(t, i));
    }
    return t->ops->wait(t->device, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
}

static enum status own_gradients(struct link_pass *p, int32_t i, int32_t q, const float *x)
{
    struct trainer *t = p->trainer;
    struct pairs_list list;
    int64_t n = pairs_ends_block(&t->links.draw, &p->drawn, own_part(&t->own, i), q, t->device, items_of(p));
    enum status status = list_make(p, i, items_of(p), n, false, &list);
    if (status == STATUS_OK) {
        struct link_pairs pairs = pairs_of(p, i, &list, x);
        pairs.numbered = true;
        link_decoder_gradients(t, &pairs, slopes_of(p, i));
        pairs_end(p);
    }
    return status;
}

enum status link_block_gradients(struct link_pass *p, struct link_place at, const float *x)
{
    struct pairs_item *items;
    struct pairs_list list;
    int64_t n;
    enum status status = own_gradients(p, at.i, link_part_at(p, at.place), x);
    if (status == STATUS_OK) {
        status = link_sent_take(p, at, &items, &n);
    }
    if (status == STATUS_OK) {
        status = list_make(p, at.i, items, n, true, &list);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct link_pairs pairs = pairs_of(p, at.i, &list, x);
    link_decoder_gradients(p->trainer, &pairs, list.slopes);
    pairs_end(p);
    return link_sent_ahead(p);
}
