#include "worker/run/recording.h"

/* Does the phase give the device the same work each time? */
static bool repeats(const struct trainer *t)
{
    bool same = !program_is_lossy(&t->program) && t->setup.job->exchange.guard_every == 0;
    same = same && !job_predicts_links(t->setup.job); /* whose pairs the host draws */
    return same && t->ops->record != NULL && t->setup.n_rank == 1 && t->setup.spill == NULL &&
           t->records.trace == NULL;
}

bool recording_replay(struct trainer *t, enum step_phase phase)
{
    struct recording *r = &t->records.recording[phase];
    if (r->made != NULL) {
        t->ops->replay(t->device, r->made);
    }
    return r->made != NULL;
}

bool recording_begin(struct trainer *t, enum step_phase phase)
{
    bool records = t->records.recording[phase].n_run++ == 1 &&
                   repeats(t); /* what loads at its first use has loaded */
    if (records) {
        t->ops->record(t->device);
    }
    return records;
}

bool recording_end(struct trainer *t, enum step_phase phase)
{
    t->records.recording[phase].made = t->ops->recorded(t->device);
    return recording_replay(t, phase);
}

void recordings_close(struct trainer *t)
{
    for (int p = 0; p < STEP_PHASE_N; p++) {
        if (t->records.recording[p].made != NULL) {
            t->ops->forget(t->device, t->records.recording[p].made);
        }
    }
}
