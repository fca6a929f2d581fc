/* What becomes of the gradients that an aggregate's passes made: fresh ones join others, short ones go on as
 * zeros. */
#include "worker/halo/halo_state.h"
#include "worker/state/pin.h"

/* Rows of its k-th input to which an aggregate gives a gradient: sources, or the rows themselves. */
static int64_t rows_made(const struct trainer *t, const struct op *op, int k, int32_t i)
{
    int32_t hop = t->program.value[op->out].hop;
    return trainer_rows(t, k < 2 ? program_hop_before(hop) : hop, i);
}

void halo_gradients_end(const struct trainer *t, const struct step *step, int32_t i)
{
    for (int k = 0; k < OP_N_IN; k++) {
        const struct step_operand *grad = step_operand(step, (enum op_role)(OP_ROLE_GRAD_IN_0 + k));
        if (grad != NULL && grad->array == STEP_ARRAY_GRAD) {
            int32_t hop = grad->hop == PROGRAM_HOP_HALO ? PROGRAM_HOP_ALL
                                                        : grad->hop; /* of halo rows all are there */
            trainer_grad_end(t, grad, rows_made(t, &t->program.op[step->op], k, i), trainer_rows(t, hop, i), i);
        }
    }
}

/* dx_k += fresh dx_k */
enum status halo_join(struct trainer *t, const struct step *step)
{
    struct pin pin = pin_open(t, step, PIN_USE_RUNNING);
    while (pin_next(&pin)) {
        for (int k = 0; k < OP_N_IN; k++) {
            const struct step_operand *fresh = step_operand(step, (enum op_role)(OP_ROLE_GRAD_IN_0 + k));
            if (fresh == NULL) {
                continue;
            }
            float *grad = trainer_operand(t, step_operand(step, (enum op_role)(OP_ROLE_IN_0 + k)), pin.part);
            int64_t n = rows_made(t, &t->program.op[step->op], k, pin.part) * step_operand_width(&t->program, fresh);
            t->ops->axpby(t->device, n, 1.0F, NULL, grad, 1.0F, trainer_operand(t, fresh, pin.part), grad);
        }
    }
    return pin.status;
}
