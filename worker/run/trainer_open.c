/* Opening and closing a trainer: the program, the plan, every array taken once. */
#include "protocol/base/log.h"
#include "worker/halo/feedback.h"
#include "worker/halo/halo.h"
#include "worker/halo/stale.h"
#include "worker/route/dedup.h"
#include "worker/route/merged.h"
#include "worker/route/sample.h"
#include "worker/route/stored.h"
#include "worker/run/links.h"
#include "worker/run/recording.h"
#include "worker/state/embeddings.h"
#include "worker/state/homes.h"
#include "worker/state/trainer_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status program_open(struct trainer *t)
{
    const struct part *part = own_part(&t->own, 0);
    struct program_input input = {.facts = part->facts,
                                  .is_sparse = part->features.indptr != NULL,
                                  .embedded = part->features.embedded,
                                  .stores = part->stores};
    const struct spill_range runs = {part->features.embedded.run,
                                     part->features.embedded.n_run * (int64_t)sizeof *part->features.embedded.run,
                                     SPILL_READ};
    enum status status = spill_pin(t->setup.spill, &runs, 1);
    if (status == STATUS_OK && t->setup.program == NULL) {
        status = program_build(t->setup.job, &input, &t->program);
    }
    if (status != STATUS_OK) {
        return status;
    }
    spill_unpin(t->setup.spill, &runs, 1);
    memcpy(t->loss.n_split, part->labels.n_split, sizeof t->loss.n_split);
    /* pairs have their shares of the mean */
    t->loss.weight = job_predicts_links(t->setup.job) ? 1.0 : part->labels.loss_weight;
    t->loss.n_class = part->facts.n_class;
    return STATUS_OK;
}

/* What makes sums over neighbours, where it is not the device itself. */
static enum status sums_open(struct trainer *t)
{
    struct device_sums sums;
    if (t->setup.job->model.kernel == JOB_KERNEL_OWN) {
        return STATUS_OK;
    }
    if (t->ops->sums_open == NULL) {
        return status_fail(STATUS_CONFIG,
                           "model.kernel = \"%s\" is for GPUs, and does not go with workers.device = \"%s\"",
                           job_choice_text("model", "kernel", t->setup.job->model.kernel), t->ops->name);
    }
    program_sums(&t->program, own_part(&t->own, 0)->n_node, &sums);
    return t->ops->sums_open(t->device, &sums);
}

static enum status part_setup_fill(struct trainer *t)
{
    t->own.setup = (struct part_device_setup){.device = t->device,
                                              .program = &t->program,
                                              .rank_of_part = t->setup.rank_of_part,
                                              .rank = t->setup.rank,
                                              .parts = t->setup.parts,
                                              .spill = t->setup.spill};
    bool covered = own_part(&t->own, 0)->covered;
    t->own.setup.dedups = memory_plan_dedups(t->setup.job, &t->program, t->setup.n_part, t->setup.n_rank, covered) &&
                          !memory_plan_scatters(&t->program);
    t->own.setup.covers = t->own.setup.dedups && covered;
    t->own.setup.maps_own = memory_plan_maps_own(t->setup.job, &t->program, t->setup.n_rank) &&
                            program_maps_sparse(&t->program, PROGRAM_HOP_HALO);
    for (int i = 0; i < t->program.n_op; i++) {
        const struct op *op = &t->program.op[i];
        if (op->kind != OP_KIND_AGGREGATE) {
            continue;
        }
        const struct aggregate_def *def = aggregate_defs[op->aggregate];
        const struct aggregate_def *scaled = t->own.setup.scaled;
        bool alike = def->scale == NULL || scaled == NULL || aggregate_scales_alike(scaled, def);
        ASSERT(alike);
        t->own.setup.scaled = def->scale != NULL ? def : scaled;
        bool returns = aggregate_returns(&t->program, op->aggregate);
        t->own.setup.in_place = t->own.setup.in_place || !returns;
    }
    return STATUS_OK;
}

/* --- how rows travel --- */

