/* The file of workers.hosts: where ssh starts workers.
 *
 *   # a comment
 *   node1 slots=2
 *   ann@node2.example.org port=2222      # one slot
 *
 * Knows nothing of jobs and starts nothing. What a file says goes into a command line of ssh: names are checked.
 */
#ifndef TRAINERD_HOSTS_H
#define TRAINERD_HOSTS_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define HOSTS_FILE_MOST_BYTES ((size_t)4 << 20)
#define HOSTS_SLOTS_MOST 65536

struct host {
    char name[256]; /* NAME, ADDRESS, or with USER@ before it, as ssh takes it */
    int64_t n_slot; /* workers that it may have */
    int32_t port;   /* 0: ssh's own choice */
};

struct hosts {
    struct host *host; /* n_host, at least one, in the file's order */
    int64_t n_host;
    int64_t n_slot; /* of all */
};

/* Read a file / the text of one, which `origin` names.
 *
 *   owns    the caller owns *out: hosts_release; it is written on success only
 *   errors  STATUS_NO_INPUT no such file; STATUS_CONFIG "FILE:LINE: …" what is wrong, and what was expected
 */
enum status hosts_load(const char *path, struct hosts *out);
enum status hosts_read(const char *text, size_t n_bytes, const char *origin, struct hosts *out);
void hosts_release(struct hosts *hosts);

/* The host of a rank: hosts in their order, each with as many ranks as it has slots. rank < n_slot */
const struct host *hosts_of_rank(const struct hosts *hosts, uint32_t rank);

#endif
