/* The options of a kind are the arguments of its text; texts that no kind has give the same bits in whatever way a job
 * runs. */
#include "models/steps/step.h"
#include "tests/equivalence/compare.h"
#include "tests/equivalence/data.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(programs, .init = folder_make, .fini = folder_remove, .timeout = 600);

/* A kind's lines of [model], those of its text, and what both have. A text that is a whole model has all of it as arguments. */
struct pair {
    const char *kind, *program, *both;
};

static const struct pair sums[] = {
    {"kind = 'gcn'", "program = 'configs/programs/gcn.gnn'",
     "hidden = 16\nlayers = 3\ndropout = 0.5\nresidual = true"},
    {"kind = 'sage'", "program = 'configs/programs/sage.gnn'", "hidden = 16\nnorm = 'batch'\ninput_dropout = 0.3"},
    {"kind = 'sage'\naggregator = 'sum'", "program = 'configs/programs/sage.gnn'\nargs.aggregator = 'sum'",
     "hidden = 9\njumping_knowledge = 'concat'"},
    {"kind = 'gin'\neps = 0.5\nlearn_eps = true",
     "program = 'configs/programs/gin.gnn'\nargs.eps = 0.5\nargs.learn_eps = true\nargs.hidden = 16",
     "hidden = 16\nlayers = 3"},
    {"kind = 'sgc'\nsteps = 2", "program = 'configs/programs/sgc.gnn'\nargs.steps = 2", ""},
    {"kind = 'appnp'\nsteps = 3\nalpha = 0.2\ndropout = 0.3\nhidden = 16\nnorm = 'layer'",
     "program = 'configs/programs/appnp.gnn'\nargs.steps = 3\nargs.alpha = 0.2\nargs.p = 0.3\nargs.hidden = 16\n"
     "args.norm = 'layer'",
     ""},
    {"kind = 'gcnii'\nlayers = 3\ndropout = 0.3\nhidden = 16\nresidual = true",
     "program = 'configs/programs/gcnii.gnn'\nargs.layers = 3\nargs.p = 0.3\nargs.hidden = 16\nargs.residual = true",
     ""},
};
static const struct pair others[] = {
    {"kind = 'sage'\naggregator = 'max'", "program = 'configs/programs/sage.gnn'\nargs.aggregator = 'max'",
     "hidden = 16\ndropout = 0.2"},
    {"kind = 'gat'\nheads = 3\nout_heads = 2\nattention_dropout = 0.4",
     "program = 'configs/programs/gat.gnn'\nargs.heads = 3\nargs.out_heads = 2\nargs.attention_dropout = 0.4",
     "hidden = 8\ndropout = 0.3"},
    {"kind = 'gatv2'\nheads = 2", "program = 'configs/programs/gatv2.gnn'\nargs.heads = 2",
     "hidden = 7\nlinear_layers = 1\nlayers = 3"},
    {"kind = 'transformer'\nheads = 2", "program = 'configs/programs/transformer.gnn'\nargs.heads = 2",
     "hidden = 8\nnorm = 'layer'"},
    {"kind = 'agnn'\nsteps = 2\ndropout = 0.3\nhidden = 16",
     "program = 'configs/programs/agnn.gnn'\nargs.steps = 2\nargs.p = 0.3\nargs.hidden = 16", ""},
};
static const struct pair typed[] = {
    {"kind = 'rgcn'", "program = 'configs/programs/rgcn.gnn'", "hidden = 16\ndropout = 0.3"},
    {"kind = 'rgcn'\nbases = 2", "program = 'configs/programs/rgcn.gnn'\nargs.bases = 2",
     "hidden = 9\nlayers = 3\nresidual = true"},
    {"kind = 'rgcn'\nblocks = 3", "program = 'configs/programs/rgcn.gnn'\nargs.blocks = 3",
     "hidden = 9\nlinear_layers = 1"},
};

/* The first in the plain way, the second in each of these. */
static const struct way ways[] = {
    {.workers = 1},
    {.workers = 2, .prefetch = 1, .recompute = "always"},
    {.workers = 4, .threads = 2, .is_halo = true},
    {.workers = 2, .is_halo = true, .spills = true, .recompute = "always"},
    {.workers = 2, .prefetch = 2, .offload = "always"},
};
static const char *const exchange[] = {NULL, "sampling = 0.5", "codec = 'int8'", NULL,
                                       "sampling = 0.4\ncodec = 'int4'"};
static const char *const train[] = {NULL, "lr = 0.02\nprune = 'always'",
                                    "lr = 0.01\nprecision = 'bf16'\nproducts = 'bf16'", "lr = 0.01\nclip_norm = 0.5"};
#define LENGTH(list) (sizeof(list) / sizeof *(list))

static void expect_same(const struct pair *pair, const char *data, size_t turn)
{
    char kind[1024], program[1024];
    struct cluster_result want, got;
    snprintf(kind, sizeof kind, "%s\n%s", pair->kind, pair->both);
    snprintf(program, sizeof program, "kind = 'program'\n%s\n%s", pair->program, pair->both);
    struct task task = {.data = data,
                        .model = kind,
                        .exchange = exchange[turn % LENGTH(exchange)],
                        .train = train[turn % LENGTH(train)]};
    compare_run(&task, &compare_plain, &want);
    task.model = program;
    compare_run(&task, &ways[turn % LENGTH(ways)], &got);
    compare_same(&task, &ways[turn % LENGTH(ways)], &want, &got);
    cluster_release(&want);
    cluster_release(&got);
}

