/* Requests that come before their op wait in a fixed table; fetches are found by key. Both tables are small (credits), so they
 * are searched from the front. */
#include "worker/exchange.h"

#include "protocol/log.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <time.h>

/* How long one sleep may last: a lost wake-up costs this much and no more. */
#define WAIT_MS 5

struct request {
    bool waits;
    uint32_t peer;
    struct exchange_key key;
};

struct fetch {
    bool open, there;
    uint32_t peer;
    struct exchange_key key;
    void *room;
    size_t n_bytes;
};

/* A payload on its way out: `n_pending` is the transport's. */
struct serving {
    bool open;
    int n_pending;
    uint32_t to, from;
};

struct exchange {
    struct transport *transport;
    int n_request, n_fetch;
    struct request *request;
    struct serving *serving; /* n_request */
    struct fetch *fetch;
    struct exchange_key offered;
    struct exchange_offer offer;
    int n_unserved;          /* of the present offer: not yet asked for and sent */
    int n_under_way;
    enum status stuck;
    double wait_s;
    char nothing;            /* where bodies of no bytes go */
};

enum status exchange_open(int n_request, int n_fetch, struct exchange **out)
{
    struct exchange *x = memory_alloc(1, sizeof *x);
    x->n_request = n_request > 0 ? n_request : 1;
    x->n_fetch = n_fetch > 0 ? n_fetch : 1;
    x->request = memory_alloc((size_t)x->n_request, sizeof *x->request);
    x->serving = memory_alloc((size_t)x->n_request, sizeof *x->serving);
    x->fetch = memory_alloc((size_t)x->n_fetch, sizeof *x->fetch);
    *out = x;
    return STATUS_OK;
}

void exchange_close(struct exchange *x)
{
    if (x == NULL) {
        return;
    }
    free(x->fetch);
    free(x->serving);
    free(x->request);
    free(x);
}

