/* Every byte of a worker, from the program's steps and the parts' sizes, before any is taken.
 *
 * A pure function: --plan calls it for every rank from sizes alone, the trainer calls it for its own rank and then
 * takes exactly this. Each value, gradient and saved array is a row block over all own parts, placed in one arena so
 * that two arrays share memory only when their lives do not meet; payloads and scratch lie between them while their
 * op runs.
 */
#ifndef WORKER_MEMORY_PLAN_H
#define WORKER_MEMORY_PLAN_H

#include "models/steps/chain.h"
#include "partition/graph/dataset.h"
#include "protocol/base/memory.h"
#include "protocol/job/job.h"
#include "worker/exchange/traffic.h"
#include "worker/pairs/pairs_draw.h"
#include "worker/plan/feedback_list.h"
#include "worker/plan/stale_list.h"
#include "worker/rows/halo_routes.h"
#include "worker/trace/trace.h"

#include <stdint.h>

/* Sizes of one own part. */
struct memory_plan_part {
    int64_t n_own;
    int64_t n_edge;               /* stored edges into the part */
    int64_t n_feature_value;      /* stored feature values, in shared columns */
    int64_t n_embedded;           /* rows with a column of their own */
    int64_t n_halo;               /* halo rows, whose features are stored with the part; 0: none are */
    int64_t n_halo_value;         /* their stored feature values */
    int64_t n_bytes;              /* of the encoded part, features included */
    bool implied_loops;           /* own rows count as their own neighbours */
    bool weighted;                /* edges have 4 bytes of their own: a weight, or the number of a row of features */
    const struct part_halo *halo; /* borrowed */
};

/* Memory that an op, or the loss, needs only while a step of it runs, in this order: scratch, payloads received,
 * payloads sent, rows that payloads are made of. Scratch is the op's own and, of an aggregate whose payloads between
 * parts of this rank are packed, one of them, the rows that it was made of (asked_at), and what a sampled pass makes
 * of a block. */
struct memory_workspace {
    int64_t n_scratch, n_fetch, n_pack, n_ask;
    int32_t n_part; /* own parts that the op runs on at a time, each with as much of n_scratch */
    int64_t packed_at, asked_at, sample_at;
    int64_t wire_at,
        asked_wire_at; /* the payload and those rows as they travel: the same places where nothing is coded */
};

/* What a pass makes of a block, of the largest pair: in a sampled pass scales and node ids of its payload rows and
 * the sample's edges, 0 without; and edges transposed. One behind the other. */
struct memory_sample {
    int64_t n_number_bytes, n_block_bytes, n_transposed_bytes;
};

int64_t memory_workspace_bytes(const struct memory_workspace *workspace);

/* How one halo pass's payloads lie in its workspace. */
struct memory_payloads {
    int64_t n_row_bytes; /* of all pieces */
    int32_t n_fetch_slot, n_pack_slot;
    int64_t n_fetch_slot_bytes, n_pack_slot_bytes; /* 0: every payload has its own place (halo) */
    int64_t n_fetch_bytes, n_pack_bytes;           /* of all slots */
    int64_t n_ask_row_bytes;                       /* RETURN: of rows that gradients are made of, … */
    int32_t n_ask_slot;                            /* … from other ranks; 0: none are asked for */
    int64_t n_ask_slot_bytes;
};

/* A payload goes out in pieces of at most this many bytes (of a row, where that is more), a few at a time: what is
 * packed takes little, whatever the payload. */
#define MEMORY_PACK_BYTES (1 << 18)
#define MEMORY_PACK_SLOTS 4

/* Epochs with the same codecs. */
struct memory_stage {
    struct level_stage of;
    int64_t n_wire_bytes; /* received in one of them, sums over parts included */
};

/* After the step at this time, these bytes of the arena are overwritten before they are read. */
struct memory_ending {
    int time; /* the last time at which they are alive */
    int64_t at, n_bytes;
};

/* Where an array lies that is stored in host memory between forward and backward. */
struct memory_home {
    struct step_operand array;
    int64_t begin, n_bytes; /* of n_home_bytes */
};

