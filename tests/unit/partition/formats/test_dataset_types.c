/* Typed edges and typed nodes of npy folders: what is kept for which model, and what is refused. */
#include "tests/unit/partition/fixture.h"

#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(dataset_types, .init = folder_make, .fini = fixture_end);

/* Six nodes, two relations; 0 → 1 is in both, and once more in relation 0; 3 → 3 is a loop. */
static const int64_t sources[] = {0, 2, 0, 0, 1, 3, 5};
static const int64_t destinations[] = {1, 1, 1, 1, 0, 3, 1};
static const int64_t types[] = {0, 0, 1, 0, 1, 1, 1};

static void typed(void)
{
    int64_t edges[14];
    fixture_small();
    fixture_remove("features.npy");
    memcpy(edges, sources, sizeof sources);
    memcpy(edges + 7, destinations, sizeof destinations);
    fixture_i64("edges.npy", 2, (int64_t[]){2, 7}, edges);
    fixture_i64("edge_type.npy", 1, (int64_t[]){7}, types);
}

static struct job rgcn(void)
{
    struct job job = fixture_job();
    job.model.kind = JOB_KIND_RGCN;
    return job;
}

static void bad(const char *where, const char *expected)
{
    struct job job = rgcn();
    fixture_refused(&job, STATUS_DATA, where, expected);
}

Test(dataset_types, rows_lie_by_type_then_source_with_each_triple_once)
{
    typed();
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    const int64_t indptr[] = {0, 1, 5, 5, 6, 6, 6};
    const uint32_t indices[] = {1, 0, 2, 0, 5, 3};
    const uint16_t kept[] = {1, 0, 0, 1, 1, 1};
    cr_assert_eq(d.n_edge, 6);
    cr_assert_eq(d.n_duplicate, 1);
    cr_assert_eq(d.facts.n_relation, 2);
    cr_assert_eq(d.facts.loops, GRAPH_LOOPS_STORED);
    cr_assert(!d.facts.symmetric);
    cr_assert_arr_eq(d.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(d.indices, indices, sizeof indices);
    cr_assert_arr_eq(d.edge_type, kept, sizeof kept);
}

Test(dataset_types, compressed_rows_carry_types_as_a_list_does)
{
    typed();
    fixture_remove("edges.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 5, 5, 6, 6, 6});
    fixture_i64("indices.npy", 1, (int64_t[]){6}, (int64_t[]){1, 5, 2, 0, 0, 3});
    fixture_i64("edge_type.npy", 1, (int64_t[]){6}, (int64_t[]){1, 1, 0, 1, 0, 1});
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    const uint32_t indices[] = {1, 0, 2, 0, 5, 3};
    const uint16_t kept[] = {1, 0, 0, 1, 1, 1};
    cr_assert_arr_eq(d.indices, indices, sizeof indices);
    cr_assert_arr_eq(d.edge_type, kept, sizeof kept);
}

Test(dataset_types, other_models_get_the_edges_without_types_each_pair_once)
{
    typed();
    struct job job = fixture_job();
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.edge_type == NULL && d.facts.n_relation == 0);
    cr_assert_eq(d.n_edge, 4);
    cr_assert_eq(d.n_duplicate, 2);
}

Test(dataset_types, undirected_adds_the_inverse_of_each_relation)
{
    typed();
    struct job job = rgcn();
    job.dataset.undirected = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    const int64_t indptr[] = {0, 3, 8, 9, 11, 11, 12};
    const uint32_t indices[] = {1, 1, 1, 0, 2, 0, 5, 0, 1, 3, 3, 1};
    const uint16_t kept[] = {1, 2, 3, 0, 0, 1, 1, 3, 2, 1, 3, 3};
    cr_assert_eq(d.facts.n_relation, 4);
    cr_assert_eq(d.n_edge, 12);
    cr_assert_eq(d.n_duplicate, 1);
    cr_assert_arr_eq(d.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(d.indices, indices, sizeof indices);
    cr_assert_arr_eq(d.edge_type, kept, sizeof kept);
}

Test(dataset_types, no_self_loops_leaves_the_stored_ones_out)
{
    typed();
    struct job job = rgcn();
    job.dataset.self_loops = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.n_edge, 5);
    cr_assert_eq(d.facts.loops, GRAPH_LOOPS_NONE);
}

Test(dataset_types, the_fingerprint_tells_types_apart)
{
    char one[33], other[33];
    typed();
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    dataset_fingerprint(&d, true, one);
    d.edge_type[0] = 0;
    dataset_fingerprint(&d, true, other);
    cr_assert_str_neq(one, other);
}

Test(dataset_types, long_rows_are_sorted_in_place)
{
    enum { N = 3000 };
    static int64_t edges[2 * N], kinds[N];
    fixture_small();
    for (int64_t i = 0; i < N; i++) {
        edges[i] = i * 7919 % 6;
        edges[N + i] = 2;
        kinds[i] = i * 104729 % 500;
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, edges);
    fixture_i64("edge_type.npy", 1, (int64_t[]){N}, kinds);
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.n_edge + d.n_duplicate, N);
    for (int64_t i = 1; i < d.n_edge; i++) {
        bool ascends = d.edge_type[i - 1] < d.edge_type[i] ||
                       (d.edge_type[i - 1] == d.edge_type[i] && d.indices[i - 1] < d.indices[i]);
        cr_assert(ascends, "entry %lld", (long long)i);
    }
}

