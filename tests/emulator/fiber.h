/* A CUDA thread as a fiber: a stack of its own that is switched to and from, and what it waits for. */
#ifndef EMULATOR_FIBER_H
#define EMULATOR_FIBER_H

#include "tests/emulator/emulator.h"

namespace emulator
{

/* Threads of a block at most. */
#define FIBER_N_MOST 1024

enum fiber_state : unsigned char { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_COLLECTIVE, FIBER_ENDED };

struct fiber {
    dim3 index;
    int lane, warp;
    enum fiber_state *state; /* in a list of all, which is all that the choice of the next one reads */
    uint64_t n_met;          /* barriers and collectives of this block */
    place where;             /* it waits */
    late_copies *copies;     /* NULL: none yet in this block */
    /* the machine's */
    void *sp, *stack, *tsan, *fake_stack;
};

/* The one that runs; NULL: none does. */
extern fiber *fiber_current;

/* Take its stack; once. */
void fiber_open(fiber *f);
/* Run `body` in each fiber from now on. */
void fiber_body(const std::function<void()> *body);
/* Switch to a fiber, and back when fiber_next has none. */
void fiber_run(fiber *f);
/* From within a fiber that waits or has ended: switch to the next one. */
void fiber_wait();
/* Which one that is (block.cpp); NULL: none can go on. */
fiber *fiber_next();
/* ThreadSanitizer's fiber of the caller of fiber_body. */
void *fiber_home();

} // namespace emulator

#endif
