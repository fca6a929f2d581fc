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
    if (fleet->failed != STATUS_OK) {
        return;
    }
    char sentence[700], who[128] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (worker != NULL && worker->was_started) {
        snprintf(who, sizeof who, "worker %u (pid %u) ", worker->rank, worker->pid);
    } else if (worker != NULL) {
        snprintf(who, sizeof who, "worker %u (pid %u on %s) ", worker->rank, worker->pid, worker->host);
    }
    fleet->failed = status;
    snprintf(fleet->reason, sizeof fleet->reason, "%s%s", who, sentence);
}

void fleet_transport_failed(struct fleet *fleet)
{
    if (fleet->transport_failed_ms == 0) {
        fleet->transport_failed_ms = clock_ms();
        snprintf(fleet->transport_failure, sizeof fleet->transport_failure, "%s", status_reason());
    }
}

void fleet_suspect(struct fleet_worker *worker, enum fleet_suspicion suspicion, enum status status,
                   const char *sentence)
{
    if (suspicion <= worker->suspicion) {
        return;
    }
    if (worker->suspicion == FLEET_SUSPICION_NONE) {
        worker->suspect_ms = clock_ms();
    }
    worker->suspicion = suspicion;
    worker->suspect_status = status;
    snprintf(worker->suspect, sizeof worker->suspect, "%s", sentence);
}
