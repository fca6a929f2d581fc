/* Commands and bytes over the transport. One command is under way at a time: all its sends leave, all its reports
 * arrive, then the next. An unexpected report or piece ends the job. */
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "trainerd/coordinator/fleet/fleet_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)4 << 20)
#define WINDOW 4 /* pieces under way to each worker */
#define FINISH_MS 2000

/* --- arrivals --- */

static void *piece_place(struct fleet *fleet, const struct transport_head *head, size_t n_bytes)
{
    if (fleet->transfer.to == NULL || head->sender != fleet->transfer.from || head->total != fleet->transfer.n ||
        n_bytes > fleet->transfer.n - fleet->transfer.n_placed || head->offset > fleet->transfer.n - n_bytes) {
        status_fail(STATUS_PEER, "worker %u sent %zu bytes at %llu of %llu that were not asked for", head->sender,
                    n_bytes, (unsigned long long)head->offset, (unsigned long long)head->total);
        return NULL;
    }
    fleet->transfer.n_placed +=
        n_bytes; /* no more than all of it: a surplus piece could arrive after data_to is gone */
    return fleet->transfer.to + head->offset;
}

static void *fleet_place_body(void *arg, const struct transport_head *head, size_t n_bytes)
{
    struct fleet *fleet = arg;
    if (head->kind == TRANSPORT_KIND_DATA) {
        return piece_place(fleet, head, n_bytes);
    }
    struct fleet_worker *worker = &fleet->workers[head->sender];
    if (head->kind != TRANSPORT_KIND_REPORT || head->id != fleet->transfer.expected || worker->has_answered ||
        n_bytes > sizeof worker->answer) {
        status_fail(STATUS_PEER, "worker %u sent a message '%s' of %zu bytes that was not asked for", head->sender,
                    message_name(head->id), n_bytes);
        return NULL;
    }
    return worker->answer;
}

static void fleet_body_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    struct fleet *fleet = arg;
    if (body == NULL) {
        fleet_fail(fleet, &fleet->workers[head->sender], STATUS_PEER, "sent an empty message of kind %u", head->kind);
    } else if (head->kind == TRANSPORT_KIND_DATA) {
        fleet->transfer.n_got += n_bytes;
    } else {
        fleet->workers[head->sender].n_answer = n_bytes;
        fleet->workers[head->sender].has_answered = true;
    }
}

enum status fleet_transport_open(struct fleet *fleet)
{
    const struct transport_events events = {fleet, fleet_place_body, fleet_body_arrived};
    int n_send = (WINDOW + 2) * (int)fleet->n_worker + 16;
    char devices[ROUTE_DEVICES_BYTES];
    struct route *routes = memory_alloc(fleet->n_worker, sizeof *routes);
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        routes[rank] = fleet->workers[rank].route;
    }
    route_devices(routes, fleet->n_worker, devices);
    free(routes);
    return transport_open(fleet->n_worker, fleet->n_worker + 1, fleet->attempt, n_send, devices, &events,
                          &fleet->transport);
}

/* --- conditions to wait for, and sends --- */

static bool all_answered(const struct fleet *fleet)
{
    bool all = fleet->transfer.n_pending == 0;
    for (uint32_t rank = 0; all && rank < fleet->n_worker; rank++) {
        all = fleet->workers[rank].has_answered;
    }
    return all;
}

static bool one_answered(const struct fleet *fleet)
{
    return fleet->transfer.n_pending == 0 && fleet->workers[fleet->transfer.from].has_answered;
}

static bool few_pending(const struct fleet *fleet)
{
    return fleet->transfer.n_pending <= fleet->transfer.n_pending_most;
}

static bool data_arrived(const struct fleet *fleet)
{
    return fleet->transfer.n_pending == 0 && fleet->transfer.n_got >= fleet->transfer.n;
}

static void expect(struct fleet *fleet, unsigned id)
{
    fleet->transfer.expected = id;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        fleet->workers[rank].has_answered = false;
    }
}

/* Send, unless the fleet or the transport has failed. */
static void message_send(struct fleet *fleet, uint32_t rank, const struct transport_head *head, const void *body,
                         size_t n_bytes)
{
    if (fleet->failure.status == STATUS_OK && fleet->failure.transport_ms == 0 &&
        transport_send(fleet->transport, rank, head, body, n_bytes, &fleet->transfer.n_pending) != STATUS_OK) {
        fleet_transport_failed(fleet);
    }
}

