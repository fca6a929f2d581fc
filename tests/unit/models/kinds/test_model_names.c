/* Programs as builders make them: PyTorch Geometric's names and shapes, the order of ops, what settings are
 * refused. */
#include "models/program/program.h"

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
    input = (struct program_input){.n_feature = 12, .n_class = 5};
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
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
}

/* The parameters, "name 16x12", one per line. */
static void names(const char *expected)
{
    char text[4096] = "";
    for (int p = 0; p < program.n_param; p++) {
        const struct parameter *param = &program.param[p];
        size_t at = strlen(text);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", param->name);
        for (int d = 0; d < param->n_dim; d++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", d > 0 ? "x" : " ", (int)param->shape[d]);
        }
        snprintf(text + at, sizeof text - at, "\n");
    }
    cr_assert_str_eq(text, expected);
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

Test(model_names, gcn_has_gcnconv_s_tensors)
{
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nconvs.1.lin.weight 5x16\nconvs.1.bias 5\n");
}

Test(model_names, sage_has_sageconv_s_tensors)
{
    build(JOB_KIND_SAGE);
    names("convs.0.lin_l.weight 16x12\nconvs.0.lin_l.bias 16\nconvs.0.lin_r.weight 16x12\n"
          "convs.1.lin_l.weight 5x16\nconvs.1.lin_l.bias 5\nconvs.1.lin_r.weight 5x16\n");
}

Test(model_names, gin_has_ginconv_s_tensors_with_an_epsilon_that_may_be_fixed)
{
    job.model.eps = 0.5;
    build(JOB_KIND_GIN);
    names("convs.0.eps 1\nconvs.0.nn.0.weight 16x12\nconvs.0.nn.0.bias 16\nconvs.0.nn.2.weight "
          "16x16\nconvs.0.nn.2.bias 16\n"
          "convs.1.eps 1\nconvs.1.nn.0.weight 16x16\nconvs.1.nn.0.bias 16\nconvs.1.nn.2.weight "
          "5x16\nconvs.1.nn.2.bias 5\n");
    cr_assert(!param("convs.0.eps")->trains && param("convs.0.eps")->fill == 0.5f);
    job.model.learn_eps = true;
    build(JOB_KIND_GIN);
    cr_assert(param("convs.1.eps")->trains);
}

Test(model_names, appnp_has_linear_layers_only)
{
    build(JOB_KIND_APPNP);
    names("lins.0.weight 16x12\nlins.0.bias 16\nlins.1.weight 5x16\nlins.1.bias 5\n");
}

Test(model_names, sgc_is_one_linear_layer_whatever_model_layers_says)
{
    build(JOB_KIND_SGC);
    names("convs.0.lin.weight 5x12\nconvs.0.lin.bias 5\n");
}

Test(model_names, gat_has_gatconv_s_tensors_per_head)
{
    job.model.heads = 3;
    job.model.out_heads = 2;
    build(JOB_KIND_GAT);
    names("convs.0.lin.weight 48x12\nconvs.0.att_src 1x3x16\nconvs.0.att_dst 1x3x16\nconvs.0.bias 48\n"
          "convs.1.lin.weight 10x48\nconvs.1.att_src 1x2x5\nconvs.1.att_dst 1x2x5\nconvs.1.bias 5\n");
    cr_assert_float_eq(param("convs.0.att_src")->bound, sqrt(6.0 / (3 + 16)), 1e-12); /* glorot */
    cr_assert_float_eq(param("convs.0.lin.weight")->bound, sqrt(6.0 / (12 + 48)), 1e-12);
}

Test(model_names, gatv2_has_gatv2conv_s_tensors)
{
    job.model.heads = 3;
    build(JOB_KIND_GATV2);
    names("convs.0.lin_l.weight 48x12\nconvs.0.lin_l.bias 48\nconvs.0.lin_r.weight 48x12\nconvs.0.lin_r.bias 48\n"
          "convs.0.att 1x3x16\nconvs.0.bias 48\n"
          "convs.1.lin_l.weight 5x48\nconvs.1.lin_l.bias 5\nconvs.1.lin_r.weight 5x48\nconvs.1.lin_r.bias 5\n"
          "convs.1.att 1x1x5\nconvs.1.bias 5\n");
}

Test(model_names, transformer_has_transformerconv_s_tensors)
{
    job.model.heads = 2;
    job.model.layers = 1;
    job.model.out_heads = 2;
    build(JOB_KIND_TRANSFORMER);
    names("convs.0.lin_key.weight 10x12\nconvs.0.lin_key.bias 10\nconvs.0.lin_query.weight "
          "10x12\nconvs.0.lin_query.bias 10\n"
          "convs.0.lin_value.weight 10x12\nconvs.0.lin_value.bias 10\nconvs.0.lin_skip.weight "
          "5x12\nconvs.0.lin_skip.bias 5\n");
}

Test(model_names, attention_over_edges_with_features_has_their_weight_as_well)
{
    job.model.heads = 3;
    input.n_edge_feature = 4;
    build(JOB_KIND_GAT);
    names("convs.0.lin.weight 48x12\nconvs.0.att_src 1x3x16\nconvs.0.att_dst 1x3x16\n"
          "convs.0.lin_edge.weight 48x4\nconvs.0.att_edge 1x3x16\nconvs.0.bias 48\n"
          "convs.1.lin.weight 5x48\nconvs.1.att_src 1x1x5\nconvs.1.att_dst 1x1x5\n"
          "convs.1.lin_edge.weight 5x4\nconvs.1.att_edge 1x1x5\nconvs.1.bias 5\n");
    cr_assert_float_eq(param("convs.0.lin_edge.weight")->bound, sqrt(6.0 / (48 + 4)), 1e-12); /* glorot */
    job.model.layers = 1;
    build(JOB_KIND_GATV2);
    names("convs.0.lin_l.weight 5x12\nconvs.0.lin_l.bias 5\nconvs.0.lin_r.weight 5x12\nconvs.0.lin_r.bias 5\n"
          "convs.0.att 1x1x5\nconvs.0.lin_edge.weight 5x4\nconvs.0.bias 5\n");
    cr_assert_float_eq(param("convs.0.lin_edge.weight")->bound, sqrt(6.0 / (5 + 4)), 1e-12);
    job.model.out_heads = 2;
    build(JOB_KIND_TRANSFORMER);
    names("convs.0.lin_key.weight 10x12\nconvs.0.lin_key.bias 10\nconvs.0.lin_query.weight "
          "10x12\nconvs.0.lin_query.bias 10\n"
          "convs.0.lin_value.weight 10x12\nconvs.0.lin_value.bias 10\nconvs.0.lin_edge.weight 10x4\n"
          "convs.0.lin_skip.weight 5x12\nconvs.0.lin_skip.bias 5\n");
    cr_assert_float_eq(param("convs.0.lin_edge.weight")->bound, 1.0 / sqrt(4.0), 1e-12); /* torch.nn.Linear's */
    ops("0 linear v1 = v0, convs.0.lin_key.weight, convs.0.lin_key.bias  [10]\n"
        "1 linear v2 = v0, convs.0.lin_query.weight, convs.0.lin_query.bias  [10]\n"
        "2 linear v3 = v0, convs.0.lin_value.weight, convs.0.lin_value.bias  [10]\n"
        "3 head_widen v4 = v2, convs.0.lin_edge.weight, 2 heads  [18]\n"
        "4 aggregate dot v5 = v3, v1, v4, 2 heads  [18]\n"
        "5 head_narrow v6 = v5, convs.0.lin_edge.weight, 2 heads  [10]\n"
        "6 head_mean v7 = v6, 2 heads  [5]\n"
        "7 linear v8 = v0, convs.0.lin_skip.weight, convs.0.lin_skip.bias  [5]\n"
        "8 add v9 = 1·v7 + 1·v8  [5]\n");
}

Test(model_names, agnn_has_agnnconv_s_temperatures_between_linear_layers)
{
    job.model.dropout = 0.5;
    build(JOB_KIND_AGNN);
    names("lins.0.weight 16x12\nlins.0.bias 16\nconvs.0.beta 1\nconvs.1.beta 1\nlins.1.weight 5x16\nlins.1.bias 5\n");
    ops("0 linear v1 = v0, lins.0.weight, lins.0.bias  [16]\n"
        "1 activate relu v2 = v1  [16]\n"
        "2 inverse_norm v3 = v2  [1]\n"
        "3 head_dot v4 = v3, convs.0.beta, 1 heads  [1]\n"
        "4 row_scale v5 = v2, v3  [16]\n"
        "5 aggregate cosine v6 = v2, v4, v5, 1 heads  [16]\n"
        "6 inverse_norm v7 = v6  [1]\n"
        "7 head_dot v8 = v7, convs.1.beta, 1 heads  [1]\n"
        "8 row_scale v9 = v6, v7  [16]\n"
        "9 aggregate cosine v10 = v6, v8, v9, 1 heads  [16]\n"
        "10 activate none v11 = v10, dropout 0.5  [16]\n"
        "11 linear v12 = v11, lins.1.weight, lins.1.bias  [5]\n");
    cr_assert(param("convs.0.beta")->fill == 1.0f && !param("convs.0.beta")->trains);
    cr_assert(param("convs.1.beta")->fill == 1.0f && param("convs.1.beta")->trains);
}

Test(model_names, gcnii_has_gcn2conv_s_weights_between_linear_layers)
{
    job.model.dropout = 0.5;
    job.model.alpha = 0.25;
    job.model.theta = 1.0;
    build(JOB_KIND_GCNII);
    names("lins.0.weight 16x12\nlins.0.bias 16\nconvs.0.weight1 16x16\nconvs.1.weight1 16x16\nlins.1.weight "
          "5x16\nlins.1.bias "
          "5\n");
    ops("0 linear v1 = v0, lins.0.weight, lins.0.bias  [16]\n"
        "1 activate relu v2 = v1  [16]\n"
        "2 activate none v3 = v2, dropout 0.5  [16]\n"
        "3 aggregate gcn v4 = v3  [16]\n"
        "4 add v5 = 0.75·v4 + 0.25·v2  [16]\n"
        "5 linear v6 = v5, convs.0.weight1  [16]\n"
        "6 add v7 = 0.306853·v5 + 0.693147·v6  [16]\n"
        "7 activate relu v8 = v7, dropout 0.5  [16]\n"
        "8 aggregate gcn v9 = v8  [16]\n"
        "9 add v10 = 0.75·v9 + 0.25·v2  [16]\n"
        "10 linear v11 = v10, convs.1.weight1  [16]\n"
        "11 add v12 = 0.594535·v10 + 0.405465·v11  [16]\n"
        "12 activate relu v13 = v12, dropout 0.5  [16]\n"
        "13 linear v14 = v13, lins.1.weight, lins.1.bias  [5]\n");
    cr_assert(program.op[5].by_column);
    cr_assert_float_eq(param("convs.0.weight1")->bound, sqrt(6.0 / (16 + 16)), 1e-12); /* glorot */
    job.train.decay = JOB_DECAY_FIRST;
    build(JOB_KIND_GCNII);
    cr_assert(param("lins.0.bias")->decays && !param("convs.0.weight1")->decays && !param("lins.1.weight")->decays);
}

Test(model_names, norms_residuals_and_plain_layers_are_numbered_as_module_lists)
{
    job.model.layers = 4;
    job.model.linear_layers = 2;
    job.model.norm = JOB_NORM_LAYER;
    job.model.residual = true;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nresiduals.0.weight 16x12\nnorms.0.weight 16\nnorms.0.bias 16\n"
          "convs.1.lin.weight 16x16\nconvs.1.bias 16\nnorms.1.weight 16\nnorms.1.bias 16\n"
          "lins.0.weight 16x16\nlins.0.bias 16\nnorms.2.weight 16\nnorms.2.bias 16\nlins.1.weight 5x16\nlins.1.bias "
          "5\n");
    cr_assert(param("norms.0.weight")->fill == 1.0f && param("norms.0.bias")->fill == 0.0f);
}

