/* Work that is the same in every epoch: run step by step once, recorded the next time, and then replayed as one. On
 * one worker that is a whole phase, else each run of steps in which the host does not wait for other ranks. What
 * changes from epoch to epoch is in memory (struct device_now). Not where disks decide when an operation comes, nor
 * where operations follow from a sample, a level or what was kept; nor with a trace, whose times are of steps.
 */
#ifndef WORKER_RECORDING_H
#define WORKER_RECORDING_H

#include "worker/state/trainer_state.h"

struct recording {
    int n_run;   /* of the phase, so far */
    void **made; /* n_step: the device's, by their first steps; NULL: none */
};

void recordings_close(struct trainer *trainer);

/* Where the run of steps ends that is recorded from step s on; s: that step is not. */
int recording_end(const struct trainer *trainer, const struct step_list *list, int s);

/* Give the device the work of these steps: by `run`, which does nothing else, or replayed. */
enum status recording_run(struct trainer *trainer, int s, int end, enum status (*run)(struct trainer *, int, int));

#endif
