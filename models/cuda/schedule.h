/* Long rows of a block: too long for the few lanes that normally process a row. Hub rows are in pieces.
 *
 * A schedule is only in device memory, where kernels read its number of rows. It is made in the same way for opened
 * blocks and for blocks made for one pass, whose rows and edges the host does not know. A block without a schedule
 * (NULL) has no long row, or is part of another block: kernels for rows of any length then process all of its rows.
 */
#ifndef MODELS_CUDA_SCHEDULE_H
#define MODELS_CUDA_SCHEDULE_H

#include "models/device/device.h"

/* A row of more edges than these is long. */
#define CUDA_LONG_EDGES 256

/* Columns of which a piece's sum is kept. */
#define CUDA_PARTIAL_COLUMNS 1024

/* A long row, or a piece of a hub row; pieces of a row lie one behind another. */
struct cuda_unit {
    int64_t row; /* of the block */
    int64_t begin, end;
    int64_t partial; /* number of the piece among all; -1: these are all of the row's edges */
};

/* Followed by the units, the partial sums, and the workspace for making it. */
struct cuda_schedule {
    int64_t n_byte;
    int64_t n_unit;
    int64_t partial_at; /* bytes from the schedule on */
};

#define CUDA_UNITS(schedule) ((const struct cuda_unit *)((schedule) + 1))

/* Units that a block of n_edge edges may have. */
static inline int64_t cuda_units_most(int64_t n_edge)
{
    return n_edge / CUDA_LONG_EDGES;
}

/* Of an opened block: fills and clears its schedule. errors  STATUS_NOMEM */
enum status cuda_schedule_open(struct device *device, struct device_block *block);
void cuda_schedule_close(struct device *device, struct device_block *block);

/* Make it in `memory` of cuda_schedule_bytes, for at most n_edge edges. Returns the schedule, NULL where it takes no
 * bytes. */
void *cuda_schedule_make(struct device *device, int64_t n_row, int64_t n_edge, const int64_t *indptr, void *memory);

#endif
