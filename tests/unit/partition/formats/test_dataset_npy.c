/* Edges, names and missing files of npy folders: what is loaded and what is refused. */
#include "protocol/base/log.h"
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(dataset_npy, .init = folder_make, .fini = fixture_end);

static void edges_are(int64_t n, const int64_t *values)
{
    fixture_i64("edges.npy", 2, (int64_t[]){2, n}, values);
}

static void bad(const char *where, const char *expected)
{
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, where, expected);
}

Test(dataset_npy, a_small_folder_loads_as_it_is)
{
    fixture_small();
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.n_node, 6);
    cr_assert_eq(dataset.n_edge, 10);
    cr_assert_eq(dataset.facts.n_feature, 3);
    cr_assert_eq(dataset.facts.n_class, 2);
    cr_assert(!dataset.facts.multi_label && dataset.facts.symmetric);
    const int64_t indptr[] = {0, 1, 3, 5, 7, 9, 10};
    const uint32_t indices[] = {1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
    const int32_t labels[] = {0, 1, 0, 1, 0, -1};
    const uint8_t split[] = {1, 1, 2, 3, 3, 0};
    cr_assert_arr_eq(dataset.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    cr_assert_arr_eq(dataset.labels.classes, labels, sizeof labels);
    cr_assert_arr_eq(dataset.labels.split, split, sizeof split);
    cr_assert(dataset.labels.n_split[0] == 1 && dataset.labels.n_split[1] == 2 && dataset.labels.n_split[2] == 1 &&
              dataset.labels.n_split[3] == 2);
    float rows[6];
    dataset_feature_rows(&dataset, (uint32_t[]){5, 0}, 2, rows);
    const float expected[] = {16, 17, -18, 1, 2, 3};
    cr_assert_arr_eq(rows, expected, sizeof rows);
}

Test(dataset_npy, rows_are_sorted_and_repeats_left_out)
{
    fixture_small();
    edges_are(5, (int64_t[]){5, 1, 3, 1, 2, /**/ 0, 0, 0, 0, 2});
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.n_edge, 3);
    cr_assert_eq(dataset.n_duplicate, 1);
    const uint32_t indices[] = {1, 3, 5};
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
    cr_assert(!dataset.facts.symmetric);
}

Test(dataset_npy, long_rows_are_sorted_too)
{
    enum { N = 3000 };
    static int64_t edges[2 * N], labels[N];
    for (int64_t i = 0; i < N; i++) {
        edges[i] = i * 1009 % N;
    }
    fixture_small();
    fixture_remove("features.npy");
    edges_are(N, edges);
    fixture_i64("labels.npy", 1, (int64_t[]){N}, labels);
    struct job job = fixture_job();
    job.dataset.self_loops = JOB_SWITCH_NO;
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.n_edge, N - 1);
    for (uint32_t i = 0; i < N - 1; i++) {
        cr_assert_eq(dataset.indices[i], i + 1);
    }
    cr_assert_eq(dataset.facts.n_feature, 0);
}

Test(dataset_npy, self_loops_are_what_the_job_and_the_layer_say)
{
    static const struct {
        int loops, kind;
        enum graph_loops expected;
        int64_t n_edge;
    } rows[] = {{JOB_SWITCH_AUTO, JOB_KIND_GCN, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_APPNP, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_SGC, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_GAT, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_AGNN, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_GCNII, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_AUTO, JOB_KIND_TRANSFORMER, GRAPH_LOOPS_STORED, 3},
                {JOB_SWITCH_AUTO, JOB_KIND_SAGE, GRAPH_LOOPS_STORED, 3},
                {JOB_SWITCH_AUTO, JOB_KIND_GIN, GRAPH_LOOPS_STORED, 3},
                {JOB_SWITCH_YES, JOB_KIND_SAGE, GRAPH_LOOPS_IMPLICIT, 2},
                {JOB_SWITCH_NO, JOB_KIND_GCN, GRAPH_LOOPS_NONE, 2}};
    fixture_small();
    edges_are(4, (int64_t[]){0, 2, 2, 4, /**/ 1, 2, 2, 3});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job = fixture_job();
        job.dataset.self_loops = rows[i].loops;
        job.model.kind = rows[i].kind;
        struct dataset dataset = fixture_loaded(&job);
        cr_assert_eq(dataset.facts.loops, rows[i].expected, "row %zu", i);
        cr_assert_eq(dataset.n_edge, rows[i].n_edge, "row %zu", i);
        cr_assert_eq(dataset.n_duplicate, rows[i].expected == GRAPH_LOOPS_STORED, "row %zu", i);
    }
}

