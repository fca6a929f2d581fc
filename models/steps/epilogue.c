#include "models/steps/epilogue.h"

#include "models/steps/chain.h"
#include "protocol/base/log.h"

#include <string.h>

/* Where the op stands among those behind a sum: a cast, a bias, an activation; 0: nowhere. Activations that need
 * double numbers would take the registers of sums. */
static int place_of(const struct op *op)
{
    bool simple = op->activation <= DEVICE_ACTIVATION_RELU || op->activation == DEVICE_ACTIVATION_LEAKY_RELU;
    return op->kind == OP_KIND_BIAS ? 2 : op->kind != OP_KIND_ACTIVATE || !simple ? 0 : op_is_cast(op) ? 1 : 3;
}

static int n_reader(const struct step_list *list, int value)
{
    int n = 0;
    for (int s = 0; s < list->n_step; s++) {
        for (int k = 0; k < list->step[s].n_operand; k++) {
            const struct step_operand *o = &list->step[s].operand[k];
            n += o->array == STEP_ARRAY_VALUE && o->index == value && o->access != STEP_ACCESS_WRITE;
        }
    }
    return n;
}

/* The pass's operand OUT becomes that of the steps behind it, as long as these fit: `place`, of the last one. */
static void pass_take(const struct program *program, struct step_list *list, struct step *pass, int most)
{
    const struct step *step = pass + 1, *end = list->step + list->n_step;
    struct step_operand *out = &pass->operand[step_operand(pass, OP_ROLE_OUT) - pass->operand];
    for (int place = 0; step < end && step->kind == STEP_KIND_FORWARD && pass->n_epilogue < most; step++) {
        const struct op *op = &program->op[step->op];
        if (op->in[0] != out->index || place_of(op) <= place || n_reader(list, out->index) > 1 ||
            program->value[op->out].hop != program->value[out->index].hop) {
            break;
        }
        out->index = op->out;
        if (op->kind == OP_KIND_BIAS) {
            ASSERT(pass->n_operand < STEP_N_OPERAND);
            pass->operand[pass->n_operand++] = *step_operand(step, OP_ROLE_PARAM_0);
        }
        place = place_of(op);
        pass->epilogue[pass->n_epilogue++] = step->op;
    }
    list->n_step -= pass->n_epilogue;
    memmove(pass + 1, step, (size_t)(end - step) * sizeof *step);
}

void epilogue_take(const struct program *program, struct step_lists *lists, int op)
{
    int most = STEP_N_EPILOGUE; /* an evaluation has the arrays of training */
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        struct step_list *list = &lists->phase[phase];
        for (int s = 0; s < list->n_step; s++) {
            struct step *step = &list->step[s];
            if (step->kind == STEP_KIND_HALO && step->op == op && !step->backward) {
                pass_take(program, list, step, most);
                most = step->n_epilogue;
            }
        }
    }
}

static bool is_gradient(const struct step_operand *operand, int value)
{
    return operand->array == STEP_ARRAY_GRAD && operand->index == value;
}

/* Does the step multiply the gradient by weights, in the chain that begins with `first`, whose rows the device takes
 * as they lie? */
static bool multiplies(const struct program *program, const struct step *first, const struct step *step, int value)
{
    const struct op *op = &program->op[step->op];
    bool all = step->kind == STEP_KIND_BACKWARD && op->kind == OP_KIND_LINEAR && op->out == value && op->param[1] < 0;
    for (int k = 0; k < first->n_chain; k++) {
        all = all && chain_takes_bf16(program, &first[k]);
    }
    return all;
}

/* Does the op's backward pass alone make the gradient of its input, and do only products read it? */
static bool only_products_read(const struct program *program, const struct step_list *list, int op)
{
    const int value = program->op[op].in[0];
    const struct step *first = list->step; /* of the chain at work */
    bool all = program->value[value].is_bf16;
    for (int s = 0; s < list->n_step; s++) {
        const struct step *step = &list->step[s];
        first = step->n_chain > 0 ? step : first;
        for (int k = 0; k < step->n_operand && all; k++) {
            const struct step_operand *o = &step->operand[k];
            bool made = step->kind == STEP_KIND_HALO && step->op == op && o->access == STEP_ACCESS_WRITE;
            bool read = o->access == STEP_ACCESS_READ && multiplies(program, first, step, value);
            all = !is_gradient(o, value) || made || read;
        }
    }
    return all;
}

void epilogue_round(const struct program *program, struct step_lists *lists, int op)
{
    struct step_list *list = &lists->phase[STEP_PHASE_TRAIN];
    bool rounds = only_products_read(program, list, op);
    for (int s = 0; s < list->n_step && rounds; s++) {
        for (int k = 0; k < list->step[s].n_operand; k++) {
            struct step_operand *o = &list->step[s].operand[k];
            o->element = is_gradient(o, program->op[op].in[0]) ? STEP_ELEMENT_BF16 : o->element;
        }
    }
}

struct device_epilogue epilogue_make(const struct step *pass, const struct op_call *call)
{
    const struct step_operand *grad = step_operand(pass, OP_ROLE_GRAD_IN_0);
    const bool rounds = grad != NULL && grad->element == STEP_ELEMENT_BF16;
    struct device_epilogue out = {.is_there = pass->n_epilogue > 0 || rounds,
                                  .is_bf16 = rounds,
                                  .activate = {.now = call->now, .node = call->node, .key = call->key}};
    out.activate.key.stream = RANDOM_STREAM_DROPOUT;
    for (int k = 0; k < pass->n_epilogue; k++) {
        const struct op *op = &call->program->op[pass->epilogue[k]];
        *(out.bias != NULL ? &out.rounds_biased : &out.rounds_sum) = out.is_bf16;
        out.is_bf16 = call->program->value[op->out].is_bf16;
        if (op->kind == OP_KIND_BIAS) {
            out.bias = call->param[0];
        } else {
            out.activate.activation = op->activation;
            out.activate.p = call->training ? op->dropout : 0.0;
            out.activate.key.op = (uint16_t)pass->epilogue[k];
        }
    }
    return out;
}
