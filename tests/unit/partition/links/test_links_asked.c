/* Pairs and nodes that a prediction is asked about: what their files hold, neighbours, and files that do not fit. */
#include "partition/links/links_asked.h"
#include "protocol/base/random.h"
#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(links_asked, .init = folder_make, .fini = fixture_end);

enum { N_NODE = 30, N_EDGE = 120, N_ASKED = 12 };

/* A prediction on a random multigraph with loops; node 29 has no edge. */
static struct job asking_job(int64_t seed, enum job_switch undirected)
{
    static int64_t edges[2 * N_EDGE];
    static float features[N_NODE];
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    for (int i = 0; i < 2 * N_EDGE; i++) {
        edges[i] = random_u32(&key, (uint64_t)i, 0) % (N_NODE - 1);
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N_EDGE}, edges);
    fixture_f32("features.npy", 2, (int64_t[]){N_NODE, 1}, features);
    struct job job = fixture_job();
    job.task.kind = JOB_TASK_LINK;
    job.dataset.undirected = undirected;
    job.model.kind = JOB_KIND_SAGE;
    snprintf(job.predict.model, sizeof job.predict.model, "m");
    return job;
}

static void ask(struct job *job, const char *pairs, const char *nodes)
{
    snprintf(job->predict.pairs, sizeof job->predict.pairs, "%s", pairs[0] != '\0' ? folder_path(pairs) : "");
    snprintf(job->predict.nodes, sizeof job->predict.nodes, "%s", nodes[0] != '\0' ? folder_path(nodes) : "");
}

Test(links_asked, nodes_are_joined_where_an_edge_of_either_direction_joins_them)
{
    static const int64_t nodes[N_ASKED] = {29, 3, 7, 3, 0, 28, 11, 12, 13, 7, 7, 5};
    fixture_i64("nodes.npy", 1, (int64_t[]){N_ASKED}, nodes);
    for (int64_t seed = 0; seed < 6; seed++) {
        struct job job = asking_job(seed, seed % 2 == 0 ? JOB_SWITCH_NO : JOB_SWITCH_YES);
        struct dataset dataset = fixture_loaded(&job);
        struct links_asked asked;
        ask(&job, "", "nodes.npy");
        cr_assert_eq(dataset.facts.symmetric, seed % 2 != 0);
        expect_done(links_asked_read(&job, &dataset, &asked));
        cr_assert(asked.n == N_ASKED && asked.known.n_row == 9 && asked.pairs.end == NULL);
        for (int64_t i = 0; i < N_ASKED; i++) {
            uint32_t node = (uint32_t)nodes[i];
            cr_assert_eq(asked.node[i], node);
            for (uint32_t v = 0; v < N_NODE; v++) {
                cr_assert_eq(links_known_has(&asked.known, i, v),
                             v != node && (has_edge(&dataset, v, node) || has_edge(&dataset, node, v)), "%u and %u",
                             node, v);
            }
        }
        links_asked_release(&asked);
        job.predict.known = true;
        expect_done(links_asked_read(&job, &dataset, &asked));
        cr_assert(asked.known.n == 0 && !links_known_has(&asked.known, 1, dataset.indices[dataset.indptr[3]]));
        links_asked_release(&asked);
    }
}

Test(links_asked, pairs_are_columns_of_heads_and_tails_also_of_a_node_with_itself)
{
    struct job job = asking_job(1, JOB_SWITCH_NO);
    struct dataset dataset = fixture_loaded(&job);
    struct links_asked asked;
    fixture_i64("pairs.npy", 2, (int64_t[]){2, 3}, (int64_t[]){4, 5, 6, 29, 5, 0});
    ask(&job, "pairs.npy", "");
    expect_done(links_asked_read(&job, &dataset, &asked));
    cr_assert(asked.pairs.n == 3 && asked.node == NULL && asked.n == 0);
    cr_assert_arr_eq(asked.pairs.end, ((uint32_t[]){4, 29, 5, 5, 6, 0}), 6 * sizeof(uint32_t));
    links_asked_release(&asked);
    fixture_i64("pairs.npy", 2, (int64_t[]){2, 0}, NULL);
    fixture_i64("nodes.npy", 1, (int64_t[]){0}, NULL);
    ask(&job, "pairs.npy", "nodes.npy");
    expect_done(links_asked_read(&job, &dataset, &asked));
    cr_assert(asked.pairs.n == 0 && asked.pairs.end != NULL && asked.n == 0 && asked.node != NULL);
    links_asked_release(&asked);
}

/* The same graph with three relations, and inverse ones where it is made undirected. */
static struct job typed_job(int64_t seed, enum job_switch undirected)
{
    struct job job = asking_job(seed, undirected);
    int64_t types[N_EDGE];
    for (int i = 0; i < N_EDGE; i++) {
        types[i] = i % 3;
    }
    fixture_i64("edge_type.npy", 1, (int64_t[]){N_EDGE}, types);
    job.model.kind = JOB_KIND_RGCN;
    strcpy(job.task.decoder, "distmult");
    return job;
}

static bool has_edge_of(const struct dataset *d, uint32_t from, uint32_t to, int relation)
{
    bool any = false;
    for (int64_t i = d->indptr[to]; i < d->indptr[to + 1]; i++) {
        any = any || (d->indices[i] == from && d->edge_type[i] == relation);
    }
    return any;
}

