/* Other ranks' requests in a halo pass: checked, packed into a free slot, sent piece by piece. */
#include "worker/halo/source.h"

/* The rank that receives a route's payload. */
static uint32_t receiver_of(const struct trainer_setup *setup, const struct halo_route *route)
{
    return route->is_dedup ? (uint32_t)(route->k / PART_DEDUP_N_SIDE) : setup->rank_of_part[route->to];
}

/* A free slot for a piece for that rank, of how many bytes; NULL: no slot is free. */
static struct halo_packed *slot_take(struct halo *h, uint32_t peer, int64_t n_left, int64_t *n_most_out)
{
    int64_t packs = h->workspace->n_scratch + h->workspace->n_fetch, slot_bytes = h->slots.n_pack_slot_bytes;
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->sent.piece[s].bytes != NULL) {
            continue;
        }
        int64_t begin = packs + (slot_bytes > 0 ? s * slot_bytes : h->sent.n_bytes);
        *n_most_out = slot_bytes > 0 ? slot_bytes : n_left;
        const struct staged place = {
            .peer = peer, .at = begin - h->workspace->n_scratch, .device = halo_workspace(h, begin)};
        h->sent.piece[s].bytes = staging_place(h->trainer, &place);
        h->sent.n_bytes += n_left;
        return &h->sent.piece[s];
    }
    return NULL;
}

/* That piece, if the device makes it still; NULL: it is not begun. */
static struct halo_packed *piece_begun(const struct halo *h, const struct halo_route *route, size_t at)
{
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        struct halo_packed *piece = &h->sent.piece[s];
        if (piece->bytes != NULL && !piece->leaves && piece->route == route && piece->at == (int64_t)at) {
            return piece;
        }
    }
    return NULL;
}

/* Begin a route's payload, or the rest of it from `at` on; NULL: not now. */
static struct halo_packed *piece_begin(struct halo *h, const struct halo_route *route, size_t at, int64_t total)
{
    int64_t n_most;
    struct halo_asked *asked = h->pass->n_ask > 0 ? halo_asked_rows(h, route) : NULL;
    if (h->pass->n_ask > 0 && asked == NULL) {
        return NULL;
    }
    struct halo_packed *piece = slot_take(h, receiver_of(&h->trainer->setup, route), total - (int64_t)at, &n_most);
    if (piece == NULL) {
        return NULL;
    }
    const struct halo_packing what = {.route = *route,
                                      .at = (int64_t)at,
                                      .n_most = n_most,
                                      .asked = asked != NULL ? asked->rows.device : NULL,
                                      .out = piece->bytes};
    piece->n_bytes = halo_pack(h, &what);
    if (asked != NULL) {
        asked->open = false;
    }
    return piece;
}

/* All rows that a route which is taken is made of. */
static struct halo_packed *asked_begin(struct halo *h, const struct halo_route *route, int64_t total)
{
    int64_t n_most;
    struct halo_packed *piece = slot_take(h, h->trainer->setup.rank_of_part[route->from], total, &n_most);
    if (piece != NULL) {
        halo_pack_asked(h, route->i, route->k, piece->bytes);
        piece->n_bytes = total;
    }
    return piece;
}

/* Bytes of a route's payload, or of the rows that it is made of, from `at` on. */
static bool piece_pack(struct halo *h, const struct halo_route *route, size_t at, bool asked,
                       struct exchange_piece *out)
{
    const struct trainer *t = h->trainer;
    int64_t total = route->n_row * (asked ? h->slots.n_ask_row_bytes : h->slots.n_row_bytes);
    bool near = !asked && peers_near(t->routes.peers, receiver_of(&t->setup, route));
    if (near && halo_rows_lend(h, route, (int64_t)at, out)) {
        return staging_is_made(t, h->sent.ready);
    }
    struct halo_packed *piece = piece_begun(h, route, at);
    if (piece == NULL) {
        piece = asked ? asked_begin(h, route, total) : piece_begin(h, route, at, total);
        if (piece == NULL) {
            return false;
        }
        piece->route = route;
        piece->at = (int64_t)at;
        piece->made = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    }
    if (!staging_is_made(t, piece->made)) {
        return false;
    }
    piece->leaves = true;
    *out = (struct exchange_piece){.bytes = piece->bytes, .n_bytes = (size_t)piece->n_bytes, .total = (size_t)total};
    return true;
}

