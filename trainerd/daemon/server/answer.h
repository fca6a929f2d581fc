/* Answers to a client: {"id": …, "ok": true, …}, {"id": …, "ok": false, "exit_code": …, "error": "…"}.
 *
 * Makes objects for connection_send; knows no sockets.
 */
#ifndef TRAINERD_DAEMON_ANSWER_H
#define TRAINERD_DAEMON_ANSWER_H

#include "protocol/base/status.h"

#include <jansson.h>

/* A successful answer to a request, to be completed. owns  the caller has the reference */
json_t *answer_new(const json_t *request);
/* The same with the fields that json_pack makes of the format. */
json_t *answer_with(const json_t *request, const char *format, ...);

/* The refusal of a request (NULL: of none in particular), with the reason of the last failure. */
json_t *answer_failure(const json_t *request, enum status status);

/* An event of a stream, and the end of it. id NULL: none was given */
json_t *answer_event(json_t *id, const char *event);
json_t *answer_end(json_t *id);

#endif
