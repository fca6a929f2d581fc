#include "tests/support/model/memory_need.h"

#include "protocol/base/log.h"
#include "worker/plan/memory_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 64

/* Arrays of edges × heads that the vanilla scheme saves. source  SAR's edge_softmax: score, exponential, coefficient */
#define VANILLA_EDGE_ARRAYS 3

struct rank {
    const struct memory_parts *parts;
    const struct job *job;
    const struct program *program;
    uint32_t n_rank;
    uint32_t rank_of_part[MOST_PARTS];
    struct memory_plan_part own[MOST_PARTS];
    int32_t n_own;
};

static void plan_of(const struct rank *r, uint32_t rank, struct memory_plan *out)
{
    struct memory_plan_input input = {.job = r->job,
                                      .program = r->program,
                                      .ops = &device_cpu,
                                      .n_part = r->parts->n_part,
                                      .rank_of_part = r->rank_of_part,
                                      .rank = rank,
                                      .n_rank = r->n_rank,
                                      .sparse_features = r->parts->n_feature == 0,
                                      .n_own_part = r->n_own,
                                      .own = r->own};
    memory_plan_build(&input, out);
}

static void own_fill(struct rank *r, uint32_t rank)
{
    int32_t each = r->parts->n_part / (int32_t)r->n_rank;
    r->n_own = 0;
    for (int32_t p = 0; p < r->parts->n_part; p++) {
        const struct part_sizes *sizes = &r->parts->sizes[p];
        r->rank_of_part[p] = (uint32_t)(p / each);
        if (r->rank_of_part[p] == rank) {
            struct memory_plan_part *one = &r->own[r->n_own++];
            *one = (struct memory_plan_part){.n_own = sizes->n_own,
                                             .n_edge = sizes->n_edge,
                                             .n_bytes = sizes->n_bytes,
                                             .n_embedded = r->parts->n_feature == 0 ? sizes->n_own : 0,
                                             .halo = &sizes->halo};
        }
    }
}

/* Halo rows of the own parts, in one layer: those owned by other ranks. */
static int64_t halo_rows(const struct rank *r, uint32_t rank)
{
    int64_t n = 0;
    for (int32_t i = 0; i < r->n_own; i++) {
        const struct part_rows received = part_halo_received(r->own[i].halo, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
        for (int32_t q = 0; q < r->parts->n_part; q++) {
            n += r->rank_of_part[q] != rank ? part_rows_with(&received, q) : 0;
        }
    }
    return n;
}

/* What the vanilla scheme saves besides own rows: every aggregate's halo rows, and attention's edges. */
static int64_t vanilla_extra(const struct rank *r, uint32_t rank)
{
    int64_t n_edge = 0, n = 0;
    for (int32_t i = 0; i < r->n_own; i++) {
        n_edge += r->own[i].n_edge;
    }
    for (int i = 0; i < r->program->n_op; i++) {
        const struct op *op = &r->program->op[i];
        if (op->kind == OP_KIND_AGGREGATE) {
            n += halo_rows(r, rank) * halo_payload_width(r->program, op, &aggregate_defs[op->aggregate]->forward);
            n += VANILLA_EDGE_ARRAYS * n_edge * op->n_head;
        }
    }
    return n * (int64_t)sizeof(float);
}

/* Own rows alone, everything saved: planned as if this rank owned all parts, so that there are no payloads. */
static int64_t vanilla_own(struct rank *r, uint32_t rank)
{
    struct job job = *r->job, *was = (struct job *)(uintptr_t)r->job;
    uint32_t ranks[MOST_PARTS];
    memcpy(ranks, r->rank_of_part, sizeof ranks);
    job.memory.recompute = JOB_RECOMPUTE_NEVER;
    for (int32_t p = 0; p < r->parts->n_part; p++) {
        r->rank_of_part[p] = rank;
    }
    struct memory_plan plan;
    r->job = &job;
    plan_of(r, rank, &plan);
    int64_t n = plan.arena.n_bytes;
    memory_plan_release(&plan);
    r->job = was;
    memcpy(r->rank_of_part, ranks, sizeof ranks);
    return n;
}

/* Columns that aggregates send forward in an epoch. */
static int64_t columns_forward(const struct program *program)
{
    int64_t n = 0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        if (op->kind == OP_KIND_AGGREGATE && !op->is_static) {
            n += halo_payload_width(program, op, &aggregate_defs[op->aggregate]->forward);
        }
    }
    return n;
}

static void rank_need(struct rank *r, uint32_t rank, struct memory_need *need)
{
    own_fill(r, rank);
    struct memory_plan plan;
    plan_of(r, rank, &plan);
    int64_t own = plan.bytes[MEMORY_ACTIVATIONS] + plan.bytes[MEMORY_PAYLOADS];
    int64_t vanilla = vanilla_own(r, rank) + vanilla_extra(r, rank);
    int64_t parameters = plan.bytes[MEMORY_PARAMETERS];
    need->own = own > need->own ? own : need->own;
    need->parameters = parameters > need->parameters ? parameters : need->parameters;
    need->vanilla = vanilla > need->vanilla ? vanilla : need->vanilla;
    need->n_wire += plan.wire.n_train;
    need->n_wire_least += 2 * halo_rows(r, rank) * columns_forward(r->program) * (int64_t)sizeof(float);
    memory_plan_release(&plan);
}

struct memory_need memory_need(const struct memory_parts *parts, const char *model, int n_rank, int prefetch,
                               const char *recompute)
{
    char text[1024];
    static struct job job;
    struct program program;
    struct memory_need need = {0};
    ASSERT(parts->n_part <= MOST_PARTS && parts->n_part % n_rank == 0);
    snprintf(text, sizeof text,
             "[dataset]\npath = \"x\"\n[partition]\nparts = %d\n[model]\n%s\n[exchange]\nprefetch = "
             "%d\n[memory]\nrecompute = \"%s\"\n"
             "limit = \"1000TiB\"\n[workers]\ncount = %d\n",
             (int)parts->n_part, model, prefetch, recompute, n_rank);
    struct embedded_run all = {.begin = 0};
    for (int32_t p = 0; p < parts->n_part; p++) {
        all.end += parts->sizes[p].n_own;
    }
    struct program_input input = {.facts = {.n_feature = parts->n_feature,
                                            .n_class = parts->n_class,
                                            .n_edge_feature = parts->n_edge_feature,
                                            .n_relation = parts->n_relation}};
    if (parts->n_feature == 0) {
        input.facts.n_feature = all.end;
        input.is_sparse = input.facts.features_typed = true;
        input.embedded = (struct embedded){1, &all};
    }
    enum status status = job_load_own(text, strlen(text), "need", NULL, 0, &job);
    status = status == STATUS_OK ? program_build(&job, &input, &program) : status;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(status));
    }
    struct rank r = {.parts = parts, .job = &job, .program = &program, .n_rank = (uint32_t)n_rank};
    for (uint32_t rank = 0; rank < (uint32_t)n_rank; rank++) {
        rank_need(&r, rank, &need);
    }
    program_release(&program);
    return need;
}
