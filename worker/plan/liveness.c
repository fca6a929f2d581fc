#include "worker/plan/liveness.h"

#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/plan/arena.h"

#include <stdlib.h>

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

/* Values that share memory, and gradients, have one root: the first of them. */
struct lives {
    const struct program *program;
    const struct memory_plan *plan;
    int n;             /* slots */
    int time_loss;     /* of the loss, in which evaluations end */
    struct life *life; /* n, by liveness_slot */
    int *root;         /* n: of values and gradients; the slot itself elsewhere */
    int *made;         /* n_value: when its gradient is first written, … */
    int *changed;      /* n_value: … and last; -1: never */
};

/* --- slots --- */

static int n_slot(const struct program *program)
{
    return 2 * program->n_value + program->n_op * (OP_N_SAVED + OP_N_IN + 1 + MEMORY_WORKSPACE_N) + 1;
}

int liveness_slot(const struct program *program, enum step_array array, int index, int k)
{
    int n_op = program->n_op, saved = 2 * program->n_value, fresh = saved + n_op * OP_N_SAVED;
    int statistics = fresh + n_op * OP_N_IN, workspace = statistics + n_op;
    switch (array) {
    case STEP_ARRAY_VALUE:
        return index > 0 ? index : -1; /* the features lie with the parts */
    case STEP_ARRAY_GRAD:
        return program->n_value + index;
    case STEP_ARRAY_SAVED:
        return saved + index * OP_N_SAVED + k;
    case STEP_ARRAY_FRESH:
        return fresh + index * OP_N_IN + k;
    case STEP_ARRAY_STATISTICS:
        return statistics + index;
    case STEP_ARRAY_WORKSPACE:
        return index >= 0 ? workspace + index * MEMORY_WORKSPACE_N + k : workspace + n_op * MEMORY_WORKSPACE_N;
    default:
        return -1;
    }
}

static struct life *life_of(const struct lives *l, enum step_array array, int index, int k)
{
    return &l->life[liveness_slot(l->program, array, index, k)];
}

/* --- sizes --- */

static int64_t float_rows(int64_t n_row, int64_t width)
{
    return n_row * width * (int64_t)sizeof(float);
}

static int64_t statistics_bytes(const struct program *program, const struct op *op)
{
    const struct global_def *global = op_defs[op->kind]->global;
    int64_t n = global != NULL ? global->n_statistics(program, op) * (int64_t)sizeof(double) : 0;
    return (n + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static void op_sizes(struct lives *l, int i)
{
    const struct program *program = l->program;
    const struct memory_plan *plan = l->plan;
    const struct op *op = &program->op[i];
    for (int k = 0; k < OP_N_SAVED; k++) {
        life_of(l, STEP_ARRAY_SAVED, i, k)->n_bytes = float_rows(plan->n_row, op_saved_width(program, op, k));
    }
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] >= 0) {
            const struct value *in = &program->value[op->in[k]];
            life_of(l, STEP_ARRAY_FRESH, i, k)->n_bytes = float_rows(memory_plan_rows(plan, in->hop), in->width);
        }
    }
    life_of(l, STEP_ARRAY_STATISTICS, i, 0)->n_bytes = statistics_bytes(program, op);
    for (int k = 0; k < MEMORY_WORKSPACE_N; k++) {
        life_of(l, STEP_ARRAY_WORKSPACE, i, k)->n_bytes = memory_workspace_bytes(&plan->workspace[i][k]);
    }
}

static void lives_size(struct lives *l)
{
    const struct program *program = l->program;
    const struct memory_plan *plan = l->plan;
    for (int v = 0; v < program->n_value; v++) {
        const struct value *value = &program->value[v];
        l->life[v].n_bytes = value->is_sparse ? plan->n_sparse_value * (int64_t)sizeof(float)
                                              : float_rows(plan->n_row, value->width);
        life_of(l, STEP_ARRAY_GRAD, v, 0)->n_bytes = float_rows(memory_plan_rows(plan, value->hop), value->width);
        l->made[v] = l->changed[v] = -1;
    }
    for (int i = 0; i < program->n_op; i++) {
        op_sizes(l, i);
    }
    life_of(l, STEP_ARRAY_WORKSPACE, -1, 0)->n_bytes = memory_workspace_bytes(&plan->loss_workspace);
    for (int i = 0; i < l->n; i++) {
        l->root[i] = i;
    }
}

/* --- lives: a fold over operands --- */

static int life_end(const struct life *life)
{
    return life->span[life->n_span - 1].last;
}

