/* Rows of parts of other ranks: fetched over the exchange, as many ahead as the credit allows. */
#include "protocol/base/fault.h"
#include "worker/halo/source.h"
#include "worker/route/sample_dedup.h"

/* Fetch payloads until the credit is used up. */
static enum status fetch_ahead(struct halo *h)
{
    struct trainer *t = h->trainer;
    int64_t slot_bytes = h->slots.n_fetch_slot_bytes;
    while (h->fetch.n_begun < h->routes.total.received.n && h->fetch.n_begun < h->fetch.n_used + h->fetch.n_credit) {
        const struct halo_route *route = &h->routes.take[h->fetch.n_begun];
        int32_t slot = h->fetch.n_begun % h->fetch.n_credit;
        struct halo_slot *s = &h->fetch.slot[slot];
        struct staged *payload = &s->payload;
        payload->peer = t->setup.rank_of_part[route->from];
        payload->at = slot_bytes > 0 ? slot * slot_bytes : h->fetch.n_row * h->slots.n_row_bytes;
        payload->n_bytes = route->n_row * h->slots.n_row_bytes;
        payload->device = halo_workspace(h, h->workspace->n_scratch + payload->at);
        struct exchange_key key = h->key;
        key.to = (uint32_t)route->to;
        key.from = (uint32_t)route->from;
        enum status status = staging_fetch(t, payload, &key, &s->handle);
        if (status != STATUS_OK) {
            return status;
        }
        FAULT(EXCHANGE);
        h->fetch.n_begun++;
        h->fetch.n_row += route->n_row;
    }
    return STATUS_OK;
}

/* Own part i's rows, picked out of those that came for several: piece after piece, as they would have come for it
 * alone. */
static void scatter(struct halo *h, const struct halo_pair *pair, const char *from, char *to)
{
    const struct trainer *t = h->trainer;
    enum part_direction d = halo_edges(h->pass->direction);
    const struct part_rows received = halo_rows_received(h, pair->i);
    int64_t n_row = part_rows_at(&received, pair->k), n_all = h->routes.take[h->fetch.n_used].n_row;
    const uint32_t *places = h->sample != NULL ? sample_dedup_scatter(sample_get_dedup(h->sample), pair->i, pair->k)
                                               : dedup_scatter(t->routes.dedup, d, pair->i, pair->k);
    for (int p = 0; p < h->pass->n_piece; p++) {
        int64_t n_word = h->bytes[p] / (int64_t)sizeof(float); /* of which coded rows, too, have a whole number */
        if (n_word > 0) {
            t->ops->rows_gather(t->device, n_row, n_word, places, 1.0F, (const float *)(const void *)from,
                                (float *)(void *)to);
        }
        from += n_all * h->bytes[p];
        to += n_row * h->bytes[p];
    }
}

static enum status fetched_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    struct halo_slot *s = &h->fetch.slot[h->fetch.n_used % h->fetch.n_credit];
    enum status status = s->there ? STATUS_OK : exchange_wait(h->trainer->setup.exchange, s->handle);
    if (status == STATUS_OK && !s->there) {
        s->there = true;
        staging_in(h->trainer, &s->payload);
    }
    const void *payload = s->payload.device;
    if (status == STATUS_OK && h->dedup != NULL && h->dedup->scatters) {
        char *own = halo_workspace(h, source_packed_at(h));
        scatter(h, pair, payload, own);
        payload = own;
    }
    if (status == STATUS_OK) {
        source_point(h, pair, payload, call);
    }
    return status;
}

/* Its slot is free for the next one. */
static enum status slot_end(struct halo *h)
{
    const struct trainer *t = h->trainer;
    struct halo_slot *s = &h->fetch.slot[h->fetch.n_used % h->fetch.n_credit];
    s->there = false;
    s->payload.unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    h->fetch.n_used++;
    return fetch_ahead(h);
}

static enum status fetched_done(struct halo *h, const struct halo_pair *pair)
{
    (void)pair;
    return h->dedup != NULL ? STATUS_OK : slot_end(h); /* other own parts may take it, too */
}

enum status source_fetched_pass(struct halo *h)
{
    return h->fetch.n_credit > 0 && h->fetch.slot[h->fetch.n_used % h->fetch.n_credit].there ? slot_end(h)
                                                                                             : STATUS_OK;
}

const struct payload_source source_fetched = {.take = fetched_take, .done = fetched_done, .begin = fetch_ahead};
