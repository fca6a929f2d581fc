#include "worker/run/recording.h"

#include <stdlib.h>

void recordings_close(struct trainer *t)
{
    for (int p = 0; p < STEP_PHASE_N; p++) {
        void **made = t->records.recording[p].made;
        for (int s = 0; made != NULL && s < t->plan.steps.phase[p].n_step; s++) {
            if (made[s] != NULL) {
                t->ops->forget(t->device, made[s]);
            }
        }
        free(made);
    }
}

/* Does each epoch give the device the same work? */
static bool repeats(const struct trainer *t)
{
    bool same = !program_is_lossy(&t->program) && t->setup.job->exchange.guard_every == 0;
    same = same && !job_predicts_links(t->setup.job); /* whose pairs the host draws */
    return same && t->ops->record != NULL && t->setup.spill == NULL && t->records.trace == NULL;
}

/* With several workers no recording has the step: the host waits in it, or it marks arrays that move (offload). */
static bool is_between(const struct step *step)
{
    return step->kind == STEP_KIND_HALO || step->kind == STEP_KIND_TOTAL || step->kind == STEP_KIND_REDUCE ||
           step->kind >= STEP_KIND_STORE;
}

int recording_end(const struct trainer *t, const struct step_list *list, int s)
{
    bool same = repeats(t);
    while (same && s < list->n_step && (t->setup.n_rank == 1 || !is_between(&list->step[s]))) {
        s += step_span(&list->step[s]);
    }
    return s;
}

enum status recording_run(struct trainer *t, int s, int end, enum status (*run)(struct trainer *, int, int))
{
    struct recording *r = &t->records.recording[t->run.phase];
    if (r->n_run == 1) {                        /* what loads at its first use has loaded */
        exchange_hold(t->setup.exchange, true); /* what others ask for would be recorded, too */
        t->ops->record(t->device);
        enum status status = run(t, s, end);
        r->made[s] = t->ops->recorded(t->device);
        exchange_hold(t->setup.exchange, false);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (r->made[s] == NULL) {
        return run(t, s, end);
    }
    t->ops->replay(t->device, r->made[s]);
    return exchange_progress(t->setup.exchange);
}
