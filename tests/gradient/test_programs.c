/* Every instruction of tile programs, of nodes and of edges, and every reduction, against central differences in double. */
#include "tests/support/model/gradient.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define N_CLASS 3

/* Graphs by what they have; where a row of more than 32 edges is, edges are in more than one run. */
static const struct tiny_graph sparse = {.n_node = 12, .n_draw = 12, .no_loops = true, .seed = 3},
                               hub = {.n_node = 40, .n_draw = 12, .hub = true, .seed = 4},
                               looped = {.n_node = 12, .n_draw = 40, .loops = true, .seed = 5},
                               weighted = {.n_node = 12, .n_draw = 30, .weighted = true, .seed = 6},
                               featured = {.n_node = 12, .n_draw = 30, .n_edge_feature = 2, .loops = true, .seed = 7};
static const struct tiny_graph *const graphs[] = {&sparse, &hub, &looped, &weighted};

static struct job job;
static unsigned seen[TILE_OP_N]; /* by instruction: bit 0 of rows, bit 1 of edges */

static void begin(void)
{
    job_defaults(&job);
    job.model.kind = JOB_KIND_PROGRAM;
    job.model.layers = 1;
}

TestSuite(tile_gradient, .init = begin);

static void note(const struct program *program)
{
    for (int o = 0; o < program->n_op; o++) {
        const struct op *op = &program->op[o];
        for (int t = 0; t < op_n_tile(op); t++) {
            const struct tile *tile = &program->tile[op->tile + t];
            for (int i = 0; i < tile->n_instruction; i++) {
                seen[tile->instruction[i].op] |= op->kind == OP_KIND_ROWS ? 1U : 2U;
            }
        }
    }
}

/* `value` with S and D for rows of four columns of the edge's ends: of nodes these are rows of the node. */
static void check(const char *value, bool of_nodes, const struct tiny_graph *graph)
{
    static const char *const names[2][2] = {{"e.src.s", "e.dst.d"}, {"v.s", "v.d"}};
    char text[2048], expression[1024] = "";
    struct program program;
    for (const char *c = value; *c != 0; c++) {
        const char one[] = {*c, 0};
        strcat(expression, *c == 'S' || *c == 'D' ? names[of_nodes][*c == 'D'] : one);
    }
    snprintf(text, sizeof text,
             "%sdef layer(v, out):\n    v.s = linear('s', v.x, 4)\n    v.d = linear('d', v.x, 4)\n"
             "    return linear('last', %s, out)\n",
             of_nodes ? "match = False\n" : "", expression);
    strcpy(job.program.text, text);
    cr_assert_eq(job_program_check(&job, "case.gnn", true), STATUS_OK, "%s", status_reason());
    const struct program_input input = {.facts = {.n_feature = 3,
                                                  .n_class = N_CLASS,
                                                  .weighted = graph->weighted,
                                                  .n_edge_feature = graph->n_edge_feature}};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s\n%s", text, status_reason());
    note(&program);
    gradient_check(&(struct gradient_case){.what = expression,
                                           .program = &program,
                                           .graph = graph,
                                           .sampling = job.exchange.sampling < 1.0 ? job.exchange.sampling : 0.0});
    program_release(&program);
}

/* Of two rows; each uses an instruction, or one in another way. */
static const char *const values[] = {
    "relu(S * D)",
    "leaky_relu(S * D, 0.3)",
    "elu(S * D)",
    "gelu(S * D)",
    "silu(S * D)",
    "sigmoid(S * D)",
    "tanh(S * D)",
    "softplus(S * D)",
    "exp(S * D)",
    "log(exp(S * D) + 1)",
    "sqrt(exp(S * D))",
    "abs(S * D)",
    "clamp(S * D, -0.1, 0.2)",
    "exp(S * D) ** 1.5",
    "tanh(S + D)",
    "tanh(S - D)",
    "S / exp(S * D)",
    "minimum(S, D * 0.5)",
    "maximum(S, D * 0.5)",
    "minimum(S * D, sum_columns(D))",
    "normalize(S * D)",
    "S * norm(S * D)",
    "S * sum_columns(S * D)",
    "(S.heads(2) * dot(S.heads(2), D.heads(2))).flat()",
    "(S * D).heads(2).sum_heads()",
    "tanh(S * D).heads(2).mean_heads()",
    "(S.heads(2) * tanh(D).heads(2)).sum_heads()",
    "((S * D).heads(2) @ param('by_head', 2, 2, 3)).flat()",
    "(S * D).heads(2).flat() @ param('matrix', 4, 3)",
    "linear('joined', concat(S * D, S), 3)",
    "(S.heads(2) * param('scale', 2, 2) * D.heads(2)).flat()",
    "(tanh(S * D) * param('wide', 2, 4) * param('same', 4)).flat()",
    "S * D * param('one', 1) + param('row', 4)",
    "(S * D).heads(2).flat()[:, 1:3] * S[:, 0:2]",
    "tanh(S * D)[:, 1:2] * S",
    "S * D * param('slices', 3, 4, init=glorot)[1]",
    "dot(tanh(S * D), param('along', 4)) * S",
};
enum { N_VALUE = sizeof values / sizeof *values, N_GRAPH = sizeof graphs / sizeof *graphs };

