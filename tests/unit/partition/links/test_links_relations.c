/* Edges held out by their relations (task.decoder = "distmult"), checked edge by edge; and files that do not fit. */
#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include "protocol/base/random.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(links_relations, .init = folder_make, .fini = fixture_end);

enum { N_NODE = 20, N_EDGE = 260, N_RELATION = 3, N_HELD = 25 };

static uint32_t draw(int64_t seed, int row, int column)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, (uint32_t)column);
}

/* A random multigraph with loops: most pairs of nodes have edges of several relations, in both directions. */
static struct job random_job(int64_t seed)
{
    int64_t edges[2 * N_EDGE], types[N_EDGE];
    float features[N_NODE] = {0};
    for (int i = 0; i < 2 * N_EDGE; i++) {
        edges[i] = draw(seed, i, 0) % N_NODE;
    }
    for (int i = 0; i < N_EDGE; i++) {
        types[i] = draw(seed, i, 1) % N_RELATION;
    }
    fixture_i64("edges.npy", 2, (int64_t[]){2, N_EDGE}, edges);
    fixture_i64("edge_type.npy", 1, (int64_t[]){N_EDGE}, types);
    fixture_f32("features.npy", 2, (int64_t[]){N_NODE, 1}, features);
    struct job job = fixture_job();
    job.task.kind = JOB_TASK_LINK;
    strcpy(job.task.decoder, "distmult");
    job.dataset.undirected = seed % 2 == 0 ? JOB_SWITCH_YES : JOB_SWITCH_NO;
    job.model.kind = JOB_KIND_RGCN;
    return job;
}

static struct dataset whole(const struct job *job)
{
    struct job all = *job;
    all.task.valid_share = all.task.test_share = 0.0;
    return fixture_loaded(&all);
}

/* Number of entries from one node to another of this type. */
static int n_entry(const struct dataset *d, uint32_t from, uint32_t to, int type)
{
    int n = 0;
    for (int64_t i = d->indptr[to]; i < d->indptr[to + 1]; i++) {
        n += d->indices[i] == from && d->edge_type[i] == type;
    }
    return n;
}

static bool is_joined(const struct dataset *d, uint32_t a, uint32_t b, int relation)
{
    return n_entry(d, a, b, relation) + n_entry(d, b, a, relation) > 0;
}

/* From a to b, or either way. */
static bool pairs_have(const struct links_pairs *pairs, int64_t n, uint32_t a, uint32_t b, int relation, bool one_way)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        uint32_t head = pairs->end[2 * i], tail = pairs->end[2 * i + 1];
        bool is_one = (head == a && tail == b) || (!one_way && head == b && tail == a);
        any = any || (is_one && pairs->relation[i] == relation);
    }
    return any;
}

static bool is_held(const struct dataset *d, uint32_t a, uint32_t b, int relation)
{
    const struct links_pairs *valid = &d->links.held[LINKS_SPLIT_VALID].positive,
                             *test = &d->links.held[LINKS_SPLIT_TEST].positive;
    return pairs_have(valid, valid->n, a, b, relation, false) || pairs_have(test, test->n, a, b, relation, false);
}

static bool of_file; /* validation edges are */

/* Is an entry of this type held out? Edges of files one way, drawn ones both ways; the inverse's with either. */
static bool is_entry_held(const struct dataset *d, uint32_t from, uint32_t to, int type)
{
    bool any = false, is_inverse = type >= N_RELATION;
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_pairs *pairs = &d->links.held[s].positive;
        bool one_way = s == LINKS_SPLIT_VALID && of_file;
        any = any ||
              pairs_have(pairs, pairs->n, is_inverse ? to : from, is_inverse ? from : to, type % N_RELATION, one_way);
    }
    return any;
}

/* All entries but those of held-out edges stay. */
static void expect_rest(const struct dataset *all, const struct dataset *d)
{
    int64_t n_left = 0;
    for (uint32_t to = 0; to < N_NODE; to++) {
        for (uint32_t from = 0; from < N_NODE; from++) {
            for (int type = 0; type < all->facts.n_relation; type++) {
                bool held = is_entry_held(d, from, to, type);
                int n = n_entry(all, from, to, type);
                cr_assert(n <= 1 && n_entry(d, from, to, type) == (held ? 0 : n), "from %u to %u, type %d", from, to,
                          type);
                n_left += held ? 0 : n;
            }
        }
    }
    cr_assert_eq(d->n_edge, n_left);
    cr_assert(d->links.n_relation == N_RELATION && d->facts.n_relation_given == N_RELATION);
}