/* One body to ranks [first, first + n). It must live until all sends are done. */
static void body_send(struct fleet *fleet, uint32_t first, uint32_t n, unsigned id, const void *body, size_t n_bytes)
{
    struct transport_head head = {.kind = TRANSPORT_KIND_COMMAND, .id = (uint16_t)id};
    for (uint32_t rank = first; rank < first + n; rank++) {
        message_send(fleet, rank, &head, body, n_bytes);
    }
}

/* The encoded command. */
static void command_send(struct fleet *fleet, uint32_t first, uint32_t n, unsigned id)
{
    body_send(fleet, first, n, id, fleet->command, fleet->n_command);
}

static enum status pending_await(struct fleet *fleet, int n_most)
{
    fleet->transfer.n_pending_most = n_most;
    return fleet_await(fleet, few_pending);
}

static enum status pieces_send(struct fleet *fleet, uint32_t first, uint32_t n, struct transport_head head,
                               const void *bytes)
{
    head.kind = TRANSPORT_KIND_DATA;
    for (head.offset = 0; head.offset < head.total; head.offset += PIECE_BYTES) {
        enum status status = pending_await(fleet, (WINDOW - 1) * (int)n);
        if (status != STATUS_OK) {
            return status;
        }
        size_t left = head.total - head.offset;
        for (uint32_t rank = first; rank < first + n; rank++) {
            message_send(fleet, rank, &head, (const char *)bytes + head.offset,
                         left < PIECE_BYTES ? left : PIECE_BYTES);
        }
    }
    return pending_await(fleet, 0);
}

/* --- the calls --- */

enum status fleet_place(struct fleet *fleet, int32_t n_part, const int32_t *rank_of_part)
{
    fleet_begin(fleet, "while its parts were placed");
    for (int32_t part = 0; part < n_part; part++) {
        if (rank_of_part[part] < 0 || (uint32_t)rank_of_part[part] >= fleet->n_worker) {
            return status_fail(STATUS_BUG, "part %d is placed on rank %d of %u", part, rank_of_part[part],
                               fleet->n_worker);
        }
    }
    uint32_t *machine_of_rank = memory_alloc(fleet->n_worker, sizeof *machine_of_rank);
    fleet_machines(fleet, machine_of_rank);
    struct message_place place = {
        .n_part = (uint32_t)n_part,
        .rank_of_part = {rank_of_part, (uint32_t)n_part * (uint32_t)sizeof *rank_of_part},
        .machine_of_rank = {machine_of_rank, fleet->n_worker * (uint32_t)sizeof *machine_of_rank},
    };
    free(fleet->rank_of_part);
    fleet->n_part = n_part;
    fleet->rank_of_part = memory_alloc((size_t)n_part, sizeof *fleet->rank_of_part);
    memcpy(fleet->rank_of_part, rank_of_part, place.rank_of_part.n_bytes);
    size_t capacity = (size_t)place.rank_of_part.n_bytes + place.machine_of_rank.n_bytes + 12u, n;
    uint8_t *body = memory_alloc(capacity, 1);
    enum status status = message_encode_place(&place, body, capacity, &n);
    if (status == STATUS_OK) {
        expect(fleet, MESSAGE_ID_place);
        body_send(fleet, 0, fleet->n_worker, MESSAGE_ID_place, body, n);
        status = fleet_await(fleet, all_answered); /* neither parts nor requests of other workers may overtake it */
        expect(fleet, MESSAGE_ID_ready);           /* a worker may be ready while others still get their parts */
    }
    free(body);
    free(machine_of_rank);
    return status;
}

enum status fleet_ship(struct fleet *fleet, int32_t part, const void *bytes, size_t n_bytes)
{
    fleet_begin(fleet, "while it was sent part %d", part);
    ASSERT(part >= 0 && part < fleet->n_part);
    uint32_t rank = (uint32_t)fleet->rank_of_part[part];
    const struct message_part message = {.part = (uint32_t)part, .n_bytes = n_bytes};
    enum status status = FLEET_ENCODE(fleet, part, &message);
    if (status != STATUS_OK) {
        return status;
    }
    command_send(fleet, rank, 1, MESSAGE_ID_part);
    FAULT(SHIP);
    struct transport_head head = {.id = MESSAGE_ID_part, .to = (uint32_t)part, .total = n_bytes};
    return pieces_send(fleet, rank, 1, head, bytes);
}

