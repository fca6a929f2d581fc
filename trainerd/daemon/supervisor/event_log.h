/* A job's events.jsonl (trainerd/coordinator/folder/events.h), read line by line from where the last read ended.
 *
 * A job's processes write it: it is never opened through a link, and nothing in it is trusted. The event "plan" is
 * not read, since the queue's own planning found the job's needs before. Knows no jobs.
 */
#ifndef TRAINERD_DAEMON_EVENT_LOG_H
#define TRAINERD_DAEMON_EVENT_LOG_H

#include "protocol/base/status.h"
#include "trainerd/daemon/store/job_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_LINE_MOST_BYTES (1 << 16)
#define EVENT_READ_MOST_BYTES (EVENT_LINE_MOST_BYTES + 1) /* at once: the longest line */

enum event_kind { EVENT_KIND_BEGIN, EVENT_KIND_STATE, EVENT_KIND_EPOCH, EVENT_KIND_CHECKPOINT, EVENT_KIND_END };

struct event {
    enum event_kind kind;
    enum job_state state;         /* STATE */
    struct job_progress progress; /* EPOCH */
    int64_t epoch;                /* CHECKPOINT */
    enum status status;           /* END */
    char reason[JOB_REASON_BYTES];
    bool restartable;
};

/* Call `each` for every complete line from byte *offset_io on that is an event of this attempt and of a kind known
 * here. Then *offset_io is where the first incomplete line begins.
 *
 *   notes   At most EVENT_READ_MOST_BYTES are read at once; *more_out: the file may have more. Reading stops at END,
 *           and *offset_io before it: a daemon that died after saving the offset reads END again
 *   errors  STATUS_NO_INPUT no such file; STATUS_DATA not a regular file, or what no coordinator writes: zero bytes
 *           (of a hole), a line too long, an end before *offset_io; STATUS_IO. *offset_io is as before
 */
enum status event_log_read(const char *path, int32_t attempt, int64_t *offset_io, bool *more_out,
                           void (*each)(void *context, const struct event *event), void *context);

/* Bytes of the file; -1: there is no such file. */
int64_t event_log_bytes(const char *path);

/* The last line of a text file that is not empty, without the prefix "trainerd: "; "" when there is no such line. */
void event_log_last_line_in(const char *path, char *out, size_t capacity);
/* The same of n bytes in memory. */
void event_log_last_line(const char *text, size_t n, char *out, size_t capacity);

#endif
