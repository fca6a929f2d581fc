#include "trainerd/coordinator/plan/plan.h"

#include "protocol/base/memory.h"
#include "trainerd/coordinator/plan/plan_steps.h"
#include "worker/plan/memory_plan.h"

#include <stdlib.h>

static struct memory_plan_part part_plan(const struct plan_input *in, int32_t part)
{
    const struct part_sizes *sizes = &in->sizes[part];
    return (struct memory_plan_part){.n_own = sizes->n_own,
                                     .n_edge = sizes->n_edge,
                                     .n_feature_value = in->sparse_features ? sizes->n_feature_value : 0,
                                     .n_embedded = sizes->n_embedded,
                                     .n_halo = sizes->n_halo,
                                     .n_halo_value = in->sparse_features ? sizes->n_halo_value : 0,
                                     .n_bytes = sizes->n_bytes,
                                     .implied_loops = in->dataset->facts.loops == GRAPH_LOOPS_IMPLICIT,
                                     .weighted = in->dataset->facts.weighted || in->dataset->facts.n_edge_feature > 0,
                                     .halo = &sizes->halo};
}

/* A worker's bytes by layer and sender, and their sums. */
static void traffic_take(const struct plan_input *in, struct memory_plan *plan, struct plan_worker *out)
{
    int n_layer = program_n_layer(in->program);
    int64_t n_worker = in->job->workers.count;
    out->traffic = plan->wire.traffic;
    plan->wire.traffic = NULL;
    for (int64_t i = 0; i < traffic_n_row(n_layer) * n_worker; i++) {
        *(traffic_row_evaluates(n_layer, (int)(i / n_worker)) ? &out->n_wire_evaluate
                                                              : &out->n_wire) += out->traffic[i];
    }
}

/* A worker's bytes by the stages of the codecs. */
static void stages_add(const struct memory_plan *plan, struct plan *out)
{
    out->n_stage = plan->wire.n_stage;
    for (int s = 0; s < plan->wire.n_stage; s++) {
        out->stage[s].of = plan->wire.stage[s].of;
        out->stage[s].n_wire += plan->wire.stage[s].n_wire_bytes;
    }
}

/* The figures of a memory plan that --plan prints. */
static void figures_fill(const struct plan_input *in, const struct memory_plan_input *input,
                         const struct memory_plan *plan, struct plan_worker *out)
{
    struct memory_table all;
    memory_plan_table(plan, &all);
    out->n_part = input->n_own_part;
    out->total = memory_plan_total(plan);
    out->n_spill = plan->spill.n_bytes;
    out->n_spill_least = plan->spill.n_least;
    out->n_wire_guard = plan->wire.n_guard;
    out->n_home = plan->homes.n;
    out->n_home_bytes = plan->homes.n_bytes;
    for (int i = 0; i < MEMORY_N; i++) {
        out->bytes[i] = all.bytes[plan->apart ? MEMORY_PLACE_DEVICE : MEMORY_PLACE_HOST][i];
        out->host[i] = plan->apart ? all.bytes[MEMORY_PLACE_HOST][i] : 0;
        out->pinned[i] = all.bytes[MEMORY_PLACE_PINNED][i];
    }
    out->again = memory_alloc((size_t)in->program->n_op, sizeof *out->again);
    for (int i = 0; i < in->program->n_op; i++) {
        out->again[i] = memory_plan_recomputes(plan, i);
    }
    plan_steps_build(input, plan, out);
}

/* What a program that trains on links draws. */
static void links_open(const struct plan_input *in, struct pairs_draw *out)
{
    uint32_t *rows = memory_alloc((size_t)in->n_part, sizeof *rows);
    int64_t *ends = memory_alloc((size_t)in->n_part, sizeof *ends), n_end = 0;
    for (int32_t part = 0; part < in->n_part; part++) {
        rows[part] = (uint32_t)in->sizes[part].n_own;
        ends[part] = in->sizes[part].n_link_here;
        n_end += ends[part];
    }
    pairs_draw_open(&(struct pairs_draw_input){.n_part = in->n_part,
                                               .rows = rows,
                                               .ends = ends,
                                               .n_link = n_end / 2,
                                               .n_joined = -1,
                                               .negatives = in->job->task.negatives,
                                               .of_ends = job_samples_ends(in->job)},
                    out);
    free(rows);
    free(ends);
}

/* One worker's plan, from the sizes of its parts: what the worker will compute for itself from the parts. */
static void worker_plan(const struct plan_input *in, const struct device_ops *ops, const uint32_t *rank_of_part,
                        uint32_t rank, const struct pairs_draw *links, struct plan *all)
{
    struct plan_worker *out = &all->worker[rank];
    struct memory_plan_part *own = memory_alloc((size_t)in->n_part, sizeof *own);
    int32_t n_own = 0;
    for (int32_t part = 0; part < in->n_part; part++) {
        if (rank_of_part[part] == rank) {
            own[n_own++] = part_plan(in, part);
            out->n_node += in->sizes[part].n_own;
            out->n_edge += in->sizes[part].n_edge;
        }
    }
    const struct memory_plan_input input = {.job = in->job,
                                            .program = in->program,
                                            .ops = ops,
                                            .n_node = in->dataset->n_node,
                                            .n_part = in->n_part,
                                            .rank_of_part = rank_of_part,
                                            .rank = rank,
                                            .n_rank = (uint32_t)in->job->workers.count,
                                            .seals = job_seals(in->job),
                                            .sparse_features = in->sparse_features,
                                            .n_own_part = n_own,
                                            .own = own,
                                            .dedup = in->dedup,
                                            .links = links};
    struct memory_plan plan;
    memory_plan_build(&input, &plan);
    figures_fill(in, &input, &plan, out);
    stages_add(&plan, all);
    for (int s = 0; s < out->n_step; s++) {
        all->n_flop += out->step[s].is_static ? 0.0 : out->step[s].work.n_flop;
    }
    traffic_take(in, &plan, out);
    memory_plan_release(&plan);
    free(own);
}