Test(model_names, batch_norms_keep_running_statistics_that_do_not_train)
{
    job.model.norm = JOB_NORM_BATCH;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nnorms.0.module.weight 16\nnorms.0.module.bias 16\n"
          "norms.0.module.running_mean 16\nnorms.0.module.running_var 16\nconvs.1.lin.weight 5x16\nconvs.1.bias 5\n");
    cr_assert(param("norms.0.module.weight")->fill == 1.0f && param("norms.0.module.bias")->fill == 0.0f);
    cr_assert(param("norms.0.module.weight")->trains && param("norms.0.module.bias")->trains);
    cr_assert(param("norms.0.module.running_mean")->fill == 0.0f &&
              param("norms.0.module.running_var")->fill == 1.0f);
    cr_assert(!param("norms.0.module.running_mean")->trains && !param("norms.0.module.running_var")->trains);
}

Test(model_names, jumping_knowledge_ends_every_layer_as_a_hidden_one_and_then_maps_them_together)
{
    job.model.layers = 4;
    job.model.norm = JOB_NORM_LAYER;
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_CONCAT;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nnorms.0.weight 16\nnorms.0.bias 16\n"
          "convs.1.lin.weight 16x16\nconvs.1.bias 16\nnorms.1.weight 16\nnorms.1.bias 16\n"
          "convs.2.lin.weight 16x16\nconvs.2.bias 16\nnorms.2.weight 16\nnorms.2.bias 16\n"
          "convs.3.lin.weight 16x16\nconvs.3.bias 16\nnorms.3.weight 16\nnorms.3.bias 16\nlin.weight 5x64\nlin.bias "
          "5\n");
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_MAX;
    job.model.norm = JOB_NORM_NONE;
    job.model.layers = 1;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nlin.weight 5x16\nlin.bias 5\n");
}

