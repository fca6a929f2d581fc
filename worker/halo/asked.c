/* Gradients that return are made of rows that their owner has: these are asked for when the gradients are. */
#include "worker/halo/halo_state.h"

static struct halo_asked *asked_find(const struct halo *h, const struct halo_route *route)
{
    for (int32_t s = 0; s < h->slots.n_ask_slot; s++) {
        if (h->asked[s].open && h->asked[s].route == route) {
            return &h->asked[s];
        }
    }
    return NULL;
}

static void ask(struct halo *h, const struct halo_route *route)
{
    const struct trainer *t = h->trainer;
    int32_t s = 0;
    while (s < h->slots.n_ask_slot && h->asked[s].open) {
        s++;
    }
    if (s == h->slots.n_ask_slot) {
        return; /* one of those before comes first */
    }
    struct halo_asked *a = &h->asked[s];
    int64_t begin = h->workspace->n_fetch + h->workspace->n_pack + s * h->slots.n_ask_slot_bytes;
    struct exchange_key key = h->key;
    key.phase = EXCHANGE_PHASE_ASK;
    key.to = (uint32_t)route->from;
    key.from = (uint32_t)route->to;
    const struct staged rows = {.peer = t->setup.rank_of_part[route->to],
                                .at = begin,
                                .device = halo_workspace(h, h->workspace->n_scratch + begin),
                                .n_bytes = route->n_row * h->slots.n_ask_row_bytes,
                                .free = a->rows.free,
                                .unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE)};
    *a = (struct halo_asked){.open = true, .route = route, .rows = rows};
    enum status status = staging_fetch(t, &a->rows, &key, &a->handle);
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
    }
}

/* They have arrived: on to the device. */
static enum status arrived(struct halo *h, struct halo_asked *a)
{
    enum status status = exchange_wait(h->trainer->setup.exchange, a->handle);
    a->there = status == STATUS_OK;
    if (a->there) {
        staging_in(h->trainer, &a->rows);
    }
    return status;
}

struct halo_asked *halo_asked_rows(struct halo *h, const struct halo_route *route)
{
    struct halo_asked *a = asked_find(h, route);
    if (a == NULL) {
        ask(h, route);
        return NULL;
    }
    if (!a->there && exchange_is_there(h->trainer->setup.exchange, a->handle)) {
        arrived(h, a);
    }
    return a->there ? a : NULL;
}

enum status halo_asked_wait(struct halo *h, const struct halo_route *route, const void **rows_out)
{
    ask(h, route);
    struct halo_asked *a = asked_find(h, route);
    enum status status = a != NULL ? arrived(h, a) : exchange_progress(h->trainer->setup.exchange);
    if (status == STATUS_OK) {
        *rows_out = a->rows.device;
        a->open = false;
    }
    return status;
}
