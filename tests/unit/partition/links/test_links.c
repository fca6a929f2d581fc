/* Edges held out of graphs, checked edge by edge against the graph with all of its edges; and files that do not fit. */
#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include "partition/rows/row_pairs.h"
#include "protocol/base/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(links, .init = folder_make, .fini = fixture_end);

enum { N_NODE = 40, N_EDGE = 300 };

static uint32_t draw(int64_t seed, int row, int column)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, (uint32_t)column);
}

/* A random multigraph with loops, and nodes 36 to 39 without edges; weights, types and features beside it. */
static void random_folder(int64_t seed)
{
    static int64_t edges[2 * N_EDGE], types[N_EDGE];
    static float weights[N_EDGE], features[N_NODE];
    for (int i = 0; i < 2 * N_EDGE; i++) {
        edges[i] = draw(seed, i, 0) % (N_NODE - 4);
    }
    for (int i = 0; i < N_EDGE; i++) {
        types[i] = draw(seed, i, 1) % 3;
        weights[i] = (float)(draw(seed, i, 2) % 64) / 8.0F;
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N_EDGE}, edges);
    fixture_i64("edge_type.npy", 1, (int64_t[]){N_EDGE}, types);
    fixture_f32("edge_weight.npy", 1, (int64_t[]){N_EDGE}, weights);
    fixture_f32("features.npy", 2, (int64_t[]){N_NODE, 1}, features);
}

static struct job link_job(void)
{
    struct job job = fixture_job();
    job.task.kind = JOB_TASK_LINK;
    job.dataset.undirected = JOB_SWITCH_NO;
    job.model.kind = JOB_KIND_SAGE;
    return job;
}

/* The same job, that holds nothing out. */
static struct dataset whole(const struct job *job)
{
    struct job all = *job;
    all.task.valid_share = all.task.test_share = 0.0;
    return fixture_loaded(&all);
}

/* Are two nodes joined by an edge of this direction? */
static bool is_joined(const struct dataset *d, uint32_t a, uint32_t b)
{
    return has_edge(d, a, b) || has_edge(d, b, a);
}

static bool pairs_have(const struct links_pairs *pairs, uint32_t a, uint32_t b)
{
    bool any = false;
    for (int64_t i = 0; i < pairs->n; i++) {
        uint32_t head = pairs->end[2 * i], tail = pairs->end[2 * i + 1];
        any = any || (head == a && tail == b) || (head == b && tail == a);
    }
    return any;
}

static bool is_held(const struct dataset *d, uint32_t a, uint32_t b)
{
    return pairs_have(&d->links.held[LINKS_SPLIT_VALID].positive, a, b) ||
           pairs_have(&d->links.held[LINKS_SPLIT_TEST].positive, a, b);
}

/* The whole graph without the edges between held-out pairs, entry by entry, is the graph that remains. */
static void expect_rest(const struct dataset *all, const struct dataset *d)
{
    int64_t at = 0;
    for (uint32_t v = 0; v < all->n_node; v++) {
        double strength = 0.0;
        cr_assert_eq(d->indptr[v], at);
        for (int64_t i = all->indptr[v]; i < all->indptr[v + 1]; i++) {
            if (is_held(d, all->indices[i], v)) {
                continue;
            }
            cr_assert(at < d->indptr[v + 1] && d->indices[at] == all->indices[i], "row %u", v);
            cr_assert(all->edge_type == NULL || d->edge_type[at] == all->edge_type[i]);
            cr_assert(!all->facts.weighted || d->edge_weight[at] == all->edge_weight[i]);
            cr_assert(all->edges.row == NULL || d->edges.row[at] == all->edges.row[i]);
            strength += all->facts.weighted ? d->edge_weight[at] : 0.0F;
            at++;
        }
        cr_assert(!all->facts.weighted || d->strength[v] == (float)strength, "node %u", v);
    }
    cr_assert(d->n_edge == at && d->indptr[d->n_node] == at && d->facts.symmetric == all->facts.symmetric);
}

