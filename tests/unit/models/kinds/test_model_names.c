/* Programs as builders make them: initial weights, the order of ops, what settings are refused. Names and shapes are
 * PyTorch Geometric's, as its modules load them (system/interop/test_pyg). */
#include "models/program/program.h"
#include "tests/support/process/expect.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job job;
static struct program program;
static struct program_input input;

static void begin(void)
{
    job_defaults(&job);
    job.model.hidden = 16;
    job.model.steps = 2;
    input = (struct program_input){.facts = {.n_feature = 12, .n_class = 5}};
}

static void end(void)
{
    program_release(&program);
}

TestSuite(model_names, .init = begin, .fini = end);

static void build(int kind)
{
    program_release(&program);
    job.model.kind = kind;
    expect_done(program_build(&job, &input, &program));
}

static void ops(const char *expected)
{
    char *text;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    program_print(&program, file);
    fclose(file);
    cr_assert_str_eq(text, expected);
    free(text);
}

static const struct parameter *param(const char *name)
{
    for (int p = 0; p < program.n_param; p++) {
        if (strcmp(program.param[p].name, name) == 0) {
            return &program.param[p];
        }
    }
    cr_assert_fail("no parameter %s", name);
    return NULL;
}

Test(model_names, weights_are_drawn_as_pytorch_geometric_draws_them)
{
    static const struct {
        int kind;
        const char *name;
        double bound; /* 0: they are `fill` */
        float fill;
        bool fixed;
    } drawn[] = {
        {JOB_KIND_GCN, "convs.0.bias", 0.0, 0.0F, false},
        {JOB_KIND_GIN, "convs.0.eps", 0.0, 0.5F, true},
        {JOB_KIND_AGNN, "convs.0.beta", 0.0, 1.0F, true},
        {JOB_KIND_AGNN, "convs.1.beta", 0.0, 1.0F, false},
        {JOB_KIND_GCN, "norms.0.module.weight", 0.0, 1.0F, false},
        {JOB_KIND_GCN, "norms.0.module.bias", 0.0, 0.0F, false},
        {JOB_KIND_GCN, "norms.0.module.running_mean", 0.0, 0.0F, true},
        {JOB_KIND_GCN, "norms.0.module.running_var", 0.0, 1.0F, true},
        {JOB_KIND_GCN, "convs.0.lin.weight", 6.0 / (12 + 16), 0.0F, false}, /* glorot */
        {JOB_KIND_GCNII, "convs.0.weight1", 6.0 / (16 + 16), 0.0F, false},
        {JOB_KIND_GAT, "convs.0.lin.weight", 6.0 / (12 + 48), 0.0F, false},
        {JOB_KIND_GAT, "convs.0.att_src", 6.0 / (3 + 16), 0.0F, false},
        {JOB_KIND_GAT, "convs.0.lin_edge.weight", 6.0 / (48 + 4), 0.0F, false},
        {JOB_KIND_GATV2, "convs.0.lin_edge.weight", 6.0 / (48 + 4), 0.0F, false},
        {JOB_KIND_TRANSFORMER, "convs.0.lin_edge.weight", 1.0 / 4, 0.0F, false}, /* torch.nn.Linear's */
        {JOB_KIND_SAGE, "convs.0.lin_l.weight", 1.0 / 12, 0.0F, false},
        {JOB_KIND_SAGE, "convs.1.lin_l.bias", 1.0 / 16, 0.0F, false},
        {JOB_KIND_SGC, "convs.0.lin.bias", 1.0 / 12, 0.0F, false},
    };
    job.model.eps = 0.5;
    job.model.norm = JOB_NORM_BATCH;
    job.model.heads = 3;
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        input.facts.n_edge_feature = strstr(drawn[i].name, "lin_edge") != NULL ? 4 : 0;
        build(drawn[i].kind);
        const struct parameter *one = param(drawn[i].name);
        cr_expect_float_eq(one->bound, sqrt(drawn[i].bound), 1e-12, "row %zu: %g", i, one->bound);
        cr_expect(one->fill == drawn[i].fill && one->trains != drawn[i].fixed, "row %zu", i);
    }
}

Test(model_names, labels_as_input_change_in_every_epoch)
{
    job.model.label_input = true;
    job.model.label_rate = 0.75;
    build(JOB_KIND_GCN);
    cr_assert(program.labels == 0 && program.op[0].dropout == 0.25);
    cr_assert(!program.value[program.op[0].out].is_static);
}

