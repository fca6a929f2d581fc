/* Which values have halo rows where inputs are stored, and what the steps that make and read them touch. */
#include "models/steps/step.h"

#include <criterion/criterion.h>
#include <string.h>

static struct job job;

static void begin(void)
{
    job_defaults(&job);
    job.model.hidden = 16;
}

TestSuite(stored, .init = begin);

static struct program built(int kind, int64_t n_feature, bool sparse, bool stores)
{
    struct program program;
    const struct program_input input = {
        .facts = {.n_feature = n_feature, .n_class = 4}, .is_sparse = sparse, .stores = stores};
    job.model.kind = kind;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    return program;
}

static int n_halo_value(int kind, int64_t n_feature, bool sparse)
{
    struct program program = built(kind, n_feature, sparse, true);
    int n = 0;
    for (int v = 0; v < program.n_value; v++) {
        n += program.value[v].hop == PROGRAM_HOP_HALO;
    }
    cr_expect_eq(n > 0, program_stores(&program));
    program_release(&program);
    return n;
}

Test(stored, maps_of_sparse_features_and_dropped_out_features_have_halo_rows)
{
    cr_expect_eq(n_halo_value(JOB_KIND_SAGE, 100, true), 1, "the map");
    cr_expect_eq(n_halo_value(JOB_KIND_SAGE, 100, false), 0, "aggregated once");
    job.model.input_dropout = 0.5;
    cr_expect_eq(n_halo_value(JOB_KIND_SAGE, 100, true), 2, "the dropout and its map");
    cr_expect_eq(n_halo_value(JOB_KIND_GCN, 100, false), 2);
    cr_expect_eq(n_halo_value(JOB_KIND_SAGE, 8, false), 1, "the dropout");
    cr_expect_eq(n_halo_value(JOB_KIND_GIN, 8, false), 1);
    job.model.aggregator = JOB_AGGREGATOR_MAX;
    cr_expect_eq(n_halo_value(JOB_KIND_SAGE, 100, false), 1);
}

Test(stored, values_that_others_need_have_none)
{
    job.model.input_dropout = 0.5;
    cr_expect_eq(n_halo_value(JOB_KIND_APPNP, 100, true), 0, "several layers before the first aggregate");
    job.exchange.plain = true;
    cr_expect_eq(n_halo_value(JOB_KIND_GCN, 100, true), 0);
}

/* Queries are of own rows alone. */
Test(stored, values_and_keys_of_attention_have_halo_rows)
{
    job.model.heads = 2;
    cr_expect_eq(n_halo_value(JOB_KIND_GAT, 100, true), 2, "the map and its numbers per head");
    job.model.input_dropout = 0.5;
    cr_expect_eq(n_halo_value(JOB_KIND_GAT, 8, false), 3, "and the dropout");
    cr_expect_eq(n_halo_value(JOB_KIND_GATV2, 100, true), 2, "the dropout and one of two maps");
    cr_expect_eq(n_halo_value(JOB_KIND_TRANSFORMER, 8, false), 3, "the dropout, values and keys");
    cr_expect_eq(n_halo_value(JOB_KIND_AGNN, 100, true), 0, "an activation stands between");
}

Test(stored, what_other_layers_lose_does_not_matter)
{
    job.model.input_dropout = 0.5;
    job.exchange.sampling = 0.5;
    cr_expect_eq(n_halo_value(JOB_KIND_GCN, 100, true), 2);
    job.exchange.sampling = 1.0;
    job.exchange.stale = 1;
    cr_expect_eq(n_halo_value(JOB_KIND_GCN, 100, true), 2);
    job.exchange.stale = 0;
    strcpy(job.exchange.codec, "int8");
    cr_expect_eq(n_halo_value(JOB_KIND_GCN, 100, true), 2);
}
