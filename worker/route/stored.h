/* Inputs stored once: the blocks over which a part reads halo rows that it made for itself (program_store,
 * models/program/program.h).
 *
 * They are the part's: columns are payload rows of in-edges, and all edges are there. Where other passes read them
 * remapped (part_remap.h), the device makes schedules of both.
 */
#ifndef WORKER_STORED_H
#define WORKER_STORED_H

#include "worker/rows/own_parts.h"

struct stored;

/* Of own parts that are on the device, where some value has halo rows.
 *
 *   owns    borrows own; the caller owns *out: stored_close, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status stored_open(const struct own_parts *own, struct stored **out);
void stored_close(struct stored *stored);

/* Own part i's block with its pair k of in-edges, another part, to rows that count at a hop; all payload rows are
 * columns. */
struct device_block stored_block(const struct stored *stored, int32_t i, int32_t hop, int32_t k);

/* Halo rows of own part i before those of pair k. */
int64_t stored_rows_before(const struct stored *stored, int32_t i, int32_t k);

#endif
