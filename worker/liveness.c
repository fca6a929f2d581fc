#include "worker/liveness.h"

#include "protocol/log.h"
#include "protocol/memory.h"

#include <stdlib.h>

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

/* One array of the arena: alive from `first` to `last`, both included. */
struct life {
    int64_t n_bytes;
    int first, last;
    int64_t at;
};

struct times {
    int n_op;
};

static int time_static(int op)
{
    return op;
}

static int time_forward(const struct times *t, int op)
{
    return t->n_op + op;
}

static int time_loss(const struct times *t)
{
    return 2 * t->n_op;
}

static int time_backward(const struct times *t, int op)
{
    return 3 * t->n_op - op;
}

static int time_end(const struct times *t)
{
    return 3 * t->n_op + 1;
}

static void life_touch(struct life *life, int at)
{
    if (life->first < 0 || at < life->first) {
        life->first = at;
    }
    if (at > life->last) {
        life->last = at;
    }
}

static bool op_has_backward(const struct program *program, const struct op *op)
{
    return program->value[op->out].needs_grad;
}

/* Lives of values: from the op that makes them to the last that reads them, forward or backward. */
static void values_live(const struct program *program, const struct times *t, struct life *life)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        int now = op->is_static ? time_static(i) : time_forward(t, i);
        life_touch(&life[op->out], now);
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] < 0) {
                continue;
            }
            /* What epochs read of the static phase stays for all of them. */
            bool stays = program->value[op->in[k]].is_static && !op->is_static;
            life_touch(&life[op->in[k]], stays ? time_end(t) : now);
            if (op_has_backward(program, op) && op_keeps_in(program, op, k)) {
                life_touch(&life[op->in[k]], time_backward(t, i));
            }
        }
        if (op_has_backward(program, op) && op_keeps_out(program, op)) {
            life_touch(&life[op->out], time_backward(t, i));
        }
    }
    /* Logits are read after the evaluation, until the next epoch begins. */
    life_touch(&life[program->logits], program->value[program->logits].is_static ? time_end(t) : time_loss(t));
}

/* out may lie on in[0] when in[0]'s life ends with the op that makes out. */
static void values_share(const struct program *program, const struct times *t, struct life *life, int *root)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        int in = op->in[0];
        if (!op_defs[op->kind].in_place || op->is_static || in == 0 || program->value[in].is_static ||
            program->value[in].is_sparse || program->value[op->out].width != program->value[in].width) {
            continue;
        }
        int r = root[in];
        if (life[in].last == time_forward(t, i) && life[r].last == time_forward(t, i)) {
            root[op->out] = r;
            life_touch(&life[r], life[op->out].last);
        }
    }
}

/* Lives of gradients: from the last op that reads the value (the first to write its gradient) to the op that made it. */
static void grads_live(const struct program *program, const struct times *t, struct life *life, int *root)
{
    life_touch(&life[program->logits], time_loss(t));
    for (int i = program->n_op - 1; i >= 0; i--) {
        const struct op *op = &program->op[i];
        if (!op_has_backward(program, op)) {
            continue;
        }
        int now = time_backward(t, i);
        life_touch(&life[root[op->out]], now);
        for (int k = 0; k < OP_N_IN; k++) {
            int in = op->in[k];
            if (in < 0 || !program->value[in].needs_grad) {
                continue;
            }
            bool fresh = life[in].first < 0 && root[in] == in;
            if (fresh && k == 0 && op->in[1] < 0 && op_defs[op->kind].in_place &&
                program->value[in].width == program->value[op->out].width) {
                root[in] = root[op->out];
            }
            life_touch(&life[root[in]], now);
        }
    }
}

/* Place arrays largest first, each at the lowest address where no array alive at the same time lies. */
static int64_t arena_place(struct life **life, int n)
{
    int64_t end = 0;
    for (int i = 1; i < n; i++) {
        struct life *one = life[i];
        int k = i;
        for (; k > 0 && life[k - 1]->n_bytes < one->n_bytes; k--) {
            life[k] = life[k - 1];
        }
        life[k] = one;
    }
    for (int i = 0; i < n; i++) {
        int64_t at = 0;
        for (int k = 0; k < i; k++) {
            bool meet = life[k]->first <= life[i]->last && life[i]->first <= life[k]->last;
            if (meet && at < life[k]->at + life[k]->n_bytes && life[k]->at < at + life[i]->n_bytes) {
                at = life[k]->at + life[k]->n_bytes;
                k = -1; /* look again from the start: a lower one may now be in the way */
            }
        }
        life[i]->at = at;
        end = at + life[i]->n_bytes > end ? at + life[i]->n_bytes : end;
    }
    return end;
}