enum status fleet_answer_bad(struct fleet *fleet, const struct fleet_worker *worker)
{
    fleet_fail(fleet, worker, STATUS_PEER, "sent an answer that cannot be read: %s", status_reason());
    return fleet_end(fleet);
}

static enum status memory_read(struct message_span span, struct memory_table *out)
{
    if (span.n_bytes != sizeof *out) {
        return status_fail(STATUS_PEER, "%u bytes of memory by place and category, expected %zu", span.n_bytes,
                           sizeof *out);
    }
    memcpy(out, span.at, span.n_bytes);
    return STATUS_OK;
}

static enum status libraries_read(const struct message_ready *ready, struct library_versions *out)
{
    *out = (struct library_versions){.of = {[LIBRARY_BLAS] = ready->blas, [LIBRARY_SPARSE] = ready->sparse}};
    for (int l = 0; l < LIBRARY_N; l++) {
        if (out->of[l] >= LIBRARY_MOST) {
            return status_fail(STATUS_PEER, "its %s has version %u, expected one below %u",
                               library_name((enum library)l), out->of[l], LIBRARY_MOST);
        }
    }
    return STATUS_OK;
}

enum status fleet_ready(struct fleet *fleet, struct fleet_memory *memory_out, int64_t *n_weight_out,
                        struct library_versions *libraries_out)
{
    fleet_begin(fleet, "while it made itself ready");
    enum status status = fleet_await(fleet, all_answered);
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        struct message_ready ready;
        status = message_decode_ready(worker->answer, worker->n_answer, &ready);
        if (status == STATUS_OK) {
            status = memory_read(ready.planned, &worker->planned);
        }
        if (status == STATUS_OK) {
            status = memory_read(ready.measured, &memory_out[rank].measured);
        }
        if (status == STATUS_OK && rank > 0 && ready.n_weight != (uint64_t)*n_weight_out) {
            status = status_fail(STATUS_PEER, "it has %llu weights, expected %lld as rank 0",
                                 (unsigned long long)ready.n_weight, (long long)*n_weight_out);
        }
        if (status == STATUS_OK) {
            status = libraries_read(&ready, &libraries_out[rank]);
        }
        if (status != STATUS_OK) {
            return fleet_answer_bad(fleet, worker);
        }
        memory_out[rank].planned = worker->planned;
        memory_out[rank].resident_peak = 0;
        *n_weight_out = (int64_t)ready.n_weight;
    }
    return status;
}

/* Bytes by layer, of all. */
static enum status layers_add(uint32_t rank, struct message_span layers, struct fleet_report *out)
{
    size_t one = sizeof *out->layer, n_layer = layers.n_bytes / one;
    if (layers.n_bytes % one != 0 || n_layer > TRAFFIC_LAYERS_MOST || (rank > 0 && (int)n_layer != out->n_layer)) {
        return status_fail(STATUS_PEER, "it reports %u bytes of traffic by layer, expected %zu for each of %d",
                           layers.n_bytes, one, rank > 0 ? out->n_layer : TRAFFIC_LAYERS_MOST);
    }
    out->n_layer = (int)n_layer;
    for (size_t l = 0; l < n_layer; l++) {
        uint64_t received[TRAFFIC_N_WHAT];
        memcpy(received, (const char *)layers.at + l * one, one);
        for (int what = 0; what < TRAFFIC_N_WHAT; what++) {
            out->layer[l][what] += received[what];
        }
    }
    return STATUS_OK;
}

