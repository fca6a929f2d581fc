/* Whole models with their options, against central differences in double. */
#include "tests/support/model/gradient.h"
#include "tests/support/program_text.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define N_CLASS 4

static struct job job;
static struct tiny_graph graph;

static void begin(void)
{
    job_defaults(&job);
    job.model.hidden = 6;
    job.model.layers = 3;
    job.model.steps = 3;
    graph = (struct tiny_graph){.n_node = 16, .n_draw = 40, .no_loops = true, .seed = 8};
}

TestSuite(model, .init = begin);

static void check_input(const char *what, bool sparse, const struct program_input *input)
{
    struct program program;
    cr_assert_eq(program_build(&job, input, &program), STATUS_OK, "%s", status_reason());
    cr_assert(!input->stores || program_stores(&program), "%s: no value has halo rows", what);
    struct gradient_case one = {.what = what,
                                .program = &program,
                                .graph = &graph,
                                .zeros = sparse,
                                .sampling = job.exchange.sampling < 1.0 ? job.exchange.sampling : 0.0};
    gradient_check(&one);
    program_release(&program);
}

static void check_embedded(const char *what, int64_t n_feature, bool sparse, struct embedded embedded)
{
    const struct program_input input = {.facts = {.n_feature = n_feature,
                                                  .n_class = N_CLASS,
                                                  .features_typed = sparse && graph.n_relation > 0,
                                                  .n_relation = graph.n_relation,
                                                  .n_edge_feature = graph.n_edge_feature},
                                        .is_sparse = sparse,
                                        .embedded = embedded};
    check_input(what, sparse, &input);
}

/* Features with columns of nodes' own, whether edges have types or not. */
static void check_typed(const char *what, int64_t n_feature, struct embedded embedded)
{
    const struct program_input input = {
        .facts = {.n_feature = n_feature, .n_class = N_CLASS, .features_typed = true, .n_relation = graph.n_relation},
        .is_sparse = true,
        .embedded = embedded};
    check_input(what, true, &input);
}

static void check_features(const char *what, int64_t n_feature, bool sparse)
{
    check_embedded(what, n_feature, sparse, (struct embedded){.n_run = 0});
}

/* Parts have the features of halo rows. */
static void check_stored(const char *what, int64_t n_feature, bool sparse)
{
    const struct program_input input = {
        .facts = {.n_feature = n_feature, .n_class = N_CLASS}, .is_sparse = sparse, .stores = true};
    check_input(what, sparse, &input);
}

/* Few and many features, dense and sparse: every order of linear maps and aggregates. */
static void check(const char *what)
{
    check_features(what, 5, false);
    check_features(what, 13, false);
    check_features(what, 13, true);
    job.model.input_dropout = 0.3;
    job.model.dropout = 0.4;
    check_features(what, 5, false);
    check_features(what, 14, false);
    check_features(what, 13, true);
}

