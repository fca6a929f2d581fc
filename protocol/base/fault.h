/* Fault points: named places of a run at which a test makes a process die, stop or change its clock.
 *
 *   TRAINERD_FAULTS="worker1.forward=kill@3,coordinator.rename=kill/1"
 *
 * WHO.POINT=ACTION[@COUNT][/ATTEMPT]: when that process passes the point for the COUNT-th time (default 1), in that
 * attempt of its job (default: in all). Unset, a point costs one read of a variable; a process that has not called
 * fault_arm passes them all.
 */
#ifndef PROTOCOL_FAULT_H
#define PROTOCOL_FAULT_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/*         name        point          where */
/* clang-format off */
#define FAULT_LIST(X)                                                                               \
    X(LOAD,       "load")       /* coordinator: the dataset is in memory */                         \
    X(PARTITION,  "partition")  /* coordinator: nodes have owners */                                \
    X(LAUNCH,     "launch")     /* coordinator: workers are started, none has joined */             \
    X(JOINED,     "joined")     /* coordinator: all workers have joined, none is connected */      \
    X(WIRE_UP,    "wire-up")    /* coordinator, worker: ranks and addresses are sent */             \
    X(SHIP,       "ship")       /* coordinator, worker: a part is on its way */                     \
    X(OPEN,       "open")       /* worker: all its parts came */                                    \
    X(EPOCH,      "epoch")      /* coordinator: workers are ordered to train */                     \
    X(FORWARD,    "forward")    /* worker: before each op */                                        \
    X(EXCHANGE,   "exchange")   /* worker: it has requested rows */                                 \
    X(BACKWARD,   "backward")   /* worker: before each op */                                        \
    X(REDUCE,     "reduce")     /* worker: its gradients wait for the others' */                    \
    X(STEP,       "step")       /* worker: before the weights change */                             \
    X(EVALUATE,   "evaluate")   /* worker: before each op */                                        \
    X(CHECKPOINT, "checkpoint") /* coordinator: arrays are in memory; worker: one is requested */   \
    X(WRITE,      "write")      /* any file that is replaced: the first piece of it is written */   \
    X(FSYNC,      "fsync")      /* … all pieces are */                                              \
    X(RENAME,     "rename")     /* … they are on the disk under another name */                     \
    X(RENAMED,    "renamed")    /* … the name may not be on the disk */                             \
    X(RESULTS,    "results")    /* coordinator: epochs are done, nothing is written */              \
    X(MOVE,       "move")       /* coordinator: before each step that makes a run's files the results */ \
    X(FINISH,     "finish")     /* coordinator, worker: all is done, the workers are to leave */    \
    X(UPGRADE,    "upgrade")    /* daemon: before and after each step that brings an older store up to date */ \
    X(ADMIT,      "admit")      /* daemon: one more job of a submission is written, none is saved */ \
    X(ADMITTED,   "admitted")   /* daemon: a submission is saved, and not acknowledged */           \
    X(CHANGE,     "change")     /* daemon: one more changed job is written, none is saved */        \
    X(GATE,       "gate")       /* daemon: an attempt is saved, its coordinator not yet started */      \
    X(SBATCH,     "sbatch")     /* daemon: Slurm has made an attempt's job, its number is not saved */ \
    X(HELD,       "held")       /* daemon: the number is saved, the job not released */             \
    X(RELEASED,   "released")   /* daemon: the job is released */                                   \
    X(CLOCK,      "clock")      /* daemon: it has begun; the end of an attempt is saved */
/* clang-format on */

enum fault_point {
#define X(name, text) FAULT_##name,
    FAULT_LIST(X)
#undef X
        FAULT_N
};

#define FAULT(point) (fault_armed ? fault_pass(FAULT_##point) : (void)0)

/* Set the name of this process: "coordinator", "worker1"; attempt 0: not counted. From then on points of
 * TRAINERD_FAULTS strike: kill (SIGKILL), stop (SIGSTOP), kill-parent (SIGKILL to the process that started this one);
 * forward and back (this process's wall clock is an hour ahead or behind from then on).
 *
 *   errors  STATUS_USAGE the variable cannot be read: what is wrong, and what was expected
 */
enum status fault_arm(const char *who, uint32_t attempt);

extern bool fault_armed;
void fault_pass(enum fault_point point);

#endif