/* Loss and scores of rank 0, times of the slowest, bytes of all. */
static enum status report_add(uint32_t rank, uint32_t epoch, const struct message_report *report,
                              struct fleet_report *out)
{
    if (report->epoch != epoch || report->scores.n_bytes != sizeof out->score) {
        return status_fail(STATUS_PEER, "it reports epoch %u with %u bytes of scores, expected epoch %u with %zu",
                           report->epoch, report->scores.n_bytes, epoch, sizeof out->score);
    }
    if (rank == 0) {
        out->loss = report->loss;
        out->grad_norm = report->grad_norm;
        memcpy(out->score, report->scores.at, sizeof out->score);
    } else if (memcmp(&report->loss, &out->loss, sizeof out->loss) != 0) {
        return status_fail(STATUS_BUG, "its loss is %.17g, rank 0's is %.17g: the ranks have diverged", report->loss,
                           out->loss);
    }
    out->not_finite = out->not_finite > report->not_finite ? out->not_finite : report->not_finite;
    out->epoch_s = fmax(out->epoch_s, report->epoch_s);
    out->compute_s = fmax(out->compute_s, report->compute_s);
    out->pack_s = fmax(out->pack_s, report->pack_s);
    out->wait_s = fmax(out->wait_s, report->wait_s);
    out->evaluate_s = fmax(out->evaluate_s, report->evaluate_s);
    out->bytes_sent += report->bytes_sent;
    out->bytes_received += report->bytes_received;
    out->n_call += report->n_call;
    const struct fleet_waits waits = {.n_wait = (int64_t)report->n_wait,
                                      .n_fetched = (int64_t)report->n_fetched,
                                      .n_sent = (int64_t)report->n_sent};
    out->n_replay = out->n_replay > (int64_t)report->n_replay ? out->n_replay : (int64_t)report->n_replay;
    out->waits = fleet_waits_most(&out->waits, &waits);
    out->n_staged += (int64_t)report->n_staged;
    return layers_add(rank, report->layers, out);
}

struct fleet_times fleet_times(const struct fleet *fleet, uint32_t rank)
{
    return fleet->workers[rank].times;
}

enum status fleet_epoch(struct fleet *fleet, uint32_t epoch, bool train, bool evaluate, struct fleet_report *out)
{
    fleet_begin(fleet, "in epoch %u", epoch);
    struct message_epoch message = {.epoch = epoch, .train = train, .evaluate = evaluate};
    enum status status = FLEET_ENCODE(fleet, epoch, &message);
    if (status != STATUS_OK) {
        return status;
    }
    expect(fleet, MESSAGE_ID_report);
    command_send(fleet, 0, fleet->n_worker, MESSAGE_ID_epoch);
    FAULT(EPOCH);
    status = fleet_await(fleet, all_answered);
    *out = (struct fleet_report){0};
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        struct message_report report;
        status = message_decode_report(worker->answer, worker->n_answer, &report);
        if (status == STATUS_OK) {
            worker->times = (struct fleet_times){report.compute_s, report.pack_s, report.wait_s, report.evaluate_s};
            status = report_add(rank, epoch, &report, out);
        }
        if (status != STATUS_OK) {
            return fleet_answer_bad(fleet, worker);
        }
    }
    return status;
}

enum status fleet_command(struct fleet *fleet, unsigned id, enum status encoded)
{
    if (encoded != STATUS_OK) {
        return encoded;
    }
    expect(fleet, id);
    command_send(fleet, 0, fleet->n_worker, id);
    return fleet_await(fleet, all_answered);
}

enum status fleet_keep_best(struct fleet *fleet)
{
    fleet_begin(fleet, "while it saved the best weights");
    return FLEET_COMMAND(fleet, keep_best, &(struct message_keep_best){.rank = 0});
}

enum status fleet_ask(struct fleet *fleet, uint32_t rank, unsigned id, enum status encoded)
{
    if (encoded != STATUS_OK) {
        return encoded;
    }
    fleet->transfer.from = rank;
    expect(fleet, id);
    command_send(fleet, rank, 1, id);
    return fleet_await(fleet, one_answered);
}

/* --- the rows of worker_state.def --- */

/* The rank that has a row, or the first of those that have it. */
static uint32_t state_rank(const struct fleet *fleet, enum worker_state what, int32_t of)
{
    switch (worker_state_rows[what].scope) {
    case WORKER_STATE_SCOPE_PART:
        ASSERT(of >= 0 && of < fleet->n_part);
        return (uint32_t)fleet->rank_of_part[of];
    case WORKER_STATE_SCOPE_RANK:
        return (uint32_t)of;
    default:
        return 0;
    }
}

/* does: "sending", "receiving". */
static void state_begin(struct fleet *fleet, const char *does, enum worker_state what, int32_t of)
{
    const struct worker_state_row *row = &worker_state_rows[what];
    if (row->scope == WORKER_STATE_SCOPE_PART) {
        fleet_begin(fleet, "while %s the %s of part %d", does, row->text, of);
    } else {
        fleet_begin(fleet, "while %s the %s", does, row->text);
    }
}

