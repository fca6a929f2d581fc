/* A step over the own parts, each with its operands pinned in memory: where a trainer meets its spill.
 *
 * Without a spill this is a plain walk over the own parts.
 */
#ifndef WORKER_PIN_H
#define WORKER_PIN_H

#include "worker/state/trainer_state.h"

/* Blocks and sparse features are several arrays each; the steps of a fused chain have few arrays outside of its
 * windows. */
#define PIN_RANGES_MOST (STEP_N_OPERAND + 16 + 8 * CHAIN_N_STEP)

/* Which of a step's operands. */
enum pin_use {
    PIN_USE_RUNNING, /* while it runs on a part */
    PIN_USE_PACKING, /* HALO: while payloads are packed, or blocks read rows */
    PIN_USE_TAKING,  /* HALO: of a part, from its first block to its last one; … */
    PIN_USE_BLOCK,   /* … and while the block of its pair `pair` runs */
    PIN_USE_AROUND   /* of no part: while the step lasts */
};

/* A walk over own parts:
 *
 *     struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
 *     while (pin_next(&pin)) {
 *         … own part pin.part …
 *     }
 *     … pin.status …
 *
 * What the body sets pin.status to ends the walk, as does a failure of the spill.
 */
struct pin {
    struct trainer *trainer;
    const struct step *step; /* or the first of a fused chain */
    enum pin_use use;
    bool ascends; /* from the first own part to the last; else whichever way finds more in memory */
    enum status status;
    int32_t part; /* own part at work */
    int32_t pair;
    int32_t n_begun;
    double begin_s; /* output.trace: when it began */
    bool is_pinned;
};

struct pin pin_open(struct trainer *trainer, const struct step *step, enum pin_use use);
bool pin_next(struct pin *pin);

/* The body has run on the n parts after pin.part as well. Not under a spill. */
void pin_pass(struct pin *pin, int32_t n);

/* One part, or what belongs to none, until pin_end. */
enum status pin_begin(struct pin *pin, int32_t part);
void pin_end(struct pin *pin);

/* Begin to read what pin_begin of this part will pin, as far as there is memory. */
void pin_prefetch(const struct pin *pin, int32_t part);

/* What pin_begin of this part would pin is not read for long: it is evicted before all else. */
void pin_leave(const struct pin *pin, int32_t part);

/* Bytes of memory that pin_begin of this part takes. */
int64_t pin_bytes(const struct pin *pin, int32_t part);

/* After the step at this time: arrays that are not read any more need not be written to the file. */
void pin_discard(const struct trainer *trainer, int time);

#endif
