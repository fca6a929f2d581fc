#include "worker/session/session.h"

#include "models/cuda/module.h"
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "worker/session/session_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parts agree on the pairs of the whole graph, and on each other's rows; a job that trains on pairs has some. */
static enum status links_check(const struct job *job, const struct part *first, const struct part *part)
{
    bool trains = job_predicts_links(job) && !job_predicts(job);
    const size_t n = (size_t)part->n_part, n_bytes = n * sizeof *part->links.rows;
    if (part->links.n != first->links.n || part->links.n_joined != first->links.n_joined ||
        (part->links.n > 0) != trains ||
        (part->links.n > 0 && (memcmp(part->links.rows, first->links.rows, n_bytes) != 0 ||
                               memcmp(part->links.ends, first->links.ends, n * sizeof *part->links.ends) != 0))) {
        return status_fail(
            STATUS_DATA,
            "part %d is of a graph with %lld pairs to train on, expected %s, with as many rows and ends "
            "of pairs in each part as part %d has",
            part->part, (long long)part->links.n, trains ? "some" : "0", first->part);
    }
    return STATUS_OK;
}

static enum status parts_open(struct session *session)
{
    enum status status = STATUS_OK;
    const struct part *first = NULL;
    for (int32_t i = 0; status == STATUS_OK && i < session->placed.n_part; i++) {
        struct session_part *part = &session->placed.parts[i];
        if (!part->raw.is_expected) {
            continue;
        }
        const struct spill_range raw = {part->raw.bytes, (int64_t)part->raw.n_bytes, SPILL_READ};
        status = spill_pin(session->spill, &raw, 1);
        if (status != STATUS_OK) {
            return status;
        }
        status = part_open(part->raw.bytes, part->raw.n_bytes, &part->part);
        spill_unpin(session->spill, &raw, 1);
        part->is_open = status == STATUS_OK;
        if (part->is_open && (part->part.part != i || part->part.n_part != session->placed.n_part)) {
            status = status_fail(STATUS_DATA, "the bytes of part %d say part %d of %d, expected part %d of %d", i,
                                 part->part.part, part->part.n_part, i, session->placed.n_part);
        }
        first = first == NULL && part->is_open ? &part->part : first;
        if (status == STATUS_OK && part->part.n_hop != first->n_hop) {
            status = status_fail(STATUS_DATA, "part %d has %d hops of rows and part %d has %d, expected as many",
                                 first->part, first->n_hop, i, part->part.n_hop);
        }
        if (status == STATUS_OK) {
            status = links_check(&session->job, first, &part->part);
        }
        session->placed.own[i] = part->is_open ? &part->part : NULL;
    }
    return status;
}

static bool parts_came(const struct session *session)
{
    int32_t n_statistics = 0;
    for (int32_t i = 0; i < session->placed.n_part; i++) {
        const struct session_bytes *raw = &session->placed.parts[i].raw;
        n_statistics += raw->is_expected && raw->n_got == raw->n_bytes;
    }
    return session->placed.n_part > 0 && n_statistics == session->placed.n_own;
}

/* This worker's number among those of its machine, and how many these are. */
static void machine_turn(const struct session *session, uint32_t *turn_out, uint32_t *n_out)
{
    *turn_out = *n_out = 0;
    for (uint32_t rank = 0; rank < session->n_rank; rank++) {
        bool here = session->placed.machine_of_rank[rank] == session->placed.machine_of_rank[session->rank];
        *turn_out += here && rank < session->rank;
        *n_out += here;
    }
}

