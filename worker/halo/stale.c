#include "worker/halo/stale.h"

#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "worker/halo/feedback.h"
#include "worker/halo/source.h"

#include <stdlib.h>
#include <string.h>

/* Where one payload of the list lies. Own parts' pairs are those of the direction in which it is taken, or given. */
struct stale_places {
    int64_t *part;             /* n_own: an own part's pairs */
    int64_t *received;         /* by own part and pair: where rows of other parts lie */
    int64_t *sent;             /* likewise own rows for other ranks' parts */
    struct halo_routes routes; /* between ranks; those given are begun when they are fetched */
    bool made;                 /* what is given is this epoch's */
    int64_t n_row_bytes;       /* of this epoch's rows as they travel */
};

struct stale {
    struct trainer *trainer;
    const struct stale_list *list;
    char *bytes;           /* plan.payloads.n_kept_bytes, SHARED */
    int64_t n_place_bytes; /* of the lists of places */
    struct halo_owners owners;
    int64_t *n_before;           /* n_own + 1: pairs of the own parts before */
    struct stale_places *places; /* by payload */

    int *queue; /* list->n: payloads to be fetched, in order */
    int n_queue, n_begun;
    int32_t n_route; /* of queue[n_begun]: fetches begun */
    struct stale_flight {
        bool open;
        int handle; /* of the exchange */
    } flight[STALE_N_FLIGHT];
};

/* --- places --- */

static void places_lay_out(struct stale *stale)
{
    const struct trainer *t = stale->trainer;
    int64_t at = 0;
    for (int p = 0; p < stale->list->n; p++) {
        const struct stale_payload *payload = &stale->list->payload[p];
        for (int32_t i = 0; i < t->own.n; i++) {
            const struct part_rows received = halo_rows_in(stale->owners.own[i], payload->direction, payload->hop);
            int64_t begin = stale->places[p].part[i] = at;
            at += stale_part_bytes(payload, stale->owners.own[i]);
            for (int32_t k = 0; k < received.pairs->n_pair; k++) {
                stale->places[p].received[stale->n_before[i] + k] = begin;
                begin += part_rows_at(&received, k) * payload->n_row_bytes;
            }
        }
    }
    for (int p = 0; p < stale->list->n; p++) {
        const struct stale_payload *payload = &stale->list->payload[p];
        for (int32_t i = 0; i < t->own.n; i++) {
            const struct part_rows sent = halo_rows_out(stale->owners.own[i], payload->direction, payload->hop);
            for (int32_t k = 0; k < sent.pairs->n_pair; k++) {
                bool remote = t->own.index[sent.pairs->pair[k].part] < 0;
                stale->places[p].sent[stale->n_before[i] + k] = at;
                at += remote ? part_rows_at(&sent, k) * payload->n_row_bytes : 0;
            }
        }
    }
    ASSERT(at == t->plan.payloads.n_kept_bytes);
}

static char *taken_at(const struct stale *stale, int p, int32_t i, int32_t k)
{
    return stale->bytes + stale->places[p].received[stale->n_before[i] + k];
}

/* --- what other ranks fetch --- */

static bool refuse(const struct stale *stale, const struct exchange_key *key, const char *why)
{
    exchange_fail(stale->trainer->setup.exchange,
                  status_fail(STATUS_PEER, "kept rows of part %u are asked for part %u in epoch %u, which %s",
                              key->from, key->to, key->epoch, why));
    return false;
}

static bool stale_find(void *arg, const struct exchange_key *key, struct exchange_piece *out)
{
    struct stale *stale = arg;
    const struct trainer *t = stale->trainer;
    bool returns = key->phase == EXCHANGE_PHASE_STALE_GRADIENTS;
    int p = stale_list_find(stale->list, key->op, returns ? HALO_DIRECTION_RETURN : HALO_DIRECTION_IN);
    uint32_t n_part = (uint32_t)t->setup.n_part;
    int32_t i = key->from < n_part ? t->own.index[key->from] : -1;
    if (p < 0 || i < 0 || key->to >= n_part || t->own.index[key->to] >= 0) {
        return refuse(stale, key, "this rank lacks");
    }
    struct stale_places *places = &stale->places[p];
    const struct stale_payload *payload = &stale->list->payload[p];
    const struct part_rows sent = halo_rows_out(stale->owners.own[i], payload->direction, payload->hop);
    int32_t k = part_pair_find(sent.pairs, (int32_t)key->to);
    struct halo_route *route = k >= 0 ? halo_routes_sent(&places->routes, i, k) : NULL;
    if (route == NULL) {
        return refuse(stale, key, "takes none of them");
    }
    if (!places->made || key->epoch > t->run.epoch) { /* who has all of this epoch's may ask for the next one's */
        return false;
    }
    if (key->epoch < t->run.epoch || route->begun) {
        return refuse(stale, key, key->epoch < t->run.epoch ? "is over" : "has them already");
    }
    route->begun = true;
    size_t n_bytes = (size_t)(route->n_row * places->n_row_bytes);
    *out = (struct exchange_piece){
        .bytes = stale->bytes + places->sent[stale->n_before[i] + k], .n_bytes = n_bytes, .total = n_bytes};
    return true;
}

