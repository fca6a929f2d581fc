/* Weights of edges in folders: which edge and which layer gets them, what repeats, reverses and loops weigh, what is refused. */
#include "tests/support/graphs/npy_save.h"
#include "tests/unit/partition/fixture.h"

#include "protocol/base/memory.h"
#include "tests/support/program_text.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0 → 1 twice, 2 → 1, 1 → 0, the loop 3 → 3, 5 → 4 of weight 0. */
static const int64_t edges[] = {0, 2, 0, 1, 3, 5, /* sources */
                                1, 1, 1, 0, 3, 4};
static const float weights[] = {0.5f, 3.0f, 0.25f, 2.0f, 4.0f, 0.0f};

static void weighted(void)
{
    folder_make();
    fixture_small();
    fixture_i64("edges.npy", 2, (int64_t[]){2, 6}, edges);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, weights);
}

TestSuite(weights, .init = weighted, .fini = fixture_end);

/* The weight of an edge, -1 where there is none. */
static float weight_of(const struct dataset *d, uint32_t from, uint32_t to)
{
    for (int64_t i = d->indptr[to]; i < d->indptr[to + 1]; i++) {
        if (d->indices[i] == from) {
            return d->edge_weight[i];
        }
    }
    return -1.0f;
}

Test(weights, repeats_are_added_up_and_nodes_without_a_loop_get_one_of_weight_1)
{
    struct job job = fixture_job();
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.weighted && !d.facts.symmetric && d.n_duplicate == 1);
    cr_assert_eq(d.n_edge, 5 + 5, "five edges and five more loops");
    cr_assert_eq(d.facts.loops, GRAPH_LOOPS_STORED);
    cr_assert(weight_of(&d, 0, 1) == 0.75f && weight_of(&d, 2, 1) == 3.0f && weight_of(&d, 1, 0) == 2.0f);
    cr_assert_eq(weight_of(&d, 5, 4), 0.0f, "an edge of weight 0 is an edge");
    cr_assert(weight_of(&d, 3, 3) == 4.0f && weight_of(&d, 0, 0) == 1.0f && weight_of(&d, 5, 5) == 1.0f);
    const float strength[] = {3.0f, 4.75f, 1.0f, 4.0f, 1.0f, 1.0f};
    cr_assert_arr_eq(d.strength, strength, sizeof strength);
}

Test(weights, no_loops_are_no_loops)
{
    struct job job = fixture_job();
    job.dataset.self_loops = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_edge == 4 && d.n_duplicate == 1 && d.facts.loops == GRAPH_LOOPS_NONE);
    cr_assert(d.strength[3] == 0.0f && d.strength[1] == 3.75f);
}

/* As PyTorch Geometric's to_undirected: both directions side by side, then repeats added up. */
Test(weights, reverse_edges_weigh_the_same_and_what_is_there_both_ways_weighs_the_sum)
{
    struct job job = fixture_job();
    job.dataset.undirected = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.symmetric && d.facts.weighted && d.n_edge == 6 + 1 + 5);
    cr_assert_eq(d.n_duplicate, 2, "0 → 1 again, and 1 → 0 as its reverse");
    cr_assert(weight_of(&d, 0, 1) == 2.75f && weight_of(&d, 1, 0) == 2.75f);
    cr_assert(weight_of(&d, 1, 2) == 3.0f && weight_of(&d, 2, 1) == 3.0f);
    cr_assert_eq(weight_of(&d, 3, 3), 8.0f);
}

Test(weights, both_ends_of_an_edge_with_many_repeats_get_the_same_bits_in_long_rows_too)
{
    enum { N = 4000 };
    static int64_t many[2 * N];
    static float each[N];
    for (int i = 0; i < N; i++) {
        many[i] = i * 7 % 6;
        many[N + i] = i * 5 % 4;
        each[i] = 1.0f / (float)(1 + i * 13 % N);
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, many);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){N}, each);
    struct job job = fixture_job();
    job.dataset.undirected = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    double sum[6][6] = {{0}};
    for (int i = 0; i < N; i++) {
        sum[many[i]][many[N + i]] += each[i];
        sum[many[N + i]][many[i]] += each[i];
    }
    for (uint32_t v = 0; v < 6; v++) {
        for (int64_t i = d.indptr[v]; i < d.indptr[v + 1]; i++) {
            uint32_t u = d.indices[i];
            cr_assert(i == d.indptr[v] || d.indices[i - 1] < u);
            cr_assert_eq(d.edge_weight[i], weight_of(&d, v, u), "%u and %u", u, v);
            cr_assert_lt(fabs(d.edge_weight[i] - (sum[u][v] > 0.0 ? sum[u][v] : 1.0)), 1e-5, "%u and %u", u, v);
        }
    }
}

