/* Losses with their options, under a model, against central differences in double. */
#include "models/kinds/model.h"
#include "protocol/base/memory.h"
#include "tests/support/model/gradient.h"

#include <criterion/criterion.h>
#include <math.h>

enum { N_NODE = 16, N_CLASS = 4 };

static const float weights[N_CLASS] = {0.25F, 3.0F, 0.0F, 1.5F};
static float label_rows[N_NODE * N_CLASS]; /* 0 and 1, some unknown */
static float numbers[N_NODE * N_CLASS];    /* some of them none */

static void labels_draw(void)
{
    for (uint32_t i = 0; i < N_NODE * N_CLASS; i++) {
        float drawn = test_number(9, i, 0);
        label_rows[i] = drawn > 0.7F ? NAN : drawn > 0.0F ? 1.0F : 0.0F;
        numbers[i] = drawn > 0.7F ? NAN : 3.0F * test_number(10, i, 0);
    }
}

/* Links: decoders, losses over an edge and its pairs, pairs of edges' ends. text: instead of the objective's decoder */
static void check_links(const char *what, int kind, const struct tiny_graph *graph, struct objective objective,
                        const char *text)
{
    static struct job job;
    struct program program;
    const struct program_input input = {.facts = {.n_feature = 5,
                                                  .n_class = N_CLASS,
                                                  .n_relation = graph->n_relation,
                                                  .n_relation_given = graph->n_relation}};
    job_defaults(&job);
    job.task.kind = JOB_TASK_LINK;
    snprintf(job.task.decoder, sizeof job.task.decoder, "%s", objective.decoder != NULL ? objective.decoder : "dot");
    job.task.decoder_layers = 3;
    job.task.decoder_hidden = 7;
    job.model.kind = kind;
    job.model.hidden = 6;
    job.model.dropout = objective.ends || objective.decoder != NULL ? 0.0 : 0.3;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    if (text != NULL) {
        const struct model model = {.job = &job, .input = &input, .program = &program};
        cr_assert_eq(decoder_append(&model, text, "a text"), STATUS_OK, "%s", status_reason());
    }
    gradient_check(
        &(struct gradient_case){.what = what, .program = &program, .graph = graph, .objective = &objective});
    program_release(&program);
}

static void check_decoder(const char *what, const struct tiny_graph *graph, struct objective objective)
{
    check_links(what, graph->n_relation > 0 ? JOB_KIND_RGCN : JOB_KIND_SAGE, graph, objective, NULL);
}

TestSuite(losses, .init = labels_draw);

static void check(const char *what, const struct objective *objective)
{
    static struct job job;
    struct program program;
    const struct program_input input = {.facts = {.n_feature = 5, .n_class = N_CLASS}};
    job_defaults(&job);
    job.model.hidden = 6;
    const struct tiny_graph graph = {.n_node = N_NODE, .n_draw = 40, .no_loops = true, .seed = 8};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    gradient_check(
        &(struct gradient_case){.what = what, .program = &program, .graph = &graph, .objective = objective});
    program_release(&program);
}

Test(losses, gradients_of_cross_entropy_with_weights_and_smoothing)
{
    check("weights", &(struct objective){.weights = weights});
    check("smoothing", &(struct objective){.smoothing = 0.3});
    check("weights and smoothing", &(struct objective){.weights = weights, .smoothing = 0.3});
    check("all of the label smoothed away", &(struct objective){.smoothing = 1.0});
}

Test(losses, gradients_of_binary_cross_entropy_with_weights_of_positives)
{
    check("bce", &(struct objective){.loss = DEVICE_LOSS_BCE, .label_rows = label_rows});
    check("bce with weights",
          &(struct objective){.loss = DEVICE_LOSS_BCE, .label_rows = label_rows, .weights = weights});
}

Test(losses, gradients_of_squared_absolute_and_huber_errors)
{
    check("mse", &(struct objective){.loss = DEVICE_LOSS_MSE, .label_rows = numbers});
    check("mae", &(struct objective){.loss = DEVICE_LOSS_MAE, .label_rows = numbers});
    check("huber, mostly squares",
          &(struct objective){.loss = DEVICE_LOSS_HUBER, .label_rows = numbers, .delta = 2.5});
    check("huber, mostly lines",
          &(struct objective){.loss = DEVICE_LOSS_HUBER, .label_rows = numbers, .delta = 0.25});
}

