/* The walk from the returned operation to its inputs, and what is checked before. See emit.h. */
#include "models/vertex/walk.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int walk_refuse(struct walk *w, int32_t op, const char *why)
{
    if (w->status == STATUS_OK) {
        w->status = vertex_fail(w->to->source, walk_at(w, op)->at, "%s", why);
    }
    return 0;
}

/* Stop where an op that takes dense rows only would read sparse ones. */
int walk_dense(struct walk *w, int value)
{
    if (w->status == STATUS_OK && w->program->value[value].is_sparse) {
        w->to->needs_dense = true;
        w->status = status_fail(STATUS_CONFIG, "the features are sparse");
    }
    return value;
}

int walk_weight(const struct walk *w, int32_t op)
{
    return op >= 0 ? w->param[walk_at(w, op)->weight] : -1;
}

/* Ops multiply by edges' weights wherever there are some, and take their features only in attention: reductions that
 * do otherwise are tile programs. */
static bool reduction_fits(const struct walk *w, int32_t op)
{
    struct match_sum sum;
    bool weighs = match_sum(w->trace, op, &sum) && sum.factor != MATCH_FACTOR_NONE;
    struct match_attention attention;
    bool reads = match_attention(w->trace, op, &attention) && attention.edge >= 0;
    bool relates = walk_at(w, op)->relation >= 0;
    return relates || ((weighs || !w->to->is_weighted) && (reads || w->program->n_edge_feature == 0));
}

/* Ops take rows that are equally wide, and biases: nothing is repeated over heads or columns. */
static bool shapes_fit(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    bool plain = of->kind == VERTEX_OP_CONCAT || of->kind == VERTEX_OP_NORMALIZE;
    bool joins = of->kind == VERTEX_OP_ADD || of->kind == VERTEX_OP_SUBTRACT;
    bool fits = of->kind != VERTEX_OP_MAXIMUM &&
                (!plain || of->shape.n_dim == 1); /* the op splits no equals' gradient */
    for (int k = 0; k < 2 && joins && of->place == VERTEX_PLACE_NODE; k++) {
        fits = fits && vertex_shape_equal(&walk_at(w, of->in[k])->shape, &of->shape);
    }
    if (of->kind == VERTEX_OP_DOT && of->place == VERTEX_PLACE_NODE) {
        fits = match_size(w->trace, of->in[0]) == match_size(w->trace, of->in[1]);
    }
    return fits;
}

/* --- attention, maxima, relations --- */

static int emit_attention(struct walk *w, const struct match_attention *m)
{
    struct op op = {
        .aggregate = m->kind, .param = {-1, -1}, .n_head = m->n_head, .dropout = m->dropout, .in = {-1, -1, -1}};
    op.a = (float)(m->kind == AGGREGATE_KIND_DOT ? m->scale : m->slope);
    if (m->kind == AGGREGATE_KIND_COSINE) {
        op.in[0] = walk_dense(w, walk_value(w, m->value));
        if (w->status != STATUS_OK) {
            return 0;
        }
        int inverse = program_inverse_norm(w->program, op.in[0]);
        op.in[1] = program_head_dot(w->program, inverse, walk_weight(w, m->beta));
        op.in[2] = program_row_scale(w->program, op.in[0], inverse);
        return program_attention(w->program, &op);
    }
    const int32_t key_first[] = {m->key, m->query, m->value}, value_first[] = {m->value, m->key, m->query};
    const int places[2][3] = {{0, 1, 2}, {1, 2, 0}};
    const bool dot = m->kind == AGGREGATE_KIND_DOT;
    for (int k = 0; k < 3; k++) { /* in the order of the kinds' own lists */
        int32_t of = dot ? key_first[k] : value_first[k];
        op.in[places[dot][k]] = of >= 0 ? walk_dense(w, walk_value(w, of)) : -1;
    }
    op.param[0] = walk_weight(w, m->kind == AGGREGATE_KIND_GATV2 ? m->att
                                 : m->kind == AGGREGATE_KIND_DOT ? -1
                                                                 : m->edge);
    op.param[1] = walk_weight(w, m->kind == AGGREGATE_KIND_GATV2 ? m->edge : m->att_edge);
    if (w->status != STATUS_OK) {
        return 0;
    }
    if (!dot || m->edge < 0) {
        return program_attention(w->program, &op);
    }
    int edge = walk_weight(w, m->edge);
    op.in[2] = program_head_widen(w->program, op.in[2], edge, m->n_head);
    return program_head_narrow(w->program, program_attention(w->program, &op), edge, m->n_head);
}

