/* Opening and closing of a fleet. */
#include "trainerd/coordinator/fleet/fleet.h"

#include "protocol/base/fault.h"
#include "trainerd/base/figure.h"
#include "trainerd/coordinator/fleet/fleet_state.h"
#include "trainerd/coordinator/fleet/segments.h"
#include "trainerd/coordinator/machines/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define TICK_MS 50
#define CLOSE_MS 2000
#define STEP_CLOSE_MS 30000 /* Slurm sees that tasks have ended, and tells srun */

static void transport_readable(uv_poll_t *poll, int error, int events)
{
    (void)poll; /* it only wakes the loop: every turn lets the transport progress */
    (void)error;
    (void)events;
}

static bool all_joined(const struct fleet *fleet)
{
    bool all = true;
    for (uint32_t rank = 0; all && rank < fleet->n_worker; rank++) {
        all = fleet->workers[rank].has_joined;
    }
    return all;
}

static bool all_connected(const struct fleet *fleet)
{
    bool all = true;
    for (uint32_t rank = 0; all && rank < fleet->n_worker; rank++) {
        all = fleet->workers[rank].is_connected;
    }
    return all;
}

static enum status loop_open(struct fleet *fleet)
{
    int error = uv_loop_init(&fleet->loop);
    if (error != 0) {
        return status_fail(STATUS_PEER, "cannot open an event loop: %s", uv_strerror(error));
    }
    uv_timer_init(&fleet->loop, &fleet->tick);
    fleet->tick.data = fleet;
    uv_timer_start(&fleet->tick, fleet_tick, TICK_MS, TICK_MS);
    return STATUS_OK;
}

/* Start the workers, or print how to start them. */
static enum status workers_start(struct fleet *fleet)
{
    const struct job_workers *how = &fleet->job->workers;
    enum status status = fleet_listen(fleet);
    if (status != STATUS_OK) {
        return status;
    }
    if (how->launcher != JOB_LAUNCHER_MANUAL) {
        status = fleet_token_make(fleet->control.token);
        return status != STATUS_OK                   ? status
               : how->launcher == JOB_LAUNCHER_LOCAL ? fleet_launch(fleet)
               : how->launcher == JOB_LAUNCHER_SLURM ? fleet_launch_slurm(fleet)
                                                     : fleet_launch_ssh(fleet);
    }
    if (how->token_file[0] == '\0') {
        return status_fail(STATUS_CONFIG,
                           "workers.token_file is empty, expected a file name with workers.launcher = \"manual\"");
    }
    status = fleet_token_load(how->token_file, fleet->control.token);
    if (status == STATUS_OK) {
        fprintf(stderr, "waiting for %s; start %s with: trainer-worker --join %s --token-file %s\n",
                figure_count(fleet->n_worker, "worker").text, fleet->n_worker == 1 ? "it" : "each",
                fleet->control.join, how->token_file);
    }
    return status;
}

static enum status transport_begin(struct fleet *fleet)
{
    enum status status = fleet_transport_open(fleet);
    if (status == STATUS_OK) {
        uv_poll_init(&fleet->loop, &fleet->transport_poll, transport_event_fd(fleet->transport));
        uv_poll_start(&fleet->transport_poll, UV_READABLE, transport_readable);
        fleet->is_polling = true;
    }
    return status;
}

static enum status workers_join(struct fleet *fleet)
{
    enum status status = workers_start(fleet);
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(LAUNCH);
    /* Workers of this machine start meanwhile; by which networks others come is known once they have joined. */
    bool is_local = fleet->job->workers.launcher == JOB_LAUNCHER_LOCAL;
    status = is_local ? transport_begin(fleet) : STATUS_OK;
    if (status == STATUS_OK) {
        status = fleet_await(fleet, all_joined);
    }
    status = status == STATUS_OK && !is_local ? transport_begin(fleet) : status;
    if (status != STATUS_OK) {
        return status;
    }
    fleet_unlisten(fleet);
    FAULT(JOINED);
    status = fleet_welcome(fleet);
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(WIRE_UP);
    fleet_begin(fleet, "while it was connected");
    fleet->is_welcomed = true;
    return fleet_await(fleet, all_connected);
}

