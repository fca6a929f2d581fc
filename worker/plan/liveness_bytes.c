/* Bytes of every array in the arena. */
#include "worker/plan/liveness.h"

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

static int64_t float_rows(int64_t n_row, int64_t width)
{
    return n_row * width * (int64_t)sizeof(float);
}

static int64_t value_bytes(const struct program *program, const struct memory_plan *plan, int v)
{
    const struct value *value = &program->value[v];
    int32_t hop = value->hop == PROGRAM_HOP_HALO ? PROGRAM_HOP_HALO : PROGRAM_HOP_ALL;
    return value->is_sparse ? memory_plan_values(plan, hop) * (int64_t)sizeof(float)
                            : float_rows(memory_plan_rows(plan, hop), value->width);
}

static int64_t gradient_bytes(const struct program *program, const struct memory_plan *plan, int v)
{
    return v >= 0 ? float_rows(memory_plan_rows(plan, program->value[v].hop), program->value[v].width) : 0;
}

static int64_t statistics_bytes(const struct program *program, const struct op *op)
{
    const struct global_def *global = op_defs[op->kind]->global;
    int64_t n = global != NULL ? global->n_statistics(program, op) * (int64_t)sizeof(double) : 0;
    return (n + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

int64_t liveness_bytes(const struct program *program, const struct memory_plan *plan, enum step_array array,
                       int index, int k)
{
    switch (array) {
    case STEP_ARRAY_VALUE:
        return value_bytes(program, plan, index);
    case STEP_ARRAY_GRAD:
        return gradient_bytes(program, plan, index);
    case STEP_ARRAY_SAVED:
        return float_rows(plan->rows.n_row, op_saved_width(program, &program->op[index], k));
    case STEP_ARRAY_FRESH:
        return gradient_bytes(program, plan, program->op[index].in[k]);
    case STEP_ARRAY_STATISTICS:
        return statistics_bytes(program, &program->op[index]);
    case STEP_ARRAY_WORKSPACE:
        return memory_workspace_bytes(index >= 0 ? &plan->workspace[index][k] : &plan->loss_workspace);
    default:
        return 0;
    }
}