/* The greatest of rows, as an op has it. */
static bool is_maximum(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    return of->kind == VERTEX_OP_MAX && of->relation < 0 && walk_is(w, of->in[0], VERTEX_OP_SOURCE);
}

bool walk_is_edges(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    struct match_attention attention;
    struct match_sum sum;
    return of->kind >= VERTEX_OP_SUM && of->place == VERTEX_PLACE_NODE && of->relation < 0 &&
           !walk_is_sum(w, op, &sum) &&
           (w->by_tile[op] || !(match_attention(w->trace, op, &attention) || is_maximum(w, op)));
}

static int emit_reduction(struct walk *w, int32_t op)
{
    struct match_attention attention;
    if (!w->by_tile[op] && match_attention(w->trace, op, &attention)) {
        return emit_attention(w, &attention);
    }
    if (!w->by_tile[op] && is_maximum(w, op)) {
        int x = walk_value(w, walk_at(w, walk_at(w, op)->in[0])->in[0]);
        return walk_aggregate(w, walk_dense(w, x), AGGREGATE_KIND_MAX);
    }
    return walk_edges(w, op);
}

/* --- one operation --- */

/* An activation, and a dropout behind it. */
static int emit_activation(struct walk *w, int32_t op)
{
    static const struct {
        enum vertex_op_kind kind;
        enum device_activation activation;
    } rows[] = {{VERTEX_OP_RELU, DEVICE_ACTIVATION_RELU},
                {VERTEX_OP_ELU, DEVICE_ACTIVATION_ELU},
                {VERTEX_OP_GELU, DEVICE_ACTIVATION_GELU},
                {VERTEX_OP_LEAKY_RELU, DEVICE_ACTIVATION_LEAKY_RELU}};
    double dropout = walk_is(w, op, VERTEX_OP_DROPOUT) ? walk_at(w, op)->number[0] : 0.0;
    int32_t inner = dropout > 0.0 ? walk_at(w, op)->in[0] : op;
    enum device_activation activation = DEVICE_ACTIVATION_NONE;
    bool joins = inner == op || (w->n_use[inner] == 1 && !w->by_tile[inner]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && joins; i++) {
        bool slope = rows[i].kind != VERTEX_OP_LEAKY_RELU || walk_at(w, inner)->number[0] == 0.01;
        if (walk_at(w, inner)->kind == rows[i].kind && slope) {
            activation = rows[i].activation;
        }
    }
    if (activation == DEVICE_ACTIVATION_NONE && inner == op) {
        return walk_rows(w, op);
    }
    int x = walk_value(w, activation != DEVICE_ACTIVATION_NONE ? walk_at(w, inner)->in[0] : inner);
    x = activation != DEVICE_ACTIVATION_NONE ? walk_dense(w, x) : x;
    return walk_goes_on(w) ? program_activate(w->program, x, activation, dropout) : 0;
}

/* ⟨x, w⟩ of each head */
static int emit_dot(struct walk *w, int32_t op)
{
    int32_t a = walk_at(w, op)->in[0], b = walk_at(w, op)->in[1], row = walk_is(w, a, VERTEX_OP_PARAMETER) ? b : a;
    int32_t weight = row == a ? b : a;
    if (!walk_is(w, weight, VERTEX_OP_PARAMETER)) {
        return walk_rows(w, op);
    }
    int x = walk_dense(w, walk_value(w, row));
    return walk_goes_on(w) ? program_head_dot(w->program, x, walk_weight(w, weight)) : 0;
}