static int64_t *places_alloc(int n)
{
    int64_t *at = memory_alloc((size_t)n, sizeof *at);
    for (int i = 0; i < n; i++) {
        at[i] = -1;
    }
    return at;
}

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

/* Kept arrays of ops, and gradients of aggregates that cannot be written straight to where they are added. */
static void ops_live(const struct program *program, const struct memory_plan *plan, const struct times *t,
                     struct life (*kept)[AGGREGATE_N_KEPT], struct life (*temp)[OP_N_IN])
{
    bool *written = memory_alloc((size_t)program->n_value, sizeof *written);
    for (int i = program->n_op - 1; i >= 0; i--) {
        const struct op *op = &program->op[i];
        for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
            kept[i][k].n_bytes = kept_bytes(program, plan, op, k);
            if (kept[i][k].n_bytes > 0) {
                life_touch(&kept[i][k], op->is_static ? time_static(i) : time_forward(t, i));
                bool told = op_defs[op->kind].global != NULL; /* what all parts said, the loss may ask for */
                life_touch(&kept[i][k], told ? time_loss(t) : kept[i][k].first);
                life_touch(&kept[i][k], op_has_backward(program, op) ? time_backward(t, i) : kept[i][k].last);
            }
        }
        for (int k = 0; op_has_backward(program, op) && k < OP_N_IN; k++) {
            int in = op->in[k];
            if (in < 0) {
                continue;
            }
            if (op->kind == OP_KIND_AGGREGATE && program->value[in].needs_grad && written[in]) {
                temp[i][k].n_bytes = plan->n_row * program->value[in].width * (int64_t)sizeof(float);
                life_touch(&temp[i][k], time_backward(t, i));
            }
            written[in] = true;
        }
    }
    free(written);
}

void liveness_place(const struct program *program, struct memory_plan *plan)
{
    struct times t = {.n_op = program->n_op};
    int n_value = program->n_value, n_op = program->n_op;
    /* values, gradients, then per op what it keeps and its fresh gradients */
    int kept_first = 2 * n_value, temp_first = kept_first + n_op * AGGREGATE_N_KEPT, n = temp_first + n_op * OP_N_IN;
    struct life *life = memory_alloc((size_t)n, sizeof *life);
    int *root = memory_alloc((size_t)(2 * n_value), sizeof *root);
    for (int i = 0; i < n; i++) {
        life[i] = (struct life){.first = -1, .last = -1};
    }
    for (int v = 0; v < n_value; v++) {
        const struct value *value = &program->value[v];
        life[v].n_bytes = (value->is_sparse ? plan->n_sparse_value : plan->n_row * value->width) * (int64_t)sizeof(float);
        life[n_value + v].n_bytes = plan->n_row * value->width * (int64_t)sizeof(float);
        root[v] = root[n_value + v] = v;
    }
    values_live(program, &t, life);
    values_share(program, &t, life, root);
    grads_live(program, &t, life + n_value, root + n_value);
    struct life(*kept)[AGGREGATE_N_KEPT] = (struct life(*)[AGGREGATE_N_KEPT])(void *)(life + kept_first);
    struct life(*temp)[OP_N_IN] = (struct life(*)[OP_N_IN])(void *)(life + temp_first);
    ops_live(program, plan, &t, kept, temp);

    struct life **placed = memory_alloc((size_t)n, sizeof *placed);
    int n_placed = 0;
    for (int i = 1; i < n; i++) {
        bool shares = i < 2 * n_value && root[i] != i % n_value;
        if (life[i].first >= 0 && !shares && i != n_value) {
            placed[n_placed++] = &life[i];
        }
    }
    plan->n_arena_bytes = arena_place(placed, n_placed);
    free(placed);

    plan->value_at = places_alloc(n_value);
    plan->grad_at = places_alloc(n_value);
    plan->kept_at = memory_alloc((size_t)n_op, sizeof *plan->kept_at);
    plan->temp_at = memory_alloc((size_t)n_op, sizeof *plan->temp_at);
    for (int v = 1; v < n_value; v++) {
        plan->value_at[v] = life[root[v]].first >= 0 ? life[root[v]].at : -1;
        const struct life *grad = &life[n_value + root[n_value + v]];
        plan->grad_at[v] = program->value[v].needs_grad && grad->first >= 0 ? grad->at : -1;
    }
    for (int i = 0; i < n_op; i++) {
        for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
            plan->kept_at[i][k] = kept[i][k].first >= 0 ? kept[i][k].at : -1;
        }
        for (int k = 0; k < OP_N_IN; k++) {
            plan->temp_at[i][k] = temp[i][k].first >= 0 ? temp[i][k].at : -1;
        }
    }
    free(root);
    free(life);
}
