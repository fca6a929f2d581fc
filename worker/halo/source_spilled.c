/* Payloads in the spill, one of two ways. Written before any block: each part's rows are read once, payloads are
 * written and read, or sent to other ranks from where they lie. Or gathered: packed from the other part's rows when a
 * block wants them, into their place in the spill, and discarded; no payload moves, but rows are read for each part
 * that takes some.
 */
#include "protocol/base/amounts.h"
#include "worker/halo/source.h"
#include "worker/state/pin.h"

/* The payload that own part i gives to its pair k. */
static struct spill_range spilled(const struct halo *h, int32_t i, int32_t k, enum spill_access access)
{
    return payloads_range(h->trainer->routes.payloads, h->pass->direction, i, k,
                          halo_route_at(h, i, k).n_row * h->slots.n_row_bytes, h->slots.n_row_bytes, access);
}

/* Are payloads of this rank's parts packed when a block wants them? */
static bool gathers(const struct halo *h)
{
    return h->source.local == &source_gathered;
}

/* The payload that the own part takes of a pair on this rank; one place has all that are gathered where no other
 * rank takes any. */
static struct spill_range spilled_for(const struct halo *h, const struct halo_pair *pair)
{
    int32_t k = part_pair_find(halo_rows_sent(h, pair->j).pairs, h->trainer->own.number[pair->i]);
    struct spill_range range = spilled(h, pair->j, k, SPILL_READ);
    range.at = gathers(h) && halo_groups(h) ? h->trainer->routes.payloads->at : range.at;
    return range;
}

struct spill_range source_gathered_place(const struct halo *h)
{
    int64_t most = 0;
    for (int32_t i = 0; i < h->trainer->own.n; i++) {
        const struct part_rows received = halo_rows_received(h, i);
        most = larger(most, part_rows_most(&received));
    }
    return (struct spill_range){
        .at = h->trainer->routes.payloads->at, .n_bytes = most * h->slots.n_row_bytes, .access = SPILL_WRITE};
}

const struct payload_source *source_of_spill(const struct halo *h)
{
    const struct trainer *t = h->trainer;
    int64_t n_all = 0, n_read = 0, n_taken = 0;
    for (int32_t i = 0; i < t->own.n; i++) {
        const struct part_rows received = halo_rows_received(h, i);
        n_all += trainer_rows(t, h->hop.travelling, i);
        for (int32_t k = 0; k < received.pairs->n_pair; k++) {
            const struct halo_pair pair = halo_pair(h, i, k);
            int64_t n = pair.j >= 0 && pair.j != i ? part_rows_at(&received, k) : 0;
            n_taken += n;
            n_read += n > 0 ? trainer_rows(t, h->hop.travelling, pair.j) : 0;
        }
    }
    if (halo_groups(h)) {
        return halo_group_rows(h) < 2 * (n_all + n_taken) ? &source_gathered : &source_spilled;
    }
    /* Rows that stay in memory, beside what a step pins, are read once. */
    bool stay = n_all * h->slots.n_row_bytes + t->plan.spill.n_least <= t->plan.bytes[MEMORY_SPILL];
    return (stay ? n_all : n_read) < 2 * n_taken ? &source_gathered : &source_spilled;
}

/* The place in the spill, pinned, as what is packed is written there. */
static void *place_of(const struct spill_range *range)
{
    return (void *)(uintptr_t)range->at;
}

/* Rows of own part i that gradients of its pair k, made elsewhere, are made of. */
static struct spill_range asked(const struct halo *h, int32_t i, int32_t k, enum spill_access access)
{
    const struct part_rows rows = halo_rows_received(h, i);
    int64_t row_bytes = h->slots.n_ask_row_bytes;
    return payloads_asked_range(h->trainer->routes.payloads, i, k, part_rows_at(&rows, k) * row_bytes, row_bytes,
                                access);
}

