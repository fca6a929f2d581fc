/* The lists behind a program: ops, values, parameters; what is static, what needs gradients, where weights lie.
 * Separate from the models, which only use these functions. Independent of devices; owns only its lists.
 */
#include "models/program/program.h"

#include "models/program/op.h"
#include "protocol/base/log.h"
#include "protocol/base/random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_ALIGN 16 /* floats: one cache line */

static int value_append(struct program *program, const struct value *value)
{
    program->value = memory_list_grow(program->value, program->n_value, sizeof *program->value);
    program->value[program->n_value] = *value;
    return program->n_value++;
}

void program_init(const struct program_input *input, struct program *out)
{
    int32_t n_run = input->embedded.n_run;
    const uint32_t exact = 1U << DEVICE_CODEC_FP32;
    *out = (struct program){.labels = -1,
                            .decoder = -1,
                            .kept = -1,
                            .n_relation = input->facts.n_relation,
                            .n_edge_feature = input->facts.n_edge_feature,
                            .lossy = {.codecs = exact, .codecs_backward = exact}};
    if (n_run > 0) {
        struct embedded_run *run = memory_alloc((size_t)n_run, sizeof *run);
        memcpy(run, input->embedded.run, (size_t)n_run * sizeof *run);
        out->embedded = (struct embedded){.n_run = n_run, .run = run};
    }
    value_append(out,
                 &(struct value){.width = input->facts.n_feature, .is_sparse = input->is_sparse, .is_static = true});
}

void program_init_pairs(int64_t width, struct program *out)
{
    program_init(&(struct program_input){.facts.n_feature = width}, out);
    value_append(out, &(struct value){.width = width, .needs_grad = true});
    out->value[0] = (struct value){.width = width, .needs_grad = true};
}

void program_release(struct program *program)
{
    if (program->scorer != NULL) {
        program_release(program->scorer);
        free(program->scorer);
    }
    free(program->op);
    free(program->value);
    free(program->param);
    for (int i = 0; i < program->n_tile; i++) {
        tile_release(&program->tile[i]);
    }
    free(program->tile);
    free((void *)(uintptr_t)program->embedded.run);
    *program = (struct program){0};
}

int64_t parameter_size(const struct parameter *parameter)
{
    int64_t n = 1;
    for (int d = 0; d < parameter->n_dim; d++) {
        n *= parameter->shape[d];
    }
    return n;
}

int64_t parameter_embedded(const struct parameter *parameter, int64_t column, int64_t at)
{
    int64_t n_column = parameter_size(parameter) / parameter->embedding_width, f = parameter->embedding_row;
    return (at / f * n_column + column) * f + at % f;
}

int64_t program_n_shared(const struct program *program)
{
    return program->value[0].width - embedded_count(&program->embedded);
}

int64_t program_n_weight(const struct program *program)
{
    return program->n_weight + embedded_count(&program->embedded) * program->n_embedding;
}