Test(model_names, weight_decay_of_the_first_layer_leaves_the_others_alone)
{
    job.train.decay = JOB_DECAY_FIRST;
    build(JOB_KIND_GCN);
    cr_assert(param("convs.0.lin.weight")->decays && param("convs.0.bias")->decays);
    cr_assert(!param("convs.1.lin.weight")->decays && !param("convs.1.bias")->decays);
    build(JOB_KIND_GCNII);
    cr_assert(param("lins.0.bias")->decays && !param("convs.0.weight1")->decays && !param("lins.1.weight")->decays);
    job.model.residual = true;
    job.model.norm = JOB_NORM_LAYER;
    build(JOB_KIND_APPNP);
    cr_assert(param("residuals.0.weight")->decays && param("norms.0.bias")->decays &&
              !param("lins.1.weight")->decays);
    build(JOB_KIND_AGNN); /* betas between two layers are of the first */
    cr_assert(param("lins.0.bias")->decays && param("convs.1.beta")->decays && !param("lins.1.weight")->decays);
    job.model.layers = 3;
    build(JOB_KIND_AGNN);
    cr_assert(param("norms.0.bias")->decays && !param("convs.1.beta")->decays && !param("norms.1.bias")->decays);
    job.train.decay = JOB_DECAY_ALL;
    build(JOB_KIND_GCN);
    cr_assert(param("convs.1.bias")->decays);
}

Test(model_names, static_input_is_aggregated_first_and_a_narrowing_layer_transforms_first)
{
    job.model.dropout = 0.5;
    build(JOB_KIND_GCN);
    ops("0 aggregate gcn v1 = v0  [12] static\n"
        "1 linear v2 = v1, convs.0.lin.weight, convs.0.bias  [16]\n"
        "2 activate relu v3 = v2, dropout 0.5  [16]\n"
        "3 linear v4 = v3, convs.1.lin.weight  [5]\n"
        "4 aggregate gcn v5 = v4  [5]\n"
        "5 bias v6 = v5, convs.1.bias  [5]\n");
}

/* Aggregates over what a linear map made. */
static int n_transformed_first(void)
{
    int n = 0;
    for (int a = 0; a < program.n_op; a++) {
        for (int l = 0; l < a && program.op[a].kind == OP_KIND_AGGREGATE; l++) {
            n += program.op[l].kind == OP_KIND_LINEAR && program.op[l].out == program.op[a].in[0];
        }
    }
    return n;
}

Test(model_names, sums_may_be_taken_after_the_linear_map_but_not_maxima)
{
    build(JOB_KIND_SAGE); /* the second layer narrows */
    cr_assert_eq(n_transformed_first(), 1);
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    build(JOB_KIND_SAGE);
    cr_assert_eq(n_transformed_first(), 0);
}

Test(model_names, dropped_input_travels_where_it_is_narrower_counting_that_it_needs_no_gradient)
{
    job.model.input_dropout = 0.5;
    job.model.layers = 1;
    input.facts.n_feature = 9; /* 9 columns forth, or 5 forth and 5 back */
    build(JOB_KIND_GCN);
    cr_assert(program.op[1].kind == OP_KIND_AGGREGATE && !program.op[1].is_static);
    input.facts.n_feature = 10; /* a tie: the aggregate then keeps nothing for backward */
    build(JOB_KIND_GCN);
    cr_assert_eq(program.op[1].kind, OP_KIND_LINEAR);
}

Test(model_names, sparse_input_is_multiplied_before_it_is_aggregated)
{
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_GIN, JOB_KIND_SGC};
    input.is_sparse = true;
    for (int k = 0; k < 4; k++) {
        build(kinds[k]);
        cr_assert(program.value[0].is_sparse);
        cr_assert_eq(program.op[0].kind, OP_KIND_LINEAR);
        cr_assert_eq(program.op[0].param[1], -1, "the bias waits until after the aggregate");
    }
}

Test(model_names, what_needs_dense_rows_of_sparse_features_says_so)
{
    input.is_sparse = true;
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    build(JOB_KIND_SAGE);
    cr_assert(!program.value[0].is_sparse);
    job.model.residual = true;
    build(JOB_KIND_GCN);
    cr_assert(program.value[0].is_sparse, "a residual through a linear map takes sparse rows");
    input.facts.n_feature = 16;
    build(JOB_KIND_GCN);
    cr_assert(!program.value[0].is_sparse);
    job.model.layers = 1;
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_MAX;
    build(JOB_KIND_GCN);
    cr_assert(!program.value[0].is_sparse, "under jumping knowledge the one layer has a residual");
    job.model.layers = 2;
    job.model.heads = 2;
    build(JOB_KIND_GAT);
    cr_assert(program.value[0].is_sparse, "a layer of two heads is twice as wide");
    input.facts.n_feature = 32;
    build(JOB_KIND_GAT);
    cr_assert(!program.value[0].is_sparse);
}