/* Every node trains, without a label. */
static void expect_nodes(const struct job *job, const struct dataset *d)
{
    for (int64_t v = 0; v < d->n_node; v++) {
        cr_assert(d->labels.classes[v] == -1 && d->labels.split[v] == DATASET_SPLIT_TRAIN);
    }
    cr_assert_eq(d->labels.n_split[DATASET_SPLIT_TRAIN], d->n_node);
    cr_assert(d->labels.n_split[DATASET_SPLIT_NONE] == 0 && d->labels.n_split[DATASET_SPLIT_VALID] == 0 &&
              d->labels.n_split[DATASET_SPLIT_TEST] == 0 && d->labels.n_split[DATASET_SPLIT_VALID_TEST] == 0);
    cr_assert_eq(d->facts.n_class, job->task.channels > 0 ? job->task.channels : job->model.hidden);
    cr_assert(!d->facts.multi_label && d->labels.rows == NULL && d->labels.loss_weight == 0.0);
}

static int64_t pairs_of(const struct dataset *d)
{
    int64_t n = 0;
    for (uint32_t a = 0; a < d->n_node; a++) {
        for (uint32_t b = 0; b < a; b++) {
            n += is_joined(d, a, b);
        }
    }
    return n;
}

/* Drawn: each once, an edge of the whole graph from head to tail, of one split; negatives are no edges. */
static void expect_drawn(const struct dataset *all, const struct dataset *d, int split, double share)
{
    const struct links_held *held = &d->links.held[split];
    const struct links_pairs *other = &d->links.held[1 - split].positive;
    cr_assert_eq(held->positive.n, (int64_t)floor(share * (double)pairs_of(all)));
    for (int64_t i = 0; i < held->positive.n; i++) {
        uint32_t head = held->positive.end[2 * i], tail = held->positive.end[2 * i + 1];
        const struct links_pairs before = {.n = i, .end = held->positive.end};
        cr_assert(head != tail && has_edge(all, head, tail));
        cr_assert(head < tail || !has_edge(all, tail, head), "of both directions that of the smaller node");
        cr_assert(!pairs_have(&before, head, tail) && !pairs_have(other, head, tail), "each pair once");
    }
    cr_assert(held->negative.n == held->positive.n && held->n_tail == 0);
    for (int64_t i = 0; i < held->negative.n; i++) {
        uint32_t head = held->negative.end[2 * i], tail = held->negative.end[2 * i + 1];
        cr_assert(head < all->n_node && tail < all->n_node && head != tail && !is_joined(all, head, tail));
    }
}

/* Kinds of graphs. */
static struct job variant(int number)
{
    struct job job = link_job();
    job.dataset.undirected = number % 2 == 0 ? JOB_SWITCH_NO : JOB_SWITCH_YES;
    job.dataset.self_loops = number / 2 % 2 == 0 ? JOB_SWITCH_AUTO : JOB_SWITCH_NO;
    if (number >= 4 && number < 8) {
        job.dataset.edge_weights = JOB_SWITCH_YES;
        job.model.kind = number < 6 ? JOB_KIND_GCN : JOB_KIND_SAGE;
    }
    if (number >= 8) {
        job.model.kind = JOB_KIND_RGCN;
        job.dataset.self_loops = JOB_SWITCH_AUTO;
    }
    return job;
}

Test(links, drawn_edges_are_taken_out_in_both_directions_and_all_others_stay)
{
    for (int number = 0; number < 10; number++) {
        random_folder(number);
        struct job job = variant(number);
        job.task.valid_share = 0.1;
        job.task.test_share = 0.25;
        job.task.channels = number;
        struct dataset all = whole(&job), d = fixture_loaded(&job);
        cr_assert(all.facts.weighted == (number >= 4 && number < 8) && (all.facts.n_relation > 0) == (number >= 8));
        expect_rest(&all, &d);
        expect_nodes(&job, &d);
        expect_drawn(&all, &d, LINKS_SPLIT_VALID, 0.1);
        expect_drawn(&all, &d, LINKS_SPLIT_TEST, 0.25);
        cr_assert(d.links.n_left_out == 0);
        cr_assert_str_eq(d.links.how, "validation: 10 % drawn by seed 1; test: 25 % drawn by seed 1");
    }
}

