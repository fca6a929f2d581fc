/* The coordinator's workers: start, connect, send parts and commands, receive reports, detect failures.
 *
 * It uses the control socket (one TCP connection per worker: hello with the token, addresses, heartbeats), the
 * transport (UCX: parts, commands, reports, data) and the launchers. Each call runs one libuv loop until its answer
 * has arrived. A worker that exits, is killed, is silent past workers.heartbeat_timeout or reports a failure ends the
 * call with the reason; the other workers are told to stop, and no process is left running. Knows nothing of
 * training.
 */
#ifndef TRAINERD_FLEET_H
#define TRAINERD_FLEET_H

#include "partition/graph/dataset.h"
#include "protocol/base/libraries.h"
#include "protocol/base/memory.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "protocol/transport/seal.h"
#include "protocol/wire/trace.h"
#include "protocol/wire/traffic.h"
#include "protocol/wire/worker_state.h"
#include "trainerd/coordinator/folder/events.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct fleet;

/* Of an epoch's training on one worker: waits for the device, payloads fetched, pieces of payloads sent. */
struct fleet_waits {
    int64_t n_wait, n_fetched, n_sent;
};

/* The one with more waits that no payload explains. */
static inline struct fleet_waits fleet_waits_most(const struct fleet_waits *a, const struct fleet_waits *b)
{
    return b->n_wait - b->n_fetched - b->n_sent > a->n_wait - a->n_fetched - a->n_sent || a->n_wait == 0 ? *b : *a;
}

/* The workers' reports of an epoch: loss and scores of rank 0, times of the slowest, bytes of all. */
struct fleet_report {
    double loss;
    double grad_norm;    /* of rank 0; 0 without train.clip_norm */
    uint32_t not_finite; /* the greatest of the workers': which parameter's weights or gradients (trainer_report) */
    double score[DATASET_SPLIT_N][7];          /* of the nodes in each split, as struct device_score */
    double epoch_s, compute_s, pack_s, wait_s; /* each the maximum over workers */
    double evaluate_s;                         /* of epoch_s: the evaluation at its end */
    uint64_t bytes_sent, bytes_received;       /* payload bodies, summed over workers */
    int n_layer;
    uint64_t layer[TRAFFIC_LAYERS_MOST]
                  [TRAFFIC_N_WHAT]; /* n_layer: of those received; the rest are sums over parts */
    uint64_t n_call;                /* allocations during the epoch, summed */
    struct fleet_waits waits;
    int64_t n_replay; /* recordings that workers replayed in training, the maximum over workers */
    int64_t n_staged; /* bytes of payloads that left GPUs by way of host memory in training, of all workers */
};

/* Options of a fleet besides the job; all may be 0. */
struct fleet_setup {
    const volatile sig_atomic_t
        *stop;        /* a signal number, set by the signal handler: calls then return STATUS_INTERRUPTED */
    uint32_t attempt; /* fences messages: greater than that of any earlier fleet of this job. 0: a random number */
    const struct events *events; /* its folder gets the workers' stderr; NULL: they share the coordinator's */
};

struct fleet_memory { /* one worker */
    struct memory_table planned, measured;
    int64_t resident_peak;
};

/* Start (launchers local, slurm, ssh) or await (manual) job->workers.count workers and connect them.
 *
 *   setup   NULL: all 0
 *   owns    borrows the job and what setup points to; the caller owns *out: fleet_close
 *   errors  STATUS_PEER a worker that does not join, or ends; STATUS_CREATE the token file; STATUS_CONFIG
 */
enum status fleet_open(const struct job *job, const struct fleet_setup *setup, struct fleet **out);

/* End all workers: goodbye, then KILL; reap them. NULL is allowed. Preserves status_reason. */
void fleet_close(struct fleet *fleet);

/* Before fleet_close: workers are told status_reason, why the job is not done, and end with STATUS_INTERRUPTED.
 * Whatever started them then knows to start them again (a Job of Kubernetes). */
void fleet_interrupt(struct fleet *fleet);

/* Number the machines by host name, in the order of ranks. machine_out n_worker. Returns their number. */
uint32_t fleet_machines(const struct fleet *fleet, uint32_t *machine_out);