Test(dataset_npy, undirected_adds_the_reverse_edges_once)
{
    fixture_small();
    edges_are(5, (int64_t[]){0, 1, 2, 2, 4, /**/ 1, 0, 3, 3, 4});
    struct job job = fixture_job();
    job.dataset.undirected = JOB_SWITCH_YES;
    job.model.kind = JOB_KIND_SAGE;
    struct dataset dataset = fixture_loaded(&job);
    const int64_t indptr[] = {0, 1, 2, 3, 4, 5, 5};
    const uint32_t indices[] = {1, 0, 3, 2, 4};
    cr_assert_eq(dataset.n_edge, 5);
    cr_assert_eq(dataset.n_duplicate, 2);
    cr_assert(dataset.facts.symmetric);
    cr_assert_arr_eq(dataset.indptr, indptr, sizeof indptr);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
}

/* What the log says of the fixture. */
static const char *remark_of(const struct job *job)
{
    static char said[4096];
    cr_assert_eq(log_to(folder_path("log")), STATUS_OK, "%s", status_reason());
    fixture_loaded(job);
    folder_read("log", said, sizeof said);
    fixture_remove("log");
    return said;
}

Test(dataset_npy, one_way_edges_are_remarked_on_with_their_share_and_the_key)
{
    static const char words[] = "edges.npy: 50.0 % of the edges have no reverse";
    struct job job = fixture_job();
    fixture_small();
    cr_expect_str_eq(remark_of(&job), "");
    edges_are(6, (int64_t[]){0, 1, 2, 4, 5, 5, /**/ 1, 0, 3, 5, 5, 5}); /* 0-1 both ways, two one way, a loop twice */
    const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE};                  /* loops are left out, or stored */
    for (int k = 0; k < 2; k++) {
        job.model.kind = kinds[k];
        const char *said = remark_of(&job);
        cr_expect(strstr(said, words) != NULL && strstr(said, "dataset.undirected") != NULL, "%s", said);
    }
    job.dataset.undirected = JOB_SWITCH_YES;
    cr_expect_str_eq(remark_of(&job), "");
    job.dataset.undirected = JOB_SWITCH_NO;
    cr_expect_str_eq(remark_of(&job), "");
    const float attributes[6] = {1, 2, 3, 4, 5, 5};
    fixture_f32("edge_attr.npy", 2, (int64_t[]){6, 1}, attributes);
    job.dataset.undirected = JOB_SWITCH_AUTO;
    job.model.kind = JOB_KIND_GAT;
    cr_expect_not_null(strstr(remark_of(&job), words), "of edges with features, too");
}

Test(dataset_npy, in_edges_by_destination_load_like_an_edge_list)
{
    fixture_small();
    struct job job = fixture_job();
    char list[33], rows[33];
    struct dataset dataset = fixture_loaded(&job);
    dataset_fingerprint(&dataset, true, list);
    fixture_remove("edges.npy");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 5, 7, 9, 10});
    fixture_i64("indices.npy", 1, (int64_t[]){10}, (int64_t[]){1, 2, 0, 1, 3, 2, 4, 3, 5, 4});
    dataset = fixture_loaded(&job);
    dataset_fingerprint(&dataset, true, rows);
    cr_assert_str_eq(list, rows);

    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 2, 7, 9, 10});
    bad("indptr.npy: entry 3 is 2", "expected 3 to 10");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 3, 5, 7, 9, 9});
    bad("indptr.npy: entry 6 is 9", "expected 10 to 10");
    fixture_i64("indptr.npy", 1, (int64_t[]){7}, (int64_t[]){1, 1, 3, 5, 7, 9, 10});
    bad("indptr.npy: entry 0 is 1", "expected 0 to 0");
    fixture_i64("indptr.npy", 1, (int64_t[]){6}, (int64_t[]){0, 1, 3, 5, 7, 10});
    bad("indptr.npy: has shape [6]", "expected [7]");
}

Test(dataset_npy, the_fingerprint_knows_the_edges_and_not_the_features)
{
    fixture_small();
    struct job job = fixture_job();
    char first[33], second[33];
    struct dataset dataset = fixture_loaded(&job);
    dataset_fingerprint(&dataset, true, first);
    fixture_remove("features.npy");
    dataset = fixture_loaded(&job);
    dataset_fingerprint(&dataset, true, second);
    cr_assert_str_eq(first, second);
    edges_are(1, (int64_t[]){0, 1});
    dataset = fixture_loaded(&job);
    dataset_fingerprint(&dataset, true, second);
    cr_assert_str_neq(first, second);
}

Test(dataset_npy, edges_that_do_not_fit_are_refused)
{
    fixture_small();
    edges_are(2, (int64_t[]){0, 6, /**/ 1, 2});
    bad("edges.npy: column 1: source 6", "expected 0 to 5");
    edges_are(2, (int64_t[]){0, 5, /**/ -1, 2});
    bad("edges.npy: column 0: destination -1", "expected 0 to 5");
    fixture_i64("edges.npy", 2, (int64_t[]){3, 2}, (int64_t[]){0, 0, 0, 0, 0, 0});
    bad("edges.npy: has shape [3, 2]", "expected [2, any]");
    bad("edges.npy: has shape [3, 2]", "it has a row for each edge: transpose it");
    fixture_i64("edges.npy", 1, (int64_t[]){2}, (int64_t[]){0, 0});
    bad("edges.npy: has shape [2]", "expected [2, any]");
    fixture_f32("edges.npy", 2, (int64_t[]){2, 1}, (float[]){0, 1});
    bad("edges.npy: holds float32", "expected integers");
}

