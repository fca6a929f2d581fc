#include "worker/run/links.h"

#include "protocol/base/fault.h"
#include "worker/rows/link_routes.h"
#include "worker/state/staging.h"

#include <stdlib.h>

/* Rows on their way in. */
struct link_slot {
    int handle; /* of the exchange */
    int64_t begin;
    void *rows;         /* on the device; where the transport writes them: staging_place */
    device_mark free;   /* when the transport may write there again */
    device_mark unread; /* when no operation reads them any more */
};

/* The pass at work. Places on the walk: part q at q and at n_part + q. */
struct pass {
    struct trainer *trainer;
    const struct step *step;
    struct link_ends ends;
    struct exchange_key key;
    int32_t n_part, width;
    int32_t next; /* the place up to which rows were asked for */
    int32_t n_begun, n_used;
    device_mark made;         /* when own rows are where they are sent from */
    device_mark drawn_unread; /* when no operation reads drawn pairs any more */
};

const struct link_draw *links_open(const struct own_parts *own, const struct job *job, struct trainer_links *out)
{
    const struct part *part = own_part(own, 0);
    if (!job_predicts_links(job) || own->setup.program->forward_only) {
        return NULL;
    }
    link_draw_open(&(struct link_draw_input){.n_part = part->n_part,
                                             .rows = part->link_rows,
                                             .n_link = part->n_link,
                                             .n_joined = part->n_joined,
                                             .negatives = job->task.negatives},
                   &out->draw);
    return &out->draw;
}

void links_begin(const struct own_parts *own, const struct memory_links *plan, struct trainer_links *links)
{
    const struct part_device_setup *setup = &own->setup;
    links->slot = memory_alloc((size_t)plan->n_slot, sizeof *links->slot);
    links->n_given = link_n_given(setup->rank_of_part, own->n_part, setup->rank, own->n_rank);
}

void links_close(struct trainer_links *links)
{
    link_draw_close(&links->draw);
    free(links->slot);
}

static float *rows_of(const struct pass *p, int32_t i)
{
    return trainer_operand(p->trainer, step_operand(p->step, OP_ROLE_IN_0), i);
}

/* Bytes of a part's rows; of own parts' rows before own part i's, as they are sent. */
static int64_t rows_bytes(const struct pass *p, int32_t q)
{
    const int64_t *begin = p->trainer->links.draw.begin;
    return (begin[q + 1] - begin[q]) * p->width * (int64_t)sizeof(float);
}

static int64_t sent_at(const struct pass *p, int32_t i)
{
    return memory_plan_row_begin(&p->trainer->plan, PROGRAM_HOP_ALL, i) * p->width * (int64_t)sizeof(float);
}

/* --- rows that leave --- */

static bool rows_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    const struct pass *p = arg;
    struct trainer *t = p->trainer;
    if (from >= (uint32_t)p->n_part || t->own.index[from] < 0 || to >= (uint32_t)p->n_part || at != 0) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER, "rows of part %u are asked for part %u, which worker %u does not have",
                                  from, to, t->setup.rank));
        return false;
    }
    if (!t->ops->passed(t->device, p->made)) {
        exchange_hurry(t->setup.exchange);
        return false;
    }
    int32_t i = t->own.index[from];
    size_t n_bytes = (size_t)rows_bytes(p, (int32_t)from);
    *out = (struct exchange_piece){
        .bytes = staging_place(t, sent_at(p, i), rows_of(p, i)), .n_bytes = n_bytes, .total = n_bytes};
    return true;
}

static void rows_serve(struct pass *p)
{
    struct trainer *t = p->trainer;
    p->made = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    for (int32_t i = 0; t->setup.n_rank > 1 && i < t->own.n; i++) {
        p->made = staging_out(t, sent_at(p, i), rows_of(p, i), rows_bytes(p, t->own.number[i]));
    }
    struct exchange_offer offer = {.arg = p, .pack = rows_pack};
    exchange_serve(t->setup.exchange, &p->key, &offer, t->links.n_given);
}

/* --- rows that come --- */

static bool is_taken(const struct pass *p, int32_t place)
{
    int32_t q = place % p->n_part;
    return p->trainer->own.index[q] < 0 && link_takes(&p->ends, q, place / p->n_part);
}

static struct link_slot *slot_of(const struct pass *p, int32_t n)
{
    return &p->trainer->links.slot[n % p->trainer->plan.links.n_slot];
}

static enum status fetch(struct pass *p, int32_t place)
{
    struct trainer *t = p->trainer;
    struct link_slot *s = slot_of(p, p->n_begun);
    int32_t q = place % p->n_part;
    struct exchange_key key = p->key;
    key.to = (uint32_t)link_taker(&p->ends, place / p->n_part);
    key.from = (uint32_t)q;
    enum status status = staging_writable(t, s->free, s->unread);
    if (status == STATUS_OK) {
        status = exchange_fetch(t->setup.exchange, t->setup.rank_of_part[q], &key,
                                staging_place(t, s->begin, s->rows), (size_t)rows_bytes(p, q), &s->handle);
    }
    FAULT(EXCHANGE);
    p->n_begun++;
    return status;
}

static enum status fetch_ahead(struct pass *p)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && p->n_begun < p->n_used + p->trainer->plan.links.n_slot && p->next < 2 * p->n_part) {
        status = is_taken(p, p->next) ? fetch(p, p->next) : STATUS_OK;
        p->next++;
    }
    return status;
}

