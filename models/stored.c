/* Inputs stored once: which values an aggregate takes of other parts are made of the features alone, so that each part makes them for
 * itself, behind its own rows, of features that are stored with it.
 *
 * Arithmetic on a program; which features are stored with a part, others know.
 */
#include "models/op.h"
#include "models/program.h"

static const struct op *maker_of(const struct program *program, int value)
{
    for (int i = 0; i < program->n_op; i++) {
        if (program->op[i].out == value) {
            return &program->op[i];
        }
    }
    return NULL;
}

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
    const struct op *op = maker_of(program, value);
    return op == NULL || (op->kind == OP_KIND_ACTIVATE && op->in[0] == 0 && !op->is_static);
}

/* A linear map of them, whose rows the aggregate alone reads: all of their gradient is made where the rows are. */
static bool is_map(const struct program *program, const struct op *map)
{
    return map->kind == OP_KIND_LINEAR && is_input(program, map->in[0]) && program->param[map->param[0]].embedding_at < 0 &&
           n_reader(program, map->out) == 1;
}

enum program_stored program_stored(const struct program *program, const struct op *op)
{
    if (op->kind != OP_KIND_AGGREGATE || op->is_static || op->in[0] == 0 || op->in[1] >= 0 || program->plain_width > 0 ||
        program->n_relation > 0) {
        return PROGRAM_STORED_NONE;
    }
    if (is_input(program, op->in[0])) {
        return program->value[op->out].needs_grad ? PROGRAM_STORED_NONE : PROGRAM_STORED_INPUT;
    }
    bool maps = aggregate_defs[op->aggregate]->is_linear && is_map(program, maker_of(program, op->in[0]));
    return maps ? PROGRAM_STORED_MAP : PROGRAM_STORED_NONE;
}

void program_store(struct program *program)
{
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        enum program_stored stored = program_stored(program, op);
        if (stored == PROGRAM_STORED_NONE) {
            continue;
        }
        int in = op->in[0], from = stored == PROGRAM_STORED_MAP ? maker_of(program, in)->in[0] : 0;
        program->value[in].hop = PROGRAM_HOP_HALO;
        if (from > 0) {
            program->value[from].hop = PROGRAM_HOP_HALO;
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

bool program_stores_at(const struct program *program, int32_t hop)
{
    bool any = false;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        bool stored = op->kind == OP_KIND_AGGREGATE && program->value[op->in[0]].hop == PROGRAM_HOP_HALO;
        any = any || (stored && program->value[op->out].hop == hop);
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
