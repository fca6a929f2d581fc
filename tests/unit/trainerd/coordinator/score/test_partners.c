/* Partners of nodes against all scores in order, one node at a time. */
#include "protocol/base/random.h"
#include "tests/support/model/decoders.h"
#include "trainerd/coordinator/score/partners.h"
#include "trainerd/coordinator/score/score_links.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { N = 70, WIDTH = 3, ASKED = 45, K = 12 };

static uint32_t draw(int64_t seed, int64_t row, int column)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, (uint32_t)column);
}

struct one {
    int64_t node;
    float score;
};

static int best_first(const void *a, const void *b)
{
    const struct one *one = a, *other = b;
    return one->score != other->score ? (one->score < other->score) - (one->score > other->score)
                                      : (one->node > other->node) - (one->node < other->node);
}

/* Each node's neighbours: `row[i]` is i, repeats of a node have a list each. */
static int64_t joined_at[ASKED + 1];
static uint32_t nodes[ASKED], row[ASKED], joined[ASKED * N];
static float rows[N * WIDTH];

/* Rows of small numbers, so that many scores are equal; with some of them not numbers. */
static struct links_asked drawn(int64_t seed, bool with_joined, int nan_every)
{
    for (int i = 0; i < N * WIDTH; i++) {
        rows[i] = nan_every > 0 && i / WIDTH % nan_every == 1 ? NAN : (float)(draw(seed, i, 0) % 5) - 2.0F;
    }
    int64_t n_joined = 0;
    for (int i = 0; i < ASKED; i++) {
        nodes[i] = draw(seed, i, 1) % N;
        row[i] = (uint32_t)i;
        joined_at[i] = n_joined;
        for (uint32_t v = 0; v < N; v++) {
            if (draw(seed, i * N + v, 2) % 10 < (uint32_t)(i % 11)) {
                joined[n_joined++] = v;
            }
        }
    }
    joined_at[ASKED] = n_joined;
    const struct links_known known = {ASKED, row, ASKED, joined_at, n_joined, joined};
    return (struct links_asked){
        .n = ASKED, .node = nodes, .relation = 1, .known = with_joined ? known : (struct links_known){0}};
}

static struct test_decoder decoders[3];

static float weight(int64_t i)
{
    return (float)(draw(1, i, 4) % 3) - 1.0F;
}

static void open_decoders(void)
{
    static const char *const names[] = {"dot", "distmult", "transe"};
    for (int d = 0; d < 3; d++) {
        test_decoder_open(names[d], 0, WIDTH, 2, weight, &decoders[d]);
    }
}

TestSuite(partners, .init = open_decoders);

static void expect_partners(const struct decoder *decoder, const struct links_asked *asked, int64_t i, int64_t k,
                            const int64_t *node, const float *score)
{
    struct one all[N];
    int64_t n = 0;
    for (uint32_t v = 0; v < N; v++) {
        uint32_t end[2] = {asked->node[i], v};
        const struct links_pairs pair = {1, end, (uint16_t[]){1}};
        bool is_joined = false;
        for (int64_t at = joined_at[i]; asked->known.n > 0 && at < joined_at[i + 1]; at++) {
            is_joined = is_joined || joined[at] == v;
        }
        all[n].node = v;
        links_score(decoder, rows, &pair, &all[n].score);
        n += v != asked->node[i] && !is_joined && !isnan(all[n].score);
    }
    qsort(all, (size_t)n, sizeof *all, best_first);
    for (int64_t at = 0; at < k; at++) {
        if (at < n) {
            cr_assert(node[at] == all[at].node && score[at] == all[at].score,
                      "node %u, place %d: %d with %g, expected %d with %g", asked->node[i], (int)at, (int)node[at],
                      score[at], (int)all[at].node, all[at].score);
        } else {
            cr_assert(node[at] == -1 && isnan(score[at]), "node %u, place %d: %d", asked->node[i], (int)at,
                      (int)node[at]);
        }
    }
}

Test(partners, are_the_first_of_all_other_nodes_in_order)
{
    static const struct {
        int64_t k;
        bool with_joined;
        int nan_every;
    } ways[] = {{1, false, 0}, {K, false, 0}, {K, true, 0}, {K, true, 3}, {N, true, 0}, {N + 5, false, 2}};
    static int64_t node[ASKED * (N + 5)];
    static float score[ASKED * (N + 5)];
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        for (int64_t seed = 0; seed < 10; seed++) {
            struct links_asked asked = drawn(seed, ways[w].with_joined, ways[w].nan_every);
            const struct decoder *decoder = &decoders[seed % 3].decoder;
            partners_find(decoder, rows, N, &asked, ways[w].k, node, score);
            for (int64_t i = 0; i < ASKED; i++) {
                expect_partners(decoder, &asked, i, ways[w].k, node + i * ways[w].k, score + i * ways[w].k);
            }
        }
    }
}

Test(partners, have_the_same_bits_for_any_number_of_threads)
{
    static int64_t node[2][ASKED * K];
    static float score[2][ASKED * K];
    struct links_asked asked = drawn(3, true, 0);
    for (int i = 0; i < N * WIDTH; i++) {
        rows[i] = (float)draw(7, i, 3) / 1e9F - 2.0F;
    }
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 4);
        partners_find(&decoders[1].decoder, rows, N, &asked, K, node[i], score[i]);
    }
    cr_assert_eq(memcmp(node[0], node[1], sizeof node[0]), 0);
    cr_assert_eq(memcmp(score[0], score[1], sizeof score[0]), 0);
}