static const struct tiny_graph undirected = {.n_node = N_NODE,
                                             .n_draw = 20,
                                             .symmetric = true,
                                             .no_loops = true,
                                             .seed = 18},
                               directed = {.n_node = N_NODE, .n_draw = 25, .loops = true, .seed = 19},
                               typed = {.n_node = N_NODE, .n_draw = 45, .n_relation = 3, .seed = 20},
                               typed_alike = {.n_node = 12, .n_draw = 30, .n_relation = 2, .seed = 21};

Test(losses, gradients_of_links_with_an_edge_and_drawn_ones)
{
    for (int64_t negatives = 1; negatives <= 3; negatives += 2) {
        check_links("gcn", JOB_KIND_GCN, &undirected, (struct objective){.negatives = negatives}, NULL);
        check_links("sage, directed", JOB_KIND_SAGE, &directed, (struct objective){.negatives = negatives}, NULL);
        check_links("gat", JOB_KIND_GAT, &undirected, (struct objective){.negatives = negatives}, NULL);
    }
}

/* A bilinear form of columns, and a number of the tail. */
static double form(const double *head, const double *tail, const double *weight, int64_t width)
{
    double sum = 0.0;
    for (int64_t r = 0; r < 2; r++) {
        for (int64_t c = 0; c < width; c++) {
            sum += tail[r] * weight[r * width + c] * head[c];
        }
    }
    return sum + tanh(tail[2]);
}

Test(losses, gradients_of_texts_that_tell_heads_from_tails)
{
    const char *const text = "def score(e):\n    y = linear('a', e.src.x, 2, bias=False)\n    return dot(y, "
                             "e.dst.x[:, :2]) + tanh(e.dst.x[:, 2:3])\n";
    for (int k = 0; k < 4; k++) {
        check_links("a form", JOB_KIND_SAGE, k < 2 ? &directed : &undirected,
                    (struct objective){.negatives = 2, .ends = k % 2 != 0, .score = form}, text);
    }
}

Test(losses, gradients_of_layers_over_products_of_rows)
{
    check_decoder("mlp", &undirected, (struct objective){.negatives = 2, .decoder = "mlp"});
    check_decoder("mlp, directed", &directed, (struct objective){.negatives = 1, .decoder = "mlp"});
    check_decoder("mlp, ends", &directed, (struct objective){.negatives = 2, .decoder = "mlp", .ends = true});
}

Test(losses, gradients_of_pairs_of_edges_ends)
{
    check_decoder("bce", &undirected, (struct objective){.negatives = 3, .ends = true});
    check_decoder("bce, directed", &directed, (struct objective){.negatives = 1, .ends = true});
    check_decoder("margin", &directed,
                  (struct objective){.negatives = 4, .ends = true, .link_loss = JOB_LOSS_MARGIN, .margin = 0.6});
    check_decoder("cross entropy", &undirected,
                  (struct objective){.negatives = 4, .ends = true, .link_loss = JOB_LOSS_CROSS_ENTROPY});
}

Test(losses, gradients_of_weights_of_relations)
{
    check_decoder("distmult", &typed_alike, (struct objective){.negatives = 2, .ends = true, .decoder = "distmult"});
    check_decoder("distmult, three relations", &typed,
                  (struct objective){.negatives = 2, .ends = true, .decoder = "distmult"});
    check_decoder(
        "distmult, cross entropy", &typed_alike,
        (struct objective){.negatives = 3, .ends = true, .decoder = "distmult", .link_loss = JOB_LOSS_CROSS_ENTROPY});
    static const char *const directed_ones[] = {"complex", "transe", "rotate"};
    for (int i = 0; i < 3; i++) {
        check_decoder(directed_ones[i], &typed,
                      (struct objective){.negatives = 2, .ends = true, .decoder = directed_ones[i]});
        check_decoder(directed_ones[i], &typed_alike,
                      (struct objective){.negatives = 2,
                                         .ends = true,
                                         .decoder = directed_ones[i],
                                         .link_loss = JOB_LOSS_MARGIN,
                                         .margin = 0.7});
    }
}