Test(tile_gradient, every_instruction_gives_its_gradient_of_nodes_and_of_edges)
{
    for (size_t i = 0; i < N_VALUE; i++) {
        char sum[512];
        snprintf(sum, sizeof sum, "sum(%s for e in v.in_edges)", values[i]);
        check(sum, false, graphs[i % N_GRAPH]);
        check(values[i], true, &sparse);
    }
    check("max(tanh(S * D) + D for e in v.in_edges)", false, &sparse); /* a gate of rows without edges */
    check("sum(dropout(softmax(S * D), 0.4) * S for e in v.in_edges)", false, &hub);
    /* rows of one column, and a number, for two of the tiles */
    check("linear('inner', maximum(v.degree, 1.5) * max(S for e in v.in_edges), 4) / maximum(v.degree, 1.5)", false,
          &sparse);
    for (int op = 0; op < TILE_OP_N; op++) {
        const unsigned all = op == TILE_OP_WON || op == TILE_OP_DROP ? 2U : op == TILE_OP_RELU_BACK ? 1U : 3U;
        cr_expect_eq(seen[op] & all, all, "instruction %d is not in any of these programs", op);
    }
}

static const char *const reductions[] = {
    "sum(%s for e in v.in_edges)",
    "mean(%s for e in v.in_edges)",
    "max(%s for e in v.in_edges)",
    "min(%s for e in v.in_edges)",
    "var(%s for e in v.in_edges)",
    "std(%s for e in v.in_edges)",
    "sum(e.norm * (%s) for e in v.in_edges)",
    "sum(softmax(dot(S, D)) * (%s) for e in v.in_edges)",
    "sum(softmax(dot(S.heads(2), D.heads(2))) * (%s).heads(2) for e in v.in_edges).flat()",
    "sum(softmax(3 * S * D) * (%s) for e in v.in_edges)",
    "sum(softmax(S * D).heads(2) * (%s).heads(2) for e in v.in_edges).flat()",
    "sum(dropout(softmax(dot(S, D)), 0.3) * (%s) for e in v.in_edges)",
    "sum(softmax(S * D) * softmax(S - 2 * S * D) * (%s) for e in v.in_edges)",
    "max(softmax(dot(S, D)) * (%s) for e in v.in_edges)",
    "mean(softmax(dot(S, D)) ** 2 * (%s) for e in v.in_edges)",
    /* of a common row: one aggregate */
    "concat(mean(%1$s for e in v.in_edges), max(%1$s for e in v.in_edges), min(%1$s for e in v.in_edges))",
    "sum(%1$s for e in v.in_edges) * sigmoid(max(D - %1$s for e in v.in_edges)) + sum((%1$s) * S for e in "
    "v.in_edges)",
    "min(%1$s for e in v.in_edges) + std(%1$s for e in v.in_edges)",
    "sum(e.norm * (%1$s) for e in v.in_edges) - max(e.norm * (%1$s) for e in v.in_edges)",
    "max(dropout(%1$s, 0.3) for e in v.in_edges) + sum(dropout(%1$s, 0.3) for e in v.in_edges)",
};

static void check_reductions(const char *value, const struct tiny_graph *graph)
{
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        char text[512], with[256];
        snprintf(with, sizeof with, "sigmoid(S + D) * S%s", value);
        snprintf(text, sizeof text, reductions[i], with); /* NOLINT */
        check(text, false, graph);
    }
}

Test(tile_gradient, every_reduction_gives_its_gradient_with_empty_rows_hubs_loops_weights_and_features)
{
    for (size_t i = 0; i < N_GRAPH; i++) {
        check_reductions(i == 3 ? " * e.weight" : "", graphs[i]);
    }
    check_reductions(" * linear('of_edge', e.feature, 4)", &featured);
}

Test(tile_gradient, sampled_edges_give_the_gradient_of_every_reduction)
{
    job.exchange.sampling = 0.5;
    check_reductions("", &looped);
    check_reductions("", &hub);
}
