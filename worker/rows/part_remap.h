/* Blocks with other parts whose columns count other rows than the part's payload rows: own rows of a part of this
 * rank, places in a list that own parts share, or in a cover.
 *
 * The arrays of these blocks are taken out of the part. Where passes read them as the part has them, too, they are
 * copied, and the part stays as it was.
 */
#ifndef WORKER_PART_REMAP_H
#define WORKER_PART_REMAP_H

#include "worker/rows/part_device.h"

struct part_remap {
    struct part_edges edges; /* cols NULL: nothing is remapped; without covers ends and weights are the part's */
    struct part_lent made;   /* memory of a copy, which leaves out the diagonal; empty: they are taken */
};

/* Do passes read a direction's blocks as the part has them, too: to return gradients, or of stored inputs? */
bool part_remap_copies(const struct program *program, enum part_direction d);

/* Bytes of a copy; covers: with ends and weights. */
int64_t part_remap_bytes(const struct part_pairs *pairs, bool covers, bool weighted);

/* Take or copy the arrays, where some pass reads blocks so, and remap columns of parts of this rank. Those of parts
 * of other ranks are the caller's.
 * errors  STATUS_NOMEM */
enum status part_remap_open(const struct part_device_setup *setup, struct part *part, enum part_direction d,
                            struct part_remap *out);
void part_remap_close(const struct part_device_setup *setup, struct part_remap *remap);

/* The arrays of pair k's block; of a copy not the diagonal's. */
struct part_edges part_remap_edges(const struct part_remap *remap, const struct part_pairs *pairs, int32_t k);

/* The block of pair k in the host's memory: remapped, or as the part has it. remap NULL: nothing is remapped */
struct part_block part_remap_block(const struct part *part, enum part_direction d, int32_t k,
                                   const struct part_remap *remap);

#endif
