#include "worker/run/staging.h"

/* The payloads of the pass that has most, or every own part's branch of a reduction and another rank's. */
static int64_t bytes_of(const struct trainer *t)
{
    const struct memory_plan *plan = &t->plan;
    int64_t most = (t->n_own + 1) *
                   (plan->n_gradient_bytes > plan->n_global_bytes ? plan->n_gradient_bytes : plan->n_global_bytes);
    for (int op = 0; op < t->program.n_op; op++) {
        for (int use = 0; use < STEP_WORKSPACE_N; use++) {
            int64_t n_bytes = memory_workspace_bytes(&plan->workspace[op][use]) - plan->workspace[op][use].n_scratch;
            most = n_bytes > most ? n_bytes : most;
        }
    }
    return most;
}

enum status staging_open(struct trainer *t)
{
    if (t->ops->unified || t->setup.n_rank == 1) {
        return STATUS_OK;
    }
    t->n_staging_bytes = bytes_of(t);
    return t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_OTHER, (size_t)t->n_staging_bytes, &t->staging);
}

void staging_close(struct trainer *t)
{
    if (t->staging != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_OTHER, t->staging, (size_t)t->n_staging_bytes);
    }
}

void *staging_place(const struct trainer *t, int64_t at, void *device)
{
    return t->staging != NULL ? t->staging + at : device;
}

enum status staging_ready(const struct trainer *t)
{
    return device_sync(t->device);
}

enum status staging_out(const struct trainer *t, int64_t at, void *device, int64_t n_bytes)
{
    t->ops->follow(t->device, DEVICE_LANE_OUT, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
    t->ops->move(t->device, DEVICE_LANE_OUT, staging_place(t, at, device), device, (size_t)n_bytes);
    return t->ops->wait(t->device, t->ops->mark(t->device, DEVICE_LANE_OUT));
}

device_mark staging_in(const struct trainer *t, int64_t at, void *device, int64_t n_bytes)
{
    t->ops->follow(t->device, DEVICE_LANE_IN, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
    t->ops->move(t->device, DEVICE_LANE_IN, device, staging_place(t, at, device), (size_t)n_bytes);
    device_mark arrived = t->ops->mark(t->device, DEVICE_LANE_IN);
    t->ops->follow(t->device, DEVICE_LANE_COMPUTE, arrived);
    return arrived;
}
