/* Replicated inputs: values of other parts that depend only on features, so that each part computes them itself,
 * after its own rows, from the features of halo rows that it stores.
 *
 * Arithmetic on a program; the partition decides which features a part stores.
 */
#include "models/program/op.h"
#include "models/program/program.h"

static int n_reader(const struct program *program, int value)
{
    int n = 0;
    for (int i = 0; i < program->n_op; i++) {
        for (int k = 0; k < OP_N_IN; k++) {
            n += program->op[i].in[k] == value;
        }
    }
    return n;
}

/* The features, or their dropout. */
static bool is_input(const struct program *program, int value)
{
    const struct op *op = program_maker(program, value);
    return op == NULL || (op->kind == OP_KIND_ACTIVATE && op->in[0] == 0 && !op->is_static);
}

/* Does the aggregate alone read the value, but for scores that are made of it for the same aggregate? All of its
 * gradient is then made where its rows are, and the aggregate's share comes first. */
static bool is_read_by(const struct program *program, const struct op *op, int value)
{
    int n = n_reader(program, value);
    for (int k = 1; k < OP_N_IN; k++) {
        const struct op *made = op->in[k] >= 0 ? program_maker(program, op->in[k]) : NULL;
        n -= made != NULL && made->kind == OP_KIND_HEAD_DOT && made->in[0] == value;
    }
    return n == 1;
}

/* A linear map of them for this aggregate. */
static bool is_map(const struct program *program, const struct op *op, int value)
{
    const struct op *map = program_maker(program, value);
    return map != NULL && map->kind == OP_KIND_LINEAR && is_input(program, map->in[0]) &&
           program->param[map->param[0]].embedding_at < 0 && is_read_by(program, op, value);
}

/* Keys of attention, if it has any: another map, or numbers per head made of the values. */
static bool has_keys(const struct program *program, const struct op *op)
{
    int key = op->in[1];
    const struct op *made = key >= 0 ? program_maker(program, key) : NULL;
    bool of_values = made != NULL && made->kind == OP_KIND_HEAD_DOT && made->in[0] == op->in[0] &&
                     n_reader(program, key) == 1;
    return key < 0 || of_values || is_map(program, op, key);
}

enum program_stored program_stored(const struct program *program, const struct op *op)
{
    if (op->kind != OP_KIND_AGGREGATE || op->is_static || op->in[0] == 0 || program->plain_width > 0 ||
        program->n_relation > 0 || program->n_edge_feature > 0) { /* kept blocks have edges' ends alone */
        return PROGRAM_STORED_NONE;
    }
    const struct aggregate_def *def = aggregate_defs[op->aggregate];
    if (is_input(program, op->in[0])) {
        return def->attends || program->value[op->out].needs_grad ? PROGRAM_STORED_NONE : PROGRAM_STORED_INPUT;
    }
    bool maps = (def->is_linear || def->attends) && is_map(program, op, op->in[0]) && has_keys(program, op);
    return maps ? PROGRAM_STORED_MAP : PROGRAM_STORED_NONE;
}

void program_store(struct program *program)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        bool stored = program_stored(program, op) != PROGRAM_STORED_NONE;
        for (int k = 0; stored && k < 2 && op->in[k] >= 0; k++) { /* values and keys, of which rows travel else */
            int from = program_maker(program, op->in[k])->in[0];
            program->value[op->in[k]].hop = PROGRAM_HOP_HALO;
            program->value[from].hop = from > 0 ? PROGRAM_HOP_HALO : program->value[from].hop;
        }
    }
}

bool program_stores(const struct program *program)
{
    bool any = false;
    for (int v = 0; v < program->n_value; v++) {
        any = any || program->value[v].hop == PROGRAM_HOP_HALO;
    }
    return any;
}

bool program_reads_stored(const struct program *program, const struct op *op)
{
    return op->kind == OP_KIND_AGGREGATE && program->value[op->in[0]].hop == PROGRAM_HOP_HALO;
}

bool program_stores_at(const struct program *program, int32_t hop)
{
    bool any = false;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        any = any || (program_reads_stored(program, op) && program->value[op->out].hop == hop);
    }
    return any;
}

bool program_maps_sparse(const struct program *program, int32_t hop)
{
    bool any = false;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        bool sparse = op->kind == OP_KIND_LINEAR && program->value[op->in[0]].is_sparse;
        bool halo = program->value[op->out].hop == PROGRAM_HOP_HALO;
        any = any || (sparse && halo == (hop == PROGRAM_HOP_HALO));
    }
    return any;
}