Test(weights, a_graph_with_other_weights_the_other_way_is_not_symmetric)
{
    const int64_t both[] = {0, 1, 1, 0};
    struct job job = fixture_job();
    fixture_i64("edges.npy", 2, (int64_t[]){2, 2}, both);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){2}, (float[]){2.0f, 2.0f});
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.symmetric);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){2}, (float[]){2.0f, 1.0f});
    d = fixture_loaded(&job);
    cr_assert(!d.facts.symmetric);
}

Test(weights, rows_of_in_edges_take_them_by_entry_and_doubles_are_rounded)
{
    const int64_t indptr[] = {0, 1, 3, 3, 3, 3, 3}, indices[] = {1, 2, 0};
    const double each[] = {0.1, 0.2, 1e-50};
    struct job job = fixture_job();
    fixture_remove("edges.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, indptr);
    fixture_i64("indices.npy", 1, (int64_t[]){3}, indices);
    cr_assert_eq(npy_save(folder_path("edge_weight.npy"), NPY_TYPE_F64, 1, (int64_t[]){3}, each), STATUS_OK);
    struct dataset d = fixture_loaded(&job);
    cr_assert(weight_of(&d, 1, 0) == 0.1f && weight_of(&d, 2, 1) == 0.2f && weight_of(&d, 0, 1) == 0.0f);
}

Test(weights, layers_without_a_meaning_for_them_do_not_get_them_nor_those_told_not_to)
{
    struct job job = fixture_job();
    program_text_set(&job, "gcn");
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        if (kind == JOB_KIND_RGCN) { /* the fixture's edges have no types */
            continue;
        }
        job.model.kind = kind;
        struct dataset d = fixture_loaded(&job);
        bool takes = kind == JOB_KIND_GCN || kind == JOB_KIND_APPNP || kind == JOB_KIND_SGC ||
                     kind == JOB_KIND_GCNII || kind == JOB_KIND_PROGRAM;
        cr_assert_eq(d.facts.weighted, takes, "%s", job_choice_text("model", "kind", kind));
        cr_assert((d.edge_weight != NULL) == takes && (d.strength != NULL) == takes);
    }
    job.model.kind = JOB_KIND_GCN;
    job.dataset.edge_weights = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    cr_assert(!d.facts.weighted && d.n_edge == 4 && d.facts.loops == GRAPH_LOOPS_IMPLICIT);
}

Test(weights, sage_and_gin_take_them_when_asked_without_loops_of_their_own)
{
    struct job job = fixture_job();
    job.dataset.edge_weights = JOB_SWITCH_YES;
    for (int i = 0; i < 2; i++) {
        job.model.kind = i == 0 ? JOB_KIND_SAGE : JOB_KIND_GIN;
        struct dataset d = fixture_loaded(&job);
        cr_assert(d.facts.weighted && d.n_edge == 5, "four edges and the loop");
        cr_assert(weight_of(&d, 0, 1) == 0.75f && weight_of(&d, 3, 3) == 4.0f);
    }
    job.dataset.self_loops = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.weighted && d.n_edge == 5 + 5 && weight_of(&d, 3, 3) == 4.0f && weight_of(&d, 0, 0) == 1.0f);
}

Test(weights, that_are_left_out_are_remarked_on_with_the_reason)
{
    static const struct {
        int kind, aggregator;
        const char *reason;
    } cases[] = {{JOB_KIND_SAGE, JOB_AGGREGATOR_MEAN, "only with dataset.edge_weights = \\\"yes\\\""},
                 {JOB_KIND_GIN, JOB_AGGREGATOR_MEAN, "only with dataset.edge_weights = \\\"yes\\\""},
                 {JOB_KIND_SAGE, JOB_AGGREGATOR_MAX, "takes no weights of edges with model.aggregator = \\\"max\\\""},
                 {JOB_KIND_GAT, JOB_AGGREGATOR_MEAN, "model.kind = \\\"gat\\\" takes no weights of edges"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = fixture_job();
        job.model.kind = cases[i].kind;
        job.model.aggregator = cases[i].aggregator;
        const char *log = fixture_remarks(&job);
        cr_assert(strstr(log, "edge_weight.npy is not used") != NULL && strstr(log, cases[i].reason) != NULL, "%s",
                  log);
    }
}

Test(weights, that_are_symmetric_already_and_double_with_reverse_edges_are_remarked_on)
{
    /* 0 – 1 twice, 1 – 2, and a loop, which is its own reverse */
    const int64_t both[] = {0, 1, 0, 1, 1, 2, 3, 1, 0, 1, 0, 2, 1, 3};
    float each[] = {0.5f, 2.0f, 2.0f, 0.5f, 3.0f, 3.0f, 1.0f};
    struct job job = fixture_job();
    const char *remark = "edge_weight.npy: edges have the same weights in both directions";
    job.dataset.undirected = JOB_SWITCH_YES;
    cr_assert_str_eq(fixture_remarks(&job), "", "weights that are not");
    fixture_i64("edges.npy", 2, (int64_t[]){2, 7}, both);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){7}, each);
    const char *log = fixture_remarks(&job);
    cr_assert(strstr(log, remark) != NULL && strstr(log, "dataset.undirected = \\\"no\\\" leaves them") != NULL, "%s",
              log);
    each[5] = 4.0f;
    fixture_f32("edge_weight.npy", 1, (int64_t[]){7}, each);
    cr_assert_str_eq(fixture_remarks(&job), "", "one weight differs");
    each[5] = 3.0f;
    fixture_f32("edge_weight.npy", 1, (int64_t[]){7}, each);
    job.dataset.undirected = JOB_SWITCH_NO;
    cr_assert_str_eq(fixture_remarks(&job), "");
    fixture_i64("edges.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 0, 1, 1});
    fixture_f32("edge_weight.npy", 1, (int64_t[]){2}, (float[]){2.0f, 2.0f});
    job.dataset.undirected = JOB_SWITCH_YES;
    cr_assert_str_eq(fixture_remarks(&job), "", "repeats are no reverses");
}