#define KIND(name, job_kind)                                                                                         \
    Test(model, name##_gives_the_gradients_of_all_its_weights)                                                       \
    {                                                                                                                \
        job.model.kind = JOB_KIND_##job_kind;                                                                        \
        graph.no_loops = false;                                                                                      \
        check(#name);                                                                                                \
    }
KIND(gcn, GCN)
KIND(appnp, APPNP)
KIND(sgc, SGC)

Test(model, sage_gives_the_gradients_of_all_its_weights)
{
    static const int aggregators[] = {JOB_AGGREGATOR_MEAN, JOB_AGGREGATOR_SUM, JOB_AGGREGATOR_MAX};
    job.model.kind = JOB_KIND_SAGE;
    for (int a = 0; a < 3; a++) {
        job.model.aggregator = aggregators[a];
        job.model.dropout = job.model.input_dropout = 0.0;
        check(job_choice_text("model", "aggregator", aggregators[a]));
    }
}

Test(model, gin_gives_the_gradients_of_all_its_weights)
{
    job.model.kind = JOB_KIND_GIN;
    job.model.eps = 0.2;
    check("gin, fixed epsilon");
    job.model.learn_eps = true;
    check("gin, trained epsilon");
}

Test(model, gcnii_gives_the_gradients_of_all_its_weights)
{
    job.model.kind = JOB_KIND_GCNII;
    job.model.theta = 1.5;
    graph.no_loops = false;
    check("gcnii");
    job.model.norm = JOB_NORM_BATCH;
    job.model.residual = true;
    job.model.activation = JOB_ACTIVATION_ELU;
    check("gcnii with norm and residual");
}

Test(model, layers_that_take_weights_of_edges_give_the_gradients_of_all_their_weights)
{
    static const int kinds[] = {JOB_KIND_GCN,   JOB_KIND_APPNP, JOB_KIND_SGC,
                                JOB_KIND_GCNII, JOB_KIND_SAGE,  JOB_KIND_GIN};
    graph.weighted = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        job.model.kind = kinds[i];
        graph.no_loops = kinds[i] == JOB_KIND_SAGE || kinds[i] == JOB_KIND_GIN;
        check_features("weighted", 5, false);
        check_features("weighted", 13, true);
    }
    job.model.kind = JOB_KIND_SAGE;
    job.model.aggregator = JOB_AGGREGATOR_SUM;
    graph.no_loops = true;
    check_features("weighted sums", 5, false);
    job.exchange.sampling = 0.5;
    check_features("weighted sums, sampled", 13, true);
    job.model.aggregator = JOB_AGGREGATOR_MEAN;
    check_features("weighted means, sampled", 5, false);
}

static void attention(int kind)
{
    job.model.kind = kind;
    job.model.heads = 2;
    job.model.out_heads = 3;
    job.model.attention_dropout = 0.3;
    job.model.activation = JOB_ACTIVATION_ELU;
    graph.no_loops = kind == JOB_KIND_TRANSFORMER;
    check(job_choice_text("model", "kind", kind));
}

#define ATTENTION(name, kind)                                                                                        \
    Test(model, name##_gives_the_gradients_of_all_its_weights)                                                       \
    {                                                                                                                \
        attention(JOB_KIND_##kind);                                                                                  \
    }
ATTENTION(gat, GAT)
ATTENTION(gatv2, GATV2)
ATTENTION(transformer, TRANSFORMER)

Test(model, attention_over_edges_with_features_gives_the_gradients_of_all_weights)
{
    static const int kinds[] = {JOB_KIND_GAT, JOB_KIND_GATV2, JOB_KIND_TRANSFORMER};
    job.model.heads = 2;
    job.model.out_heads = 3;
    graph.n_edge_feature = 3;
    for (int k = 0; k < 3; k++) {
        job.model.kind = kinds[k];
        job.model.attention_dropout = 0.0;
        check_features("edges with features", 5, false);
        job.model.attention_dropout = 0.3;
        check_features("edges with features, coefficients dropped", 13, true);
    }
}

Test(model, agnn_gives_the_gradients_of_all_its_weights)
{
    job.model.kind = JOB_KIND_AGNN;
    job.model.layers = 2;
    graph.no_loops = false;
    check("agnn");
    job.model.layers = 3;
    job.model.norm = JOB_NORM_LAYER;
    job.model.attention_dropout = 0.3;
    job.model.activation = JOB_ACTIVATION_ELU;
    check("agnn with norm and coefficients dropped");
}

Test(model, rgcn_gives_the_gradients_of_all_its_weights)
{
    job.model.kind = JOB_KIND_RGCN;
    graph.n_relation = 5;
    check("rgcn");
    job.model.bases = 2;
    check("rgcn, bases");
    job.model.bases = 0;
    job.model.blocks = 2;
    check_features("rgcn, blocks", 14, false);
    check_features("rgcn, blocks", 13, true);
}

/* Embedded columns before, between and after others; and a graph with nothing but embeddings. */
Test(model, nodes_without_features_give_the_gradients_of_their_embeddings)
{
    const struct embedded_run between[] = {{1, 4}, {9, 13}}, all = {0, 8};
    const int kinds[] = {JOB_KIND_RGCN, JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_GAT, JOB_KIND_GIN};
    graph.n_relation = 5;
    for (int k = 0; k < 5; k++) {
        job.model.kind = kinds[k];
        job.model.input_dropout = 0.0;
        const char *what = job_choice_text("model", "kind", kinds[k]);
        check_embedded(what, 13, true, (struct embedded){2, between});
        check_embedded(what, 8, true, (struct embedded){1, &all});
        job.model.input_dropout = 0.4;
        check_embedded(what, 13, true, (struct embedded){2, between});
    }
    job.model.kind = JOB_KIND_GCN;
    job.model.residual = job.model.residual_linear = true;
    check_embedded("two weights over the features", 13, true, (struct embedded){2, between});
}

Test(model, vectors_of_nodes_are_learned_in_front_of_every_kind)
{
    const struct embedded_run all = {0, 8};
    program_text_set(&job, "gcn");
    job.dataset.features = JOB_WORD(JOB_FEATURES_LEARNED);
    job.model.layers = 2;
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        if (kind == JOB_KIND_RGCN) {
            graph.n_relation = 5;
        }
        job.model.kind = kind;
        check_typed(job_choice_text("model", "kind", kind), 8, (struct embedded){1, &all});
    }
}

/* The first layer's maximum is a sum; the second one's is over what it made. */
Test(model, a_maximum_of_one_hot_rows_gives_the_gradients_of_a_sum)
{
    const struct embedded_run all = {0, 8};
    job.dataset.features = JOB_WORD(JOB_FEATURES_ONE_HOT);
    job.model.kind = JOB_KIND_SAGE;
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    check_typed("one-hot rows, maximum", 8, (struct embedded){1, &all});
}

Test(model, rows_of_nodes_own_in_the_first_layers_weights_give_their_gradients)
{
    const struct embedded_run all = {0, 8};
    graph.n_relation = 3;
    job.model.kind = JOB_KIND_RGCN;
    job.model.embedding = false;
    for (int bases = 0; bases <= 2; bases += 2) {
        job.model.bases = bases;
        job.model.input_dropout = 0.0;
        job.exchange.sampling = 1.0;
        job.model.residual = false;
        check_embedded("rows of nodes", 8, true, (struct embedded){1, &all});
        job.model.input_dropout = 0.4;
        job.model.residual = true;
        check_embedded("rows of nodes, dropped, and a residual", 8, true, (struct embedded){1, &all});
        job.exchange.sampling = 0.5;
        check_embedded("rows of nodes, sampled", 8, true, (struct embedded){1, &all});
    }
}

Test(model, layer_norm_residual_and_plain_layers_pass_gradients_through_every_model)
{
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_GIN, JOB_KIND_GAT};
    const int activations[] = {JOB_ACTIVATION_ELU, JOB_ACTIVATION_GELU, JOB_ACTIVATION_LEAKY_RELU,
                               JOB_ACTIVATION_ELU};
    job.model.norm = JOB_NORM_LAYER;
    job.model.residual = true;
    job.model.layers = 4;
    job.model.linear_layers = 2;
    for (int k = 0; k < 4; k++) {
        job.model.kind = kinds[k];
        job.model.activation = activations[k];
        check(job_choice_text("model", "kind", kinds[k]));
        check_features("residual of the input itself", job.model.hidden, false);
        check_features("residual of sparse input", job.model.hidden, true);
        job.model.residual_linear = true;
        check("linear residual");
        job.model.residual_linear = false;
    }
    job.model.linear_layers = 0;
    job.model.kind = JOB_KIND_APPNP;
    check("appnp");
}

Test(model, batch_norm_passes_gradients_through_every_model)
{
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_GIN, JOB_KIND_APPNP};
    job.model.norm = JOB_NORM_BATCH;
    for (int k = 0; k < 4; k++) {
        job.model.kind = kinds[k];
        job.model.residual = kinds[k] != JOB_KIND_APPNP;
        check(job_choice_text("model", "kind", kinds[k]));
    }
}

