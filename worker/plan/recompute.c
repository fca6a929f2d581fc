#include "worker/plan/recompute.h"

#include "protocol/base/memory.h"
#include "worker/plan/liveness.h"
#include "worker/plan/peak.h"

#include <stdlib.h>
#include <string.h>

/* Ops between a value made again and what it is made from. It bounds the work: residuals would lead back to the first
 * layer. */
#define DEPTH_MOST 12

#define GROUPS_MOST 64
#define GROUPS_THEN 8

/* --- the rewritten list --- */

struct rewrite {
    const struct program *program;
    int *maker;  /* n_value: the op that makes it; -1: the features */
    bool *saved; /* n_value: lies there from forward until its last reader */
    bool *heavy; /* n_value: a linear map has to run again for it */
    int *depth;  /* n_value: ops to run for it, one after another; 0 where it is saved */
    bool *there; /* n_value: at this point of the list */
    struct step_list out;
};

/* Which values does the backward of some op read? */
static void needed_find(const struct program *program, bool *needed)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        op_roles reads = op_backward_reads(program, op);
        for (int k = 0; k < OP_N_IN; k++) {
            if (reads & (OP_ROLES(IN_0) << k)) {
                needed[op->in[k]] = true;
            }
        }
        needed[op->out] = needed[op->out] || (reads & OP_ROLES(OUT)) != 0;
    }
}

static bool can_run_again(const struct op *op)
{
    return op->kind != OP_KIND_AGGREGATE && !op->is_static;
}

static void rewrite_open(const struct program *program, const bool *dropped, struct rewrite *w)
{
    size_t n = (size_t)program->n_value;
    *w = (struct rewrite){.program = program,
                          .maker = memory_alloc(n, sizeof *w->maker),
                          .saved = memory_alloc(n, sizeof *w->saved),
                          .heavy = memory_alloc(n, sizeof *w->heavy),
                          .depth = memory_alloc(n, sizeof *w->depth),
                          .there = memory_alloc(n, sizeof *w->there)};
    needed_find(program, w->saved);
    w->maker[0] = -1;
    w->saved[0] = true;
    for (int i = 0; i < program->n_op; i++) { /* inputs come before outputs */
        const struct op *op = &program->op[i];
        int out = op->out;
        w->maker[out] = i;
        w->saved[out] = (w->saved[out] && (dropped == NULL || !dropped[out])) || !can_run_again(op);
        w->heavy[out] = op->kind == OP_KIND_LINEAR;
        for (int k = 0; k < OP_N_IN; k++) {
            int in = op->in[k];
            if (in >= 0 && !w->saved[in]) {
                w->heavy[out] = w->heavy[out] || w->heavy[in];
                w->depth[out] = w->depth[in] > w->depth[out] ? w->depth[in] : w->depth[out];
            }
        }
        w->depth[out] = w->saved[out] ? 0 : w->depth[out] + 1;
    }
    memcpy(w->there, w->saved, n * sizeof *w->there);
}

/* The list that was written stays the caller's. */
static void rewrite_close(struct rewrite *w)
{
    free(w->maker);
    free(w->saved);
    free(w->heavy);
    free(w->depth);
    free(w->there);
}

/* Make a value again unless it is there, and before it what it is made from. */
static void make(struct rewrite *w, int value)
{
    if (w->there[value]) {
        return;
    }
    const struct op *op = &w->program->op[w->maker[value]];
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] >= 0) {
            make(w, op->in[k]);
        }
    }
    struct step again;
    step_forward(w->program, w->maker[value], &again);
    step_append(&w->out, &again);
    w->there[value] = true;
}

/* Is this the last of an aggregate's backward passes? */
static bool ends_passes(const struct step_list *list, int s)
{
    const struct step *step = &list->step[s];
    bool goes_on = s + 1 < list->n_step && list->step[s + 1].op == step->op &&
                   list->step[s + 1].kind == STEP_KIND_HALO;
    return step->kind == STEP_KIND_HALO && !goes_on;
}

/* What a step of backward reads. */
static void values_make(struct rewrite *w, const struct step *step)
{
    for (int k = 0; k < step->n_operand; k++) {
        if (step->operand[k].array == STEP_ARRAY_VALUE) {
            make(w, step->operand[k].index);
        }
    }
}

/* After an aggregate's passes, values that pointwise ops make again are dropped again. */
static void light_drop(struct rewrite *w)
{
    for (int v = 0; v < w->program->n_value; v++) {
        w->there[v] = w->there[v] && (w->saved[v] || w->heavy[v]);
    }
}

static void backward_rewrite(struct rewrite *w, const struct step_list *lowered)
{
    for (int s = 0; s < lowered->n_step; s++) {
        const struct step *step = &lowered->step[s];
        if (step->backward) {
            values_make(w, step);
        }
        step_append(&w->out, step);
        if (step->backward && ends_passes(lowered, s)) {
            light_drop(w);
        }
    }
}

/* Is everything dropped near enough to what is saved? */
static bool is_near(const struct rewrite *w, const bool *dropped)
{
    for (int v = 0; v < w->program->n_value; v++) {
        if (dropped != NULL && dropped[v] && w->depth[v] > DEPTH_MOST) {
            return false;
        }
    }
    return true;
}

/* The training list when these values are not saved, and are made again before they are read. A value that costs a
 * linear map is made once and then stays as long as it is needed; others are made anew after every aggregate's
 * passes, where memory is needed most.
 *
 *   lowered  step_lists_lower's training list
 *   dropped  n_value, each made by a dense op that is not static; NULL: everything is saved
 *   owns     fills plan->steps' training list (memory_plan_release), replacing what was there
 *   returns  false where a value would be too many ops away from what is saved; the list is then the one that was
 *            there
 */