static bool same_pairs(const struct links_pairs *a, const struct links_pairs *b)
{
    return a->n == b->n && memcmp(a->end, b->end, 2 * (size_t)a->n * sizeof *a->end) == 0;
}

Test(links, a_seed_draws_the_same_edges_again_and_another_one_draws_others)
{
    random_folder(1);
    struct job job = link_job();
    struct dataset one = fixture_loaded(&job), again = fixture_loaded(&job);
    job.task.seed = 2;
    struct dataset other = fixture_loaded(&job);
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_held *a = &one.links.held[s], *b = &again.links.held[s], *c = &other.links.held[s];
        cr_assert(same_pairs(&a->positive, &b->positive) && same_pairs(&a->negative, &b->negative));
        cr_assert(!same_pairs(&a->positive, &c->positive) && !same_pairs(&a->negative, &c->negative));
    }
}

/* Every pair is drawn about as often as any other: 400 seeds, each pair held with probability 1/4. */
Test(links, each_edge_is_as_likely_as_another)
{
    enum { N = 24, N_SEED = 400 };
    int64_t edges[2 * N], labels[N + 1] = {0};
    int n_held[N] = {0};
    for (int i = 0; i < N; i++) {
        edges[i] = i;
        edges[N + i] = i + 1;
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N}, edges);
    fixture_i64("labels.npy", 1, (int64_t[]){N + 1}, labels);
    struct job job = link_job();
    job.task.valid_share = 0.0;
    job.task.test_share = 0.25;
    for (job.task.seed = 0; job.task.seed < N_SEED; job.task.seed++) {
        struct dataset d = fixture_loaded(&job);
        const struct links_pairs *held = &d.links.held[LINKS_SPLIT_TEST].positive;
        cr_assert(held->n == N / 4 && d.links.held[LINKS_SPLIT_VALID].positive.n == 0);
        for (int64_t i = 0; i < held->n; i++) {
            n_held[held->end[2 * i]]++;
        }
    }
    for (int i = 0; i < N; i++) { /* 100 expected, standard deviation 8.7 */
        cr_expect(n_held[i] > 60 && n_held[i] < 140, "edge %d: %d times", i, n_held[i]);
    }
}

static void pairs_file(const char *name, int64_t n, const int64_t *values)
{
    fixture_i64(name, 2, (int64_t[]){2, n}, values);
}

/* The path 0-1-2-3-4-5 of fixture_small, each edge both ways. */
static struct job small_job(void)
{
    fixture_small();
    return link_job();
}

Test(links, files_hold_out_their_edges_whether_the_graph_has_them_or_not)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 2, (int64_t[]){2, 5, 1, 0});
    pairs_file("valid_edges_negative.npy", 3, (int64_t[]){0, 1, 2, 2, 3, 5});
    pairs_file("test_edges.npy", 2, (int64_t[]){3, 0, 4, 4});
    fixture_i64("test_tails_negative.npy", 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 5, 2, 3, 2});
    struct dataset d = fixture_loaded(&job);
    expect_nodes(&job, &d);
    cr_assert_eq(d.n_edge, 10 - 2 - 2);
    cr_assert_eq(d.links.n_left_out, 4, "two pairs, stored both ways");
    cr_assert(!is_joined(&d, 1, 2) && !is_joined(&d, 3, 4) && is_joined(&d, 0, 1) && d.facts.symmetric);
    const struct links_held *valid = &d.links.held[LINKS_SPLIT_VALID], *test = &d.links.held[LINKS_SPLIT_TEST];
    const uint32_t valid_end[] = {2, 1, 5, 0}, pool[] = {0, 2, 1, 3, 2, 5}, test_end[] = {3, 4, 0, 4},
                   tails[] = {0, 1, 5, 2, 3, 2};
    cr_assert(valid->positive.n == 2 && valid->negative.n == 3 && valid->n_tail == 0 && valid->tail == NULL);
    cr_assert(test->positive.n == 2 && test->negative.n == 0 && test->n_tail == 3);
    cr_assert_arr_eq(valid->positive.end, valid_end, sizeof valid_end);
    cr_assert_arr_eq(valid->negative.end, pool, sizeof pool);
    cr_assert_arr_eq(test->positive.end, test_end, sizeof test_end);
    cr_assert_arr_eq(test->tail, tails, sizeof tails);
    cr_assert_str_eq(d.links.how, "validation: valid_edges.npy; test: test_edges.npy");
}

