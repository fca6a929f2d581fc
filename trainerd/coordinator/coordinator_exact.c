/* What a job would receive if its exchange were exact, in every way that there is: the same parts, counted again for each. */
#include "protocol/memory.h"
#include "trainerd/coordinator/coordinator_state.h"

#include <stdlib.h>
#include <string.h>

/* The i-th: all switches on first, exchange.plain last. */
static struct plan_exact exact_at(int i)
{
    struct plan_exact exact = {.plain = i == PLAN_N_EXACT - 1};
    int bit = 0;
#define X(key) exact.key = !exact.plain && (i >> bit++ & 1) == 0;
    PLAN_SWITCH_LIST(X)
#undef X
    return exact;
}

/* The job's exchange as it is by default, which is exact, with these switches. */
static struct job_exchange exchange_of(const struct job *job, const struct plan_exact *exact)
{
    struct job defaults;
    job_defaults(&defaults);
    struct job_exchange exchange = defaults.exchange;
    exchange.schedule = job->exchange.schedule;
    exchange.prefetch = job->exchange.prefetch;
    exchange.plain = exact->plain;
#define X(key) exchange.key = exact->key;
    PLAN_SWITCH_LIST(X)
#undef X
    return exchange;
}

/* Is it the job's own exchange? With exchange.plain no switch counts. */
static bool is_in_use(const struct coordinator *c, const struct plan_exact *exact)
{
    bool same = !program_is_lossy(&c->program) && c->job.exchange.plain == exact->plain;
#define X(key) same = same && (exact->plain || c->job.exchange.key == exact->key);
    PLAN_SWITCH_LIST(X)
#undef X
    return same;
}

/* The same nodes in the same parts, not ordered by hop. */
static enum status partition_copy(const struct partition *from, struct partition *out)
{
    *out = (struct partition){.n_part = from->n_part, .n_node = from->n_node};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)from->n_node, sizeof *out->owner, &out->owner);
    if (status == STATUS_OK) {
        memcpy(out->owner, from->owner, (size_t)from->n_node * sizeof *out->owner);
        status = memory_acquire(MEMORY_OTHER, (size_t)from->n_part + 1, sizeof *out->part_begin, &out->part_begin);
    }
    if (status == STATUS_OK) {
        memcpy(out->part_begin, from->part_begin, ((size_t)from->n_part + 1) * sizeof *out->part_begin);
        status = memory_acquire(MEMORY_OTHER, (size_t)from->n_node, sizeof *out->order, &out->order);
    }
    if (status == STATUS_OK) {
        memcpy(out->order, from->order, (size_t)from->n_node * sizeof *out->order);
    }
    return status;
}

/* Count the job's bytes with another exchange. */
static enum status count(const struct coordinator *c, struct plan_exact *exact)
{
    struct coordinator *other = memory_alloc(1, sizeof *other);
    double share;
    other->options = c->options;
    other->job = c->job;
    other->job.exchange = exchange_of(&c->job, exact);
    other->dataset = c->dataset; /* borrowed */
    other->facts = c->facts;
    other->sparse_features = c->sparse_features;
    other->quality = c->quality;
    enum status status = coordinator_program(other);
    status = status == STATUS_OK ? partition_copy(&c->partition, &other->partition) : status;
    status = status == STATUS_OK ? coordinator_count(other, &share) : status;
    if (status == STATUS_OK) {
        struct plan_input input = coordinator_plan_input(other);
        input.steps = false;
        status = plan_build(&input, &other->plan);
        exact->n_wire = other->plan.n_wire;
        exact->n_wire_evaluate = other->plan.n_wire_evaluate;
    }
    plan_release(&other->plan);
    part_shared_release(&other->shared);
    part_sizes_release(other->sizes, other->partition.n_part);
    partition_release(&other->partition);
    program_release(&other->program);
    free(other->rank_of_part);
    free(other);
    return status;
}

enum status coordinator_exact(const struct coordinator *c, struct plan_exact out[PLAN_N_EXACT])
{
    enum status status = STATUS_OK;
    int best = 0;
    for (int i = 0; i < PLAN_N_EXACT && status == STATUS_OK; i++) {
        out[i] = exact_at(i);
        out[i].is_in_use = is_in_use(c, &out[i]);
        if (out[i].is_in_use) {
            out[i].n_wire = c->plan.n_wire;
            out[i].n_wire_evaluate = c->plan.n_wire_evaluate;
        } else {
            status = count(c, &out[i]);
        }
        bool ties = out[i].n_wire == out[best].n_wire;
        best = out[i].n_wire < out[best].n_wire || (ties && out[i].is_in_use) ? i : best;
    }
    out[best].is_cheapest = true;
    return status;
}
