/* Every op alone, between a linear map and the loss, against central differences in double. */
#include "tests/support/model/gradient.h"
#include "tests/support/tolerance.h"

#include "models/program/op.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define N_FEATURE 5
#define N_CLASS 4

static struct program program;
static struct tiny_graph graph;
static const struct program_input input = {.facts = {.n_feature = N_FEATURE, .n_class = N_CLASS}};

static double spread, tolerance; /* of scores; what they allow */

static void begin(void)
{
    spread = 1.0;
    tolerance = 0.0;
    program_init(&input, &program);
    graph = (struct tiny_graph){.n_node = 14, .n_draw = 36, .no_loops = true, .seed = 7};
}

static void end(void)
{
    program_release(&program);
}

TestSuite(op, .init = begin, .fini = end);

static int weight(int64_t f_in, int64_t f_out)
{
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "weight.%d", program.n_param);
    return program_param(&program, name, f_out, f_in, 1.0);
}

static int vector(int64_t f)
{
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "vector.%d", program.n_param);
    return program_param(&program, name, 0, f, 0.0);
}

/* Class scores from any value by a linear map, so that the gradients of the value differ in every element. */
static void check_from(const char *what, int value)
{
    int64_t f = program.value[value].width;
    program_linear(&program, value, weight(f, N_CLASS), -1);
    struct gradient_case one = {.what = what, .program = &program, .graph = &graph, .tolerance = tolerance};
    gradient_check(&one);
}

/* x · W, an input that needs a gradient. */
static int mapped(int64_t f)
{
    return program_linear(&program, 0, weight(N_FEATURE, f), -1);
}

/* out + x: backward writes the gradient of x first for this sum, and the op must add to it. */
static void check_read_again(const char *what, int out, int x)
{
    check_from(what, program_add(&program, 1.0f, out, 0.5f, x));
}

Test(op, linear_gives_the_gradients_of_weight_bias_and_input)
{
    int x = mapped(6);
    check_read_again("linear", program_linear(&program, x, weight(6, 6), vector(6)), x);
}

Test(op, bias_gives_its_gradient)
{
    int x = mapped(6);
    check_read_again("bias", program_bias(&program, x, vector(6)), x);
}

Test(op, layer_norm_gives_the_gradients_of_weight_bias_and_input)
{
    int scale = vector(6), shift = vector(6);
    program.param[scale].fill = 1.0f;
    int x = mapped(6);
    check_read_again("layer_norm", program_layer_norm(&program, x, scale, shift), x);
}

Test(op, batch_norm_gives_the_gradients_of_weight_bias_and_input_through_all_nodes_statistics)
{
    int scale = vector(6), shift = vector(6), mean = vector(6), variance = vector(6);
    program.param[scale].fill = program.param[variance].fill = 1.0f;
    int x = mapped(6);
    check_read_again("batch_norm", program_batch_norm(&program, x, scale, shift, mean, variance), x);
}

Test(op, add_passes_gradients_to_both_inputs_and_to_one_that_is_read_twice)
{
    int x = mapped(6), y = mapped(6);
    int z = program_add(&program, 0.9f, x, 0.1f, y);
    check_from("add", program_add(&program, 1.0f, z, -2.0f, x));
}

Test(op, concat_of_any_number_of_values_passes_each_its_columns_gradients)
{
    int x[] = {mapped(6), mapped(1), mapped(4), mapped(3), mapped(6)};
    for (int n = 2; n <= 5; n++) {
        int all = program_concat(&program, x, n);
        int sum = program_linear(&program, all, weight(program.value[all].width, 6), -1);
        x[0] = program_add(&program, 1.0f, sum, 0.5f, x[0]);
    }
    check_from("concat", x[0]);
}

Test(op, max_passes_the_gradient_to_the_greater)
{
    int x = mapped(6), y = mapped(6);
    check_read_again("max", program_max(&program, x, y), y);
}

Test(op, max_passes_the_gradient_of_equal_inputs_once)
{
    int x = mapped(6);
    check_from("max of equals", program_max(&program, x, x));
}

Test(op, eps_add_gives_the_gradient_of_epsilon_and_of_both_inputs)
{
    int x = mapped(6), y = mapped(6);
    int z = program_eps_add(&program, vector(1), x, y);
    check_from("eps_add", program_add(&program, 1.0f, z, 0.5f, program_add(&program, 1.0f, x, -1.0f, y)));
}

