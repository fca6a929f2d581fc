#include "models/cpu/threads.h"

#include <criterion/criterion.h>

/* Eight measured loops of so many seconds, in some of which the caller slept: how many loops are on a single thread then. */
static int span_after(struct cpu_threads *t, double taken_s, int n_slept)
{
    for (int k = 0; k < 8; k++) {
        cpu_threads_note(t, taken_s, k < n_slept);
    }
    int n = 0;
    while (cpu_threads_begin(t)) {
        n++;
    }
    return n;
}

Test(threads, small_loops_take_one_thread_for_spans_that_double_while_their_caller_sleeps)
{
    struct cpu_threads t = {0};
    cr_assert(span_after(&t, 1e-4, 2) == 0 && span_after(&t, 1e-2, 8) == 0 && span_after(&t, 1e-4, 3) == 512 &&
              span_after(&t, 1e-4, 8) == 1024 && span_after(&t, 1e-4, 0) == 0 && span_after(&t, 1e-4, 8) == 512);
    for (int k = 0; k < 16; k++) {
        cpu_threads_note(&t, k < 8 ? 1e-4 : 2e-4, k < 8);
    }
    cr_assert(!t.single && t.n_left == 2048, "on one they take longer");
}