/* --- fetches --- */

/* The next one that is to begin; NULL: all have begun. */
static const struct halo_route *fetch_next(struct stale *stale, int *p_out)
{
    for (; stale->n_begun < stale->n_queue; stale->n_begun++, stale->n_route = 0) {
        const struct halo_routes *routes = &stale->places[stale->queue[stale->n_begun]].routes;
        if (stale->n_route < routes->total.received.n) {
            *p_out = stale->queue[stale->n_begun];
            return &routes->take[stale->n_route++];
        }
    }
    stale->n_queue = stale->n_begun = 0;
    return NULL;
}

static enum status fetch_begin(struct stale *stale, int p, const struct halo_route *route,
                               struct stale_flight *flight)
{
    struct trainer *t = stale->trainer;
    const struct stale_payload *payload = &stale->list->payload[p];
    bool returns = payload->direction == HALO_DIRECTION_RETURN;
    int64_t n_bytes = route->n_row * stale->places[p].n_row_bytes;
    const struct exchange_key key = {.epoch = t->run.epoch,
                                     .phase = returns ? EXCHANGE_PHASE_STALE_GRADIENTS : EXCHANGE_PHASE_STALE_ROWS,
                                     .op = (uint16_t)payload->op,
                                     .to = (uint32_t)route->to,
                                     .from = (uint32_t)route->from};
    flight->open = true;
    enum status status = exchange_fetch(t->setup.exchange, t->setup.rank_of_part[route->from], &key,
                                        taken_at(stale, p, route->i, route->k), (size_t)n_bytes, &flight->handle);
    FAULT(EXCHANGE);
    return status;
}

enum status stale_progress(struct trainer *t)
{
    struct stale *stale = t->routes.stale;
    enum status status = STATUS_OK;
    for (int f = 0; f < STALE_N_FLIGHT && status == STATUS_OK; f++) {
        struct stale_flight *flight = &stale->flight[f];
        int p;
        if (flight->open && exchange_is_there(t->setup.exchange, flight->handle)) {
            status = exchange_wait(t->setup.exchange, flight->handle);
            flight->open = false;
        }
        const struct halo_route *next = status == STATUS_OK && !flight->open ? fetch_next(stale, &p) : NULL;
        if (next != NULL) {
            status = fetch_begin(stale, p, next, flight);
        }
    }
    return status;
}

/* One that is under way; -1: none is. */
static int flight_open(const struct stale *stale)
{
    for (int f = 0; f < STALE_N_FLIGHT; f++) {
        if (stale->flight[f].open) {
            return f;
        }
    }
    return -1;
}

enum status stale_settle(struct trainer *t)
{
    struct stale *stale = t->routes.stale;
    enum status status = stale_progress(t);
    for (int f = flight_open(stale); status == STATUS_OK && f >= 0; f = flight_open(stale)) {
        status = exchange_wait(t->setup.exchange, stale->flight[f].handle);
        stale->flight[f].open = false;
        status = status == STATUS_OK ? stale_progress(t) : status;
    }
    status = status == STATUS_OK ? exchange_stock_settle(t->setup.exchange) : status;
    for (int p = 0; p < stale->list->n; p++) {
        stale->places[p].made = false;
    }
    return status;
}

/* --- a pass --- */

/* Rows that gradients are made of, in the pass that makes these. */
static bool makes_asked(const struct halo *h, const struct stale_payload *payload)
{
    return payload->direction == HALO_DIRECTION_IN && h->pass->direction == HALO_DIRECTION_RETURN;
}

