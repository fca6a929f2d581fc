/* What of a plan lies where, on a device with memory of its own: its memory, pinned host memory, other host memory;
 * what a worker may take, and whether that is enough. */
#include "protocol/base/amounts.h"
#include "worker/plan/memory_plan.h"

#include <stdio.h>

int64_t memory_plan_put(struct memory_plan *plan, enum memory_site site, enum memory_category category,
                        int64_t n_bytes)
{
    plan->n_site[site][category] += n_bytes;
    return n_bytes;
}

/* The payloads of the pass that has most, or every own part's branch of a reduction and another rank's, or what
 * scores links. */
static int64_t staging_bytes(const struct memory_plan_input *in, const struct memory_plan *plan)
{
    int64_t most = (in->n_own_part + 1) * larger(plan->reduced.n_gradient_bytes, plan->reduced.n_global_bytes);
    for (int op = 0; op < in->program->n_op; op++) {
        for (int use = 0; use < STEP_WORKSPACE_N; use++) {
            const struct memory_workspace *workspace = &plan->workspace[op][use];
            most = larger(most, memory_workspace_bytes(workspace) - workspace->n_scratch);
        }
    }
    if (in->links != NULL) { /* own rows as they leave, and others as they come */
        const struct step_operand rows = {.array = STEP_ARRAY_VALUE, .index = in->program->logits};
        int64_t own = plan->rows.n_row * step_operand_row_bytes(in->program, &rows);
        most = larger(most, own + plan->loss_workspace.n_fetch);
    }
    return most;
}

void memory_plan_device(const struct memory_plan_input *in, struct memory_plan *plan)
{
    if (!plan->apart) {
        return;
    }
    plan->n_staging_bytes = in->n_rank > 1 && !in->direct ? staging_bytes(in, plan) : 0;
    plan->bytes[MEMORY_OTHER] += memory_plan_put(plan, MEMORY_SITE_PINNED, MEMORY_OTHER, plan->n_staging_bytes);
    bool library = in->job->model.kernel != JOB_KERNEL_OWN;
    int64_t usual = in->ops->n_context + (library ? in->ops->n_context_sums : 0);
    plan->bytes[MEMORY_CONTEXT] = in->capacity != NULL ? in->capacity->n_context : usual;
}

void memory_plan_table(const struct memory_plan *plan, struct memory_table *out)
{
    *out = (struct memory_table){0};
    for (int c = 0; c < MEMORY_N; c++) {
        int64_t on_host = plan->n_site[MEMORY_SITE_HOST][c], pinned = plan->n_site[MEMORY_SITE_PINNED][c];
        if (!plan->apart) {
            out->bytes[MEMORY_PLACE_HOST][c] = plan->bytes[c];
            continue;
        }
        out->bytes[MEMORY_PLACE_HOST][c] = on_host + plan->n_site[MEMORY_SITE_LENT][c];
        out->bytes[MEMORY_PLACE_PINNED][c] = pinned;
        out->bytes[MEMORY_PLACE_DEVICE][c] = plan->bytes[c] - on_host - pinned;
    }
}

int64_t memory_plan_total(const struct memory_plan *plan)
{
    struct memory_table all;
    memory_plan_table(plan, &all);
    return memory_sum(all.bytes[plan->apart ? MEMORY_PLACE_DEVICE : MEMORY_PLACE_HOST]);
}

int64_t memory_plan_budget(const struct memory_plan_input *in)
{
    const struct job *job = in->job;
    int64_t share = in->ops->unified ? 0 : in->capacity != NULL ? device_share(in->capacity) : INT64_MAX;
    if (job->memory.limit > 0) {
        return share > 0 && share < job->memory.limit ? share : job->memory.limit;
    }
    if (share > 0) {
        return share;
    }
    /* The machine's memory less what the processes themselves take, the coordinator among them. */
    int64_t n = job->workers.launcher == JOB_LAUNCHER_LOCAL ? job->workers.count : 1;
    int64_t left = memory_machine() - (n + 1) * MEMORY_PROCESS_FLOOR;
    return left > n ? left / n : 1;
}

/* What helps against too much. */
static const char *hint_of(const struct job *job)
{
    bool recomputes = job->memory.recompute != JOB_RECOMPUTE_NEVER,
         offloads = job->memory.offload != JOB_OFFLOAD_NEVER;
    return recomputes && offloads ? ""
           : recomputes           ? "memory.offload = \"auto\", "
           : offloads             ? "memory.recompute = \"auto\", "
                                  : "memory.recompute = \"auto\", memory.offload = \"auto\", ";
}

enum status memory_plan_check(const struct memory_plan *plan, const struct job *job, uint32_t rank,
                              const struct device_capacity *capacity)
{
    struct memory_table all;
    memory_plan_table(plan, &all);
    int64_t need = memory_plan_total(plan), share = device_share(capacity), limit = job->memory.limit;
    int64_t on_host = memory_sum(all.bytes[MEMORY_PLACE_HOST]) + memory_sum(all.bytes[MEMORY_PLACE_PINNED]);
    if (share > 0 && need > share) {
        char dedup[64] = "";
        if (capacity->n_sharing > 1) {
            snprintf(dedup, sizeof dedup, ", which %u workers share", capacity->n_sharing);
        }
        return status_fail(
            STATUS_NOMEM,
            "worker %u needs %lld bytes of GPU memory by plan (%lld of them for CUDA itself), more than its %lld: "
            "%s has %lld%s: use more GPUs, %s%sa smaller exchange.prefetch or a smaller model",
            rank, (long long)need, (long long)plan->bytes[MEMORY_CONTEXT], (long long)share, capacity->name,
            (long long)capacity->n_bytes, dedup, capacity->n_sharing > 1 ? "fewer workers on each, " : "",
            hint_of(job));
    }
    if (limit > 0 && need > limit) {
        return status_fail(
            STATUS_NOMEM,
            "worker %u needs %lld bytes of GPU memory by plan (%lld of them for CUDA itself), more than memory.limit "
            "of %lld: use more workers, %sa smaller exchange.prefetch or a smaller model",
            rank, (long long)need, (long long)plan->bytes[MEMORY_CONTEXT], (long long)limit, hint_of(job));
    }
    if (on_host > memory_machine()) {
        return status_fail(
            STATUS_NOMEM,
            "worker %u needs %lld bytes of host memory by plan, more than %s of %lld: use more machines or a smaller "
            "exchange.prefetch",
            rank, (long long)on_host, memory_machine_name(), (long long)memory_machine());
    }
    return STATUS_OK;
}