/* As many negatives as edges, each no edge of the relation of its edge. */
static void expect_negatives(const struct dataset *all, const struct dataset *d, const struct links_held *held)
{
    int64_t n_joined = 0;
    cr_assert(held->negative.n == held->positive.n && held->n_tail == 0);
    for (int64_t i = 0; i < held->negative.n; i++) {
        uint32_t a = held->negative.end[2 * i], b = held->negative.end[2 * i + 1];
        int relation = held->negative.relation[i];
        cr_assert(a != b && relation == held->positive.relation[i]);
        cr_assert(!is_joined(all, a, b, relation) && !is_held(d, a, b, relation));
        for (int other = 0; other < N_RELATION; other++) {
            n_joined += is_joined(all, a, b, other);
        }
    }
    cr_assert_gt(n_joined, 0, "edges of other relations do not count");
}

Test(links_relations, drawn_edges_keep_their_relation_and_leave_edges_of_others)
{
    for (int64_t seed = 0; seed < 8; seed++) {
        struct job job = random_job(seed);
        job.task.valid_share = 0.1;
        job.task.test_share = 0.3;
        struct dataset all = whole(&job), d = fixture_loaded(&job);
        cr_assert_eq(all.facts.n_relation, seed % 2 == 0 ? 2 * N_RELATION : N_RELATION);
        int64_t n_pair = 0;
        for (uint32_t a = 0; a < N_NODE; a++) {
            for (uint32_t b = 0; b < a; b++) {
                for (int relation = 0; relation < N_RELATION; relation++) {
                    n_pair += is_joined(&all, a, b, relation);
                }
            }
        }
        expect_rest(&all, &d);
        for (int s = 0; s < LINKS_SPLIT_N; s++) {
            const struct links_pairs *held = &d.links.held[s].positive;
            cr_assert_eq(held->n, (int64_t)floor((s == LINKS_SPLIT_VALID ? 0.1 : 0.3) * (double)n_pair));
            for (int64_t i = 0; i < held->n; i++) {
                uint32_t head = held->end[2 * i], tail = held->end[2 * i + 1];
                int relation = held->relation[i];
                cr_assert(head != tail && relation < N_RELATION && n_entry(&all, head, tail, relation) == 1);
                cr_assert(!pairs_have(held, i, head, tail, relation, false), "each once");
            }
            expect_negatives(&all, &d, &d.links.held[s]);
        }
    }
}

Test(links_relations, files_hold_out_edges_of_their_relation_alone)
{
    for (int64_t seed = 0; seed < 6; seed++) {
        struct job job = random_job(seed);
        int64_t ends[2 * N_HELD], types[N_HELD], tails[2 * N_HELD];
        for (int i = 0; i < N_HELD; i++) {
            ends[i] = draw(seed, i, 2) % N_NODE;
            ends[N_HELD + i] = (ends[i] + 1 + draw(seed, i, 3) % (N_NODE - 1)) % N_NODE;
            types[i] = draw(seed, i, 4) % N_RELATION;
            tails[2 * i] = draw(seed, i, 5) % N_NODE;
            tails[2 * i + 1] = draw(seed, i, 6) % N_NODE;
        }
        struct dataset all = whole(&job);
        fixture_i64("valid_edges.npy", 2, (int64_t[]){2, N_HELD}, ends);
        fixture_i64("valid_edge_type.npy", 1, (int64_t[]){N_HELD}, types);
        of_file = true;
        job.task.test_share = 0.2;
        for (int way = 0; way < 2; way++) {
            if (way == 1) {
                fixture_i64("valid_tails_negative.npy", 2, (int64_t[]){N_HELD, 2}, tails);
            }
            struct dataset d = fixture_loaded(&job);
            const struct links_held *valid = &d.links.held[LINKS_SPLIT_VALID];
            cr_assert(valid->positive.n == N_HELD && d.links.held[LINKS_SPLIT_TEST].positive.n > 10);
            for (int i = 0; i < N_HELD; i++) {
                cr_assert(valid->positive.end[2 * i] == ends[i] && valid->positive.relation[i] == types[i]);
            }
            expect_rest(&all, &d);
            if (way == 0) {
                expect_negatives(&all, &d, valid);
            }
            cr_assert(way == 0 || (valid->n_tail == 2 && valid->negative.n == 0 && valid->tail[3] == tails[3]));
        }
        fixture_remove("valid_edges.npy");
        fixture_remove("valid_edge_type.npy");
        fixture_remove("valid_tails_negative.npy");
    }
}

