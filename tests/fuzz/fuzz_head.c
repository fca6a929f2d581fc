/* Any heads, with any lengths of body, to all receivers: a worker's session, its exchange and the fleet. A message is refused, or its
 * body is placed inside the buffer of its head, where it may arrive while that buffer is waited for. The transport is a fake in this
 * file: it delivers the messages of the input (head_input.h), and sends nothing.
 */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/transport/transport_head.h"
#include "tests/fuzz/head_input.h"
#include "trainerd/coordinator/fleet/fleet_state.h"
#include "worker/exchange/exchange.h"
#include "worker/session/session_state.h"
#include "worker/state/trainer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ATTEMPT = 7, N_PART = 4, N_FETCH = 3, N_LATER = 8, N_WEIGHT = 25, BODY_MOST = 64 };

/* One receiver's end. */
struct transport {
    struct transport_events events;
    uint32_t self;
    bool failed;
};

struct arrival {
    struct transport *transport;
    struct transport_head head;
    void *body;
    size_t n_bytes;
    uint8_t bytes[BODY_MOST]; /* the body begins with these */
};

static struct {
    const uint8_t *at;
    size_t n;
} input;
static struct transport ends[2];
static struct session *session;
static struct trainer trainer;
static struct part parts[N_PART];
static struct fleet fleet;
static struct fetch {
    char *buffer; /* NULL: the fetch is complete */
    size_t n_bytes;
    int handle;
} fetches[N_FETCH];
static struct arrival later[N_LATER];
static size_t n_later;
static bool is_waiting;

static const uint32_t rank_of_part[N_PART] = {0, 1, 0, 2};
static const int32_t own_index[N_PART] = {0, -1, 1, -1};
static const size_t fetch_bytes[N_FETCH] = {80, 0, 12};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* --- the input --- */

static bool input_take(void *to, size_t n)
{
    size_t there = n < input.n ? n : input.n;
    memcpy(to, input.at, there);
    memset((char *)to + there, 0, n - there);
    input.at += there;
    input.n -= there;
    return there == n;
}

/* --- what must hold --- */

static void inside(const void *buffer, size_t n_buffer, const struct arrival *a)
{
    size_t at = (size_t)((const char *)a->body - (const char *)buffer);
    ASSERT(buffer != NULL && at <= n_buffer && a->n_bytes <= n_buffer - at);
    ASSERT(a->head.kind == TRANSPORT_KIND_COMMAND || a->head.kind == TRANSPORT_KIND_REPORT || at == a->head.offset);
}

static void session_check(const struct arrival *a)
{
    if (a->head.kind == TRANSPORT_KIND_COMMAND) {
        inside(session->command.bytes, session->command.n_room, a);
        for (size_t i = 0; i < n_later; i++) { /* there is one buffer, which may be reallocated */
            ASSERT(later[i].transport != a->transport || later[i].head.kind != TRANSPORT_KIND_COMMAND);
        }
    } else if (a->head.kind == TRANSPORT_KIND_PAYLOAD) {
        ASSERT(a->head.from < N_FETCH && a->head.sender == 1);
        inside(fetches[a->head.from].buffer, fetches[a->head.from].n_bytes, a);
    } else if (a->head.kind != TRANSPORT_KIND_LENT) { /* which has a place of its own */
        ASSERT(a->head.kind == TRANSPORT_KIND_DATA && a->head.sender == session->n_rank);
        ASSERT(a->head.id != MESSAGE_ID_part || a->head.to < (uint32_t)session->placed.n_part);
        const struct session_bytes *to = a->head.id == MESSAGE_ID_part ? &session->placed.parts[a->head.to].raw
                                                                       : &session->put_bytes;
        ASSERT(to->n_got + a->n_bytes <= to->n_bytes); /* complete bytes are not written again */
        inside(to->bytes, to->n_bytes, a);
    }
}

static void fleet_check(const struct arrival *a)
{
    ASSERT(a->head.sender < N_RANK);
    if (a->head.kind == TRANSPORT_KIND_REPORT) {
        inside(fleet.workers[a->head.sender].answer, sizeof fleet.workers->answer, a);
    } else {
        ASSERT(a->head.kind == TRANSPORT_KIND_DATA && fleet.transfer.n_got + a->n_bytes <= fleet.transfer.n);
        inside(fleet.transfer.to, fleet.transfer.n, a);
    }
}

/* --- messages --- */

static void arrive(const struct arrival *a)
{
    if (a->body != NULL) {
        memset(a->body, 0, a->n_bytes);
        memcpy(a->body, a->bytes, a->n_bytes < BODY_MOST ? a->n_bytes : BODY_MOST);
    }
    a->transport->events.arrived(a->transport->events.arg, &a->head, a->body, a->n_bytes);
}