void exchange_attach(struct exchange *x, struct transport *transport)
{
    x->transport = transport;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct exchange_key head_key(const struct transport_head *head)
{
    return (struct exchange_key){
        .epoch = head->epoch, .phase = head->phase, .op = head->id, .to = head->to, .from = head->from};
}

static struct transport_head key_head(enum transport_kind kind, const struct exchange_key *key)
{
    return (struct transport_head){.kind = (uint16_t)kind,
                                   .id = key->op,
                                   .epoch = key->epoch,
                                   .phase = key->phase,
                                   .to = key->to,
                                   .from = key->from};
}

static bool same_round(const struct exchange_key *a, const struct exchange_key *b)
{
    return a->epoch == b->epoch && a->phase == b->phase && a->op == b->op;
}

static enum status fail(struct exchange *x, enum status code)
{
    if (x->stuck == STATUS_OK) {
        x->stuck = code;
    }
    return x->stuck;
}

void *exchange_place(struct exchange *x, const struct transport_head *head, size_t n_bytes)
{
    if (head->kind == TRANSPORT_KIND_FETCH) {
        if (n_bytes != 0) {
            fail(x, status_fail(STATUS_PEER, "worker %u sent a request with a body of %zu bytes, expected none",
                                head->sender, n_bytes));
            return NULL;
        }
        return &x->nothing;
    }
    struct exchange_key key = head_key(head);
    for (int i = 0; i < x->n_fetch; i++) {
        struct fetch *f = &x->fetch[i];
        if (f->open && !f->there && f->peer == head->sender && same_round(&f->key, &key) && f->key.to == key.to &&
            f->key.from == key.from) {
            if (f->n_bytes == n_bytes) {
                return n_bytes > 0 ? f->room : &x->nothing;
            }
            fail(x, status_fail(STATUS_PEER, "worker %u sent %zu bytes for part %u from part %u, expected %zu",
                                head->sender, n_bytes, key.to, key.from, f->n_bytes));
            return NULL;
        }
    }
    fail(x, status_fail(STATUS_PEER, "worker %u sent a payload for part %u from part %u that was not asked for",
                        head->sender, key.to, key.from));
    return NULL;
}

void exchange_arrived(struct exchange *x, const struct transport_head *head, void *body, size_t n_bytes)
{
    (void)n_bytes;
    struct exchange_key key = head_key(head);
    if (head->kind == TRANSPORT_KIND_FETCH) {
        for (int i = 0; i < x->n_request; i++) {
            if (!x->request[i].waits) {
                x->request[i] = (struct request){.waits = true, .peer = head->sender, .key = key};
                return;
            }
        }
        fail(x, status_fail(STATUS_PEER, "worker %u asks for more than its credit of %d payloads", head->sender,
                            x->n_request));
        return;
    }
    for (int i = 0; i < x->n_fetch; i++) {
        struct fetch *f = &x->fetch[i];
        if (f->open && !f->there && (body == f->room || f->n_bytes == 0) && same_round(&f->key, &key) &&
            f->key.to == key.to && f->key.from == key.from) {
            f->there = true;
            return;
        }
    }
}

void exchange_serve(struct exchange *x, const struct exchange_key *key, const struct exchange_offer *offer, int n_serve)
{
    ASSERT(x->n_unserved == 0 && x->n_under_way == 0);
    x->offered = *key;
    x->offer = *offer;
    x->n_unserved = n_serve;
}

/* Retire what has been sent: its memory may be used again. */
static void sent_collect(struct exchange *x)
{
    for (int i = 0; x->n_under_way > 0 && i < x->n_request; i++) {
        struct serving *s = &x->serving[i];
        if (s->open && s->n_pending == 0) {
            s->open = false;
            x->n_under_way--;
            if (x->offer.sent != NULL) {
                x->offer.sent(x->offer.arg, s->to, s->from);
            }
        }
    }
}

static enum status request_answer(struct exchange *x, struct request *request, const void *body, size_t n_bytes)
{
    struct serving *s = x->serving;
    while (s->open) {
        s++;
    }
    *s = (struct serving){.open = true, .to = request->key.to, .from = request->key.from};
    struct transport_head head = key_head(TRANSPORT_KIND_PAYLOAD, &request->key);
    request->waits = false;
    x->n_under_way++;
    x->n_unserved--;
    return fail(x, transport_send(x->transport, request->peer, &head, body, n_bytes, &s->n_pending));
}

/* Answer what can be answered now. */
static enum status requests_serve(struct exchange *x)
{
    sent_collect(x);
    for (int i = 0; x->n_unserved > 0 && i < x->n_request; i++) {
        struct request *request = &x->request[i];
        if (!request->waits || !same_round(&request->key, &x->offered) || x->n_under_way == x->n_request) {
            continue;
        }
        size_t n_bytes;
        const void *body = x->offer.pack(x->offer.arg, request->key.to, request->key.from, &n_bytes);
        if (body == NULL) {
            continue;
        }
        enum status status = request_answer(x, request, body, n_bytes);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return x->stuck;
}

enum status exchange_fetch(struct exchange *x, uint32_t peer, const struct exchange_key *key, void *room, size_t n_bytes,
                           int *handle_out)
{
    int i = 0;
    while (x->fetch[i].open) {
        i++;
        ASSERT(i < x->n_fetch);
    }
    x->fetch[i] = (struct fetch){.open = true, .peer = peer, .key = *key, .room = room, .n_bytes = n_bytes};
    *handle_out = i;
    struct transport_head head = key_head(TRANSPORT_KIND_FETCH, key);
    return fail(x, transport_send(x->transport, peer, &head, NULL, 0, NULL));
}

/* One turn of any waiting loop: serve, then let messages move. */
static enum status turn(struct exchange *x)
{
    enum status status = requests_serve(x);
    if (status != STATUS_OK) {
        return status;
    }
    return fail(x, transport_wait(x->transport, WAIT_MS));
}

enum status exchange_wait(struct exchange *x, int handle)
{
    double start = now_s();
    struct fetch *f = &x->fetch[handle];
    enum status status = x->stuck;
    while (!f->there && status == STATUS_OK) {
        status = turn(x);
    }
    f->open = false;
    x->wait_s += now_s() - start;
    return status;
}

enum status exchange_settle(struct exchange *x)
{
    double start = now_s();
    enum status status = x->stuck;
    while ((x->n_unserved > 0 || x->n_under_way > 0) && status == STATUS_OK) {
        status = turn(x);
        sent_collect(x);
    }
    x->wait_s += now_s() - start;
    return status;
}

enum status exchange_progress(struct exchange *x)
{
    if (x->transport == NULL || x->stuck != STATUS_OK) {
        return x->stuck;
    }
    fail(x, transport_progress(x->transport));
    return requests_serve(x);
}

double exchange_wait_s(const struct exchange *x)
{
    return x->wait_s;
}
