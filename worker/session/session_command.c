/* Handling commands, one at a time; separate from receiving, because commands use the transport themselves. */
#include "models/program/row_filter.h"
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "worker/plan/memory_plan.h"
#include "worker/plan/stale_list.h"
#include "worker/session/session_state.h"

#include <string.h>

#define PIECE_BYTES ((size_t)4 << 20)
#define WINDOW 4

_Static_assert(sizeof(struct device_score) == 7 * sizeof(double), "scores travel as they lie");

static enum status all_sent(struct session *session, int n_most)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && session->n_pending > n_most) {
        status = transport_wait(session->transport, 100);
    }
    return status;
}

enum status session_answer(struct session *session, unsigned id, enum status encoded)
{
    struct transport_head head = {.kind = TRANSPORT_KIND_REPORT, .id = (uint16_t)id};
    if (encoded != STATUS_OK) {
        return encoded;
    }
    enum status status = transport_send(session->transport, session->n_rank, &head, session->answer,
                                        session->n_answer, &session->n_pending);
    if (status != STATUS_OK) {
        return status;
    }
    return all_sent(session, 0);
}

/* Credits: what this rank may ask for at once, and what all others together may ask of it. */
static void exchange_start(struct session *session)
{
    const struct job_exchange *how = &session->job.exchange;
    int64_t n_pair = (int64_t)session->placed.n_own * (session->placed.n_part - session->placed.n_own);
    int64_t n_fetch = how->schedule == JOB_SCHEDULE_HALO || how->prefetch + 1 > n_pair ? n_pair : how->prefetch + 1;
    int64_t n_request = how->schedule == JOB_SCHEDULE_HALO || (how->prefetch + 1) * session->n_rank > n_pair
                            ? n_pair
                            : (how->prefetch + 1) * session->n_rank;
    if (row_filter_of(&session->job) != NULL ||
        level_codecs(&session->job, false) != 1U << DEVICE_CODEC_FP32) { /* gradients that return may ask for rows */
        n_fetch *= 2;
        n_request *= 2;
    }
    if (how->stale != 0) {
        n_fetch += STALE_N_FLIGHT;
        n_request += (int64_t)STALE_N_FLIGHT * session->n_rank;
    }
    if (job_predicts_links(&session->job) && job_samples_ends(&session->job)) { /* pairs besides rows */
        n_fetch += MEMORY_LINKS_COME;
        n_request += (int64_t)MEMORY_LINKS_COME * session->n_rank;
    }
    /* One more each for the reduction, which overlaps with the last halo pass of a rank that lags. */
    session->exchange = exchange_open((int)(n_request + session->n_rank + session->placed.n_part),
                                      (int)(n_fetch + 1));
    exchange_attach(session->exchange, session->transport);
}

/* Which ranks share a machine, by its number. */
static enum status machines_take(struct session *session, const struct message_place *place)
{
    if (place->machine_of_rank.n_bytes != session->n_rank * sizeof *session->placed.machine_of_rank) {
        return status_fail(STATUS_PEER, "%u bytes say which ranks share a machine, expected %zu for %u ranks",
                           place->machine_of_rank.n_bytes, session->n_rank * sizeof *session->placed.machine_of_rank,
                           session->n_rank);
    }
    session->placed.machine_of_rank = memory_alloc(session->n_rank, sizeof *session->placed.machine_of_rank);
    memcpy(session->placed.machine_of_rank, place->machine_of_rank.at, place->machine_of_rank.n_bytes);
    return STATUS_OK;
}

static enum status place_obey(struct session *session)
{
    struct message_place place;
    enum status status = message_decode_place(session->command.bytes, session->command.n, &place);
    if (status != STATUS_OK) {
        return status;
    }
    if (session->placed.n_part != 0 || place.n_part == 0 || place.n_part > 65536 ||
        place.rank_of_part.n_bytes != place.n_part * sizeof *session->placed.rank_of_part) {
        return status_fail(STATUS_PEER, "%u parts are placed by %u bytes, expected 1 to 65536 parts once",
                           place.n_part, place.rank_of_part.n_bytes);
    }
    session->placed.n_part = (int32_t)place.n_part;
    session->placed.rank_of_part = memory_alloc(place.n_part, sizeof *session->placed.rank_of_part);
    session->placed.parts = memory_alloc(place.n_part, sizeof *session->placed.parts);
    session->placed.own = memory_alloc(place.n_part, sizeof *session->placed.own);
    memcpy(session->placed.rank_of_part, place.rank_of_part.at, place.rank_of_part.n_bytes);
    for (int32_t part = 0; part < session->placed.n_part; part++) {
        if (session->placed.rank_of_part[part] >= session->n_rank) {
            return status_fail(STATUS_PEER, "part %d is placed on rank %u of %u", part,
                               session->placed.rank_of_part[part], session->n_rank);
        }
        session->placed.n_own += session->placed.rank_of_part[part] == session->rank;
    }
    status = machines_take(session, &place);
    if (status != STATUS_OK) {
        return status;
    }
    exchange_start(session); /* from the answer on the others may ask for rows */
    return SESSION_ANSWER(session, place, (&(struct message_place){.n_part = place.n_part}));
}

