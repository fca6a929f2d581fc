/* The daemon's configuration: TOML, one section [daemon], made from daemon_keys.def. */
#ifndef TRAINERD_DAEMON_DAEMON_CONFIG_H
#define TRAINERD_DAEMON_DAEMON_CONFIG_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DAEMON_TEXT_BYTES 1024
/* The value of a key that is "auto". */
#define DAEMON_IS_AUTO (-1)
#define DAEMON_FILE "/etc/trainerd/trainerd.toml"

struct daemon_config {
#define DAEMON_TEXT(key, default_, help) char key[DAEMON_TEXT_BYTES];
#define DAEMON_INT(key, default_, least, most, help) int64_t key;
#define DAEMON_AUTO(key, default_, least, most, help) int64_t key;
#define DAEMON_REAL(key, default_, least, most, help) double key;
#define DAEMON_SIZE(key, default_, least, most, help) int64_t key;
#include "trainerd/daemon/daemon_keys.def"
};

/* Every key at its default. */
void daemon_config_defaults(struct daemon_config *out);

/* Read a daemon's file, then `key=value` settings in order (daemon.key=value is the same).
 *
 *   path    NULL: DAEMON_FILE if it exists, else nothing is read
 *   errors  STATUS_CONFIG "FILE:LINE:COLUMN: …" with the nearest valid name or the range; STATUS_NO_INPUT no such
 *           file
 */
enum status daemon_config_load(const char *path, const char *const *set, size_t n_set, struct daemon_config *out);

/* Print a file with every key at its default and its help. Reading it changes nothing. */
void daemon_config_describe(FILE *file);

#endif
