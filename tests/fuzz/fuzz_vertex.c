/* Any bytes as a vertex program, or a decoder: refused with a place, or traced, with and without data, and compiled. */
#include "models/program/program.h"
#include "protocol/base/log.h"
#include "protocol/vertex/trace.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/tile_run.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const seeds[] = {
    "self_loops = True\ndef layer(v, out, heads=2, last=False):\n    v.z = linear('lin', v.x, heads * out, "
    "bias=False).heads(heads)\n"
    "    v.s = dot(v.z, param('a', 1, heads, out, init=glorot))\n"
    "    y = sum(dropout(softmax(leaky_relu(e.src.s + e.dst.s, 0.2)), 0.5) * e.src.z for e in v.in_edges)\n"
    "    return y.mean_heads() if last else y.flat()[:, 1:3]\n",
    "def model(v, classes, steps=3):\n    y = 0\n    for r in range(graph.relations):\n"
    "        y = y + mean(e.src.x for e in v.in_edges if e.relation == r) @ param('w', 3, v.x.width, classes)[r]\n"
    "    if graph.edge_features > 0 and not steps <= 2:\n        y, z = clamp(y, -1, 1), concat(y, v.x)\n"
    "    elif steps ** 2 == 1e1:\n        y = layer_norm('n', y)\n    else:\n        y = f(y, w=constant(3))\n    "
    "return y\n"
    "def f(x, w=ones):\n    # twice\n    return max(minimum(e.dst.x, -e.src.x / 2) for e in v.in_edges)\n",
    "def layer(v, out, p=0.5):\n    v.z = relu(linear('l', v.x, out))\n    y = sum(e.norm * e.src.z for e in "
    "v.in_edges)\n"
    "    y = dropout(elu(y + 0.5 * v.z), p) - max(gelu(e.src.z) for e in v.in_edges) + param('b', out)\n"
    "    return layer_norm('n', maximum(concat(y, v.z) @ param('m', 2 * out, out), normalize(y))) * 2 + y\n",
    "def layer(v, out):\n    v.h = linear('h', v.x, 2 * out).heads(2)\n    m = std(f(e) for e in "
    "v.in_edges).mean_heads()\n"
    "    y = sum(softmax(sum_columns(e.dst.h * param('a', 1, 2, out))) * silu(f(e)) for e in v.in_edges).flat()\n"
    "    y = y[:, 0:out] / (v.degree + 1) + min(e.feature[:, 0:1] * tanh(linear('l', concat(e.dst.x, e.src.x), "
    "out))\n"
    "        for e in v.in_edges)\n    return m * sigmoid(y) + norm(m)\n"
    "def f(e):\n    return (e.src.h - e.dst.h) @ param('w', 2, 8, 8) ** 2\n",
    ("def score(e, k=2):\n    w = param('w', graph.relations, 4)[e.relation] * linear('l', e.src.x, 4) ** k\n"
     "    return dot(tanh(w), e.dst.x[:, 1:5]) + sum_columns(e.dst.x[:, 0:4] - w)\n"),
};

static struct device *cpu;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ASSERT(device_cpu.open(1, &cpu) == STATUS_OK);
    seeds_write(*argc, *argv, seeds, sizeof seeds / sizeof *seeds);
    return 0;
}

/* Operations read those before them, and shapes are within the limits. */
static void check(const struct vertex_trace *trace)
{
    ASSERT(trace->n_op <= VERTEX_OP_MOST + 5 * 3 && trace->out < trace->n_op &&
           (trace->out >= 0 || !trace->complete));
    for (int32_t i = 0; i < trace->n_op; i++) {
        const struct vertex_op *op = &trace->op[i];
        ASSERT(op->shape.n_dim >= 1 && op->shape.n_dim <= VERTEX_N_DIM);
        for (int k = 0; k < VERTEX_N_IN; k++) {
            ASSERT(op->in[k] >= -1 && op->in[k] < i);
        }
        ASSERT(op->kind != VERTEX_OP_PARAMETER || (op->weight >= 0 && op->weight < trace->n_weight));
    }
}

/* A place outside of an array ends the fuzzer. */
static void run(const struct tile *tile)
{
    struct arrays arrays[4] = {{{NULL}, {0}, 0}};
    if (tile->n_instruction > 300 || tile->n_float > 4096) { /* long */
        return;
    }
    edges_run(&device_reference, NULL, tile, &arrays[0]);
    edges_run(&device_cpu, cpu, tile, &arrays[1]);
    if (!is_of_edges(tile)) {
        rows_run(&device_reference, NULL, tile, &arrays[2]);
        rows_run(&device_cpu, cpu, tile, &arrays[3]);
    }
    for (int k = 0; k < 4; k++) {
        arrays_free(&arrays[k]);
    }
}

/* Compiled for several kinds of data: a model, or a decoder, or refused. */
static void compile(const uint8_t *bytes, size_t n, bool scores)
{
    static struct job job;
    static const struct program_input inputs[] = {
        {.facts = {.n_feature = 8, .n_class = 4}},
        {.facts = {.n_feature = 8, .n_class = 4, .n_edge_feature = 2}, .is_sparse = true},
        {.facts = {.n_feature = 8, .n_class = 4, .weighted = true}},
        {.facts = {.n_feature = 8, .n_class = 4, .n_relation = 3}},
    };
    if (n > VERTEX_TEXT_MOST || memchr(bytes, 0, n) != NULL) {
        return;
    }
    job_defaults(&job);
    job.model.hidden = 8;
    job.model.kind = scores ? JOB_KIND_GCN : JOB_KIND_PROGRAM;
    job.task.kind = scores ? JOB_TASK_LINK : job.task.kind;
    memcpy(scores ? job.decoder : job.program.text, bytes, n);
    (scores ? job.decoder : job.program.text)[n] = 0;
    bool is_right = (scores ? job_decoder_check(&job, "fuzz.gnn", true)
                            : job_program_check(&job, "fuzz.gnn", true)) == STATUS_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs && is_right; i++) {
        struct program program;
        if (program_build(&job, &inputs[i], &program) == STATUS_OK) {
            for (int t = 0; t < program.n_tile; t++) {
                run(&program.tile[t]);
            }
            program_release(&program);
        }
    }
}

static void trace(const struct vertex_tree *tree, const struct vertex_facts *facts)
{
    struct vertex_trace trace;
    if (vertex_trace_build(tree, &(struct vertex_args){0}, facts, &trace) == STATUS_OK) {
        check(&trace);
        vertex_trace_release(&trace);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct vertex_tree tree;
    bool is_model = false;
    if (vertex_tree_parse((const char *)bytes, n, "fuzz.gnn", &tree) != STATUS_OK) {
        return 0;
    }
    const bool scores = vertex_score(&tree) == STATUS_OK;
    compile(bytes, n, scores);
    if (scores || vertex_entry(&tree, &is_model) == STATUS_OK) {
        int index = is_model ? -1 : 0;
        const struct vertex_facts facts = {.n_in = 8,
                                           .n_out = 4,
                                           .index = index,
                                           .of_pairs = scores,
                                           .n_node = 10,
                                           .n_edge = 20,
                                           .n_relation = 3,
                                           .n_type = 1,
                                           .n_class = 4,
                                           .n_edge_feature = 2,
                                           .mean_degree = 2.0,
                                           .mean_log_degree = 1.0};
        struct vertex_facts unknown = vertex_facts_unknown();
        unknown.index = index;
        unknown.of_pairs = scores;
        unknown.is_last = false;
        trace(&tree, &facts);
        trace(&tree, &unknown);
    }
    vertex_tree_release(&tree);
    return 0;
}
