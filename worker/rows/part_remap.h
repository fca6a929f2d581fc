/* Blocks with other parts whose columns count other rows than the part's payload rows: own rows of a part of this
 * rank, places in a list that own parts share, or in a cover. A copy of these blocks' columns (of a cover's also of
 * ends and weights): the part stays as it was received.
 */
#ifndef WORKER_PART_REMAP_H
#define WORKER_PART_REMAP_H

#include "worker/rows/part_device.h"

struct part_remap {
    struct part_lent made; /* all arrays: of blocks without the diagonal, at part_pair_off_diagonal's places */
    int64_t *indptr;       /* covers: one more than rows for each block; NULL: the part's */
    uint32_t *cols;        /* NULL: nothing is remapped */
    float *weights;        /* covers of weighted edges; NULL: the part's */
};

/* Bytes of the arrays; covers: with ends and weights. */
int64_t part_remap_bytes(const struct part_pairs *pairs, bool covers, bool weighted);

/* Copy the blocks where some pass reads them so, with columns of parts of this rank remapped. Those of parts of other
 * ranks are the caller's.
 * errors  STATUS_NOMEM */
enum status part_remap_open(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                            struct part_remap *out);
void part_remap_close(const struct part_device_setup *setup, struct part_remap *remap);

/* Where the block of pair k begins among the ends. */
static inline int64_t part_remap_ptr(const struct part_pairs *pairs, int32_t k)
{
    return part_pair_off_diagonal(pairs, k).row + k - (k > pairs->own);
}

/* The block of pair k in the host's memory: remapped, or as the part has it. remap NULL: nothing is remapped */
struct part_block part_remap_block(const struct part *part, enum part_direction d, int32_t k,
                                   const struct part_remap *remap);

#endif
