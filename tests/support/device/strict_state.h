/* The queue and the memory of the strict device; for its two files alone. */
#ifndef TESTS_SUPPORT_STRICT_STATE_H
#define TESTS_SUPPORT_STRICT_STATE_H

#include "models/cpu/cpu.h"
#include "tests/support/device/strict.h"

struct strict;

/* A call put off: run(strict, args). */
struct strict_call {
    void (*run)(struct strict *strict, void *args);
    void *args;
};

struct strict_lane {
    struct strict_call *call;
    size_t n_call, capacity;
    uint64_t n_done, n_given; /* since open; call[] holds those in between */
};

/* Memory that host and device share: operations may read it. */
struct strict_shared {
    const char *at;
    size_t n_bytes;
};
enum { STRICT_N_SHARED = 64 };

struct strict {
    struct device base;
    struct device *cpu;
    struct strict_lane lane[DEVICE_LANE_N];
    char *memory; /* address space, given out from the front, never again; open whenever the device works */
    size_t n_used;
    struct strict_shared shared[STRICT_N_SHARED];
    int n_shared;
    int n_open; /* depth of work */
};

static inline struct strict *strict_of(struct device *device)
{
    return (struct strict *)device;
}

/* Put a call off, with a copy of its arguments. */
void strict_defer(struct strict *s, enum device_lane lane, void (*run)(struct strict *, void *), const void *args,
                  size_t n_bytes);

/* Do all of a lane up to a number of calls. */
void strict_run(struct strict *s, enum device_lane lane, uint64_t n_call);
void strict_run_all(struct strict *s);

/* Around work on device memory. */
void strict_enter(struct strict *s);
void strict_leave(struct strict *s);

#define X(op) DEVICE_OP_PROTOTYPE(strict, op);
DEVICE_OP_LIST(X)
#undef X

#endif
