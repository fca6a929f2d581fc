/* Blocking clients of the daemon under attack, each as one of its users. */
#ifndef TESTS_SYSTEM_ATTACK_TALK_H
#define TESTS_SYSTEM_ATTACK_TALK_H

#include "tests/system/attack/user.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Seconds that an answer may take: far more than a loaded machine needs. */
#define TALK_S 90

/* Connect to the socket as that user; -1 where it is refused. */
int talk_open(enum user who);
/* Connect to the port of metrics; -1 where it is refused. */
int talk_open_http(void);

/* Send what can be sent at once. */
void talk_send(int file, const void *bytes, size_t n);

/* The next line, without its end, at most n_out - 1 bytes of it; false: the connection has ended. No line and no end
 * within TALK_S fails the test. */
bool talk_line(int file, char *out, size_t n_out);

/* A request and its answer. A daemon that was to die has its successor asked, and connections that the user keeps open
 * make room. owns  the caller has the reference */
json_t *talk_ask(enum user who, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool talk_is_ok(const json_t *answer);
const char *talk_error(const json_t *answer);

/* Connections that are kept open. */
void talk_keep(enum user who, int file);
void talk_drop_all(void);

/* GET a path of the metrics' port; the answer's first bytes, "" where the connection ended without any. Valid until
 * the next call. */
const char *talk_http(const char *path);

/* Called when the daemon has died as it was to: starts the next. */
extern void (*talk_restart)(void);

#endif