enum status fleet_get(struct fleet *fleet, enum worker_state what, int32_t of, void *to, size_t n_bytes)
{
    state_begin(fleet, "sending", what, of);
    bool is_part = worker_state_rows[what].scope == WORKER_STATE_SCOPE_PART;
    const struct message_get message = {.what = (uint32_t)what, .part = is_part ? (uint32_t)of : 0};
    enum status status = FLEET_ENCODE(fleet, get, &message);
    if (status != STATUS_OK || n_bytes == 0) {
        return status;
    }
    expect(fleet, 0);
    fleet->transfer.from = state_rank(fleet, what, of);
    fleet->transfer.to = to;
    fleet->transfer.n = n_bytes;
    fleet->transfer.n_placed = fleet->transfer.n_got = 0;
    command_send(fleet, fleet->transfer.from, 1, MESSAGE_ID_get);
    status = fleet_await(fleet, data_arrived);
    fleet->transfer.to = NULL;
    return status;
}

enum status fleet_traffic(struct fleet *fleet, uint32_t rank, int n_row, struct traffic_head *head_out,
                          uint64_t *table_out)
{
    size_t n_table = (size_t)n_row * fleet->n_worker * sizeof *table_out;
    char *content = memory_alloc(sizeof *head_out + n_table, 1);
    enum status status = fleet_get(fleet, WORKER_STATE_TRAFFIC, (int32_t)rank, content, sizeof *head_out + n_table);
    if (status == STATUS_OK) {
        memcpy(head_out, content, sizeof *head_out);
        memcpy(table_out, content + sizeof *head_out, n_table);
    }
    free(content);
    return status;
}

enum status fleet_put(struct fleet *fleet, enum worker_state what, int32_t of, const void *from, size_t n_bytes)
{
    state_begin(fleet, "receiving", what, of);
    enum worker_state_scope scope = worker_state_rows[what].scope;
    const struct message_put message = {
        .what = (uint32_t)what, .part = scope == WORKER_STATE_SCOPE_PART ? (uint32_t)of : 0, .n_bytes = n_bytes};
    enum status status = FLEET_ENCODE(fleet, put, &message);
    if (status != STATUS_OK || n_bytes == 0) {
        return status;
    }
    bool to_all = scope == WORKER_STATE_SCOPE_JOB;
    uint32_t first = fleet->transfer.from = state_rank(fleet, what, of), n_rank = to_all ? fleet->n_worker : 1;
    expect(fleet, MESSAGE_ID_put);
    command_send(fleet, first, n_rank, MESSAGE_ID_put);
    struct transport_head head = {.id = MESSAGE_ID_put, .total = n_bytes};
    status = pieces_send(fleet, first, n_rank, head, from);
    if (status != STATUS_OK) {
        return status;
    }
    return fleet_await(fleet, to_all ? all_answered : one_answered);
}

enum status fleet_memory(struct fleet *fleet, struct fleet_memory *memory_out)
{
    fleet_begin(fleet, "while it counted its memory");
    enum status status = FLEET_COMMAND(fleet, memory, &(struct message_memory){.resident = 0});
    for (uint32_t rank = 0; status == STATUS_OK && rank < fleet->n_worker; rank++) {
        struct fleet_worker *worker = &fleet->workers[rank];
        struct message_memory answer;
        status = message_decode_memory(worker->answer, worker->n_answer, &answer);
        if (status == STATUS_OK) {
            status = memory_read(answer.measured, &memory_out[rank].measured);
        }
        if (status != STATUS_OK) {
            return fleet_answer_bad(fleet, worker);
        }
        memory_out[rank].planned = worker->planned;
        memory_out[rank].resident_peak = (int64_t)answer.resident;
    }
    return status;
}

void fleet_finish(struct fleet *fleet)
{
    fleet_begin(fleet, "while it finished");
    FAULT(FINISH);
    if (FLEET_ENCODE(fleet, finish, &(struct message_finish){.rank = 0}) == STATUS_OK) {
        expect(fleet, MESSAGE_ID_finish);
        command_send(fleet, 0, fleet->n_worker, MESSAGE_ID_finish);
        fleet_linger(fleet, all_answered, FINISH_MS);
    }
}