static int64_t place_of(struct program *program, int64_t n)
{
    int64_t at = program->n_weight;
    program->n_weight += (n + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    return at;
}

/* Leave the columns that are nodes' own to the parts; what follows in the arena moves up. */
static void embeddings_part(struct program *program, int weight)
{
    struct parameter *param = &program->param[weight];
    ASSERT(param->embedding_at < 0);
    param->embedding_width = parameter_size(param) / program->value[0].width;
    param->n_shared = param->embedding_width * program_n_shared(program);
    param->embedding_at = program->n_embedding;
    program->n_embedding += param->embedding_width;
    program->n_weight = 0;
    for (int p = 0; p < program->n_param; p++) {
        program->param[p].offset = place_of(program, program->param[p].n_shared);
    }
}

int program_param(struct program *program, const char *name, int64_t rows, int64_t columns, double bound)
{
    const int64_t shape[] = {rows, columns};
    return program_tensor(program, name, rows > 0 ? 2 : 1, rows > 0 ? shape : &columns, bound);
}

int program_tensor(struct program *program, const char *name, int n_dim, const int64_t *shape, double bound)
{
    ASSERT(strlen(name) < PROGRAM_NAME_BYTES && n_dim <= PROGRAM_N_DIM);
    program->param = memory_list_grow(program->param, program->n_param, sizeof *program->param);
    struct parameter *param = &program->param[program->n_param];
    *param = (struct parameter){
        .embedding_at = -1, .embedding_row = 1, .bound = bound, .trains = true, .decays = true};
    strcpy(param->name, name);
    param->n_dim = n_dim;
    memcpy(param->shape, shape, (size_t)n_dim * sizeof *shape);
    param->n_shared = parameter_size(param);
    param->offset = place_of(program, param->n_shared);
    return program->n_param++;
}

int op_n_tile(const struct op *op)
{
    if (op->kind != OP_KIND_AGGREGATE || op->aggregate < AGGREGATE_KIND_EDGES) {
        return op->kind == OP_KIND_ROWS ? 2 : 0;
    }
    return op->aggregate == AGGREGATE_KIND_EDGES_SOFTMAX ? 4 : 3;
}

/* Parameters of all ops but these. */
#define PARAM_FEW 2

/* Append an op, and behind it a cast where one follows; its output is static when all inputs are and nothing is
 * learned or drawn, and needs a gradient when a parameter that trains lies in or behind it. */
static int op_append(struct program *program, struct op op, int64_t width)
{
    struct value out = {.width = width, .is_static = op.dropout == 0.0 && program->plain_width == 0};
    for (int k = PARAM_FEW; k < OP_N_PARAM && op_n_tile(&op) == 0; k++) {
        op.param[k] = -1;
    }
    for (int k = 0; k < OP_N_IN; k++) {
        if (op.in[k] >= 0) {
            const struct value *in = &program->value[op.in[k]];
            ASSERT(!in->is_sparse || op.kind == OP_KIND_LINEAR || op.kind == OP_KIND_ROWS ||
                   (op.kind == OP_KIND_ACTIVATE && op.activation == DEVICE_ACTIVATION_NONE));
            out.is_static = out.is_static && in->is_static;
            out.needs_grad = out.needs_grad || in->needs_grad;
            out.is_sparse = in->is_sparse && op.kind == OP_KIND_ACTIVATE;
        }
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op.param[k] >= 0) {
            out.is_static = false;
            out.needs_grad = out.needs_grad || program->param[op.param[k]].trains;
        }
    }
    op.is_static = out.is_static;
    op.out = value_append(program, &out);
    program->op = memory_list_grow(program->op, program->n_op, sizeof *program->op);
    program->op[program->n_op++] = op;
    program->logits = op.out;
    return program_casts(program, &op) ? program_activate(program, op.out, DEVICE_ACTIVATION_NONE, 0.0) : op.out;
}

int program_linear(struct program *program, int in, int weight, int bias)
{
    const int64_t *shape = program->param[weight].shape;
    ASSERT(shape[1] == program->value[in].width);
    if (program->value[in].is_sparse && program->embedded.n_run > 0) {
        embeddings_part(program, weight);
    }
    return op_append(program, (struct op){.kind = OP_KIND_LINEAR, .in = {in, -1, -1}, .param = {weight, bias}},
                     shape[0]);
}

int program_node_rows(struct program *program, int in, int weight, int bias)
{
    struct parameter *param = &program->param[weight];
    ASSERT(program->value[in].is_sparse && program_n_shared(program) == 0);
    if (param->embedding_at < 0) { /* the first op that reads it */
        param->embedding_row = param->shape[param->n_dim - 1];
        embeddings_part(program, weight);
    }
    return op_append(program, (struct op){.kind = OP_KIND_LINEAR, .in = {in, -1, -1}, .param = {weight, bias}},
                     program->param[weight].embedding_width);
}

int program_linear_by_column(struct program *program, int in, int weight, int bias)
{
    const int64_t *shape = program->param[weight].shape;
    ASSERT(shape[0] == program->value[in].width && !program->value[in].is_sparse);
    struct op op = {.kind = OP_KIND_LINEAR, .in = {in, -1, -1}, .param = {weight, bias}, .by_column = true};
    return op_append(program, op, shape[1]);
}

int program_bias(struct program *program, int in, int bias)
{
    return op_append(program, (struct op){.kind = OP_KIND_BIAS, .in = {in, -1, -1}, .param = {bias, -1}},
                     program->value[in].width);
}

