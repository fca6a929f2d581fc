/* One own part on the device: its blocks ready for aggregation, the scales of its rows, its features.
 *
 * Blocks towards parts of the same rank come in a second form whose columns are the other part's own rows, so that an
 * aggregate reads them where they lie. The part's bytes are lent to the device as a whole.
 */
#ifndef WORKER_PART_DEVICE_H
#define WORKER_PART_DEVICE_H

#include "models/op.h"
#include "partition/part/part.h"
#include "worker/plan/halo_rows.h"
#include "worker/spill/spill.h"

#include <stdbool.h>
#include <stdint.h>

/* Host memory that is lent to the device: there it lies at `device`. */
struct part_lent {
    const char *host;
    const char *device;
    int64_t n_bytes;
};

/* One direction's blocks, or of them what training needs at one hop. Arrays of blocks are the device's. */
struct part_blocks {
    struct device_block *block;  /* n_part: columns are payload rows */
    struct device_block *direct; /* n_part: columns are the other part's own rows; same rank only */
    struct part_lent made; /* columns of direct blocks; at a hop edges picked out (part_hop.h). Empty: all are the part's */
};

struct part_device {
    const struct part *part;
    struct part_lent bytes; /* the part's */
    struct halo_counts halo;
    struct part_blocks *blocks[PART_DIRECTION_N]; /* n_hop + 1: by hop of the output, and all; empty where nobody asks */
    struct part_lent scales;                      /* all of these: */
    const float *scale;                           /* n_own; NULL where no aggregate scales */
    const float **col_scale[PART_DIRECTION_N];    /* n_part × n_col of the block */
    const uint32_t *node;                         /* n_own: dataset node ids */
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

/* An array of the part as operations may read it; NULL stays NULL. */
const void *part_device_view(const struct part_device *part, const void *host);

/* Lend host memory to the device, and take it back; the memory stays the caller's. errors  STATUS_NOMEM of the device */
enum status part_lend(const struct part_device_setup *setup, const void *host, int64_t n_bytes, struct part_lent *out);
void part_lent_end(const struct part_device_setup *setup, const struct part_lent *lent);
const void *part_lent_view(const struct part_lent *lent, const void *host);

/* The blocks of one direction at a hop; at a hop that there is not, all. */
const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t hop);

/* errors  STATUS_NOMEM. *out is safe to close also after a failure. */
enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_device *out);
void part_device_close(const struct part_device_setup *setup, struct part_device *part);

#endif
