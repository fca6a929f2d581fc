/* A limit for log lines that unauthenticated clients can cause, for each kind of line: LOG_LIMIT_MOST in a minute.
 * The first line after that minute says how many were left out. */
#ifndef PROTOCOL_LOG_LIMIT_H
#define PROTOCOL_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_MOST 10
#define LOG_LIMIT_NOTE_BYTES 64

struct log_limit {
    uint64_t since_ms; /* start of the current minute; 0: not begun */
    uint64_t n;        /* lines requested in it */
};

/* May a line be written now? note: text to append to it, "" or " (12 more were left out)". now_ms: clock_ms */
bool log_limit_passes(struct log_limit *limit, uint64_t now_ms, char note[LOG_LIMIT_NOTE_BYTES]);

#endif
