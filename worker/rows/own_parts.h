/* The parts of one worker: which they are, what of them lies on the device, and which worker has each other part.
 *
 * Routes, passes and the trainer share this view. Knows nothing about steps, jobs or payloads.
 */
#ifndef WORKER_OWN_PARTS_H
#define WORKER_OWN_PARTS_H

#include "worker/rows/part_device.h"
#include "worker/rows/part_remap.h"

#include <stddef.h>
#include <stdint.h>

struct own_parts {
    struct part_device_setup setup; /* device, program, owners of all parts, and what blocks' columns count */
    int32_t n_part;                 /* of the job */
    uint32_t n_rank;
    int32_t n;                                    /* own parts, numbers ascending */
    int32_t *number;                              /* n */
    int32_t *index;                               /* n_part: place in number, or -1 */
    const struct part_halo **halo;                /* n */
    struct part_remap (*remap)[PART_DIRECTION_N]; /* n: blocks with other parts that passes read remapped */
    struct part_device *part;                     /* n */
};

/* List those of the n_part parts that are not NULL, at least one.
 *
 *   owns    the caller owns *out: own_parts_close
 */
void own_parts_list(struct part *const *parts, int32_t n_part, uint32_t n_rank, struct own_parts *out);

/* Remap blocks, but for columns of other workers' rows, which are filled in later; then put all parts on the
 * device. setup is filled in. errors  STATUS_NOMEM; STATUS_IO of the spill */
enum status own_parts_remap(struct own_parts *own);
enum status own_parts_open(struct own_parts *own);
void own_parts_close(struct own_parts *own);

/* The i-th own part, in the host's memory. */
static inline const struct part *own_part(const struct own_parts *own, int32_t i)
{
    return own->setup.parts[own->number[i]];
}

/* Memory of structure that host and device read; of 0 bytes NULL. errors  STATUS_NOMEM */
enum status own_parts_acquire(const struct own_parts *own, size_t n_bytes, void *out);
void own_parts_release(const struct own_parts *own, void *bytes, size_t n_bytes);

/* As whose rows routes are listed: of all own parts, without deduplicated rows or a sample. */
struct halo_owners own_parts_owners(const struct own_parts *own);

#endif