static enum status rows_take(struct pass *p, int32_t place, const float **out)
{
    struct trainer *t = p->trainer;
    struct link_slot *s = slot_of(p, p->n_used);
    enum status status = exchange_wait(t->setup.exchange, s->handle);
    if (status == STATUS_OK) {
        s->free = staging_in(t, s->begin, s->rows, rows_bytes(p, place % p->n_part), s->unread);
        *out = s->rows;
    }
    return status;
}

static enum status rows_end(struct pass *p)
{
    struct trainer *t = p->trainer;
    slot_of(p, p->n_used)->unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    p->n_used++;
    return fetch_ahead(p);
}

static void slots_begin(struct pass *p)
{
    struct trainer *t = p->trainer;
    char *workspace = trainer_operand(t, step_operand(p->step, OP_ROLE_WORKSPACE), 0);
    int64_t sent = t->memory.staging != NULL ? t->plan.rows.n_row * p->width * (int64_t)sizeof(float) : 0;
    for (int32_t s = 0; s < t->plan.links.n_slot; s++) {
        int64_t at = s * t->plan.links.n_slot_bytes;
        t->links.slot[s] = (struct link_slot){.begin = sent + at,
                                              .rows = workspace + t->plan.loss_workspace.n_scratch + at,
                                              .free = t->ops->mark(t->device, DEVICE_LANE_IN),
                                              .unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE)};
    }
}

/* --- pairs --- */

/* What own part i's pairs with part q, whose rows are x, add to its loss and gradient: with an edge, then without. */
static enum status block_run(struct pass *p, int32_t i, int32_t q, const float *x)
{
    struct trainer *t = p->trainer;
    const struct part *part = own_part(&t->own, i);
    const struct part_device *device = &t->own.part[i];
    const struct link_draw *draw = &t->links.draw;
    const struct random_key key = {.seed = (uint64_t)t->setup.job->train.seed, .epoch = t->run.epoch};
    struct device_links how = {.n_row = part->n_own,
                               .f = p->width,
                               .indptr = part_device_view(device, part->link_indptr),
                               .places = part_device_view(device, part->link_places),
                               .first = (uint32_t)draw->begin[q],
                               .end = (uint32_t)draw->begin[q + 1],
                               .joined = true,
                               .weight = 1.0 / (double)part->n_link,
                               .own = rows_of(p, i),
                               .x = x,
                               .grad = trainer_operand(t, step_operand(p->step, OP_ROLE_GRAD_IN_0), i),
                               .scratch = trainer_operand(t, step_operand(p->step, OP_ROLE_WORKSPACE), i)};
    t->ops->link_loss(t->device, &how, trainer_sums(t, i));
    enum status status = t->ops->wait(t->device, p->drawn_unread);
    if (status != STATUS_OK) {
        return status;
    }
    const struct link_block drawn = link_draw_block(draw, &key, part, q, t->device, t->links.block);
    how.indptr = drawn.indptr;
    how.places = drawn.places;
    how.first = 0;
    how.end = (uint32_t)(draw->begin[q + 1] - draw->begin[q]);
    how.joined = false;
    how.weight = draw->n_kept > 0.0 ? 1.0 / draw->n_kept : 0.0; /* a graph may have all edges */
    t->ops->link_loss(t->device, &how, trainer_sums(t, i));
    p->drawn_unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    return exchange_progress(t->setup.exchange);
}

/* All own parts whose way around the circle comes to this place. */
static enum status place_run(struct pass *p, int32_t place)
{
    const struct own_parts *own = &p->trainer->own;
    int32_t q = place % p->n_part;
    const float *x = own->index[q] >= 0 ? rows_of(p, own->index[q]) : NULL;
    enum status status = STATUS_OK;
    if (x == NULL) {
        status = rows_take(p, place, &x);
    }
    for (int32_t i = 0; i < own->n && status == STATUS_OK; i++) {
        if (own->number[i] <= place && place < own->number[i] + p->n_part) {
            status = block_run(p, i, q, x);
        }
    }
    if (status != STATUS_OK || own->index[q] >= 0) {
        return status;
    }
    return rows_end(p);
}

enum status links_run(struct trainer *t, const struct step *step)
{
    struct pass p = {.trainer = t,
                     .step = step,
                     .ends = link_ends_of(t->setup.rank_of_part, t->setup.n_part, t->setup.rank),
                     .key = {.epoch = trainer_key_epoch(t),
                             .phase = EXCHANGE_PHASE_LINKS,
                             .op = (uint16_t)program_last_layer(&t->program)},
                     .n_part = t->setup.n_part,
                     .width = (int32_t)t->program.value[t->program.logits].width};
    for (int32_t i = 0; i < t->own.n; i++) {
        float *grad = trainer_operand(t, step_operand(step, OP_ROLE_GRAD_IN_0), i);
        t->ops->fill_zero(t->device, grad, (size_t)rows_bytes(&p, t->own.number[i]));
        t->ops->fill_zero(t->device, trainer_sums(t, i), sizeof(struct device_score));
    }
    slots_begin(&p);
    rows_serve(&p);
    enum status status = fetch_ahead(&p);
    for (int32_t place = 0; place < 2 * p.n_part && status == STATUS_OK; place++) {
        if (t->own.index[place % p.n_part] >= 0 || is_taken(&p, place)) {
            status = place_run(&p, place);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return exchange_settle(t->setup.exchange);
}
