/* Requests as a table, made from requests.def: the name, fields and answer of each. Checks requests against it.
 *
 * Knows the shape of requests, not what they do.
 */
#ifndef TRAINERD_DAEMON_REQUESTS_H
#define TRAINERD_DAEMON_REQUESTS_H

#include "protocol/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/*         name    in messages */
#define REQUEST_TYPE_LIST(X)                                                                                         \
    X(TEXT, "a text")                                                                                                \
    X(TEXTS, "an array of texts")                                                                                    \
    X(LISTS, "an array of arrays of texts")                                                                          \
    X(INT, "a whole number")                                                                                         \
    X(REAL, "a number")                                                                                              \
    X(BOOL, "true or false")                                                                                         \
    X(JOB, "a job's number or name")

enum request_type {
#define X(name, text) REQUEST_TYPE_##name,
    REQUEST_TYPE_LIST(X)
#undef X
};

#define REQUEST_BEGIN(name, help, gives) REQUEST_##name,
#define FIELD(type, name, required, help)
#define REQUEST_END(name)
enum request {
#include "trainerd/socket/requests.def"
    REQUEST_N
};

/* Find the request and check its fields.
 *
 *   errors  STATUS_USAGE no such command, an unknown or missing field, a field of another type: the sentence names it
 */
enum status request_check(const json_t *request, enum request *out);

/* The reference, as markdown. */
void requests_describe(FILE *file);

#endif
