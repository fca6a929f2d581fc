#include "worker/plan/liveness.h"

#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/plan/arena.h"

#include <stdlib.h>

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

/* All lives of a program. Values that share memory, and gradients, have one root: the first of them. */
struct lives {
    const struct program *program;
    const struct memory_plan *plan;
    int n;                                 /* of all */
    struct life *all;                      /* values, gradients, then the rest, op by op */
    struct life *value, *grad;             /* n_value */
    struct life (*kept)[AGGREGATE_N_KEPT]; /* n_op */
    struct life (*temp)[OP_N_IN];
    struct life (*room)[MEMORY_ROOM_N];
    struct life *score;
    int *value_root, *grad_root;   /* n_value */
    int *grad_made, *grad_changed; /* n_value: when its gradient is first and last written; -1: never */
};

int liveness_time_forward(const struct program *program, int op)
{
    return program->op[op].is_static ? op : program->n_op + op;
}

int liveness_time_step(const struct program *program, int step)
{
    return 2 * program->n_op + 1 + step;
}

static int time_loss(const struct lives *l)
{
    return 2 * l->program->n_op;
}

static int time_end(const struct lives *l)
{
    return liveness_time_step(l->program, l->plan->n_step);
}

int liveness_n_time(const struct program *program, const struct memory_plan *plan)
{
    return 2 * program->n_op + 1 + plan->n_step + 1;
}

/* --- sizes --- */

/* Rows of all own parts; of a global op one array for all of them. */
static int64_t kept_bytes(const struct program *program, const struct memory_plan *plan, const struct op *op, int k)
{
    const struct global_def *global = op_defs[op->kind].global;
    if (global == NULL || k > 0) {
        return plan->n_row * op_kept_width(program, op, k) * (int64_t)sizeof(float);
    }
    int64_t n_bytes = global->n_whole(program, op) * (int64_t)sizeof(double);
    return (n_bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static int64_t room_bytes(const struct memory_room *room)
{
    return room->n_scratch + room->n_fetch + room->n_pack;
}

static void lives_size(struct lives *l)
{
    const struct program *program = l->program;
    const struct memory_plan *plan = l->plan;
    for (int v = 0; v < program->n_value; v++) {
        const struct value *value = &program->value[v];
        int64_t dense = plan->n_row * value->width;
        l->value[v].n_bytes = (value->is_sparse ? plan->n_sparse_value : dense) * (int64_t)sizeof(float);
        l->grad[v].n_bytes = memory_plan_rows(plan, value->level) * value->width * (int64_t)sizeof(float);
        l->value_root[v] = l->grad_root[v] = v;
        l->grad_made[v] = l->grad_changed[v] = -1;
    }
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
            l->kept[i][k].n_bytes = kept_bytes(program, plan, op, k);
        }
        for (int k = 0; k < OP_N_IN; k++) {
            l->temp[i][k].n_bytes = op->in[k] >= 0 ? l->grad[op->in[k]].n_bytes : 0;
        }
        for (int k = 0; k < MEMORY_ROOM_N; k++) {
            l->room[i][k].n_bytes = room_bytes(&plan->room[i][k]);
        }
    }
    l->score->n_bytes = room_bytes(&plan->score_room);
}

/* --- lives, walked in the order of time --- */

static void value_read(struct lives *l, int v, int now)
{
    if (v > 0) {
        /* What epochs read of the static phase stays for all of them. */
        bool stays = l->program->value[v].is_static && now >= l->program->n_op;
        life_touch(&l->value[v], stays ? time_end(l) : now);
    }
}

/* An op runs forward, for the first time or again. */
static void op_runs(struct lives *l, int i, int now)
{
    const struct op *op = &l->program->op[i];
    for (int k = 0; k < OP_N_IN; k++) {
        value_read(l, op->in[k], now);
    }
    life_begin(&l->value[op->out], now);
    for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
        life_touch(&l->kept[i][k], now);
    }
    life_begin(&l->room[i][MEMORY_ROOM_FORWARD], now);
}

