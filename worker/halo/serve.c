/* Other ranks' requests in a halo pass: checked, packed into a free slot, sent piece by piece. */
#include "worker/halo/source.h"
#include "worker/run/staging.h"

/* A free place for a piece, of how many bytes; NULL when all are taken. */
static char *pack_slot(struct halo *h, int64_t n_left, int64_t *n_most_out)
{
    int64_t packs = h->workspace->n_scratch + h->workspace->n_fetch, slot_bytes = h->slots.n_pack_slot_bytes;
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->packed[s] != NULL) {
            continue;
        }
        int64_t begin = packs + (slot_bytes > 0 ? s * slot_bytes : h->n_packed_bytes);
        char *at = staging_place(h->trainer, begin - h->workspace->n_scratch, halo_workspace(h, begin));
        *n_most_out = slot_bytes > 0 ? slot_bytes : n_left;
        h->packed[s] = at;
        h->n_packed_bytes += n_left;
        return at;
    }
    return NULL;
}

/* Bytes of the payload for own part i's pair k, from `at` on. */
static bool piece_pack(struct halo *h, int32_t i, int32_t k, size_t at, struct exchange_piece *out)
{
    int64_t total = halo_payload_bytes(h, i, k), n_most;
    char *slot = pack_slot(h, total - (int64_t)at, &n_most);
    if (slot == NULL) {
        return false;
    }
    int64_t n_bytes = halo_pack(h, i, k, (int64_t)at, n_most, (float *)(void *)slot);
    enum status status = staging_ready(h->trainer);
    if (status != STATUS_OK) {
        exchange_fail(h->trainer->setup.exchange, status);
        return false;
    }
    *out = (struct exchange_piece){.bytes = slot, .n_bytes = (size_t)n_bytes, .total = (size_t)total};
    return true;
}

/* Workspaces, and how many payloads are served, count on every payload being fetched once, by a part that reads its rows. */
static bool payload_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    struct halo *h = arg;
    const struct trainer *t = h->trainer;
    uint32_t n_part = (uint32_t)t->setup.n_part;
    int32_t i = from < n_part ? t->own_index[from] : -1;
    int32_t k = i >= 0 && to < n_part && t->own_index[to] < 0 ? part_pair_find(halo_rows_given(h, i).pairs, (int32_t)to) : -1;
    if (k < 0 || halo_payload_bytes(h, i, k) == 0) {
        exchange_fail(t->setup.exchange,
                      status_fail(STATUS_PEER, "rows of part %u are asked for part %u, which takes none of them from worker %u",
                                  from, to, t->setup.rank));
        return false;
    }
    bool *given = &h->given[h->given_begin[i] + k];
    if (at == 0 && *given) {
        exchange_fail(
            t->setup.exchange,
            status_fail(STATUS_PEER, "rows of part %u are asked for part %u twice, expected once a halo pass", from, to));
        return false;
    }
    bool packed = t->payloads != NULL ? source_spilled_pack(h, i, k, at, out) : piece_pack(h, i, k, at, out);
    *given = *given || packed;
    return packed;
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
        h->packed[s] = h->packed[s] == bytes ? NULL : h->packed[s];
    }
}

void halo_serve(struct halo *h)
{
    struct trainer *t = h->trainer;
    if (t->payloads != NULL) {
        payloads_reset(t->payloads);
    }
    struct exchange_offer offer = {.arg = h, .pack = payload_pack, .sent = payload_sent};
    exchange_serve(t->setup.exchange, &h->key, &offer, h->list->n_serve);
}