Test(model_names, labels_as_input_widen_the_first_layer_by_one_column_per_class)
{
    job.model.label_input = true;
    job.model.label_rate = 0.75;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x17\nconvs.0.bias 16\nconvs.1.lin.weight 5x16\nconvs.1.bias 5\n");
    cr_assert_eq(program.labels, 0);
    cr_assert_eq(program.op[0].dropout, 0.25);
    cr_assert(!program.value[program.op[0].out].is_static, "they change in every epoch");
}

Test(model_names, a_linear_residual_has_a_map_of_its_own_also_where_widths_agree)
{
    job.model.layers = 3;
    job.model.residual = job.model.residual_linear = true;
    build(JOB_KIND_GCN);
    names("convs.0.lin.weight 16x12\nconvs.0.bias 16\nresiduals.0.weight 16x12\n"
          "convs.1.lin.weight 16x16\nconvs.1.bias 16\nresiduals.1.weight 16x16\n"
          "convs.2.lin.weight 5x16\nconvs.2.bias 5\n");
}

Test(model_names, weights_are_drawn_as_pytorch_geometric_draws_them)
{
    build(JOB_KIND_GCN);
    cr_assert_float_eq(param("convs.0.lin.weight")->bound, sqrt(6.0 / (12 + 16)), 1e-12); /* glorot */
    cr_assert_eq(param("convs.0.bias")->bound, 0.0);
    build(JOB_KIND_SAGE);
    cr_assert_float_eq(param("convs.0.lin_l.weight")->bound, 1.0 / sqrt(12), 1e-12); /* torch.nn.Linear */
    cr_assert_float_eq(param("convs.1.lin_l.bias")->bound, 1.0 / sqrt(16), 1e-12);
    build(JOB_KIND_SGC);
    cr_assert_float_eq(param("convs.0.lin.bias")->bound, 1.0 / sqrt(12), 1e-12);
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
    input.n_feature = 9; /* 9 columns forth, or 5 forth and 5 back */
    build(JOB_KIND_GCN);
    cr_assert(program.op[1].kind == OP_KIND_AGGREGATE && !program.op[1].is_static);
    input.n_feature = 10; /* a tie: the aggregate then keeps nothing for backward */
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
    input.n_feature = 16;
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
    input.n_feature = 32;
    build(JOB_KIND_GAT);
    cr_assert(!program.value[0].is_sparse);
}

