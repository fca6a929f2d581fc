/* Phases that give the device the same work in every epoch: run step by step once, recorded the next time, and then
 * replayed as one.
 *
 * What changes from epoch to epoch is in memory (struct device_now). Not where other ranks' rows or disks decide when
 * an operation comes, nor where an epoch's operations follow from a sample, a level or what was kept; nor with a
 * trace, whose times are of steps.
 */
#ifndef WORKER_RECORDING_H
#define WORKER_RECORDING_H

#include "worker/state/trainer_state.h"

struct recording {
    int n_run;  /* of the phase, so far */
    void *made; /* the device's; NULL: none */
};

/* Replay the phase, if it is recorded. Does nothing else. */
bool recording_replay(struct trainer *trainer, enum step_phase phase);

/* Is the phase, which is about to run, to be recorded instead? The steps that then run do nothing but give the device
 * work, which is kept. */
bool recording_begin(struct trainer *trainer, enum step_phase phase);

/* They have run. false: they could not be recorded, nothing was done, and they must run again. */
bool recording_end(struct trainer *trainer, enum step_phase phase);

void recordings_close(struct trainer *trainer);

#endif