int program_activate(struct program *program, int in, enum device_activation activation, double dropout)
{
    struct op op = {.kind = OP_KIND_ACTIVATE,
                    .in = {in, -1, -1},
                    .param = {-1, -1},
                    .activation = activation,
                    .dropout = dropout};
    return op_append(program, op, program->value[in].width);
}

int program_layer_norm(struct program *program, int in, int weight, int bias)
{
    return op_append(program, (struct op){.kind = OP_KIND_LAYER_NORM, .in = {in, -1, -1}, .param = {weight, bias}},
                     program->value[in].width);
}

int program_batch_norm(struct program *program, int in, int weight, int bias, int running_mean, int running_var)
{
    program->param[running_mean].trains = program->param[running_var].trains = false;
    struct op op = {.kind = OP_KIND_BATCH_NORM,
                    .in = {in, -1, -1},
                    .param = {weight, bias},
                    .state = {running_mean, running_var}};
    return op_append(program, op, program->value[in].width);
}

int program_add(struct program *program, float a, int in0, float b, int in1)
{
    ASSERT(in0 != in1 && program->value[in0].width == program->value[in1].width);
    return op_append(program,
                     (struct op){.kind = OP_KIND_ADD, .in = {in0, in1, -1}, .param = {-1, -1}, .a = a, .b = b},
                     program->value[in0].width);
}

int program_labels(struct program *program, int in, int32_t n_class, double hidden)
{
    ASSERT(program->labels < 0 && hidden > 0.0 && !program->value[in].needs_grad);
    program->labels = program->n_op;
    struct op op = {.kind = OP_KIND_LABELS, .in = {in, -1, -1}, .param = {-1, -1}, .dropout = hidden};
    return op_append(program, op, program->value[in].width + n_class);
}

int program_concat(struct program *program, const int *in, int n)
{
    int all = in[0];
    for (int i = 1; i < n;) {
        struct op op = {.kind = OP_KIND_CONCAT, .in = {all, -1, -1}, .param = {-1, -1}};
        int64_t width = program->value[all].width;
        for (int k = 1; k < OP_N_IN && i < n; k++, i++) {
            op.in[k] = in[i];
            width += program->value[in[i]].width;
        }
        all = op_append(program, op, width);
    }
    return all;
}

int program_max(struct program *program, int in0, int in1)
{
    ASSERT(program->value[in0].width == program->value[in1].width);
    return op_append(program, (struct op){.kind = OP_KIND_MAX, .in = {in0, in1, -1}, .param = {-1, -1}},
                     program->value[in0].width);
}

int program_eps_add(struct program *program, int eps, int in0, int in1)
{
    ASSERT(program->value[in0].width == program->value[in1].width);
    return op_append(program, (struct op){.kind = OP_KIND_EPS_ADD, .in = {in0, in1, -1}, .param = {eps, -1}},
                     program->value[in0].width);
}

int program_aggregate(struct program *program, int in, enum aggregate_kind kind)
{
    struct op op = {.kind = OP_KIND_AGGREGATE, .in = {in, -1, -1}, .param = {-1, -1}, .aggregate = kind};
    return op_append(program, op, program->value[in].width);
}

int program_inverse_norm(struct program *program, int in)
{
    ASSERT(!program->value[in].is_sparse);
    return op_append(program, (struct op){.kind = OP_KIND_INVERSE_NORM, .in = {in, -1, -1}, .param = {-1, -1}}, 1);
}

int program_row_scale(struct program *program, int in, int scale)
{
    ASSERT(program->value[scale].width == 1 && in != scale);
    return op_append(program, (struct op){.kind = OP_KIND_ROW_SCALE, .in = {in, scale, -1}, .param = {-1, -1}},
                     program->value[in].width);
}

int program_relation_row(struct program *program, int weight)
{
    struct op op = {.kind = OP_KIND_RELATION_ROW, .in = {-1, -1, -1}, .param = {weight, -1}};
    return op_append(program, op, program->param[weight].shape[1]);
}

int program_head_dot(struct program *program, int in, int weight)
{
    const struct parameter *param = &program->param[weight];
    ASSERT(parameter_size(param) == program->value[in].width);
    struct op op = {.kind = OP_KIND_HEAD_DOT,
                    .in = {in, -1, -1},
                    .param = {weight, -1},
                    .n_head = parameter_size(param) / param->shape[param->n_dim - 1]};
    return op_append(program, op, op.n_head);
}