/* Two of the job's processes that are on one machine and share no memory (protocol/transport/neighbour.h): a rank,
 * and another or n_worker, the coordinator. False: there are no such processes. */
bool fleet_apart(const struct fleet *fleet, uint32_t *one_out, uint32_t *other_out);

/* What messages are sealed with; SEAL_NONE: they are plain. */
enum seal_cipher fleet_cipher(const struct fleet *fleet);

/* Send every worker the ranks of all parts, and which ranks share a machine. rank_of_part n_part */
enum status fleet_place(struct fleet *fleet, int32_t n_part, const int32_t *rank_of_part);

/* Send an encoded part to its owner; the bytes may be freed when it returns. */
enum status fleet_ship(struct fleet *fleet, int32_t part, const void *bytes, size_t n_bytes);

/* Wait until every worker has its parts and memory. memory_out, libraries_out n_worker; n_weight_out floats. */
enum status fleet_ready(struct fleet *fleet, struct fleet_memory *memory_out, int64_t *n_weight_out,
                        struct library_versions *libraries_out);

/* One epoch on all workers. When the loss is not finite, no step was made and nothing evaluated.
 * errors  STATUS_PEER a worker was lost; the reason has its rank and how it ended */
enum status fleet_epoch(struct fleet *fleet, uint32_t epoch, bool train, bool evaluate, struct fleet_report *out);

/* Of the last epoch on one worker. */
struct fleet_times {
    double compute_s, pack_s, wait_s, evaluate_s;
};
struct fleet_times fleet_times(const struct fleet *fleet, uint32_t rank);

/* What exchange.guard_every found in the last epoch, the same on every worker. */
struct fleet_guard {
    bool compared; /* false: the epoch lost nothing */
    double loss;   /* of the approximate epoch */
    double error, cosine;
    int64_t n_back_off; /* so far */
};

/* errors  STATUS_PEER; STATUS_BUG workers found different things */
enum status fleet_guard(struct fleet *fleet, uint32_t epoch, struct fleet_guard *out);

/* Save the present weights as the best: rank 0 the weights, every rank its parts' embeddings. */
enum status fleet_keep_best(struct fleet *fleet);

/* Read a row of worker_state.def from the first rank that has it / set it on every rank that has it.
 *
 *   of       the part, or of a row of scope RANK the rank; else 0
 *   n_bytes  exactly what the row has; 0: nothing is sent
 *   errors   STATUS_PEER
 */
enum status fleet_get(struct fleet *fleet, enum worker_state what, int32_t of, void *to, size_t n_bytes);
enum status fleet_put(struct fleet *fleet, enum worker_state what, int32_t of, const void *from, size_t n_bytes);

/* How a worker's last epoch ran (output.trace). Its clock plus offset_s is the coordinator's: 0 where both read the
 * same clock, else found by the middle of a command's round trip, and so true to half of that.
 *
 *   owns    the caller owns *out: fleet_trace_release
 *   errors  STATUS_PEER; STATUS_NOMEM
 */
struct fleet_trace {
    void *content;
    const struct trace_step *step;   /* n_step */
    const struct trace_event *event; /* n_event: of steps that there are */
    int32_t n_step;
    int64_t n_event, n_dropped;
    double offset_s;
};
enum status fleet_trace(struct fleet *fleet, uint32_t rank, struct fleet_trace *out);
void fleet_trace_release(struct fleet_trace *trace);

/* What a worker received in all epochs since it was started: the table of protocol/wire/traffic.h, to n_row ×
 * workers.count numbers.
 * errors  STATUS_PEER */
enum status fleet_traffic(struct fleet *fleet, uint32_t rank, int n_row, struct traffic_head *head_out,
                          uint64_t *table_out);

/* Memory as it is now, one entry per worker. */
enum status fleet_memory(struct fleet *fleet, struct fleet_memory *memory_out);

/* A worker's pid and host. *host_out: borrowed; NULL for a worker that was started here. */
void fleet_member(const struct fleet *fleet, uint32_t rank, uint32_t *pid_out, const char **host_out);

/* Processes started here that are still alive (for tests and messages). */
int fleet_n_alive(const struct fleet *fleet);

#endif
