/* From a step's operands to memory: where each array of an own part lies, and an op's call with all of them in their
 * roles. */
#include "worker/state/embeddings.h"
#include "worker/state/trainer_state.h"

static void *arena_at(const struct trainer *t, const struct step_operand *o, int64_t n_bytes)
{
    int64_t at = memory_plan_at(&t->plan, &t->program, o->array, o->index, o->k);
    return at >= 0 ? t->memory.arena + at + n_bytes : NULL;
}

/* Own part i's rows of an array that has the rows of the operand's hop. */
static void *rows_at(const struct trainer *t, const struct step_operand *o, int32_t i)
{
    return arena_at(t, o, memory_plan_row_begin(&t->plan, o->hop, i) * step_operand_row_bytes(&t->program, o));
}

/* What operations read alone: operands have one type. */
static void *read_at(const void *array)
{
    return (void *)(uintptr_t)array;
}

static void *value_at(const struct trainer *t, const struct step_operand *o, int32_t i)
{
    bool sparse = t->program.value[o->index].is_sparse;
    if (o->index == 0) {
        return sparse ? NULL : read_at(t->own.part[i].features);
    }
    return sparse ? arena_at(t, o, memory_plan_value_begin(&t->plan, o->hop, i) * (int64_t)sizeof(float))
                  : rows_at(t, o, i);
}

void *trainer_operand(const struct trainer *t, const struct step_operand *o, int32_t i)
{
    const struct part_device *part = &t->own.part[i];
    switch (o->array) {
    case STEP_ARRAY_VALUE:
        return value_at(t, o, i);
    case STEP_ARRAY_GRAD:
    case STEP_ARRAY_FRESH:
    case STEP_ARRAY_SAVED:
        return rows_at(t, o, i);
    case STEP_ARRAY_STATISTICS:
    case STEP_ARRAY_WORKSPACE:
        return arena_at(t, o, 0);
    case STEP_ARRAY_PARAMETER:
        return t->parameters.weights + t->program.param[o->index].offset;
    case STEP_ARRAY_GRAD_PARAMETER:
        return trainer_gradients(t, i) + t->program.param[o->index].offset;
    case STEP_ARRAY_EMBEDDING:
        return embeddings_at(t, t->parameters.embeddings.weights, o->index, i);
    case STEP_ARRAY_GRAD_EMBEDDING:
        return embeddings_at(t, t->parameters.embeddings.gradients, o->index, i);
    case STEP_ARRAY_SUM:
        return o->index < 0 ? trainer_sums(t, i) : trainer_global(t, i);
    case STEP_ARRAY_CSR:
        return read_at(o->hop == PROGRAM_HOP_HALO ? &part->csr_halo : &part->csr);
    case STEP_ARRAY_NODE:
        return read_at(part->node);
    case STEP_ARRAY_LABELS:
        return read_at(&part->labels);
    case STEP_ARRAY_SCALE:
        return read_at(part->scale);
    default:
        return NULL; /* blocks come one by one */
    }
}

const float *trainer_value(const struct trainer *t, int value, int32_t i)
{
    const struct step_operand operand = {.array = STEP_ARRAY_VALUE, .index = value, .hop = PROGRAM_HOP_ALL};
    return trainer_operand(t, &operand, i);
}

struct op_call trainer_call(const struct trainer *t, const struct step *step, int32_t i)
{
    const struct op *op = &t->program.op[step->op];
    bool aggregate = op->kind == OP_KIND_AGGREGATE;
    struct op_call call = {
        .device = t->device,
        .program = &t->program,
        .op = op,
        .n = trainer_rows(t, t->program.value[op->out].hop, i),
        .f = t->program.value[op->in[0]].width,
        .pass.own_bf16 = aggregate &&
                         halo_role_is_bf16(&t->program, op, step->backward ? OP_ROLE_GRAD_OUT : OP_ROLE_IN_0),
        .training = t->run.training,
        .tentative = t->run.tentative,
        .now = t->memory.now,
        .key = {.seed = (uint64_t)t->setup.job->train.seed,
                .op = (uint16_t)step->op,
                .stream = aggregate ? RANDOM_STREAM_EDGE : RANDOM_STREAM_DROPOUT}};
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        call.array[o->role] = trainer_operand(t, o, i);
        if (o->role >= OP_ROLE_GRAD_IN_0 && o->role <= OP_ROLE_GRAD_IN_2) {
            call.add[o->role - OP_ROLE_GRAD_IN_0] = o->access == STEP_ACCESS_UPDATE;
        }
        if (o->array == STEP_ARRAY_GRAD_PARAMETER) {
            call.add_param[o->role - OP_ROLE_GRAD_PARAM_0] = o->access == STEP_ACCESS_UPDATE;
        }
    }
    return call;
}

int64_t trainer_rows(const struct trainer *t, int32_t hop, int32_t i)
{
    const struct part *part = t->own.part[i].part;
    return hop == PROGRAM_HOP_HALO ? part->n_own + part->n_halo
                                   : part_rows_own(part, t->run.training ? hop : PROGRAM_HOP_ALL);
}

void trainer_grad_end(const struct trainer *t, const struct step_operand *grad, int64_t n_row, int64_t end, int32_t i)
{
    int64_t row_bytes = step_operand_row_bytes(&t->program, grad), n_rest = end - n_row;
    if (n_rest > 0) {
        char *rows = trainer_operand(t, grad, i);
        t->ops->fill_zero(t->device, rows + n_row * row_bytes, (size_t)(n_rest * row_bytes));
    }
}

float *trainer_gradients(const struct trainer *t, int32_t i)
{
    return (float *)(void *)(t->parameters.gradients + i * t->plan.reduced.n_gradient_bytes);
}

double *trainer_sums(const struct trainer *t, int32_t i)
{
    return (double *)(void *)(trainer_gradients(t, i) + (t->program.forward_only ? 0 : t->program.n_weight));
}

double *trainer_global(const struct trainer *t, int32_t i)
{
    return (double *)(void *)(t->parameters.globals + i * t->plan.reduced.n_global_bytes);
}