/* What host and device tell each other once an epoch, in SHARED memory. */
struct trainer_shared {
    struct device_now now;
    double loss, n_loss_row;                    /* over all parts' rows */
    struct device_score score[DATASET_SPLIT_N]; /* of the nodes with exactly these splits */
    double compared[3];                         /* of gradients: floats_compare's sums */
    double grad_norm;                           /* train.clip_norm */
    uint32_t not_finite;                        /* trainer_report's */
    uint32_t beyond;                            /* peers.h */
};

/* On a device with memory of its own a plan's bytes lie on the device alone, but those that lie on the host alone, on
 * the host with a copy on the device, or in pinned host memory. */
enum memory_site { MEMORY_SITE_HOST, MEMORY_SITE_LENT, MEMORY_SITE_PINNED, MEMORY_SITE_N };

struct memory_plan_input {
    const struct job *job;
    const struct program *program;
    const struct device_ops *ops;
    /* of the device, where it is open and has memory of its own; NULL: not known */
    const struct device_capacity *capacity;
    struct device *device;        /* where it is open; NULL: not */
    int64_t n_node;               /* of the graph */
    int32_t n_part;               /* of the job */
    const uint32_t *rank_of_part; /* n_part */
    uint32_t rank, n_rank;
    bool direct;          /* the transport reaches the device's memory: there is no staging */
    bool seals;           /* the transport seals messages */
    bool sparse_features; /* as stored; the program may want them dense */
    int32_t n_own_part;
    const struct memory_plan_part *own; /* n_own_part, part numbers ascending */
    const struct part_dedup *dedup;     /* where memory_plan_dedups: of all parts or of this rank's; else NULL */
    const struct pairs_draw *links;     /* where the program trains on links (task.kind = "link"); else NULL */
};

/* How many of all own parts' lie before a part's: rows, sparse values, both with halo rows, floats of embeddings. */
struct memory_begin {
    int64_t row, value, row_halo, value_halo, embedding;
};

/* How rows of all own parts lie, each part's rounded up to 16. */
struct memory_rows {
    int64_t n_row;          /* rows of all own parts */
    int64_t n_sparse_value; /* likewise for values of sparse features */
    int64_t n_row_halo;     /* likewise with halo rows */
    int64_t n_value_halo;
    int64_t n_embedding;                /* likewise for floats of embeddings */
    int64_t n_row_hop[PART_N_HOP_MOST]; /* n_hop: as n_row, of rows that count at a hop: those that gradients have */
    struct memory_begin *begin;         /* n_own_part */
    int64_t *row_begin_hop;             /* n_hop × n_own_part */
};

/* Places in the activation arena, in bytes; -1: none. Array of part p begins at place + begin[p].row · row bytes
 * (sparse values: + begin[p].value · 4; gradients: by their value's hop). */
struct memory_arena {
    int64_t n_bytes;
    int64_t *at;             /* by liveness_slot: places of values, gradients, what is saved, workspaces, … */
    struct chain_rows chain; /* the most of any own part; no window is longer than it */
    int n_task;              /* chunks at the same time, of one part or of several (chain_tasks) */
    /* as `at`, in a slot of a fused chain's windows: arrays that only steps of one chain read and write */
    int64_t *window_at;
    int64_t n_slot_bytes;   /* of one slot, … */
    int64_t n_window_bytes; /* … of which so many are these arrays'; behind them lie stages of BF16 arrays */
    int n_ending;
    struct memory_ending *ending; /* n_ending */
};

/* memory.spill: the arena, payloads between own parts and the encoded parts lie in files, and of all that
 * bytes[MEMORY_SPILL] in memory. 0 without. */
struct memory_spill {
    int64_t n_bytes;
    int64_t n_least;   /* what one step pins in memory, with what is prefetched for the next part */
    int64_t n_payload; /* of a halo pass's payloads, in the files */
    int64_t n_asked;   /* of rows that they are made of */
};

