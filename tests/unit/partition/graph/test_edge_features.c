/* Features of edges in folders: which edge gets which row, what repeats, reverses and loops get, who reads them, what is refused. */
#include "tests/support/graphs/npy_save.h"
#include "tests/unit/partition/fixture.h"

#include "protocol/base/log.h"
#include "protocol/job/model_kinds.h"
#include "tests/support/program_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 0 → 1 twice, 2 → 1, 1 → 0, the loop 3 → 3, 5 → 4. */
static const int64_t edges[] = {0, 2, 0, 1, 3, 5, /* sources */
                                1, 1, 1, 0, 3, 4};
static const float rows[] = {0.5f, -1.0f, 3.0f, 0.0f, 0.5f, -1.0f, 2.0f, 7.0f, 4.0f, 4.0f, -0.25f, 0.125f};

static void featured(void)
{
    folder_make();
    fixture_small();
    fixture_i64("edges.npy", 2, (int64_t[]){2, 6}, edges);
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, rows);
}

TestSuite(edge_features, .init = featured, .fini = fixture_end);

static struct job job_of(int kind)
{
    struct job job = fixture_job();
    job.model.kind = kind;
    return job;
}

/* The features of an edge are these two; false where there is no such edge. */
static bool has_row(const struct dataset *d, uint32_t from, uint32_t to, float first, float second)
{
    for (int64_t i = d->indptr[to]; i < d->indptr[to + 1]; i++) {
        if (d->indices[i] == from) {
            const float *row = dataset_edge_features(d, d->edges.row[i]);
            return row[0] == first && row[1] == second;
        }
    }
    return false;
}

Test(edge_features, repeats_with_the_same_row_are_one_edge_and_stored_loops_keep_theirs)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 2 && d.edges.n_row == 6 && !d.facts.symmetric &&
              d.facts.loops == GRAPH_LOOPS_STORED);
    cr_assert(d.n_edge == 5 && d.n_duplicate == 1 && d.edges.loop_features == NULL);
    cr_assert(has_row(&d, 0, 1, 0.5f, -1.0f) && has_row(&d, 2, 1, 3.0f, 0.0f) && has_row(&d, 1, 0, 2.0f, 7.0f));
    cr_assert(has_row(&d, 3, 3, 4.0f, 4.0f) && has_row(&d, 5, 4, -0.25f, 0.125f));
}

Test(edge_features, columns_may_lie_one_after_another)
{
    const float columns[] = {0.5f, 3.0f, 0.5f, 2.0f, 4.0f, -0.25f, -1.0f, 0.0f, -1.0f, 7.0f, 4.0f, 0.125f};
    fixture_header("edge_attr.npy", "{'descr': '<f4', 'fortran_order': True, 'shape': (6, 2)}\n  ", columns,
                   sizeof columns);
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    struct dataset d = fixture_loaded(&job);
    cr_assert(has_row(&d, 0, 1, 0.5f, -1.0f) && has_row(&d, 1, 0, 2.0f, 7.0f) && has_row(&d, 5, 4, -0.25f, 0.125f));
}

/* As add_self_loops with fill_value = "mean", behind remove_self_loops. */
Test(edge_features, loops_of_a_definition_get_the_mean_of_the_other_in_edges)
{
    for (int i = 0; i < 2; i++) {
        struct job job = job_of(i == 0 ? JOB_KIND_GAT : JOB_KIND_GATV2);
        struct dataset d = fixture_loaded(&job);
        cr_assert(d.n_edge == 4 + 6 && d.facts.loops == GRAPH_LOOPS_STORED && d.n_duplicate == 1);
        cr_assert(has_row(&d, 0, 0, 2.0f, 7.0f), "of its one in-edge");
        cr_assert(has_row(&d, 1, 1, 1.75f, -0.5f), "of two in-edges, the repeat counted once");
        cr_assert(has_row(&d, 3, 3, 0.0f, 0.0f) && has_row(&d, 2, 2, 0.0f, 0.0f),
                  "the stored loop is not one of them");
        cr_assert(has_row(&d, 4, 4, -0.25f, 0.125f) && has_row(&d, 0, 1, 0.5f, -1.0f));
    }
}