Test(links, random_files_hold_out_their_edges_from_any_graph)
{
    for (int number = 0; number < 10; number++) {
        int64_t valid[60], test[60];
        random_folder(number);
        struct job job = variant(number);
        struct dataset all = whole(&job);
        for (int i = 0; i < 30; i++) {
            valid[i] = draw(number, i, 3) % N_NODE;
            valid[30 + i] = (valid[i] + 1 + draw(number, i, 4) % (N_NODE - 1)) % N_NODE;
            test[i] = draw(number, i, 5) % N_NODE;
            test[30 + i] = (test[i] + 1 + draw(number, i, 6) % (N_NODE - 1)) % N_NODE;
        }
        pairs_file("valid_edges.npy", 30, valid);
        pairs_file("test_edges.npy", 30, test);
        struct dataset d = fixture_loaded(&job);
        expect_rest(&all, &d);
        cr_assert_eq(d.links.n_left_out, all.n_edge - d.n_edge);
        cr_assert_gt(d.links.n_left_out, 0);
        for (int s = 0; s < LINKS_SPLIT_N; s++) {
            const struct links_pairs *no = &d.links.held[s].negative;
            cr_assert_eq(no->n, 30);
            for (int64_t i = 0; i < no->n; i++) {
                uint32_t a = no->end[2 * i], b = no->end[2 * i + 1];
                cr_assert(a != b && !is_joined(&all, a, b) && !is_held(&d, a, b));
            }
        }
        fixture_remove("valid_edges.npy");
        fixture_remove("test_edges.npy");
    }
}

Test(links, a_split_without_a_file_is_drawn_from_the_edges_that_files_leave)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 1, (int64_t[]){0, 1});
    job.task.valid_share = 0.9; /* of no meaning beside the file */
    job.task.test_share = 0.5;
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.links.held[LINKS_SPLIT_VALID].positive.n, 1);
    cr_assert_eq(d.links.held[LINKS_SPLIT_TEST].positive.n, 2, "half of four");
    cr_assert(!pairs_have(&d.links.held[LINKS_SPLIT_TEST].positive, 0, 1));
    cr_assert_eq(d.n_edge, 10 - 2 - 4);
    cr_assert_eq(d.links.n_left_out, 2);
    cr_assert_str_eq(d.links.how, "validation: valid_edges.npy; test: 50 % drawn by seed 1");
}

Test(links, features_made_of_the_graph_know_nothing_of_held_out_edges)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 1, (int64_t[]){0, 1});
    job.task.test_share = 0.0;
    job.dataset.features = JOB_WORD(JOB_FEATURES_DEGREE);
    struct dataset d = fixture_loaded(&job);
    cr_assert_eq(d.indptr[1], 0, "node 0 has no edge left");
    float rows[2][64];
    cr_assert(d.facts.n_feature <= 64);
    dataset_feature_rows(&d, (uint32_t[]){0, 5}, 2, rows[0]);
    cr_assert_neq(memcmp(rows[0], rows[0] + d.facts.n_feature, (size_t)d.facts.n_feature * sizeof(float)), 0,
                  "nodes 0 and 5 are the ends of the path, and only 5 has an edge");
}

