/* Checked allocation, counted by place and category, so that a plan can be compared with what was allocated.
 *
 * Large blocks come from mmap with huge pages requested, small ones from malloc. Only the counters are thread-safe
 * (atomic). Devices report their own memory.
 */
#ifndef PROTOCOL_MEMORY_H
#define PROTOCOL_MEMORY_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*              name          text in result.json and --plan */
/* clang-format off */
#define MEMORY_LIST(X)            \
    X(STRUCTURE,   "structure")   \
    X(FEATURES,    "features")    \
    X(PARAMETERS,  "parameters")  \
    X(ACTIVATIONS, "activations") \
    X(PAYLOADS,    "payloads")    \
    X(SPILL,       "spill")       \
    X(OTHER,       "other")       \
    X(CONTEXT,     "context") /* of a GPU: the memory for opening it */
/* clang-format on */

enum memory_category {
#define X(name, text) MEMORY_##name,
    MEMORY_LIST(X)
#undef X
        MEMORY_N
};

/* "structure", "features", … */
const char *memory_category_name(enum memory_category category);

/* The place of bytes: this process's memory, host memory that a device also reads and writes, or a device's own
 * memory. For a device without its own memory all bytes are the host's. */
enum memory_place { MEMORY_PLACE_HOST, MEMORY_PLACE_PINNED, MEMORY_PLACE_DEVICE, MEMORY_PLACE_N };

struct memory_table {
    int64_t bytes[MEMORY_PLACE_N][MEMORY_N];
};

/* Of all categories. */
int64_t memory_sum(const int64_t bytes[MEMORY_N]);

/* A zeroed block of n × size bytes, aligned to 64 (to 2 MiB, huge pages asked for, from 2 MiB up).
 *
 *   owns    the caller owns *out; give it back with memory_release and the same n × size
 *   errors  STATUS_NOMEM with the number of bytes, also when n × size overflows; *out untouched then.
 *           Zero bytes give a non-NULL pointer
 */
enum status memory_acquire(enum memory_category category, size_t n, size_t size, void *out);

/* Likewise a block with the contents of n × size bytes at `from`. */
enum status memory_copy(enum memory_category category, const void *from, size_t n, size_t size, void *out);

/* Give back a block; NULL is allowed. `n` and `size` as at memory_acquire. */
void memory_release(enum memory_category category, void *block, size_t n, size_t size);

/* Keep the first n_new × size bytes of a block of n × size, and give the rest back.
 *
 *   owns    *block_io may move; it is released with n_new from then on
 *   errors  STATUS_NOMEM while moving a small rest: *block_io is as before
 */
enum status memory_shrink(enum memory_category category, void *block_io, size_t n, size_t n_new, size_t size);

/* Count host bytes that are allocated or freed by other means. Any thread. */
void memory_count(enum memory_category category, int64_t change);

/* Count bytes that a device with its own memory allocated or freed. memory_n_call counts an allocation as a call. */
void memory_count_device(enum memory_place place, enum memory_category category, int64_t change);

/* For small sizes of our own making: zeroed, never NULL, ends the process (exit 71) when memory is short.
 * Give back with free. */
void *memory_alloc(size_t n, size_t size);

/* The list of n items with room for one more: its room doubles when n is a power of two. */
void *memory_list_grow(void *list, int32_t n, size_t size);

/* Likewise, a block of memory_alloc made n bytes long; what is new is not zeroed. */
void *memory_grow(void *block, size_t n);

/* Bytes of the host alive now, and the most ever alive at a place, by category; MEMORY_N gives the sum. */
int64_t memory_now(enum memory_category category);
int64_t memory_peak(enum memory_place place, enum memory_category category);

/* Number of calls of memory_acquire and memory_alloc, and of allocations of devices, so far. An epoch must not change
 * it. */
int64_t memory_n_call(void);

/* Bytes of memory that this process may use, the limit of plans: the machine's memory, or the limit of its control
 * group. The name is for messages: "this machine's memory", or the limit. */
int64_t memory_machine(void);
const char *memory_machine_name(void);

/* Bytes of memory of the machine, even if this process may not use all of them. */
int64_t memory_physical(void);

/* The process's resident set now and at its peak, in bytes; 0 where /proc does not have it. */
int64_t memory_resident(void);
int64_t memory_resident_peak(void);

/* The part of the present resident set that belongs only to this process, without libraries and files that others
 * also map. */
int64_t memory_resident_own(void);

/* Memory of a job's process that its plan does not count: libraries' data, UCX's buffers, stacks. Measured in a
 * control group on the smallest jobs: 24, 37 and 64 MB for a coordinator and 1, 2 and 4 workers, by this sum 27, 40
 * and 65 MB. */
#define MEMORY_PROCESS_FLOOR (INT64_C(12) << 20)

/* Likewise the resident set beside the plan, with pages of libraries and segments that other processes map: 28 to
 * 29 MB for a worker, of which 16 are pages of files, which the system may take back. */
#define MEMORY_PROCESS_RESIDENT (INT64_C(24) << 20)

#endif