/* Write what own parts are asked for, part after part; where payloads are gathered by other ranks alone. */
static enum status asked_write(struct halo *h)
{
    struct trainer *t = h->trainer;
    struct pin pin = pin_open(t, h->step, PIN_USE_PACKING);
    while (pin_next(&pin)) {
        const struct part_pairs *pairs = halo_rows_received(h, pin.part).pairs;
        for (int32_t k = 0; k < pairs->n_pair && pin.status == STATUS_OK; k++) {
            const struct spill_range rows = asked(h, pin.part, k, SPILL_WRITE);
            bool gathered = gathers(h) && t->own.index[pairs->pair[k].part] >= 0;
            if (k == pairs->own || gathered || rows.n_bytes == 0) {
                continue;
            }
            pin.status = spill_pin(t->setup.spill, &rows, 1);
            if (pin.status == STATUS_OK) {
                halo_pack_asked(h, pin.part, k, place_of(&rows));
                spill_unpin(t->setup.spill, &rows, 1);
            }
        }
        t->routes.payloads->asked_made[pin.part] = true;
    }
    return pin.status;
}

/* What the gradients of own part i's pair k are made of, pinned in *range or (of another rank) fetched. */
static enum status asked_read(struct halo *h, int32_t i, int32_t k, struct spill_range *range, const void **rows_out)
{
    const struct trainer *t = h->trainer;
    int32_t q = halo_rows_sent(h, i).pairs->pair[k].part, j = t->own.index[q];
    if (j < 0) {
        return halo_asked_wait(h, halo_routes_sent(&h->routes, i, k), rows_out);
    }
    *range = asked(h, j, part_pair_find(halo_rows_received(h, j).pairs, t->own.number[i]), SPILL_READ);
    *rows_out = range->at;
    return spill_pin(t->setup.spill, range, 1);
}

static enum status payload_write(struct halo *h, int32_t i, int32_t k)
{
    struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, i, k, SPILL_WRITE);
    struct spill_range made_of = {0};
    const void *rows = NULL;
    enum status status = spill_pin(t->setup.spill, &payload, 1);
    if (status == STATUS_OK && payload.n_bytes > 0 && h->pass->n_ask > 0) {
        status = asked_read(h, i, k, &made_of, &rows);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (payload.n_bytes > 0) {
        const struct halo_packing what = {
            .route = halo_route_at(h, i, k), .n_most = payload.n_bytes, .asked = rows, .out = place_of(&payload)};
        halo_pack(h, &what);
    }
    if (made_of.n_bytes > 0) { /* they are read once */
        spill_unpin(t->setup.spill, &made_of, 1);
        spill_discard(t->setup.spill, made_of.at, made_of.n_bytes);
    }
    spill_unpin(t->setup.spill, &payload, 1);
    return exchange_progress(t->setup.exchange);
}

/* Before any block: write what others take from own parts to the spill, part after part. */
static enum status payloads_write(struct halo *h)
{
    struct trainer *t = h->trainer;
    if (gathers(h) && t->setup.n_rank == 1) {
        return STATUS_OK;
    }
    enum status asked_there = h->pass->n_ask > 0 ? asked_write(h) : STATUS_OK;
    if (asked_there != STATUS_OK) {
        return asked_there;
    }
    struct pin pin = pin_open(t, h->step, PIN_USE_PACKING);
    while (pin_next(&pin)) {
        const struct part_pairs *pairs = halo_rows_sent(h, pin.part).pairs;
        for (int32_t k = 0; k < pairs->n_pair && pin.status == STATUS_OK; k++) {
            bool gathered = gathers(h) && t->own.index[pairs->pair[k].part] >= 0;
            pin.status = k != pairs->own && !gathered ? payload_write(h, pin.part, k) : STATUS_OK;
        }
        t->routes.payloads->made[pin.part] = true;
    }
    return pin.status;
}

/* The next piece of a payload that lies in the spill, pinned until it is sent. */
static bool piece_give(struct halo *h, const struct spill_range *payload, size_t at, struct exchange_piece *out)
{
    struct trainer *t = h->trainer;
    int32_t s = 0;
    while (s < h->slots.n_pack_slot && h->sent.piece[s].bytes != NULL) {
        s++;
    }
    if (s == h->slots.n_pack_slot) {
        return false;
    }
    int64_t left = payload->n_bytes - (int64_t)at;
    const struct spill_range piece = {.at = (const char *)payload->at + at,
                                      .n_bytes = left < MEMORY_PACK_BYTES ? left : MEMORY_PACK_BYTES};
    enum status status = spill_pin(t->setup.spill, &piece, 1);
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
        return false;
    }
    h->sent.piece[s] = (struct halo_packed){.bytes = place_of(&piece), .n_bytes = piece.n_bytes, .leaves = true};
    *out = (struct exchange_piece){
        .bytes = piece.at, .n_bytes = (size_t)piece.n_bytes, .total = (size_t)payload->n_bytes};
    return true;
}

