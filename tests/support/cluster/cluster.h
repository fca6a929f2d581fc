/* A small cluster for tests: real processes with real transports, which exchange addresses over shared memory, without a coordinator.
 *
 * Every rank loads and partitions the dataset (all with the same result), encodes and opens its own parts, and trains. The results
 * go back to the test, to be compared bit by bit.
 */
#ifndef TESTS_EQUIVALENCE_CLUSTER_H
#define TESTS_EQUIVALENCE_CLUSTER_H

#include "models/device/device.h"
#include "models/program/program.h"
#include "partition/graph/dataset.h"
#include "protocol/base/memory.h"

#include <stdint.h>

#define CLUSTER_MOST_EPOCHS 64
#define CLUSTER_MOST_PARAMS 128

struct cluster_result {
    int exit_code; /* of the worst rank; the rest holds when it is 0 */
    int n_param;
    struct parameter param[CLUSTER_MOST_PARAMS]; /* where tensors lie in the weights */
    int64_t n_weight, n_logit;
    float *initial, *weights; /* n_weight, before the first epoch and after the last */
    int64_t n_embedding;
    float *initial_embeddings,
        *embeddings;                   /* n_embedding, likewise, in the dataset's order; 0 for nodes without one */
    float *logits;                     /* n_node × n_class, in the dataset's order */
    double loss[CLUSTER_MOST_EPOCHS];  /* before each step */
    double error[CLUSTER_MOST_EPOCHS]; /* of its gradient, where the guard compared it; else 0 */
    int64_t n_back_off;                /* of the guard */
    struct device_score score[DATASET_SPLIT_N];    /* after the last epoch */
    double left_out;                               /* share of an epoch's work that train.prune leaves out */
    int64_t n_call;                                /* allocations during all epochs but the first, all ranks */
    uint64_t payload_sent;                         /* bytes of all payloads, all ranks */
    uint64_t halo_received;                        /* of those, what halo passes took */
    int64_t planned[MEMORY_N], measured[MEMORY_N]; /* rank 0, of the host's memory */
    struct memory_table all_planned, all_measured; /* rank 0 */
    int64_t n_unplanned; /* all ranks: categories whose measured bytes differ from the planned ones */
    int64_t limit_least; /* least memory.limit that suffices for all ranks; without a spill, their largest plan */
    int64_t moved;       /* rank 0: bytes that the spill read and wrote in the second epoch, … */
    int64_t used;        /* … and bytes of each array in it once for each of training's steps that use it */
    /* rank 0: growth of the resident set from before the trainer to its peak, code aside; 0: not measured */
    int64_t resident;
};

/* What ranks train on from now on; NULL: the device that the job names. */
extern const struct device_ops *cluster_device;

/* Which rank has each part from now on; NULL: round robin, so that no rank has two consecutive parts. */
extern const uint32_t *cluster_ranks;

/* From now on the initial weights have a pattern added, so that no parameter is 0 or 1 everywhere. */
extern bool cluster_stirs;

/* Train `job` (text of a job file) for its epochs on job.workers.count processes, evaluating after the last.
 *
 *   owns  release with cluster_release
 */
void cluster_run(const char *job_text, struct cluster_result *out);
void cluster_release(struct cluster_result *result);

#endif