/* All of a program that is printed, with every step of its phases. */
static char *plan_of(const char *model, const struct program_input *input)
{
    char text[2048], *plan = NULL;
    size_t n = 0;
    struct job job;
    struct program program;
    struct step_lists steps;
    snprintf(text, sizeof text, "name = 'plan'\n[dataset]\ngenerator = 'karate'\n[model]\n%s\n", model);
    cr_assert_eq(job_load_own(text, strlen(text), "plan", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program_build(&job, input, &program), STATUS_OK, "%s: %s", model, status_reason());
    step_lists_lower(&program, &steps);
    FILE *file = open_memstream(&plan, &n);
    program_print(&program, file);
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        for (int i = 0; i < steps.phase[phase].n_step; i++) {
            step_print(&program, &steps.phase[phase].step[i], file);
            fputc('\n', file);
        }
    }
    fclose(file);
    step_lists_release(&steps);
    program_release(&program);
    return plan;
}

static void expect_plans(const struct pair *pairs, size_t n, const struct program_input *input)
{
    for (size_t i = 0; i < n; i++) {
        char kind[1024], program[1024];
        snprintf(kind, sizeof kind, "%s\n%s", pairs[i].kind, pairs[i].both);
        snprintf(program, sizeof program, "kind = 'program'\n%s\n%s", pairs[i].program, pairs[i].both);
        char *want = plan_of(kind, input), *got = plan_of(program, input);
        cr_expect_str_eq(got, want, "%s\n%s\n%s", program, got, want);
        cr_expect_not_null(strstr(got, "halo"), "%s", got);
        free(want);
        free(got);
    }
}

Test(programs, texts_give_the_steps_of_their_kinds)
{
    for (int i = 0; i < 8; i++) {
        const struct program_input input = {.facts = {.n_feature = i % 4 < 2 ? 42 : 6, .n_class = 7},
                                            .is_sparse = i % 2 == 1};
        struct program_input with = input;
        with.stores = i >= 4;
        expect_plans(sums, LENGTH(sums), &with);
        expect_plans(others, LENGTH(others), &with);
        with.stores = false;
        with.facts.n_relation = 3;
        expect_plans(typed, LENGTH(typed), &with);
        with.facts.n_relation = 0;
        with.facts.weighted = true;
        expect_plans(sums, LENGTH(sums), &with);
        with.facts.weighted = false;
        with.facts.n_edge_feature = 3;
        expect_plans(others + 1, 3, &with);
    }
}

static size_t turn;

/* Each pair over the graph, by the next of the ways and settings; with TEST_THOROUGH by several. */
static void expect_all(const struct pair *pairs, size_t n, const char *data)
{
    const int n_round = getenv("TEST_THOROUGH") != NULL ? 4 : 1;
    for (int round = 0; round < n_round; round++) {
        for (size_t i = 0; i < n; i++) {
            expect_same(&pairs[i], data, turn++);
        }
    }
}

/* Texts that no kind has: the same bits in each way. */
static const struct pair edges[] = {
#define SAME(lines) "kind = 'program'\n" lines, lines
    {SAME("program = 'configs/programs/resgated.gnn'"), "hidden = 8\ndropout = 0.3"},
    {SAME("program = 'configs/programs/edgeconv.gnn'"), "hidden = 9\nlayers = 3"},
    {SAME("program = 'configs/programs/edgeconv.gnn'\nargs.aggregator = 'mean'\nargs.hidden = 5"), "hidden = 8"},
    {SAME("program = 'configs/programs/gen.gnn'\nargs.learn_t = true"), "hidden = 8\nnorm = 'layer'"},
    {SAME("program = 'configs/programs/film.gnn'"), "hidden = 7"},
    {SAME("program = 'configs/programs/pna.gnn'"), "hidden = 8"},
};
static const struct pair edges_with_features[] = {
    {SAME("program = 'configs/programs/gmm.gnn'"), "hidden = 8"},
    {SAME("program = 'configs/programs/cg.gnn'"), "hidden = 8\nresidual = true"},
    {SAME("program = 'configs/programs/gine.gnn'"), "hidden = 8"},
};

Test(programs, edges_give_the_same_bits_in_each_way)
{
    expect_all(edges, LENGTH(edges), data_graphs[1]);
    expect_all(edges, LENGTH(edges), data_few[0]);
    const char *features = data_write(&(struct data_folder){.has_edge_features = true}, true);
    expect_all(edges_with_features, LENGTH(edges_with_features), features);
}

Test(programs, reductions_of_a_common_row_give_the_same_bits_in_each_way)
{
    char lines[600], program[512];
    folder_write(
        "grouped.gnn",
        "def layer(v, out):\n    v.h = linear('h', v.x, out)\n    v.k = linear('k', v.x, out)\n"
        "    v.m = mean(tanh(e.src.h * e.dst.k) for e in v.in_edges) + mean(e.src.k for e in v.in_edges)\n"
        "    v.g = v.h + sum(e.norm * e.src.k for e in v.in_edges)\n"
        "    v.n = max(abs(e.src.h - e.dst.m) for e in v.in_edges)\n"
        "    return linear('o', concat(v.m + v.g, v.n, min(tanh(e.src.h * e.dst.k) for e in v.in_edges)), out)\n");
    snprintf(program, sizeof program, "program = '%s'", folder_path("grouped.gnn"));
    snprintf(lines, sizeof lines, "kind = 'program'\n%s", program);
    const struct pair pair = {lines, program, "hidden = 8\ndropout = 0.2"};
    for (int k = 0; k < 4; k++) {
        expect_all(&pair, 1, data_graphs[1]);
    }
}