int program_head_mean(struct program *program, int in, int64_t n_head)
{
    struct op op = {.kind = OP_KIND_HEAD_MEAN, .in = {in, -1, -1}, .param = {-1, -1}, .n_head = n_head};
    return op_append(program, op, program->value[in].width / n_head);
}

int program_head_widen(struct program *program, int in, int weight, int64_t n_head)
{
    const struct parameter *param = &program->param[weight];
    ASSERT(param->shape[0] == program->value[in].width && param->shape[0] % n_head == 0);
    struct op op = {.kind = OP_KIND_HEAD_WIDEN, .in = {in, -1, -1}, .param = {weight, -1}, .n_head = n_head};
    return op_append(program, op, param->shape[0] + n_head * param->shape[1]);
}

int program_head_narrow(struct program *program, int in, int weight, int64_t n_head)
{
    const struct parameter *param = &program->param[weight];
    ASSERT(param->shape[0] + n_head * param->shape[1] == program->value[in].width && param->shape[0] % n_head == 0);
    struct op op = {.kind = OP_KIND_HEAD_NARROW, .in = {in, -1, -1}, .param = {weight, -1}, .n_head = n_head};
    return op_append(program, op, param->shape[0]);
}

int program_attention(struct program *program, const struct op *op)
{
    int64_t width = program->value[op->in[0]].width, more = op->n_head * program->n_edge_feature;
    bool add = op->aggregate == AGGREGATE_KIND_GAT || op->aggregate == AGGREGATE_KIND_GAT_EDGES;
    int64_t out = width + (op->aggregate == AGGREGATE_KIND_DOT ? more : 0);
    ASSERT(op->n_head > 0 && width % op->n_head == 0);
    for (int k = 1; k < OP_N_IN; k++) {
        bool narrow = add || (op->aggregate == AGGREGATE_KIND_COSINE && k == 1);
        ASSERT(op->in[k] < 0 || program->value[op->in[k]].width == (narrow ? op->n_head : k == 2 ? out : width));
    }
    struct op attention = *op;
    attention.kind = OP_KIND_AGGREGATE;
    return op_append(program, attention, out);
}

int program_tiles(struct program *program, const struct op *op, const struct tile tile[OP_N_TILE], int64_t width)
{
    struct op with = *op;
    const int n = op_n_tile(op);
    with.tile = program->n_tile;
    for (int i = 0; i < n; i++) {
        ASSERT(tile_check(&tile[i]));
        program->tile = memory_list_grow(program->tile, program->n_tile, sizeof *program->tile);
        program->tile[program->n_tile++] = tile[i];
    }
    return op_append(program, with, width);
}

int program_relation(struct program *program, int in, int weight, int comp)
{
    const struct parameter *param = &program->param[weight];
    int64_t n_block = param->n_dim == 4 ? param->shape[1] : 1;
    ASSERT(param->n_dim >= 3 && n_block * param->shape[param->n_dim - 2] == program->value[in].width);
    ASSERT(comp < 0 || (n_block == 1 && program->param[comp].shape[1] == param->shape[0]));
    struct op op = {
        .kind = OP_KIND_AGGREGATE, .in = {in, -1, -1}, .param = {weight, comp}, .aggregate = AGGREGATE_KIND_RELATION};
    return op_append(program, op, n_block * param->shape[param->n_dim - 1]);
}

int program_relation_rows(struct program *program, int in, int64_t f, int comp)
{
    int64_t n = comp >= 0 ? program->param[comp].shape[1] : program->n_relation;
    ASSERT(program->value[in].width == n * f);
    struct op op = {.kind = OP_KIND_AGGREGATE,
                    .in = {in, -1, -1},
                    .param = {comp, -1},
                    .aggregate = comp >= 0 ? AGGREGATE_KIND_RELATION_ROWS_MIXED : AGGREGATE_KIND_RELATION_ROWS};
    return op_append(program, op, f);
}

static float draw(const struct parameter *param, const struct random_key *key, int64_t row, int64_t column)
{
    double unit = random_unit(key, (uint64_t)row, (uint32_t)column);
    return param->bound > 0.0 ? (float)((2.0 * unit - 1.0) * param->bound) : param->fill;
}