/* The route by which part `to`, of another rank, fetches rows of own part `from`, or asks for what it returns; NULL:
 * there is none. */
static struct halo_route *route_asked(const struct halo *h, uint32_t to, uint32_t from, bool returns_ask)
{
    const struct trainer *t = h->trainer;
    uint32_t n_part = (uint32_t)t->setup.n_part;
    int32_t i = from < n_part ? t->own.index[from] : -1;
    if (i < 0 || to >= n_part || t->own.index[to] >= 0) {
        return NULL;
    }
    if (h->dedup != NULL) {
        enum part_dedup_side side = part_dedup_side_at((int32_t)from, (int32_t)to);
        return halo_routes_sent(&h->routes, i, halo_route_taker(t->setup.rank_of_part[to], side));
    }
    int32_t k = part_pair_find((returns_ask ? halo_rows_received(h, i) : halo_rows_sent(h, i)).pairs, (int32_t)to);
    return k < 0         ? NULL
           : returns_ask ? halo_routes_received(&h->routes, &h->owners, h->pass->direction, i, k)
                         : halo_routes_sent(&h->routes, i, k);
}

/* Workspaces, and how many payloads are served, count on every payload being fetched once, by a part that reads its
 * rows. */
static bool request_pack(struct halo *h, uint32_t to, uint32_t from, size_t at, bool returns_ask,
                         struct exchange_piece *out)
{
    const struct trainer *t = h->trainer;
    if (t->run.polls && (h->pass->direction == HALO_DIRECTION_RETURN || t->routes.payloads != NULL)) {
        return false; /* the operation at work has the scratch that these are made in */
    }
    struct halo_route *route = route_asked(h, to, from, returns_ask);
    if (route == NULL) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER,
                                  "rows of part %u are asked for part %u, which takes none of them from worker %u",
                                  from, to, t->setup.rank));
        return false;
    }
    if (at == 0 && route->begun) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER,
                                  "rows of part %u are asked for part %u twice, expected once a halo pass", from,
                                  to));
        return false;
    }
    bool packed = t->routes.payloads == NULL
                      ? piece_pack(h, route, at, returns_ask, out)
                      : (returns_ask ? source_spilled_pack_asked : source_spilled_pack)(h, route, at, out);
    route->begun = route->begun || packed;
    return packed;
}

static bool payload_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    return request_pack(arg, to, from, at, false, out);
}

static bool payload_pack_asked(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    return request_pack(arg, to, from, at, true, out);
}

static void payload_sent(void *arg, const void *bytes)
{
    struct halo *h = arg;
    if (h->trainer->routes.payloads != NULL) {
        source_spilled_sent(h, bytes);
    }
    if (h->slots.n_pack_slot_bytes == 0) {
        return; /* under the halo schedule slots are used once */
    }
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->sent.piece[s].bytes == bytes) {
            h->sent.piece[s] = (struct halo_packed){0};
        }
    }
}

void halo_serve(struct halo *h)
{
    struct trainer *t = h->trainer;
    if (t->routes.payloads != NULL) {
        payloads_reset(t->routes.payloads);
    }
    bool asks = h->pass->n_ask > 0; /* every payload of gradients that is fetched asks for rows */
    struct exchange_offer offer = {
        .arg = h, .pack = payload_pack, .pack_asked = asks ? payload_pack_asked : NULL, .sent = payload_sent};
    exchange_serve(t->setup.exchange, &h->key, &offer,
                   h->routes.total.sent.n + (asks ? h->routes.total.received.n : 0));
}
