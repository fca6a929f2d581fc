/* Bytes of every array in the arena. */
#include "models/device/codec.h"
#include "worker/plan/liveness.h"

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

static int64_t row_bytes(bool bf16, int64_t n_row, int64_t width)
{
    return n_row * codec_row_bytes(bf16 ? DEVICE_CODEC_BF16 : DEVICE_CODEC_FP32, width);
}

static int64_t value_bytes(const struct program *program, const struct memory_plan *plan, int v)
{
    const struct value *value = &program->value[v];
    int32_t hop = value->hop == PROGRAM_HOP_HALO ? PROGRAM_HOP_HALO : PROGRAM_HOP_ALL;
    return value->is_sparse ? memory_plan_values(plan, hop) * (int64_t)sizeof(float)
                            : row_bytes(value->is_bf16, memory_plan_rows(plan, hop), value->width);
}

static int64_t gradient_bytes(const struct program *program, const struct memory_plan *plan, int v, bool bf16)
{
    const struct value *value = v >= 0 ? &program->value[v] : NULL;
    return v >= 0 ? row_bytes(bf16 && value->grad_is_bf16, memory_plan_rows(plan, value->hop), value->width) : 0;
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
        return gradient_bytes(program, plan, index, true);
    case STEP_ARRAY_SAVED:
        return row_bytes(false, plan->rows.n_row, op_saved_width(program, &program->op[index], k));
    case STEP_ARRAY_FRESH:
        return gradient_bytes(program, plan, program->op[index].in[k], false);
    case STEP_ARRAY_STATISTICS:
        return statistics_bytes(program, &program->op[index]);
    case STEP_ARRAY_WORKSPACE:
        return memory_workspace_bytes(index >= 0 ? &plan->workspace[index][k] : &plan->loss_workspace);
    default:
        return 0;
    }
}