Test(model_names, sgc_propagates_its_steps_before_epoch_0_and_then_multiplies)
{
    build(JOB_KIND_SGC);
    ops("0 aggregate gcn v1 = v0  [12] static\n"
        "1 aggregate gcn v2 = v1  [12] static\n"
        "2 linear v3 = v2, convs.0.lin.weight, convs.0.lin.bias  [5]\n");
}

static void refused(enum status status, const char *reason)
{
    cr_assert_eq(program_build(&job, &input, &program), status);
    expect_reason(reason);
}

Test(model_names, settings_that_do_not_go_together_are_refused)
{
    job.model.linear_layers = 2;
    refused(STATUS_CONFIG, "model.linear_layers = 2 must be less than model.layers = 2");
    job.model.linear_layers = 1;
    job.model.kind = JOB_KIND_APPNP;
    refused(STATUS_CONFIG, "model.linear_layers = 1 does not go with model.kind = \"appnp\"");
    job.model.kind = JOB_KIND_GCN;
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_MAX;
    refused(STATUS_CONFIG, "model.linear_layers = 1 does not go with model.jumping_knowledge = \"max\"");
    job.model.linear_layers = 0;
    job.model.kind = JOB_KIND_APPNP;
    refused(STATUS_CONFIG, "model.jumping_knowledge = \"max\" does not go with model.kind = \"appnp\"");
    job.model.kind = JOB_KIND_GCNII;
    refused(STATUS_CONFIG, "model.jumping_knowledge = \"max\" does not go with model.kind = \"gcnii\"");
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_NONE;
    job.model.kind = JOB_KIND_AGNN;
    job.model.layers = 1;
    refused(STATUS_CONFIG, "model.layers = 1 does not go with model.kind = \"agnn\"");
    job.model.layers = 2;
    job.model.kind = JOB_KIND_GCN;
    job.model.label_input = input.facts.features_typed = true;
    refused(STATUS_CONFIG, "model.label_input = true does not go with features of several node types");
    job.model.label_input = input.facts.features_typed = false;
    input.facts.n_feature = 0;
    refused(STATUS_DATA, "no features");
    input.facts.n_feature = 3;
    input.facts.n_class = 0;
    refused(STATUS_DATA, "no labels");
}

Test(model_names, rows_of_nodes_own_are_for_graphs_without_any_features)
{
    const struct embedded_run some = {3, 12}, all = {0, 12};
    input.facts.n_relation = 4;
    input.is_sparse = input.facts.features_typed = true;
    input.embedded = (struct embedded){1, &some};
    job.model.kind = JOB_KIND_RGCN;
    job.model.embedding = false;
    refused(STATUS_CONFIG, "expected a graph whose nodes have no features, found 3 columns of features");
    input.facts.features_typed = false;
    input.embedded = (struct embedded){0, NULL};
    refused(STATUS_CONFIG, "found 12 columns of features");
    input.facts.features_typed = true;
    input.embedded = (struct embedded){1, &all};
    job.model.residual = true;
    job.model.hidden = 12;
    refused(STATUS_CONFIG, "with model.embedding = false expected model.residual_linear = true");
    job.model.residual_linear = true;
    build(JOB_KIND_RGCN);
}

Test(model_names, sparse_features_of_one_type_of_nodes_are_rgcns_as_they_are)
{
    input.facts.n_relation = 4;
    input.is_sparse = true;
    build(JOB_KIND_RGCN);
    cr_assert(!program.value[0].is_sparse);
    cr_assert_str_eq(program.param[0].name, "convs.0.weight");
}

Test(model_names, rgcn_of_diagonal_blocks_needs_columns_that_they_divide)
{
    input.facts.n_relation = 4;
    input.facts.n_class = 6;
    job.model.blocks = 2;
    build(JOB_KIND_RGCN);
    input.facts.n_class = 5;
    expect_fails(program_build(&job, &input, &program), STATUS_CONFIG,
                 "model.blocks = 2 does not divide the 5 classes, expected equal blocks");
    job.model.linear_layers = 1;
    build(JOB_KIND_RGCN);
    input.facts.n_feature = 11;
    expect_fails(program_build(&job, &input, &program), STATUS_CONFIG, "does not divide the 11 feature columns");
}

Test(model_names, rgcn_has_as_many_relations_as_the_data)
{
    input.facts.n_relation = 65536;
    job.model.bases = 2;
    build(JOB_KIND_RGCN);
    cr_assert(program.n_op == 7 && param("convs.1.comp")->shape[0] == 65536, "%d", program.n_op);
}

Test(model_names, rgcn_without_types_of_edges_is_refused)
{
    job.model.kind = JOB_KIND_RGCN;
    expect_fails(program_build(&job, &input, &program), STATUS_DATA, "the data set's edges have no types");
}
