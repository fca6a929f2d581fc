/* What becomes of the gradients that an aggregate's rounds made: fresh ones join others, short ones go on as zeros. */
#include "worker/run/round_state.h"
#include "worker/spill/hold.h"

/* Rows of its k-th input to which an aggregate gives a gradient: sources, or the rows themselves. */
static int64_t rows_made(const struct trainer *t, const struct op *op, int k, int32_t i)
{
    int32_t level = t->program.value[op->out].level;
    return trainer_rows(t, k < 2 ? program_level_before(level) : level, i);
}

void round_grads_end(struct trainer *t, int op, int32_t i)
{
    const struct op *what = &t->program.op[op];
    for (int k = 0; k < OP_N_IN; k++) {
        if (what->in[k] >= 0 && t->program.value[what->in[k]].needs_grad && !t->add[op][k]) {
            trainer_grad_end(t, what->in[k], rows_made(t, what, k, i), i);
        }
    }
}

enum status round_grads_add(struct trainer *t, int op)
{
    const struct op *what = &t->program.op[op];
    struct hold hold = hold_open(t);
    uses_join(&t->program, &t->plan, op, &hold.uses);
    while (hold.uses.n > 0 && hold_next(&hold)) {
        int32_t i = hold.part;
        for (int k = 0; k < OP_N_IN; k++) {
            if (!t->add[op][k] || !t->program.value[what->in[k]].needs_grad) {
                continue;
            }
            float *grad = trainer_grad(t, what->in[k], i);
            int64_t n_value = rows_made(t, what, k, i) * t->program.value[what->in[k]].width;
            t->ops->axpby(t->device, n_value, 1.0F, grad, 1.0F, trainer_temp(t, op, k, i), grad);
        }
    }
    return hold.status;
}