static enum status epoch_obey(struct session *session)
{
    struct message_epoch command;
    enum status status = message_decode_epoch(session->command.bytes, session->command.n, &command);
    if (status != STATUS_OK) {
        return status;
    }
    if (command.train != 0 && trainer_program(session->trainer)->forward_only) {
        return status_fail(STATUS_PEER, "an epoch is to be trained by a job that predicts, expected an evaluation");
    }
    session->epoch = command.epoch;
    session->step = 0;
    struct transport_traffic before = transport_traffic(session->transport);
    struct exchange_counts lent_before = exchange_counts(session->exchange);
    struct trainer_report report;
    status = trainer_epoch(session->trainer, command.epoch, command.train != 0, command.evaluate != 0, &report);
    if (status != STATUS_OK) {
        return status;
    }
    struct transport_traffic after = transport_traffic(session->transport);
    struct exchange_counts lent = exchange_counts(session->exchange);
    int n_layer;
    const uint64_t *layers = traffic_layers(trainer_traffic(session->trainer), &n_layer);
    struct message_report answer = {
        .epoch = command.epoch,
        .loss = report.loss,
        .grad_norm = report.grad_norm,
        .not_finite = report.not_finite,
        .scores = {report.score, sizeof report.score},
        .compute_s = report.compute_s,
        .pack_s = report.pack_s,
        .wait_s = report.wait_s,
        .bytes_sent = after.payload_sent - before.payload_sent + (uint64_t)(lent.n_lent - lent_before.n_lent),
        .bytes_received = after.payload_received - before.payload_received +
                          (uint64_t)(lent.n_copied - lent_before.n_copied),
        .layers = {layers, (uint32_t)((size_t)n_layer * TRAFFIC_N_WHAT * sizeof *layers)},
        .n_call = (uint64_t)report.n_call,
        .n_wait = (uint64_t)report.n_wait,
        .n_fetched = (uint64_t)report.n_fetched,
        .n_sent = (uint64_t)report.n_sent,
        .n_replay = (uint64_t)report.n_replay,
        .n_staged = (uint64_t)report.n_staged,
        .epoch_s = report.epoch_s,
        .evaluate_s = report.evaluate_s,
    };
    return SESSION_ANSWER(session, report, &answer);
}

