/* The daemon: store, supervisor, server and their loop, from its configuration to its end. */
#ifndef TRAINERD_DAEMON_DAEMON_H
#define TRAINERD_DAEMON_DAEMON_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct daemon_options {
    const char *listen;     /* --listen; NULL: the config file's, else the user's or the system's runtime folder */
    const char *state;      /* --state; NULL likewise */
    const char *config;     /* --daemon-config; NULL: /etc/trainerd/trainerd.toml if it exists */
    const char *const *set; /* n_set settings of that file */
    size_t n_set;
};

/* Serve until TERM or INT. Coordinators run on.
 *
 *   errors  STATUS_CONFIG its configuration; STATUS_CREATE the socket or state folder; STATUS_PEER another daemon
 *           serves them
 */
enum status daemon_run(const struct daemon_options *options);

/* Restore the records of jobs from a backup, or repair them (from NULL), while no daemon serves the state folder; say
 * what was done, as JSON on standard output or on standard error. errors  those of jobs_restore; STATUS_CONFIG */
enum status daemon_restore(const struct daemon_options *options, const char *from, bool json);

/* Print the fingerprint of the state folder's certificate, with `json` as an object; no daemon needs to run.
 * errors  those of tls_identity_open; STATUS_CONFIG */
enum status daemon_fingerprint(const struct daemon_options *options, bool json);

#endif
