/* Known edges of questions, node by node against the graph and what is held out. */
#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include "partition/links/links_known.h"
#include "protocol/base/random.h"

#include <criterion/criterion.h>

TestSuite(links_known, .init = folder_make, .fini = fixture_end);

enum { N_NODE = 25, N_EDGE = 200, N_RELATION = 3 };

static uint32_t draw(int64_t seed, int row, int column)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, (uint32_t)column);
}

/* Kinds of graphs: untyped, typed whose relations do not count, typed whose relations count; each as it is, and with
 * the reverse of each edge; with features of edges the latter is not symmetric. */
static struct job job_of(int number)
{
    int64_t edges[2 * N_EDGE], types[N_EDGE];
    float features[N_NODE] = {0}, attributes[N_EDGE] = {0};
    for (int i = 0; i < 2 * N_EDGE; i++) {
        edges[i] = draw(number, i, 0) % N_NODE;
    }
    for (int i = 0; i < N_EDGE; i++) {
        types[i] = draw(number, i, 1) % N_RELATION;
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N_EDGE}, edges);
    fixture_f32("features.npy", 2, (int64_t[]){N_NODE, 1}, features);
    struct job job = fixture_job();
    job.task.kind = JOB_TASK_LINK;
    job.task.candidates = JOB_CANDIDATES_ALL;
    job.task.valid_share = job.task.test_share = 0.2;
    job.dataset.undirected = number % 2 == 0 ? JOB_SWITCH_NO : JOB_SWITCH_YES;
    job.model.kind = number < 2 ? JOB_KIND_SAGE : number < 6 ? JOB_KIND_RGCN : JOB_KIND_GAT;
    if (number >= 2 && number < 6) {
        fixture_i64("edge_type.npy", 1, (int64_t[]){N_EDGE}, types);
    }
    if (number >= 6) {
        fixture_f32("edge_attr.npy", 2, (int64_t[]){N_EDGE, 1}, attributes);
    }
    strcpy(job.task.decoder, number == 4 || number == 5 ? "distmult" : "dot");
    return job;
}

/* Is there an edge from one node to another in this relation, of those that the graph had before some were held out? */
static bool is_known(int number, const struct job *job, uint32_t from, uint32_t to, int relation)
{
    bool any = false;
    for (int i = 0; i < N_EDGE; i++) {
        uint32_t source = draw(number, i, 0) % N_NODE, target = draw(number, N_EDGE + i, 0) % N_NODE;
        bool reverse = relation < 0 && job->dataset.undirected == JOB_SWITCH_YES && source == to && target == from;
        any = any || (((source == from && target == to) || reverse) &&
                      (relation < 0 || draw(number, i, 1) % N_RELATION == (uint32_t)relation));
    }
    return any;
}

Test(links_known, tails_and_heads_of_held_out_edges_are_those_of_the_graph_and_of_both_splits)
{
    for (int number = 0; number < 8; number++) {
        struct job job = job_of(number);
        struct dataset d = fixture_loaded(&job);
        cr_assert_eq(d.facts.symmetric, number == 1);
        for (int s = 0; s < LINKS_SPLIT_N; s++) {
            const struct links_held *held = &d.links.held[s];
            struct links_known known;
            cr_assert(held->among_all && held->negative.n == 0 && held->n_tail == 0 && held->positive.n > 10);
            expect_done(links_known_held(&d, (enum links_split)s, &known));
            cr_assert(known.n == 2 * held->positive.n && known.n_row <= known.n);
            for (int64_t i = 0; i < known.n; i++) {
                uint32_t head = held->positive.end[i & ~INT64_C(1)], tail = held->positive.end[i | 1];
                int relation = held->positive.relation != NULL ? held->positive.relation[i / 2] : -1;
                for (int64_t at = known.begin[known.row[i]]; at + 1 < known.begin[known.row[i] + 1]; at++) {
                    cr_assert_lt(known.node[at], known.node[at + 1]);
                }
                for (uint32_t v = 0; v < N_NODE; v++) {
                    bool expected = i % 2 == 0 ? v != head && is_known(number, &job, head, v, relation)
                                               : v != tail && is_known(number, &job, v, tail, relation);
                    cr_assert_eq(links_known_has(&known, i, v), expected, "graph %d, question %d, node %u", number,
                                 (int)i, v);
                }
                cr_assert(links_known_has(&known, i, i % 2 == 0 ? tail : head));
            }
            links_known_release(&known);
        }
        if (number == 5) {
            fixture_remove("edge_type.npy");
        }
    }
}

Test(links_known, files_of_negatives_come_before_all_nodes)
{
    struct job job = job_of(0);
    fixture_i64("test_edges.npy", 2, (int64_t[]){2, 1}, (int64_t[]){0, 1});
    fixture_i64("test_tails_negative.npy", 2, (int64_t[]){1, 2}, (int64_t[]){2, 3});
    struct dataset d = fixture_loaded(&job);
    cr_assert(d.links.held[LINKS_SPLIT_VALID].among_all && !d.links.held[LINKS_SPLIT_TEST].among_all);
    cr_assert_eq(d.links.held[LINKS_SPLIT_TEST].n_tail, 2);
}
