#include "tests/unit/partition/fixture.h"

#include "protocol/base/log.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define N_NODE 400

static const char *const members[][2] = {
    {"adj_data.npy", "adj_data.npy"},   {"adj_indices.npy", "adj_indices.npy"}, {"adj_indptr.npy", "adj_indptr.npy"},
    {"adj_shape.npy", "adj_shape.npy"}, {"attr.npy", "attr_matrix.npy"},        {"labels.npy", "labels.npy"},
};

/* A ring of nodes, each edge stored from the lower end only; four classes in turn. */
static void archive(const int64_t *shape)
{
    static int64_t indptr[N_NODE + 1], indices[N_NODE], labels[N_NODE];
    static float data[N_NODE], attributes[2 * N_NODE];
    for (int64_t node = 0; node < N_NODE; node++) {
        indptr[node + 1] = node + 1;
        indices[node] = (node + 1) % N_NODE;
        labels[node] = node % 4;
        data[node] = 1;
        attributes[2 * node] = 1;
        attributes[2 * node + 1] = (float)node;
    }
    fixture_f32("adj_data.npy", 1, (int64_t[]){N_NODE}, data);
    fixture_i64("adj_indices.npy", 1, (int64_t[]){N_NODE}, indices);
    fixture_i64("adj_indptr.npy", 1, (int64_t[]){N_NODE + 1}, indptr);
    fixture_i64("adj_shape.npy", 1, (int64_t[]){2}, shape);
    fixture_f32("attr.npy", 2, (int64_t[]){N_NODE, 2}, attributes);
    fixture_i64("labels.npy", 1, (int64_t[]){N_NODE}, labels);
    fixture_zip("ring_graph.npz", members, 6);
}

static struct job job_of_ring(void)
{
    struct job job = fixture_job();
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path("ring_graph.npz"));
    return job;
}

static void open_ring(void)
{
    log_init("test", -1, LOG_LEVEL_ERROR); /* the remark on weights is expected */
    folder_make();
    archive((int64_t[]){N_NODE, N_NODE});
}

TestSuite(dataset_npz, .init = open_ring, .fini = fixture_end);

/* Loaders of these collections leave the matrix's values out; so does "auto". */
Test(dataset_npz, values_of_the_matrix_are_weights_on_request_alone)
{
    float data[N_NODE];
    for (int64_t node = 0; node < N_NODE; node++) {
        data[node] = 0.5f * (float)(node % 7);
    }
    fixture_f32("adj_data.npy", 1, (int64_t[]){N_NODE}, data);
    fixture_zip("ring_graph.npz", members, 6);
    struct job job = job_of_ring();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(!dataset.facts.weighted && dataset.n_edge == 2 * N_NODE);
    job.dataset.edge_weights = JOB_SWITCH_YES;
    dataset = fixture_loaded(&job);
    cr_assert(dataset.facts.weighted && dataset.facts.symmetric && dataset.n_edge == 3 * N_NODE);
    int64_t row = dataset.indptr[9]; /* 8, 9, 10: from 8 with the weight of 8 → 9, to 10 with that of 9 → 10 */
    cr_assert(dataset.edge_weight[row] == 0.5f && dataset.edge_weight[row + 1] == 1.0f &&
              dataset.edge_weight[row + 2] == 1.0f);
    cr_assert_eq(dataset.strength[9], 2.5f);
    job.model.kind = JOB_KIND_TRANSFORMER;
    job.dataset.edge_weights = JOB_SWITCH_NO;
    job.dataset.edge_features = JOB_SWITCH_YES;
    fixture_refused(&job, STATUS_NO_INPUT, "ring_graph.npz: no features of edges", "edge_attr.npy (npy)");
    job = job_of_ring();
    job.dataset.edge_weights = JOB_SWITCH_YES;
    data[3] = -1.0f;
    fixture_f32("adj_data.npy", 1, (int64_t[]){N_NODE}, data);
    fixture_zip("ring_graph.npz", members, 6);
    fixture_refused(&job, STATUS_DATA, "ring_graph.npz:adj_data.npy: entry 3: weight -1",
                    "finite float32 that is not negative");
    fixture_f32("adj_data.npy", 1, (int64_t[]){N_NODE - 1}, data);
    fixture_zip("ring_graph.npz", members, 6);
    fixture_refused(&job, STATUS_DATA, "adj_data.npy: has 399 entries", "expected 400, the edges of");
}

/* What loading the ring of matrix values v says, as far as it has this text in it: how often. */
static int n_said(const struct job *job, float value, const char *text)
{
    static float data[N_NODE];
    static char log[4096];
    for (int64_t node = 0; node < N_NODE; node++) {
        data[node] = node == N_NODE - 1 ? value : 1.0f;
    }
    fixture_f32("adj_data.npy", 1, (int64_t[]){N_NODE}, data);
    fixture_zip("ring_graph.npz", members, 6);
    log_init("test", -1, LOG_LEVEL_WARN);
    cr_assert_eq(log_to(folder_path("log")), STATUS_OK, "%s", status_reason());
    fixture_loaded(job);
    folder_read("log", log, sizeof log);
    fixture_remove("log");
    int n = 0;
    for (const char *at = log; (at = strstr(at, text)) != NULL; at++) {
        n++;
    }
    return n;
}

