/* From roles to operands: the array of an op's role, and the access of a step to it. */
#include "models/steps/lowering.h"

#include "protocol/base/log.h"

void lowering_operand(struct step *step, const struct step_operand *operand)
{
    for (int k = 0; k < step->n_operand; k++) {
        struct step_operand *there = &step->operand[k];
        if (there->role == operand->role && there->array == operand->array && there->index == operand->index) {
            there->access = there->access == operand->access ? there->access : STEP_ACCESS_UPDATE;
            there->packing = there->packing || operand->packing;
            there->running = there->running || operand->running;
            return;
        }
    }
    ASSERT(step->n_operand < STEP_N_OPERAND);
    step->operand[step->n_operand++] = *operand;
}

/* Does the op also compute halo rows? */
static int32_t hop_of(const struct program *program, int value)
{
    return program->value[value].hop == PROGRAM_HOP_HALO ? PROGRAM_HOP_HALO : PROGRAM_HOP_ALL;
}

/* Of the features so many rows as the op reads; evaluations use the same arrays as training, of all rows. */
static void value_operand(const struct program *program, const struct op *op, int value, struct step_operand *out)
{
    out->array = STEP_ARRAY_VALUE;
    out->index = value;
    out->hop = hop_of(program, value > 0 ? value : op->out);
}

static bool is_among(enum op_role role, enum op_role first, int n)
{
    return role >= first && (int)role < (int)first + n;
}

/* Is the gradient of in[k] there already, from ops before or from an input before it that is the same value? */
static bool grad_is_written(const struct lowering *l, const struct op *op, int k)
{
    for (int j = 0; j < k; j++) {
        if (op->in[j] == op->in[k]) {
            return true;
        }
    }
    return l->written[op->in[k]];
}

bool lowering_grad_in(const struct lowering *l, const struct step *step, int k, struct step_operand *out)
{
    const struct op *op = &l->program->op[step->op];
    int in = op->in[k];
    if (in < 0 || !l->program->value[in].needs_grad) {
        return false;
    }
    out->hop = l->program->value[in].hop;
    if (op->kind == OP_KIND_AGGREGATE && grad_is_written(l, op, k)) {
        out->array = STEP_ARRAY_FRESH;
        out->index = step->op;
        out->k = k;
        return true;
    }
    out->array = STEP_ARRAY_GRAD;
    out->index = in;
    if (out->access == STEP_ACCESS_WRITE && grad_is_written(l, op, k)) {
        out->access = STEP_ACCESS_UPDATE;
    }
    return true;
}

/* Aggregates overwrite, but for tile programs. */
static bool op_adds_params(const struct op *op)
{
    return op->kind != OP_KIND_AGGREGATE || op->aggregate >= AGGREGATE_KIND_EDGES;
}

/* A gradient with a share of another op is updated: dense ops may share a parameter. */
static bool param_operand(const struct lowering *l, const struct op *op, enum op_role role, struct step_operand *out)
{
    const struct program *program = l->program;
    bool state = is_among(role, OP_ROLE_STATE_0, OP_N_STATE), grad = is_among(role, OP_ROLE_GRAD_PARAM_0, OP_N_PARAM);
    int param = state  ? op->state[role - OP_ROLE_STATE_0]
                : grad ? op->param[role - OP_ROLE_GRAD_PARAM_0]
                       : op->param[role - OP_ROLE_PARAM_0];
    if (param < 0 || (grad && !program->param[param].trains)) {
        return false;
    }
    out->array = grad ? STEP_ARRAY_GRAD_PARAMETER : STEP_ARRAY_PARAMETER;
    out->index = param;
    if (grad && out->access == STEP_ACCESS_WRITE && op_adds_params(op) && l->param_written[param]) {
        out->access = STEP_ACCESS_UPDATE;
    }
    return true;
}

/* Embeddings lie beside the weight that a linear map multiplies the sparse features with. */
static bool embedding_operand(const struct program *program, const struct op *op, bool grad, struct step_operand *out)
{
    int param = op->param[0];
    if (op->kind != OP_KIND_LINEAR || program->param[param].embedding_at < 0 ||
        (grad && !program->param[param].trains)) {
        return false;
    }
    out->array = grad ? STEP_ARRAY_GRAD_EMBEDDING : STEP_ARRAY_EMBEDDING;
    out->index = param;
    return true;
}