Test(links_asked, relations_count_where_the_decoder_scores_by_them)
{
    static const int64_t nodes[N_ASKED] = {29, 3, 7, 3, 0, 28, 11, 12, 13, 7, 7, 5};
    fixture_i64("nodes.npy", 1, (int64_t[]){N_ASKED}, nodes);
    fixture_i64("pairs.npy", 2, (int64_t[]){3, 2}, (int64_t[]){4, 5, 6, 29, 2, 0});
    for (int64_t seed = 0; seed < 6; seed++) {
        struct job job = typed_job(seed, seed % 2 == 0 ? JOB_SWITCH_NO : JOB_SWITCH_YES);
        struct dataset d = fixture_loaded(&job);
        struct links_asked asked;
        int relation = (int)(seed / 2);
        job.predict.relation = relation;
        ask(&job, "pairs.npy", "nodes.npy");
        cr_assert_eq(d.facts.n_relation, seed % 2 == 0 ? 3 : 6);
        expect_done(links_asked_read(&job, &d, &asked));
        cr_assert(asked.relation == relation && asked.pairs.n == 2);
        cr_assert_arr_eq(asked.pairs.end, ((uint32_t[]){4, 6, 5, 29}), 4 * sizeof(uint32_t));
        cr_assert_arr_eq(asked.pairs.relation, ((uint16_t[]){2, 0}), 2 * sizeof(uint16_t));
        for (int64_t i = 0; i < N_ASKED; i++) {
            uint32_t node = (uint32_t)nodes[i];
            for (uint32_t v = 0; v < N_NODE; v++) {
                bool joined = has_edge_of(&d, v, node, relation) || has_edge_of(&d, node, v, relation);
                cr_assert_eq(links_known_has(&asked.known, i, v), v != node && joined, "%u and %u", node, v);
            }
        }
        links_asked_release(&asked);
    }
}

static void expect_refused(const struct job *job, const struct dataset *dataset, enum status status,
                           const char *reason)
{
    struct links_asked asked;
    expect_fails(links_asked_read(job, dataset, &asked), status, reason);
    links_asked_release(&asked);
}

Test(links_asked, what_does_not_fit_is_named_with_key_file_and_position)
{
    struct job job = asking_job(1, JOB_SWITCH_NO);
    struct dataset dataset = fixture_loaded(&job);
    fixture_i64("pairs.npy", 2, (int64_t[]){2, 3}, (int64_t[]){4, 5, 6, 29, 30, 0});
    fixture_i64("rows.npy", 2, (int64_t[]){3, 2}, (int64_t[]){4, 5, 6, 29, 3, 0});
    fixture_i64("nodes.npy", 1, (int64_t[]){3}, (int64_t[]){4, 5, -1});
    fixture_f32("numbers.npy", 1, (int64_t[]){2}, (float[]){1.0F, 2.0F});
    ask(&job, "pairs.npy", "");
    expect_refused(&job, &dataset, STATUS_DATA, "predict.pairs: ");
    expect_refused(&job, &dataset, STATUS_DATA,
                   "pairs.npy: column 1: tail 30 is out of range, expected 0 to 29, the nodes");
    ask(&job, "rows.npy", "");
    expect_refused(&job, &dataset, STATUS_DATA, "rows.npy: has shape [3, 2], expected [2, any]");
    ask(&job, "nowhere.npy", "");
    expect_refused(&job, &dataset, STATUS_NO_INPUT, "nowhere.npy");
    ask(&job, "", "nodes.npy");
    expect_refused(&job, &dataset, STATUS_DATA, "nodes.npy: position 2: node -1 is out of range, expected 0 to 29");
    ask(&job, "", "pairs.npy");
    expect_refused(&job, &dataset, STATUS_DATA, "predict.nodes: ");
    expect_refused(&job, &dataset, STATUS_DATA, "pairs.npy: has shape [2, 3], expected [any]");
    ask(&job, "", "numbers.npy");
    expect_refused(&job, &dataset, STATUS_DATA, "numbers.npy: holds float32, expected integers");
}

Test(links_asked, relations_that_do_not_fit_are_named)
{
    struct job job = typed_job(1, JOB_SWITCH_YES);
    struct dataset dataset = fixture_loaded(&job);
    fixture_i64("pairs.npy", 2, (int64_t[]){2, 3}, (int64_t[]){4, 5, 6, 29, 3, 0});
    fixture_i64("triples.npy", 2, (int64_t[]){3, 2}, (int64_t[]){4, 5, 6, 29, 0, 3});
    fixture_i64("nodes.npy", 1, (int64_t[]){1}, (int64_t[]){4});
    ask(&job, "pairs.npy", "");
    expect_refused(&job, &dataset, STATUS_DATA, "pairs.npy: has shape [2, 3], expected [3, any]");
    expect_refused(&job, &dataset, STATUS_DATA, ": heads, tails and relations, as the model's task.decoder");
    ask(&job, "triples.npy", "");
    expect_refused(&job, &dataset, STATUS_DATA,
                   "triples.npy: column 1: relation 3 is out of range, expected 0 to 2, the relations of the edges");
    ask(&job, "", "nodes.npy");
    for (job.predict.relation = -1; job.predict.relation <= 3; job.predict.relation += 4) {
        expect_refused(&job, &dataset, STATUS_DATA,
                       job.predict.relation < 0 ? "predict.relation = -1: expected 0 to 2"
                                                : "predict.relation = 3: expected 0 to 2");
    }
}
