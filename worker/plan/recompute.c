#include "worker/plan/recompute.h"

#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/plan/liveness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ops between a value made again and what it is made from. It bounds the work: residuals would lead back to the first layer. */
#define DEPTH_MOST 12

/* --- steps --- */

struct walk {
    const struct program *program;
    int *maker;    /* n_value: the op that makes it; -1: the features */
    bool *stays;   /* n_value: lies there from forward until its last reader */
    bool *heavy;   /* n_value: a linear map has to run again for it */
    int *depth;    /* n_value: ops to run for it, one after another; 0 where it stays */
    bool *there;   /* n_value: at this point of the walk */
    int *n_reader; /* n_value: ops that have yet to add to its gradient */
    int n_ready;
    int *ready; /* n_op: ops whose output's gradient is complete */
    int n_step;
    struct memory_step *step;
};

static bool has_backward(const struct program *program, const struct op *op)
{
    return program->value[op->out].needs_grad;
}

/* Does the backward of some op read it? */
static void needed_find(const struct program *program, bool *needed)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        for (int k = 0; k < OP_N_IN; k++) {
            if (op_keeps_in(program, op, k)) {
                needed[op->in[k]] = true;
            }
        }
        needed[op->out] = needed[op->out] || op_keeps_out(program, op);
    }
}

static bool can_run_again(const struct op *op)
{
    return op->kind != OP_KIND_AGGREGATE && !op->is_static;
}

static void walk_open(const struct program *program, const bool *dropped, struct walk *w)
{
    size_t n = (size_t)program->n_value;
    *w = (struct walk){.program = program,
                       .maker = memory_alloc(n, sizeof *w->maker),
                       .stays = memory_alloc(n, sizeof *w->stays),
                       .heavy = memory_alloc(n, sizeof *w->heavy),
                       .depth = memory_alloc(n, sizeof *w->depth),
                       .there = memory_alloc(n, sizeof *w->there),
                       .n_reader = memory_alloc(n, sizeof *w->n_reader),
                       .ready = memory_alloc((size_t)program->n_op, sizeof *w->ready)};
    needed_find(program, w->stays);
    w->maker[0] = -1;
    w->stays[0] = true;
    for (int i = 0; i < program->n_op; i++) { /* inputs come before outputs */
        const struct op *op = &program->op[i];
        int out = op->out;
        w->maker[out] = i;
        w->stays[out] = (w->stays[out] && (dropped == NULL || !dropped[out])) || !can_run_again(op);
        w->heavy[out] = op->kind == OP_KIND_LINEAR;
        for (int k = 0; k < OP_N_IN; k++) {
            int in = op->in[k];
            if (in >= 0 && !w->stays[in]) {
                w->heavy[out] = w->heavy[out] || w->heavy[in];
                w->depth[out] = w->depth[in] > w->depth[out] ? w->depth[in] : w->depth[out];
            }
        }
        w->depth[out] = w->stays[out] ? 0 : w->depth[out] + 1;
        for (int k = 0; has_backward(program, op) && k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                w->n_reader[op->in[k]]++;
            }
        }
    }
    memcpy(w->there, w->stays, n * sizeof *w->there);
}

static void walk_close(struct walk *w)
{
    free(w->maker);
    free(w->stays);
    free(w->heavy);
    free(w->depth);
    free(w->there);
    free(w->n_reader);
    free(w->ready);
}

static void step_add(struct walk *w, enum memory_step_kind kind, int op)
{
    if ((w->n_step & (w->n_step - 1)) == 0) { /* room for the next power of two */
        struct memory_step *grown = memory_alloc(2 * (size_t)w->n_step + 1, sizeof *grown);
        for (int s = 0; s < w->n_step; s++) {
            grown[s] = w->step[s];
        }
        free(w->step);
        w->step = grown;
    }
    w->step[w->n_step++] = (struct memory_step){.kind = kind, .op = op};
}

/* Make a value again unless it is there, and before it what it is made from. */
static void make(struct walk *w, int value)
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
    step_add(w, MEMORY_STEP_AGAIN, w->maker[value]);
    w->there[value] = true;
}

static void op_walk(struct walk *w, int i)
{
    const struct op *op = &w->program->op[i];
    bool aggregate = op->kind == OP_KIND_AGGREGATE;
    if (op_keeps_out(w->program, op)) {
        make(w, op->out);
    }
    if (aggregate && aggregate_defs[op->aggregate].backward_begin != NULL) {
        step_add(w, MEMORY_STEP_BEGIN, i);
    }
    for (int k = 0; k < OP_N_IN; k++) {
        if (op_keeps_in(w->program, op, k)) {
            make(w, op->in[k]);
        }
    }
    step_add(w, MEMORY_STEP_OP, i);
    for (int v = 0; aggregate && v < w->program->n_value; v++) {
        w->there[v] = w->there[v] && (w->stays[v] || w->heavy[v]);
    }
}

static void gradient_add(struct walk *w, int value)
{
    int maker = w->maker[value];
    if (maker >= 0 && w->n_reader[value] == 0 && has_backward(w->program, &w->program->op[maker])) {
        w->ready[w->n_ready++] = maker;
    }
}

/* Of the ops that could come next: one that takes no memory, then an aggregate, whose rounds need most of it and are best over
 * before other gradients begin; of several the last. The order is the program's alone: it shows in the bits. */