Test(links, features_of_added_loops_are_means_of_the_edges_that_stay)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 1, (int64_t[]){0, 1});
    float attributes[10];
    fixture_loaded(&job);
    for (int i = 0; i < 10; i++) {
        attributes[i] = (float)(i + 1);
    }
    fixture_f32("edge_attr.npy", 2, (int64_t[]){10, 1}, attributes);
    job.model.kind = JOB_KIND_GAT;
    job.task.test_share = 0.0;
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.facts.n_edge_feature == 1 && d.edges.loop_features != NULL);
    cr_assert_eq(d.n_edge, 10 - 2 + 6);
    cr_assert_eq(d.edges.loop_features[0], 0.0F, "node 0 has no other in-edge left");
    for (uint32_t v = 1; v < 6; v++) {
        double sum = 0.0;
        int n = 0;
        for (int64_t i = d.indptr[v]; i < d.indptr[v + 1]; i++) {
            bool loop = d.indices[i] == v;
            cr_assert_eq(loop, d.edges.row[i] >= d.edges.n_row);
            sum += loop ? 0.0 : *dataset_edge_features(&d, d.edges.row[i]);
            n += !loop;
        }
        cr_assert_eq(d.edges.loop_features[v], (float)(sum / n));
    }
}

Test(links, labels_and_splits_are_neither_needed_nor_read)
{
    struct job job = small_job();
    fixture_i64("labels.npy", 1, (int64_t[]){2}, (int64_t[]){-7, 9});
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){99});
    fixture_bytes("class_names.json", "[\"a\"]", 5);
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.n_node == 6 && d.labels.class_names == NULL);
    expect_nodes(&job, &d);
    fixture_remove("labels.npy");
    fixture_remove("train_idx.npy");
    fixture_remove("valid_idx.npy");
    fixture_remove("test_idx.npy");
    d = fixture_loaded(&job);
    expect_nodes(&job, &d);
    fixture_remove("features.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "nothing says how many nodes", "\"nodes\" in meta.json");
    fixture_bytes("meta.json", "{\"nodes\": 8}", 12);
    d = fixture_loaded(&job);
    cr_assert_eq(d.n_node, 8);
    expect_nodes(&job, &d);
    fixture_remove("meta.json");
    fixture_i64("labels.npy", 1, (int64_t[]){7}, (int64_t[]){0, 1, 2, 3, 4, 5, 6});
    d = fixture_loaded(&job);
    cr_assert_eq(d.n_node, 7, "without another, labels give the number of nodes");
}

Test(links, graphs_of_generators_lose_edges_and_labels)
{
    static const int generators[] = {JOB_GENERATOR_KARATE, JOB_GENERATOR_SBM, JOB_GENERATOR_RMAT};
    for (int g = 0; g < 3; g++) {
        struct job job;
        job_defaults(&job);
        job.task.kind = JOB_TASK_LINK;
        job.dataset.generator = generators[g];
        job.dataset.nodes = 64;
        job.dataset.labels_per_node = generators[g] == JOB_GENERATOR_SBM ? 2 : 1;
        struct dataset all = whole(&job), d = fixture_loaded(&job);
        expect_rest(&all, &d);
        expect_nodes(&job, &d);
        expect_drawn(&all, &d, LINKS_SPLIT_TEST, job.task.test_share);
        cr_assert_eq(d.labels.splits.origin, DATASET_ORIGIN_NONE);
        snprintf(job.predict.model, sizeof job.predict.model, "x");
        struct dataset prediction = fixture_loaded(&job);
        cr_assert(prediction.n_edge == all.n_edge && prediction.labels.classes == NULL &&
                  prediction.labels.n_split[DATASET_SPLIT_NONE] == all.n_node);
    }
}