static int running_of(const struct walk *w, const char *weight, const char *name)
{
    char text[VERTEX_NAME_BYTES];
    snprintf(text, sizeof text, "%.*s.%s", (int)(strlen(weight) - strlen(".weight")), weight, name);
    int32_t i = 0;
    while (strcmp(w->trace->weight[i].name, text) != 0) { /* the trace has it, as it has the weight */
        i++;
    }
    return w->param[i];
}

static int emit_norm(struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    int x = walk_dense(w, walk_value(w, of->in[0])), weight = walk_weight(w, of->in[1]),
        bias = walk_weight(w, of->in[2]);
    if (!walk_goes_on(w)) {
        return 0;
    }
    if (of->kind == VERTEX_OP_LAYER_NORM) {
        return program_layer_norm(w->program, x, weight, bias);
    }
    const char *name = w->trace->weight[walk_at(w, of->in[1])->weight].name;
    return program_batch_norm(w->program, x, weight, bias, running_of(w, name, "running_mean"),
                              running_of(w, name, "running_var"));
}

static int emit_other(struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    int x = 0;
    switch (of->kind) {
    case VERTEX_OP_MEAN_HEADS: {
        const int64_t n_head = walk_at(w, of->in[0])->shape.dim[0];
        x = walk_dense(w, walk_value(w, of->in[0]));
        return walk_goes_on(w) && n_head != 1 ? program_head_mean(w->program, x, n_head) : x;
    }
    case VERTEX_OP_CONCAT: {
        const int in[] = {walk_dense(w, walk_value(w, of->in[0])), walk_dense(w, walk_value(w, of->in[1]))};
        return walk_goes_on(w) ? program_concat(w->program, in, 2) : 0;
    }
    case VERTEX_OP_NORMALIZE:
        x = walk_dense(w, walk_value(w, of->in[0]));
        return walk_goes_on(w) ? program_row_scale(w->program, x, program_inverse_norm(w->program, x)) : 0;
    case VERTEX_OP_LAYER_NORM:
    case VERTEX_OP_BATCH_NORM:
        return emit_norm(w, op);
    case VERTEX_OP_DOT:
        return emit_dot(w, op);
    default:
        return emit_activation(w, op);
    }
}

/* A relation's product that is no term of a sum: the whole sum, where the data has one relation. */
static struct open_value emit_relation(struct walk *w, int32_t op)
{
    if (w->program->n_relation == 1) {
        return walk_add(w, op);
    }
    return (struct open_value){
        walk_refuse(w, op,
                    "reductions of one relation are computed in a sum over all relations alone: expected "
                    "mean(… if e.relation == r) @ w[r], added up for r in range(graph.relations)"),
        -1};
}

