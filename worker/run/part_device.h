/* One own part on the device: its blocks ready for aggregation, the scales of its rows, its features.
 *
 * Blocks towards parts of the same rank come in a second form whose columns are the other part's own rows, so that an
 * aggregate reads them where they lie. Arrays of the part are borrowed, not copied: the device must be host_visible.
 */
#ifndef WORKER_PART_DEVICE_H
#define WORKER_PART_DEVICE_H

#include "models/op.h"
#include "partition/part/part.h"
#include "worker/plan/halo_rows.h"
#include "worker/spill/spill.h"

#include <stdbool.h>
#include <stdint.h>

/* One direction's blocks, or of them what training needs at one level. */
struct part_blocks {
    struct device_block *block;  /* n_part: columns are payload rows */
    struct device_block *direct; /* n_part: columns are the other part's own rows; same rank only */
    char *copy;                  /* n_copy_bytes: edges picked out (part_level.h); NULL: they are the part's own */
    int64_t n_copy_bytes;
};

struct part_device {
    const struct part *part;
    struct halo_counts halo;
    struct part_blocks *blocks[PART_DIRECTION_N]; /* n_level + 1: by level of the output, and all; empty where nobody asks */
    float *scale;                                 /* n_own; NULL where no aggregate scales */
    float **col_scale[PART_DIRECTION_N];          /* n_part × n_col of the block */
    struct op_labels labels;
    struct device_csr csr; /* sparse features, when the program takes them so */
    const float *features; /* dense features, the part's or expanded */
    float *expanded;       /* n_own × width, when dense is wanted and sparse is stored */
};

struct part_device_setup {
    struct device *device;
    const struct program *program;
    const uint32_t *rank_of_part;
    uint32_t rank;
    struct part *const *parts;          /* n_part; NULL on other ranks */
    const struct aggregate_def *scaled; /* the program's aggregate with scales; NULL: none */
    bool in_place;                      /* some aggregate reads rows of this rank's other parts where they lie */
    bool as_payload;                    /* some aggregate has even these packed */
    struct spill *spill; /* where what is made of a part's bytes goes; all parts are then strangers. NULL: none */
};

/* The blocks of one direction at a level; at a level that there is not, all. */
const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t level);

/* errors  STATUS_NOMEM. *out is safe to close also after a failure. */
enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out);
void part_device_close(const struct part_device_setup *setup, struct part_device *part);

#endif
