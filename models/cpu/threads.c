#include "models/cpu/threads.h"

#include "protocol/base/clock.h"

#include <sys/resource.h>

#define MEASURED_EVERY 8 /* loops */
#define N_NOTED 8        /* measured loops, after which it is decided */
#define N_HIT 3          /* of these, where cores are busy */
#define SMALL_S 5e-4     /* longer ones wait for each other's rest, and gain by all threads */
#define SPAN_LEAST 512
#define SPAN_MOST 65536

/* Times that the calling thread has slept. */
static int64_t sleeps(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

static void span_begin(struct cpu_threads *t, bool single)
{
    t->n_span = t->n_span == 0 ? SPAN_LEAST : t->n_span < SPAN_MOST ? 2 * t->n_span : SPAN_MOST;
    t->n_left = t->n_span;
    t->single = single;
}

void cpu_threads_note(struct cpu_threads *t, double taken_s, bool slept)
{
    t->taken_s += taken_s;
    t->n_hit += slept;
    if (++t->n_noted < N_NOTED) {
        return;
    }
    const double mean_s = t->taken_s / N_NOTED;
    if (!t->single && t->n_hit >= N_HIT && mean_s < SMALL_S) {
        t->all_s = mean_s;
        span_begin(t, true);
    } else if (!t->single) {
        t->n_span = 0;
    } else if (mean_s > t->all_s) { /* faster on all threads, though these wait */
        span_begin(t, false);
    }
    t->n_noted = t->n_hit = 0;
    t->taken_s = 0.0;
}

bool cpu_threads_begin(struct cpu_threads *t)
{
    t->single = t->single && t->n_left > 0;
    t->n_left -= t->n_left > 0;
    t->measures = (t->single || t->n_left == 0) && ++t->n_loop >= MEASURED_EVERY;
    if (t->measures) {
        t->n_loop = 0;
        t->n_sleep = sleeps();
        t->since_s = clock_s();
    }
    return t->single;
}

void cpu_threads_end(struct cpu_threads *t)
{
    if (t->measures) {
        t->measures = false;
        cpu_threads_note(t, clock_s() - t->since_s, sleeps() > t->n_sleep);
    }
}