struct open_value walk_open(struct walk *w, int32_t op, int bias)
{
    const struct vertex_op *of = walk_at(w, op);
    struct match_sum sum;
    if (w->status != STATUS_OK) {
        return (struct open_value){0, -1};
    }
    if (w->by_tile[op] && of->kind < VERTEX_OP_SUM) {
        return (struct open_value){walk_rows(w, op), -1};
    }
    if (walk_is_relation(w, op)) {
        return emit_relation(w, op);
    }
    switch (of->kind) {
    case VERTEX_OP_INPUT:
        return (struct open_value){w->to->x + (int)of->number[0], -1};
    case VERTEX_OP_RELATION_ROW:
        return (struct open_value){program_relation_row(w->program, walk_weight(w, of->in[0])), -1};
    case VERTEX_OP_DEGREE:
        return (struct open_value){walk_degree(w), -1};
    case VERTEX_OP_HEADS:
    case VERTEX_OP_FLAT:
        return (struct open_value){walk_value(w, of->in[0]), -1};
    case VERTEX_OP_LINEAR:
        return walk_is_part(w, op) ? (struct open_value){walk_rows(w, op), -1} : walk_linear(w, op, bias);
    case VERTEX_OP_PRODUCT:
        if (walk_is_part(w, op)) {
            return (struct open_value){walk_rows(w, op), -1};
        }
        if (walk_is(w, of->in[1], VERTEX_OP_PARAMETER) && walk_at(w, of->in[1])->shape.n_dim == 2 &&
            of->shape.n_dim == 1) {
            return walk_linear(w, op, bias);
        }
        return (struct open_value){
            walk_is_row(w, op) ? walk_rows(w, op)
                               : walk_refuse(w, op, "a product with what is no weight itself is not computed yet"),
            -1};
    case VERTEX_OP_ADD:
    case VERTEX_OP_SUBTRACT:
        return walk_add(w, op);
    case VERTEX_OP_MULTIPLY:
    case VERTEX_OP_DIVIDE:
        return walk_is_multiple(w, op) ? walk_add(w, op) : (struct open_value){walk_rows(w, op), -1};
    default:
        break;
    }
    if (of->kind < VERTEX_OP_SUM) {
        return (struct open_value){emit_other(w, op), -1};
    }
    return walk_is_sum(w, op, &sum) ? walk_sum(w, op, bias) : (struct open_value){emit_reduction(w, op), -1};
}

/* The value of an operation of nodes, appended once. */
int walk_value(struct walk *w, int32_t op)
{
    if (w->status != STATUS_OK || w->value[op] >= 0) {
        return walk_goes_on(w) ? w->value[op] : 0;
    }
    struct open_value open = walk_open(w, op, -1);
    if (open.bias >= 0 && w->status == STATUS_OK) {
        open.value = program_bias(w->program, walk_dense(w, open.value), open.bias);
    }
    w->value[op] = open.value;
    return open.value;
}

/* --- the layer --- */

/* How often each operation is read by those that the result needs. */
static void count_uses(struct walk *w)
{
    w->n_use[w->trace->out] = 1;
    for (int32_t i = w->trace->out; i >= 0; i--) {
        for (int k = 0; k < VERTEX_N_IN && w->n_use[i] > 0; k++) {
            if (walk_at(w, i)->in[k] >= 0) {
                w->n_use[walk_at(w, i)->in[k]]++;
            }
        }
    }
}

/* Of operations before it `relates` is known. */
static bool is_of_relations(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    struct match_relation relation;
    bool adds = of->kind == VERTEX_OP_ADD || of->kind == VERTEX_OP_SUBTRACT;
    return adds ? w->relates[of->in[0]] || w->relates[of->in[1]] : match_relation(w->trace, op, &relation) >= 0;
}

static void append_weights(struct walk *w)
{
    for (int32_t i = 0; i < w->trace->n_weight; i++) {
        const struct vertex_weight *weight = &w->trace->weight[i];
        char name[PROGRAM_NAME_BYTES];
        double bound = weight->init == VERTEX_INIT_GLOROT    ? sqrt(6.0 / (double)(weight->fan_in + weight->fan_out))
                       : weight->init == VERTEX_INIT_KAIMING ? 1.0 / sqrt((double)weight->fan_in)
                       : weight->init == VERTEX_INIT_UNIFORM ? weight->number
                                                             : 0.0;
        snprintf(name, sizeof name, "%s%s", w->to->prefix, weight->name);
        int param = program_tensor(w->program, name, weight->shape.n_dim, weight->shape.dim, bound);
        w->program->param[param].trains = weight->trains;
        w->program->param[param].line = vertex_line(w->to->source, weight->at.begin);
        w->program->param[param].fill = weight->init == VERTEX_INIT_CONSTANT ? (float)weight->number : 0.0F;
        w->param[i] = param;
    }
}

struct weight_readers {
    int n, n_alone;
    bool is_sparse;
};

