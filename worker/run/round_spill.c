/* A round's payloads in the spill: written down before any block, read by parts of this rank, sent to others from where they lie. */
#include "worker/run/round_state.h"
#include "worker/spill/hold.h"

struct spill_range round_spilled(const struct round_state *r, int32_t i, int32_t to, enum spill_access access)
{
    const struct trainer *t = r->trainer;
    int64_t n_row = travel_rows_out(&t->part[i].travel, to, r->what->travel, r->level_travel);
    return payloads_range(t->payloads, r->what->travel, i, to, n_row, r->slots.n_row_bytes, access);
}

static enum status payload_spill(struct round_state *r, int32_t i, int32_t to)
{
    struct trainer *t = r->trainer;
    const struct spill_range payload = round_spilled(r, i, to, SPILL_WRITE);
    enum status status = spill_use(t->setup.spill, &payload, 1);
    if (status != STATUS_OK) {
        return status;
    }
    float *out = (float *)(void *)(t->payloads->at + ((const char *)payload.at - t->payloads->at));
    if (payload.n_bytes > 0 && r->what->travel == TRAVEL_RETURN) {
        round_payload_make(r, (uint32_t)to, i, out);
    } else if (payload.n_bytes > 0) {
        round_rows_pack(r, (uint32_t)to, i, 0, payload.n_bytes, out);
    }
    spill_done(t->setup.spill, &payload, 1);
    return exchange_progress(t->setup.exchange);
}

enum status round_spill_payloads(struct round_state *r)
{
    struct trainer *t = r->trainer;
    if (t->payloads == NULL) {
        return STATUS_OK;
    }
    struct hold hold = hold_open(t);
    uses_pack(&t->program, &t->plan, r->op_index, r->what, &hold.uses);
    while (hold_next(&hold)) {
        for (int32_t to = 0; to < t->setup.n_part && hold.status == STATUS_OK; to++) {
            hold.status = to != t->own[hold.part] ? payload_spill(r, hold.part, to) : STATUS_OK;
        }
        t->payloads->made[hold.part] = true;
    }
    return hold.status;
}

bool round_spill_send(struct round_state *r, uint32_t to, int32_t i, size_t at, struct exchange_piece *out)
{
    struct trainer *t = r->trainer;
    const struct spill_range payload = round_spilled(r, i, (int32_t)to, SPILL_READ);
    int32_t s = 0;
    while (s < r->slots.n_pack_slot && r->packed[s] != NULL) {
        s++;
    }
    if (!t->payloads->made[i] || s == r->slots.n_pack_slot) {
        return false;
    }
    int64_t left = payload.n_bytes - (int64_t)at;
    const struct spill_range piece = {.at = (const char *)payload.at + at,
                                      .n_bytes = left < MEMORY_PACK_BYTES ? left : MEMORY_PACK_BYTES};
    enum status status = spill_use(t->setup.spill, &piece, 1);
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
        return false;
    }
    r->packed[s] = piece.at;
    r->n_packed[s] = (size_t)piece.n_bytes;
    *out = (struct exchange_piece){.bytes = piece.at, .n_bytes = r->n_packed[s], .total = (size_t)payload.n_bytes};
    return true;
}

void round_spill_sent(struct round_state *r, const void *bytes)
{
    for (int32_t s = 0; s < r->slots.n_pack_slot; s++) {
        if (r->packed[s] == bytes) {
            const struct spill_range piece = {.at = bytes, .n_bytes = (int64_t)r->n_packed[s]};
            spill_done(r->trainer->setup.spill, &piece, 1);
            r->packed[s] = NULL;
            return;
        }
    }
}

void round_spill_ahead(const struct round_state *r, int32_t i, int32_t q)
{
    const struct trainer *t = r->trainer;
    for (int32_t step = 1; step < t->setup.n_part; step++) {
        int32_t next = (q + step) % t->setup.n_part, j = t->own_index[next];
        if (next == t->own[i]) {
            return;
        }
        if (j >= 0 && travel_rows_in(&t->part[i].travel, next, r->what->travel, r->level_travel) > 0) {
            const struct spill_range payload = round_spilled(r, j, t->own[i], SPILL_READ);
            spill_ahead(t->setup.spill, &payload, 1);
            return;
        }
    }
}