bool source_spilled_pack(struct halo *h, const struct halo_route *route, size_t at, struct exchange_piece *out)
{
    const struct spill_range payload = spilled(h, route->i, route->k, SPILL_READ);
    return h->trainer->routes.payloads->made[route->i] && piece_give(h, &payload, at, out);
}

bool source_spilled_pack_asked(struct halo *h, const struct halo_route *route, size_t at, struct exchange_piece *out)
{
    const struct spill_range rows = asked(h, route->i, route->k, SPILL_READ);
    return h->trainer->routes.payloads->asked_made[route->i] && piece_give(h, &rows, at, out);
}

void source_spilled_sent(struct halo *h, const void *bytes)
{
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->sent.piece[s].bytes == bytes) {
            const struct spill_range piece = {.at = bytes, .n_bytes = h->sent.piece[s].n_bytes};
            spill_unpin(h->trainer->setup.spill, &piece, 1);
            h->sent.piece[s] = (struct halo_packed){0};
            return;
        }
    }
}

/* What the own part takes next of its own rank after this pair; false: nothing. */
static bool next_local(const struct halo *h, const struct halo_pair *pair, struct halo_pair *out)
{
    const struct part_rows received = halo_rows_received(h, pair->i);
    int32_t n_pair = received.pairs->n_pair;
    for (int32_t k = (pair->k + 1) % n_pair; k != received.pairs->own; k = (k + 1) % n_pair) {
        *out = halo_pair(h, pair->i, k);
        if (out->j >= 0 && part_rows_at(&received, k) > 0) {
            return true;
        }
    }
    return false;
}

/* Pack the payload where it has its place, from the other part's rows. */
static enum status payload_gather(struct halo *h, const struct halo_pair *pair, const struct spill_range *payload)
{
    int32_t k = part_pair_find(halo_rows_sent(h, pair->j).pairs, h->trainer->own.number[pair->i]);
    void *made_of = halo_workspace(h, h->workspace->asked_wire_at);
    if (h->pass->n_ask > 0) {
        halo_pack_asked(h, pair->i, pair->k, made_of);
    }
    struct pin pin = pin_open(h->trainer, h->step, PIN_USE_PACKING);
    enum status status = pin_begin(&pin, pair->j);
    if (status == STATUS_OK && payload->n_bytes > 0) {
        const struct halo_packing what = {.route = halo_route_at(h, pair->j, k),
                                          .n_most = payload->n_bytes,
                                          .asked = made_of,
                                          .out = place_of(payload)};
        halo_pack(h, &what);
    }
    pin_end(&pin);
    struct halo_pair next;
    if (status == STATUS_OK && next_local(h, pair, &next)) {
        pin_prefetch(&pin, next.j);
    }
    return status;
}

static enum status spilled_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct spill_range payload = spilled_for(h, pair);
    enum status status = spill_pin(h->trainer->setup.spill, &payload, 1);
    struct halo_pair next;
    if (status == STATUS_OK && next_local(h, pair, &next)) {
        const struct spill_range ahead = spilled_for(h, &next);
        spill_prefetch(h->trainer->setup.spill, &ahead, 1);
    }
    if (status == STATUS_OK) {
        source_point(h, pair, payload.at, call);
    }
    return status;
}

static enum status gathered_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    struct spill_range payload = spilled_for(h, pair);
    payload.access = SPILL_WRITE;
    enum status status = spill_pin(h->trainer->setup.spill, &payload, 1);
    if (status == STATUS_OK) {
        status = payload_gather(h, pair, &payload);
        source_point(h, pair, payload.at, call);
    }
    return status;
}

/* It is read once. */
static enum status spilled_done(struct halo *h, const struct halo_pair *pair)
{
    const struct trainer *t = h->trainer;
    const struct spill_range payload = spilled_for(h, pair);
    spill_unpin(t->setup.spill, &payload, 1);
    spill_discard(t->setup.spill, payload.at, payload.n_bytes);
    return STATUS_OK;
}

const struct payload_source source_spilled = {.take = spilled_take, .done = spilled_done, .begin = payloads_write};
const struct payload_source source_gathered = {.take = gathered_take, .done = spilled_done, .begin = payloads_write};
