#include "worker/state/homes.h"

#include "protocol/base/log.h"

#include <stdlib.h>

enum status homes_open(struct trainer *t)
{
    if (t->plan.homes.n == 0) {
        return STATUS_OK;
    }
    t->memory.home_moved = memory_alloc((size_t)t->plan.homes.n, sizeof *t->memory.home_moved);
    return t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_ACTIVATIONS, (size_t)t->plan.homes.n_bytes,
                           &t->memory.homes);
}

void homes_close(struct trainer *t)
{
    free(t->memory.home_moved);
    if (t->memory.homes != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_ACTIVATIONS, t->memory.homes,
                        (size_t)t->plan.homes.n_bytes);
    }
}

static int home_of(const struct trainer *t, const struct step_operand *array)
{
    int i = 0;
    while (i < t->plan.homes.n && !step_operand_is_same(&t->plan.homes.home[i].array, array)) {
        i++;
    }
    ASSERT(i < t->plan.homes.n);
    return i;
}

/* Behind all that operations have done so far; where others follow it is the mark. */
static device_mark array_move(struct trainer *t, enum device_lane lane, void *to, const void *from, int64_t n_bytes)
{
    t->ops->follow(t->device, lane, t->ops->mark(t->device, DEVICE_LANE_COMPUTE));
    t->ops->move(t->device, lane, to, from, (size_t)n_bytes);
    return t->ops->mark(t->device, lane);
}

enum status homes_run(struct trainer *t, const struct step *step)
{
    const struct step_operand *array = &step->operand[0];
    int i = home_of(t, array);
    const struct memory_home *home = &t->plan.homes.home[i];
    char *there = t->memory.homes + home->begin;
    char *here = t->memory.arena + memory_plan_at(&t->plan, &t->program, array->array, array->index, array->k);
    switch (step->kind) {
    case STEP_KIND_STORE:
        t->memory.home_moved[i] = array_move(t, DEVICE_LANE_STORE, there, here, home->n_bytes);
        break;
    case STEP_KIND_FETCH:
        t->memory.home_moved[i] = array_move(t, DEVICE_LANE_FETCH, here, there, home->n_bytes);
        break;
    default: /* STORED, FETCHED: operations go on behind the copy */
        t->ops->follow(t->device, DEVICE_LANE_COMPUTE, t->memory.home_moved[i]);
    }
    return STATUS_OK;
}
