/* A job's folder, for a supervisor: the lock of the running attempt, its events, its workers' logs.
 *
 * (What it keeps of runs: folder/run_folder_job.h.)
 *
 * FOLDER/events.jsonl is held (fcntl) for a coordinator's life. It has one JSON object per line, over all attempts;
 * each line has "ts" (seconds since 1970), "attempt" and "event":
 *
 *   begin       pid                         this attempt has the lock
 *   state       state                       "PREPARING" graph, parts, plan · "STARTING" workers · "RUNNING" epochs
 *   plan        memory, workers             bytes of all workers together, their number
 *   workers     host, workers               the coordinator's; [{"rank", "pid", "host"}]
 *   epoch       epoch, epochs, metric, pack_s, and the fields of trainerd/base/epoch_figures.def
 *                                           epoch: how many are done. At most 10 lines a second, fewer as the file
 *                                           nears its limit; of the epochs in between, the last is written before
 *                                           the next line of another event
 *   checkpoint  epoch, path                 it is on the disk
 *   rollback    epoch, rollbacks, reason    training diverged and continues after `epoch` epochs, for the
 *               `rollbacks`-th time
 *   back_off    epoch, back_offs, error, limit, sampling, codec, codec_backward, stale
 *                                           in `epoch` the gradient's relative error was above exchange.guard_limit,
 *                                           for the `back_offs`-th time; how much is lost from the next epoch on
 *   end         exit_code, status, reason, restartable
 *                                           on the disk before the process ends. status: a name of STATUS_LIST.
 *                                           restartable: restart_is_possible. A process that ended without this line
 *                                           was killed
 *
 * A line that a crash cut short has no newline; the next attempt ends it. Readers read whole lines and skip one that
 * is not JSON, and unknown events and fields. Epoch numbers may go back from one attempt to the next. A line that
 * does not fit on the disk is left out, and training continues. In every call, NULL stands for a job without a
 * supervisor.
 */
#ifndef TRAINERD_EVENTS_H
#define TRAINERD_EVENTS_H

#include "protocol/base/status.h"
#include "protocol/files/job_files.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

struct progress;
struct events;

struct events_worker {
    uint32_t pid;
    const char *host; /* NULL: the coordinator's own */
};

/* Open the files, unless they are inherited, lock the events and write "begin". `folder` names them in messages.
 *
 *   waits   while another attempt has the lock, wait for its end: one that Slurm has lost may still compute on its
 *           node
 *   owns    the caller owns *out: events_close, which closes the files, too. One may be open in a process
 *   errors  STATUS_PEER another attempt of the job runs; STATUS_NO_INPUT no such folder; STATUS_CREATE
 */
enum status events_open(const char *folder, uint32_t attempt, struct job_files *files, bool waits,
                        struct events **out);
void events_close(struct events *events);

void events_state(struct events *events, const char *state);
void events_plan(struct events *events, int64_t memory, int32_t n_worker);
/* In the order of their ranks. workers n_worker */
void events_workers(struct events *events, const struct events_worker *workers, int32_t n_worker);
/* The last epoch of `progress`. now_s: on its clock */
void events_epoch(struct events *events, const struct progress *progress, enum job_metric metric, double now_s);
/* output: the job's output folder */
void events_checkpoint(struct events *events, int64_t n_epoch, const char *output);
void events_rollback(struct events *events, int64_t n_epoch, int64_t n_rollback, const char *reason);
struct events_back_off {
    int64_t epoch, n_back_off;
    double error, limit, sampling;
    const char *codec, *codec_backward;
    bool stale;
};
void events_back_off(struct events *events, const struct events_back_off *what);
/* The end of the attempt, with status_reason. */
void events_end(struct events *events, enum status status);

/* The same of the events that are open, if any, where they are not at hand. */
void events_end_open(enum status status);

/* The end with STATUS_INTERRUPTED, from a signal handler that exits before training begins. Async-signal-safe. */
void events_end_at_once(void);

/* Where a worker's standard error goes: FOLDER/rank-<rank>.log, or this process's own where there is no supervisor,
 * or the worker has none of the inherited files. *made_out: the same, for the caller to close; -1: nothing is to be
 * closed. errors  STATUS_CREATE */
enum status events_rank_log(const struct events *events, uint32_t rank, int *out, int *made_out);

#endif