static void arrive_oldest(void)
{
    if (n_later > 0) {
        struct arrival first = later[0];
        memmove(later, later + 1, --n_later * sizeof later[0]);
        arrive(&first);
    }
}

/* As a transport does: ask for a place where there is a body, and deliver nothing after a refusal. */
static void hand_over(struct arrival *a, bool comes_later)
{
    if (a->n_bytes > 0) {
        a->body = a->transport->events.place(a->transport->events.arg, &a->head, a->n_bytes);
        a->transport->failed = a->body == NULL;
        if (a->body == NULL) {
            return;
        }
        (a->transport == &ends[0] ? session_check : fleet_check)(a);
    }
    if (comes_later && n_later < N_LATER && a->n_bytes > 0) {
        later[n_later++] = *a;
    } else {
        arrive(a);
    }
}

static void record_send(struct record *record)
{
    struct arrival a = {.transport = &ends[(record->how & HOW_FLEET) != 0]};
    size_t n_head = (record->how & HOW_SHORT) != 0 ? record->n_head : sizeof record->head;
    uint8_t *bytes = memory_alloc(n_head, 1); /* of exactly that length */
    if ((record->how & HOW_REPAIRED) != 0) {
        record->head.magic = TRANSPORT_MAGIC;
        record->head.attempt = ATTEMPT;
    }
    memcpy(bytes, &record->head, n_head < sizeof record->head ? n_head : sizeof record->head);
    bool is_fresh = false;
    const struct transport_reader reader = {a.transport->self, N_RANK + 1, ATTEMPT};
    enum status status = a.transport->failed ? STATUS_PEER
                                             : transport_head_read(bytes, n_head, &reader, &a.head, &is_fresh);
    free(bytes);
    memcpy(&a.n_bytes, record->n_bytes, sizeof a.n_bytes);
    a.n_bytes = (record->how & HOW_SMALL) != 0 ? a.n_bytes & 0xff : a.n_bytes;
    if (a.head.kind == TRANSPORT_KIND_COMMAND || a.head.kind == TRANSPORT_KIND_REPORT) {
        input_take(a.bytes, a.n_bytes < BODY_MOST ? a.n_bytes : BODY_MOST);
    }
    if (status != STATUS_OK || !is_fresh) {
        a.transport->failed = a.transport->failed || status != STATUS_OK;
        return;
    }
    ASSERT(a.head.sender <= N_RANK && a.head.sender != a.transport->self);
    hand_over(&a, (record->how & HOW_LATER) != 0);
}

/* --- what the receivers do in between --- */

/* Complete weights are released. The trainer here cannot run epochs. */
static void session_act(void)
{
    struct session_bytes *weights = &session->put_bytes;
    unsigned id = session->command.id;
    if (session->failure.status != STATUS_OK) {
        ends[0].failed = true;
    } else if (weights->is_expected && weights->n_got == weights->n_bytes) {
        ASSERT(session->trainer != NULL);
        memory_release(MEMORY_OTHER, weights->bytes, weights->n_bytes, 1);
        *weights = (struct session_bytes){0};
    } else if (session->trainer != NULL && id != MESSAGE_ID_place && id != MESSAGE_ID_finish) {
        session->command.id = 0;
    } else {
        ends[0].failed = session_handle(session) != STATUS_OK;
    }
    if (session->exchange != NULL) {
        exchange_progress(session->exchange);
    }
}

static void fleet_act(void)
{
    if (fleet.transfer.to != NULL && fleet.transfer.n_got >= fleet.transfer.n) {
        free(fleet.transfer.to);
        fleet.transfer.to = NULL;
    }
    if (fleet.workers[0].has_answered) {
        ASSERT(fleet.workers[0].n_answer <= sizeof fleet.workers[0].answer);
        fleet.workers[0].has_answered = false;
    }
    ends[1].failed = ends[1].failed || fleet.failure.status != STATUS_OK;
}

/* One record of the input; false at its end. */
static bool step(void)
{
    struct record record;
    if (!input_take(&record, sizeof record)) {
        return false;
    }
    record_send(&record);
    if ((record.how & HOW_ARRIVE) != 0) {
        arrive_oldest();
    }
    if ((record.how & HOW_HANDLE) != 0 && !is_waiting) {
        (record.how & HOW_FLEET ? fleet_act : session_act)();
    }
    struct fetch *fetch = &fetches[record.n_head % N_FETCH];
    if ((record.how & HOW_WAIT) != 0 && !is_waiting && fetch->buffer != NULL && !ends[0].failed) {
        is_waiting = true;
        if (exchange_wait(session->exchange, fetch->handle) == STATUS_OK) {
            free(fetch->buffer);
            fetch->buffer = NULL;
        } else {
            ends[0].failed = true;
        }
        is_waiting = false;
    }
    return true;
}