Test(model, jumping_knowledge_gives_the_gradients_of_all_layers)
{
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_GAT};
    for (int k = 0; k < 3; k++) {
        job.model.kind = kinds[k];
        job.model.heads = 2;
        job.model.norm = k == 1 ? JOB_NORM_BATCH : JOB_NORM_NONE;
        job.model.activation = k == 0 ? JOB_ACTIVATION_RELU : JOB_ACTIVATION_ELU;
        job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_CONCAT;
        check("concat");
        job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_MAX;
        check("max");
    }
}

Test(model, labels_as_input_are_hidden_from_nodes_in_the_loss)
{
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE, JOB_KIND_APPNP};
    job.model.label_input = true;
    for (int k = 0; k < 3; k++) {
        job.model.kind = kinds[k];
        check(job_choice_text("model", "kind", kinds[k]));
    }
}

Test(model, layers_without_an_activation_are_still_separate)
{
    job.model.kind = JOB_KIND_GCN;
    job.model.activation = JOB_ACTIVATION_NONE;
    check("gcn without activation");
}

Test(model, stored_inputs_give_the_gradients_of_all_weights)
{
    static const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE},
                     aggregators[] = {JOB_AGGREGATOR_MEAN, JOB_AGGREGATOR_SUM};
    for (int k = 0; k < 4; k++) {
        job.model.kind = kinds[k % 2];
        job.model.aggregator = aggregators[k / 2];
        graph.no_loops = k >= 2;
        job.model.input_dropout = 0.0;
        check_stored("stored, sparse", 13, true);
        job.model.input_dropout = 0.3;
        check_stored("stored, sparse and dropped out", 13, true);
        check_stored("stored, dense and multiplied first", 14, false);
        check_stored("stored, dense and aggregated first", 5, false);
    }
    job.model.kind = JOB_KIND_SAGE;
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    check_stored("stored, maximum", 5, false);
    check_stored("stored, maximum of many", 13, false);
    job.model.kind = JOB_KIND_GIN;
    check_stored("stored, gin", 5, false);
    graph.weighted = true;
    graph.no_loops = false;
    job.model.kind = JOB_KIND_GCN;
    check_stored("stored, weighted", 13, true);
}