/* A value may be made several times over; what epochs read of the static phase stays for all of them. */
static void value_lives(struct lives *l, const struct step_operand *o, struct life *life, int now)
{
    if (o->access == STEP_ACCESS_WRITE) {
        life_begin(life, now);
        return;
    }
    bool stays = l->program->value[o->index].is_static && now >= l->plan->steps.phase[STEP_PHASE_STATIC].n_step;
    life_touch(life, stays ? l->plan->steps.n_time - 1 : now);
}

static void operand_lives(struct lives *l, const struct step_operand *o, int now)
{
    int slot = liveness_slot(l->program, o->array, o->index, o->k);
    if (slot < 0) {
        return;
    }
    struct life *life = &l->life[slot];
    switch (o->array) {
    case STEP_ARRAY_VALUE:
        value_lives(l, o, life, now);
        return;
    case STEP_ARRAY_WORKSPACE: /* from step to step it holds nothing */
        (life->n_span > 0 && life_end(life) == now - 1 ? life_touch : life_begin)(life, now);
        return;
    case STEP_ARRAY_GRAD:
        life_touch(life, now);
        if (o->access != STEP_ACCESS_READ) {
            l->made[o->index] = l->made[o->index] < 0 ? now : l->made[o->index];
            l->changed[o->index] = now;
        }
        return;
    default:
        life_touch(life, now);
    }
}

static void lives_fold(struct lives *l)
{
    for (int phase = STEP_PHASE_STATIC; phase <= STEP_PHASE_TRAIN; phase++) {
        const struct step_list *list = &l->plan->steps.phase[phase];
        for (int s = 0; s < list->n_step; s++) {
            const struct step *step = &list->step[s];
            l->time_loss = step->kind == STEP_KIND_LOSS ? step->time : l->time_loss;
            for (int k = 0; k < step->n_operand; k++) {
                operand_lives(l, &step->operand[k], step->time);
            }
        }
    }
}

/* --- values and gradients in place --- */

/* Do the two meet only where op i makes out from in: at the end of a span of in, at the beginning of one of out? */
static bool only_handed_over(const struct life *in, const struct life *out)
{
    for (int a = 0; a < in->n_span; a++) {
        for (int b = 0; b < out->n_span; b++) {
            bool apart = in->span[a].last < out->span[b].first || out->span[b].last < in->span[a].first;
            if (!apart && in->span[a].last != out->span[b].first) {
                return false;
            }
        }
    }
    return true;
}

/* out may lie on in[0] where in[0]'s life ends whenever the op makes out. */
static void values_share(struct lives *l)
{
    const struct program *program = l->program;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        int in = op->in[0], out = op->out;
        if (!op_defs[op->kind]->in_place || op->is_static || in == 0 || program->value[in].is_static ||
            program->value[in].is_sparse || program->value[out].width != program->value[in].width) {
            continue;
        }
        struct life *root = &l->life[l->root[in]];
        if (only_handed_over(root, &l->life[out])) {
            l->root[out] = l->root[in];
            life_join(root, &l->life[out]);
        }
    }
}

/* Do two values' gradients have the same rows and columns? */
static bool same_shape(const struct lives *l, int a, int b)
{
    const struct value *x = &l->program->value[a], *y = &l->program->value[b];
    int32_t n_hop = l->plan->n_hop;
    return x->width == y->width && (x->hop == y->hop || (x->hop >= n_hop && y->hop >= n_hop));
}

/* Of gradients that share memory, by root: when the last of them is last read, and last written. */
struct shared {
    int *end, *changed; /* n_value */
};

/* The gradient of in[k], first written by this step, may lie on that of out when that is not read any more; one that is only
 * passed on, and not changed later, also beside others that are only read. */
static void grad_share(struct lives *l, const struct step *step, int k, struct shared *shared)
{
    const struct op *op = &l->program->op[step->op];
    int in = op->in[k], base = l->program->n_value, root = l->root[base + op->out] - base, now = step->time;
    bool passes = op_passes_grad(op, k);
    if (in < 0 || l->made[in] != now || (!passes && (k > 0 || !op_defs[op->kind]->in_place)) || !same_shape(l, in, op->out)) {
        return;
    }
    if (shared->end[root] <= now || (passes && shared->changed[root] <= now && l->changed[in] == now)) {
        struct life *life = &l->life[base + root];
        l->root[base + in] = base + root;
        life_join(life, &l->life[base + in]);
        shared->end[root] = life_end(life);
        shared->changed[root] = l->changed[in] > shared->changed[root] ? l->changed[in] : shared->changed[root];
    }
}

