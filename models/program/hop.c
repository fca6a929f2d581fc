/* How far from the training nodes a value's rows still count: walked from the logits to the features.
 *
 * Arithmetic on a program; partition/methods/reach.h has the nodes' distances.
 */
#include "models/program/program.h"

int32_t program_hop_before(int32_t hop)
{
    return hop >= PROGRAM_HOP_HALO ? hop : hop + 1;
}

/* The hop of in[k] that an op needs for an output up to `hop`. */
static int32_t hop_in(const struct op *op, int k, int32_t hop)
{
    if (op->kind == OP_KIND_BATCH_NORM) {
        return PROGRAM_HOP_ALL;
    }
    return op->kind == OP_KIND_AGGREGATE && k < 2 ? program_hop_before(hop) : hop;
}

void program_hops(struct program *program)
{
    for (int v = 0; v < program->n_value; v++) {
        program->value[v].hop = 0;
    }
    for (int i = program->n_op - 1; i >= 0; i--) {
        const struct op *op = &program->op[i];
        struct value *out = &program->value[op->out];
        bool from_sparse = op->in[0] >= 0 && program->value[op->in[0]].is_sparse;
        if (op->is_static || op->kind == OP_KIND_BATCH_NORM || from_sparse) {
            out->hop = PROGRAM_HOP_ALL;
        }
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                struct value *in = &program->value[op->in[k]];
                int32_t hop = hop_in(op, k, out->hop);
                in->hop = hop > in->hop ? hop : in->hop;
            }
        }
    }
}

int32_t program_n_hop(const struct program *program)
{
    int32_t n = 0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        int32_t hop = program->value[op->out].hop;
        if (!op->is_static && hop < PROGRAM_HOP_HALO) {
            hop += op->kind == OP_KIND_AGGREGATE ? 1 : 0;
            n = hop + 1 > n ? hop + 1 : n;
        }
    }
    return n;
}

double program_work(const struct program *program, int32_t n_hop, const int64_t *n_row, const int64_t *n_edge)
{
    double work = 0.0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        const struct value *out = &program->value[op->out];
        int32_t hop = out->hop < n_hop ? out->hop : n_hop;
        double width = (double)out->width, one;
        for (int k = 0; k < OP_N_IN; k++) {
            bool dense = op->in[k] >= 0 && !program->value[op->in[k]].is_sparse;
            width += dense && op->kind != OP_KIND_AGGREGATE ? (double)program->value[op->in[k]].width : 0.0;
        }
        one = (double)n_row[hop] * width;
        if (op->kind == OP_KIND_AGGREGATE) {
            one += (double)n_edge[hop] * (double)program->value[op->in[0]].width;
        }
        work += op->is_static ? 0.0 : one * (out->needs_grad ? 2.0 : 1.0);
    }
    return work;
}