static int op_next(struct walk *w)
{
    int best = 0, best_rank = -1;
    for (int r = 0; r < w->n_ready; r++) {
        const struct op *op = &w->program->op[w->ready[r]];
        int rank = op_defs[op->kind].in_place ? 2 : op->kind == OP_KIND_AGGREGATE ? 1 : 0;
        if (rank > best_rank || (rank == best_rank && w->ready[r] > w->ready[best])) {
            best = r;
            best_rank = rank;
        }
    }
    int op = w->ready[best];
    w->ready[best] = w->ready[--w->n_ready];
    return op;
}

static void backward_walk(struct walk *w)
{
    gradient_add(w, w->program->logits);
    while (w->n_ready > 0) {
        int i = op_next(w);
        op_walk(w, i);
        for (int k = 0; k < OP_N_IN; k++) {
            int in = w->program->op[i].in[k];
            if (in >= 0) {
                w->n_reader[in]--;
                gradient_add(w, in);
            }
        }
    }
}

/* Is everything dropped near enough to what is kept? */
static bool is_near(const struct walk *w, const bool *dropped)
{
    for (int v = 0; dropped != NULL && v < w->program->n_value; v++) {
        if (dropped[v] && w->depth[v] > DEPTH_MOST) {
            return false;
        }
    }
    return true;
}

bool recompute_steps(const struct program *program, const bool *dropped, struct memory_plan *plan)
{
    struct walk w;
    walk_open(program, dropped, &w);
    bool near = is_near(&w, dropped);
    if (near) {
        backward_walk(&w);
    }
    walk_close(&w);
    if (near) {
        free(plan->step);
        plan->step = w.step;
        plan->n_step = w.n_step;
    }
    return near;
}

/* --- choice --- */

struct choice {
    const struct program *program;
    struct memory_plan *plan;
    bool *needed, *dropped; /* n_value */
    int64_t *load;          /* per time; for the most steps there can be */
    int64_t unit;           /* the peak when everything is kept */
    double weight;          /* of the steps as they are */
};

/* How bad a plan is: nearly its peak alone, but a choice that lowers one of several equal peaks counts as well. */
static double plan_weight(struct choice *c)
{
    int n_time = liveness_n_time(c->program, c->plan);
    free(c->load);
    c->load = memory_alloc((size_t)n_time, sizeof *c->load);
    int64_t most = liveness_load(c->program, c->plan, c->load);
    c->unit = c->unit > 0 ? c->unit : most;
    double weight = 0.0;
    for (int t = 0; t < n_time; t++) {
        weight += pow((double)c->load[t] / (double)c->unit, 32.0);
    }
    return weight;
}

/* Below this a choice is not worth the work of making the value again. */
#define GAIN_LEAST 0.01

/* Drop one more value if that makes the plan better. */
static bool value_drop(struct choice *c, int value)
{
    struct memory_plan *plan = c->plan;
    struct memory_step *step = plan->step;
    int n_step = plan->n_step;
    plan->step = NULL;
    c->dropped[value] = true;
    if (recompute_steps(c->program, c->dropped, plan)) {
        double weight = plan_weight(c);
        if (weight < (1.0 - GAIN_LEAST) * c->weight) {
            c->weight = weight;
            free(step);
            return true;
        }
    }
    c->dropped[value] = false;
    free(plan->step);
    plan->step = step;
    plan->n_step = n_step;
    return false;
}

static bool fits(struct choice *c, int64_t n_arena_most)
{
    int64_t least = 0;
    for (int t = 0; t < liveness_n_time(c->program, c->plan); t++) {
        least = c->load[t] > least ? c->load[t] : least;
    }
    if (least > n_arena_most) {
        return false;
    }
    liveness_place(c->program, c->plan);
    return c->plan->n_arena_bytes <= n_arena_most;
}

/* Is making this one again a matter of pointwise ops, as things are dropped now? */
static bool is_light(const struct choice *c, int value)
{
    struct walk w;
    walk_open(c->program, c->dropped, &w);
    bool light = !w.heavy[value];
    walk_close(&w);
    return light;
}

/* Value after value, from the input on, until it fits. */
static bool values_drop(struct choice *c, bool light, int64_t n_arena_most)
{
    for (int i = 0; i < c->program->n_op; i++) {
        const struct op *op = &c->program->op[i];
        bool candidate = c->needed[op->out] && !c->dropped[op->out] && can_run_again(op);
        if (candidate && (!light || is_light(c, op->out)) && value_drop(c, op->out) && fits(c, n_arena_most)) {
            return true;
        }
    }
    return false;
}

void recompute_plan(const struct program *program, enum job_recompute how, int64_t n_arena_most, struct memory_plan *plan)
{
    recompute_steps(program, NULL, plan);
    liveness_place(program, plan);
    int64_t kept = plan->n_arena_bytes;
    if (how == JOB_RECOMPUTE_NEVER || (how == JOB_RECOMPUTE_AUTO && kept <= n_arena_most)) {
        return;
    }
    int64_t enough = how == JOB_RECOMPUTE_AUTO ? n_arena_most : -1;
    struct choice c = {.program = program,
                       .plan = plan,
                       .needed = memory_alloc((size_t)program->n_value, sizeof *c.needed),
                       .dropped = memory_alloc((size_t)program->n_value, sizeof *c.dropped)};
    needed_find(program, c.needed);
    c.weight = plan_weight(&c);
    bool done = values_drop(&c, true, enough) || values_drop(&c, false, enough) || values_drop(&c, false, enough);
    if (!done) {
        liveness_place(program, plan);
    }
    if (plan->n_arena_bytes >= kept) { /* gaps took what was gained */
        recompute_steps(program, NULL, plan);
        liveness_place(program, plan);
    }
    free(c.load);
    free(c.dropped);
    free(c.needed);
}