Test(dataset_npy, any_file_cut_at_any_byte_is_refused)
{
    static const char *const names[] = {"edges.npy", "features.npy", "labels.npy", "train_idx.npy", "test_idx.npy"};
    fixture_small();
    struct job job = fixture_job();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n;
        char *bytes = fixture_read(names[i], &n);
        for (size_t cut = 0; cut < n; cut += cut < 128 ? 9 : 1) {
            fixture_bytes(names[i], bytes, cut);
            fixture_refused(&job, STATUS_DATA, names[i], "expected");
        }
        fixture_bytes(names[i], bytes, n);
        free(bytes);
    }
}

Test(dataset_npy, missing_files_are_named)
{
    static const char *const names[] = {"labels.npy", "train_idx.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture_small();
        fixture_remove(names[i]);
        struct job job = fixture_job();
        fixture_refused(&job, STATUS_NO_INPUT, names[i], "No such file");
    }
    fixture_small();
    fixture_remove("edges.npy");
    struct job job = fixture_job();
    fixture_refused(&job, STATUS_DATA, folder, "expected a folder with edges.npy or indptr.npy");
    job.dataset.format = JOB_FORMAT_NPY;
    fixture_refused(&job, STATUS_NO_INPUT, "edges.npy", "No such file");
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s/nothing", folder);
    fixture_refused(&job, STATUS_NO_INPUT, "nothing", "No such file");
    job.dataset.path[0] = '\0';
    fixture_refused(&job, STATUS_CONFIG, "dataset.path", "expected a dataset folder or a generator");
}

Test(dataset_npy, a_name_is_cut_behind_a_whole_character_and_has_nothing_unprintable)
{
    char meta[256], wanted[128] = "a\\x1b";
    strcpy(meta, "{\"name\": \"a\\u001b");
    for (int i = 0; i < 70; i++) {
        strcat(meta, "\xc3\xa9");
    }
    while (strlen(wanted) + 2 < sizeof wanted) {
        strcat(wanted, "\xc3\xa9");
    }
    strcat(meta, "\"}");
    fixture_small();
    fixture_bytes("meta.json", meta, strlen(meta));
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_str_eq(dataset.name, wanted);
}

Test(dataset_npy, edges_may_lie_pair_after_pair)
{
    const int64_t pairs[] = {0, 1, 1, 0, 1, 2, 2, 1, 2, 3, 3, 2, 3, 4, 4, 3, 4, 5, 5, 4};
    const uint32_t indices[] = {1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
    fixture_small();
    fixture_header("edges.npy", "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 10)}\n", pairs, sizeof pairs);
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_arr_eq(dataset.indices, indices, sizeof indices);
}

Test(dataset_npy, no_nodes_is_an_error_and_one_node_is_not)
{
    fixture_small();
    fixture_i64("labels.npy", 1, (int64_t[]){0}, NULL);
    bad("labels.npy: has no nodes", "expected at least one");
    fixture_remove("features.npy");
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    fixture_i64("edges.npy", 2, (int64_t[]){2, 0}, NULL);
    fixture_i64("labels.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.n_node == 1 && dataset.n_edge == 0 && dataset.facts.symmetric);
}

Test(dataset_npy, class_names_say_how_many_classes_there_are)
{
    fixture_small();
    struct job job = fixture_job();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.labels.class_names == NULL && dataset.facts.n_class == 2);
    folder_write("class_names.json", "[\"NaN\", \"b \\n\",\n \"c\"]");
    dataset = fixture_loaded(&job);
    cr_assert_str_eq(dataset.labels.class_names, "[\"NaN\",\"b \\n\",\"c\"]");
    cr_assert_eq(dataset.facts.n_class, 3);
    folder_write("class_names.json", "[\"a\"]");
    fixture_refused(&job, STATUS_DATA, "labels.npy: node 1",
                    "has label 1, expected -1 (none) or a class from 0 to 0");
    folder_write("meta.json", "{\"classes\": 2}");
    fixture_refused(&job, STATUS_DATA, "class_names.json", "has 1 names, expected 2, the \"classes\" of meta.json");
    static const char *const wrong[] = {"{}", "[]", "[\"a\", 3]", "\"a\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        folder_write("class_names.json", wrong[i]);
        fixture_refused(&job, STATUS_DATA, "class_names.json",
                        "expected a JSON list of texts, a name for each class");
    }
    folder_write("class_names.json", "[\"a\"\n");
    fixture_refused(&job, STATUS_DATA, "class_names.json:2:0", "expected a JSON list of texts");
}