static void grads_share(struct lives *l)
{
    const struct step_list *list = &l->plan->steps.phase[STEP_PHASE_TRAIN];
    int n_value = l->program->n_value;
    struct shared shared = {.end = memory_alloc((size_t)(2 * n_value), sizeof *shared.end)};
    shared.changed = shared.end + n_value;
    for (int v = 0; v < n_value; v++) {
        const struct life *life = &l->life[n_value + v];
        shared.end[v] = life->n_span > 0 ? life_end(life) : -1;
        shared.changed[v] = l->changed[v];
    }
    for (int s = 0; s < list->n_step; s++) {
        const struct step *step = &list->step[s];
        if (step->kind != STEP_KIND_BACKWARD || l->program->op[step->op].in[0] == l->program->op[step->op].in[1]) {
            continue;
        }
        for (int k = OP_N_IN - 1; k >= 0; k--) { /* the first last, as backward writes it last */
            grad_share(l, step, k, &shared);
        }
    }
    free(shared.end);
}

/* --- placement --- */

static void lives_open(const struct program *program, const struct memory_plan *plan, struct lives *l)
{
    *l = (struct lives){.program = program, .plan = plan, .n = n_slot(program)};
    l->life = memory_alloc((size_t)l->n, sizeof *l->life);
    l->root = memory_alloc((size_t)l->n, sizeof *l->root);
    l->made = memory_alloc((size_t)(2 * program->n_value), sizeof *l->made);
    l->changed = l->made + program->n_value;
    lives_size(l);
    lives_fold(l);
    values_share(l);
    grads_share(l);
}

static void lives_close(struct lives *l)
{
    free(l->life);
    free(l->root);
    free(l->made);
}

/* Does this one take memory of its own? */
static bool is_placed(const struct lives *l, int i)
{
    return l->life[i].n_span > 0 && l->life[i].n_bytes > 0 && l->root[i] == i;
}

int64_t liveness_load(const struct program *program, const struct memory_plan *plan, int64_t *out)
{
    struct lives l;
    lives_open(program, plan, &l);
    int n_time = plan->steps.n_time;
    for (int t = 0; t < n_time; t++) {
        out[t] = 0;
    }
    for (int i = 0; i < l.n; i++) {
        int n_span = is_placed(&l, i) ? l.life[i].n_span : 0;
        for (int s = 0; s < n_span; s++) {
            const struct life_span *span = &l.life[i].span[s];
            out[span->first] += l.life[i].n_bytes;
            if (span->last + 1 < n_time) {
                out[span->last + 1] -= l.life[i].n_bytes;
            }
        }
    }
    int64_t most = 0, now = 0;
    for (int t = 0; t < n_time; t++) {
        now += out[t];
        out[t] = now;
        most = now > most ? now : most;
    }
    lives_close(&l);
    return most;
}

static void places_fill(const struct lives *l, struct memory_plan *plan)
{
    if (plan->at == NULL) {
        plan->at = memory_alloc((size_t)l->n, sizeof *plan->at);
    }
    for (int i = 0; i < l->n; i++) {
        plan->at[i] = is_placed(l, l->root[i]) && l->life[i].n_span > 0 ? l->life[l->root[i]].at : -1;
    }
}

/* Ends of lives in forward and in backward; logits are read outside of both. */
static void endings_fill(const struct lives *l, struct memory_plan *plan)
{
    free(plan->ending);
    plan->ending = memory_alloc((size_t)l->n * LIFE_N_SPAN, sizeof *plan->ending);
    plan->n_ending = 0;
    for (int i = 0; i < l->n; i++) {
        int n_span = is_placed(l, i) ? l->life[i].n_span : 0;
        for (int s = 0; s < n_span; s++) {
            int last = l->life[i].span[s].last;
            if (last != l->time_loss && last != plan->steps.n_time - 1) {
                plan->ending[plan->n_ending++] = (struct memory_ending){
                    .time = last, .at = l->life[i].at, .n_bytes = l->life[i].n_bytes};
            }
        }
    }
}

void liveness_place(const struct program *program, struct memory_plan *plan)
{
    struct lives l;
    lives_open(program, plan, &l);
    struct life **placed = memory_alloc((size_t)l.n, sizeof *placed);
    int n_placed = 0;
    for (int i = 0; i < l.n; i++) {
        if (is_placed(&l, i)) {
            placed[n_placed++] = &l.life[i];
        }
    }
    plan->n_arena_bytes = arena_place(placed, n_placed);
    free(placed);
    places_fill(&l, plan);
    endings_fill(&l, plan);
    lives_close(&l);
}
