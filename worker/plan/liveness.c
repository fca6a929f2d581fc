#include "worker/plan/liveness.h"

#include "protocol/base/memory.h"
#include "worker/plan/arena.h"

#include <stdlib.h>

/* Values that share memory, and gradients, have one root: the first of them. */
struct lives {
    const struct program *program;
    const struct memory_plan *plan;
    int n;             /* slots */
    int time_loss;     /* of the loss, in which evaluations end */
    struct life *life; /* n, by liveness_slot */
    int *root;         /* n: of values and gradients; the slot itself elsewhere */
    int n_time;
    int *chain_first; /* n_time: of the fused chain of this step; -1: it is in none */
    int *chain_last;  /* n_time */
    bool *in_window;  /* n: roots that have a place in windows alone */
    int64_t n_slot_bytes, n_window_bytes;
    int *made;    /* n_value: when its gradient is first written, … */
    int *changed; /* n_value: … and last; -1: never */
};

/* --- slots --- */

static int n_slot(const struct program *program)
{
    return 2 * program->n_value + program->n_op * (OP_N_SAVED + OP_N_IN + 1 + STEP_WORKSPACE_N) + 1;
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
        return index >= 0 ? workspace + index * STEP_WORKSPACE_N + k : workspace + n_op * STEP_WORKSPACE_N;
    default:
        return -1;
    }
}

static struct life *life_of(const struct lives *l, enum step_array array, int index, int k)
{
    return &l->life[liveness_slot(l->program, array, index, k)];
}

static void op_sizes(struct lives *l, int i)
{
    static const enum step_array arrays[] = {STEP_ARRAY_SAVED, STEP_ARRAY_FRESH, STEP_ARRAY_STATISTICS,
                                             STEP_ARRAY_WORKSPACE};
    static const int n[] = {OP_N_SAVED, OP_N_IN, 1, STEP_WORKSPACE_CHAIN};
    for (int a = 0; a < 4; a++) {
        for (int k = 0; k < n[a]; k++) {
            life_of(l, arrays[a], i, k)->n_bytes = liveness_bytes(l->program, l->plan, arrays[a], i, k);
        }
    }
}