/* A gradient lives from the last op that reads the value (the first to write it) to the op that made the value. */
static void grad_written(struct lives *l, int v, int now)
{
    life_touch(&l->grad[v], now);
    l->grad_made[v] = l->grad_made[v] < 0 ? now : l->grad_made[v];
    l->grad_changed[v] = now;
}

/* An aggregate cannot add to a gradient that is there: it writes a fresh one, which is then added. */
static struct life *aggregate_grad(struct lives *l, int i, int k)
{
    int in = l->program->op[i].in[k];
    if (in < 0 || !l->program->value[in].needs_grad) {
        return NULL;
    }
    return l->grad_made[in] >= 0 ? &l->temp[i][k] : &l->grad[in];
}

/* backward_begin is the last to read the output and some kept arrays. */
static void aggregate_begins(struct lives *l, int i, int now)
{
    const struct op *op = &l->program->op[i];
    life_touch(&l->grad[op->out], now);
    if (op_keeps_out(l->program, op)) {
        value_read(l, op->out, now);
    }
    for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
        life_touch(&l->kept[i][k], now);
    }
    for (int k = 0; k < OP_N_IN; k++) {
        struct life *grad = aggregate_grad(l, i, k);
        if (grad != NULL && aggregate_defs[op->aggregate].begin_grad_in[k]) {
            life_touch(grad, now);
        }
    }
}

static void aggregate_backward(struct lives *l, int i, int now)
{
    const struct op *op = &l->program->op[i];
    const struct aggregate_def *def = &aggregate_defs[op->aggregate];
    bool begun = def->backward_begin != NULL;
    if (op_keeps_out(l->program, op) && !begun) {
        value_read(l, op->out, now);
    }
    for (int k = 0; k < (begun ? def->n_kept_round : AGGREGATE_N_KEPT); k++) {
        life_touch(&l->kept[i][k], now);
    }
    for (int k = 0; k < OP_N_IN; k++) {
        struct life *grad = aggregate_grad(l, i, k);
        if (grad != NULL) {
            life_touch(grad, now);
            grad_written(l, op->in[k], now);
        }
    }
}

static void dense_backward(struct lives *l, int i, int now)
{
    const struct op *op = &l->program->op[i];
    if (op_keeps_out(l->program, op)) {
        value_read(l, op->out, now);
    }
    life_touch(&l->kept[i][0], now);
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] >= 0 && l->program->value[op->in[k]].needs_grad) {
            grad_written(l, op->in[k], now);
        }
    }
}

static void op_backward(struct lives *l, int i, int now)
{
    const struct op *op = &l->program->op[i];
    life_touch(&l->grad[op->out], now);
    for (int k = 0; k < OP_N_IN; k++) {
        if (op_keeps_in(l->program, op, k)) {
            value_read(l, op->in[k], now);
        }
    }
    life_begin(&l->room[i][MEMORY_ROOM_BACKWARD], now);
    (op->kind == OP_KIND_AGGREGATE ? aggregate_backward : dense_backward)(l, i, now);
}

static void ops_run(struct lives *l, bool is_static)
{
    for (int i = 0; i < l->program->n_op; i++) {
        if (l->program->op[i].is_static == is_static) {
            op_runs(l, i, liveness_time_forward(l->program, i));
        }
    }
}

static void epoch_lives(struct lives *l)
{
    ops_run(l, true);
    ops_run(l, false);
    /* Logits are read after the evaluation, until the next epoch begins. */
    value_read(l, l->program->logits, time_loss(l));
    grad_written(l, l->program->logits, time_loss(l));
    life_touch(l->score, time_loss(l));
    for (int i = 0; i < l->program->n_op; i++) { /* what all parts said, the loss may ask for */
        if (op_defs[l->program->op[i].kind].global != NULL) {
            life_touch(&l->kept[i][0], time_loss(l));
        }
    }
    for (int s = 0; s < l->plan->n_step; s++) {
        const struct memory_step *step = &l->plan->step[s];
        static void (*const steps[])(struct lives *, int, int) = {
            [MEMORY_STEP_AGAIN] = op_runs, [MEMORY_STEP_BEGIN] = aggregate_begins, [MEMORY_STEP_OP] = op_backward};
        steps[step->kind](l, step->op, liveness_time_step(l->program, s));
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
        if (!op_defs[op->kind].in_place || op->is_static || in == 0 || program->value[in].is_static ||
            program->value[in].is_sparse || program->value[out].width != program->value[in].width) {
            continue;
        }
        struct life *root = &l->value[l->value_root[in]];
        if (only_handed_over(root, &l->value[out])) {
            l->value_root[out] = l->value_root[in];
            life_join(root, &l->value[out]);
        }
    }
}