Test(model_names, appnp_mixes_each_step_with_the_first_output)
{
    job.model.layers = 1;
    job.model.alpha = 0.25;
    build(JOB_KIND_APPNP);
    ops("0 linear v1 = v0, lins.0.weight, lins.0.bias  [5]\n"
        "1 aggregate gcn v2 = v1  [5]\n"
        "2 add v3 = 0.75·v2 + 0.25·v1  [5]\n"
        "3 aggregate gcn v4 = v3  [5]\n"
        "4 add v5 = 0.75·v4 + 0.25·v1  [5]\n");
    cr_assert_eq(program.logits, 5);
}

Test(model_names, sgc_propagates_its_steps_before_epoch_0_and_then_multiplies)
{
    build(JOB_KIND_SGC);
    ops("0 aggregate gcn v1 = v0  [12] static\n"
        "1 aggregate gcn v2 = v1  [12] static\n"
        "2 linear v3 = v2, convs.0.lin.weight, convs.0.lin.bias  [5]\n");
}

Test(model_names, a_hidden_layer_ends_with_residual_norm_activation_and_dropout_in_this_order)
{
    job.model.layers = 3;
    job.model.dropout = 0.5;
    job.model.norm = JOB_NORM_LAYER;
    job.model.residual = true;
    job.model.activation = JOB_ACTIVATION_ELU;
    job.model.linear_layers = 2;
    build(JOB_KIND_GCN);
    ops("0 aggregate gcn v1 = v0  [12] static\n"
        "1 linear v2 = v1, convs.0.lin.weight, convs.0.bias  [16]\n"
        "2 linear v3 = v0, residuals.0.weight  [16]\n"
        "3 add v4 = 1·v2 + 1·v3  [16]\n"
        "4 layer_norm v5 = v4, norms.0.weight, norms.0.bias  [16]\n"
        "5 activate elu v6 = v5, dropout 0.5  [16]\n"
        "6 linear v7 = v6, lins.0.weight, lins.0.bias  [16]\n"
        "7 add v8 = 1·v7 + 1·v6  [16]\n"
        "8 layer_norm v9 = v8, norms.1.weight, norms.1.bias  [16]\n"
        "9 activate elu v10 = v9, dropout 0.5  [16]\n"
        "10 linear v11 = v10, lins.1.weight, lins.1.bias  [5]\n");
}

