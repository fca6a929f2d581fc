/* Which arrays of a program in BF16 are stored so, and which in float32.
 *
 * Row-local ops compute in float32 on windows of rows (models/steps/chain.h): what they read is widened, and what
 * they write is rounded. All others (aggregates, sums over all rows, products of sparse features, the loss) read and
 * write whole parts in float32; but sums over neighbours read their rows as BF16. What those others make is cast
 * before it is kept. Narrow rows stay float32: attention's scores, norms. Inputs that parts store, with their halo
 * rows, are made on no windows: float32 rows, rounded, so that what is stored where changes no bit.
 */
#include "models/program/op.h"

#define WIDTH_MIN 8

/* Does it run on windows, and never on all rows? */
static bool is_windowed(const struct program *program, const struct op *op)
{
    return op_is_row_local(program, op) && op_defs[op->kind]->global == NULL;
}

/* Does it make inputs whose halo rows each part makes for itself? */
static bool makes_stored(const struct program *program, const struct op *op)
{
    const struct value *out = &program->value[op->out];
    return op->kind == OP_KIND_ACTIVATE && out->hop == PROGRAM_HOP_HALO && !out->is_sparse && !out->needs_grad;
}

static bool is_sum(const struct op *op)
{
    return op->kind == OP_KIND_AGGREGATE && aggregate_defs[op->aggregate]->is_linear;
}

static bool reads(const struct op *op, int value)
{
    bool any = false;
    for (int k = 0; k < OP_N_IN; k++) {
        any = any || op->in[k] == value;
    }
    return any;
}

bool program_casts(const struct program *program, const struct op *op)
{
    bool maps_sparse = op->in[0] >= 0 && program->value[op->in[0]].is_sparse && !program->value[op->out].is_sparse;
    return program->precision == JOB_PRECISION_BF16 && (op->kind == OP_KIND_AGGREGATE || maps_sparse);
}

void program_precision(struct program *program)
{
    if (program->precision != JOB_PRECISION_BF16) {
        return;
    }
    for (int i = 0; i < program->n_op; i++) {
        const struct op *maker = &program->op[i];
        struct value *value = &program->value[maker->out];
        bool wide = value->width >= WIDTH_MIN && maker->out != program->logits && maker->out != program->kept;
        value->is_rounded = wide && makes_stored(program, maker);
        value->is_bf16 = wide && is_windowed(program, maker);
        value->grad_is_bf16 = wide && (is_windowed(program, maker) || is_sum(maker));
        for (int r = 0; r < program->n_op; r++) {
            const struct op *reader = &program->op[r];
            if (reads(reader, maker->out)) {
                bool widens = is_windowed(program, reader) || is_sum(reader);
                value->is_rounded = value->is_rounded && widens;
                value->is_bf16 = value->is_bf16 && widens;
                value->grad_is_bf16 = value->grad_is_bf16 && is_windowed(program, reader);
            }
        }
    }
}
