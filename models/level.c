/* How far from the training nodes a value's rows still count: walked from the logits to the features.
 *
 * Arithmetic on a program; which nodes are how far away, others know.
 */
#include "models/op.h"
#include "models/program.h"

int32_t program_level_before(int32_t level)
{
    return level == PROGRAM_LEVEL_ALL ? level : level + 1;
}

/* What op needs of in[k] when its output is needed up to `level`. */
static int32_t level_in(const struct op *op, int k, int32_t level)
{
    if (op->kind == OP_KIND_BATCH_NORM) {
        return PROGRAM_LEVEL_ALL;
    }
    return op->kind == OP_KIND_AGGREGATE && k < 2 ? program_level_before(level) : level;
}

void program_levels(struct program *program)
{
    for (int v = 0; v < program->n_value; v++) {
        program->value[v].level = 0;
    }
    for (int i = program->n_op - 1; i >= 0; i--) {
        const struct op *op = &program->op[i];
        struct value *out = &program->value[op->out];
        bool from_sparse = op->in[0] >= 0 && program->value[op->in[0]].is_sparse;
        if (op->is_static || op->kind == OP_KIND_BATCH_NORM || from_sparse) {
            out->level = PROGRAM_LEVEL_ALL;
        }
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                struct value *in = &program->value[op->in[k]];
                int32_t level = level_in(op, k, out->level);
                in->level = level > in->level ? level : in->level;
            }
        }
    }
}

int32_t program_n_level(const struct program *program)
{
    int32_t n = 0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        int32_t level = program->value[op->out].level;
        if (!op->is_static && level != PROGRAM_LEVEL_ALL) {
            level += op->kind == OP_KIND_AGGREGATE ? 1 : 0;
            n = level + 1 > n ? level + 1 : n;
        }
    }
    return n;
}

double program_work(const struct program *program, int32_t n_level, const int64_t *n_row, const int64_t *n_edge)
{
    double work = 0.0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        const struct value *out = &program->value[op->out];
        int32_t level = out->level < n_level ? out->level : n_level;
        double width = (double)out->width, one;
        for (int k = 0; k < OP_N_IN; k++) {
            bool dense = op->in[k] >= 0 && !program->value[op->in[k]].is_sparse;
            width += dense && op->kind != OP_KIND_AGGREGATE ? (double)program->value[op->in[k]].width : 0.0;
        }
        one = (double)n_row[level] * width;
        if (op->kind == OP_KIND_AGGREGATE) {
            one += (double)n_edge[level] * (double)program->value[op->in[0]].width;
        }
        work += op->is_static ? 0.0 : one * (out->needs_grad ? 2.0 : 1.0);
    }
    return work;
}
