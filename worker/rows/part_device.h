/* One own part on the device: its blocks ready for aggregation, the scales of its rows, its features.
 *
 * The part's bytes are lent to the device as a whole; what passes read otherwise is remapped (part_remap.h).
 */
#ifndef WORKER_PART_DEVICE_H
#define WORKER_PART_DEVICE_H

#include "models/program/op.h"
#include "partition/part/part.h"
#include "partition/part/part_dedup.h"
#include "worker/rows/halo_routes.h"
#include "worker/spill/spill.h"

#include <stdbool.h>
#include <stdint.h>

struct part_remap;

/* Host memory that is lent to the device: there it lies at `device`. */
struct part_lent {
    const char *host;
    char *device;
    int64_t n_bytes;
};

/* What a block's columns count: rows of the part's own payload, or what they are remapped to, if they are. */
enum part_columns { PART_COLUMNS_PAYLOAD, PART_COLUMNS_OWN };

/* A block of which the device keeps something; of small ones seldom. */
struct part_schedule {
    int32_t pair;
    void *schedule, *matrix; /* as device_block's */
};

/* One direction's blocks, or of them what training needs at one hop: the device's arrays, block after block, by the
 * places of the part's pairs. A block is put together when it is asked for. */
struct part_blocks {
    /* places of the blocks in indptr, cols, types and weights; NULL: no step walks these blocks */
    const struct part_pair *at;
    struct part_pair *picked; /* the same where edges are picked out (part_hop.h); NULL: they are the part's */
    int32_t hop;              /* of in-edges at a hop: the blocks' first rows, up to this hop; else PROGRAM_HOP_ALL */
    const int64_t *indptr;
    const uint32_t *cols;
    const uint16_t *types;
    const float *weights;    /* or edges' rows of the table, as device_block has them */
    const float *edge_table; /* NULL: edges have no features */
    int32_t n_schedule;
    struct part_schedule *schedule; /* n_schedule: pairs ascending */
    const struct part_remap *remap; /* of blocks with other parts; NULL where edges are picked out */
    struct part_lent made;          /* at a hop edges picked out; empty: all are the part's */
};

struct part_device {
    const struct part *part;
    struct part_lent bytes; /* the part's */
    /* n_hop + 1: by hop of the output, and all; empty where no step walks them */
    struct part_blocks *blocks[PART_DIRECTION_N];
    struct part_lent scales;                  /* all of these: */
    const float *scale;                       /* n_own; NULL where no aggregate scales */
    const float *col_scale[PART_DIRECTION_N]; /* of payload rows, block after block; NULL where none travels */
    const uint32_t *node;                     /* n_own: dataset node ids */
    struct op_labels labels;
    struct device_csr csr;      /* sparse features, when the program takes them so */
    struct device_csr csr_halo; /* the same with those of halo rows; by_column NULL: no linear map reads them */
    const float *features;      /* dense features, the part's or expanded */
    float *expanded;            /* n_own + n_halo × width, when dense is wanted and sparse is stored */
};

struct part_device_setup {
    struct device *device;
    const struct program *program;
    const uint32_t *rank_of_part;
    uint32_t rank;
    struct part *const *parts;          /* n_part; NULL on other ranks */
    const struct aggregate_def *scaled; /* the program's aggregate with scales; NULL: none */
    bool in_place;                      /* some aggregate reads rows of this rank's other parts where they lie */
    bool maps_own; /* linear maps of halo rows run on own rows alone, forward (memory_plan_maps_own) */
    bool dedups;   /* columns of blocks with other ranks' parts count rows that own parts share, … */
    bool covers;   /* … or what comes of a cover */
    const struct part_dedup *dedup; /* shares: how many; else NULL */
    /* By part: its blocks of hops with parts of other ranks, trimmed to what comes of a cover, by part_hop_place.
     * NULL: there are none. */
    struct part_edges *const *trimmed;
    uint32_t merged; /* hops, as bits: their transposed blocks are walked merged (merged.h), and not opened */
    /* where what is made of a part's bytes goes; all parts then count as other ranks'. NULL: none */
    struct spill *spill;
};

/* Scale of row r, of which these are the stored in-degrees or the sums of weights. */
float part_device_scale(const struct part_device_setup *setup, const struct part *part, const float *strength,
                        const uint32_t *degree, int64_t r);

/* Is q another part whose rows an aggregate may read where they lie? What loses something is a payload everywhere. */
bool part_is_local(const struct part_device_setup *setup, const struct part *part, int32_t q);

/* An array of the part as operations may read it; NULL stays NULL. */
const void *part_device_view(const struct part_device *part, const void *host);

/* Lend host memory to the device, and take it back; the memory stays the caller's. errors  STATUS_NOMEM of the
 * device */
enum status part_lend(const struct part_device_setup *setup, const void *host, int64_t n_bytes,
                      struct part_lent *out);
void part_lent_end(const struct part_device_setup *setup, const struct part_lent *lent);
const void *part_lent_view(const struct part_lent *lent, const void *host);

/* Take back host memory that was made to be lent, and release it. */
void part_made_release(const struct part_device_setup *setup, const struct part_lent *made);

/* The blocks of one direction at a hop; at a hop that there is not, all. */
const struct part_blocks *part_device_blocks(const struct part_device *part, int d, int32_t hop);

/* One of them, by its pair. cost  a search among schedules */
struct device_block part_device_block(const struct part_device *part, int d, int32_t hop, int32_t pair,
                                      enum part_columns columns);

/* Has the block of a hop an edge? Without a look at its arrays, which may be in the spill. */
bool part_device_has_edges(const struct part_device *part, int d, int32_t hop, int32_t pair);

/* The host's arrays of a block, as PART_COLUMNS_OWN. */
struct part_block part_device_host_block(const struct part_device *part, enum part_direction d, int32_t pair);

/* Own rows that the pair's block lists; NULL on the diagonal. */
const uint32_t *part_device_rows(const struct part_device *part, int d, int32_t pair);

/* Scales and node ids of the pair's payload rows. */
const float *part_device_col_scale(const struct part_device *part, int d, int32_t pair);
const uint32_t *part_device_col_node(const struct part_device *part, int d, int32_t pair);

/* Have the device make schedules of blocks whose arrays are there. errors  STATUS_NOMEM */
enum status part_schedules_open(const struct part_device_setup *setup, const struct part_device *part, int d,
                                int32_t hop);
void part_schedules_close(const struct part_device_setup *setup, struct part_blocks *blocks);

/* Lend a part, and what of its blocks is remapped (n PART_DIRECTION_N), to the device.
 *
 *   owns    borrows both until part_device_close
 *   errors  STATUS_NOMEM. *out is safe to close also after a failure
 */
enum status part_device_open(const struct part_device_setup *setup, const struct part *part, struct part_remap *remap,
                             struct part_device *out);
void part_device_close(const struct part_device_setup *setup, struct part_device *part);

#endif