Test(links, contents_and_fingerprint_know_what_is_held_out)
{
    struct job job = small_job();
    uint64_t one[DATASET_CONTENT_N], other[DATASET_CONTENT_N];
    char graph[33], then[33];
    pairs_file("valid_edges.npy", 1, (int64_t[]){0, 1});
    pairs_file("valid_edges_negative.npy", 1, (int64_t[]){0, 2});
    pairs_file("test_edges.npy", 1, (int64_t[]){0, 5});
    struct dataset d = fixture_loaded(&job);
    expect_words(d.file[DATASET_CONTENT_VALID], "valid_edges.npy");
    expect_words(d.file[DATASET_CONTENT_TEST], "test_edges.npy");
    dataset_contents(&d, one);
    dataset_fingerprint(&d, true, graph);
    pairs_file("valid_edges_negative.npy", 1, (int64_t[]){0, 3});
    d = fixture_loaded(&job);
    dataset_contents(&d, other);
    dataset_fingerprint(&d, true, then);
    for (int i = 0; i < DATASET_CONTENT_N; i++) {
        cr_expect_eq(one[i] == other[i], i != DATASET_CONTENT_VALID, "contents %d", i);
    }
    cr_expect_str_eq(graph, then);
    pairs_file("test_edges.npy", 1, (int64_t[]){4, 5});
    d = fixture_loaded(&job);
    dataset_contents(&d, one);
    dataset_fingerprint(&d, true, then);
    cr_expect_neq(one[DATASET_CONTENT_TEST], other[DATASET_CONTENT_TEST]);
    cr_expect_str_neq(graph, then, "an edge less");
}

Test(links, files_that_do_not_fit_are_refused)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 2, (int64_t[]){0, 6, 1, 2});
    fixture_refused(&job, STATUS_DATA, "valid_edges.npy: column 1: head 6 is out of range", "expected 0 to 5");
    pairs_file("valid_edges.npy", 2, (int64_t[]){0, 1, 1, -1});
    fixture_refused(&job, STATUS_DATA, "valid_edges.npy: column 1: tail -1 is out of range", "expected 0 to 5");
    pairs_file("valid_edges.npy", 2, (int64_t[]){0, 3, 1, 3});
    fixture_refused(&job, STATUS_DATA, "valid_edges.npy: column 1: joins node 3 with itself", "expected two nodes");
    fixture_i64("valid_edges.npy", 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 1, 2, 2, 3});
    fixture_refused(&job, STATUS_DATA, "valid_edges.npy: has shape [3, 2], expected [2, any]", "transpose it");
    fixture_f32("valid_edges.npy", 2, (int64_t[]){2, 1}, (float[]){0, 1});
    fixture_refused(&job, STATUS_DATA, "valid_edges.npy: holds float32", "expected integers");

    pairs_file("valid_edges.npy", 2, (int64_t[]){0, 1, 1, 2});
    pairs_file("valid_edges_negative.npy", 1, (int64_t[]){0, 7});
    fixture_refused(&job, STATUS_DATA, "valid_edges_negative.npy: column 0: tail 7 is out", "expected 0 to 5");
    pairs_file("valid_edges_negative.npy", 0, NULL);
    fixture_refused(&job, STATUS_DATA, "valid_edges_negative.npy: has no pairs", "expected one at least");
    fixture_i64("valid_tails_negative.npy", 2, (int64_t[]){2, 1}, (int64_t[]){3, 4});
    fixture_refused(&job, STATUS_DATA, "valid_edges_negative.npy and ", "expected one of them");
    fixture_remove("valid_edges_negative.npy");
    fixture_i64("valid_tails_negative.npy", 2, (int64_t[]){3, 1}, (int64_t[]){3, 4, 5});
    fixture_refused(&job, STATUS_DATA, "valid_tails_negative.npy: has shape [3, 1], expected [2, one or more]",
                    "valid_edges.npy");
    fixture_i64("valid_tails_negative.npy", 2, (int64_t[]){2, 2}, (int64_t[]){3, 4, 5, 6});
    fixture_refused(&job, STATUS_DATA, "valid_tails_negative.npy: row 1: tail 6 is out of range", "0 to 5");
    fixture_i64("valid_tails_negative.npy", 1, (int64_t[]){2}, (int64_t[]){3, 4});
    fixture_refused(&job, STATUS_DATA, "valid_tails_negative.npy: has shape [2]", "expected [any, any]");
    fixture_remove("valid_edges.npy");
    fixture_refused(&job, STATUS_NO_INPUT, "valid_edges.npy: no such file", "valid_tails_negative.npy");
}

