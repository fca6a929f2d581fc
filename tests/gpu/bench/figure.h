/* What the rows of bench_gpu share: memory of the device, medians of runs that take turns, lines of the table. */
#ifndef TESTS_GPU_FIGURE_H
#define TESTS_GPU_FIGURE_H

#include "models/cuda/cuda.h"
#include "tests/gpu/bench/graph.h"

#define FIGURE_REPEATS 20
#define FIGURE_ARRAYS_MOST 64

/* The device, and what is taken for one row of the table. */
struct figure {
    struct device *device;
    const struct device_ops *ops;
    int n_array;
    struct {
        void *at;
        size_t n_bytes;
    } array[FIGURE_ARRAYS_MOST];
    int64_t n_bytes;  /* of all of them */
    char reason[256]; /* why the row cannot run; empty: it can */
};

/* Memory until figure_end; NULL, and a reason, where it is short. */
void *figure_take(struct figure *f, int64_t n_bytes);
/* Numbers in [-1, 1). */
float *figure_random(struct figure *f, int64_t n);
void *figure_copy(struct figure *f, const void *host, int64_t n_bytes);
/* The graph as an opened block: its own transpose. */
struct device_block figure_block(struct figure *f, const struct graph *graph);
void figure_end(struct figure *f);

/* Seconds of something that is run again and again. */
struct figure_run {
    void (*run)(struct figure *f, void *context);
    void *context;
    double seconds[FIGURE_REPEATS];
};

/* Run each twice for warmth, then FIGURE_REPEATS times, taking turns. Returns whether the row can go on. */
bool figure_time(struct figure *f, struct figure_run *runs, int n_run);
double figure_median(const struct figure_run *run);

/* One line of the table: `value` over `reference` is to be at most (positive) or at least (negative) `bar`; 0: no
 * bar. */
void figure_line(const char *what, double value, double reference, const char *unit, const char *reference_name,
                 double bar);
void figure_cannot(const char *what, const char *reason);
void figure_header(void);

#endif
