/* How many threads the next loop takes: all, or one while other programs keep the cores.
 *
 * A thread without a core keeps all others waiting. Then the calling thread sleeps in most loops, which on idle cores
 * it hardly does, and a small loop is faster on a single thread. No bit depends on it.
 */
#ifndef MODELS_CPU_THREADS_H
#define MODELS_CPU_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: all threads. */
struct cpu_threads {
    bool single; /* one thread for n_left loops; else so many are not measured */
    int32_t n_left;
    int32_t n_span;         /* of the last such span; it doubles while cores stay busy */
    int32_t n_loop;         /* since the last one that was measured */
    int32_t n_noted, n_hit; /* measured ones, and those in which the caller slept */
    double taken_s, all_s;  /* by measured ones; mean of those on all threads, before single ones */
    bool measures;          /* the loop that runs */
    int64_t n_sleep;        /* of the calling thread, before it */
    double since_s;
};

/* A loop begins: is it on a single thread? */
bool cpu_threads_begin(struct cpu_threads *threads);

/* The loop that began has ended. */
void cpu_threads_end(struct cpu_threads *threads);

/* A measured loop has taken so long, and its caller slept in it, or did not. */
void cpu_threads_note(struct cpu_threads *threads, double taken_s, bool slept);

#endif