static enum status rows_begin(struct trainer *t)
{
    bool dedups = memory_plan_dedups(t->setup.job, &t->program, t->setup.n_part, t->setup.n_rank,
                                     own_part(&t->own, 0)->covered);
    enum status status = own_parts_remap(&t->own);
    return status == STATUS_OK && dedups ? dedup_open(&t->own, &t->routes.dedup) : status;
}

static enum status parts_open(struct trainer *t)
{
    t->own.setup.dedup = t->own.setup.dedups ? dedup_counts(t->routes.dedup) : NULL;
    t->own.setup.trimmed = dedup_trimmed(t->routes.dedup);
    t->own.setup.merged = t->plan.merged.alone;
    enum status status = own_parts_open(&t->own);
    dedup_trimmed_end(t->routes.dedup);
    return status;
}

static enum status routes_open(struct trainer *t)
{
    enum status status = program_stores(&t->program) ? stored_open(&t->own, &t->routes.stored) : STATUS_OK;
    status = status == STATUS_OK ? merged_open(&t->own, &t->plan, t->ops->merged_edges, &t->routes.merged) : status;
    return status == STATUS_OK && t->program.lossy.samples
               ? sample_open(&t->own, t->setup.job, t->routes.dedup, &t->routes.sample)
               : status;
}

static enum status plan_build(struct trainer *t)
{
    struct memory_plan_part *own = memory_alloc((size_t)t->own.n, sizeof *own);
    for (int32_t i = 0; i < t->own.n; i++) {
        const struct part *part = own_part(&t->own, i);
        own[i] = (struct memory_plan_part){.n_own = part->n_own,
                                           .n_edge = part_edges(part, PART_DIRECTION_IN, PROGRAM_HOP_ALL),
                                           .n_feature_value = part->features.n_value,
                                           .n_embedded = part->features.n_embedded,
                                           .n_halo = part->n_halo,
                                           .n_halo_value = part->features.n_halo_value,
                                           .n_bytes = part->n_bytes,
                                           .implied_loops = part->facts.loops == GRAPH_LOOPS_IMPLICIT,
                                           .weighted = part->facts.weighted || part->facts.n_edge_feature > 0,
                                           .halo = &part->halo};
    }
    struct memory_plan_input input = {.job = t->setup.job,
                                      .program = &t->program,
                                      .ops = t->ops,
                                      .capacity = &t->device->capacity,
                                      .device = t->device,
                                      .n_node = own_part(&t->own, 0)->n_node,
                                      .n_part = t->setup.n_part,
                                      .rank_of_part = t->setup.rank_of_part,
                                      .rank = t->setup.rank,
                                      .n_rank = t->setup.n_rank,
                                      .direct = exchange_reaches_gpus(t->setup.exchange),
                                      .seals = exchange_seals(t->setup.exchange),
                                      .sparse_features = own_part(&t->own, 0)->features.indptr != NULL,
                                      .n_own_part = t->own.n,
                                      .own = own,
                                      .dedup = dedup_counts(t->routes.dedup)};
    input.links = links_open(&t->own, t->setup.job, &t->links);
    memory_plan_build(&input, &t->plan);
    enum status status = links_count(&t->own, &input, &t->plan.links, &t->links);
    free(own);
    return status;
}

static enum status limit_check(const struct trainer *t)
{
    int64_t limit = t->setup.job->memory.limit, need = memory_plan_total(&t->plan);
    const char *whose = "memory.limit";
    if (!t->ops->unified) {
        return memory_plan_check(&t->plan, t->setup.job, t->setup.rank, &t->device->capacity);
    }
    if (limit == 0) {
        limit = memory_machine();
        whose = memory_machine_name();
    }
    if (need > limit) {
        return status_fail(STATUS_NOMEM,
                           "worker %u needs %lld bytes by plan, more than %s of %lld: use more workers, %sa smaller "
                           "exchange.prefetch or a smaller model",
                           t->setup.rank, (long long)need, whose, (long long)limit,
                           t->setup.job->memory.recompute == JOB_RECOMPUTE_NEVER ? "memory.recompute = \"auto\", "
                                                                                 : "");
    }
    return STATUS_OK;
}

