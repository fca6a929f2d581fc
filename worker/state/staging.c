#include "worker/state/staging.h"

enum status staging_open(struct trainer *t)
{
    size_t n_bytes = (size_t)t->plan.n_staging_bytes;
    return n_bytes > 0 ? t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_OTHER, n_bytes, &t->memory.staging)
                       : STATUS_OK;
}

void staging_close(struct trainer *t)
{
    if (t->memory.staging != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_OTHER, t->memory.staging,
                        (size_t)t->plan.n_staging_bytes);
    }
}

void *staging_place(const struct trainer *t, int64_t at, void *device)
{
    return t->memory.staging != NULL ? t->memory.staging + at : device;
}

enum status staging_ready(const struct trainer *t)
{
    return device_sync(t->device);
}

enum status staging_writable(const struct trainer *t, device_mark free, device_mark unread)
{
    return t->ops->wait(t->device, t->memory.staging != NULL ? free : unread);
}

device_mark staging_out(const struct trainer *t, int64_t at, void *device, int64_t n_bytes)
{
    t->ops->follow(t->device, DEVICE_LANE_OUT, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
    t->ops->move(t->device, DEVICE_LANE_OUT, staging_place(t, at, device), device, (size_t)n_bytes);
    return t->ops->mark(t->device, DEVICE_LANE_OUT);
}

device_mark staging_in(const struct trainer *t, int64_t at, void *device, int64_t n_bytes, device_mark unread)
{
    t->ops->follow(t->device, DEVICE_LANE_IN, unread);
    t->ops->move(t->device, DEVICE_LANE_IN, device, staging_place(t, at, device), (size_t)n_bytes);
    device_mark arrived = t->ops->mark(t->device, DEVICE_LANE_IN);
    t->ops->follow(t->device, DEVICE_LANE_COMPUTE, arrived);
    return arrived;
}