static bool recompute_steps(const struct program *program, const struct step_list *lowered, const bool *dropped,
                            struct memory_plan *plan)
{
    struct rewrite w;
    rewrite_open(program, dropped, &w);
    bool near = is_near(&w, dropped);
    if (near) {
        backward_rewrite(&w, lowered);
        free(plan->steps.phase[STEP_PHASE_TRAIN].step);
        plan->steps.phase[STEP_PHASE_TRAIN] = w.out;
        step_lists_finish(program, &plan->steps);
    }
    rewrite_close(&w);
    return near;
}

/* --- choice --- */

struct choice {
    const struct program *program;
    const struct step_list *lowered;
    struct memory_plan *plan;
    bool *needed, *dropped; /* n_value */
    int *group;             /* n_value: those of the present group */
    int n_group;
    bool fits;        /* everything can be saved */
    int64_t unit;     /* the peak when it is */
    struct peak peak; /* of the steps as they are */
};

/* Drop n more values, marked already, if that makes the plan better. */
static bool group_drop(struct choice *c, int n)
{
    struct step_list *train = &c->plan->steps.phase[STEP_PHASE_TRAIN], before = *train;
    *train = (struct step_list){0};
    if (recompute_steps(c->program, c->lowered, c->dropped, c->plan)) {
        struct peak peak = peak_find(c->program, c->plan, c->unit);
        if (peak.weight < (1.0 - PEAK_GAIN_LEAST) * c->peak.weight) {
            c->peak = peak;
            free(before.step);
            return true;
        }
    }
    for (int i = 0; i < n; i++) {
        c->dropped[c->group[i]] = false;
    }
    free(train->step);
    *train = before;
    step_lists_finish(c->program, &c->plan->steps);
    return false;
}

/* Sparse values draw their dropout one by one, which takes as long as their product: they are saved where everything
 * fits. */
static bool is_candidate(const struct choice *c, int i)
{
    const struct op *op = &c->program->op[i];
    bool draws = c->program->value[op->out].is_sparse && op->dropout > 0.0;
    return c->needed[op->out] && can_run_again(op) && !(c->fits && draws);
}

/* Mark the values of one group that are to be dropped; returns how many. `light`: those that pointwise ops make
 * again, as things are dropped now. */
static int group_mark(struct choice *c, int group, bool light)
{
    struct rewrite w;
    int n = 0, at = 0;
    rewrite_open(c->program, c->dropped, &w);
    for (int i = 0; i < c->program->n_op; i++) {
        int value = c->program->op[i].out;
        bool is_in = is_candidate(c, i) && at++ % c->n_group == group && !c->dropped[value];
        if (is_in && !(light && w.heavy[value])) {
            c->dropped[value] = true;
            c->group[n++] = value;
        }
    }
    rewrite_close(&w);
    return n;
}

/* Group after group, from the input on, until it fits. */
static bool values_drop(struct choice *c, bool light, int64_t n_arena_most)
{
    for (int group = 0; group < c->n_group; group++) {
        int n = group_mark(c, group, light);
        if (n > 0 && group_drop(c, n) && peak_fits(c->program, c->plan, &c->peak, n_arena_most)) {
            return true;
        }
    }
    return false;
}

/* Each value is a group of its own; of more values than GROUPS_MOST, every GROUPS_THEN-th is in one: looking at a
 * group takes as long as looking at the whole plan. */
static void groups_choose(struct choice *c)
{
    for (int i = 0; i < c->program->n_op; i++) {
        c->n_group += is_candidate(c, i);
    }
    c->n_group = c->n_group > GROUPS_MOST ? GROUPS_THEN : c->n_group;
}

/* Drop values until the plan fits, or is as small as it gets; of a plan that fits with all values, those that
 * pointwise ops make again, which costs next to nothing. */
static void values_choose(const struct program *program, const struct step_list *lowered, int64_t enough,
                          struct memory_plan *plan)
{
    size_t n_value = (size_t)program->n_value;
    struct choice c = {.program = program,
                       .lowered = lowered,
                       .plan = plan,
                       .needed = memory_alloc(n_value, sizeof *c.needed),
                       .dropped = memory_alloc(n_value, sizeof *c.dropped),
                       .group = memory_alloc(n_value, sizeof *c.group)};
    int64_t saved = plan->arena.n_bytes;
    c.fits = saved <= enough;
    needed_find(program, c.needed);
    groups_choose(&c);
    c.unit = peak_find(program, plan, 0).n_bytes;
    c.peak = peak_find(program, plan, c.unit);
    bool done = values_drop(&c, true, c.fits ? -1 : enough);
    for (int round = 0; round < 2 && !done && !c.fits; round++) {
        done = values_drop(&c, false, enough);
    }
    if (!done) {
        liveness_place(program, plan);
    }
    if (plan->arena.n_bytes >= saved) { /* gaps took what was gained */
        recompute_steps(program, lowered, NULL, plan);
        liveness_place(program, plan);
    }
    free(c.group);
    free(c.dropped);
    free(c.needed);
}

void recompute_plan(const struct program *program, enum job_recompute how, int64_t n_arena_most,
                    struct memory_plan *plan)
{
    struct step_lists lowered;
    step_lists_release(&plan->steps);
    step_lists_lower(program, &lowered);
    step_lists_lower(program, &plan->steps);
    liveness_place(program, plan);
    if (how != JOB_RECOMPUTE_NEVER) {
        values_choose(program, &lowered.phase[STEP_PHASE_TRAIN], how == JOB_RECOMPUTE_AUTO ? n_arena_most : -1, plan);
    }
    step_lists_release(&lowered);
}
