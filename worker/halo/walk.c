/* The walk over blocks: part after part, or where rows are deduplicated all own parts together around the circle of
 * parts. */
#include "models/steps/epilogue.h"
#include "worker/halo/source.h"
#include "worker/state/pin.h"

/* What the other part's rows add to the own one. */
static enum status block_run(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct payload_source *source = pair->i == pair->j ? h->source.own
                                          : pair->j >= 0     ? h->source.local
                                                             : h->source.remote;
    enum status status = source->take(h, pair, call);
    if (status == STATUS_OK) {
        bool makes = h->step->stored && h->pass->direction == HALO_DIRECTION_RETURN &&
                     pair->i != pair->j; /* gradients of halo rows */
        (makes ? h->pass->pack : h->pass->run)(call);
        status = source->done != NULL ? source->done(h, pair) : STATUS_OK;
    }
    return status == STATUS_OK ? exchange_progress(h->trainer->setup.exchange) : status;
}

/* Are implied loops among the edges of the blocks? Then a row is not added to itself beside them. */
static bool loops_picked(const struct halo *h)
{
    bool out = h->pass->direction == HALO_DIRECTION_OUT || h->pass->transposed;
    return out && h->hop.blocks < h->trainer->own.part[0].part->n_hop;
}

/* The pair that is s further than the diagonal, around. */
static int32_t pair_after(const struct part_pairs *pairs, int32_t s)
{
    int32_t k = pairs->own + s;
    return k < pairs->n_pair ? k : k - pairs->n_pair;
}

/* Does own part i walk the block that is s further than its own? Where covers are of a hop's edges, not if it has
 * none of these: then nothing comes for it. */
static bool walks_block(const struct halo *h, int32_t i, const struct part_rows *received, int32_t s)
{
    const struct part_device *part = &h->trainer->own.part[i];
    int32_t k = pair_after(received->pairs, s);
    bool by_edges = part->part->covered && !h->step->stored && h->hop.blocks < part->part->n_hop;
    return s == 0 || (part_rows_at(received, k) > 0 &&
                      (!by_edges || part_device_has_edges(part, halo_edges(h->pass->direction), h->hop.blocks, k)));
}

/* Of the blocks that a part walks, the one that comes last, counted from its own. */
static int32_t last_block(const struct halo *h, int32_t i, const struct part_rows *received)
{
    int32_t last = received->pairs->n_pair - 1;
    while (!walks_block(h, i, received, last)) {
        last--;
    }
    return last;
}

/* Everything about own part i that no block changes. */
struct op_call halo_call_begin(const struct halo *h, int32_t i)
{
    const struct trainer *t = h->trainer;
    struct op_call call = trainer_call(t, h->step, i);
    call.n = trainer_rows(t, h->hop.rows, i);
    call.pass.to = h->step->backward ? call.grad_in[0] : call.out;
    call.pass.self = t->own.part[i].part->facts.loops == GRAPH_LOOPS_IMPLICIT && !loops_picked(h);
    for (int k = 0; k < HALO_N_PIECE; k++) {
        call.pass.own[k] = halo_own_rows(h, k, i);
    }
    call.pass.epilogue = epilogue_make(h->step, &call);
    return call;
}

/* The block that is s further than own part i's diagonal. */
static enum status block_walk(struct halo *h, int32_t i, const struct part_rows *received, int32_t s, int32_t last)
{
    const struct halo_pair pair = halo_pair(h, i, pair_after(received->pairs, s));
    struct op_call call = halo_call_begin(h, i);
    call.pass.order.first = s == 0;
    call.pass.order.last = s == last;
    call.pass.order.only = last == 0;
    call.pass.back.factor = halo_factor(h);
    call.pass.order.apart = s > 0 && h->trainer->own.part[i].part->covered;
    call.pass.arg_base = h->pass->direction == HALO_DIRECTION_IN ? halo_arg_base(h, i, pair.k) : 0;
    return block_run(h, &pair, &call);
}

/* Take a payload of rows that no edge of this hop needs, which come where the job's covers do not travel
 * (spilled). */
static enum status payload_drop(struct halo *h, int32_t i, const struct part_rows *received, int32_t s)
{
    const struct halo_pair pair = halo_pair(h, i, pair_after(received->pairs, s));
    struct op_call call = halo_call_begin(h, i);
    enum status status = pair.j < 0 ? source_fetched.take(h, &pair, &call) : STATUS_OK;
    return status == STATUS_OK && pair.j < 0 ? source_fetched.done(h, &pair) : status;
}

/* All blocks of own part i, in the order that defines the bits. */
static enum status part_walk(struct halo *h, int32_t i)
{
    const struct part_rows received = halo_rows_received(h, i);
    int32_t last = last_block(h, i, &received);
    enum status status = STATUS_OK;
    for (int32_t s = 0; s < received.pairs->n_pair && status == STATUS_OK; s++) {
        if (walks_block(h, i, &received, s)) {
            status = block_walk(h, i, &received, s, last);
        } else if (part_rows_at(&received, pair_after(received.pairs, s)) > 0) {
            status = payload_drop(h, i, &received, s);
        }
    }
    return status;
}

/* All own parts' blocks. */
static enum status parts_walk(struct halo *h)
{
    struct pin pin = pin_open(h->trainer, h->step, PIN_USE_RUNNING);
    pin.ascends = true; /* as payloads are fetched */
    while (pin_next(&pin)) {
        pin.status = part_walk(h, pin.part);
        halo_gradients_end(h->trainer, h->step, pin.part);
    }
    return pin.status;
}

enum status halo_walk_part(struct halo *h, int32_t i, int32_t at)
{
    struct halo_walk *walk = &h->walk[i];
    const struct part_rows received = halo_rows_received(h, i);
    int32_t own = h->trainer->own.number[i], n_part = h->trainer->setup.n_part;
    enum status status = STATUS_OK;
    while (walk->s <= walk->last && status == STATUS_OK) {
        int32_t k = pair_after(received.pairs, walk->s), q = received.pairs->pair[k].part;
        if ((q < own ? q + n_part : q) > at) {
            break;
        }
        if (walks_block(h, i, &received, walk->s)) {
            status = block_walk(h, i, &received, walk->s, walk->last);
        }
        walk->s++;
        if (walk->s > walk->last) {
            halo_gradients_end(h->trainer, h->step, i);
        }
    }
    return status;
}

void halo_walk_begin(struct halo *h)
{
    for (int32_t i = 0; i < h->trainer->own.n; i++) {
        const struct part_rows received = halo_rows_received(h, i);
        h->walk[i] = (struct halo_walk){.last = last_block(h, i, &received)};
    }
}

/* Twice around the circle of parts: with every part that comes by, all own parts run their blocks with it, own part i
 * from part i on, once around. So each of them has the order that it has alone, and what several take of a part is
 * there once. */
static enum status circle_walk(struct halo *h)
{
    const struct trainer *t = h->trainer;
    enum status status = STATUS_OK;
    halo_walk_begin(h);
    for (int32_t at = 0; at < 2 * t->setup.n_part && status == STATUS_OK; at++) {
        for (int32_t i = 0; i < t->own.n && status == STATUS_OK; i++) {
            status = halo_walk_part(h, i, at);
        }
        status = status == STATUS_OK ? source_fetched_pass(h) : status;
    }
    return status;
}

enum status halo_walk(struct halo *h)
{
    bool groups = h->source.local == &source_gathered && halo_groups(h);
    return groups ? halo_group_walk(h) : h->dedup != NULL ? circle_walk(h) : parts_walk(h);
}