static bool pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    (void)arg;
    static const char payload[20];
    ASSERT(at < sizeof payload);
    *out = (struct exchange_piece){.bytes = payload + at, .n_bytes = 5, .total = sizeof payload};
    return to < N_PART && from < N_PART;
}

/* --- the stages of the worker --- */

static void command(unsigned id, const void *body, size_t n_bytes)
{
    struct arrival a = {.transport = &ends[0], .n_bytes = n_bytes};
    a.head = (struct transport_head){.sender = N_RANK, .kind = TRANSPORT_KIND_COMMAND, .id = (uint16_t)id};
    memcpy(a.bytes, body, n_bytes);
    hand_over(&a, false);
    enum status status = session->failure.status == STATUS_OK && !session->put_bytes.is_expected
                             ? session_handle(session)
                             : session->failure.status;
    ASSERT(status == STATUS_OK);
}

static void parts_place(void)
{
    uint8_t body[BODY_MOST];
    size_t n;
    static const uint32_t machine_of_rank[N_RANK];
    const struct message_place place = {.n_part = N_PART,
                                        .rank_of_part = {rank_of_part, sizeof rank_of_part},
                                        .machine_of_rank = {machine_of_rank, sizeof machine_of_rank}};
    enum status status = message_encode_place(&place, body, sizeof body, &n);
    ASSERT(status == STATUS_OK);
    command(MESSAGE_ID_place, body, n);
    for (uint32_t i = 0; i < N_FETCH; i++) {
        const struct exchange_key key = {.epoch = 1, .phase = EXCHANGE_PHASE_FORWARD, .op = 2, .to = 0, .from = i};
        fetches[i] = (struct fetch){.buffer = memory_alloc(fetch_bytes[i], 1), .n_bytes = fetch_bytes[i]};
        exchange_fetch(session->exchange, 1, &key, fetches[i].buffer, fetches[i].n_bytes, &fetches[i].handle);
    }
    const struct exchange_key key = {.epoch = 1, .phase = EXCHANGE_PHASE_FORWARD, .op = 2};
    const struct exchange_offer offer = {.pack = pack};
    exchange_serve(session->exchange, &key, &offer, N_FETCH);
}

static void parts_announce(void)
{
    uint8_t body[BODY_MOST];
    size_t n;
    for (uint32_t i = 0; i < N_PART; i += 2) {
        const struct message_part part = {.part = i, .n_bytes = 50 + i};
        enum status status = message_encode_part(&part, body, sizeof body, &n);
        ASSERT(status == STATUS_OK);
        command(MESSAGE_ID_part, body, n);
    }
}

static void weights_announce(void)
{
    uint8_t body[BODY_MOST];
    size_t n;
    session->trainer = &trainer;
    for (uint32_t i = 0; i < N_PART; i += 2) {
        session->placed.own[i] = &parts[i];
    }
    const struct message_put put = {.what = WORKER_STATE_WEIGHTS, .n_bytes = N_WEIGHT * sizeof(float)};
    enum status status = message_encode_put(&put, body, sizeof body, &n);
    ASSERT(status == STATUS_OK);
    command(MESSAGE_ID_put, body, n);
}

static void ends_open(enum stage stage)
{
    session = memory_alloc(1, sizeof *session);
    session->n_rank = N_RANK;
    session->transport = &ends[0];
    session->job.exchange.prefetch = N_FETCH;
    ends[0] = (struct transport){.events = {session, session_place, session_arrived}};
    fleet = (struct fleet){
        .attempt = ATTEMPT, .n_worker = N_RANK, .transfer = {.expected = MESSAGE_ID_report, .from = 1, .n = N_DATA}};
    fleet.workers = memory_alloc(N_RANK, sizeof *fleet.workers);
    fleet.transfer.to = memory_alloc(N_DATA, 1);
    enum status status = fleet_transport_open(&fleet);
    ASSERT(status == STATUS_OK);
    if (stage >= STAGE_PLACED) {
        parts_place();
    }
    if (stage >= STAGE_ANNOUNCED) {
        parts_announce();
    }
    if (stage >= STAGE_READY) {
        weights_announce();
    }
}