Test(model, stored_inputs_of_attention_give_the_gradients_of_all_weights)
{
    static const int kinds[] = {JOB_KIND_GAT, JOB_KIND_GATV2, JOB_KIND_TRANSFORMER};
    job.model.heads = 2;
    job.model.attention_dropout = 0.3;
    for (int k = 0; k < 6; k++) {
        job.model.kind = kinds[k % 3];
        job.exchange.sampling = k < 3 ? 1.0 : 0.4;
        graph.no_loops = job.model.kind == JOB_KIND_TRANSFORMER;
        job.model.input_dropout = 0.0;
        check_stored("stored, attention, sparse", 13, true);
        job.model.input_dropout = 0.3;
        check_stored("stored, attention, sparse and dropped out", 13, true);
        check_stored("stored, attention, dense", 5, false);
    }
}

/* --- sampled payloads, the sample held --- */

static void sampled(int kind, double p)
{
    job.model.kind = kind;
    job.exchange.sampling = p;
    job.model.dropout = 0.4;
    job.model.attention_dropout = 0.3;
    job.model.heads = 2;
    char what[64];
    snprintf(what, sizeof what, "%s, p = %g", job_choice_text("model", "kind", kind), p);
    check_features(what, 5, false);
    check_features(what, 13, true);
}

Test(model, sampled_sums_give_the_gradients_of_all_their_weights)
{
    static const int kinds[] = {JOB_KIND_SAGE, JOB_KIND_GIN, JOB_KIND_GCN, JOB_KIND_APPNP};
    for (int k = 0; k < 4; k++) {
        graph.no_loops = k < 2;
        sampled(kinds[k], 0.5);
        sampled(kinds[k], 0.2);
    }
    job.model.norm = JOB_NORM_BATCH;
    sampled(JOB_KIND_GCN, 0.5);
    graph.weighted = true;
    job.model.norm = JOB_NORM_NONE;
    sampled(JOB_KIND_GCN, 0.5);
}

Test(model, stored_inputs_below_sampled_layers_give_the_gradients_of_all_weights)
{
    static const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE};
    graph.no_loops = false;
    job.model.input_dropout = 0.3;
    for (int k = 0; k < 4; k++) {
        job.model.kind = kinds[k % 2];
        job.exchange.sampling = k < 2 ? 0.5 : 0.2;
        check_stored("stored, sparse, below samples", 13, true);
        check_stored("stored, aggregated first, below samples", 5, false);
    }
}

Test(model, a_sampled_maximum_gives_the_gradients_of_all_its_weights)
{
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    sampled(JOB_KIND_SAGE, 0.5);
    graph.no_loops = false;
    sampled(JOB_KIND_SAGE, 0.2);
}

Test(model, sampled_attention_gives_the_gradients_of_all_its_weights)
{
    static const int kinds[] = {JOB_KIND_GAT, JOB_KIND_GATV2, JOB_KIND_TRANSFORMER, JOB_KIND_AGNN};
    for (int k = 0; k < 4; k++) {
        graph.no_loops = kinds[k] == JOB_KIND_TRANSFORMER;
        sampled(kinds[k], 0.5);
        sampled(kinds[k], 0.2);
    }
}

Test(model, sampled_attention_over_edges_with_features_gives_the_gradients_of_all_its_weights)
{
    static const int kinds[] = {JOB_KIND_GAT, JOB_KIND_GATV2, JOB_KIND_TRANSFORMER};
    graph.n_edge_feature = 3;
    for (int k = 0; k < 3; k++) {
        sampled(kinds[k], 0.5);
        sampled(kinds[k], 0.2);
    }
}

Test(model, sampled_relations_give_the_gradients_of_all_their_weights)
{
    graph.n_relation = 5;
    sampled(JOB_KIND_RGCN, 0.5);
    job.model.bases = 2;
    sampled(JOB_KIND_RGCN, 0.5);
    job.model.bases = 0;
    job.model.blocks = 2;
    job.model.dropout = 0.4;
    check_features("rgcn, blocks", 14, false);
}
