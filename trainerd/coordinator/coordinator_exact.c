/* The plans of jobs that are this one but for some keys, of the same parts, counted again for each: what it would
 * receive if its exchange were exact, in every way that there is, and on how few workers it fits. */
#include "protocol/base/memory.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/folder/report.h"

#include <stdlib.h>

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

/* The job with the default exchange, which is exact, and with these switches. */
static void job_make(const struct job *job, const struct plan_exact *exact, struct job *out)
{
    struct job defaults;
    job_defaults(&defaults);
    *out = *job;
    out->exchange = defaults.exchange;
    out->exchange.schedule = job->exchange.schedule;
    out->exchange.prefetch = job->exchange.prefetch;
    out->exchange.plain = exact->plain;
#define X(key) out->exchange.key = exact->plain ? job->exchange.key : exact->key;
    PLAN_SWITCH_LIST(X)
#undef X
}

/* Do two jobs exchange alike? All keys are compared, also those that this file does not know. */
static bool is_same(const struct job *a, const struct job *b)
{
    json_t *x = report_job(a), *y = report_job(b);
    bool same = json_equal(json_object_get(x, "exchange"), json_object_get(y, "exchange"));
    json_decref(x);
    json_decref(y);
    return same;
}

/* The same nodes in the same parts, not ordered by hop. */
static enum status partition_copy(const struct partition *from, struct partition *out)
{
    *out = (struct partition){.n_part = from->n_part, .n_node = from->n_node};
    const size_t n = (size_t)from->n_node, n_begin = (size_t)from->n_part + 1;
    enum status status = memory_copy(MEMORY_OTHER, from->owner, n, sizeof *out->owner, &out->owner);
    if (status == STATUS_OK) {
        status = memory_copy(MEMORY_OTHER, from->part_begin, n_begin, sizeof *out->part_begin, &out->part_begin);
    }
    if (status == STATUS_OK) {
        status = memory_copy(MEMORY_OTHER, from->order, n, sizeof *out->order, &out->order);
    }
    return status;
}

/* Plan the same parts for another job. owns  the caller: plan_release */
static enum status plan_other(const struct coordinator *c, const struct job *job, struct plan *out)
{
    struct coordinator *other = memory_alloc(1, sizeof *other);
    other->options = c->options;
    other->job = *job;
    other->dataset = c->dataset; /* borrowed */
    other->sizes = c->sizes;
    other->sparse_features = c->sparse_features;
    other->parts.quality = c->parts.quality;
    enum status status = coordinator_program(other);
    if (status == STATUS_OK && (status = partition_copy(&c->partition, &other->partition)) == STATUS_OK) {
        status = coordinator_count(other);
    }
    if (status == STATUS_OK) {
        struct plan_input input = coordinator_plan_input(other);
        status = plan_build(&input, out);
    }
    part_dedup_release(&other->parts.dedup);
    part_sizes_release(other->parts.sizes, other->partition.n_part);
    partition_release(&other->partition);
    program_release(&other->program);
    free(other->parts.rank_of_part);
    free(other);
    return status;
}

/* Count the bytes of the same job with another exchange. */
static enum status count(const struct coordinator *c, const struct job *job, struct plan_exact *exact)
{
    struct plan plan = {0};
    enum status status = plan_other(c, job, &plan);
    exact->n_wire = plan.n_wire;
    exact->n_wire_evaluate = plan.n_wire_evaluate;
    plan_release(&plan);
    return status;
}

enum status coordinator_exact(const struct coordinator *c, struct plan_exact out[PLAN_N_EXACT])
{
    enum status status = STATUS_OK;
    int best = 0;
    for (int i = 0; i < PLAN_N_EXACT && status == STATUS_OK; i++) {
        struct job job;
        out[i] = exact_at(i);
        job_make(&c->job, &out[i], &job);
        out[i].is_in_use = is_same(&job, &c->job);
        if (out[i].is_in_use) {
            out[i].n_wire = c->plan.n_wire;
            out[i].n_wire_evaluate = c->plan.n_wire_evaluate;
        } else {
            status = count(c, &job, &out[i]);
        }
        bool ties = out[i].n_wire == out[best].n_wire;
        best = out[i].n_wire < out[best].n_wire || (ties && out[i].is_in_use) ? i : best;
    }
    out[best].is_cheapest = true;
    return status;
}

enum status coordinator_fewest(const struct coordinator *c, struct plan_fewest *out)
{
    *out = (struct plan_fewest){.n_worker = 1};
    if (c->job.memory.limit == 0) {
        return STATUS_OK;
    }
    int64_t most = plan_limited_most(&c->plan);
    bool fits = most <= c->job.memory.limit;
    int32_t few = fits ? 0 : (int32_t)c->job.workers.count; /* for so many it is too little */
    int32_t enough = fits ? (int32_t)c->job.workers.count : few + 1;
    out->n_byte_below = fits ? 0 : most;
    while (enough - few > 1) {
        int32_t n_worker = few + (enough - few) / 2;
        struct job job = c->job;
        struct plan plan = {0};
        job.workers.count = n_worker;
        enum status status = plan_other(c, &job, &plan);
        int64_t n_byte = status == STATUS_OK ? plan_limited_most(&plan) : 0;
        plan_release(&plan);
        if (status != STATUS_OK) {
            return status;
        }
        if (n_byte <= c->job.memory.limit) {
            enough = n_worker;
        } else {
            few = n_worker;
            out->n_byte_below = n_byte;
        }
    }
    out->n_worker = enough;
    return STATUS_OK;
}
