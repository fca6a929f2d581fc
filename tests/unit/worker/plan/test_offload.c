#include "worker/plan/offload.h"

#include "tests/support/model/lowered.h"
#include "worker/plan/recompute.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct world {
    struct program program;
    struct memory_plan plan;
};

/* A program of one part of 16 rows, with what memory.recompute leaves. */
static void world_open(struct world *w, const char *model, enum job_recompute recompute, enum job_offload how,
                       int64_t n_arena_most)
{
    lowered_program(model, 64, &w->program);
    w->plan = (struct memory_plan){.rows = {.n_row = 16}};
    w->plan.workspace = calloc((size_t)w->program.n_op, sizeof *w->plan.workspace);
    recompute_plan(&w->program, recompute, n_arena_most, &w->plan);
    offload_plan(&w->program, how, n_arena_most, &w->plan);
}

static void world_close(struct world *w)
{
    memory_plan_release(&w->plan);
    program_release(&w->program);
}

static const char *const models[] = {
    "kind = \"gcn\"\nlayers = 6\nhidden = 64\nresidual = true\nnorm = \"layer\"\ndropout = 0.2",
    "kind = \"sage\"\nlayers = 5\nhidden = 64\njumping_knowledge = \"max\"",
    "kind = \"gat\"\nhidden = 16\nheads = 4\nlayers = 4\ndropout = 0.5",
    "kind = \"gatv2\"\nhidden = 16\nheads = 4\nlayers = 3",
    "kind = \"gin\"\nhidden = 64\nlayers = 4\nnorm = \"batch\""};
enum { N_MODEL = sizeof models / sizeof *models };

static const struct step_list *train(const struct world *w)
{
    return &w->plan.steps.phase[STEP_PHASE_TRAIN];
}

Test(offload, what_is_stored_takes_no_room_in_the_arena)
{
    for (int m = 0; m < N_MODEL; m++) {
        for (int recompute = 0; recompute < 2; recompute++) {
            struct world never, always;
            enum job_recompute how = recompute ? JOB_RECOMPUTE_ALWAYS : JOB_RECOMPUTE_NEVER;
            world_open(&never, models[m], how, JOB_OFFLOAD_NEVER, 0);
            world_open(&always, models[m], how, JOB_OFFLOAD_ALWAYS, 0);
            cr_expect_eq(never.plan.homes.n, 0);
            bool stores = always.plan.homes.n > 0, saves = always.plan.arena.n_bytes < never.plan.arena.n_bytes;
            cr_expect(stores == saves && (stores || recompute), "%s: %d arrays stored, %lld bytes of %lld", models[m],
                      always.plan.homes.n, (long long)always.plan.arena.n_bytes, (long long)never.plan.arena.n_bytes);
            world_close(&never);
            world_close(&always);
        }
    }
}

Test(offload, auto_stores_nothing_that_fits_and_no_more_than_it_needs)
{
    for (int m = 0; m < N_MODEL; m++) {
        struct world never, always, w;
        world_open(&never, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_NEVER, 0);
        world_open(&always, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_ALWAYS, 0);
        int64_t most = never.plan.arena.n_bytes, least = always.plan.arena.n_bytes;
        world_open(&w, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_AUTO, most);
        cr_expect_eq(w.plan.homes.n, 0, "%s", models[m]);
        world_close(&w);
        world_open(&w, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_AUTO, most - 1);
        cr_expect(w.plan.homes.n > 0 && w.plan.homes.n < always.plan.homes.n && w.plan.arena.n_bytes < most,
                  "%s: %d of %d", models[m], w.plan.homes.n, always.plan.homes.n);
        world_close(&w);
        world_open(&w, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_AUTO, least);
        cr_expect_leq(w.plan.arena.n_bytes, least, "%s", models[m]);
        world_close(&w);
        world_open(&w, models[m], JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_AUTO,
                   0); /* at once, where nothing else would do */
        cr_expect_leq(w.plan.arena.n_bytes, least, "%s", models[m]);
        world_close(&w);
        world_close(&always);
        world_close(&never);
    }
}

/* What is alive on the device follows the layers no more: each waits in host memory. */
Test(offload, the_arena_of_a_deep_model_is_that_of_a_few_layers)
{
    struct world few, deep;
    world_open(&few, "kind = \"gcn\"\nlayers = 6\nhidden = 64", JOB_RECOMPUTE_ALWAYS, JOB_OFFLOAD_ALWAYS, 0);
    world_open(&deep, "kind = \"gcn\"\nlayers = 24\nhidden = 64", JOB_RECOMPUTE_ALWAYS, JOB_OFFLOAD_ALWAYS, 0);
    cr_expect_leq(deep.plan.arena.n_bytes, few.plan.arena.n_bytes, "%lld, %lld bytes",
                  (long long)few.plan.arena.n_bytes, (long long)deep.plan.arena.n_bytes);
    world_close(&few);
    world_close(&deep);
}

/* Copies go beside halo passes, where time and memory allow. */
Test(offload, a_halo_pass_runs_between_the_begin_of_a_copy_and_its_end)
{
    struct world w;
    world_open(&w, "kind = \"gcn\"\nlayers = 6\nhidden = 64", JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_ALWAYS, 0);
    for (int s = 0; s < train(&w)->n_step; s++) {
        const struct step *step = &train(&w)->step[s];
        if (step->kind != STEP_KIND_STORE && step->kind != STEP_KIND_FETCH) {
            continue;
        }
        bool passed = false;
        const struct step *next = step + 1;
        for (; next->kind != step->kind + 1 || !step_operand_is_same(&next->operand[0], &step->operand[0]); next++) {
            passed = passed || next->kind == STEP_KIND_HALO || next->kind == STEP_KIND_LOSS;
        }
        cr_expect(passed, "step %d", s);
    }
    world_close(&w);
}