/* memory.offload: arrays in pinned memory, which are activations; 0 without. */
struct memory_homes {
    int n;
    struct memory_home *home;
    int64_t n_bytes;
};

/* Edges of blocks that are one (merged.h), where no row has too many: by the hop of the sum's output, and at n_hop
 * all; of a symmetric graph all out-edges are all in-edges. 0: blocks come one by one. */
struct memory_merged {
    int64_t n_edge[PART_DIRECTION_N][PART_N_HOP_MOST + 1];
    /* Rows of all own parts up to a hop, side by side; where nothing is left out, as they lie in the arena. */
    int64_t n_row[PART_N_HOP_MOST + 1];
    uint32_t alone; /* hops, as bits, whose transposed blocks no pass walks part by part */
    bool attention; /* attentions run over them, too */
    bool nodes;     /* all rows' nodes are listed, by which these drop coefficients and programs draw */
};

/* What halo passes send, and what they keep. */
struct memory_halo {
    struct halo_route_totals (*halo)[HALO_DIRECTION_N]; /* n_hop + 1: by hop, and all */
    int64_t n_route_bytes;                              /* of a pass's routes */
    int32_t n_fetch_slot, n_pack_slot, n_ask_slot;      /* of the pass that has most */
    struct memory_sample sample;
    struct stale_list stale;
    struct feedback_list feedback;
    /* Of MEMORY_PAYLOADS those that live through the job: payloads kept, received and to be sent, or residuals. */
    int64_t n_kept_bytes;
};

/* Bytes received. */
struct memory_wire {
    int64_t *traffic; /* protocol/wire/traffic.h's table: received per (mean) epoch, and per evaluation, by sender */
    int n_stage;
    struct memory_stage *stage; /* n_stage: of the job's epochs */
    int64_t n_train;    /* payload bytes received per training epoch, forward and backward: of the mean epoch */
    int64_t n_guard;    /* what comparing gradients adds to an epoch, at most */
    int64_t n_evaluate; /* and per evaluation */
};

#define MEMORY_LINKS_COME 2

/* Pairs of nodes (worker/run/links.h); 0 for other programs. */
struct memory_links {
    /* pinned memory of a part's pairs with another one; each begins at: */
    int64_t n_block_bytes;
    int64_t drawn_at;              /* uniform pairs (pairs_draw_bytes) */
    int64_t slopes_at;             /* task.sampling = "ends": scores, then slopes, of all own parts' groups */
    int64_t items_at, n_item;      /* pairs as they are drawn, at most */
    int64_t list_at;               /* a list of as many */
    int64_t sent_at;               /* pairs on their way out, … */
    int64_t come_at, n_come_bytes; /* … and in: MEMORY_LINKS_COME of them */
    int64_t n_decoder_bytes;       /* of the decoder, behind other scratch */
    int32_t n_slot;                /* rows on their way in */
    int64_t n_slot_bytes;
};

/* Sums over parts. */
struct memory_reduced {
    int64_t n_gradient_bytes;   /* one part's gradients, where there is training, with the sums behind them */
    int64_t n_global_bytes;     /* one part's sums of a global op, for the one that has most */
    int64_t n_reduced_bytes;    /* reduced from one part per training epoch: gradients, global ops' sums both ways */
    int64_t n_reduced_evaluate; /* likewise per evaluation: global ops' sums where payloads are sampled */
};

struct memory_plan {
    int64_t bytes[MEMORY_N]; /* each array once, wherever it lies */
    bool apart;              /* the device has memory of its own: memory_plan_table has what lies where */
    int64_t n_site[MEMORY_SITE_N][MEMORY_N]; /* of bytes, where they are apart: what is not on the device alone */
    struct device_sum_sizes sums;            /* of a library's (model.kernel) */
    int64_t n_staging_bytes; /* of them, pinned, between the device and the transport (staging.h); 0: there is none */
    int32_t n_hop;           /* of the parts */
    int32_t n_own_part;
    struct step_lists steps;                                /* the program lowered, with what is recomputed */
    struct memory_workspace (*workspace)[STEP_WORKSPACE_N]; /* n_op; of chains filled in by liveness_place */
    struct memory_workspace loss_workspace;
    struct trace_limits trace; /* output.trace: events of its epoch; none without */
    struct memory_merged merged;
    struct memory_rows rows;
    struct memory_arena arena;
    struct memory_spill spill;
    struct memory_homes homes;
    struct memory_halo payloads;
    struct memory_links links;
    struct memory_wire wire;
    struct memory_reduced reduced;
};

