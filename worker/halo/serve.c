/* Other ranks' requests in a halo pass: checked, packed into a free slot, sent piece by piece. */
#include "worker/halo/source.h"
#include "worker/state/staging.h"

/* A free place for a piece, of how many bytes; NULL when all are taken. */
static struct halo_packed *slot_take(struct halo *h, int64_t n_left, int64_t *n_most_out)
{
    int64_t packs = h->workspace->n_scratch + h->workspace->n_fetch, slot_bytes = h->slots.n_pack_slot_bytes;
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->packed[s].bytes != NULL) {
            continue;
        }
        int64_t begin = packs + (slot_bytes > 0 ? s * slot_bytes : h->n_packed_bytes);
        *n_most_out = slot_bytes > 0 ? slot_bytes : n_left;
        h->packed[s].bytes = staging_place(h->trainer, begin - h->workspace->n_scratch, halo_workspace(h, begin));
        h->n_packed_bytes += n_left;
        return &h->packed[s];
    }
    return NULL;
}

/* That piece, if the device makes it still; NULL: it is not begun. */
static struct halo_packed *piece_begun(const struct halo *h, int32_t i, int32_t k, bool asked, size_t at)
{
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        struct halo_packed *piece = &h->packed[s];
        if (piece->bytes != NULL && !piece->leaves && piece->i == i && piece->k == k && piece->asked == asked &&
            piece->at == (int64_t)at) {
            return piece;
        }
    }
    return NULL;
}

/* May it be sent? Not before the device has made it; then this is called again. */
static bool piece_leave(struct halo *h, struct halo_packed *piece, int64_t total, struct exchange_piece *out)
{
    const struct trainer *t = h->trainer;
    if (!t->ops->passed(t->device, piece->made)) {
        exchange_hurry(t->setup.exchange);
        return false;
    }
    enum status status = t->ops->wait(t->device, piece->made); /* which tells of failures */
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
        return false;
    }
    piece->leaves = true;
    *out = (struct exchange_piece){.bytes = piece->bytes, .n_bytes = (size_t)piece->n_bytes, .total = (size_t)total};
    return true;
}

/* Begin the payload for own part i's pair k, or the rest of it from `at` on; NULL: not now. */
static struct halo_packed *piece_begin(struct halo *h, int32_t i, int32_t k, size_t at, int64_t total)
{
    int64_t n_most;
    struct halo_asked *asked = h->pass->n_ask > 0 ? halo_asked_rows(h, i, k) : NULL;
    if (h->pass->n_ask > 0 && asked == NULL) {
        return NULL;
    }
    struct halo_packed *piece = slot_take(h, total - (int64_t)at, &n_most);
    if (piece == NULL) {
        return NULL;
    }
    const struct halo_packing what = {.i = i,
                                      .k = k,
                                      .shared = h->shared != NULL,
                                      .at = (int64_t)at,
                                      .n_most = n_most,
                                      .asked = asked != NULL ? asked->rows : NULL,
                                      .out = (void *)(uintptr_t)piece->bytes};
    piece->n_bytes = halo_pack(h, &what);
    if (asked != NULL) {
        asked->open = false;
    }
    return piece;
}

/* All rows that own part i's pair k asks for. */
static struct halo_packed *asked_begin(struct halo *h, int32_t i, int32_t k, int64_t total)
{
    int64_t n_most;
    struct halo_packed *piece = slot_take(h, total, &n_most);
    if (piece != NULL) {
        halo_pack_asked(h, i, k, (void *)(uintptr_t)piece->bytes);
        piece->n_bytes = total;
    }
    return piece;
}

