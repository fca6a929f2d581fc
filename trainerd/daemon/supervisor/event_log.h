/* A job's events.jsonl as its coordinator writes it (trainerd/coordinator/events.h says what is in it), read line by line from
 * where reading ended before.
 *
 * The file is its owner's: it is never followed through a link, and nothing in it is trusted. What the job takes is not
 * read here either: its plan said so before. Knows no jobs.
 */
#ifndef TRAINERD_DAEMON_EVENT_LOG_H
#define TRAINERD_DAEMON_EVENT_LOG_H

#include "protocol/status.h"
#include "trainerd/daemon/jobs/job_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_LINE_MOST_BYTES (1 << 16) /* longer lines are passed over */

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

/* Call `each` for every whole line from byte *offset_io on that is an event of this attempt and a kind known here;
 * *offset_io is then where the first line begins that is not whole yet. At most some 1 MiB is read at once: *more_out
 * says that more is there. An END is the last that is read, and never passed: it is read again until its attempt is
 * over, whoever has kept the offset meanwhile and died.
 *
 *   errors  STATUS_NO_INPUT no such file; STATUS_DATA it is no plain file; STATUS_IO. *offset_io is as before
 */
enum status event_log_read(const char *path, int32_t attempt, int64_t *offset_io, bool *more_out,
                           void (*each)(void *context, const struct event *event), void *context);

/* The last line of a text file that is not empty, without "trainerd: " before it; "" when there is none. */
void event_log_last_words(const char *path, char *out, size_t n_room);
/* The same of n bytes in memory. */
void event_log_last_line(const char *text, size_t n, char *out, size_t n_room);

#endif