enum status fleet_open(const struct job *job, const struct fleet_setup *setup, struct fleet **out)
{
    enum status status = room_check(job);
    if (status != STATUS_OK) {
        return status;
    }
    struct fleet *fleet = memory_alloc(1, sizeof *fleet);
    fleet->job = job;
    fleet->setup = setup != NULL ? *setup : (struct fleet_setup){0};
    fleet->attempt = fleet->setup.attempt;
    fleet->n_worker = (uint32_t)job->workers.count;
    fleet->workers = memory_alloc((size_t)fleet->n_worker + 1, sizeof *fleet->workers);
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        fleet->workers[rank].fleet = fleet;
        fleet->workers[rank].rank = rank;
        fleet->workers[rank].child.last_words = -1;
    }
    status = loop_open(fleet);
    if (status != STATUS_OK) {
        free(fleet->workers);
        free(fleet);
        return status;
    }
    segments_sweep(FLEET_SEGMENTS); /* of an attempt whose coordinator was killed */
    if (fleet->attempt == 0) {
        while (getrandom(&fleet->attempt, sizeof fleet->attempt, 0) < 0) {
        }
    }
    fleet_begin(fleet, "before all had joined");
    fleet->control.join_by_ms = fleet->entered_ms + (uint64_t)(job->workers.join_timeout * 1000);
    status = workers_join(fleet);
    if (status != STATUS_OK) {
        fleet_fail(fleet, NULL, status, "%s", status_reason());
        fleet_close(fleet);
        return status;
    }
    *out = fleet;
    return STATUS_OK;
}

void fleet_interrupt(struct fleet *fleet)
{
    fleet_fail(fleet, NULL, STATUS_INTERRUPTED, "%s", status_reason());
}

uint32_t fleet_machines(const struct fleet *fleet, uint32_t *machine_out)
{
    uint32_t n_machine = 0;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        uint32_t first = 0;
        while (strcmp(fleet->workers[first].host, fleet->workers[rank].host) != 0) {
            first++;
        }
        machine_out[rank] = first < rank ? machine_out[first] : n_machine++;
    }
    return n_machine;
}

enum seal_cipher fleet_cipher(const struct fleet *fleet)
{
    return fleet->secret.cipher;
}

void fleet_member(const struct fleet *fleet, uint32_t rank, uint32_t *pid_out, const char **host_out)
{
    const struct fleet_worker *worker = &fleet->workers[rank];
    *pid_out = worker->pid;
    *host_out = worker->child.was_started ? NULL : worker->host;
}

/* Tell all workers to end, and kill those that do not. */
static void workers_dismiss(struct fleet *fleet)
{
    fleet_finish(fleet);
    transport_abandon(fleet->transport); /* all is answered: a flush to workers that end meanwhile would fail */
    for (struct fleet_client *client = fleet->control.clients; client != NULL; client = client->next) {
        struct message_goodbye goodbye = {.rank = client->worker->rank};
        size_t n;
        void *frame = control_frame_goodbye(&goodbye, &n);
        fleet_client_send(client, frame, n);
    }
    fleet_linger(fleet, fleet_is_clientless, CLOSE_MS);
    if (!fleet_linger(fleet, fleet_is_childless, fleet->step.is_child ? STEP_CLOSE_MS : CLOSE_MS)) {
        fleet_kill(fleet);
    }
}

void fleet_close(struct fleet *fleet)
{
    if (fleet == NULL) {
        return;
    }
    char reason[sizeof fleet->failure.reason]; /* the caller's; closing may overwrite it */
    snprintf(reason, sizeof reason, "%s", status_reason());
    if (fleet->failure.status == STATUS_OK) {
        workers_dismiss(fleet);
    } else {
        fleet_end(fleet);
    }
    fleet_unlisten(fleet);
    while (fleet->control.clients != NULL) {
        fleet_client_close(fleet->control.clients);
    }
    if (fleet->is_polling) {
        uv_close((uv_handle_t *)&fleet->transport_poll, NULL);
    }
    uv_close((uv_handle_t *)&fleet->tick, NULL);
    uv_run(&fleet->loop, UV_RUN_DEFAULT);
    uv_loop_close(&fleet->loop);
    transport_close(fleet->transport);
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        free(fleet->workers[rank].address.bytes);
        free(fleet->workers[rank].far_address.bytes);
        if (fleet->workers[rank].child.last_words >= 0) {
            close(fleet->workers[rank].child.last_words);
        }
    }
    free(fleet->rank_of_part);
    free(fleet->workers);
    free(fleet);
    if (reason[0] != '\0') {
        status_fail(STATUS_PEER, "%s", reason);
    }
}