Test(edge_features, loops_are_left_out_or_put_in_where_the_job_says_so)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    job.dataset.self_loops = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_edge == 4 && d.facts.loops == GRAPH_LOOPS_NONE && d.edges.loop_features == NULL);
    job.dataset.self_loops = JOB_SWITCH_YES;
    d = fixture_loaded(&job);
    cr_assert(d.n_edge == 4 + 6 && d.n_duplicate == 1 && d.facts.loops == GRAPH_LOOPS_STORED);
    cr_assert(has_row(&d, 1, 1, 1.75f, -0.5f) && has_row(&d, 2, 2, 0.0f, 0.0f));
    cr_assert(has_row(&d, 3, 3, 4.0f, 4.0f), "a stored loop keeps its features, as with add_remaining_self_loops");
}

Test(edge_features, the_reverse_of_an_edge_has_its_row)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    const float same[] = {0.5f, -1.0f, 3.0f, 0.0f, 0.5f, -1.0f, 0.5f, -1.0f, 4.0f, 4.0f, -0.25f, 0.125f};
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, same);
    job.dataset.undirected = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_edge == 6 + 1 && d.n_duplicate == 2 && !d.facts.symmetric);
    cr_assert(has_row(&d, 0, 1, 0.5f, -1.0f) && has_row(&d, 1, 0, 0.5f, -1.0f) && has_row(&d, 1, 2, 3.0f, 0.0f));
    cr_assert(has_row(&d, 4, 5, -0.25f, 0.125f) && has_row(&d, 5, 4, -0.25f, 0.125f) &&
              has_row(&d, 3, 3, 4.0f, 4.0f));
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, rows);
    fixture_refused(&job, STATUS_DATA,
                    "edge_attr.npy: rows 0 and 3 differ, and both are of the edge between nodes 1 and 0",
                    "expected equal rows");
}

Test(edge_features, repeats_with_other_rows_are_refused_with_both)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    float other[12];
    memcpy(other, rows, sizeof other);
    other[5] = 1.0f;
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, other);
    fixture_refused(&job, STATUS_DATA,
                    "edge_attr.npy: rows 0 and 2 differ, and both are of the edge between nodes 0 and 1",
                    "expected equal rows");
}

Test(edge_features, rows_follow_their_edges_in_long_rows_too)
{
    enum { N = 3000 };
    static int64_t many[2 * N];
    static float each[N];
    for (int i = 0; i < N; i++) {
        many[i] = (int64_t)i * 7919 % N;
        many[N + i] = i % 2;
        each[i] = (float)many[i] + (i % 2 == 0 ? 0.0f : 0.5f);
    }
    static const int64_t labels[N];
    fixture_i64("labels.npy", 1, (int64_t[]){N}, labels);
    fixture_remove("features.npy");
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, many);
    fixture_f32("edge_attr.npy", 1, (int64_t[]){N}, each);
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 1 && d.n_edge == N);
    for (int64_t v = 0; v < 2; v++) {
        for (int64_t i = d.indptr[v]; i < d.indptr[v + 1]; i++) {
            cr_assert_eq(*dataset_edge_features(&d, d.edges.row[i]), (float)d.indices[i] + 0.5f * (float)v);
        }
    }
}

Test(edge_features, kinds_without_a_meaning_for_them_do_not_get_them_nor_those_told_not_to)
{
    struct job job = fixture_job();
    program_text_set(&job, "gat");
    for (int kind = 0; kind < JOB_KIND_N; kind++) {
        if (kind == JOB_KIND_RGCN) { /* the fixture's edges have no types */
            continue;
        }
        job.model.kind = kind;
        struct dataset d = fixture_loaded(&job);
        bool takes = model_kind_of(&job)->takes_edge_features;
        cr_assert_eq(d.facts.n_edge_feature, takes ? 2 : 0, "%s", job_choice_text("model", "kind", kind));
        cr_assert((d.edges.row != NULL) == takes && (d.edges.features != NULL) == takes);
    }
    job = job_of(JOB_KIND_GAT);
    job.dataset.edge_features = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 0 && d.n_edge == 4 && d.facts.loops == GRAPH_LOOPS_IMPLICIT);
}

Test(edge_features, that_are_left_out_are_remarked_on_with_the_reason)
{
    struct job job = job_of(JOB_KIND_GCN);
    char log[4096];
    log_init("test", -1, LOG_LEVEL_WARN);
    cr_assert_eq(log_to(folder_path("log")), STATUS_OK, "%s", status_reason());
    fixture_loaded(&job);
    job = job_of(JOB_KIND_PROGRAM);
    program_text_set(&job, "gcn");
    fixture_loaded(&job);
    folder_read("log", log, sizeof log);
    cr_assert_not_null(
        strstr(log, "edge_attr.npy is not used: model.kind = \\\"gcn\\\" takes no features of edges; weights are in "
                    "edge_weight.npy, one number an edge"),
        "%s", log);
    cr_assert_not_null(strstr(log, "edge_attr.npy is not used: the program does not read e.feature"), "%s", log);
}

