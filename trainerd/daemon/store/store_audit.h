/* Who changed what: a row for each request that changes something, saved in the change's own transaction, for each
 * that was refused, and for failed logins. The newest STORE_AUDIT_MOST stay.
 */
#ifndef TRAINERD_DAEMON_STORE_AUDIT_H
#define TRAINERD_DAEMON_STORE_AUDIT_H

#include "trainerd/daemon/store/store.h"

#define STORE_AUDIT_MOST 100000
#define STORE_AUDIT_FROM_BYTES 64
#define STORE_AUDIT_WHAT_BYTES 32

struct store_audit {
    int64_t id;       /* 1, 2, … */
    double at;        /* seconds since 1970 */
    int64_t uid;      /* -1: not known */
    const char *from; /* "unix, process 4711", "192.0.2.7 port 51234" */
    const char *what; /* the request */
    int64_t job;      /* 0: none, or not known */
    int exit_code;    /* 0: done; else of the refusal */
    const char *text; /* of the refusal */
};

/* Until store_audit_end, changes of jobs and facts are saved with a row of this request. Copies its texts. */
void store_audit_begin(struct store *store, const struct store_audit *request);
/* The request has changed nothing yet, and goes on later: no row, until it begins again. */
void store_audit_leave(struct store *store);
/* Save a row of the request, unless a change did. text: of a failure; NULL: do not record it. errors  STATUS_IO */
enum status store_audit_end(struct store *store, enum status status, const char *text);
/* A row of its own. errors  STATUS_IO */
enum status store_audit_put(struct store *store, const struct store_audit *row);

/* Rows with ids below `before`, the newest first, until `each` returns false; texts are borrowed for the call. */
enum status store_audit_each(struct store *store, int64_t before,
                             bool (*each)(void *context, const struct store_audit *row), void *context);

#endif
