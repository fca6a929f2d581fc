/* Arrays larger than memory: addresses backed by a file. The ranges at work, and as many more as the budget allows,
 * are in memory.
 *
 * A caller pins a range before it touches it (spill_pin) and unpins it afterwards. Ranges that are not pinned are
 * evicted least recently used first and written behind; the next ones are prefetched. Touching a range that is not
 * pinned may end the process: a step whose operands are incomplete is found, and never computes with wrong numbers.
 * For one thread; knows bytes only.
 */
#ifndef WORKER_SPILL_H
#define WORKER_SPILL_H

#include "protocol/base/status.h"

#include <stdint.h>

/* Bytes move in chunks of this size. */
#define SPILL_CHUNK ((int64_t)64 << 10)

struct spill;
struct trace;

enum spill_access {
    SPILL_READ,
    SPILL_UPDATE, /* read and changed, or changed in part */
    SPILL_WRITE   /* overwritten before it is read: what was there need not come back */
};

/* Bytes of one array. Ranges outside the spill are passed over, so that callers need not know what is spilled. */
struct spill_range {
    const void *at; /* NULL: none */
    int64_t n_bytes;
    enum spill_access access;
};

/* Spill to a file in `dir` (without a name: no file is left, however the process ends).
 *
 *   owns    the caller owns *out: spill_close
 *   errors  STATUS_IO the folder is missing, read-only or no folder; STATUS_NOMEM no thread
 */
enum status spill_open(const char *dir, struct spill **out);
void spill_close(struct spill *spill);

/* Most bytes in memory; pinned bytes count first. Before the first call: no bound. */
void spill_limit(struct spill *spill, int64_t n_bytes);

/* n_bytes of addresses, zeros at first, and as many on the disk.
 *
 *   owns    *out (aligned to a page) lives as long as the spill
 *   errors  STATUS_IO the disk is full; STATUS_NOMEM no addresses; *out untouched then
 */
enum status spill_take(struct spill *spill, int64_t n_bytes, void *out);

/* Bring ranges into memory and keep them there until spill_unpin of the same; pins add up. A NULL spill does nothing
 * here and below.
 * errors  STATUS_IO of the disk, then and ever after */
enum status spill_pin(struct spill *spill, const struct spill_range *range, int n_range);
void spill_unpin(struct spill *spill, const struct spill_range *range, int n_range);

/* Begin to read the ranges of the next spill_pin, as far as the budget allows, and do not wait. */
void spill_prefetch(struct spill *spill, const struct spill_range *range, int n_range);

/* The ranges are not read for long: they are evicted before all else. */
void spill_leave(struct spill *spill, const struct spill_range *range, int n_range);

/* These bytes are overwritten before they are read: they need not be written to the file. */
void spill_discard(struct spill *spill, const void *at, int64_t n_bytes);

/* Record every wait from now on; NULL: no longer. */
void spill_trace(struct spill *spill, struct trace *trace);

/* Bytes read from the file and written to it so far, as ordered; 0 for a NULL spill. */
int64_t spill_moved(const struct spill *spill);

/* Bytes in memory that pinning ranges takes, each for itself; or n_bytes at any address at most. */
int64_t spill_touched(const struct spill *spill, const struct spill_range *range, int n_range);
int64_t spill_pinned_bytes(int64_t n_bytes);

#endif