Test(edge_features, of_other_types_are_converted)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    const int64_t numbers[] = {1, 2, 1, 3, 4, 5};
    fixture_i64("edge_attr.npy", 2, (int64_t[]){6, 1}, numbers);
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 1 && d.edges.n_row == 6);
    for (int64_t r = 0; r < 6; r++) {
        cr_assert_eq(*dataset_edge_features(&d, r), (float)numbers[r]);
    }
}

Test(edge_features, that_do_not_fit_the_edges_are_refused)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    float bad[12];
    memcpy(bad, rows, sizeof bad);
    bad[5] = NAN;
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, bad);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy: row 2, column 1", "finite");
    const double large[] = {1, 1, 1, 1, 1, 1e300};
    cr_assert_eq(npy_save(folder_path("edge_attr.npy"), NPY_TYPE_F64, 1, (int64_t[]){6}, large), STATUS_OK);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy: row 5", "float32");
    fixture_f32("edge_attr.npy", 2, (int64_t[]){5, 2}, rows);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy: has 5 rows", "expected 6, the edges of");
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 0}, rows);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy: has 0 columns", "expected 1 to");
    fixture_f32("edge_attr.npy", 3, (int64_t[]){6, 2, 1}, rows);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy", "expected");
    const char text[] = "abcdef";
    fixture_header("edge_attr.npy", "{'descr': '<U1', 'fortran_order': False, 'shape': (6,), }\n", text, 3);
    fixture_refused(&job, STATUS_DATA, "edge_attr.npy", "dtype");
}

Test(edge_features, that_are_asked_for_must_be_there)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    job.dataset.edge_features = JOB_SWITCH_YES;
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.facts.n_edge_feature, 2);
    fixture_remove("edge_attr.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "edge_attr.npy: no such file", "dataset.edge_features = \"yes\"");
    job.dataset.edge_features = JOB_SWITCH_AUTO;
    d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 0 && d.edges.row == NULL);
}

Test(edge_features, in_edges_by_destination_have_them_too)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    const int64_t indptr[] = {0, 1, 3, 3, 4, 5, 5}, indices[] = {1, 2, 0, 3, 5};
    const float of_rows[] = {2.0f, 7.0f, 3.0f, 0.0f, 0.5f, -1.0f, 4.0f, 4.0f, -0.25f, 0.125f};
    fixture_remove("edges.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, indptr);
    fixture_i64("indices.npy", 1, (int64_t[]){5}, indices);
    fixture_f32("edge_attr.npy", 2, (int64_t[]){5, 2}, of_rows);
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_edge == 5 && has_row(&d, 0, 1, 0.5f, -1.0f) && has_row(&d, 2, 1, 3.0f, 0.0f) &&
              has_row(&d, 5, 4, -0.25f, 0.125f));
}

Test(edge_features, the_fingerprint_knows_them_by_edge_where_it_is_asked_to)
{
    struct job job = job_of(JOB_KIND_TRANSFORMER);
    char prints[3][33], structure[3][33];
    for (int i = 0; i < 3; i++) {
        float other[12];
        int64_t order[12];
        memcpy(other, rows, sizeof other);
        memcpy(order, edges, sizeof order);
        other[11] = i == 1 ? 1.0f : other[11];
        for (int e = 0; i == 2 && e < 6; e++) { /* the same edges from the last to the first */
            memcpy(other + (size_t)2 * (size_t)e, rows + (size_t)2 * (size_t)(5 - e), 2 * sizeof *rows);
            order[e] = edges[5 - e];
            order[6 + e] = edges[6 + 5 - e];
        }
        fixture_i64("edges.npy", 2, (int64_t[]){2, 6}, order);
        fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 2}, other);
        struct dataset d = fixture_loaded(&job);
        dataset_fingerprint(&d, true, prints[i]);
        dataset_fingerprint(&d, false, structure[i]);
    }
    cr_assert_str_neq(prints[0], prints[1]);
    cr_assert_str_eq(prints[0], prints[2]);
    cr_assert_str_eq(structure[0], structure[1]);
}