static void ends_close(void)
{
    exchange_close(session->exchange);
    for (int32_t i = 0; i < session->placed.n_part; i++) {
        memory_release(MEMORY_STRUCTURE, session->placed.parts[i].raw.bytes, session->placed.parts[i].raw.n_bytes, 1);
    }
    memory_release(MEMORY_OTHER, session->put_bytes.bytes, session->put_bytes.n_bytes, 1);
    free(session->command.bytes);
    free(session->placed.own);
    free(session->placed.parts);
    free(session->placed.rank_of_part);
    free(session->placed.machine_of_rank);
    free(session);
    free(fleet.workers);
    free(fleet.transfer.to);
    for (int i = 0; i < N_FETCH; i++) {
        free(fetches[i].buffer);
        fetches[i].buffer = NULL;
    }
}

/* --- the transport, and the heartbeats' count --- */

enum status transport_open(uint32_t self, uint32_t n_peer, uint32_t attempt, int n_send_most, const char *devices,
                           const struct transport_events *events, struct transport **out)
{
    (void)devices;
    ASSERT(n_peer == N_RANK + 1 && attempt == ATTEMPT && n_send_most > 0);
    ends[1] = (struct transport){.events = *events, .self = self};
    *out = &ends[1];
    return STATUS_OK;
}

enum status transport_send(struct transport *transport, uint32_t peer, const struct transport_head *head,
                           const void *body, size_t n_bytes, int *n_pending)
{
    (void)head;
    (void)n_pending;
    ASSERT(peer <= N_RANK && peer != transport->self && (n_bytes == 0 || body != NULL));
    return STATUS_OK;
}

/* A receiver that waits is given the next record of the input. */
enum status transport_wait(struct transport *transport, int timeout_ms)
{
    (void)timeout_ms;
    bool more = step();
    return more && !transport->failed ? STATUS_OK : status_fail(STATUS_PEER, "the transport has ended");
}

enum status transport_progress(struct transport *transport)
{
    return transport->failed ? status_fail(STATUS_PEER, "the transport has ended") : STATUS_OK;
}

struct transport_traffic transport_traffic(const struct transport *transport)
{
    (void)transport;
    return (struct transport_traffic){0};
}

const void *transport_address(const struct transport *transport, size_t *n_bytes_out)
{
    *n_bytes_out = 0;
    return transport;
}

const void *transport_far_address(const struct transport *transport, size_t *n_bytes_out)
{
    return transport_address(transport, n_bytes_out);
}

enum status transport_connect(struct transport *transport, uint32_t peer, const void *address, size_t n_bytes)
{
    (void)transport;
    (void)peer;
    (void)address;
    (void)n_bytes;
    return STATUS_OK;
}

enum status transport_seal(struct transport *transport, const struct seal_secret *secret, const uint8_t *near)
{
    (void)transport;
    (void)secret;
    (void)near;
    return STATUS_OK;
}

bool transport_seals(const struct transport *transport)
{
    (void)transport;
    return false;
}

bool transport_reaches_gpus(const struct transport *transport)
{
    (void)transport;
    return false;
}

bool transport_arm(struct transport *transport)
{
    return transport->failed;
}

int transport_event_fd(const struct transport *transport)
{
    return transport->failed;
}

void transport_abandon(struct transport *transport)
{
    transport->failed = true;
}

void transport_close(struct transport *transport)
{
    (void)transport;
}

void control_progress(struct control *control, uint32_t epoch, uint32_t turn)
{
    (void)control;
    (void)epoch;
    (void)turn;
}

/* --- the fuzzer --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct stat info;
    log_init("fuzz", -1, LOG_LEVEL_ERROR);
    static float weights[N_WEIGHT];
    trainer.program.n_weight = N_WEIGHT;
    trainer.parameters.weights = trainer.parameters.embeddings.weights = weights;
    static struct memory_begin begin[N_PART];
    trainer.plan.rows.begin = begin;
    trainer.program.n_embedding = 3;
    trainer.setup.n_part = N_PART;
    trainer.own.index = memory_alloc(N_PART, sizeof *trainer.own.index);
    memcpy(trainer.own.index, own_index, sizeof own_index);
    static struct part *own[N_PART] = {&parts[0], NULL, &parts[2], NULL};
    trainer.setup.parts = own;
    parts[0].features.n_embedded = 5;
    const char *corpus = (*argv)[*argc - 1];
    if (*argc > 1 && stat(corpus, &info) == 0 && S_ISDIR(info.st_mode)) {
        head_seeds_write(corpus);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    input.at = bytes + 1;
    input.n = n - 1;
    ends_open(bytes[0] % STAGE_N);
    while (step()) {
    }
    while (n_later > 0) { /* bodies that were outstanding when a transport ended, too */
        arrive_oldest();
    }
    ends_close();
    return 0;
}