struct taking {
    enum device_place place;
    enum memory_category category;
    int64_t n_bytes;
    void *out;
};

/* Every array of the plan, in one list: taken on opening, given back on closing. */
static int takings(struct trainer *t, struct taking *list)
{
    const struct memory_plan *plan = &t->plan;
    int64_t one = t->program.n_weight * (int64_t)sizeof(float),
            classes = memory_plan_class_weights(t->setup.job, &t->program);
    int64_t embeddings = plan->rows.n_embedding * (int64_t)sizeof(float);
    const struct job *job = t->setup.job;
    bool trains = !t->program.forward_only, adam = trains && job->train.optimizer != JOB_OPTIMIZER_SGD;
    bool momentum = adam || (trains && job->train.momentum > 0), guards = trains && job->exchange.guard_every > 0;
    struct taking all[] = {
        {DEVICE_PLACE_SHARED, MEMORY_OTHER, sizeof *t->memory.shared, &t->memory.shared},
        {DEVICE_PLACE_SHARED, MEMORY_OTHER, plan->n_staging_bytes, &t->memory.staging},
        {DEVICE_PLACE_DEVICE, MEMORY_OTHER, sizeof *t->memory.now, &t->memory.now},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, classes, &t->loss.class_weights},
        {DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, plan->links.n_block_bytes, &t->links.block},
        {DEVICE_PLACE_DEVICE, MEMORY_ACTIVATIONS, t->setup.spill == NULL ? plan->arena.n_bytes : 0, &t->memory.arena},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, one, &t->parameters.weights},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, t->own.n * plan->reduced.n_gradient_bytes, &t->parameters.gradients},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, trains && t->setup.rank == 0 ? one : 0, &t->parameters.best},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, momentum ? one : 0, &t->parameters.moment_1},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, adam ? one : 0, &t->parameters.moment_2},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, t->setup.n_rank > 1 ? plan->reduced.n_gradient_bytes : 0,
         &t->parameters.branch},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, (t->own.n + (t->setup.n_rank > 1)) * plan->reduced.n_global_bytes,
         &t->parameters.globals},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, embeddings, &t->parameters.embeddings.weights},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, trains ? embeddings : 0, &t->parameters.embeddings.gradients},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, trains ? embeddings : 0, &t->parameters.embeddings.best},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, momentum ? embeddings : 0, &t->parameters.embeddings.moment_1},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, adam ? embeddings : 0, &t->parameters.embeddings.moment_2},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, guards ? one : 0, &t->parameters.compared},
        {DEVICE_PLACE_DEVICE, MEMORY_PARAMETERS, guards ? embeddings : 0, &t->parameters.embeddings.compared},
    };
    memcpy(list, all, sizeof all);
    return sizeof all / sizeof *all;
}

#define TAKINGS_MOST 20

