/* Requests that come before their op wait in a fixed table; fetches are found by key. Both tables are small
 * (credits), so they are searched from the front. */
#include "worker/exchange/exchange.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "worker/exchange/traffic.h"
#include "worker/trace/trace.h"

#include <stdlib.h>

/* How long one sleep may last: a lost wake-up costs this much and no more. */
#define WAIT_MS 5

struct request {
    bool waits;
    uint32_t peer;
    struct exchange_key key;
    size_t n_given; /* bytes on their way, or there */
};

/* A lent piece that is being copied. */
struct copy {
    bool open;
    size_t offset, n_bytes; /* of the payload */
    uint64_t mark;
};

struct fetch {
    bool open, there;
    uint32_t peer;
    struct exchange_key key;
    char *out;
    size_t n_bytes;
    size_t n_placed, n_arrived; /* bytes */
    uint64_t after;             /* a mark of the device: `out` may be written */
    struct copy copy[EXCHANGE_LOANS_MOST];
};

/* A piece on its way out: `n_pending` is the transport's. */
struct serving {
    bool open;
    bool of_stock;
    bool lent; /* and not yet read: by `peer`, the payload's bytes from `offset` on */
    int n_pending;
    const void *bytes;
    uint32_t peer;
    struct exchange_key key;
    size_t offset;
    struct exchange_loan loan; /* as it is sent */
};

struct exchange {
    struct transport *transport;
    int n_request, n_fetch;
    struct request *request;
    int n_waiting;           /* of them */
    struct serving *serving; /* n_request */
    struct fetch *fetch;
    struct exchange_key offered;
    struct exchange_offer offer;
    int n_unserved; /* of the present offer: not yet asked for and sent */
    int n_under_way;
    struct exchange_stock stock;
    int64_t n_stock; /* likewise of the stock */
    int n_stock_under_way;
    enum status stuck;
    bool makes;   /* a payload, or a piece of one */
    bool hurries; /* one is made in a moment */
    struct exchange_counts counts;
    struct lending {
        struct exchange_lender lender; /* all NULL: nothing is lent or copied */
        struct exchange_loan came;
        int n_copy; /* of all fetches */
    } lend;
    struct trace *trace;     /* NULL: none */
    struct traffic *traffic; /* likewise */
    char nothing;            /* where bodies of no bytes go */
};

