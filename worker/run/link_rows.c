/* Rows of parts for pairs of nodes: own ones leave whole, others' come one part after the other. */
#include "protocol/base/fault.h"
#include "worker/run/link_pass.h"

/* Bytes of a part's rows; own part i's, as they are sent behind those of the own parts before. */
static int64_t rows_bytes(const struct link_pass *p, int32_t q)
{
    return pairs_part_rows(&p->trainer->links.draw, q) * p->width * (int64_t)sizeof(float);
}

static struct staged sent(const struct link_pass *p, int32_t i, uint32_t peer)
{
    int64_t begin = memory_plan_row_begin(&p->trainer->plan, PROGRAM_HOP_ALL, i);
    return (struct staged){.peer = peer,
                           .at = begin * p->width * (int64_t)sizeof(float),
                           .device = link_own_rows(p, i),
                           .n_bytes = rows_bytes(p, p->trainer->own.number[i])};
}

/* --- rows that leave --- */

static bool refuse(const struct link_pass *p, uint32_t to, uint32_t from)
{
    exchange_fail(p->trainer->setup.exchange,
                  status_fail(STATUS_PEER, "rows of part %u are asked for part %u, which worker %u does not have",
                              from, to, p->trainer->setup.rank));
    return false;
}

/* From n_part on, `from` counts parts that send pairs. */
static bool rows_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    struct link_pass *p = arg;
    struct trainer *t = p->trainer;
    const uint32_t n_part = (uint32_t)p->n_part, part = from % n_part;
    if (from >= (p->sends_pairs ? 2 : 1) * n_part || t->own.index[part] < 0 || to >= n_part ||
        t->own.index[to] >= 0 || at != 0) {
        return refuse(p, to, from);
    }
    const int32_t i = t->own.index[part];
    if (from >= n_part) {
        return link_sent_pack(p, i, (int32_t)to, out);
    }
    if (!t->ops->passed(t->device, p->made)) {
        exchange_hurry(t->setup.exchange);
        return false;
    }
    const struct staged rows = sent(p, i, t->setup.rank_of_part[to]);
    const size_t n_bytes = (size_t)rows.n_bytes;
    *out = (struct exchange_piece){.bytes = staging_place(t, &rows), .n_bytes = n_bytes, .total = n_bytes};
    return true;
}

static void piece_sent(void *arg, const void *bytes)
{
    struct trainer *t = ((struct link_pass *)arg)->trainer;
    if (bytes == t->links.block + t->plan.links.sent_at) {
        t->links.sending = false;
    }
}

static void rows_serve(struct link_pass *p)
{
    struct trainer *t = p->trainer;
    p->made = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    for (int32_t i = 0; t->setup.n_rank > 1 && i < t->own.n; i++) {
        const struct staged rows = sent(p, i, PEERS_ALL);
        p->made = staging_out(t, &rows);
    }
    const struct exchange_offer offer = {.arg = p, .pack = rows_pack, .sent = piece_sent};
    const int n_sent = p->sends_pairs ? t->own.n * (p->n_part - t->own.n) : 0;
    exchange_serve(t->setup.exchange, &p->key, &offer, t->links.n_given + n_sent);
}

/* --- rows that come --- */

static struct link_slot *slot_of(const struct link_pass *p, int32_t n)
{
    return &p->trainer->links.slot[n % p->trainer->plan.links.n_slot];
}

static enum status fetch(struct link_pass *p, int32_t place)
{
    struct trainer *t = p->trainer;
    struct link_slot *s = slot_of(p, p->n_begun);
    int32_t q = link_part_at(p, place);
    struct exchange_key key = p->key;
    key.to = (uint32_t)pairs_receiver(&p->ends, place / p->n_part);
    key.from = (uint32_t)q;
    s->rows.peer = t->setup.rank_of_part[q];
    s->rows.n_bytes = rows_bytes(p, q);
    enum status status = staging_fetch(t, &s->rows, &key, &s->handle);
    FAULT(EXCHANGE);
    p->n_begun++;
    return status;
}

static enum status fetch_ahead(struct link_pass *p)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && p->n_begun < p->n_used + p->trainer->plan.links.n_slot && p->next < 2 * p->n_part) {
        status = link_is_received(p, p->next) ? fetch(p, p->next) : STATUS_OK;
        p->next++;
    }
    return status;
}

static void slots_begin(struct link_pass *p)
{
    struct trainer *t = p->trainer;
    char *workspace = trainer_operand(t, step_operand(p->step, OP_ROLE_WORKSPACE), 0);
    int64_t begin = t->memory.staging != NULL ? t->plan.rows.n_row * p->width * (int64_t)sizeof(float) : 0;
    for (int32_t s = 0; s < t->plan.links.n_slot; s++) {
        int64_t at = s * t->plan.links.n_slot_bytes;
        t->links.slot[s].rows = (struct staged){.at = begin + at,
                                                .device = workspace + t->plan.loss_workspace.n_scratch + at,
                                                .free = t->ops->mark(t->device, DEVICE_LANE_IN),
                                                .unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE)};
    }
}

enum status link_rows_begin(struct link_pass *p)
{
    slots_begin(p);
    rows_serve(p);
    return fetch_ahead(p);
}

enum status link_rows_take(struct link_pass *p, const float **out)
{
    struct trainer *t = p->trainer;
    struct link_slot *s = slot_of(p, p->n_used);
    enum status status = exchange_wait(t->setup.exchange, s->handle);
    if (status == STATUS_OK) {
        staging_in(t, &s->rows);
        *out = s->rows.device;
    }
    return status;
}

enum status link_rows_end(struct link_pass *p)
{
    struct trainer *t = p->trainer;
    slot_of(p, p->n_used)->rows.unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    p->n_used++;
    return fetch_ahead(p);
}