/* errors  none; sizes come from checked parts. Release with memory_plan_release.
 * notes   memory.recompute = auto: everything is saved where that fits memory_plan_budget; else values that are cheap
 * to recompute are dropped
 *         until it fits; if it never does, the smallest plan
 */
void memory_plan_build(const struct memory_plan_input *input, struct memory_plan *out);
void memory_plan_release(struct memory_plan *plan);

/* Bytes that one worker may take where operations' arrays lie: memory.limit, or its share of this machine; on a
 * device with memory of its own its share of that, as far as it is known. */
int64_t memory_plan_budget(const struct memory_plan_input *input);

/* --- memory_plan_device.c, with memory_plan_budget and _total: what of a plan lies where, on a device with memory of
 * its own --- */

/* So many of the plan's bytes lie there. Returns them. */
int64_t memory_plan_put(struct memory_plan *plan, enum memory_site site, enum memory_category category,
                        int64_t n_bytes);

/* The plan's bytes that devices without memory of their own do not take: what opening the device takes, and
 * staging. */
void memory_plan_device(const struct memory_plan_input *input, struct memory_plan *plan);

/* All bytes by where they lie; of the host alone where the device's memory is the host's. */
void memory_plan_table(const struct memory_plan *plan, struct memory_table *out);

/* Does the plan fit the device's memory, or this worker's share of it, and memory.limit; and the rest the host's?
 *
 *   errors  STATUS_NOMEM with what is needed, what there is, and whose it is
 */
enum status memory_plan_check(const struct memory_plan *plan, const struct job *job, uint32_t rank,
                              const struct device_capacity *capacity);

/* The spill's part of a plan that has all else: n_spill_* and bytes[MEMORY_SPILL], within memory_plan_budget where
 * that is enough. In memory_plan_spill.c. */
void memory_plan_spill(const struct memory_plan_input *input, struct memory_plan *plan);

/* Structure and features: bytes of the parts, and what is made of their blocks. In memory_plan_structure.c. */
void memory_plan_structure(const struct memory_plan_input *input, struct memory_plan *plan);

/* Bytes of the host while an own part's features are put in order by column, of the one that has most. */
int64_t memory_plan_csr_host(const struct memory_plan_input *input);

/* What is received: the tables; a halo pass's payloads, whose rows are of this hop; what sums over parts are. Of
 * sampled rows the mean, and of codecs that change that of the epochs. In memory_plan_traffic.c. */
void memory_plan_traffic_begin(const struct memory_plan_input *input, struct memory_plan *plan);
void memory_plan_traffic(const struct memory_plan_input *input, enum step_phase phase, const struct step *step,
                         int32_t hop, struct memory_plan *plan);
void memory_plan_traffic_sums(const struct memory_plan_input *input, struct memory_plan *plan);

/* Where the program trains on links: slots of the loss's workspace, what is drawn, and what is received. In
 * memory_plan_links.c. */
void memory_plan_links(const struct memory_plan_input *input, struct memory_plan *plan);

/* How many edges to predict have one end in own part i and the other in part q; and how many pairs part p sends part
 * q if these are n_between. */
int64_t memory_plan_between(const struct memory_plan_input *input, int32_t i, int32_t q);
int64_t memory_plan_sent(const struct pairs_draw *draw, int64_t n_between, int32_t p, int32_t q);

/* So many bytes more are received from a rank in each training epoch, for the layer that comes last. In
 * memory_plan_traffic.c. */
void memory_plan_traffic_add(const struct memory_plan_input *input, uint32_t peer, int64_t n_bytes,
                             struct memory_plan *plan);