Test(dataset_types, types_that_do_not_fit_are_refused_by_entry_and_relation)
{
    int64_t wrong[7];
    typed();
    memcpy(wrong, types, sizeof wrong);
    wrong[4] = 65536;
    fixture_i64("edge_type.npy", 1, (int64_t[]){7}, wrong);
    bad("edge_type.npy: entry 4: relation 65536 is out of range", "expected 0 to 65535");
    wrong[4] = -1;
    fixture_i64("edge_type.npy", 1, (int64_t[]){7}, wrong);
    bad("edge_type.npy: entry 4: relation -1 is out of range", "expected 0 to 65535");
    wrong[4] = 3;
    fixture_i64("edge_type.npy", 1, (int64_t[]){7}, wrong);
    bad("edge_type.npy: relation 2 has no edge", "expected one of each relation from 0 to 3");
    fixture_i64("edge_type.npy", 1, (int64_t[]){6}, types);
    bad("edge_type.npy: has 6 entries", "expected 7, the edges of");
    fixture_f32("edge_type.npy", 1, (int64_t[]){7}, (float[]){0, 0, 0, 0, 0, 0, 0});
    bad("edge_type.npy: holds float32", "expected integers");
    wrong[4] = 40000;
    fixture_bytes("meta.json", "{\"relations\": 40001}", 20);
    fixture_i64("edge_type.npy", 1, (int64_t[]){7}, wrong);
    struct job job = rgcn();
    job.dataset.undirected = JOB_SWITCH_YES;
    fixture_refused(&job, STATUS_DATA, "edge_type.npy: 40001 relations",
                    "expected at most 32768 with an inverse to each");
    fixture_remove("edge_type.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "edge_type.npy", "No such file");
}

Test(dataset_types, meta_vouches_for_relations_without_edges_and_bounds_them)
{
    typed();
    fixture_bytes("meta.json", "{\"relations\": 5, \"x\": [NaN, -Infinity, \"NaN\"]}", 46);
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.facts.n_relation, 5);
    fixture_bytes("meta.json", "{\"relations\": 1}", 16);
    bad("edge_type.npy: entry 2: relation 1 is out of range", "expected 0 to 0");
}

Test(dataset_types, the_edges_of_a_generator_are_one_relation)
{
    struct job job;
    job_defaults(&job);
    job.dataset.generator = JOB_GENERATOR_KARATE;
    job.model.kind = JOB_KIND_RGCN;
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.facts.n_relation, 2);
    cr_assert_eq(d.n_edge, 156);
    cr_assert_eq(d.edge_type[0] + d.edge_type[d.n_edge - 1], 1);
}

/* Nodes 0 3 are of type 0 (dense), 1 5 of type 1 (sparse), 2 4 of type 2 (no features). */
static void node_types(void)
{
    fixture_small();
    fixture_remove("features.npy");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 0, 2, 1});
    fixture_f32("feat_t0.npy", 2, (int64_t[]){2, 2}, (float[]){1, 3, 0, 5});
    fixture_i64("feat_t1_indptr.npy", 1, (int64_t[]){3}, (int64_t[]){0, 2, 3});
    fixture_i64("feat_t1_indices.npy", 1, (int64_t[]){3}, (int64_t[]){2, 0, 1});
    fixture_f32("feat_t1_data.npy", 1, (int64_t[]){3}, (float[]){6, 2, 8});
}

static void features_are(const struct dataset *d, const float *expected)
{
    const uint32_t nodes[] = {0, 1, 2, 3, 4, 5};
    float rows[6 * 8];
    cr_assert_leq(d->facts.n_feature, 8);
    dataset_feature_rows(d, nodes, 6, rows);
    cr_assert_arr_eq(rows, expected, (size_t)(6 * d->facts.n_feature) * sizeof *rows);
}

Test(dataset_types, the_types_features_stand_side_by_side_and_a_type_without_any_gets_a_column_per_node)
{
    node_types();
    struct job job = fixture_job();
    struct dataset d = fixture_loaded(&job);
    const float expected[] = {1, 3, 0, 0, 0, 0, 0, /**/ 0, 0, 2, 0, 6, 0, 0, /**/ 0, 0, 0, 0, 0, 1, 0,
                              0, 5, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 0, 1, /**/ 0, 0, 0, 8, 0, 0, 0};
    cr_assert_eq(d.facts.n_feature, 7);
    cr_assert_eq(d.features.indptr[6], 8);
    cr_assert(d.features.embedded.n_run == 1 && d.features.embedded.run[0].begin == 5 &&
              d.features.embedded.run[0].end == 7);
    for (int v = 0; v < 6; v++) {
        cr_assert_eq(dataset_is_embedded(&d, v), v == 2 || v == 4);
    }
    features_are(&d, expected);
    job.dataset.normalize_features = JOB_NORMALIZE_ROW;
    d = fixture_loaded(&job);
    const float normalized[] = {.25f, .75f, 0, 0, 0, 0, 0, /**/ 0, 0, .25f, 0, .75f, 0, 0, /**/ 0, 0, 0, 0, 0, 1, 0,
                                0,    1,    0, 0, 0, 0, 0, /**/ 0, 0, 0,    0, 0,    0, 1, /**/ 0, 0, 0, 1, 0, 0, 0};
    features_are(&d, normalized);
}