static int life_end(const struct life *life)
{
    return life->span[life->n_span - 1].last;
}

/* Do two values' gradients have the same rows and columns? */
static bool same_shape(const struct lives *l, int a, int b)
{
    const struct value *x = &l->program->value[a], *y = &l->program->value[b];
    int32_t n_level = l->plan->n_level;
    return x->width == y->width && (x->level == y->level || (x->level >= n_level && y->level >= n_level));
}

/* The gradient of in[k], first written by this op, may lie on that of out when nobody reads that any more; one that is only handed
 * on, and not changed later, also beside others that are only read. */
static void grad_share(struct lives *l, int i, int k, int now, int *class_end, int *class_changed)
{
    const struct op *op = &l->program->op[i];
    int in = op->in[k], root = l->grad_root[op->out];
    bool passes = op_passes_grad(op, k);
    if (in < 0 || l->grad_made[in] != now || (!passes && (k > 0 || !op_defs[op->kind].in_place)) ||
        !same_shape(l, in, op->out)) {
        return;
    }
    if (class_end[root] <= now || (passes && class_changed[root] <= now && l->grad_changed[in] == now)) {
        l->grad_root[in] = root;
        life_join(&l->grad[root], &l->grad[in]);
        class_end[root] = life_end(&l->grad[root]);
        class_changed[root] = l->grad_changed[in] > class_changed[root] ? l->grad_changed[in] : class_changed[root];
    }
}

static void grads_share(struct lives *l)
{
    int n_value = l->program->n_value;
    int *class_end = memory_alloc((size_t)(2 * n_value), sizeof *class_end), *class_changed = class_end + n_value;
    for (int v = 0; v < n_value; v++) {
        class_end[v] = l->grad[v].n_span > 0 ? life_end(&l->grad[v]) : -1;
        class_changed[v] = l->grad_changed[v];
    }
    for (int s = 0; s < l->plan->n_step; s++) {
        const struct memory_step *step = &l->plan->step[s];
        const struct op *op = &l->program->op[step->op];
        bool dense = step->kind == MEMORY_STEP_OP && op->kind != OP_KIND_AGGREGATE && op->in[0] != op->in[1];
        for (int k = OP_N_IN - 1; dense && k >= 0; k--) { /* the first last, as backward writes it last */
            grad_share(l, step->op, k, liveness_time_step(l->program, s), class_end, class_changed);
        }
    }
    free(class_end);
}

static void lives_open(const struct program *program, const struct memory_plan *plan, struct lives *l)
{
    int n_value = program->n_value, n_op = program->n_op;
    *l = (struct lives){.program = program, .plan = plan};
    l->n = 2 * n_value + n_op * (AGGREGATE_N_KEPT + OP_N_IN + MEMORY_ROOM_N) + 1;
    l->all = memory_alloc((size_t)l->n, sizeof *l->all);
    l->value = l->all;
    l->grad = l->value + n_value;
    l->kept = (void *)(l->grad + n_value);
    l->temp = (void *)(l->kept + n_op);
    l->room = (void *)(l->temp + n_op);
    l->score = (void *)(l->room + n_op);
    l->value_root = memory_alloc((size_t)(4 * n_value), sizeof *l->value_root);
    l->grad_root = l->value_root + n_value;
    l->grad_made = l->grad_root + n_value;
    l->grad_changed = l->grad_made + n_value;
    lives_size(l);
    epoch_lives(l);
    values_share(l);
    grads_share(l);
}

