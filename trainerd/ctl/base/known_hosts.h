/* The daemons that this user has logged in to over TCP: how each is known, and who the user is there. A file of the
 * user's own, $XDG_CONFIG_HOME/trainerd/hosts.toml (~/.config/trainerd/hosts.toml), that `trainctl login` writes; the
 * Python package reads it, too.
 *
 *   ["tcp:gpu1:9750"]
 *   fingerprint = "64 hexadecimal digits"     # "none": a connection without TLS
 *   user = "ada"                              # "": none is named
 *   secret_file = "/home/ada/.config/trainerd/secret"
 *
 * Opens no connection.
 */
#ifndef TRAINERD_CTL_KNOWN_HOSTS_H
#define TRAINERD_CTL_KNOWN_HOSTS_H

#include "protocol/base/status.h"
#include "trainerd/socket/auth.h"
#include "trainerd/socket/endpoint.h"
#include "trainerd/socket/tls.h"

#include <limits.h>
#include <stdbool.h>

#define KNOWN_HOSTS_NO_TLS "none" /* in the place of a fingerprint */

struct known_host {
    char address[ENDPOINT_TEXT_BYTES]; /* as endpoint_print writes it */
    char fingerprint[TLS_FINGERPRINT_BYTES];
    char user[AUTH_USER_BYTES];
    char secret_file[PATH_MAX];
};

struct known_hosts {
    struct known_host *host; /* n_host */
    size_t n_host;
};

/* Read the file's text; origin stands for its name in messages.
 *
 *   owns    the caller owns *out: known_hosts_release; untouched after an error
 *   errors  STATUS_CONFIG "ORIGIN:LINE:COLUMN: …" with what was expected
 */
enum status known_hosts_read(const char *text, size_t n, const char *origin, struct known_hosts *out);
void known_hosts_release(struct known_hosts *hosts);

/* A fingerprint, or "none", from user input; `what` names its origin. errors  STATUS_CONFIG */
enum status known_hosts_fingerprint(const char *what, const char *text, char out[TLS_FINGERPRINT_BYTES]);

/* Look an address up in the user's file; *found_out false: it is not there, nor need the file be. Here and below
 * localhost, 127.0.0.1 and ::1 are one host: out->address is as the file has it.
 * errors  those of known_hosts_read; STATUS_CONFIG others can read or change the file; STATUS_IO */
enum status known_hosts_find(const char *address, struct known_host *out, bool *found_out);

/* Put a host into the file, in the place of one of the same address; the file is written aside and renamed, and its
 * owner's alone.
 * errors  those of known_hosts_find; STATUS_CREATE */
enum status known_hosts_save(const struct known_host *host);

/* Take a host out of the file, where it is. errors  those of known_hosts_save */
enum status known_hosts_remove(const char *address);

/* Keep a secret in a file of its own in the same folder, named by the host's address and user: host->secret_file.
 * errors  STATUS_CONFIG there is no home folder; STATUS_CREATE */
enum status known_hosts_keep_secret(const struct auth_secret *secret, struct known_host *host);

/* Remove a file of known_hosts_keep_secret that no host uses. errors  those of known_hosts_find */
enum status known_hosts_forget_secret(const char *secret_file, bool *removed_out);

#endif