static enum status trainer_start(struct session *session)
{
    FAULT(OPEN);
    double start = clock_s();
    enum status status = parts_open(session);
    if (status == STATUS_OK && session->placed.n_own == 0) {
        status = status_fail(STATUS_PEER, "no part is placed on rank %u", session->rank);
    }
    if (status == STATUS_OK) {
        status = device_find(job_choice_text("workers", "device", session->job.workers.device), &session->ops);
    }
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t turn, n_here;
    machine_turn(session, &turn, &n_here);
    if (session->has_gpus) {
        turn = 0;
        n_here = 1;
    }
    cuda_module_turn(turn, n_here);
    struct trainer_setup setup = {
        .job = &session->job,
        .ops = session->ops,
        .n_thread = (int)session->n_thread,
        .rank = session->rank,
        .n_rank = session->n_rank,
        .n_part = session->placed.n_part,
        .rank_of_part = session->placed.rank_of_part,
        .machine_of_rank = session->placed.machine_of_rank,
        .parts = session->placed.own,
        .exchange = session->exchange,
        .spill = session->spill,
    };
    status = trainer_open(&setup, &session->trainer);
    if (status != STATUS_OK) {
        return status;
    }
    session_say(session, "has %d of %d part%s, and %s", (int)session->placed.n_own, (int)session->placed.n_part,
                session->placed.n_part == 1 ? "" : "s",
                trainer_program(session->trainer)->forward_only ? "predicts" : "trains");
    struct memory_table planned, measured;
    trainer_memory(session->trainer, &planned, &measured);
    const struct library_versions libraries = trainer_libraries(session->trainer);
    struct message_ready ready = {
        .planned = {&planned, sizeof planned},
        .measured = {&measured, sizeof measured},
        .n_weight = (uint64_t)trainer_program(session->trainer)->n_weight,
        .seconds = clock_s() - start,
        .blas = libraries.of[LIBRARY_BLAS],
        .sparse = libraries.of[LIBRARY_SPARSE],
    };
    return SESSION_ANSWER(session, ready, &ready);
}

static enum status serve(struct session *session)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !session->is_finished) {
        status = transport_wait(session->transport, 1000);
        /* A refusal inside an event fails the transport too, with less of a status. */
        status = session->failure.status != STATUS_OK
                     ? status_fail(session->failure.status, "%s", session->failure.reason)
                     : status;
        if (status == STATUS_OK && session->trainer == NULL && parts_came(session)) {
            status = trainer_start(session);
        } else if (status == STATUS_OK) {
            status = session_handle(session);
        }
    }
    return status;
}

static void session_release(struct session *session)
{
    trainer_close(session->trainer);
    exchange_close(session->exchange);
    for (int32_t i = 0; i < session->placed.n_part; i++) {
        struct session_part *part = &session->placed.parts[i];
        if (part->is_open) {
            part_release(&part->part);
        }
        if (!part->raw.is_spilled) {
            memory_release(MEMORY_STRUCTURE, part->raw.bytes, part->raw.n_bytes, 1);
        }
    }
    spill_close(session->spill);
    memory_release(MEMORY_OTHER, session->put_bytes.bytes, session->put_bytes.n_bytes, 1);
    transport_close(session->transport);
    control_close(session->control);
    free(session->command.bytes);
    free(session->placed.own);
    free(session->placed.parts);
    free(session->placed.rank_of_part);
    free(session->placed.machine_of_rank);
    free(session);
}

void session_say(const struct session *session, const char *format, ...)
{
    if (!session->talks) {
        return;
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "trainer-worker: %s\n", text);
}

enum status session_run(const struct session_setup *setup)
{
    struct session *session = memory_alloc(1, sizeof *session);
    session->has_gpus = setup->has_gpus;
    session->talks = setup->talks;
    enum status status = session_join(session, setup);
    if (status == STATUS_OK) {
        status = serve(session);
    }
    if (status != STATUS_OK && session->control == NULL &&
        !setup->talks) { /* there is no coordinator that could tell the user */
        fprintf(stderr, "trainer-worker: %s\n", status_reason());
    }
    if (status != STATUS_OK && session->control != NULL) {
        /* Told before anything is given back: the process may end at any moment once the coordinator knows. If it
         * cannot be told, that is not the reason. */
        char reason[1024];
        snprintf(reason, sizeof reason, "%s", status_reason());
        struct message_failed failed = {.status = status, .reason = message_text(reason)};
        size_t n;
        void *frame = control_frame_failed(&failed, &n);
        if (control_send(session->control, frame, n) == STATUS_OK && status == STATUS_PEER) {
            control_linger(session->control);
        }
        return status_fail(status, "%s", reason);
    }
    if (status == STATUS_OK) {
        control_part(session->control);
        transport_abandon(session->transport); /* all is answered, and the others leave too */
        session_say(session, "the job is done");
    }
    session_release(session);
    return status;
}
