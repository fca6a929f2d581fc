/* The GPUs that the daemon's jobs share: their numbers, what CUDA calls them, and sets of them.
 *
 * Which GPUs the machine has, a worker says once, when the daemon starts: CUDA is loaded into workers alone. Knows
 * neither jobs nor the queue.
 */
#ifndef TRAINERD_DAEMON_GPUS_H
#define TRAINERD_DAEMON_GPUS_H

#include "protocol/base/status.h"

#include <stdint.h>

/* Numbers are below this: a set is the bits of a number, bit i for GPU i. */
#define GPUS_MOST 64

struct gpu {
    int32_t number;   /* as nvidia-smi counts; with CUDA_VISIBLE_DEVICES alone to go by, as that says */
    int64_t n_bytes;  /* of memory; -1: not known */
    char name[64];    /* its model; "": not known */
    char uuid[48];    /* "": not known */
    char visible[80]; /* its name in CUDA_VISIBLE_DEVICES: the UUID where known */
};

struct gpus {
    int32_t n;
    struct gpu gpu[GPUS_MOST]; /* numbers ascending */
};

/* Find n_wanted GPUs of this machine, the least-numbered ones, within the daemon's own CUDA_VISIBLE_DEVICES; -1: all
 * that there are. Asks trainer-worker --gpus, unless n_wanted is 0. Too few, or none that a worker sees, is logged as
 * a warning. In the latter case the GPUs that are wanted are known by number alone.
 */
void gpus_find(int64_t n_wanted, struct gpus *out);

/* Read what trainer-worker --gpus --json printed, in a daemon with this CUDA_VISIBLE_DEVICES (NULL: unset).
 *
 *   errors  STATUS_PEER the worker's own reason; STATUS_DATA what was expected
 */
enum status gpus_read(const char *text, const char *visible, struct gpus *out);
/* n GPUs of which the numbers alone are known: those of `visible`, at most n, else 0 to n - 1. */
void gpus_count_off(int32_t n, const char *visible, struct gpus *out);

/* --- sets --- */
uint64_t gpus_all(const struct gpus *gpus);
int32_t gpus_n(uint64_t set);
/* The n least-numbered of a set that has so many. */
uint64_t gpus_least(uint64_t set, int32_t n);
/* "0, 2"; "": none */
#define GPUS_TEXT_BYTES (GPUS_MOST * 4)
void gpus_text(uint64_t set, char out[GPUS_TEXT_BYTES]);
/* The value of CUDA_VISIBLE_DEVICES for a set; "": none. */
#define GPUS_VISIBLE_BYTES (GPUS_MOST * 80)
void gpus_visible(const struct gpus *gpus, uint64_t set, char out[GPUS_VISIBLE_BYTES]);

#endif