Test(dataset_npz, weights_that_are_left_out_are_remarked_on_once_with_the_key_that_takes_them)
{
    static const char file[] = "ring_graph.npz:adj_data.npy is not used",
                      key[] = "dataset.edge_weights = \\\"yes\\\"";
    struct job job = job_of_ring();
    cr_assert_eq(n_said(&job, 0.5f, file), 1);
    cr_assert_eq(n_said(&job, 0.5f, key), 1);
    cr_assert_eq(n_said(&job, NAN, file), 1);
    cr_assert_eq(n_said(&job, 1.0f, "msg="), 0, "weights of 1 are none");
    job.model.kind = JOB_KIND_GAT;
    cr_assert_eq(n_said(&job, 0.5f, "msg="), 0, "nothing would take them");
    job.model.kind = JOB_KIND_GCN;
    job.dataset.edge_weights = JOB_SWITCH_NO;
    cr_assert_eq(n_said(&job, 0.5f, "msg="), 0, "so it was asked");
    job.dataset.edge_weights = JOB_SWITCH_YES;
    cr_assert_eq(n_said(&job, 0.5f, "msg="), 0, "they are used");
}

Test(dataset_npz, an_archive_loads_with_reverse_edges)
{
    struct job job = job_of_ring();
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_str_eq(dataset.name, "ring_graph");
    cr_assert(dataset.n_node == N_NODE && dataset.n_edge == 2 * N_NODE && dataset.facts.n_class == 4 &&
              dataset.facts.n_feature == 2);
    cr_assert(dataset.facts.symmetric && dataset.n_duplicate == 0);
}

Test(dataset_npz, row_u_points_from_u)
{
    struct job job = job_of_ring();
    job.dataset.undirected = JOB_SWITCH_NO;
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.n_edge == N_NODE && !dataset.facts.symmetric);
    cr_assert_eq(dataset.indices[dataset.indptr[8]], 7);
}

Test(dataset_npz, without_splits_twenty_per_class_train_and_thirty_validate)
{
    struct job job = job_of_ring();
    struct dataset first = fixture_loaded(&job), second = fixture_loaded(&job);
    job.dataset.seed = 2;
    struct dataset other = fixture_loaded(&job);
    cr_assert(first.labels.n_split[1] == 80 && first.labels.n_split[2] == 120 && first.labels.n_split[3] == 200);
    int64_t n_train[4] = {0};
    for (int64_t node = 0; node < N_NODE; node++) {
        n_train[first.labels.classes[node]] += first.labels.split[node] == DATASET_SPLIT_TRAIN;
    }
    cr_assert(n_train[0] == 20 && n_train[1] == 20 && n_train[2] == 20 && n_train[3] == 20);
    cr_assert_arr_eq(first.labels.split, second.labels.split, N_NODE);
    cr_assert_arr_neq(first.labels.split, other.labels.split, N_NODE);
}

Test(dataset_npz, a_split_file_beside_it_is_used)
{
    static const char *const splits[][2] = {{"a.npy", "train.npy"}, {"b.npy", "valid.npy"}, {"c.npy", "test.npy"}};
    fixture_i64("a.npy", 1, (int64_t[]){2}, (int64_t[]){5, 6});
    fixture_i64("b.npy", 1, (int64_t[]){1}, (int64_t[]){7});
    fixture_i64("c.npy", 1, (int64_t[]){3}, (int64_t[]){8, 9, 10});
    static const char *const names[] = {"ring-graph_split.npz", "ring_graph-split.npz", "ring_graph_split.npz"};
    for (int i = 0; i < 3; i++) {
        fixture_zip(names[i], splits, 3);
        struct job job = job_of_ring();
        struct dataset dataset = fixture_loaded(&job);
        cr_assert(dataset.labels.n_split[1] == 2 && dataset.labels.n_split[2] == 1 && dataset.labels.n_split[3] == 3,
                  "%s", names[i]);
        cr_assert_eq(dataset.labels.split[7], DATASET_SPLIT_VALID);
        fixture_remove(names[i]);
    }
}

Test(dataset_npz, archives_that_do_not_fit_are_refused)
{
    struct job job = job_of_ring();
    archive((int64_t[]){N_NODE, N_NODE + 1});
    fixture_refused(&job, STATUS_DATA, "ring_graph.npz:adj_indptr.npy: adjacency matrix of 400 rows and 401",
                    "a square");
    archive((int64_t[]){N_NODE - 1, N_NODE - 1});
    fixture_refused(&job, STATUS_DATA, "adj_indptr.npy: has shape [401]", "expected [400]");
    archive((int64_t[]){N_NODE, N_NODE});
    fixture_zip("ring_graph.npz", members, 5);
    fixture_refused(&job, STATUS_DATA, "ring_graph.npz:labels.npy: is not in the archive", "expected it");
    fixture_zip("ring_graph.npz", members + 1, 5);
    fixture_refused(&job, STATUS_DATA, "adj_data.npy: is not in the archive", "expected it");
    fixture_bytes("ring_graph.npz", "PK", 2);
    fixture_refused(&job, STATUS_DATA, "ring_graph.npz: ", "expected a .npz archive");
}

Test(dataset_npz, links_need_neither_labels_nor_splits)
{
    struct job job = job_of_ring();
    job.task.kind = JOB_TASK_LINK;
    fixture_zip("ring_graph.npz", members, 5);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.links.held[LINKS_SPLIT_VALID].positive.n == N_NODE / 20 &&
              dataset.links.held[LINKS_SPLIT_TEST].positive.n == N_NODE / 10);
    cr_assert(dataset.facts.symmetric && dataset.n_edge == 2 * (N_NODE - N_NODE / 20 - N_NODE / 10));
}