/* --- memory_plan_merged.c --- */

/* Blocks are merged where all parts are of this rank, and blocks are many. rows and n_hop are laid out. */
void memory_plan_merge(const struct memory_plan_input *input, struct memory_plan *plan);

/* Does this aggregate read rows that lie in the arena, over merged blocks where these are there? Those of its passes
 * do that join. */
bool memory_plan_merges(const struct memory_plan *plan, const struct program *program, const struct op *op);

/* Sums over neighbours take steps behind them as epilogues (models/steps/epilogue.h), where the device can, and
 * store what products in BF16 read so; then arrays are placed anew. The last of the plan's rewrites. */
void memory_plan_epilogues(const struct memory_plan_input *input, struct memory_plan *plan);

/* Bytes of merged blocks, with the order of their rows, and the scales and nodes of these. */
int64_t memory_plan_merged(const struct memory_plan_input *input, bool scaled, struct memory_plan *plan);

/* Rows of merged blocks up to a hop; n_hop and above: all. */
int64_t memory_merged_rows(const struct memory_plan *plan, int32_t hop);

/* Bytes of blocks merged into one. */
int64_t memory_merged_bytes(int64_t n_row, int64_t n_edge, bool weighted);

/* Rows of blocks with more edges than this on average gain nothing by merging: other parts' rows are nearer to each
 * other than all rows are. Measured at 256 columns: 15 edges 0.93 of the speed, 7.5 edges 1.1 times, 2 edges 1.8
 * times. */
#define MEMORY_MERGED_ROW_EDGES 12

/* Does the part share edges of a direction with parts of this rank (local), or with others? Under a spill, and where
 * payloads are lossy, all are others. */
bool memory_plan_has_pair(const struct memory_plan_input *input, const struct memory_plan_part *own,
                          enum part_direction d, bool local);

/* Bytes of an own part's features as they are stored; as the program takes them, where these are others. */
int64_t memory_plan_features(const struct memory_plan_input *input, int32_t i);
int64_t memory_plan_expanded(const struct memory_plan_input *input, int32_t i);

/* Bytes of the copy of an own part's blocks that passes read remapped (part_remap.h); 0: there is none. */
int64_t memory_plan_remap(const struct memory_plan_input *input, const struct memory_plan_part *own,
                          enum part_direction d);

/* Bytes of an own part's edges picked out for training (part_hop.h), in all; for the hop that has most. */
int64_t memory_plan_copies(const struct memory_plan_input *input, int32_t i, int64_t *most_out);

/* Bytes of the weights of classes (train.class_weights) on the device; 0: none. */
int64_t memory_plan_class_weights(const struct job *job, const struct program *program);

bool memory_plan_spills(const struct job *job);

/* May the job's pairs of parts be covered (part_cover.h)? Where all its aggregates are sums, rows travel for some,
 * and nothing is lossy. It changes bits: the program is that of several workers, however many there are, and spilled
 * or not. */
bool memory_plan_covers(const struct job *job, const struct program *program);

/* The hops of pruned parts at which rows travel in training, as bits: part_cover_input.hops. */
uint32_t memory_plan_hops(const struct program *program, enum part_direction d, int32_t n_hop);

/* Are lists of payload rows other than a pair's own? Of a cover, where every part has a worker of its own; else of
 * rows that several parts of a worker take from a part of another one, which then travel once. Not where every part
 * is walked alone: spilled, or with sums in the workspace; nor where parts keep their rows for the next epoch.
 * Finished gradients are each part's own. The same on every worker. */
bool memory_plan_dedups(const struct job *job, const struct program *program, int32_t n_part, uint32_t n_rank,
                        bool covered);

/* Are each part's rows picked out of shared ones? Else its blocks' columns are remapped to count these. Where
 * payloads are coded, sampled or counted by places: those of parts of one rank are each part's own, too. */
bool memory_plan_scatters(const struct program *program);

/* Are features of halo rows stored with the parts (program_store), of which there are so many in all? A linear map of
 * them, whose gradients have other bits then, is the same for any number of workers, and so are inputs alone that
 * lossy payloads would change; else these are stored where there are others to take rows from. In
 * memory_plan_stored.c, as all that follows of it. */
