#include "tests/support/executor_parts.h"

/* Own edges: forward, or backward the other way. */
static void diagonal_run(struct executor *x, const struct step *step, int i)
{
    int d = step->backward ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    const struct executor_block *own = &x->part[i].block[d][i];
    const struct step_operand *rows = step_operand(step, step->halo->piece[0]);
    struct op_call call = executor_call(x, step, &x->part[i]);
    call.block = &own->block;
    call.col_scale = own->col_scale[call.op->aggregate];
    call.col_node = own->payload_node;
    call.first = true;
    call.only = call.last = x->setup.n_part == 1;
    call.own[0] = call.payload[0] = executor_operand_at(x, rows, &x->part[i]);
    step->halo->run(&call);
}

/* Part i's block with part j: halo rows of the value, or gradients of them. */
static void block_run(struct executor *x, const struct step *step, int i, int j, bool last)
{
    struct executor_block *block = &x->part[i].block[PART_DIRECTION_IN][j];
    struct op_call call = executor_call(x, step, &x->part[i]);
    int64_t first = (x->part[i].n_own + block->halo_row) * call.f;
    call.block = &block->block;
    call.col_scale = block->col_scale[call.op->aggregate];
    call.col_node = block->payload_node;
    call.arg_base = block->arg_base;
    call.n_row = block->block.n_col;
    call.last = last;
    if (step->backward) {
        x->ops->block_transpose(x->device, &block->block, x->part[i].n_own, x->picked[1], &x->block[1]);
        call.block = &x->block[1];
        call.packed = call.grad_in[0] + first;
        step->halo->pack(&call);
        return;
    }
    call.own[0] = executor_operand_at(x, step_operand(step, step->halo->piece[0]), &x->part[i]);
    call.payload[0] = call.own[0] + first;
    step->halo->run(&call);
}

void executor_halo_stored(struct executor *x, const struct step *step, int i)
{
    diagonal_run(x, step, i);
    for (int s = 1; s < x->setup.n_part; s++) {
        block_run(x, step, i, (i + s) % x->setup.n_part, s + 1 == x->setup.n_part);
    }
}