/* The ops that read each parameter; alone: those that overwrite its gradient, and add to no other op's share. */
static struct weight_readers *readers_of(const struct program *program)
{
    struct weight_readers *all = memory_alloc((size_t)program->n_param + 1, sizeof *all);
    for (int k = 0; k < program->n_op; k++) {
        const struct op *op = &program->op[k];
        const bool sparse = op->kind == OP_KIND_LINEAR && program->value[op->in[0]].is_sparse;
        const bool attends = op->kind == OP_KIND_AGGREGATE && op->aggregate < AGGREGATE_KIND_EDGES;
        for (int p = 0; p < OP_N_PARAM; p++) {
            if (op->param[p] >= 0) {
                struct weight_readers *one = &all[op->param[p]];
                one->n++;
                one->n_alone += sparse || attends || op->kind == OP_KIND_BATCH_NORM;
                one->is_sparse = one->is_sparse || sparse;
            }
        }
    }
    return all;
}

/* Where sparse rows are mapped by a weight that is used a second time, they become dense. */
static void check_shared(struct walk *w)
{
    struct weight_readers *all = readers_of(w->program);
    for (int32_t i = 0; i < w->trace->n_weight; i++) {
        const struct weight_readers *of = &all[w->param[i]];
        if (of->n > 1 && of->is_sparse) {
            w->to->needs_dense = true;
            w->status = status_fail(STATUS_CONFIG, "the features are sparse");
        } else if (of->n > 1 && of->n_alone > 0 && w->trace->weight[i].trains) {
            w->status = vertex_fail(
                w->to->source, w->trace->weight[i].at,
                "the weight \"%s\" of an attention, relations or batch_norm is used a second time: "
                "expected another name there",
                w->trace->weight[i].name);
        }
    }
    free(all);
}

/* The operation of the output that is written, which is a value of its own then; -1: the trace has no such. */
static int32_t find_kept(struct walk *w)
{
    for (int32_t i = 0; i < w->trace->n_output; i++) {
        const struct vertex_output *output = &w->trace->output[i];
        char name[PROGRAM_NAME_BYTES];
        snprintf(name, sizeof name, "%s%s", w->to->prefix, output->name);
        if (strcmp(name, w->to->kept) == 0) {
            w->n_use[output->op]++;
            return output->op;
        }
    }
    return -1;
}

enum status vertex_emit(struct vertex_emission *emission, int *out)
{
    size_t n_op = (size_t)emission->trace->n_op, n_weight = (size_t)emission->trace->n_weight + 1;
    struct walk w = {.to = emission,
                     .trace = emission->trace,
                     .program = emission->program,
                     .n_use = memory_alloc(n_op, sizeof *w.n_use),
                     .value = memory_alloc(n_op, sizeof *w.value),
                     .param = memory_alloc(n_weight, sizeof *w.param),
                     .by_tile = memory_alloc(n_op, sizeof *w.by_tile),
                     .relates = memory_alloc(n_op, sizeof *w.relates),
                     .place = memory_alloc(n_op, sizeof *w.place)};
    for (size_t i = 0; i < n_op; i++) {
        w.value[i] = -1;
        w.place[i].value = WALK_PLACE_NONE;
    }
    emission->needs_dense = false;
    count_uses(&w);
    for (int32_t i = 0; i < emission->trace->n_op; i++) {
        bool reduces = emission->trace->op[i].kind >= VERTEX_OP_SUM;
        w.relates[i] = is_of_relations(&w, i);
        w.by_tile[i] = reduces ? !emission->matches || !reduction_fits(&w, i)
                               : !shapes_fit(&w, i) || (!emission->matches && !w.relates[i] && walk_is_row(&w, i));
    }
    append_weights(&w);
    int32_t kept = find_kept(&w);
    *out = walk_value(&w, emission->trace->out);
    emission->kept_value = kept >= 0 ? walk_value(&w, kept) : -1;
    if (w.status == STATUS_OK) {
        check_shared(&w);
    }
    free(w.n_use);
    free(w.value);
    free(w.param);
    free(w.by_tile);
    free(w.relates);
    free(w.place);
    return w.status;
}