Test(model_names, weight_decay_of_the_first_layer_leaves_the_others_alone)
{
    job.train.decay = JOB_DECAY_FIRST;
    build(JOB_KIND_GCN);
    cr_assert(param("convs.0.lin.weight")->decays && param("convs.0.bias")->decays);
    cr_assert(!param("convs.1.lin.weight")->decays && !param("convs.1.bias")->decays);
    job.train.decay = JOB_DECAY_ALL;
    build(JOB_KIND_GCN);
    cr_assert(param("convs.1.bias")->decays);
}

static void refused(enum status status, const char *reason)
{
    cr_assert_eq(program_build(&job, &input, &program), status);
    cr_assert_not_null(strstr(status_reason(), reason), "%s", status_reason());
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
    job.model.label_input = input.is_typed = true;
    refused(STATUS_CONFIG, "model.label_input = true does not go with features of several node types");
    job.model.label_input = input.is_typed = false;
    input.n_feature = 0;
    refused(STATUS_DATA, "no features");
    input.n_feature = 3;
    input.n_class = 0;
    refused(STATUS_DATA, "no labels");
}

Test(model_names, rgcn_is_named_as_in_pytorch_geometric)
{
    input.n_relation = 4;
    build(JOB_KIND_RGCN);
    names("convs.0.weight 4x12x16\nconvs.0.root 12x16\nconvs.0.bias 16\n"
          "convs.1.weight 4x16x5\nconvs.1.root 16x5\nconvs.1.bias 5\n");
    job.model.bases = 2;
    input.is_sparse = input.is_typed = true;
    build(JOB_KIND_RGCN);
    names("embedding.weight 16x12\nconvs.0.weight 2x16x16\nconvs.0.comp 4x2\nconvs.0.root 16x16\nconvs.0.bias 16\n"
          "convs.1.weight 2x16x5\nconvs.1.comp 4x2\nconvs.1.root 16x5\nconvs.1.bias 5\n");
}

