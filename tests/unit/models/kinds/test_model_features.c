/* What models make of graphs without features (dataset.features): nothing is as wide as the nodes, but what has one
 * number for each. */
#include "models/program/program.h"
#include "tests/support/program_text.h"

#include <criterion/criterion.h>
#include <string.h>

#define N_NODE 1000

static struct job job;
static struct program program;
static const struct embedded_run all = {0, N_NODE};

static void begin(void)
{
    job_defaults(&job);
    program_text_set(&job, "gcn");
    job.model.kind = JOB_KIND_GCN;
    job.model.hidden = 16;
    job.model.steps = 2;
}

static void end(void)
{
    program_release(&program);
}

TestSuite(model_features, .init = begin, .fini = end);

static void build(int kind, int word)
{
    const struct program_input input = {.facts = {.n_feature = N_NODE,
                                                  .n_class = 5,
                                                  .features_typed = true,
                                                  .n_relation = kind == JOB_KIND_RGCN ? 3 : 0},
                                        .is_sparse = true,
                                        .embedded = {.n_run = 1, .run = &all}};
    program_release(&program);
    job.model.kind = kind;
    job.dataset.features = JOB_WORD(word);
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    for (int v = 0; v < program.n_value; v++) {
        cr_expect(program.value[v].is_sparse || program.value[v].width < N_NODE, "kind %d: value %d is dense", kind,
                  v);
    }
    for (int p = 0; p < program.n_param; p++) {
        cr_expect_lt(program.param[p].n_shared, N_NODE, "kind %d: %s is on every worker", kind,
                     program.param[p].name);
    }
}

Test(model_features, of_one_hot_rows_weights_lie_with_the_nodes_under_every_kind)
{
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        build(kind, JOB_FEATURES_ONE_HOT);
        cr_expect_gt(program.n_embedding, 0, "kind %d", kind);
        cr_expect_null(strstr(program.param[0].name, "embedding"), "kind %d", kind);
    }
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    build(JOB_KIND_SAGE, JOB_FEATURES_ONE_HOT);
}

Test(model_features, vectors_that_are_learned_are_the_first_weight_of_every_kind)
{
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        build(kind, JOB_FEATURES_LEARNED);
        cr_expect_str_eq(program.param[0].name, "embedding.weight", "kind %d", kind);
        cr_expect(program.param[0].shape[0] == 16 && program.param[0].shape[1] == N_NODE, "kind %d", kind);
        cr_expect_eq(program.n_embedding, 16, "kind %d", kind);
    }
}

Test(model_features, that_are_not_there_are_refused_with_what_can_be_made)
{
    const struct program_input input = {.facts.n_class = 5};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_DATA);
    static const char *const words[] = {"the data set has no features, and model.kind = \"gcn\" needs some",
                                        "dataset.features", "\"degree\"", "\"one_hot\"", "\"learned\""};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        cr_expect_not_null(strstr(status_reason(), words[i]), "%s", status_reason());
    }
}