enum status plan_build(const struct plan_input *in, struct plan *out)
{
    const struct device_ops *ops;
    enum status status = device_find(job_choice_text("workers", "device", in->job->workers.device), &ops);
    if (status != STATUS_OK || (status = level_check(in->job, ops)) != STATUS_OK) {
        return status;
    }
    *out = (struct plan){.n_worker = (int32_t)in->job->workers.count,
                         .apart = !ops->unified,
                         .n_layer = program_n_layer(in->program),
                         .left_out = in->prune->left_out};
    out->coordinator = memory_resident_own();
    out->n_machine = in->job->workers.launcher == JOB_LAUNCHER_LOCAL ? 1 : out->n_worker;
    out->worker = memory_alloc((size_t)out->n_worker, sizeof *out->worker);
    uint32_t *rank_of_part = memory_alloc((size_t)in->n_part, sizeof *rank_of_part);
    bool trains_links = job_predicts_links(in->job) && !in->program->forward_only;
    struct pairs_draw links = {0};
    if (trains_links) {
        links_open(in, &links);
    }
    for (int32_t part = 0; part < in->n_part; part++) {
        rank_of_part[part] = (uint32_t)in->rank_of_part[part];
    }
    for (int32_t rank = 0; rank < out->n_worker; rank++) {
        worker_plan(in, ops, rank_of_part, (uint32_t)rank, trains_links ? &links : NULL, out);
        out->n_wire += out->worker[rank].n_wire;
        out->n_wire_guard += out->worker[rank].n_wire_guard;
        out->n_wire_evaluate += out->worker[rank].n_wire_evaluate;
    }
    free(rank_of_part);
    pairs_draw_close(&links);
    return STATUS_OK;
}

void plan_release(struct plan *plan)
{
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        free(plan->worker[rank].again);
        free(plan->worker[rank].step);
        free(plan->worker[rank].traffic);
    }
    free(plan->worker);
    *plan = (struct plan){0};
}

#define TENSORBOARD_BYTES (INT64_C(64) << 20) /* of Python, which takes 37 to 43 MiB */

/* What the machine's processes take besides the plans of workers. */
static int64_t besides(const struct plan *plan, const struct job *job, bool is_local)
{
    return plan->coordinator + (job->output.tensorboard ? TENSORBOARD_BYTES : 0) +
           (1 + (is_local ? plan->n_worker : 0)) * MEMORY_PROCESS_FLOOR;
}

int64_t plan_machine_bytes(const struct plan *plan, const struct job *job)
{
    bool is_local = job->workers.launcher == JOB_LAUNCHER_LOCAL;
    int64_t total = besides(plan, job, is_local);
    for (int32_t rank = 0; rank < plan->n_worker && is_local; rank++) {
        const struct plan_worker *worker = &plan->worker[rank];
        total += plan->apart ? memory_sum(worker->host) + memory_sum(worker->pinned) : worker->total;
    }
    return total;
}

/* The workers of the local launcher share this machine. */
static enum status machine_check(const struct plan *plan, const struct job *job, const char *hint)
{
    int64_t total = plan_machine_bytes(plan, job), machine = memory_machine();
    if (total <= machine) {
        return STATUS_OK;
    }
    return status_fail(
        STATUS_NOMEM,
        "the job needs %lld bytes%s by plan, with workers.count = %d on one machine, more than %s of %lld (%lld "
        "bytes are for the processes themselves): more machines, %sa smaller exchange.prefetch or a smaller model",
        (long long)total, plan->apart ? " of host memory" : "", (int)plan->n_worker, memory_machine_name(),
        (long long)machine, (long long)besides(plan, job, true), hint);
}

/* What memory.limit limits. */
static int64_t limited(const struct plan_worker *worker)
{
    return worker->total - worker->bytes[MEMORY_CONTEXT];
}

static int32_t rank_with_most(const struct plan *plan)
{
    int32_t most = 0;
    for (int32_t rank = 1; rank < plan->n_worker; rank++) {
        most = limited(&plan->worker[rank]) > limited(&plan->worker[most]) ? rank : most;
    }
    return most;
}

int64_t plan_limited_most(const struct plan *plan)
{
    return limited(&plan->worker[rank_with_most(plan)]);
}

enum status plan_check_limit(const struct plan *plan, const struct job *job)
{
    const char *hint = job->memory.recompute == JOB_RECOMPUTE_NEVER ? "memory.recompute = \"auto\", " : "";
    int32_t most = rank_with_most(plan);
    enum status status = job->workers.launcher == JOB_LAUNCHER_LOCAL ? machine_check(plan, job, hint) : STATUS_OK;
    if (status != STATUS_OK || job->memory.limit == 0) {
        return status;
    }
    if (limited(&plan->worker[most]) <= job->memory.limit) {
        return STATUS_OK;
    }
    return status_fail(STATUS_NOMEM,
                       "worker %d needs %lld bytes%s%s, memory.limit is %lld: more workers or parts, %sor a higher "
                       "limit",
                       (int)most, (long long)limited(&plan->worker[most]), plan->apart ? " of GPU memory" : "",
                       plan->worker[most].n_spill > 0 ? " in memory with all else in memory.spill" : "",
                       (long long)job->memory.limit, hint);
}