Test(dataset_types, meta_may_tell_a_types_columns)
{
    node_types();
    fixture_bytes("meta.json", "{\"features\": {\"1\": {\"rows\": 2, \"features\": 4}}}", 47);
    struct job job = fixture_job();
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.facts.n_feature, 8);
    fixture_bytes("meta.json", "{\"features\": {\"1\": {\"features\": 2}}}", 36);
    fixture_refused(&job, STATUS_DATA, "feat_t1_indices.npy: row 0, entry 0: column 2 is out of range",
                    "expected 0 to 1");
}

Test(dataset_types, a_typed_graph_without_any_features_has_a_column_per_node)
{
    typed();
    struct job job = rgcn();
    struct dataset d = fixture_loaded(&job);
    float identity[36] = {0};
    for (int v = 0; v < 6; v++) {
        identity[v * 6 + v] = 1;
    }
    features_are(&d, identity);
    cr_assert(d.features.embedded.n_run == 1 && d.features.embedded.run[0].begin == 0 &&
              d.features.embedded.run[0].end == 6);
}

Test(dataset_types, node_types_that_disagree_with_features_or_nodes_are_refused)
{
    struct job job = fixture_job();
    node_types();
    fixture_i64("node_type.npy", 1, (int64_t[]){5}, (int64_t[]){0, 1, 2, 0, 2});
    fixture_refused(&job, STATUS_DATA, "labels.npy: has 6 rows", "expected 5, the rows of");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 0, -2, 1});
    fixture_refused(&job, STATUS_DATA, "node_type.npy: entry 4 is -2", "expected a node type of 0 to 65535");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 0, 2, 2});
    fixture_refused(&job, STATUS_DATA, "feat_t1_indptr.npy: has 2 rows", "expected 1, the nodes of type 1 in");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 0, 0, 2, 1});
    fixture_refused(&job, STATUS_DATA, "feat_t0.npy: has 2 rows", "expected 3, the nodes of type 0 in");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 0, 0, 0, 0, 0});
    fixture_refused(&job, STATUS_DATA, "node_type.npy has no node of that type", "expected types 0 to 0");
    fixture_remove("node_type.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "node_type.npy: no such file",
                    "expected the types of nodes beside feat_t");
    node_types();
    fixture_remove("feat_t1_data.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "feat_t1_data.npy", "No such file");
    node_types();
    fixture_f32("feat_t1_data.npy", 1, (int64_t[]){3}, (float[]){6, 2, 1.0f / 0.0f});
    fixture_refused(&job, STATUS_DATA, "feat_t1_data.npy: row 1, column 1 is inf", "expected a finite number");
    fixture_i64("feat_t1_indices.npy", 1, (int64_t[]){3}, (int64_t[]){0, 0, 1});
    fixture_f32("feat_t1_data.npy", 1, (int64_t[]){3}, (float[]){6, 2, 1});
    fixture_refused(&job, STATUS_DATA, "feat_t1_indices.npy: row 0 has column 0 twice", "expected it once");
}

Test(dataset_types, node_types_that_are_none_are_refused_beside_features_of_all_nodes_too)
{
    struct job job = fixture_job();
    fixture_small();
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 0, -3, 1});
    fixture_refused(&job, STATUS_DATA, "node_type.npy: entry 4 is -3", "expected a node type of 0 to 65535");
    fixture_i64("node_type.npy", 1, (int64_t[]){5}, (int64_t[]){0, 1, 2, 0, 2});
    fixture_refused(&job, STATUS_DATA, "node_type.npy: has shape [5]", "expected [6]");
    fixture_i64("node_type.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 2, 0, 2, 1});
    fixture_loaded(&job);
}

Test(dataset_types, loading_takes_little_more_memory_than_what_stays)
{
    enum { N = 60000 };
    static int64_t edges[2 * N], kinds[N], nodes[1000];
    for (int64_t i = 0; i < N; i++) {
        edges[i] = i % 1000;
        edges[N + i] = i % 3;
        kinds[i] = i / 1000 % 50;
    }
    fixture_i64("labels.npy", 1, (int64_t[]){1000}, nodes);
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, edges);
    fixture_i64("edge_type.npy", 1, (int64_t[]){N}, kinds);
    struct job job = rgcn();
    int64_t before = memory_now(MEMORY_N);
    struct dataset d;
    cr_assert_eq(dataset_load(&job, &d), STATUS_OK, "%s", status_reason());
    int64_t stays = memory_now(MEMORY_N) - before;
    cr_assert_lt((double)(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before), 1.3 * (double)stays);
    dataset_release(&d);
    cr_assert_eq(memory_now(MEMORY_N), before);
}
