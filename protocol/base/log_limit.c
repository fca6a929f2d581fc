#include "protocol/base/log_limit.h"

#include <stdio.h>

#define MINUTE_MS 60000u

bool log_limit_passes(struct log_limit *limit, uint64_t now_ms, char note[LOG_LIMIT_NOTE_BYTES])
{
    note[0] = '\0';
    if (limit->since_ms == 0 || now_ms - limit->since_ms >= MINUTE_MS) {
        if (limit->n > LOG_LIMIT_MOST) {
            snprintf(note, LOG_LIMIT_NOTE_BYTES, " (%llu more were left out)",
                     (unsigned long long)limit->n - LOG_LIMIT_MOST);
        }
        *limit = (struct log_limit){.since_ms = now_ms};
    }
    return ++limit->n <= LOG_LIMIT_MOST;
}
