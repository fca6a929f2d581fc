/* The first failure of a fleet, and what looks like one. */
#include "trainerd/coordinator/fleet/fleet_state.h"

#include "protocol/base/clock.h"

#include <stdarg.h>
#include <stdio.h>

void fleet_begin(struct fleet *fleet, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fleet->doing, sizeof fleet->doing, format, arguments);
    va_end(arguments);
    fleet->entered_ms = clock_ms();
}

void fleet_fail(struct fleet *fleet, const struct fleet_worker *worker, enum status status, const char *format, ...)
{
    if (fleet->failure.status != STATUS_OK) {
        return;
    }
    char sentence[700], who[128] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (worker != NULL && worker->child.was_started) {
        snprintf(who, sizeof who, "worker %u (pid %u) ", worker->rank, worker->pid);
    } else if (worker != NULL) {
        snprintf(who, sizeof who, "worker %u (pid %u on %s) ", worker->rank, worker->pid, worker->host);
    }
    fleet->failure.status = status;
    snprintf(fleet->failure.reason, sizeof fleet->failure.reason, "%s%s", who, sentence);
}

void fleet_transport_failed(struct fleet *fleet)
{
    if (fleet->failure.transport_ms == 0) {
        fleet->failure.transport_ms = clock_ms();
        snprintf(fleet->failure.transport, sizeof fleet->failure.transport, "%s", status_reason());
    }
}

void fleet_suspect(struct fleet_worker *worker, enum fleet_suspicion suspicion, enum status status,
                   const char *sentence)
{
    if (suspicion <= worker->suspect.suspicion) {
        return;
    }
    if (worker->suspect.suspicion == FLEET_SUSPICION_NONE) {
        worker->suspect.since_ms = clock_ms();
    }
    worker->suspect.suspicion = suspicion;
    worker->suspect.status = status;
    snprintf(worker->suspect.sentence, sizeof worker->suspect.sentence, "%s", sentence);
}