static void lives_close(struct lives *l)
{
    free(l->value_root);
    free(l->all);
}

/* Does this one take memory of its own? */
static bool is_placed(const struct lives *l, int i)
{
    int n_value = l->program->n_value;
    bool features = i % n_value == 0 && i < 2 * n_value; /* value 0 lies elsewhere and has no gradient */
    bool shares = i < 2 * n_value && l->value_root[i] != i % n_value;
    return l->all[i].n_span > 0 && l->all[i].n_bytes > 0 && !shares && !features;
}

int64_t liveness_load(const struct program *program, const struct memory_plan *plan, int64_t *out)
{
    struct lives l;
    lives_open(program, plan, &l);
    int n_time = liveness_n_time(program, plan);
    for (int t = 0; t < n_time; t++) {
        out[t] = 0;
    }
    for (int i = 0; i < l.n; i++) {
        for (int s = 0; is_placed(&l, i) && s < l.all[i].n_span; s++) {
            out[l.all[i].span[s].first] += l.all[i].n_bytes;
            if (l.all[i].span[s].last + 1 < n_time) {
                out[l.all[i].span[s].last + 1] -= l.all[i].n_bytes;
            }
        }
    }
    int64_t most = 0;
    for (int t = 0; t < n_time; t++) {
        out[t] += t > 0 ? out[t - 1] : 0;
        most = out[t] > most ? out[t] : most;
    }
    lives_close(&l);
    return most;
}

static int64_t place_of(const struct life *life)
{
    return life->n_span > 0 && life->n_bytes > 0 ? life->at : -1;
}

static void places_fill(const struct lives *l, struct memory_plan *plan)
{
    for (int v = 0; v < l->program->n_value; v++) {
        plan->value_at[v] = v > 0 ? place_of(&l->value[l->value_root[v]]) : -1;
        plan->grad_at[v] = v > 0 && l->program->value[v].needs_grad ? place_of(&l->grad[l->grad_root[v]]) : -1;
    }
    for (int i = 0; i < l->program->n_op; i++) {
        for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
            plan->kept_at[i][k] = place_of(&l->kept[i][k]);
        }
        for (int k = 0; k < OP_N_IN; k++) {
            plan->temp_at[i][k] = place_of(&l->temp[i][k]);
        }
        for (int k = 0; k < MEMORY_ROOM_N; k++) {
            plan->room[i][k].at = place_of(&l->room[i][k]);
        }
    }
    plan->score_room.at = place_of(l->score);
}

/* Ends of lives in the ops' forward runs and in backward's steps; logits are read outside of both. */
static void endings_fill(const struct lives *l, struct memory_plan *plan)
{
    free(plan->ending);
    plan->ending = memory_alloc((size_t)l->n * LIFE_N_SPAN, sizeof *plan->ending);
    plan->n_ending = 0;
    for (int i = 0; i < l->n; i++) {
        for (int s = 0; is_placed(l, i) && s < l->all[i].n_span; s++) {
            int last = l->all[i].span[s].last;
            if (last != time_loss(l) && last != time_end(l)) {
                plan->ending[plan->n_ending++] = (struct memory_ending){
                    .time = last, .at = l->all[i].at, .n_bytes = l->all[i].n_bytes};
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
            placed[n_placed++] = &l.all[i];
        }
    }
    plan->n_arena_bytes = arena_place(placed, n_placed);
    free(placed);
    if (plan->value_at == NULL) {
        plan->value_at = memory_alloc((size_t)program->n_value, sizeof *plan->value_at);
        plan->grad_at = memory_alloc((size_t)program->n_value, sizeof *plan->grad_at);
        plan->kept_at = memory_alloc((size_t)program->n_op, sizeof *plan->kept_at);
        plan->temp_at = memory_alloc((size_t)program->n_op, sizeof *plan->temp_at);
    }
    places_fill(&l, plan);
    endings_fill(&l, plan);
    lives_close(&l);
}