Test(weights, that_do_not_fit_the_edges_are_refused)
{
    struct job job = fixture_job();
    float bad[6];
    memcpy(bad, weights, sizeof bad);
    bad[2] = -0.25f;
    fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, bad);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: entry 2: weight -0.25",
                    "expected a finite float32 that is not negative");
    bad[2] = NAN;
    fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, bad);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: entry 2: weight nan", "finite");
    bad[2] = INFINITY;
    fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, bad);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: entry 2: weight inf", "finite");
    const double large[] = {1, 1, 1, 1, 1, 1e300};
    cr_assert_eq(npy_save(folder_path("edge_weight.npy"), NPY_TYPE_F64, 1, (int64_t[]){6}, large), STATUS_OK);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: entry 5: weight 1e+300", "float32");
    fixture_f32("edge_weight.npy", 1, (int64_t[]){5}, weights);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: has 5 entries", "expected 6, the edges of");
    fixture_f32("edge_weight.npy", 2, (int64_t[]){6, 1}, weights);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy", "expected");
    const char text[] = "abc";
    fixture_header("edge_weight.npy", "{'descr': '<U1', 'fortran_order': False, 'shape': (6,), }\n", text, 3);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy", "dtype");
}

Test(weights, that_add_up_to_more_than_a_float_holds_are_refused_with_the_node)
{
    struct job job = fixture_job();
    const float large[] = {FLT_MAX, FLT_MAX, 0, 0, 0, 0};
    fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, large);
    fixture_refused(&job, STATUS_DATA, "edge_weight.npy: the weights of the edges into node 1 add up",
                    "expected a finite sum");
}

Test(weights, that_are_asked_for_must_be_there)
{
    struct job job = fixture_job();
    job.dataset.edge_weights = JOB_SWITCH_YES;
    fixture_remove("edge_weight.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "edge_weight.npy: no such file", "dataset.edge_weights = \"yes\"");
    job.dataset.edge_weights = JOB_SWITCH_AUTO;
    struct dataset d = fixture_loaded(&job);
    cr_assert(!d.facts.weighted);
}

Test(weights, the_fingerprint_knows_them_where_it_is_asked_to)
{
    struct job job = fixture_job();
    char prints[2][33], structure[2][33];
    for (int i = 0; i < 2; i++) {
        float other[6];
        memcpy(other, weights, sizeof other);
        other[5] = (float)i;
        fixture_f32("edge_weight.npy", 1, (int64_t[]){6}, other);
        struct dataset d = fixture_loaded(&job);
        dataset_fingerprint(&d, true, prints[i]);
        dataset_fingerprint(&d, false, structure[i]);
    }
    cr_assert_str_neq(prints[0], prints[1]);
    cr_assert_str_eq(structure[0], structure[1]);
}

Test(weights, load_in_little_more_than_the_memory_that_stays)
{
    enum { N = 200000 };
    static int64_t many[2 * N], labels[N];
    static float each[N];
    for (int64_t i = 0; i < N; i++) {
        many[i] = i * 7919 % N;
        many[N + i] = i * 104729 % N;
        each[i] = (float)(i % 10);
        labels[i] = i % 4;
    }
    fixture_remove("features.npy");
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, many);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){N}, each);
    fixture_i64("labels.npy", 1, (int64_t[]){N}, labels);
    struct job job = fixture_job();
    int64_t before = memory_now(MEMORY_N);
    fixture_loaded(&job);
    int64_t stays = memory_now(MEMORY_N) - before;
    cr_assert_lt((double)(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before), 1.3 * (double)stays);
}
