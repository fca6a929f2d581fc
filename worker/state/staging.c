#include "worker/state/staging.h"

void *staging_place(const struct trainer *t, const struct staged *what)
{
    bool apart = t->memory.staging != NULL && !peers_near(t->routes.peers, what->peer);
    return apart ? t->memory.staging + what->at : what->device;
}

enum status staging_fetch(const struct trainer *t, const struct staged *what, const struct exchange_key *key,
                          int *handle_out)
{
    bool near = peers_near(t->routes.peers, what->peer); /* then the copy itself waits, on the device */
    device_mark mark = t->memory.staging != NULL ? what->free : what->unread;
    enum status status = near ? STATUS_OK : t->ops->wait(t->device, mark);
    if (status == STATUS_OK) {
        status = exchange_fetch(t->setup.exchange, what->peer, key, staging_place(t, what), (size_t)what->n_bytes,
                                handle_out);
        exchange_after(t->setup.exchange, *handle_out, near ? what->unread : 0);
    }
    return status;
}

device_mark staging_out(const struct trainer *t, const struct staged *what)
{
    void *to = staging_place(t, what);
    device_mark made = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    if (to == what->device) {
        return made;
    }
    t->ops->follow(t->device, DEVICE_LANE_OUT, made);
    t->ops->move(t->device, DEVICE_LANE_OUT, to, what->device, (size_t)what->n_bytes);
    return t->ops->mark(t->device, DEVICE_LANE_OUT);
}

void staging_in(const struct trainer *t, struct staged *what)
{
    if (peers_near(t->routes.peers, what->peer)) {
        return; /* it is there: the exchange has waited for the copy */
    }
    t->ops->follow(t->device, DEVICE_LANE_IN, what->unread);
    t->ops->move(t->device, DEVICE_LANE_IN, what->device, staging_place(t, what), (size_t)what->n_bytes);
    what->free = t->ops->mark(t->device, DEVICE_LANE_IN);
    t->ops->follow(t->device, DEVICE_LANE_COMPUTE, what->free);
}

bool staging_is_made(const struct trainer *t, device_mark made)
{
    if (!t->ops->passed(t->device, made)) {
        exchange_hurry(t->setup.exchange);
        return false;
    }
    enum status status = t->ops->wait(t->device, made); /* which tells of failures */
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
    }
    return status == STATUS_OK;
}
