/* Payloads in the spill: written before any block, read by parts of this rank, sent to others from where they lie. */
#include "worker/halo/source.h"
#include "worker/spill/pin.h"

/* The payload that part `to` takes from own part i. */
static struct spill_range spilled(const struct halo *h, int32_t i, int32_t to, enum spill_access access)
{
    struct spill_range range = payloads_range(h->trainer->payloads, h->pass->direction, i, to, halo_rows_given(h, i, to),
                                              h->slots.n_row_bytes);
    range.access = access;
    return range;
}

static enum status payload_write(struct halo *h, int32_t i, int32_t to)
{
    struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, i, to, SPILL_WRITE);
    enum status status = spill_pin(t->setup.spill, &payload, 1);
    if (status != STATUS_OK) {
        return status;
    }
    if (payload.n_bytes > 0) {
        char *out = t->payloads->at + ((const char *)payload.at - t->payloads->at);
        halo_pack(h, (uint32_t)to, i, 0, payload.n_bytes, (float *)(void *)out);
    }
    spill_unpin(t->setup.spill, &payload, 1);
    return exchange_progress(t->setup.exchange);
}

enum status source_spill_payloads(struct halo *h)
{
    struct trainer *t = h->trainer;
    struct pin pin = pin_open(t, h->step, PIN_USE_PACKING);
    while (pin_next(&pin)) {
        for (int32_t to = 0; to < t->setup.n_part && pin.status == STATUS_OK; to++) {
            pin.status = to != t->own[pin.part] ? payload_write(h, pin.part, to) : STATUS_OK;
        }
        t->payloads->made[pin.part] = true;
    }
    return pin.status;
}

bool source_spilled_pack(struct halo *h, uint32_t to, int32_t i, size_t at, struct exchange_piece *out)
{
    struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, i, (int32_t)to, SPILL_READ);
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

/* Begin to read what own part i takes next of its own rank's payloads after that of part q. */
static void prefetch(const struct halo *h, int32_t i, int32_t q)
{
    const struct trainer *t = h->trainer;
    int32_t n_part = t->setup.n_part;
    for (int32_t next = (q + 1) % n_part; next != t->own[i]; next = (next + 1) % n_part) {
        int32_t j = t->own_index[next];
        if (j >= 0 && halo_rows_taken(h, i, next) > 0) {
            const struct spill_range payload = spilled(h, j, t->own[i], SPILL_READ);
            spill_prefetch(t->setup.spill, &payload, 1);
            return;
        }
    }
}

static enum status spilled_take(struct halo *h, int32_t i, int32_t q, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, t->own_index[q], t->own[i], SPILL_READ);
    enum status status = spill_pin(t->setup.spill, &payload, 1);
    if (status == STATUS_OK) {
        prefetch(h, i, q);
        source_point(h, i, q, payload.at, call);
    }
    return status;
}

/* It is read once. */
static enum status spilled_done(struct halo *h, int32_t i, int32_t q)
{
    const struct trainer *t = h->trainer;
    const struct spill_range payload = spilled(h, t->own_index[q], t->own[i], SPILL_READ);
    spill_unpin(t->setup.spill, &payload, 1);
    spill_discard(t->setup.spill, payload.at, payload.n_bytes);
    return STATUS_OK;
}

const struct payload_source source_spilled = {.take = spilled_take, .done = spilled_done};
