/* Payloads in the spill: written before any block, read by parts of this rank, sent to others from where they lie. */
#include "worker/halo/source.h"
#include "worker/spill/pin.h"

/* The payload that own part i gives to its pair k. */
static struct spill_range spilled(const struct halo *h, int32_t i, int32_t k, enum spill_access access)
{
    struct spill_range range = payloads_range(h->trainer->payloads, h->pass->direction, i, k, halo_payload_bytes(h, i, k),
                                              h->slots.n_row_bytes);
    range.access = access;
    return range;
}

/* The payload that the own part takes of a pair on this rank. */
static struct spill_range spilled_for(const struct halo *h, const struct halo_pair *pair)
{
    int32_t k = part_pair_find(halo_rows_given(h, pair->j).pairs, h->trainer->own[pair->i]);
    return spilled(h, pair->j, k, SPILL_READ);
}

static enum status payload_write(struct halo *h, int32_t i, int32_t k)
{
    struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, i, k, SPILL_WRITE);
    enum status status = spill_pin(t->setup.spill, &payload, 1);
    if (status != STATUS_OK) {
        return status;
    }
    if (payload.n_bytes > 0) {
        char *out = t->payloads->at + ((const char *)payload.at - t->payloads->at);
        halo_pack(h, i, k, 0, payload.n_bytes, (float *)(void *)out);
    }
    spill_unpin(t->setup.spill, &payload, 1);
    return exchange_progress(t->setup.exchange);
}

enum status source_spill_payloads(struct halo *h)
{
    struct trainer *t = h->trainer;
    struct pin pin = pin_open(t, h->step, PIN_USE_PACKING);
    while (pin_next(&pin)) {
        const struct part_pairs *pairs = halo_rows_given(h, pin.part).pairs;
        for (int32_t k = 0; k < pairs->n_pair && pin.status == STATUS_OK; k++) {
            pin.status = k != pairs->own ? payload_write(h, pin.part, k) : STATUS_OK;
        }
        t->payloads->made[pin.part] = true;
    }
    return pin.status;
}

bool source_spilled_pack(struct halo *h, int32_t i, int32_t k, size_t at, struct exchange_piece *out)
{
    struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, i, k, SPILL_READ);
    int32_t s = 0;
    while (s < h->slots.n_pack_slot && h->packed[s] != NULL) {
        s++;
    }
    if (!t->payloads->made[i] || s == h->slots.n_pack_slot) {
        return false;
    }
    int64_t left = payload.n_bytes - (int64_t)at;
    const struct spill_range piece = {.at = (const char *)payload.at + at,
                                      .n_bytes = left < MEMORY_PACK_BYTES ? left : MEMORY_PACK_BYTES};
    enum status status = spill_pin(t->setup.spill, &piece, 1);
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
        return false;
    }
    h->packed[s] = piece.at;
    h->n_packed[s] = (size_t)piece.n_bytes;
    *out = (struct exchange_piece){.bytes = piece.at, .n_bytes = h->n_packed[s], .total = (size_t)payload.n_bytes};
    return true;
}

void source_spilled_sent(struct halo *h, const void *bytes)
{
    for (int32_t s = 0; s < h->slots.n_pack_slot; s++) {
        if (h->packed[s] == bytes) {
            const struct spill_range piece = {.at = bytes, .n_bytes = (int64_t)h->n_packed[s]};
            spill_unpin(h->trainer->setup.spill, &piece, 1);
            h->packed[s] = NULL;
            return;
        }
    }
}

/* Begin to read what the own part takes next of its own rank's payloads after this one. */
static void prefetch(const struct halo *h, const struct halo_pair *pair)
{
    const struct part_rows taken = halo_rows_taken(h, pair->i);
    int32_t n_pair = taken.pairs->n_pair;
    for (int32_t k = (pair->k + 1) % n_pair; k != taken.pairs->own; k = (k + 1) % n_pair) {
        const struct halo_pair next = halo_pair(h, pair->i, k);
        if (next.j >= 0 && part_rows_at(&taken, k) > 0) {
            const struct spill_range payload = spilled_for(h, &next);
            spill_prefetch(h->trainer->setup.spill, &payload, 1);
            return;
        }
    }
}

static enum status spilled_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    const struct spill_range payload = spilled_for(h, pair);
    enum status status = spill_pin(t->setup.spill, &payload, 1);
    if (status == STATUS_OK) {
        prefetch(h, pair);
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

const struct payload_source source_spilled = {.take = spilled_take, .done = spilled_done};