static enum status pieces_send(struct session *session, unsigned id, const char *bytes, size_t n_bytes)
{
    struct transport_head head = {.kind = TRANSPORT_KIND_DATA, .id = (uint16_t)id, .total = n_bytes};
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && head.offset < n_bytes; head.offset += PIECE_BYTES) {
        size_t left = n_bytes - head.offset;
        status = transport_send(session->transport, session->n_rank, &head, bytes + head.offset,
                                left < PIECE_BYTES ? left : PIECE_BYTES, &session->n_pending);
        if (status == STATUS_OK) {
            status = all_sent(session, WINDOW - 1);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return all_sent(session, 0);
}

/* The trace's size, by this worker's clock as it answers; and the trace. */
static enum status trace_obey(struct session *session)
{
    const struct trace *trace = trainer_trace(session->trainer);
    int32_t n_step = 0;
    int64_t n_event = 0;
    size_t n;
    if (trace != NULL) {
        trace_content(trace, &n_step, &n_event, &n);
    }
    struct message_trace answer = {.now_s = clock_s(),
                                   .n_step = (uint32_t)n_step,
                                   .n_event = (uint32_t)n_event,
                                   .n_dropped = trace != NULL ? (uint64_t)trace_n_dropped(trace) : 0};
    return SESSION_ANSWER(session, trace, &answer);
}

/* What is read where it lies. */
static enum status trace_send(struct session *session)
{
    const struct trace *trace = trainer_trace(session->trainer);
    int32_t n_step;
    int64_t n_event;
    size_t n_bytes;
    if (trace == NULL) {
        return status_fail(STATUS_PEER, "a trace is asked for, of a job without output.trace");
    }
    const void *content = trace_content(trace, &n_step, &n_event, &n_bytes);
    return pieces_send(session, MESSAGE_ID_get, content, n_bytes);
}

static enum status traffic_send(struct session *session)
{
    size_t n_bytes;
    const void *content = traffic_content(trainer_traffic(session->trainer), &n_bytes);
    return pieces_send(session, MESSAGE_ID_get, content, n_bytes);
}

static enum status get_obey(struct session *session)
{
    struct message_get command;
    FAULT(CHECKPOINT);
    enum status status = message_decode_get(session->command.bytes, session->command.n, &command);
    if (status != STATUS_OK) {
        return status;
    }
    if (command.what == WORKER_STATE_TRACE) {
        return trace_send(session);
    }
    if (command.what == WORKER_STATE_TRAFFIC) {
        return traffic_send(session);
    }
    size_t n = session_state_bytes(session, command.what, command.part);
    if (n == 0) {
        return status_fail(STATUS_PEER, "array %u of part %u is asked for, which this rank does not have",
                           command.what, command.part);
    }
    void *bytes;
    status = memory_acquire(MEMORY_OTHER, n, 1, &bytes);
    if (status != STATUS_OK) {
        return status;
    }
    status = trainer_get(session->trainer, (enum worker_state)command.what, (int32_t)command.part, bytes);
    if (status == STATUS_OK) {
        status = pieces_send(session, MESSAGE_ID_get, bytes, n);
    }
    memory_release(MEMORY_OTHER, bytes, n, 1);
    return status;
}

/* All of it came. The answer says what was announced. */
static enum status put_obey(struct session *session)
{
    const struct message_put put = session->put;
    struct session_bytes *bytes = &session->put_bytes;
    enum status status = trainer_set(session->trainer, (enum worker_state)put.what, (int32_t)put.part, bytes->bytes);
    memory_release(MEMORY_OTHER, bytes->bytes, bytes->n_bytes, 1);
    *bytes = (struct session_bytes){0};
    if (status != STATUS_OK) {
        return status;
    }
    return SESSION_ANSWER(session, put, &put);
}

static enum status memory_obey(struct session *session)
{
    struct memory_table planned, measured;
    trainer_memory(session->trainer, &planned, &measured);
    struct message_memory answer = {
        .measured = {&measured, sizeof measured},
        .resident = (uint64_t)memory_resident_peak(),
    };
    return SESSION_ANSWER(session, memory, &answer);
}

/* What the guard found in the last epoch. */
static enum status guard_obey(struct session *session)
{
    const struct trainer_guard guard = trainer_guard(session->trainer);
    struct message_guard answer = {.epoch = session->epoch,
                                   .compared = guard.compared,
                                   .loss = guard.loss,
                                   .error = guard.error,
                                   .cosine = guard.cosine,
                                   .n_back_off = (uint64_t)trainer_n_back_off(session->trainer)};
    return SESSION_ANSWER(session, guard, &answer);
}

/* Commands that are answered by themselves. */
static enum status echo(struct session *session, unsigned id)
{
    if (session->command.n > sizeof session->answer) {
        return status_fail(STATUS_PEER, "a command '%s' of %zu bytes came, expected at most %zu", message_name(id),
                           session->command.n, sizeof session->answer);
    }
    memcpy(session->answer, session->command.bytes, session->command.n);
    session->n_answer = session->command.n;
    return session_answer(session, id, STATUS_OK);
}

enum status session_handle(struct session *session)
{
    if (session->put_bytes.is_expected && session->put_bytes.n_got == session->put_bytes.n_bytes) {
        return put_obey(session);
    }
    unsigned id = session->command.id;
    if (id == 0) {
        return STATUS_OK;
    }
    /* Before the answer leaves: the next command may come right behind it. */
    session->command.id = 0;
    if (session->trainer == NULL && id != MESSAGE_ID_place && id != MESSAGE_ID_finish) {
        return status_fail(STATUS_PEER, "a command '%s' came before this rank was ready", message_name(id));
    }
    switch (id) {
    case MESSAGE_ID_place:
        return place_obey(session);
    case MESSAGE_ID_epoch:
        return epoch_obey(session);
    case MESSAGE_ID_get:
        return get_obey(session);
    case MESSAGE_ID_memory:
        return memory_obey(session);
    case MESSAGE_ID_trace:
        return trace_obey(session);
    case MESSAGE_ID_guard:
        return guard_obey(session);
    case MESSAGE_ID_keep_best:
        trainer_keep_best(session->trainer);
        return echo(session, id);
    case MESSAGE_ID_finish:
        FAULT(FINISH);
        session->is_finished = true;
        if (session->exchange != NULL) {
            exchange_lend(session->exchange, NULL); /* before any worker releases its memory */
        }
        return echo(session, id);
    default:
        return status_fail(STATUS_PEER, "a command '%s' (%u) came, which workers do not know", message_name(id), id);
    }
}
