/* A trace as text, for tests and dumps. */
#include "protocol/vertex/trace.h"

static const char *const op_names[] = {
#define X(name, text) text,
    VERTEX_OP_LIST(X)
#undef X
};

void vertex_trace_print(const struct vertex_trace *trace, FILE *file)
{
    static const char *const places[] = {"weight", "node", "edge"};
    for (int32_t i = 0; i < trace->n_op; i++) {
        const struct vertex_op *op = &trace->op[i];
        fprintf(file, "%%%d = %s %s ", i, op_names[op->kind], places[op->place]);
        for (int d = 0; d < op->shape.n_dim; d++) {
            fprintf(file, "%s%lld", d > 0 ? "x" : "", (long long)op->shape.dim[d]);
        }
        for (int k = 0; k < VERTEX_N_IN; k++) {
            if (op->in[k] >= 0) {
                fprintf(file, " %%%d", op->in[k]);
            }
        }
        if (op->kind == VERTEX_OP_PARAMETER) {
            fprintf(file, " \"%s\"", trace->weight[op->weight].name);
        }
        bool two = op->kind == VERTEX_OP_CLAMP || op->kind == VERTEX_OP_COLUMNS;
        if (op->kind == VERTEX_OP_NUMBER || op->number[0] != 0.0 || two) {
            fprintf(file, " %.9g", op->number[0]);
        }
        if (two) {
            fprintf(file, " %.9g", op->number[1]);
        }
        if (op->relation >= 0) {
            fprintf(file, " relation %d", op->relation);
        }
        fputc('\n', file);
    }
    if (trace->out >= 0) {
        fprintf(file, "return %%%d\n", trace->out);
    }
}
