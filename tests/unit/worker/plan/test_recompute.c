#include "worker/plan/recompute.h"

#include "protocol/base/memory.h"
#include "tests/support/model/lowered.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct world {
    struct program program;
    struct memory_plan plan;
};

static void world_open(struct world *w, const char *model, enum job_recompute how, int64_t n_arena_most)
{
    lowered_program(model, 64, &w->program);
    w->plan = (struct memory_plan){.rows = {.n_row = 16}};
    w->plan.workspace = calloc((size_t)w->program.n_op, sizeof *w->plan.workspace);
    recompute_plan(&w->program, how, n_arena_most, &w->plan);
}

static void world_close(struct world *w)
{
    memory_plan_release(&w->plan);
    program_release(&w->program);
}

/* How often ops of a kind run again. */
static int n_again(const struct world *w, enum op_kind kind)
{
    int n = 0;
    const struct step_list *train = &w->plan.steps.phase[STEP_PHASE_TRAIN];
    for (int s = 0; s < train->n_step; s++) {
        n += train->step[s].recomputed && w->program.op[train->step[s].op].kind == kind;
    }
    return n;
}

static int n_steps(const struct world *w)
{
    return w->plan.steps.phase[STEP_PHASE_TRAIN].n_step;
}

static int n_of(const struct world *w, enum op_kind kind)
{
    int n = 0;
    for (int i = 0; i < w->program.n_op; i++) {
        n += w->program.op[i].kind == kind;
    }
    return n;
}

static const char gat[] = "kind = \"gat\"\nhidden = 16\nheads = 4\nlayers = 3\ndropout = 0.5";

Test(recompute, aggregates_never_run_again_and_linear_maps_at_most_once)
{
    static const char *const models[] = {
        gat, "kind = \"gcn\"\nlayers = 6\nhidden = 64\nresidual = true\nnorm = \"layer\"\ndropout = 0.2",
        "kind = \"sage\"\nlayers = 5\nhidden = 64\nresidual = true",
        "kind = \"gatv2\"\nhidden = 16\nheads = 4\nlayers = 3"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct world w;
        world_open(&w, models[m], JOB_RECOMPUTE_ALWAYS, 0);
        cr_expect_eq(n_again(&w, OP_KIND_AGGREGATE), 0, "%s", models[m]);
        cr_expect_leq(n_again(&w, OP_KIND_LINEAR), n_of(&w, OP_KIND_LINEAR), "%s", models[m]);
        world_close(&w);
    }
}

Test(recompute, a_gat_layer_keeps_its_output_and_its_positive_sums_alone)
{
    struct world w;
    world_open(&w, gat, JOB_RECOMPUTE_ALWAYS, 0);
    int64_t array = w.plan.rows.n_row * 64 * (int64_t)sizeof(float);
    /* Two of each hidden layer; at the peak the second one's activation and its gradient; what is a few columns wide. */
    cr_expect_lt(w.plan.arena.n_bytes, 2 * 2 * array + 2 * array + array, "%.2f arrays",
                 (double)w.plan.arena.n_bytes / (double)array);
    world_close(&w);
}

Test(recompute, auto_drops_what_pointwise_ops_make_and_more_where_that_does_not_fit)
{
    struct world never, all, light, w;
    world_open(&never, gat, JOB_RECOMPUTE_NEVER, 0);
    world_open(&all, gat, JOB_RECOMPUTE_ALWAYS, 0);
    world_open(&light, gat, JOB_RECOMPUTE_AUTO, never.plan.arena.n_bytes);
    cr_expect_lt(light.plan.arena.n_bytes, never.plan.arena.n_bytes);
    cr_expect_gt(n_steps(&light), n_steps(&never));
    cr_expect_eq(n_again(&light, OP_KIND_LINEAR), 0, "a linear map runs again where pointwise ops would do");
    world_open(&w, gat, JOB_RECOMPUTE_AUTO, never.plan.arena.n_bytes - 1);
    cr_expect_leq(w.plan.arena.n_bytes, never.plan.arena.n_bytes - 1);
    cr_expect_eq(n_again(&w, OP_KIND_LINEAR), 0, "a linear map runs again where pointwise ops would do");
    world_close(&w);
    world_open(&w, gat, JOB_RECOMPUTE_AUTO, light.plan.arena.n_bytes - 1);
    cr_expect_lt(w.plan.arena.n_bytes, light.plan.arena.n_bytes);
    cr_expect_gt(n_again(&w, OP_KIND_LINEAR), 0);
    world_close(&w);
    world_close(&light);
    world_open(&w, gat, JOB_RECOMPUTE_AUTO, all.plan.arena.n_bytes);
    cr_expect_leq(w.plan.arena.n_bytes, all.plan.arena.n_bytes);
    world_close(&w);
    world_open(&w, gat, JOB_RECOMPUTE_AUTO, 0);
    cr_expect_eq(w.plan.arena.n_bytes, all.plan.arena.n_bytes, "what cannot fit is not the smallest plan");
    world_close(&w);
    world_close(&all);
    world_close(&never);
}

/* Residuals lead from every layer back to the first: values are kept on the way, so that the work grows with the layers alone. */
Test(recompute, a_deep_residual_model_makes_each_value_again_a_few_times_at_most)
{
    struct world w;
    world_open(&w, "kind = \"gcn\"\nlayers = 64\nhidden = 64\nresidual = true\ndropout = 0.2", JOB_RECOMPUTE_ALWAYS,
               0);
    int n = 0;
    for (int k = 0; k < OP_KIND_N; k++) {
        n += n_again(&w, (enum op_kind)k);
    }
    cr_expect_gt(n, 0);
    cr_expect_leq(n, 4 * w.program.n_op, "%d ops run again in a program of %d", n, w.program.n_op);
    world_close(&w);
}

/* Looking at a plan takes some thirty allocations: as many plans are looked at as a clock would not say on a busy machine. */
Test(recompute, of_256_layers_few_plans_are_looked_at_and_most_values_are_dropped)
{
    static const char deep[] = "kind = \"gat\"\nlayers = 256\nhidden = 16\nheads = 4\ndropout = 0.5";
    struct world never, w;
    int64_t before = memory_n_call();
    world_open(&never, deep, JOB_RECOMPUTE_NEVER, 0);
    int64_t between = memory_n_call();
    world_open(&w, deep, JOB_RECOMPUTE_ALWAYS, 0);
    int64_t n_call = memory_n_call() - between - (between - before); /* but for the program's */
    cr_expect_lt(n_call, 2500, "%lld allocations", (long long)n_call);
    cr_expect_lt((double)w.plan.arena.n_bytes, 0.75 * (double)never.plan.arena.n_bytes, "%lld of %lld bytes",
                 (long long)w.plan.arena.n_bytes, (long long)never.plan.arena.n_bytes);
    world_close(&w);
    world_close(&never);
}
