#include "tests/support/executor_parts.h"

/* Are gradients of halo rows made, rather than these rows read? */
static bool makes(const struct step *step)
{
    return step->halo->direction == HALO_DIRECTION_RETURN;
}

/* Own edges, or where gradients are made the other way. */
static void diagonal_run(struct executor *x, const struct step *step, int i)
{
    int d = makes(step) ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    const struct executor_block *own = &x->part[i].block[d][i];
    struct op_call call = executor_call(x, step, &x->part[i]);
    call.block = &own->block;
    call.col_scale = own->col_scale[call.op->aggregate];
    call.col_node = own->payload_node;
    call.order.first = true;
    call.order.only = call.order.last = x->setup.n_part == 1;
    for (int k = 0; k < step->halo->n_piece; k++) {
        call.own[k] = call.payload[k] = call.array[step->halo->piece[k]];
    }
    step->halo->run(&call);
}

/* A role's rows of those that part i makes, behind so many. */
static float *rows_at(const struct executor *x, const struct op_call *call, enum op_role role, int64_t first)
{
    bool is_grad = role == OP_ROLE_GRAD_IN_0 || role == OP_ROLE_GRAD_IN_1;
    int value = call->op->in[role - (is_grad ? OP_ROLE_GRAD_IN_0 : OP_ROLE_IN_0)];
    float *rows = call->array[role];
    return rows != NULL ? rows + first * x->setup.program->value[value].width : NULL;
}

/* Part i's block with part j: halo rows of the values, or gradients of them. */
static void block_run(struct executor *x, const struct step *step, int i, int j, bool last)
{
    const struct halo_pass *halo = step->halo;
    struct executor_block *block = &x->part[i].block[PART_DIRECTION_IN][j];
    struct op_call call = executor_call(x, step, &x->part[i]);
    int64_t first = x->part[i].n_own + block->halo_row;
    call.block = &block->block;
    call.col_scale = block->col_scale[call.op->aggregate];
    call.col_node = block->payload_node;
    call.arg_base = block->arg_base;
    call.back.n_row = block->block.n_col;
    call.order.last = last;
    for (int k = 0; k < (makes(step) ? halo->n_ask : halo->n_piece); k++) {
        call.payload[k] = rows_at(x, &call, makes(step) ? halo->ask[k] : halo->piece[k], first);
    }
    if (makes(step)) {
        x->ops->block_transpose(x->device, &block->block, x->part[i].n_own, x->picked[1], &x->block[1]);
        call.block = &x->block[1];
        call.back.packed = rows_at(x, &call, OP_ROLE_GRAD_IN_0, first);
        call.back.packed_key = rows_at(x, &call, OP_ROLE_GRAD_IN_1, first);
        halo->pack(&call);
        return;
    }
    halo->run(&call);
}

void executor_halo_stored(struct executor *x, const struct step *step, int i)
{
    diagonal_run(x, step, i);
    for (int s = 1; s < x->setup.n_part; s++) {
        block_run(x, step, i, (i + s) % x->setup.n_part, s + 1 == x->setup.n_part);
    }
}
