/* Arrays larger than memory: addresses behind which a file lies, of which what is at work, and as much more as the budget
 * allows, is in memory.
 *
 * Whoever touches an array says so before (spill_use) and after (spill_done); in between it is held. The rest is given up
 * least recently used first and written behind; what comes next is read ahead. Touching what nobody holds may end the process:
 * a step that forgets to say what it uses is found, and never computes with wrong numbers. For one thread; knows bytes only.
 */
#ifndef WORKER_SPILL_H
#define WORKER_SPILL_H

#include "protocol/status.h"

#include <stddef.h>
#include <stdint.h>

/* What is moved is whole chunks of so many bytes. */
#define SPILL_CHUNK ((int64_t)64 << 10)

struct spill;
struct trace;

enum spill_access {
    SPILL_READ,
    SPILL_UPDATE, /* read and changed, or changed in part */
    SPILL_WRITE   /* overwritten before it is read: what was there need not come back */
};

/* Bytes of one array; those of no spill's are passed over, so that callers need not know what is spilled. */
struct spill_range {
    const void *at; /* NULL: none */
    int64_t n_bytes;
    enum spill_access access;
};

/* Spill to a file in `dir` (made without a name: nothing is left behind, however the process ends).
 *
 *   owns    the caller owns *out: spill_close
 *   errors  STATUS_IO the folder is missing, read-only or no folder; STATUS_NOMEM no thread
 */
enum status spill_open(const char *dir, struct spill **out);
void spill_close(struct spill *spill);

/* Most bytes in memory that are not held; what is held counts first. Before the first call: no bound. */
void spill_limit(struct spill *spill, int64_t n_bytes);

/* n_bytes of addresses, zeros at first, and as much room on the disk.
 *
 *   owns    *out (aligned to a page) lives as long as the spill
 *   errors  STATUS_IO the disk is full; STATUS_NOMEM no addresses; *out untouched then
 */
enum status spill_take(struct spill *spill, int64_t n_bytes, void *out);

/* Bring ranges into memory and hold them until spill_done of the same; holds add up. A NULL spill does nothing here and below.
 * errors  STATUS_IO of the disk, then and ever after */
enum status spill_use(struct spill *spill, const struct spill_range *range, int n_range);
void spill_done(struct spill *spill, const struct spill_range *range, int n_range);

/* Begin to bring in what the next spill_use will ask for, as far as there is room, and do not wait. */
void spill_ahead(struct spill *spill, const struct spill_range *range, int n_range);

/* Nobody reads these bytes before they are overwritten: they need not be written to the file. */
void spill_forget(struct spill *spill, const void *at, int64_t n_bytes);

/* Write down what is waited for from now on; NULL: not any more. */
void spill_trace(struct spill *spill, struct trace *trace);

/* Bytes taken. */
int64_t spill_bytes(const struct spill *spill);

/* Bytes that holding n_bytes anywhere may take. */
int64_t spill_held_bytes(int64_t n_bytes);

#endif