/* Own part i's payload for its pair k, to where it is kept. */
static void payload_make(struct halo *h, int p, int32_t i, int32_t k, void *out)
{
    const struct stale *stale = h->trainer->routes.stale;
    const struct stale_payload *payload = &stale->list->payload[p];
    if (makes_asked(h, payload)) {
        halo_pack_asked(h, i, k, out);
        return;
    }
    int rows = h->pass->n_ask > 0 ? stale_list_find(stale->list, payload->op, HALO_DIRECTION_IN) : -1;
    const struct halo_packing what = {.route = halo_route_at(h, i, k),
                                      .n_most = INT64_MAX,
                                      .asked = rows >= 0 ? taken_at(stale, rows, i, k) : NULL,
                                      .out = out};
    halo_pack(h, &what);
}

/* Own part i's payloads of all pairs: for parts of this rank to where they take it. */
static enum status payloads_make(struct halo *h, int p, int32_t i)
{
    const struct trainer *t = h->trainer;
    const struct stale *stale = t->routes.stale;
    const struct stale_payload *payload = &stale->list->payload[p];
    const struct part_rows sent = halo_rows_out(stale->owners.own[i], payload->direction, payload->hop);
    enum status status = STATUS_OK;
    for (int32_t k = 0; k < sent.pairs->n_pair && status == STATUS_OK; k++) {
        int32_t j = t->own.index[sent.pairs->pair[k].part];
        char *out = stale->bytes + stale->places[p].sent[stale->n_before[i] + k];
        if (part_rows_at(&sent, k) == 0) {
            continue;
        }
        if (j >= 0) {
            const struct part_rows received = halo_rows_in(stale->owners.own[j], payload->direction, payload->hop);
            out = taken_at(stale, p, j, part_pair_find(received.pairs, t->own.number[i]));
        }
        payload_make(h, p, i, k, out);
        status = exchange_progress(t->setup.exchange);
    }
    return status;
}

/* This epoch's payloads; those between ranks are on their way when it returns. */
static enum status replace(struct halo *h, int p)
{
    struct trainer *t = h->trainer;
    struct stale *stale = t->routes.stale;
    const struct stale_payload *payload = &stale->list->payload[p];
    struct halo_routes *routes = &stale->places[p].routes;
    const struct level *read = h->level;
    enum status status = STATUS_OK;
    halo_level(h, &t->run.level);
    stale->places[p].n_row_bytes = makes_asked(h, payload) ? h->slots.n_ask_row_bytes : h->slots.n_row_bytes;
    for (int32_t i = 0; i < t->own.n && status == STATUS_OK; i++) {
        status = payloads_make(h, p, i);
    }
    halo_level(h, read);
    if (status != STATUS_OK || routes->total.received.n + routes->total.sent.n == 0) {
        return status;
    }
    status = device_sync(t->device); /* what is sent is made, and what is overwritten is read */
    for (int32_t r = 0; r < routes->total.sent.n; r++) {
        routes->give[r].begun = false;
    }
    stale->places[p].made = true;
    stale->queue[stale->n_queue++] = p;
    exchange_stock_add(t->setup.exchange, routes->total.sent.n);
    return status == STATUS_OK ? stale_progress(t) : status;
}

/* Epoch 0 has nothing from before: its payloads are there when this returns. */
static enum status stale_begin(struct halo *h)
{
    struct trainer *t = h->trainer;
    enum halo_direction direction = h->pass->direction;
    int p = stale_list_find(t->routes.stale->list, h->step->op, direction);
    if (t->run.level.stale || t->routes.stale->list->payload[p].first_pass != h->step->pass) {
        return STATUS_OK;
    }
    enum status status = replace(h, p);
    return status == STATUS_OK ? stale_settle(t) : status;
}

/* Gradients first: they are made of the rows that were read. Those of epochs but 0 are then on their way. */
static enum status stale_end(struct halo *h)
{
    static const enum halo_direction order[] = {HALO_DIRECTION_RETURN, HALO_DIRECTION_IN};
    const struct stale_list *list = h->trainer->routes.stale->list;
    bool replaces = h->trainer->run.level.stale &&
                    !h->trainer->run.tentative; /* the exact run of the epoch replaces all, and waits for it */
    enum status status = STATUS_OK;
    for (int k = 0; k < 2 && status == STATUS_OK && replaces; k++) {
        int p = stale_list_find(list, h->step->op, order[k]);
        if (p >= 0 && list->payload[p].last_pass == h->step->pass) {
            status = replace(h, p);
        }
    }
    return status;
}

static enum status stale_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct stale *stale = h->trainer->routes.stale;
    int p = stale_list_find(stale->list, h->step->op, h->pass->direction);
    source_point(h, pair, taken_at(stale, p, pair->i, pair->k), call);
    return STATUS_OK;
}

const struct payload_source source_stale = {.take = stale_take, .begin = stale_begin, .end = stale_end};

/* --- opening and closing --- */

