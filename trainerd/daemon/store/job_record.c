#include "trainerd/daemon/store/job_record.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    bool ended;
} states[] = {
#define X(name, ended) {#name, ended},
    JOB_STATE_LIST(X)
#undef X
};

static const struct {
    const char *name, *text, *cure;
} reasons[] = {
#define X(name, text, cure) {#name, text, cure},
    JOB_REASON_LIST(X)
#undef X
};

bool job_is_in_slurm(const struct job_record *record)
{
    return record->state == JOB_STATE_SUBMITTED || record->run.slurm != 0;
}

const char *job_state_name(enum job_state state)
{
    return (unsigned)state < JOB_STATE_N ? states[state].name : "UNKNOWN";
}

bool job_state_ended(enum job_state state)
{
    return (unsigned)state < JOB_STATE_N && states[state].ended;
}

const char *job_reason_name(enum job_reason reason)
{
    return (unsigned)reason < JOB_REASON_N ? reasons[reason].name : "UNKNOWN";
}

const char *job_reason_cure(enum job_reason reason)
{
    return (unsigned)reason < JOB_REASON_N ? reasons[reason].cure : "";
}

const char *job_reason_text(enum job_reason reason)
{
    return (unsigned)reason < JOB_REASON_N ? reasons[reason].text : "";
}

bool job_state_find(const char *name, enum job_state *out)
{
    for (size_t i = 0; i < JOB_STATE_N; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *out = (enum job_state)i;
            return true;
        }
    }
    return false;
}

bool job_reason_find(const char *name, enum job_reason *out)
{
    for (size_t i = 0; i < JOB_REASON_N; i++) {
        if (strcmp(reasons[i].name, name) == 0) {
            *out = (enum job_reason)i;
            return true;
        }
    }
    return false;
}

void job_text_cut(const char *text, char *out, size_t capacity)
{
    size_t n = strlen(text);
    if (n >= capacity) {
        n = capacity - 1;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
            n--;
        }
    }
    memcpy(out, text, n);
    out[n] = '\0';
}

void job_reason_set(struct job_record *record, enum job_reason reason, const char *format, ...)
{
    char text[2 * JOB_REASON_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    record->reason = reason;
    job_text_cut(text, record->reason_text, sizeof record->reason_text);
}

enum job_reason job_reason_from(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return JOB_REASON_NONE;
    case STATUS_TRAINING:
        return JOB_REASON_DIVERGED;
    case STATUS_USAGE: /* a bad setting of the owner's: the daemon wrote the rest of the command line */
    case STATUS_CONFIG:
        return JOB_REASON_BAD_CONFIG;
    case STATUS_DATA:
        return JOB_REASON_BAD_DATA;
    case STATUS_NO_INPUT:
        return JOB_REASON_MISSING_INPUT;
    case STATUS_PEER:
        return JOB_REASON_WORKER_LOST;
    case STATUS_NOMEM:
        return JOB_REASON_OUT_OF_MEMORY;
    case STATUS_CREATE:
        return JOB_REASON_CANNOT_CREATE;
    case STATUS_IO:
        return JOB_REASON_DISK;
    case STATUS_INTERRUPTED:
        return JOB_REASON_COORDINATOR_LOST;
    case STATUS_BUG:
        break;
    }
    return JOB_REASON_INTERNAL;
}