struct exchange *exchange_open(int n_request, int n_fetch)
{
    struct exchange *x = memory_alloc(1, sizeof *x);
    x->n_request = n_request > 0 ? n_request : 1;
    x->n_fetch = n_fetch > 0 ? n_fetch : 1;
    x->request = memory_alloc((size_t)x->n_request, sizeof *x->request);
    x->serving = memory_alloc((size_t)x->n_request, sizeof *x->serving);
    x->fetch = memory_alloc((size_t)x->n_fetch, sizeof *x->fetch);
    return x;
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

void exchange_lend(struct exchange *x, const struct exchange_lender *lender)
{
    if (x->lend.lender.leave != NULL) {
        x->lend.lender.leave(x->lend.lender.arg);
    }
    x->lend.lender = lender != NULL ? *lender : (struct exchange_lender){0};
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

static bool same_key(const struct exchange_key *a, const struct exchange_key *b)
{
    return same_round(a, b) && a->to == b->to && a->from == b->from;
}

static bool is_of_stock(const struct exchange_key *key)
{
    return key->phase == EXCHANGE_PHASE_STALE_ROWS || key->phase == EXCHANGE_PHASE_STALE_GRADIENTS;
}

/* Is it asked for by a payload that is offered now? */
static bool is_asked(const struct exchange *x, const struct exchange_key *key)
{
    return x->offer.pack_asked != NULL && key->phase == EXCHANGE_PHASE_ASK && key->epoch == x->offered.epoch &&
           key->op == x->offered.op;
}

enum status exchange_fail(struct exchange *x, enum status code)
{
    if (x->stuck == STATUS_OK) {
        x->stuck = code;
    }
    return x->stuck;
}

static struct fetch *fetch_find(struct exchange *x, const struct transport_head *head)
{
    struct exchange_key key = head_key(head);
    for (int i = 0; i < x->n_fetch; i++) {
        struct fetch *f = &x->fetch[i];
        if (f->open && !f->there && f->peer == head->sender && same_key(&f->key, &key)) {
            return f;
        }
    }
    return NULL;
}

/* Is this piece part of what was asked for, once? */
static enum status piece_check(const struct fetch *f, const struct transport_head *head, size_t n_bytes)
{
    if (f == NULL) {
        return status_fail(STATUS_PEER, "worker %u sent a payload for part %u from part %u that was not asked for",
                           head->sender, head->to, head->from);
    }
    if (head->total != f->n_bytes) {
        return status_fail(STATUS_PEER, "worker %u sent %llu bytes for part %u from part %u, expected %zu",
                           head->sender, (unsigned long long)head->total, head->to, head->from, f->n_bytes);
    }
    if (n_bytes > f->n_bytes - f->n_placed || head->offset > f->n_bytes - n_bytes) {
        return status_fail(STATUS_PEER,
                           "worker %u sent %zu bytes at %llu for part %u from part %u, expected %zu more of %zu",
                           head->sender, n_bytes, (unsigned long long)head->offset, head->to, head->from,
                           f->n_bytes - f->n_placed, f->n_bytes);
    }
    return STATUS_OK;
}

void *exchange_place(struct exchange *x, const struct transport_head *head, size_t n_bytes)
{
    if (head->kind != TRANSPORT_KIND_PAYLOAD) {
        size_t expected = head->kind == TRANSPORT_KIND_LENT ? sizeof x->lend.came : 0;
        if (n_bytes != expected) {
            exchange_fail(x, status_fail(STATUS_PEER,
                                         "worker %u sent a message of kind %u with a body of %zu bytes, expected %zu",
                                         head->sender, head->kind, n_bytes, expected));
            return NULL;
        }
        return expected > 0 ? (void *)&x->lend.came : &x->nothing;
    }
    struct fetch *f = fetch_find(x, head);
    enum status status = piece_check(f, head, n_bytes);
    if (status != STATUS_OK) {
        exchange_fail(x, status);
        return NULL;
    }
    f->n_placed += n_bytes;
    return n_bytes > 0 ? f->out + head->offset : &x->nothing;
}

static void request_arrived(struct exchange *x, const struct transport_head *head)
{
    for (int i = 0; i < x->n_request; i++) {
        if (!x->request[i].waits) {
            x->request[i] = (struct request){.waits = true, .peer = head->sender, .key = head_key(head)};
            x->n_waiting++;
            return;
        }
    }
    exchange_fail(x, status_fail(STATUS_PEER, "worker %u asks for more than its credit of %d payloads", head->sender,
                                 x->n_request));
}

static void piece_arrived(struct exchange *x, struct fetch *f, size_t n_bytes)
{
    f->n_arrived += n_bytes;
    f->there = f->n_arrived == f->n_bytes;
    if (x->traffic != NULL) {
        traffic_add(x->traffic, f->key.phase, f->key.op, f->peer, n_bytes);
    }
}

static void payload_arrived(struct exchange *x, const struct transport_head *head, size_t n_bytes)
{
    struct fetch *f = fetch_find(x, head);
    enum status status = n_bytes == 0 ? piece_check(f, head, 0) : STATUS_OK; /* no place was asked for */
    if (status != STATUS_OK) {
        exchange_fail(x, status);
    } else if (f != NULL) {
        piece_arrived(x, f, n_bytes);
    }
}

/* Begin to copy what was lent. */
static enum status loan_copy(struct exchange *x, const struct transport_head *head, const struct exchange_loan *loan)
{
    struct fetch *f = fetch_find(x, head);
    enum status status = piece_check(f, head, loan->n_bytes);
    if (status != STATUS_OK) {
        return status;
    }
    int c = 0;
    while (c < EXCHANGE_LOANS_MOST && f->copy[c].open) {
        c++;
    }
    if (c == EXCHANGE_LOANS_MOST || x->lend.lender.copy == NULL) {
        return status_fail(STATUS_PEER, "worker %u lent more than %d pieces for part %u from part %u at once",
                           head->sender, x->lend.lender.copy != NULL ? c : 0, head->to, head->from);
    }
    f->copy[c] = (struct copy){.open = true, .offset = head->offset, .n_bytes = loan->n_bytes};
    f->n_placed += loan->n_bytes;
    x->lend.n_copy++;
    return x->lend.lender.copy(x->lend.lender.arg, head->sender, loan, f->after, f->out + head->offset,
                               &f->copy[c].mark);
}

/* What was lent may be written again. */
static enum status loan_end(struct exchange *x, const struct transport_head *head)
{
    struct exchange_key key = head_key(head);
    for (int i = 0; i < x->n_request; i++) {
        struct serving *s = &x->serving[i];
        if (s->open && s->lent && s->peer == head->sender && s->offset == head->offset && same_key(&s->key, &key)) {
            s->lent = false;
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_PEER, "worker %u has read what it was not lent, for part %u from part %u", head->sender,
                       head->to, head->from);
}

void exchange_arrived(struct exchange *x, const struct transport_head *head, void *body, size_t n_bytes)
{
    switch (head->kind) {
    case TRANSPORT_KIND_FETCH:
        request_arrived(x, head);
        break;
    case TRANSPORT_KIND_LENT: /* without a body: 0 bytes that lie nowhere */
        exchange_fail(x, loan_copy(x, head, body != NULL ? body : &(struct exchange_loan){0}));
        break;
    case TRANSPORT_KIND_READ:
        exchange_fail(x, loan_end(x, head));
        break;
    default:
        payload_arrived(x, head, n_bytes);
    }
}

void exchange_serve(struct exchange *x, const struct exchange_key *key, const struct exchange_offer *offer,
                    int n_serve)
{
    ASSERT(x->n_unserved == 0 && x->n_under_way == 0);
    x->offered = *key;
    x->offer = *offer;
    x->n_unserved = n_serve;
}

/* Retire what has been sent: its memory may be used again. */
static void sent_collect(struct exchange *x)
{
    for (int i = 0; x->n_under_way + x->n_stock_under_way > 0 && i < x->n_request; i++) {
        struct serving *s = &x->serving[i];
        if (s->open && s->n_pending == 0 && !s->lent) {
            s->open = false;
            *(s->of_stock ? &x->n_stock_under_way : &x->n_under_way) -= 1;
            if (!s->of_stock && x->offer.sent != NULL) {
                x->offer.sent(x->offer.arg, s->bytes);
            }
        }
    }
}

static enum status piece_send(struct exchange *x, struct request *request, const struct exchange_piece *piece)
{
    struct serving *s = x->serving;
    while (s->open) {
        s++;
    }
    bool of_stock = is_of_stock(&request->key);
    *s = (struct serving){.open = true,
                          .of_stock = of_stock,
                          .bytes = piece->bytes,
                          .peer = request->peer,
                          .key = request->key,
                          .offset = request->n_given};
    s->lent = x->lend.lender.lend != NULL && piece->n_bytes > 0 &&
              x->lend.lender.lend(x->lend.lender.arg, request->peer, piece, &s->loan);
    struct transport_head head = key_head(s->lent ? TRANSPORT_KIND_LENT : TRANSPORT_KIND_PAYLOAD, &request->key);
    head.offset = request->n_given;
    head.total = piece->total;
    x->counts.n_sent++;
    *(s->lent ? &x->counts.n_lent : &x->counts.n_carried) += (int64_t)piece->n_bytes;
    *(of_stock ? &x->n_stock_under_way : &x->n_under_way) += 1;
    request->n_given += piece->n_bytes;
    if (request->n_given == piece->total) {
        request->waits = false;
        x->n_waiting--;
        x->n_stock -= of_stock;
        x->n_unserved -= !of_stock;
    }
    return exchange_fail(x, transport_send(x->transport, s->peer, &head, s->lent ? &s->loan : piece->bytes,
                                           s->lent ? sizeof s->loan : piece->n_bytes, &s->n_pending));
}

/* The next bytes of what is asked for; false: not yet. */
static bool piece_make(struct exchange *x, const struct request *request, struct exchange_piece *out)
{
    const struct exchange_key *key = &request->key;
    if (is_of_stock(key)) {
        return x->stock.find(x->stock.arg, key, out);
    }
    x->makes = true;
    bool made = (is_asked(x, key) ? x->offer.pack_asked : x->offer.pack)(x->offer.arg, key->to, key->from,
                                                                         request->n_given, out);
    x->makes = false;
    return made;
}

/* As much of one payload as its slot takes. */
static enum status request_serve(struct exchange *x, struct request *request)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && request->waits && x->n_under_way + x->n_stock_under_way < x->n_request) {
        struct exchange_piece piece;
        if (!piece_make(x, request, &piece)) {
            return STATUS_OK;
        }
        status = piece_send(x, request, &piece);
    }
    return status;
}

/* May it be served now? */
static bool is_served(const struct exchange *x, const struct exchange_key *key)
{
    if (is_of_stock(key)) {
        return x->n_stock > 0;
    }
    return x->n_unserved > 0 && (same_round(key, &x->offered) || is_asked(x, key));
}

/* When a taker uses a payload: part i those of i + 1, i + 2, … round the circle of parts, which unsigned differences
 * keep in order. */
static uint32_t turn_of(const struct exchange_key *key)
{
    return key->from - key->to - 1;
}

/* The request to be served behind `last` (NULL: at first): the one whose taker uses it soonest; NULL: there is
 * none. */
static struct request *request_next(struct exchange *x, const struct request *last)
{
    struct request *next = NULL;
    for (struct request *r = x->request; r < x->request + x->n_request; r++) {
        bool later = last == NULL || turn_of(&r->key) > turn_of(&last->key) ||
                     (turn_of(&r->key) == turn_of(&last->key) && r > last);
        if (r->waits && later && is_served(x, &r->key) && (next == NULL || turn_of(&r->key) < turn_of(&next->key))) {
            next = r;
        }
    }
    return next;
}

/* Answer what can be answered now. Where all ranks walk the circle at the same pace, each then sends to one of the
 * others at a time, and receives from one, so that every link is in use both ways. */
static enum status requests_serve(struct exchange *x)
{
    sent_collect(x);
    enum status status = x->stuck;
    struct request *request = NULL;
    while (status == STATUS_OK && x->n_waiting > 0 && x->n_unserved + x->n_stock > 0 &&
           (request = request_next(x, request)) != NULL) {
        status = request_serve(x, request);
    }
    return status == STATUS_OK ? x->stuck : status;
}

enum status exchange_fetch(struct exchange *x, uint32_t peer, const struct exchange_key *key, void *out,
                           size_t n_bytes, int *handle_out)
{
    int i = 0;
    while (x->fetch[i].open) {
        i++;
        ASSERT(i < x->n_fetch);
    }
    x->fetch[i] = (struct fetch){.open = true, .peer = peer, .key = *key, .out = out, .n_bytes = n_bytes};
    *handle_out = i;
    x->counts.n_fetched++;
    struct transport_head head = key_head(TRANSPORT_KIND_FETCH, key);
    return exchange_fail(x, transport_send(x->transport, peer, &head, NULL, 0, NULL));
}

/* One copy has ended: tell who lent it. */
static void copy_end(struct exchange *x, struct fetch *f, struct copy *copy)
{
    struct transport_head head = key_head(TRANSPORT_KIND_READ, &f->key);
    head.offset = copy->offset;
    copy->open = false;
    x->lend.n_copy--;
    x->counts.n_copied += (int64_t)copy->n_bytes;
    piece_arrived(x, f, copy->n_bytes);
    exchange_fail(x, transport_send(x->transport, f->peer, &head, NULL, 0, NULL));
}

/* Copies that have ended, of those under way, which keep from sleeping. */
static enum status copies_collect(struct exchange *x)
{
    x->hurries = x->hurries || x->lend.n_copy > 0;
    for (struct fetch *f = x->fetch; x->lend.n_copy > 0 && f < x->fetch + x->n_fetch; f++) {
        for (int c = 0; f->open && c < EXCHANGE_LOANS_MOST; c++) {
            if (f->copy[c].open && x->lend.lender.copied(x->lend.lender.arg, f->copy[c].mark)) {
                copy_end(x, f, &f->copy[c]);
            }
        }
    }
    return x->stuck;
}

/* One turn of any waiting loop: serve, then let messages move. */
static enum status turn(struct exchange *x)
{
    x->hurries = false;
    enum status status = copies_collect(x);
    if (status == STATUS_OK) {
        status = requests_serve(x);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return exchange_fail(x, x->hurries ? transport_progress(x->transport) : transport_wait(x->transport, WAIT_MS));
}

void exchange_hurry(struct exchange *x)
{
    x->hurries = true;
}

void exchange_after(struct exchange *x, int handle, uint64_t mark)
{
    x->fetch[handle].after = mark;
}

bool exchange_reaches_gpus(const struct exchange *x)
{
    return x->transport != NULL && transport_reaches_gpus(x->transport);
}

bool exchange_seals(const struct exchange *x)
{
    return x->transport != NULL && transport_seals(x->transport);
}

struct exchange_counts exchange_counts(const struct exchange *x)
{
    return x->counts;
}

void exchange_trace(struct exchange *x, struct trace *trace)
{
    x->trace = trace;
}

void exchange_count(struct exchange *x, struct traffic *traffic)
{
    x->traffic = traffic;
}

/* A wait; not every one has to. */
struct wait {
    bool waits;
    double start_s, pack_s;
};

static struct wait wait_begin(const struct exchange *x, bool waits)
{
    return (struct wait){.waits = waits, .start_s = clock_s(), .pack_s = x->counts.pack_s};
}

static void wait_end(struct exchange *x, const struct wait *wait)
{
    x->counts.wait_s += clock_s() - wait->start_s - (x->counts.pack_s - wait->pack_s);
    if (x->trace != NULL && wait->waits) {
        trace_add(x->trace, TRACE_KIND_WAIT, wait->start_s, -1);
    }
}

bool exchange_is_there(const struct exchange *x, int handle)
{
    return x->fetch[handle].there;
}

enum status exchange_wait(struct exchange *x, int handle)
{
    struct fetch *f = &x->fetch[handle];
    const struct wait wait = wait_begin(x, !f->there);
    enum status status = x->stuck;
    while (!f->there && status == STATUS_OK) {
        status = turn(x);
    }
    f->open = false;
    wait_end(x, &wait);
    return status;
}

enum status exchange_settle(struct exchange *x)
{
    const struct wait wait = wait_begin(x, x->n_unserved > 0 || x->n_under_way > 0);
    enum status status = x->stuck;
    while ((x->n_unserved > 0 || x->n_under_way > 0) && status == STATUS_OK) {
        status = turn(x);
        sent_collect(x);
    }
    wait_end(x, &wait);
    return status;
}

void exchange_stock(struct exchange *x, const struct exchange_stock *stock)
{
    x->n_stock = 0;
    x->stock = stock != NULL ? *stock : (struct exchange_stock){0};
}

void exchange_stock_add(struct exchange *x, int64_t n)
{
    ASSERT(x->stock.find != NULL || n == 0);
    x->n_stock += n;
}

enum status exchange_stock_settle(struct exchange *x)
{
    const struct wait wait = wait_begin(x, x->n_stock > 0 || x->n_stock_under_way > 0);
    enum status status = x->stuck;
    while ((x->n_stock > 0 || x->n_stock_under_way > 0) && status == STATUS_OK) {
        status = turn(x);
        sent_collect(x);
    }
    wait_end(x, &wait);
    return status;
}

enum status exchange_progress(struct exchange *x)
{
    if (x->transport == NULL || x->stuck != STATUS_OK || x->makes) {
        return x->stuck;
    }
    exchange_fail(x, transport_progress(x->transport));
    return copies_collect(x) == STATUS_OK ? requests_serve(x) : x->stuck;
}

void exchange_hold(struct exchange *x, bool holds)
{
    x->makes = holds;
}

void exchange_packed(struct exchange *x, double begin_s)
{
    x->counts.pack_s += clock_s() - begin_s;
}
