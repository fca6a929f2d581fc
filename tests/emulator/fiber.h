/* A CUDA thread as a fiber: a stack of its own that is switched to and from, and what it waits for. */
#ifndef EMULATOR_FIBER_H
#define EMULATOR_FIBER_H

#include "tests/emulator/emulator.h"

namespace emulator
{

/* Threads of a block at most. */
#define FIBER_N_MOST 1024

enum fiber_state { FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_COLLECTIVE, FIBER_ENDED };

struct fiber {
    dim3 index;
    int lane, warp;
    enum fiber_state state;
    place where; /* it waits */
    /* at a collective */
    collective what;
    unsigned mask;
    uint64_t value, result;
    int from;
    /* the machine's */
    void *sp, *stack, *tsan, *fake_stack;
};

/* The one that runs; NULL: none does. */
extern fiber *fiber_current;

/* Take its stack; once. */
void fiber_open(fiber *f);
/* Run `body` in each fiber from now on. */
void fiber_body(const std::function<void()> *body);
/* Switch to a fiber until it waits or ends; and back, from within it. */
void fiber_run(fiber *f);
void fiber_wait();
/* ThreadSanitizer's fiber of the caller of fiber_body. */
void *fiber_home();

} // namespace emulator

#endif