Test(links, a_graph_needs_an_edge_to_train_on_and_a_pair_without_one)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 5, (int64_t[]){0, 1, 2, 3, 4, 1, 2, 3, 4, 5});
    fixture_refused(&job, STATUS_DATA, "has no edge left to train on", "expected one (validation: valid_edges.npy");
    fixture_remove("valid_edges.npy");
    pairs_file("edges.npy", 2, (int64_t[]){1, 2, 1, 2});
    fixture_refused(&job, STATUS_DATA, "has no edge left to train on", "expected one");
    int64_t complete[2 * 36];
    for (int i = 0; i < 36; i++) {
        complete[i] = i / 6;
        complete[36 + i] = i % 6;
    }
    pairs_file("edges.npy", 36, complete);
    fixture_refused(&job, STATUS_DATA, "no pair of nodes without an edge was found", "test_edges_negative.npy");
}

Test(links, edges_of_both_splits_and_negatives_that_are_edges_draw_warnings)
{
    struct job job = small_job();
    pairs_file("valid_edges.npy", 2, (int64_t[]){0, 3, 1, 2});
    pairs_file("test_edges.npy", 3, (int64_t[]){2, 5, 4, 3, 0, 3});
    expect_words(fixture_remarks(&job), "of 3 test edges 1 are validation edges, too: the test metric is biased");
    pairs_file("test_edges.npy", 1, (int64_t[]){0, 5});
    cr_expect_str_eq(fixture_remarks(&job), "");
    pairs_file("valid_edges_negative.npy", 4, (int64_t[]){1, 0, 5, 3, 2, 2, 0, 2});
    expect_words(fixture_remarks(&job), "3 of 4 pairs of valid_edges_negative.npy are edges");
    fixture_remove("valid_edges_negative.npy");
    fixture_i64("test_tails_negative.npy", 2, (int64_t[]){1, 3}, (int64_t[]){1, 2, 5});
    expect_words(fixture_remarks(&job), "2 of 3 pairs of test_tails_negative.npy are edges");
}

Test(links, a_job_of_nodes_is_told_of_held_out_edges_that_it_ignores)
{
    fixture_small();
    struct job job = fixture_job();
    pairs_file("valid_edges.npy", 1, (int64_t[]){0, 1});
    pairs_file("valid_edges_negative.npy", 1, (int64_t[]){0, 2});
    const char *remarks = fixture_remarks(&job);
    expect_words(remarks, "valid_edges.npy: it is read with task.kind");
    cr_expect_null(strstr(remarks, "negative"), "%s", remarks);
    pairs_file("test_edge.npy", 1, (int64_t[]){0, 1});
    expect_words(fixture_remarks(&job), "test_edge.npy: test_edges.npy, with task.kind");
}

Test(links, any_number_of_threads_draws_the_same_edges)
{
    struct dataset of[2];
    struct job job;
    job_defaults(&job);
    job.task.kind = JOB_TASK_LINK;
    job.dataset.generator = JOB_GENERATOR_SBM;
    job.dataset.nodes = 5000;
    job.dataset.undirected = JOB_SWITCH_NO;
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 4);
        of[i] = fixture_loaded(&job);
    }
    cr_assert_gt(of[0].n_edge, ROWS_PARALLEL_LEAST);
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_held *a = &of[0].links.held[s], *b = &of[1].links.held[s];
        cr_assert(a->positive.n > 1000 && same_pairs(&a->positive, &b->positive));
        cr_assert(a->negative.n == a->positive.n && same_pairs(&a->negative, &b->negative));
    }
}
