/* The one loop of control socket, processes and transport; after a failure it ends all workers. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "trainerd/coordinator/fleet/fleet_state.h"
#include "trainerd/coordinator/fleet/segments.h"

#include <signal.h>

#define ABORT_MS 1000
#define KILL_MOST_MS 5000
#define STEP_ABORT_MS 5000 /* tasks that end, Slurm that sees it, srun that is told */
#define STEP_KILL_MOST_MS 30000

/* Let everything progress once, then sleep until an event. Short waits are spun through before the loop runs. */
static void turn(struct fleet *fleet, bool (*done)(const struct fleet *fleet))
{
    bool may_sleep = true;
    if (fleet->transport != NULL && fleet->failure.transport_ms == 0) {
        if (transport_wait(fleet->transport, 0) != STATUS_OK) {
            fleet_transport_failed(fleet);
        } else {
            may_sleep = !done(fleet) && transport_arm(fleet->transport);
        }
    }
    uv_run(&fleet->loop, may_sleep ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

bool fleet_linger(struct fleet *fleet, bool (*done)(const struct fleet *fleet), uint64_t most_ms)
{
    uint64_t by = clock_ms() + most_ms;
    while (!done(fleet) && clock_ms() < by) {
        turn(fleet, done);
    }
    return done(fleet);
}

int fleet_n_alive(const struct fleet *fleet)
{
    int n_alive = fleet->step.is_child;
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        n_alive += fleet->workers[rank].child.is_there;
    }
    return n_alive;
}

bool fleet_is_childless(const struct fleet *fleet)
{
    return fleet_n_alive(fleet) == 0;
}

/* Slurm ends a step's tasks with KILL when its srun gets TERM; an srun that is killed itself would leave them. */
static void step_kill(struct fleet *fleet)
{
    if (fleet->step.is_child) {
        uv_process_kill(&fleet->step.process, SIGTERM);
        if (!fleet_linger(fleet, fleet_is_childless, STEP_KILL_MOST_MS)) {
            log_error("srun does not end its tasks; they end themselves, without a coordinator");
            uv_process_kill(&fleet->step.process, SIGKILL);
        }
    }
}

void fleet_kill(struct fleet *fleet)
{
    step_kill(fleet);
    for (uint32_t rank = 0; rank < fleet->n_worker; rank++) {
        if (fleet->workers[rank].child.is_there) {
            uv_process_kill(&fleet->workers[rank].child.process, SIGKILL);
        }
    }
    if (!fleet_linger(fleet, fleet_is_childless, KILL_MOST_MS)) {
        log_error("%d workers cannot be killed", fleet_n_alive(fleet));
    }
}

enum status fleet_end(struct fleet *fleet)
{
    if (!fleet->failure.has_ended) {
        fleet->failure.has_ended = true;
        fleet_unlisten(fleet);
        struct message_abort abort = {.status = fleet->failure.status, .reason = message_text(fleet->failure.reason)};
        for (struct fleet_client *client = fleet->control.clients; client != NULL; client = client->next) {
            size_t n;
            void *frame = control_frame_abort(&abort, &n);
            fleet_client_send(client, frame, n);
        }
        if (!fleet_linger(fleet, fleet_is_childless, fleet->step.is_child ? STEP_ABORT_MS : ABORT_MS)) {
            fleet_kill(fleet);
        }
        segments_sweep(FLEET_SEGMENTS);
        if (fleet->transport != NULL) {
            transport_abandon(fleet->transport); /* buffers of incomplete sends belong to the caller again */
        }
    }
    return status_fail(fleet->failure.status, "%s", fleet->failure.reason);
}

enum status fleet_await(struct fleet *fleet, bool (*done)(const struct fleet *fleet))
{
    while (fleet->failure.status == STATUS_OK && !done(fleet)) {
        const volatile sig_atomic_t *stop = fleet->setup.stop;
        if (stop != NULL && *stop != 0) {
            fleet_fail(fleet, NULL, STATUS_INTERRUPTED, "interrupted by signal %d", (int)*stop);
            break;
        }
        turn(fleet, done);
    }
    return fleet->failure.status == STATUS_OK ? STATUS_OK : fleet_end(fleet);
}