/* Bytes of the payload for own part i's pair k, or of the rows that it asks for, from `at` on. */
static bool piece_pack(struct halo *h, int32_t i, int32_t k, size_t at, bool asked, struct exchange_piece *out)
{
    const struct trainer *t = h->trainer;
    const struct part_rows rows = halo_rows_taken(h, i);
    int64_t total = asked ? part_rows_at(&rows, k) * h->slots.n_ask_row_bytes : halo_payload_bytes(h, i, k);
    struct halo_packed *piece = piece_begun(h, i, k, asked, at);
    if (piece == NULL) {
        piece = asked ? asked_begin(h, i, k, total) : piece_begin(h, i, k, at, total);
        if (piece == NULL) {
            return false;
        }
        piece->asked = asked;
        piece->i = i;
        piece->k = k;
        piece->at = (int64_t)at;
        piece->made = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    }
    return piece_leave(h, piece, total, out);
}

/* The taker (halo_state.h) for which part `to`, of another rank, fetches rows of own part `from`; -1: it fetches none. */
static int32_t pair_asked(const struct halo *h, uint32_t to, uint32_t from, bool returns_ask)
{
    const struct trainer *t = h->trainer;
    uint32_t n_part = (uint32_t)t->setup.n_part;
    int32_t i = from < n_part ? t->own_index[from] : -1;
    if (i < 0 || to >= n_part || t->own_index[to] >= 0) {
        return -1;
    }
    if (h->shared != NULL) {
        int32_t k = halo_taker(t->setup.rank_of_part[to], part_shared_side_of((int32_t)from, (int32_t)to));
        return halo_rows_to(h, i, k) > 0 ? k : -1;
    }
    const struct part_rows rows = returns_ask ? halo_rows_taken(h, i) : halo_rows_given(h, i);
    int32_t k = part_pair_find(rows.pairs, (int32_t)to);
    return k >= 0 && part_rows_at(&rows, k) > 0 ? k : -1;
}

/* Workspaces, and how many payloads are served, count on every payload being fetched once, by a part that reads its rows. */
static bool request_pack(struct halo *h, uint32_t to, uint32_t from, size_t at, bool returns_ask,
                         struct exchange_piece *out)
{
    const struct trainer *t = h->trainer;
    if (t->polls && (h->pass->direction == HALO_DIRECTION_RETURN || t->payloads != NULL)) {
        return false; /* the operation at work has the scratch that these are made in */
    }
    int32_t k = pair_asked(h, to, from, returns_ask);
    if (k < 0) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER,
                                  "rows of part %u are asked for part %u, which takes none of them from worker %u",
                                  from, to, t->setup.rank));
        return false;
    }
    int32_t i = t->own_index[from];
    bool *given = &h->given[h->given_begin[i] + k + (returns_ask ? h->given_begin[t->n_own] : 0)];
    if (at == 0 && *given) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER,
                                  "rows of part %u are asked for part %u twice, expected once a halo pass", from,
                                  to));
        return false;
    }
    bool spilled = t->payloads != NULL;
    bool packed = !spilled ? piece_pack(h, i, k, at, returns_ask, out)
                           : (returns_ask ? source_spilled_pack_asked : source_spilled_pack)(h, i, k, at, out);
    *given = *given || packed;
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
    if (h->trainer->payloads != NULL) {
        source_spilled_sent(h, bytes);
    }
    if (h->slots.n_pack_slot_bytes == 0) {
        return; /* under the halo schedule slots are used once */
    }
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->packed[s].bytes == bytes) {
            h->packed[s] = (struct halo_packed){0};
        }
    }
}

void halo_serve(struct halo *h)
{
    struct trainer *t = h->trainer;
    if (t->payloads != NULL) {
        payloads_reset(t->payloads);
    }
    bool asks = h->pass->n_ask > 0; /* every payload of gradients that is fetched asks for rows */
    struct exchange_offer offer = {
        .arg = h, .pack = payload_pack, .pack_asked = asks ? payload_pack_asked : NULL, .sent = payload_sent};
    exchange_serve(t->setup.exchange, &h->key, &offer, h->list.n_serve + (asks ? h->list.n_fetch : 0));
}