Test(model_names, rgcn_without_an_embedding_has_a_row_for_each_node_in_its_first_weights)
{
    const struct embedded_run all = {0, 12};
    input.n_relation = 4;
    input.is_sparse = input.is_typed = true;
    input.embedded = (struct embedded){1, &all};
    job.model.embedding = false;
    build(JOB_KIND_RGCN);
    names("convs.0.weight 4x12x16\nconvs.0.root 12x16\nconvs.0.bias 16\n"
          "convs.1.weight 4x16x5\nconvs.1.root 16x5\nconvs.1.bias 5\n");
    cr_assert_eq(program.n_embedding, 4 * 16 + 16);
    job.model.bases = 2;
    build(JOB_KIND_RGCN);
    names("convs.0.weight 2x12x16\nconvs.0.comp 4x2\nconvs.0.root 12x16\nconvs.0.bias 16\n"
          "convs.1.weight 2x16x5\nconvs.1.comp 4x2\nconvs.1.root 16x5\nconvs.1.bias 5\n");
    cr_assert_eq(program.n_embedding, 2 * 16 + 16);
}

Test(model_names, rows_of_nodes_own_are_for_graphs_without_any_features)
{
    const struct embedded_run some = {3, 12}, all = {0, 12};
    input.n_relation = 4;
    input.is_sparse = input.is_typed = true;
    input.embedded = (struct embedded){1, &some};
    job.model.kind = JOB_KIND_RGCN;
    job.model.embedding = false;
    refused(STATUS_CONFIG, "expected a graph whose nodes have no features, found 3 columns of features");
    input.is_typed = false;
    input.embedded = (struct embedded){0, NULL};
    refused(STATUS_CONFIG, "found 12 columns of features");
    input.is_typed = true;
    input.embedded = (struct embedded){1, &all};
    job.model.residual = true;
    job.model.hidden = 12;
    refused(STATUS_CONFIG, "with model.embedding = false expected model.residual_linear = true");
    job.model.residual_linear = true;
    build(JOB_KIND_RGCN);
}

Test(model_names, sparse_features_of_one_type_of_nodes_are_rgcns_as_they_are)
{
    input.n_relation = 4;
    input.is_sparse = true;
    build(JOB_KIND_RGCN);
    cr_assert(!program.value[0].is_sparse);
    cr_assert_str_eq(program.param[0].name, "convs.0.weight");
}

Test(model_names, rgcn_of_diagonal_blocks_needs_columns_that_they_divide)
{
    input.n_relation = 4;
    input.n_class = 6;
    job.model.blocks = 2;
    build(JOB_KIND_RGCN);
    names("convs.0.weight 4x2x6x8\nconvs.0.root 12x16\nconvs.0.bias 16\n"
          "convs.1.weight 4x2x8x3\nconvs.1.root 16x6\nconvs.1.bias 6\n");
    input.n_class = 5;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_CONFIG);
    cr_assert_not_null(
        strstr(status_reason(), "model.blocks = 2 does not divide the 5 classes, expected equal blocks"));
    job.model.linear_layers = 1;
    build(JOB_KIND_RGCN);
    input.n_feature = 11;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_CONFIG);
    cr_assert_not_null(strstr(status_reason(), "does not divide the 11 feature columns"));
}

Test(model_names, rgcn_without_types_of_edges_is_refused)
{
    job.model.kind = JOB_KIND_RGCN;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_DATA);
    cr_assert_not_null(strstr(status_reason(), "the data set's edges have no types"));
}