/* A job of another decoder holds them out with all relations, as before. */
Test(links_relations, of_the_dot_product_do_not_count)
{
    struct job job = random_job(0);
    strcpy(job.task.decoder, "dot");
    struct dataset d = fixture_loaded(&job);
    const struct links_pairs *held = &d.links.held[LINKS_SPLIT_TEST].positive;
    cr_assert(d.links.n_relation == 0 && held->n > 10 && held->relation == NULL);
    for (int64_t i = 0; i < held->n; i++) {
        for (int type = 0; type < d.facts.n_relation; type++) {
            cr_assert(!is_joined(&d, held->end[2 * i], held->end[2 * i + 1], type));
        }
    }
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    expect_words(fixture_remarks(&job), "reads relations");
    fixture_i64("test_edge_types.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    expect_words(fixture_remarks(&job), "test_edge_types.npy: test_edge_type.npy, with task.kind");
}

Test(links_relations, change_the_contents_of_a_split)
{
    struct job job = random_job(1);
    uint64_t one[DATASET_CONTENT_N], other[DATASET_CONTENT_N];
    fixture_i64("valid_edges.npy", 2, (int64_t[]){2, 1}, (int64_t[]){0, 1});
    fixture_i64("valid_edge_type.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_i64("valid_tails_negative.npy", 2, (int64_t[]){1, 1}, (int64_t[]){2});
    struct dataset d = fixture_loaded(&job);
    dataset_contents(&d, one);
    fixture_i64("valid_edge_type.npy", 1, (int64_t[]){1}, (int64_t[]){2});
    d = fixture_loaded(&job);
    dataset_contents(&d, other);
    cr_assert_neq(one[DATASET_CONTENT_VALID], other[DATASET_CONTENT_VALID]);
}

Test(links_relations, that_do_not_fit_are_refused)
{
    struct job job = random_job(1);
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_refused(&job, STATUS_NO_INPUT, "test_edges.npy: no such file", "test_edge_type.npy has the relations of");
    fixture_remove("test_edge_type.npy");
    fixture_i64("test_edges.npy", 2, (int64_t[]){2, 2}, (int64_t[]){0, 1, 1, 2});
    fixture_refused(&job, STATUS_NO_INPUT, "test_edge_type.npy", "expected the relation of each edge of");
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){3}, (int64_t[]){0, 1, 2});
    fixture_refused(&job, STATUS_DATA, "test_edge_type.npy: has shape [3]", "expected [2]");
    fixture_f32("test_edge_type.npy", 1, (int64_t[]){2}, (float[]){0, 1});
    fixture_refused(&job, STATUS_DATA, "test_edge_type.npy: holds float32", "expected integers");
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){2}, (int64_t[]){0, 3});
    fixture_refused(&job, STATUS_DATA, "test_edge_type.npy: position 1: relation 3 is out of range",
                    "expected 0 to 2, the relations of the edges without inverse ones");
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){2}, (int64_t[]){-1, 0});
    fixture_refused(&job, STATUS_DATA, "position 0: relation -1 is out of range", "expected 0 to 2");
    fixture_i64("test_edge_type.npy", 1, (int64_t[]){2}, (int64_t[]){1, 0});
    fixture_i64("test_edges_negative.npy", 2, (int64_t[]){2, 1}, (int64_t[]){0, 1});
    fixture_refused(&job, STATUS_DATA, "test_edges_negative.npy: pairs for all edges have no relation",
                    "test_tails_negative.npy, or no file");
}