bool memory_plan_stores(const struct job *job, const struct program *program, bool is_embedded, int64_t n_node,
                        int64_t n_halo, uint32_t n_rank);

/* Do stored passes forward read other parts' own rows in place, so that halo rows of linear maps are not made, but
 * for their gradients? Where all parts are of one rank and in memory, nothing is lossy, so that blocks have the
 * columns for it, and backward does not read them, as attention's does. Features must be sparse: a row of a dense
 * product has other bits in a product of another number of rows. */
bool memory_plan_maps_own(const struct job *job, const struct program *program, uint32_t n_rank);

/* Bytes of the device's schedules of an own part's blocks, where other passes walk remapped ones. */
int64_t memory_plan_stored_schedules(const struct memory_plan_input *input, const struct memory_plan_part *own);

/* Does backward run this op's forward again? */
bool memory_plan_recomputes(const struct memory_plan *plan, int op);

/* Where an array begins in the arena, in a slot of windows; -1: it has no place there. */
int64_t memory_plan_at(const struct memory_plan *plan, const struct program *program, enum step_array array,
                       int index, int k);
int64_t memory_plan_window_at(const struct memory_plan *plan, const struct program *program,
                              const struct step_operand *operand);

/* Rows of all own parts, as they are laid out, in an array that has those of a hop; rows before own part i's. */
int64_t memory_plan_rows(const struct memory_plan *plan, int32_t hop);
int64_t memory_plan_row_begin(const struct memory_plan *plan, int32_t hop, int32_t i);

/* Likewise of sparse values: with those of halo rows, or without. */
int64_t memory_plan_values(const struct memory_plan *plan, int32_t hop);
int64_t memory_plan_value_begin(const struct memory_plan *plan, int32_t hop, int32_t i);

/* Rows of an own part that count at a hop. */
int64_t memory_plan_rows_own(const struct memory_plan_part *own, int32_t hop);

/* --- memory_plan_payloads.c, with memory_plan_covers, _hops, _dedups and _scatters --- */

/* Own parts' pairs, and their owners. owns: the caller frees .own */
struct halo_owners memory_plan_owners(const struct memory_plan_input *input);

/* What a pass makes of the largest block: of a sample's, and transposed. */
struct memory_sample memory_plan_sample(const struct memory_plan_input *input);

/* What is kept from epoch to epoch: kept, feedback, n_kept_bytes and the lists of places. */
void memory_plan_buffers(const struct memory_plan_input *input, struct memory_plan *plan);

/* Does this halo pass read payloads that are kept, and needs no slots? */
bool memory_plan_is_stale(const struct program *program, const struct step *step);

/* Count the payloads of halo passes: plan->payloads.halo. */
void memory_plan_halos(const struct memory_plan_input *input, struct memory_plan *plan);

/* Which payloads travel at a hop (halo_list_hop); at a hop that there is not, all. */
const struct halo_route_totals *memory_plan_halo(const struct memory_plan *plan, enum halo_direction direction,
                                                 int32_t hop);

/* How the payloads of one of this program's halo passes lie in its workspace, when rows of this hop travel in the
 * codec in which they are longest. */
struct memory_payloads memory_plan_payloads(const struct memory_plan *plan, const struct job *job,
                                            const struct program *program, const struct step *step, int32_t hop);

/* Bytes of everything that lies where operations' arrays do: on the device, or on the host. */
int64_t memory_plan_total(const struct memory_plan *plan);

/* Doubles behind each part's gradients: the loss, and the scores of the nodes with the same splits. */
#define MEMORY_PLAN_N_SUM (1 + DATASET_SPLIT_N * (int64_t)(sizeof(struct device_score) / sizeof(double)))
/* Of them in training, behind the loss's own: squares of the gradients (train.clip_norm). */
#define MEMORY_PLAN_SUM_SQUARES (sizeof(struct device_score) / sizeof(double))

#endif