enum status stale_open(struct trainer *t)
{
    if (!t->program.lossy.stale) {
        return STATUS_OK;
    }
    struct stale *stale = t->routes.stale = memory_alloc(1, sizeof *stale);
    stale->trainer = t;
    stale->list = &t->plan.payloads.stale;
    stale->owners = own_parts_owners(&t->own);
    stale->n_before = memory_alloc((size_t)t->own.n + 1, sizeof *stale->n_before);
    for (int32_t i = 0; i < t->own.n; i++) {
        stale->n_before[i + 1] = stale->n_before[i] + halo_n_pair(stale->owners.own[i]);
        stale->n_place_bytes += stale_list_places(stale->list, stale->owners.own[i]);
    }
    size_t n_list = (size_t)stale->list->n, n_pair = (size_t)stale->n_before[t->own.n];
    stale->places = memory_alloc(n_list, sizeof *stale->places);
    stale->queue = memory_alloc(n_list, sizeof *stale->queue);
    for (size_t p = 0; p < n_list; p++) {
        struct stale_places *places = &stale->places[p];
        places->part = memory_alloc((size_t)t->own.n, sizeof *places->part);
        places->received = memory_alloc(n_pair, sizeof *places->received);
        places->sent = memory_alloc(n_pair, sizeof *places->sent);
        halo_routes_open(&stale->owners, &places->routes);
        halo_routes_list(&stale->owners, stale->list->payload[p].direction, stale->list->payload[p].hop,
                         &places->routes);
        stale->n_place_bytes += halo_routes_bytes(&stale->owners);
    }
    places_lay_out(stale);
    memory_count(MEMORY_STRUCTURE, stale->n_place_bytes);
    const struct exchange_stock stock = {.arg = stale, .find = stale_find};
    exchange_stock(t->setup.exchange, &stock);
    return t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_PAYLOADS, (size_t)t->plan.payloads.n_kept_bytes,
                           &stale->bytes);
}

void stale_close(struct trainer *t)
{
    struct stale *stale = t->routes.stale;
    if (stale == NULL) {
        return;
    }
    exchange_stock(t->setup.exchange, NULL);
    if (stale->bytes != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_PAYLOADS, stale->bytes,
                        (size_t)t->plan.payloads.n_kept_bytes);
    }
    memory_count(MEMORY_STRUCTURE, -stale->n_place_bytes);
    for (int p = 0; p < stale->list->n; p++) {
        free(stale->places[p].part);
        free(stale->places[p].received);
        free(stale->places[p].sent);
        halo_routes_close(&stale->places[p].routes);
    }
    free(stale->places);
    free(stale->queue);
    free(stale->n_before);
    free(stale);
    t->routes.stale = NULL;
}

/* --- state --- */

int64_t trainer_n_buffers(const struct trainer *t, int32_t part)
{
    ASSERT(part >= 0 && part < t->setup.n_part && t->own.index[part] >= 0);
    const struct part_halo *own = &t->setup.parts[part]->halo;
    return stale_list_floats(&t->plan.payloads.stale, own) + feedback_list_floats(&t->plan.payloads.feedback, own);
}

/* Payload after payload. */
enum status trainer_get_buffers(struct trainer *t, int32_t part, float *to)
{
    const struct stale *stale = t->routes.stale;
    int32_t i = t->own.index[part];
    enum status status = device_sync(t->device);
    for (int p = 0; stale != NULL && p < stale->list->n && status == STATUS_OK; p++) {
        int64_t n_bytes = stale_part_bytes(&stale->list->payload[p], stale->owners.own[i]);
        memcpy(to, stale->bytes + stale->places[p].part[i], (size_t)n_bytes);
        to += n_bytes / (int64_t)sizeof *to;
    }
    return status == STATUS_OK && t->routes.feedback != NULL ? feedback_get(t, i, to) : status;
}

enum status trainer_set_buffers(struct trainer *t, int32_t part, const float *from)
{
    struct stale *stale = t->routes.stale;
    int32_t i = t->own.index[part];
    enum status status = device_sync(t->device);
    for (int p = 0; stale != NULL && p < stale->list->n && status == STATUS_OK; p++) {
        int64_t n_bytes = stale_part_bytes(&stale->list->payload[p], stale->owners.own[i]);
        memcpy(stale->bytes + stale->places[p].part[i], from, (size_t)n_bytes);
        from += n_bytes / (int64_t)sizeof *from;
    }
    return status == STATUS_OK && t->routes.feedback != NULL ? feedback_set(t, i, from) : status;
}