static enum status arrays_take(struct trainer *t)
{
    struct taking list[TAKINGS_MOST];
    int n = takings(t, list);
    for (int i = 0; i < n; i++) {
        if (list[i].n_bytes == 0) {
            continue;
        }
        enum status status = t->ops->acquire(t->device, list[i].place, list[i].category, (size_t)list[i].n_bytes,
                                             list[i].out);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* What is not taken for good, but as it is needed. */
static enum status spill_take_all(struct trainer *t)
{
    if (t->setup.spill == NULL) {
        return STATUS_OK;
    }
    enum status status = spill_take(t->setup.spill, t->plan.arena.n_bytes, &t->memory.arena);
    if (status == STATUS_OK) {
        status = payloads_open(t->setup.spill, t->plan.spill.n_payload, t->plan.spill.n_asked, t->own.halo, t->own.n,
                               &t->routes.payloads);
    }
    return status;
}

static void arrays_return(struct trainer *t)
{
    struct taking list[TAKINGS_MOST];
    int n = takings(t, list);
    for (int i = 0; i < n; i++) {
        if (list[i].n_bytes > 0) {
            t->ops->release(t->device, list[i].place, list[i].category, *(void **)list[i].out,
                            (size_t)list[i].n_bytes);
        }
    }
}

static void weights_draw(struct trainer *t)
{
    float *drawn = memory_alloc((size_t)t->program.n_weight, sizeof *drawn);
    program_init_weights(&t->program, (uint64_t)t->setup.job->train.seed, drawn);
    t->ops->copy(t->device, t->parameters.weights, drawn, (size_t)t->program.n_weight * sizeof *drawn);
    free(drawn);
}

/* Every part has them. */
static enum status class_weights_put(struct trainer *t)
{
    const struct part *part = t->own.part[0].part;
    size_t n_bytes = (size_t)memory_plan_class_weights(t->setup.job, &t->program);
    const struct spill_range all = {part->labels.class_weights, (int64_t)n_bytes, SPILL_READ};
    if (n_bytes == 0) {
        return STATUS_OK;
    }
    if (part->labels.class_weights == NULL) {
        return status_fail(STATUS_DATA,
                           "encoded part: expected weights of its classes, which train.class_weights asks for");
    }
    enum status status = spill_pin(t->setup.spill, &all, 1);
    if (status == STATUS_OK) {
        t->ops->copy(t->device, t->loss.class_weights, part->labels.class_weights, n_bytes);
        status = device_sync(t->device);
        spill_unpin(t->setup.spill, &all, 1);
    }
    return status;
}

/* The plan's arrays, when it fits. */
static enum status plan_open(struct trainer *t)
{
    enum status status = plan_build(t);
    if (status == STATUS_OK) {
        status = limit_check(t);
    }
    if (status == STATUS_OK && t->setup.spill != NULL) {
        spill_limit(t->setup.spill, t->plan.bytes[MEMORY_SPILL]);
    }
    return status;
}

static enum status sums_take(struct trainer *t)
{
    bool own = t->setup.job->model.kernel == JOB_KERNEL_OWN;
    return own ? STATUS_OK : t->ops->sums_take(t->device, &t->plan.sums);
}

/* What the arrays begin with. */
static enum status begin(struct trainer *t)
{
    weights_draw(t);
    trainer_keep_best(t);
    t->routes.halo = halo_open(t);
    for (int p = 0; p < STEP_PHASE_N; p++) {
        t->records.recording[p].made = memory_alloc((size_t)t->plan.steps.phase[p].n_step, sizeof(void *));
    }
    enum status status = traffic_open(&t->program, t->setup.n_rank, &t->records.traffic);
    exchange_count(t->setup.exchange, t->records.traffic);
    return status;
}

/* Every rank lends the same. */
static enum status peers_begin(struct trainer *t)
{
    const struct memory_plan *plan = &t->plan;
    const struct part_lent *lists = dedup_sent_lent(t->routes.dedup), *part = &t->own.part[0].bytes;
    const struct peers_setup setup = {
        .device = t->device,
        .exchange = t->setup.exchange,
        .rank = t->setup.rank,
        .n_rank = t->setup.n_rank,
        .machine_of_rank = t->setup.machine_of_rank,
        .beyond = &t->memory.shared->beyond,
        .block = {{t->memory.arena, plan->arena.n_bytes},
                  {t->parameters.gradients, t->own.n * plan->reduced.n_gradient_bytes},
                  {t->parameters.globals, (t->own.n + 1) * plan->reduced.n_global_bytes},
                  {lists != NULL ? lists->device : NULL, lists != NULL ? lists->n_bytes : 0},
                  {part->device, t->setup.n_part == (int32_t)t->setup.n_rank ? part->n_bytes : 0}}};
    enum status status = peers_open(&setup, &t->routes.peers);
    bool hosts = plan->n_staging_bytes > 0 && !exchange_seals(t->setup.exchange) && t->setup.rank == 0;
    if (hosts && !peers_near(t->routes.peers, PEERS_ALL)) {
        log_warn("UCX has no CUDA here: some payloads go through host memory (pip install 'trainerd[gpu]')");
    }
    return status;
}

static enum status static_run(struct trainer *t)
{
    return trainer_run(t, STEP_PHASE_STATIC);
}

static enum status trace_begin_first(struct trainer *t)
{
    if (!t->setup.job->output.trace) {
        return STATUS_OK;
    }
    enum status status = trace_open(&t->program, &t->plan.steps, &t->plan.trace, &t->records.trace);
    exchange_trace(t->setup.exchange, t->records.trace);
    spill_trace(t->setup.spill, t->records.trace);
    return status;
}

#define PRODUCTS(list, name, text) [JOB_PRODUCTS_##name] = DEVICE_PRODUCTS_##name,
static const enum device_products device_products[JOB_PRODUCTS_N] = {JOB_PRODUCTS_LIST(PRODUCTS, PRODUCTS)};
#undef PRODUCTS

/* In this order: the plan counts what is shared, and the parts are as the plan has them. */
static enum status (*const openings[])(struct trainer *) = {
    program_open,    sums_open,   part_setup_fill, rows_begin,  plan_open,        parts_open,     routes_open,
    sums_take,       stale_open,  feedback_open,   arrays_take, homes_open,       spill_take_all, class_weights_put,
    embeddings_draw, peers_begin, begin,           static_run,  trace_begin_first};

enum status trainer_open(const struct trainer_setup *setup, struct trainer **out)
{
    struct trainer *t = memory_alloc(1, sizeof *t);
    ASSERT((setup->spill != NULL) == memory_plan_spills(setup->job));
    ASSERT(setup->spill == NULL || setup->ops->unified);
    t->setup = *setup;
    if (setup->program != NULL) {
        t->program = *setup->program;
    }
    t->run.rate = 1.0;
    t->records.recording = memory_alloc(STEP_PHASE_N, sizeof *t->records.recording);
    t->ops = setup->ops;
    own_parts_list(setup->parts, setup->n_part, setup->n_rank, &t->own);
    t->parameters.complete = memory_alloc((size_t)setup->n_part, sizeof *t->parameters.complete);
    enum status status = t->ops->open(setup->n_thread, &t->device);
    if (status == STATUS_OK && t->ops->close == NULL) { /* sizes alone: device_cuda_module */
        t->ops = t->device->ops;
    }
    if (status == STATUS_OK) {
        t->device->products = device_products[setup->job->train.products];
        status = level_check(setup->job, setup->ops);
    }
    t->run.level = level_at(setup->job, 0, 0);
    for (size_t step = 0; step < sizeof openings / sizeof *openings && status == STATUS_OK; step++) {
        status = openings[step](t);
    }
    if (status != STATUS_OK) {
        trainer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

void trainer_close(struct trainer *t)
{
    if (t == NULL) {
        return;
    }
    if (t->records.traffic != NULL) {
        exchange_count(t->setup.exchange, NULL);
        traffic_close(t->records.traffic);
    }
    if (t->records.trace != NULL) {
        exchange_trace(t->setup.exchange, NULL);
        spill_trace(t->setup.spill, NULL);
        trace_close(t->records.trace);
    }
    halo_close(t->routes.halo);
    peers_close(t->routes.peers);
    payloads_close(t->routes.payloads);
    if (t->device != NULL) {
        recordings_close(t);
        homes_close(t);
        arrays_return(t);
        merged_close(t->routes.merged);
        sample_close(t->routes.sample);
        stale_close(t);
        feedback_close(t);
        dedup_close(t->routes.dedup);
        stored_close(t->routes.stored);
        own_parts_close(&t->own);
        t->ops->close(t->device);
    } else {
        own_parts_close(&t->own);
    }
    links_close(&t->links);
    memory_plan_release(&t->plan);
    if (t->setup.program == NULL) {
        program_release(&t->program);
    }
    free(t->parameters.complete);
    free(t->records.recording);
    free(t);
}
