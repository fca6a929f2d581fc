/* What parts send each other of their groups' pairs: the other end's row, and the slope of the score. */
#include "protocol/base/clock.h"
#include "worker/pairs/pairs_ends.h"
#include "worker/run/link_pass.h"

/* How many pairs one part sends another: n_between edges, and as many drawn pairs as there may be. */
static int64_t n_sent(const struct link_pass *p, int64_t n_between, int32_t from, int32_t to)
{
    return memory_plan_sent(&p->trainer->links.draw, n_between, from, to);
}

static int64_t between(const struct link_pass *p, int32_t i, int32_t q)
{
    return p->trainer->links.between[(int64_t)i * p->n_part + q];
}

/* Own part i's pairs with part q, and behind them as many that are left out as make the number known to both. */
static int64_t items_make(const struct link_pass *p, int32_t i, int32_t q, struct pairs_item *out)
{
    struct trainer *t = p->trainer;
    const float *slope = (const float *)(const void *)(t->links.block + t->plan.links.slopes_at) +
                         t->links.n_before[i];
    int64_t n = pairs_ends_block(&t->links.draw, &p->drawn, own_part(&t->own, i), q, t->device, out),
            n_all = n_sent(p, between(p, i, q), t->own.number[i], q);
    for (int64_t k = 0; k < n; k++) {
        out[k].slope = out[k].other != PAIRS_LEFT_OUT ? slope[out[k].number] : 0.0f;
    }
    for (int64_t k = n; k < n_all; k++) {
        out[k] = (struct pairs_item){.other = PAIRS_LEFT_OUT};
    }
    return n_all;
}

bool link_sent_pack(struct link_pass *p, int32_t i, int32_t to, struct exchange_piece *out)
{
    struct trainer *t = p->trainer;
    struct pairs_item *items = (struct pairs_item *)(void *)(t->links.block + t->plan.links.sent_at);
    if (t->links.sending) {
        return false;
    }
    double begin_s = clock_s();
    size_t n_bytes = (size_t)items_make(p, i, to, items) * sizeof *items;
    exchange_packed(t->setup.exchange, begin_s);
    t->links.sending = true;
    *out = (struct exchange_piece){.bytes = items, .n_bytes = n_bytes, .total = n_bytes};
    return true;
}

/* --- what others send --- */

static struct pairs_item *received_at(const struct link_pass *p, int32_t n)
{
    const struct memory_links *plan = &p->trainer->plan.links;
    return (struct pairs_item *)(void *)(p->trainer->links.block + plan->come_at +
                                         n % MEMORY_LINKS_COME * plan->n_come_bytes);
}

static enum status fetch(struct link_pass *p, struct link_place at)
{
    struct trainer *t = p->trainer;
    const int32_t q = link_part_at(p, at.place), n = p->n_sent_begun++;
    struct exchange_key key = p->key;
    key.to = (uint32_t)t->own.number[at.i];
    key.from = (uint32_t)(p->n_part + q);
    int64_t n_item = n_sent(p, between(p, at.i, q), q, t->own.number[at.i]);
    return exchange_fetch(t->setup.exchange, t->setup.rank_of_part[q], &key, received_at(p, n),
                          (size_t)n_item * sizeof(struct pairs_item), &p->sent_handle[n % MEMORY_LINKS_COME]);
}

enum status link_sent_ahead(struct link_pass *p)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && p->n_sent_begun < p->n_sent_used + MEMORY_LINKS_COME &&
           p->next_sent.place < 2 * p->n_part) {
        if (link_is_received(p, p->next_sent.place) && link_comes_to(p, p->next_sent.i, p->next_sent.place)) {
            status = fetch(p, p->next_sent);
        }
        p->next_sent.i++;
        if (p->next_sent.i == p->trainer->own.n) {
            p->next_sent = (struct link_place){.place = p->next_sent.place + 1};
        }
    }
    return status;
}

/* Rows that there are, and relations. */
static enum status items_check(const struct link_pass *p, struct link_place at, const struct pairs_item *item,
                               int64_t n)
{
    const struct trainer *t = p->trainer;
    const struct part *own = own_part(&t->own, at.i);
    const int32_t q = link_part_at(p, at.place);
    const int64_t n_row = own->links.rows[q],
                  n_relation = own->facts.n_relation_given > 0 ? own->facts.n_relation_given : 1;
    for (int64_t k = 0; k < n; k++) {
        bool is_there = item[k].other != PAIRS_LEFT_OUT;
        if (is_there &&
            (item[k].other >= own->n_own || item[k].row >= n_row || pairs_relation(item[k].type) >= n_relation)) {
            return status_fail(STATUS_PEER,
                               "worker %u sends part %d a pair of rows %u and %u of relation %u, expected rows of "
                               "parts %d and %d, and relations of the job",
                               t->setup.rank_of_part[q], own->part, item[k].row, item[k].other,
                               pairs_relation(item[k].type), q, own->part);
        }
    }
    return STATUS_OK;
}

enum status link_sent_take(struct link_pass *p, struct link_place at, struct pairs_item **out, int64_t *n_out)
{
    struct trainer *t = p->trainer;
    const int32_t q = link_part_at(p, at.place), other = t->own.index[q];
    if (other >= 0) {
        *out = (struct pairs_item *)(void *)(t->links.block + t->plan.links.items_at);
        *n_out = items_make(p, other, t->own.number[at.i], *out);
        return STATUS_OK;
    }
    const int32_t n = p->n_sent_used++;
    *out = received_at(p, n);
    *n_out = n_sent(p, between(p, at.i, q), q, t->own.number[at.i]);
    enum status status = exchange_wait(t->setup.exchange, p->sent_handle[n % MEMORY_LINKS_COME]);
    if (status != STATUS_OK) {
        return status;
    }
    return items_check(p, at, *out, *n_out);
}