Test(op, an_epsilon_that_does_not_train_gets_no_gradient)
{
    int x = mapped(6), eps = vector(1);
    program.param[eps].trains = false;
    check_from("fixed eps_add", program_eps_add(&program, eps, x, x));
}

#define ACTIVATION_TEST(name, kind)                                                                                  \
    Test(op, name##_gives_its_gradient)                                                                              \
    {                                                                                                                \
        check_from(#name, program_activate(&program, mapped(6), kind, 0.0));                                         \
    }                                                                                                                \
    Test(op, name##_with_dropout_gives_the_gradient_of_the_same_mask)                                                \
    {                                                                                                                \
        int x = mapped(6);                                                                                           \
        check_read_again(#name " and dropout", program_activate(&program, x, kind, 0.4), x);                         \
    }
ACTIVATION_TEST(relu, DEVICE_ACTIVATION_RELU)
ACTIVATION_TEST(elu, DEVICE_ACTIVATION_ELU)
ACTIVATION_TEST(leaky_relu, DEVICE_ACTIVATION_LEAKY_RELU)
ACTIVATION_TEST(gelu, DEVICE_ACTIVATION_GELU)
ACTIVATION_TEST(none, DEVICE_ACTIVATION_NONE)

static void aggregate_check(enum aggregate_kind kind, enum graph_loops loops)
{
    graph.no_loops = loops == GRAPH_LOOPS_STORED;
    int x = mapped(6);
    int y = program_aggregate(&program, x, kind);
    check_read_again(aggregate_defs[kind]->name, y, x);
}

#define AGGREGATE_TEST(name, kind)                                                                                   \
    Test(op, name##_gives_its_gradient_without_loops)                                                                \
    {                                                                                                                \
        aggregate_check(kind, GRAPH_LOOPS_STORED);                                                                   \
    }                                                                                                                \
    Test(op, name##_gives_its_gradient_where_loops_are_implicit)                                                     \
    {                                                                                                                \
        aggregate_check(kind, GRAPH_LOOPS_IMPLICIT);                                                                 \
    }
AGGREGATE_TEST(sum, AGGREGATE_KIND_SUM)
AGGREGATE_TEST(mean, AGGREGATE_KIND_MEAN)
AGGREGATE_TEST(gcn, AGGREGATE_KIND_GCN)
AGGREGATE_TEST(max, AGGREGATE_KIND_MAX)

Test(op, weighted_sums_means_and_gcn_give_their_gradients_with_loops_and_without)
{
    for (int kind = AGGREGATE_KIND_SUM; kind <= AGGREGATE_KIND_GCN; kind++) {
        for (int implicit = 0; implicit < (kind == AGGREGATE_KIND_SUM ? 1 : 2); implicit++) {
            end();
            begin();
            graph.weighted = true;
            aggregate_check(kind, implicit ? GRAPH_LOOPS_IMPLICIT : GRAPH_LOOPS_STORED);
        }
    }
}

#define N_HEAD 3
#define N_COLUMN 4

static int head_weight(void)
{
    const int64_t shape[] = {1, N_HEAD, N_COLUMN};
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, "heads.%d", program.n_param);
    return program_tensor(&program, name, 3, shape, spread);
}

/* Every input is a linear map of its own, and the values are read a second time afterwards. */
static void attention_check(enum aggregate_kind kind, enum graph_loops loops, double dropout)
{
    graph.no_loops = loops == GRAPH_LOOPS_STORED;
    int x = mapped((int64_t)N_HEAD * N_COLUMN);
    struct op op = {.aggregate = kind,
                    .in = {x, -1, -1},
                    .param = {-1, -1},
                    .n_head = N_HEAD,
                    .dropout = dropout,
                    .a = kind == AGGREGATE_KIND_DOT ? 0.2F * (float)spread : 0.2F};
    if (kind == AGGREGATE_KIND_GAT) {
        op.in[1] = program_head_dot(&program, x, head_weight());
        op.in[2] = program_head_dot(&program, x, head_weight());
    } else {
        op.in[1] = kind == AGGREGATE_KIND_DOT ? mapped((int64_t)N_HEAD * N_COLUMN) : -1;
        op.in[1] = kind == AGGREGATE_KIND_COSINE
                       ? program_linear(&program, 0, program_param(&program, "key", N_HEAD, N_FEATURE, spread), -1)
                       : op.in[1];
        op.in[2] = mapped((int64_t)N_HEAD * N_COLUMN);
        op.param[0] = kind == AGGREGATE_KIND_GATV2 ? head_weight() : -1;
    }
    int y = program_attention(&program, &op);
    check_read_again(aggregate_defs[kind]->name, y, x);
}

#define ATTENTION_TEST(name, kind)                                                                                   \
    Test(op, name##_gives_its_gradient_without_loops)                                                                \
    {                                                                                                                \
        attention_check(kind, GRAPH_LOOPS_STORED, 0.0);                                                              \
    }                                                                                                                \
    Test(op, name##_gives_its_gradient_where_loops_are_implicit)                                                     \
    {                                                                                                                \
        attention_check(kind, GRAPH_LOOPS_IMPLICIT, 0.0);                                                            \
    }                                                                                                                \
    Test(op, name##_gives_its_gradient_with_coefficients_dropped)                                                    \
    {                                                                                                                \
        attention_check(kind, GRAPH_LOOPS_IMPLICIT, 0.4);                                                            \
    }
ATTENTION_TEST(gat, AGGREGATE_KIND_GAT)
ATTENTION_TEST(gatv2, AGGREGATE_KIND_GATV2)
ATTENTION_TEST(dot, AGGREGATE_KIND_DOT)
ATTENTION_TEST(cosine, AGGREGATE_KIND_COSINE)

/* Coefficients are 0 or 1 nearly everywhere, and e^score alone would overflow in float. */
Test(op, scores_of_any_size_neither_overflow_nor_lose_the_sum)
{
    static const enum aggregate_kind kinds[] = {AGGREGATE_KIND_GAT, AGGREGATE_KIND_GATV2, AGGREGATE_KIND_DOT,
                                                AGGREGATE_KIND_COSINE};
    static const double spreads[] = {150.0, 150.0, 300.0, 100.0};
    for (int k = 0; k < 4; k++) {
        spread = spreads[k];
        tolerance = TOLERANCE_ATTENTION_LARGE;
        attention_check(kinds[k], GRAPH_LOOPS_IMPLICIT, 0.0);
        end();
        begin();
    }
}

#define N_EDGE 3

/* Heads of N_COLUMN columns with those of N_EDGE features behind them. */
static int edge_weight(void)
{
    return weight(N_EDGE, (int64_t)N_HEAD * N_COLUMN);
}

Test(op, head_widen_gives_its_gradient)
{
    check_from("head_widen", program_head_widen(&program, mapped((int64_t)N_HEAD * N_COLUMN), edge_weight(), N_HEAD));
}

Test(op, head_narrow_gives_its_gradient)
{
    int x = mapped((int64_t)N_HEAD * (N_COLUMN + N_EDGE));
    check_from("head_narrow", program_head_narrow(&program, x, edge_weight(), N_HEAD));
}

Test(op, two_ops_with_one_weight_add_up_its_gradient)
{
    int w = edge_weight(), x = program_head_widen(&program, mapped((int64_t)N_HEAD * N_COLUMN), w, N_HEAD);
    check_read_again("head_widen and head_narrow", program_head_narrow(&program, x, w, N_HEAD),
                     mapped((int64_t)N_HEAD * N_COLUMN));
}

/* Attention over edges with features, which has no implicit loops. */
static void edges_check(enum aggregate_kind kind, double dropout)
{
    graph.n_edge_feature = N_EDGE;
    program.n_edge_feature = N_EDGE;
    int x = mapped((int64_t)N_HEAD * N_COLUMN), w = edge_weight();
    struct op op = {
        .aggregate = kind, .in = {x, -1, -1}, .param = {-1, -1}, .n_head = N_HEAD, .dropout = dropout, .a = 0.2F};
    if (kind == AGGREGATE_KIND_GAT_EDGES) {
        op.in[1] = program_head_dot(&program, x, head_weight());
        op.in[2] = program_head_dot(&program, x, head_weight());
        op.param[0] = w;
        op.param[1] = head_weight();
    } else if (kind == AGGREGATE_KIND_GATV2) {
        op.in[2] = mapped((int64_t)N_HEAD * N_COLUMN);
        op.param[0] = head_weight();
        op.param[1] = w;
    } else {
        op.in[1] = mapped((int64_t)N_HEAD * N_COLUMN);
        op.in[2] = program_head_widen(&program, mapped((int64_t)N_HEAD * N_COLUMN), w, N_HEAD);
    }
    int y = program_attention(&program, &op);
    y = kind == AGGREGATE_KIND_DOT ? program_head_narrow(&program, y, w, N_HEAD) : y;
    check_read_again(aggregate_defs[kind]->name, y, x);
}

#define EDGES_TEST(name, kind)                                                                                       \
    Test(op, name##_gives_its_gradient_where_edges_have_features)                                                    \
    {                                                                                                                \
        edges_check(kind, 0.0);                                                                                      \
    }                                                                                                                \
    Test(op, name##_gives_its_gradient_where_edges_have_features_and_coefficients_are_dropped)                       \
    {                                                                                                                \
        edges_check(kind, 0.4);                                                                                      \
    }
EDGES_TEST(gat, AGGREGATE_KIND_GAT_EDGES)
EDGES_TEST(gatv2, AGGREGATE_KIND_GATV2)
EDGES_TEST(dot, AGGREGATE_KIND_DOT)

Test(op, inverse_norm_gives_its_gradient)
{
    int x = mapped(6);
    int y = program_inverse_norm(&program, x);
    check_read_again("inverse_norm", program_linear(&program, y, weight(1, 6), -1), x);
}

Test(op, row_scale_gives_the_gradients_of_rows_and_their_scales)
{
    int x = mapped(6), scale = mapped(1);
    int y = program_row_scale(&program, x, scale);
    int again = program_linear(&program, scale, weight(1, 6), -1);
    check_read_again("row_scale", program_add(&program, 1.0f, y, 1.0f, again), x);
}

Test(op, a_learned_scale_of_one_number_per_row_gives_its_gradient)
{
    int x = mapped(1), beta = program_param(&program, "beta", 0, 1, 1.0);
    check_from("scale", program_head_dot(&program, x, beta));
}

Test(op, head_dot_gives_its_gradient)
{
    int x = mapped((int64_t)N_HEAD * N_COLUMN);
    int y = program_head_dot(&program, x, head_weight());
    check_read_again("head_dot", program_linear(&program, y, weight(N_HEAD, N_HEAD * N_COLUMN), -1), x);
}

Test(op, head_mean_gives_its_gradient)
{
    int x = mapped((int64_t)N_HEAD * N_COLUMN);
    int y = program_head_mean(&program, x, N_HEAD);
    check_read_again("head_mean", program_linear(&program, y, weight(N_COLUMN, N_HEAD * N_COLUMN), -1), x);
}

/* Four relations, with a weight each or with two bases. */
static void relation_check(bool has_bases)
{
    graph.n_relation = 4;
    const int64_t shape[] = {has_bases ? 2 : 4, 6, 6};
    int bases = program_tensor(&program, "weight", 3, shape, 1.0);
    int comp = has_bases ? program_param(&program, "comp", 4, 2, 1.0) : -1;
    int x = mapped(6);
    check_read_again("relation", program_relation(&program, x, bases, comp), x);
}

Test(op, relation_gives_the_gradients_of_its_weights_and_input)
{
    relation_check(false);
}

Test(op, relation_gives_the_gradients_of_diagonal_blocks)
{
    graph.n_relation = 4;
    const int64_t shape[] = {4, 3, 2, 3};
    int blocks = program_tensor(&program, "weight", 4, shape, 1.0);
    int x = mapped(6);
    int y = program_relation(&program, x, blocks, -1), own = program_linear(&program, x, weight(6, 9), -1);
    check_from("relation, blocks", program_add(&program, 1.0f, y, 1.0f, own));
}

Test(op, relation_gives_the_gradients_of_bases_and_their_coefficients)
{
    relation_check(true);
}

/* Four relations' columns, 6 each, or two bases'. */
static void relation_rows_check(bool has_bases)
{
    graph.n_relation = 4;
    program.n_relation = 4;
    int comp = has_bases ? program_param(&program, "comp", 4, 2, 1.0) : -1;
    int x = mapped(has_bases ? 12 : 24);
    int y = program_relation_rows(&program, x, 6, comp);
    check_from("relation rows", program_concat(&program, (int[]){y, x}, 2));
}

Test(op, relation_rows_give_the_gradient_of_each_relations_columns)
{
    relation_rows_check(false);
}

Test(op, relation_rows_give_the_gradients_of_bases_and_their_coefficients)
{
    relation_rows_check(true);
}

Test(op, linear_by_column_gives_the_gradients_of_weight_bias_and_input)
{
    int x = mapped(6);
    int w = program_param(&program, "by_column", 6, 4, 1.0); /* not square, so that a transposed weight is noticed */
    int y = program_linear_by_column(&program, x, w, vector(4));
    check_read_again("linear by column", program_linear(&program, y, weight(4, 6), -1), x);
}
