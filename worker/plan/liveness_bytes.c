/* Bytes of every array in the arena. */
#include "worker/plan/liveness.h"

/* Arrays of rows are whole lines as they are: their rows come in sixteens. */
#define ARENA_ALIGN 64

/* Of an array of rows, which has the rows of a hop. */
static int64_t rows_bytes(const struct program *program, const struct memory_plan *plan,
                          const struct step_operand *array, int32_t hop)
{
    return memory_plan_rows(plan, hop) * step_operand_row_bytes(program, array);
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
    const struct step_operand rows = {.array = array, .index = index, .k = k};
    switch (array) {
    case STEP_ARRAY_VALUE: {
        int32_t hop = program->value[index].hop == PROGRAM_HOP_HALO ? PROGRAM_HOP_HALO : PROGRAM_HOP_ALL;
        return program->value[index].is_sparse ? memory_plan_values(plan, hop) * (int64_t)sizeof(float)
                                               : rows_bytes(program, plan, &rows, hop);
    }
    case STEP_ARRAY_GRAD:
        return rows_bytes(program, plan, &rows, program->value[index].hop);
    case STEP_ARRAY_SAVED:
        return rows_bytes(program, plan, &rows, PROGRAM_HOP_ALL);
    case STEP_ARRAY_FRESH: {
        int in = program->op[index].in[k];
        return in >= 0 ? rows_bytes(program, plan, &rows, program->value[in].hop) : 0;
    }
    case STEP_ARRAY_STATISTICS:
        return statistics_bytes(program, &program->op[index]);
    case STEP_ARRAY_WORKSPACE:
        return memory_workspace_bytes(index >= 0 ? &plan->workspace[index][k] : &plan->loss_workspace);
    default:
        return 0;
    }
}
