/* Operations of the device table on fixed inputs: what goes in and what comes out.
 *
 * A case runs on any device: it takes its inputs into the device's memory, calls operations, and names its results.
 * Two programs compare them: unit tests between the reference, the cpu device in all its variants and the emulated cuda
 * device (tests/unit/models/device/test_device_operations.c), and gpu_operations on a machine with a GPU. So cases know
 * no test library, which such a machine lacks.
 */
#ifndef TESTS_SUPPORT_OPERATION_H
#define TESTS_SUPPORT_OPERATION_H

#include "models/device/device.h"

/* What a case's results are the same as. */
enum operation_same {
    OPERATION_SAME_CPU,      /* the cpu device's bits, emulated and on every GPU */
    OPERATION_SAME_EMULATED, /* the emulated bits on every GPU, and the cpu device's numbers within the tolerance */
    OPERATION_SAME_NUMBERS   /* a library's: the cpu device's numbers within the tolerance alone */
};

enum operation_type { OPERATION_FLOATS, OPERATION_DOUBLES, OPERATION_BYTES }; /* bytes have no tolerance */

#define OPERATION_TAKEN_MOST 96
#define OPERATION_RESULTS_MOST 32

struct operation_array {
    enum operation_type type;
    size_t n_bytes;
    void *at; /* device memory */
};

/* One run of a case on one device. */
struct operation_run {
    struct device *device;
    const struct device_ops *ops;
    int n_taken, n_result;
    uint32_t seed; /* of the next random input */
    int64_t shift; /* random inputs begin so many floats behind a place for any type */
    struct operation_array taken[OPERATION_TAKEN_MOST], result[OPERATION_RESULTS_MOST];
};

#define OPERATION_SHAPE_MOST 5

struct operation_case {
    const char *name; /* no blanks; NULL ends a list */
    enum operation_same same;
    double tolerance; /* of the largest expected value, against the reference and where bits may differ */
    void (*run)(struct operation_run *run, const int64_t *shape);
    int64_t shape[OPERATION_SHAPE_MOST]; /* what they are: above each `run` */
};

extern const struct operation_case operation_dense_cases[], operation_rows_cases[], operation_aggregate_cases[],
    operation_attention_cases[], operation_tile_cases[], operation_payload_cases[], operation_loss_cases[];

/* --- inputs, in device memory until the run's end --- */
void *operation_copy(struct operation_run *run, const void *host, size_t n_bytes);
/* n floats in [-1, 1), others at each call. */
float *operation_random(struct operation_run *run, int64_t n);
/* first, first + step, first + 2·step, … */
uint32_t *operation_numbers(struct operation_run *run, int64_t n, uint32_t first, uint32_t step);
struct device_now *operation_now(struct operation_run *run, struct device_now now);
/* Memory that an operation uses beside its arguments: holds no number. */
void *operation_scratch(struct operation_run *run, size_t n_bytes);

/* --- results: all elements 7 before the first operation (bytes: 0) --- */
float *operation_floats(struct operation_run *run, int64_t n);
double *operation_doubles(struct operation_run *run, int64_t n);
void *operation_bytes(struct operation_run *run, size_t n_bytes);

/* --- graphs --- */
enum operation_degrees {
    OPERATION_DEGREES_MIXED, /* 0, 1, … 9 and again */
    OPERATION_DEGREES_LONG,  /* some rows of 1 500 and of 300 edges among mixed ones */
    OPERATION_DEGREES_ALL,   /* 0, 1, … 256 and again */
    OPERATION_DEGREES_MANY,  /* for many rows: few of 300 edges, the others up to 4 */
    OPERATION_DEGREES_HUB,   /* row 3 has 70 000 edges, the others up to 3 */
    OPERATION_DEGREES_HUGE   /* row 3 has 150 000 */
};

/* A block of n_row rows over n_col columns, opened; types: of how many relations each row's edges are, 0: untyped.
 * Ends with the run. */
struct device_block operation_graph(struct operation_run *run, enum operation_degrees degrees, int64_t n_row,
                                    int64_t n_col, int n_type);

/* End the process: something that a test needs is not there. */
_Noreturn void operation_give_up(const char *what);

#endif