static struct random_key key_of(uint64_t seed, int param)
{
    return (struct random_key){.seed = seed, .op = (uint16_t)param, .stream = RANDOM_STREAM_INIT};
}

void program_init_weights(const struct program *program, uint64_t seed, float *weights)
{
    memset(weights, 0, (size_t)program->n_weight * sizeof *weights);
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        struct random_key key = key_of(seed, p);
        bool has_embeddings = param->embedding_at >= 0;
        int64_t columns = has_embeddings ? program_n_shared(program) : param->shape[param->n_dim - 1];
        for (int64_t i = 0; i < param->n_shared; i++) {
            int64_t c = i % columns, column = has_embeddings ? embedded_column(&program->embedded, c) : c;
            weights[param->offset + i] = draw(param, &key, i / columns, column);
        }
    }
}

void program_init_embeddings(const struct program *program, uint64_t seed, int64_t n, const uint32_t *column,
                             float *embeddings)
{
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        struct random_key key = key_of(seed, p);
        if (param->embedding_at < 0) {
            continue;
        }
        float *to = embeddings + n * param->embedding_at;
        int64_t width = param->embedding_width, columns = param->shape[param->n_dim - 1];
        for (int64_t i = 0; i < n * width; i++) {
            int64_t at = parameter_embedded(param, column[i / width], i % width);
            to[i] = draw(param, &key, at / columns, at % columns);
        }
    }
}

/* "linear   v3 = v2, convs.0.lin.weight  [16] static" */
static void op_print(const struct program *program, const struct op *op, FILE *file)
{
    static const char *const activations[] = {"none", "relu", "elu", "leaky_relu", "gelu"};
    fprintf(file, "%s", op_defs[op->kind]->name);
    if (op->kind == OP_KIND_AGGREGATE) {
        fprintf(file, " %s", aggregate_defs[op->aggregate]->name);
    } else if (op->kind == OP_KIND_ACTIVATE) {
        fprintf(file, " %s", activations[op->activation]);
    }
    if (op->kind == OP_KIND_ADD) {
        fprintf(file, " v%d = %g·v%d + %g·v%d", op->out, (double)op->a, op->in[0], (double)op->b, op->in[1]);
    } else {
        fprintf(file, " v%d = v%d", op->out, op->in[0]);
        for (int k = 1; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                fprintf(file, ", v%d", op->in[k]);
            }
        }
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (op->param[k] >= 0) {
            fprintf(file, ", %s", program->param[op->param[k]].name);
        }
    }
    if (op->n_head > 0) {
        fprintf(file, ", %" PRId64 " heads", op->n_head);
    }
    if (op->dropout > 0.0) {
        fprintf(file, ", dropout %g", op->dropout);
    }
    const struct value *out = &program->value[op->out];
    fprintf(file, "  [%" PRId64 "]%s%s\n", out->width, out->is_sparse ? " sparse" : "",
            op->is_static ? " static" : "");
}

void program_print(const struct program *program, FILE *file)
{
    for (int k = 0; k < program->n_op; k++) {
        fprintf(file, "%d ", k);
        op_print(program, &program->op[k], file);
    }
}

/* --- layers that travel --- */

static bool is_layer(const struct op *op)
{
    return op->kind == OP_KIND_AGGREGATE && !op->is_static;
}

const struct op *program_maker(const struct program *program, int value)
{
    const struct op *op = program->op;
    while (op < program->op + program->n_op && op->out != value) {
        op++;
    }
    return op < program->op + program->n_op ? op : NULL;
}

static int n_layer(const struct program *program, int end)
{
    int n = 0;
    for (int i = 0; i < end; i++) {
        n += is_layer(&program->op[i]);
    }
    return n;
}

int program_n_layer(const struct program *program)
{
    return n_layer(program, program->n_op);
}

int program_last_layer(const struct program *program)
{
    int last = 0;
    for (int i = 0; i < program->n_op; i++) {
        last = is_layer(&program->op[i]) ? i : last;
    }
    return last;
}

int program_layer(const struct program *program, int op)
{
    return is_layer(&program->op[op]) ? n_layer(program, op) : -1;
}