static bool structure_operand(const struct program *program, const struct op *op, enum op_role role,
                              struct step_operand *out)
{
    static const enum step_array arrays[OP_ROLE_N] = {
        [OP_ROLE_NODE] = STEP_ARRAY_NODE, [OP_ROLE_LABELS] = STEP_ARRAY_LABELS, [OP_ROLE_SCALE] = STEP_ARRAY_SCALE};
    out->array = arrays[role];
    out->element = STEP_ELEMENT_BYTES;
    out->hop = hop_of(program, op->out);
    bool drawn = op->dropout > 0.0 || op->kind == OP_KIND_AGGREGATE;
    return role != OP_ROLE_NODE || drawn;
}

/* The array of a role of the step's op. false: the op does not have this role. */
static bool operand_find(const struct lowering *l, const struct step *step, enum op_role role,
                         struct step_operand *out)
{
    const struct program *program = l->program;
    const struct op *op = &program->op[step->op];
    if (is_among(role, OP_ROLE_IN_0, OP_N_IN)) {
        int in = op->in[role - OP_ROLE_IN_0];
        if (in >= 0) {
            value_operand(program, op, in, out);
        }
        return in >= 0;
    }
    if (is_among(role, OP_ROLE_SAVED_0, OP_N_SAVED)) {
        out->array = STEP_ARRAY_SAVED;
        out->index = step->op;
        out->k = (int)role - OP_ROLE_SAVED_0;
        out->hop = PROGRAM_HOP_ALL;
        return op_saved_width(program, op, out->k) > 0;
    }
    if (is_among(role, OP_ROLE_GRAD_IN_0, OP_N_IN)) {
        return lowering_grad_in(l, step, (int)role - OP_ROLE_GRAD_IN_0, out);
    }
    if (is_among(role, OP_ROLE_PARAM_0, 2 * OP_N_PARAM + OP_N_STATE)) {
        return param_operand(l, op, role, out);
    }
    switch (role) {
    case OP_ROLE_OUT:
        value_operand(program, op, op->out, out);
        return true;
    case OP_ROLE_GRAD_OUT:
        out->array = STEP_ARRAY_GRAD;
        out->index = op->out;
        out->hop = program->value[op->out].hop;
        return program->value[op->out].needs_grad;
    case OP_ROLE_EMBEDDING:
    case OP_ROLE_GRAD_EMBEDDING:
        return embedding_operand(program, op, role == OP_ROLE_GRAD_EMBEDDING, out);
    case OP_ROLE_STATISTICS:
    case OP_ROLE_SUM:
        out->array = role == OP_ROLE_SUM ? STEP_ARRAY_SUM : STEP_ARRAY_STATISTICS;
        out->element = STEP_ELEMENT_FLOAT64;
        out->index = step->op;
        return true;
    case OP_ROLE_WORKSPACE:
        out->array = STEP_ARRAY_WORKSPACE;
        out->element = STEP_ELEMENT_BYTES;
        out->index = step->op;
        out->k = step->backward;
        return op->kind == OP_KIND_AGGREGATE || op_defs[op->kind]->workspace != NULL; /* of payloads, or scratch */
    default:
        return structure_operand(program, op, role, out);
    }
}

void lowering_role(const struct lowering *l, struct step *step, enum op_role role, struct lowering_use use)
{
    struct step_operand operand = {
        .role = role, .access = use.access, .packing = use.packing, .running = use.running, .hop = PROGRAM_HOP_ALL};
    if (!operand_find(l, step, role, &operand)) {
        return;
    }
    lowering_operand(step, &operand);
    bool value = operand.array == STEP_ARRAY_VALUE;
    if (value && l->program->value[operand.index].is_sparse) {
        const struct step_operand csr = {.array = STEP_ARRAY_CSR,
                                         .element = STEP_ELEMENT_BYTES,
                                         .role = OP_ROLE_CSR,
                                         .hop = hop_of(l->program, l->program->op[step->op].out),
                                         .running = use.running};
        lowering_operand(step, &csr);
    }
}

void lowering_roles(const struct lowering *l, struct step *step, op_roles reads, op_roles writes)
{
    for (int role = 0; role < OP_ROLE_N; role++) {
        bool read = reads >> role & 1, write = writes >> role & 1;
        if (read || write) {
            struct lowering_use use = {.access = !write ? STEP_ACCESS_READ
                                                 : read ? STEP_ACCESS_UPDATE
                                                        : STEP_ACCESS_WRITE,
                                       .running = true};
            lowering_role(l, step, (enum op_role)role, use);
        }
    }
}
