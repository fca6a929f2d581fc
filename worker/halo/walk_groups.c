/* The walk over blocks where all parts are here and lie in the spill: as many own parts together as there is memory
 * for, while the parts whose rows they read come by around the circle of parts. So rows are read once for each group
 * of parts instead of once for each part, and each part has the order of blocks that it has alone.
 */
#include "protocol/base/amounts.h"
#include "worker/halo/source.h"
#include "worker/state/pin.h"

bool halo_groups(const struct halo *h)
{
    const struct trainer *t = h->trainer;
    return t->routes.payloads != NULL && t->setup.n_rank == 1 && !h->step->stored && !h->step->lossy &&
           h->pass->direction != HALO_DIRECTION_RETURN && !aggregate_defs[h->op->aggregate]->sums_in_workspace;
}

/* The block of own part i with own part j; its pair is -1 where they share no edge. */
static struct pin block_pin(const struct halo *h, int32_t i, int32_t j)
{
    struct pin pin = pin_open(h->trainer, h->step, PIN_USE_BLOCK);
    pin.part = i;
    pin.pair = part_pair_find(halo_rows_received(h, i).pairs, j);
    return pin;
}

/* Own parts of a group, groups being alike: what they are made of, the rows of a part and of the next one, a
 * block of each beside one on the diagonal, a payload and the pass's workspace are in memory. */
static int32_t group_size(const struct halo *h)
{
    struct trainer *t = h->trainer;
    const struct pin to = pin_open(t, h->step, PIN_USE_TAKING), from = pin_open(t, h->step, PIN_USE_PACKING),
                     around = pin_open(t, h->step, PIN_USE_AROUND);
    int64_t most_to = 1, most_from = 0, most_own = 0, most_block = 0, n = t->own.n;
    for (int32_t i = 0; i < t->own.n; i++) {
        most_to = larger(most_to, pin_bytes(&to, i));
        most_from = larger(most_from, pin_bytes(&from, i));
        for (int32_t j = 0; j < t->own.n; j++) {
            const struct pin block = block_pin(h, i, j);
            int64_t *most = i == j ? &most_own : &most_block;
            *most = larger(*most, block.pair >= 0 ? pin_bytes(&block, i) : 0);
        }
    }
    int64_t left = t->plan.bytes[MEMORY_SPILL] - 2 * most_from - pin_bytes(&around, 0) -
                   spill_pinned_bytes(source_gathered_place(h).n_bytes) - most_own;
    most_to += most_block;
    int64_t size = larger(1, smaller(n, left / most_to)), n_group = (n + size - 1) / size;
    return (int32_t)((n + n_group - 1) / n_group);
}

/* A group of own parts around the circle: part i walks from `at` = i, once around. */
struct group {
    int32_t first, end, n_part;
};

/* The own parts that walk the part that comes by. */
static struct group group_at(const struct group *g, int32_t at)
{
    int32_t before = at - g->n_part + 1;
    return (struct group){.first = before > g->first ? before : g->first, .end = at < g->end ? at + 1 : g->end};
}

/* Does some part of the group take rows of the part that comes by? */
static bool group_takes(const struct halo *h, const struct group *g, int32_t at)
{
    const struct group now = group_at(g, at);
    bool takes = at < g->end; /* its own */
    for (int32_t i = now.first; i < now.end && !takes; i++) {
        const struct part_rows received = halo_rows_received(h, i);
        int32_t k = part_pair_find(received.pairs, at % h->trainer->own.n);
        takes = k >= 0 && part_rows_at(&received, k) > 0;
    }
    return takes;
}

static int32_t group_last(const struct group *g)
{
    return g->end + g->n_part - 2;
}

int64_t halo_group_rows(const struct halo *h)
{
    const struct trainer *t = h->trainer;
    int32_t size = group_size(h);
    int64_t n_row = 0;
    for (struct group g = {.end = size, .n_part = t->own.n}; g.first < t->own.n; g.first += size, g.end += size) {
        g.end = g.end < t->own.n ? g.end : t->own.n;
        for (int32_t at = g.first; at <= group_last(&g); at++) {
            n_row += group_takes(h, &g, at) ? trainer_rows(t, h->hop.travelling, at % t->own.n) : 0;
        }
    }
    return n_row;
}

/* The blocks that read the rows of the part that comes by. */
static enum status group_step(struct halo *h, const struct group *g, int32_t at)
{
    struct trainer *t = h->trainer;
    const struct group now = group_at(g, at);
    struct pin from = pin_open(t, h->step, PIN_USE_PACKING);
    int32_t j = at % t->own.n;
    enum status status = pin_begin(&from, j);
    if (status == STATUS_OK && at < group_last(g) && group_takes(h, g, at + 1)) {
        pin_prefetch(&from, (at + 1) % t->own.n);
    }
    for (int32_t i = now.first; i < now.end && status == STATUS_OK; i++) {
        struct pin block = block_pin(h, i, j), ahead = block_pin(h, i, (at + 1) % t->own.n);
        status = block.pair >= 0 ? pin_begin(&block, i) : STATUS_OK;
        if (status == STATUS_OK) {
            if (ahead.pair >= 0) {
                pin_prefetch(&ahead, i);
            }
            status = halo_walk_part(h, i, at);
        }
        pin_end(&block);
    }
    pin_end(&from);
    if (at >= g->end - 1) { /* those before come by a second time */
        pin_leave(&from, j);
    }
    return status;
}

static enum status group_walk(struct halo *h, const struct group *g)
{
    struct pin to = pin_open(h->trainer, h->step, PIN_USE_TAKING);
    enum status status = STATUS_OK;
    for (int32_t at = g->first; at <= group_last(g) && status == STATUS_OK; at++) {
        int32_t done = at - h->trainer->own.n + 1;
        status = at < g->end ? pin_begin(&to, at) : STATUS_OK;
        if (status == STATUS_OK && at + 1 < g->end) {
            pin_prefetch(&to, at + 1);
        }
        if (status == STATUS_OK && group_takes(h, g, at)) {
            status = group_step(h, g, at);
        }
        if (status == STATUS_OK && done >= g->first) {
            to.part = done;
            to.is_pinned = true;
            pin_end(&to);
        }
    }
    return status;
}

enum status halo_group_walk(struct halo *h)
{
    const struct trainer *t = h->trainer;
    const struct spill_range place = source_gathered_place(h);
    int32_t size = group_size(h);
    enum status status = spill_pin(t->setup.spill, &place, 1);
    halo_walk_begin(h);
    for (struct group g = {.end = size, .n_part = t->own.n}; g.first < t->own.n && status == STATUS_OK;
         g.first += size, g.end += size) {
        g.end = g.end < t->own.n ? g.end : t->own.n;
        status = group_walk(h, &g);
    }
    spill_unpin(t->setup.spill, &place, 1);
    spill_discard(t->setup.spill, place.at, place.n_bytes);
    return status;
}
