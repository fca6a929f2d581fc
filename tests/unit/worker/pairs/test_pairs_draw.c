/* Pairs of nodes without an edge: both ends draw the same ones, each pair of nodes as often as any other, none with an edge. */
#include "worker/pairs/pairs_draw.h"

#include "protocol/base/memory.h"
#include "tests/support/graphs/cut_graph.h"
#include "worker/pairs/pairs_routes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { N_NODE = 40, N_EPOCH = 400 };

struct drawn {
    int64_t n;
    int64_t count[N_NODE][N_NODE]; /* of each end, how often the pair stands there */
};

static int64_t place_of(const struct cut *cut, int p, int64_t row)
{
    return cut->partition.part_begin[p] + row;
}

/* What all parts draw in an epoch, with all other parts. */
static void epoch_draw(const struct cut *cut, const struct pairs_draw *draw, uint32_t epoch, struct drawn *out)
{
    const struct random_key key = {.seed = 5, .epoch = epoch};
    struct device *device;
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    for (int p = 0; p < cut->partition.n_part; p++) {
        size_t n_bytes = pairs_draw_bytes(draw, 1, &(int32_t){p});
        void *memory = memory_alloc(n_bytes, 1);
        for (int q = 0; q < cut->partition.n_part; q++) {
            const struct part *part = &cut->part[p];
            const struct pairs_block block = pairs_draw_block(draw, &key, part, q, device, memory);
            int64_t n_here = block.indptr[part->n_own];
            int64_t n_pair = pairs_draw_count(draw, &key, p < q ? p : q, p < q ? q : p);
            cr_assert_leq(n_here, p == q ? 2 * n_pair : n_pair); /* some have an edge */
            cr_assert_leq(n_pair, pairs_draw_most(draw, p < q ? p : q, p < q ? q : p));
            for (int64_t r = 0; r < part->n_own; r++) {
                for (int64_t i = block.indptr[r]; i < block.indptr[r + 1]; i++) {
                    out->count[place_of(cut, p, r)][place_of(cut, q, block.places[i])]++;
                    out->n++;
                }
            }
        }
        free(memory);
    }
    device_cpu.close(device);
}

static bool has_edge(const struct cut *cut, int64_t a, int64_t b)
{
    const uint32_t *order = cut->partition.order;
    return tiny_edge(&cut->dataset, order[a], order[b]) >= 0 || tiny_edge(&cut->dataset, order[b], order[a]) >= 0;
}

static void check(const struct tiny_graph *graph, int n_part, int64_t negatives)
{
    static struct drawn all;
    struct cut cut;
    struct pairs_draw draw;
    all = (struct drawn){0};
    struct tiny_graph links = *graph;
    links.of_links = true;
    cut_open(&links, n_part, JOB_METHOD_RANDOM, 0, &cut);
    const struct pairs_draw_input input = {.n_part = n_part,
                                           .rows = cut.part[0].links.rows,
                                           .ends = cut.part[0].links.ends,
                                           .n_link = cut.part[0].links.n,
                                           .n_joined = cut.part[0].links.n_joined,
                                           .negatives = negatives};
    pairs_draw_open(&input, &draw);
    for (uint32_t epoch = 0; epoch < N_EPOCH; epoch++) {
        struct drawn *one = memory_alloc(1, sizeof *one);
        epoch_draw(&cut, &draw, epoch, one);
        cr_assert_leq(one->n, 2 * draw.n, "epoch %u", epoch);
        for (int64_t a = 0; a < N_NODE; a++) {
            for (int64_t b = 0; b < N_NODE; b++) {
                cr_assert_eq(one->count[a][b], one->count[b][a], "both ends");
                all.count[a][b] += one->count[a][b];
            }
        }
        all.n += one->n;
        free(one);
    }
    int64_t n_joined = 0;
    double mean = (double)draw.n * N_EPOCH / (N_NODE * (N_NODE - 1) / 2.0), most = 0.0;
    for (int64_t a = 0; a < N_NODE; a++) {
        cr_assert_eq(all.count[a][a], 0, "a node with itself");
        for (int64_t b = 0; b < a; b++) {
            bool joined = has_edge(&cut, a, b);
            cr_assert(!joined || all.count[a][b] == 0, "an edge");
            n_joined += joined;
            most = fmax(most, joined ? 0.0 : fabs((double)all.count[a][b] - mean) / sqrt(mean));
        }
    }
    cr_expect_eq(cut.part[0].links.n_joined, n_joined);
    cr_expect_lt(most, 5.0, "a pair is drawn %.1f standard deviations more or less often", most);
    cr_expect_lt(fabs((double)all.n / 2.0 / N_EPOCH - draw.n_kept), 5.0 * sqrt(draw.n_kept / N_EPOCH));
    cr_expect_geq(draw.n_kept, (double)(cut.part[0].links.n * negatives) * 0.999);
    pairs_draw_close(&draw);
    cut_close(&cut);
}

Test(pairs_draw, both_ends_draw_the_same_pairs_of_any_two_nodes_without_an_edge)
{
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 60, .symmetric = true, .no_loops = true, .seed = 3}, 1, 4);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 60, .symmetric = true, .no_loops = true, .seed = 3}, 5, 5);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 90, .loops = true, .seed = 4}, 3, 1);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 90, .seed = 6}, N_NODE / 2, 9);
}

/* Every pair of rows of two parts: the ranks of both take what the other has. */
Test(pairs_draw, each_rank_takes_every_other_ranks_parts_once_or_twice)
{
    static const uint32_t rank_of_part[] = {0, 2, 1, 0, 2, 2, 1, 0};
    enum { N_PART = sizeof rank_of_part / sizeof *rank_of_part, N_RANK = 3 };
    int32_t n_taken = 0, n_given = 0;
    for (uint32_t rank = 0; rank < N_RANK; rank++) {
        const struct pairs_span ends = pairs_span_make(rank_of_part, N_PART, rank);
        int32_t n = 0;
        for (int32_t p = 0; p < N_PART; p++) {
            for (int32_t q = 0; rank_of_part[p] == rank && q < N_PART; q++) {
                /* own part p meets part q at place q, or n_part + q where it has a greater number */
                cr_expect(rank_of_part[q] == rank || pairs_receives(&ends, q, p > q), "part %d meets part %d", p, q);
            }
            n += rank_of_part[p] != rank ? pairs_receives(&ends, p, 0) + pairs_receives(&ends, p, 1) : 0;
        }
        cr_expect_eq(rank_of_part[pairs_receiver(&ends, 0)], rank);
        cr_expect_eq(rank_of_part[pairs_receiver(&ends, 1)], rank);
        cr_expect_eq(pairs_n_received(rank_of_part, N_PART, rank), n);
        n_taken += n;
        n_given += pairs_n_sent(rank_of_part, N_PART, rank, N_RANK);
    }
    cr_expect_eq(n_given, n_taken);
    cr_expect_eq(pairs_n_received((const uint32_t[]){0, 0}, 2, 0), 0);
}
