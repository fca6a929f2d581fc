#include "tests/unit/trainerd/daemon/commands/fake_supervisor.h"

#include <criterion/criterion.h>
#include <stdio.h>

static enum status ask(struct supervisor *supervisor, const char *what, int64_t id)
{
    snprintf(supervisor->asked, sizeof supervisor->asked, "%s %lld", what, (long long)id);
    return STATUS_OK;
}

enum status supervisor_cancel(struct supervisor *supervisor, int64_t id)
{
    const struct job_record *record = jobs_get(supervisor->jobs, id);
    if (job_state_ended(record->state)) {
        return status_fail(STATUS_USAGE, "job %lld has ended", (long long)id);
    }
    return ask(supervisor, "cancel", id);
}

enum status supervisor_resume(struct supervisor *supervisor, int64_t id)
{
    return ask(supervisor, "resume without priority", id);
}

enum status supervisor_resume_by_admin(struct supervisor *supervisor, int64_t id)
{
    return ask(supervisor, "resume", id);
}

enum status supervisor_order(struct supervisor *supervisor, enum supervisor_order order, const int64_t *ids, size_t n,
                             const struct slice *slice, size_t *n_out)
{
    static const char *const what[] = {"cancel", "resume without priority", "resume"};
    size_t n_slice = supervisor->n_slice_most > 0 && supervisor->n_slice_most < n ? supervisor->n_slice_most : n;
    for (size_t i = 0; i < n_slice; i++) {
        ask(supervisor, what[order], ids[i]);
    }
    supervisor->n_slice++;
    supervisor->clock_ns += SLICE_NS;
    *n_out = supervisor->fails_in_slice == supervisor->n_slice ? 0 : n_slice;
    cr_assert_not(slice_has_time(slice));
    return supervisor->fails_in_slice == supervisor->n_slice ? status_fail(STATUS_IO, "the disk is full") : STATUS_OK;
}

enum status supervisor_checkpoint(struct supervisor *supervisor, int64_t id)
{
    return ask(supervisor, "checkpoint", id);
}

enum status supervisor_scale(struct supervisor *supervisor, int64_t id, int32_t n_worker)
{
    ask(supervisor, "scale", id);
    size_t n = 0;
    while (supervisor->asked[n] != '\0') {
        n++;
    }
    snprintf(supervisor->asked + n, sizeof supervisor->asked - n, " to %d", (int)n_worker);
    return STATUS_OK;
}

void supervisor_schedule(struct supervisor *supervisor)
{
    supervisor->n_schedule++;
}