static void lives_size(struct lives *l)
{
    for (int v = 0; v < l->program->n_value; v++) {
        l->life[v].n_bytes = liveness_bytes(l->program, l->plan, STEP_ARRAY_VALUE, v, 0);
        life_of(l, STEP_ARRAY_GRAD, v, 0)->n_bytes = liveness_bytes(l->program, l->plan, STEP_ARRAY_GRAD, v, 0);
        l->made[v] = l->changed[v] = -1;
    }
    for (int i = 0; i < l->program->n_op; i++) {
        op_sizes(l, i);
    }
    life_of(l, STEP_ARRAY_WORKSPACE, -1, 0)->n_bytes = liveness_bytes(l->program, l->plan, STEP_ARRAY_WORKSPACE, -1,
                                                                      0);
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

static void operand_lives(struct lives *l, const struct step_operand *o, enum step_kind kind, int now)
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
    case STEP_ARRAY_SAVED: /* what comes back from host memory is not alive before */
        (kind == STEP_KIND_FETCH ? life_begin : life_touch)(life, now);
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

/* The step at a time: of the static phase, or of the one that has times behind it. */
static const struct step *step_at(const struct lives *l, int time)
{
    const struct step_list *first = &l->plan->steps.phase[STEP_PHASE_STATIC];
    return time < first->n_step ? &first->step[time] : &step_lists_timed(&l->plan->steps)->step[time - first->n_step];
}

static void lives_fold(struct lives *l)
{
    for (int t = 0; t < l->n_time - 1; t++) {
        const struct step *step = step_at(l, t);
        bool ends = step->kind == STEP_KIND_LOSS || step->kind == STEP_KIND_SCORE;
        l->time_loss = ends ? t : l->time_loss;
        for (int k = 0; k < step->n_operand; k++) {
            operand_lives(l, &step->operand[k], step->kind, t);
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
        bool halo = program->value[in].hop == PROGRAM_HOP_HALO,
             same = halo == (program->value[out].hop == PROGRAM_HOP_HALO);
        if (!same || !op_defs[op->kind]->in_place || op->is_static || in == 0 || program->value[in].is_static ||
            program->value[in].is_sparse || program->value[out].width != program->value[in].width ||
            program->value[out].is_bf16 != program->value[in].is_bf16) {
            continue;
        }
        struct life *root = &l->life[l->root[in]];
        if (only_handed_over(root, &l->life[out])) {
            l->root[out] = l->root[in];
            life_join(root, &l->life[out]);
        }
    }
}

/* Do two values' gradients have the same rows, columns and type? */
static bool same_shape(const struct lives *l, int a, int b)
{
    const struct value *x = &l->program->value[a], *y = &l->program->value[b];
    int32_t n_hop = l->plan->n_hop;
    bool all = x->hop >= n_hop && y->hop >= n_hop && x->hop != PROGRAM_HOP_HALO && y->hop != PROGRAM_HOP_HALO;
    return x->width == y->width && x->grad_is_bf16 == y->grad_is_bf16 && (x->hop == y->hop || all);
}

/* Of gradients that share memory, by root: when the last of them is last read, and last written. */
struct dedup {
    int *end, *changed; /* n_value */
};

/* The gradient of in[k], first written by this step, may lie on that of out when that is not read any more; one that
 * is only passed on, and not changed later, also beside others that are only read. */
static void grad_share(struct lives *l, const struct step *step, int k, struct dedup *dedup)
{
    const struct op *op = &l->program->op[step->op];
    int in = op->in[k], base = l->program->n_value, root = l->root[base + op->out] - base, now = step->time;
    bool passes = op_passes_grad(op, k);
    if (in < 0 || l->made[in] != now || (!passes && (k > 0 || !op_defs[op->kind]->in_place)) ||
        !same_shape(l, in, op->out)) {
        return;
    }
    if (dedup->end[root] <= now || (passes && dedup->changed[root] <= now && l->changed[in] == now)) {
        struct life *life = &l->life[base + root];
        l->root[base + in] = base + root;
        life_join(life, &l->life[base + in]);
        dedup->end[root] = life_end(life);
        dedup->changed[root] = l->changed[in] > dedup->changed[root] ? l->changed[in] : dedup->changed[root];
    }
}

static void grads_share(struct lives *l)
{
    const struct step_list *list = &l->plan->steps.phase[STEP_PHASE_TRAIN];
    int n_value = l->program->n_value;
    struct dedup dedup = {.end = memory_alloc((size_t)(2 * n_value), sizeof *dedup.end)};
    dedup.changed = dedup.end + n_value;
    for (int v = 0; v < n_value; v++) {
        const struct life *life = &l->life[n_value + v];
        dedup.end[v] = life->n_span > 0 ? life_end(life) : -1;
        dedup.changed[v] = l->changed[v];
    }
    for (int s = 0; s < list->n_step; s++) {
        const struct step *step = &list->step[s];
        if (step->kind != STEP_KIND_BACKWARD || l->program->op[step->op].in[0] == l->program->op[step->op].in[1]) {
            continue;
        }
        for (int k = OP_N_IN - 1; k >= 0; k--) { /* the first last, as backward writes it last */
            grad_share(l, step, k, &dedup);
        }
    }
    free(dedup.end);
}

/* --- fused chains --- */

/* Does this one take memory of its own, in the arena or in the windows? */
static bool takes_memory(const struct lives *l, int i, bool in_window)
{
    return l->life[i].n_span > 0 && l->life[i].n_bytes > 0 && l->root[i] == i && l->in_window[i] == in_window;
}

static void chains_find(struct lives *l)
{
    for (int t = 0; t < l->n_time; t++) {
        l->chain_first[t] = l->chain_last[t] = -1;
    }
    for (int first = 0; first < l->n_time - 1; first++) {
        int n = step_at(l, first)->n_chain;
        for (int t = first; t < first + n; t++) {
            l->chain_first[t] = first;
            l->chain_last[t] = first + n - 1;
        }
    }
}

/* Is the array, whenever it is alive, alive within one chain? */
static bool is_within_chains(const struct lives *l, const struct life *life)
{
    for (int s = 0; s < life->n_span; s++) {
        int first = life->span[s].first;
        if (l->chain_first[first] < 0 || life->span[s].last > l->chain_last[first]) {
            return false;
        }
    }
    return life->n_span > 0;
}

/* The steps of a chain are at work at one time. */
static void life_widen(const struct lives *l, struct life *life)
{
    struct life wide = {.n_bytes = life->n_bytes};
    for (int s = 0; s < life->n_span; s++) {
        int first = life->span[s].first, last = life->span[s].last;
        first = l->chain_first[first] >= 0 ? l->chain_first[first] : first;
        last = l->chain_last[last] >= 0 ? l->chain_last[last] : last;
        (wide.n_span > 0 && life_end(&wide) >= first ? life_touch : life_begin)(&wide, first);
        life_touch(&wide, last);
    }
    *life = wide;
}

/* Bytes of an array that has rows of one window; a workspace is a window's as it is. */
static int64_t window_bytes(const struct lives *l, int slot)
{
    const struct program *program = l->program;
    int saved = slot - 2 * program->n_value;
    int64_t row_bytes = l->plan->arena.chain.n_window * (int64_t)sizeof(float);
    if (saved < 0) {
        return row_bytes * program->value[slot % program->n_value].width;
    }
    if (saved < program->n_op * OP_N_SAVED) {
        return row_bytes * op_saved_width(program, &program->op[saved / OP_N_SAVED], saved % OP_N_SAVED);
    }
    return l->life[slot].n_bytes;
}

/* All arrays that take memory of their own, in the arena or in a slot of windows: their bytes. */
static int64_t lives_place(const struct lives *l, bool in_window)
{
    struct life **placed = memory_alloc((size_t)l->n, sizeof *placed);
    int n_placed = 0;
    for (int i = 0; i < l->n; i++) {
        if (takes_memory(l, i, in_window)) {
            placed[n_placed++] = &l->life[i];
        }
    }
    int64_t n_bytes = arena_place(placed, n_placed);
    free(placed);
    return n_bytes;
}

/* Of the chain that has most. */
static int64_t stages_most(const struct lives *l)
{
    int64_t most = 0;
    for (int t = 0; t < l->n_time - 1; t++) {
        int64_t n = chain_stages_bytes(l->program, step_at(l, t), l->plan->arena.chain.n_window);
        most = n > most ? n : most;
    }
    return most;
}

/* Of a chain: as its windows turned out. */
static void windows_size(struct lives *l)
{
    for (int t = 0; t < l->n_time - 1; t++) {
        const struct step *step = step_at(l, t);
        if (step->n_chain > 0) {
            struct life *life = life_of(l, STEP_ARRAY_WORKSPACE, step->op, STEP_WORKSPACE_CHAIN);
            const struct memory_arena *arena = &l->plan->arena;
            int64_t n = chain_windows_bytes(l->program, step, arena->n_task, arena->chain.n_chunk, l->n_slot_bytes);
            life->n_bytes = n > life->n_bytes ? n : life->n_bytes;
        }
    }
}

/* Scratch is every window's own, since windows run at the same time. */
static bool is_in_window(const struct lives *l, int slot)
{
    int workspace = slot - liveness_slot(l->program, STEP_ARRAY_WORKSPACE, 0, 0);
    if (workspace < 0) {
        return l->root[slot] == slot && is_within_chains(l, &l->life[slot]);
    }
    int op = workspace / STEP_WORKSPACE_N; /* behind the last: the loss */
    bool scratch = op < l->program->n_op && workspace % STEP_WORKSPACE_N != STEP_WORKSPACE_CHAIN;
    return scratch && chain_takes_scratch(l->program, &l->program->op[op]);
}

static void chains_apply(struct lives *l)
{
    for (int i = 0; i < l->n; i++) {
        struct life *life = &l->life[i];
        l->in_window[i] = is_in_window(l, i);
        if (l->in_window[i]) {
            life->n_bytes = window_bytes(l, i);
        } else {
            life_widen(l, life);
        }
    }
    l->n_window_bytes = lives_place(l, true);
    l->n_slot_bytes = l->n_window_bytes + stages_most(l);
    windows_size(l);
}

/* --- placement --- */

static void lives_open(const struct program *program, const struct memory_plan *plan, struct lives *l)
{
    *l = (struct lives){.program = program, .plan = plan, .n = n_slot(program)};
    l->life = memory_alloc((size_t)l->n, sizeof *l->life);
    l->root = memory_alloc((size_t)l->n, sizeof *l->root);
    l->made = memory_alloc((size_t)(2 * program->n_value), sizeof *l->made);
    l->changed = l->made + program->n_value;
    l->n_time = plan->steps.n_time;
    l->chain_first = memory_alloc((size_t)(2 * l->n_time), sizeof *l->chain_first);
    l->chain_last = l->chain_first + l->n_time;
    l->in_window = memory_alloc((size_t)l->n, sizeof *l->in_window);
    lives_size(l);
    lives_fold(l);
    values_share(l);
    grads_share(l);
    chains_find(l);
    chains_apply(l);
}

static void lives_close(struct lives *l)
{
    free(l->life);
    free(l->root);
    free(l->made);
    free(l->chain_first);
    free(l->in_window);
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
        int n_span = takes_memory(&l, i, false) ? l.life[i].n_span : 0;
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

static void places_fill(const struct lives *l, bool in_window, int64_t **at)
{
    *at = *at != NULL ? *at : memory_alloc((size_t)l->n, sizeof **at);
    for (int i = 0; i < l->n; i++) {
        bool there = takes_memory(l, l->root[i], in_window) && l->life[i].n_span > 0;
        (*at)[i] = there ? l->life[l->root[i]].at : -1;
    }
}

/* Ends of lives in forward and in backward; logits are read outside of both. */
static void endings_fill(const struct lives *l, struct memory_plan *plan)
{
    free(plan->arena.ending);
    plan->arena.ending = memory_alloc((size_t)l->n * LIFE_N_SPAN, sizeof *plan->arena.ending);
    plan->arena.n_ending = 0;
    for (int i = 0; i < l->n; i++) {
        int n_span = takes_memory(l, i, false) ? l->life[i].n_span : 0;
        for (int s = 0; s < n_span; s++) {
            int last = l->life[i].span[s].last;
            if (last != l->time_loss && last != plan->steps.n_time - 1) {
                plan->arena.ending[plan->arena.n_ending++] = (struct memory_ending){
                    .time = last, .at = l->life[i].at, .n_bytes = l->life[i].n_bytes};
            }
        }
    }
}

void liveness_place(const struct program *program, struct memory_plan *plan)
{
    struct lives l;
    lives_open(program, plan, &l);
    plan->arena.n_bytes = lives_place(&l, false);
    plan->arena.n_slot_bytes = l.n_slot_bytes;
    plan->arena.n_window_bytes = l.n_window_bytes;
    places_fill(&l, false, &plan->arena.at);
    places_fill(&l, true, &plan->arena.window_at);
    for (int i = 0; i < program->n_op; i++) {
        plan->workspace[i][STEP_WORKSPACE_CHAIN].n_scratch =
            life_of(&l, STEP_ARRAY_WORKSPACE, i, STEP_WORKSPACE_CHAIN)->n_bytes;
    }
    endings_fill(&l, plan);
    lives_close(&l);
}
