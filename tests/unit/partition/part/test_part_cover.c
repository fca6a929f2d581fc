/* Least vertex covers of a pair's edges: every edge has an end in one, and no smaller one has. */
#include "partition/part/part_cover.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 200
#define MOST_EDGES (MOST_ROWS * MOST_ROWS)

struct pair {
    int64_t indptr[MOST_ROWS + 1];
    uint32_t taker[MOST_EDGES];
    struct part_cover_edges edges;
};

/* Every possible edge with this chance of 256; givers without an edge have their first taker's. */
static void pair_draw(uint32_t seed, int n_giver, int n_taker, int chance, struct pair *out)
{
    uint32_t state = seed * 2654435761U + 1;
    int64_t n = 0;
    for (int g = 0; g < n_giver; g++) {
        for (int t = 0; t < n_taker; t++) {
            state = state * 1664525U + 1013904223U;
            if ((int)(state >> 24) < chance) {
                out->taker[n++] = (uint32_t)t;
            }
        }
        if (n == out->indptr[g]) {
            out->taker[n++] = 0;
        }
        out->indptr[g + 1] = n;
    }
    out->edges = (struct part_cover_edges){
        .n_giver = n_giver, .n_taker = n_taker, .indptr = out->indptr, .taker = out->taker};
}

static bool covers(const struct part_cover_edges *edges, const bool *sends, const bool *sums)
{
    for (int64_t g = 0; g < edges->n_giver; g++) {
        for (int64_t e = edges->indptr[g]; e < edges->indptr[g + 1]; e++) {
            if (!sends[g] && !sums[edges->taker[e]]) {
                return false;
            }
        }
    }
    return true;
}

static int64_t count(const bool *flag, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += flag[i];
    }
    return sum;
}

/* Of all choices of givers: those takers that an edge without its giver leads to. */
static int64_t least_cover(const struct part_cover_edges *edges)
{
    int64_t least = edges->n_giver;
    for (unsigned choice = 0; choice < 1U << edges->n_giver; choice++) {
        bool sums[MOST_ROWS] = {0};
        int64_t n = 0;
        for (int64_t g = 0; g < edges->n_giver; g++) {
            n += choice >> g & 1U;
            for (int64_t e = edges->indptr[g]; !(choice >> g & 1U) && e < edges->indptr[g + 1]; e++) {
                sums[edges->taker[e]] = true;
            }
        }
        n += count(sums, edges->n_taker);
        least = n < least ? n : least;
    }
    return least;
}

/* A matching grown by one path after another from every giver: as large as there is (Kuhn). */
static bool grow(const struct part_cover_edges *edges, int64_t g, bool *seen, int64_t *giver_of)
{
    for (int64_t e = edges->indptr[g]; e < edges->indptr[g + 1]; e++) {
        uint32_t t = edges->taker[e];
        if (seen[t]) {
            continue;
        }
        seen[t] = true;
        if (giver_of[t] < 0 || grow(edges, giver_of[t], seen, giver_of)) {
            giver_of[t] = g;
            return true;
        }
    }
    return false;
}

static int64_t greatest_matching(const struct part_cover_edges *edges)
{
    int64_t giver_of[MOST_ROWS], n = 0;
    memset(giver_of, 0xff, sizeof giver_of);
    for (int64_t g = 0; g < edges->n_giver; g++) {
        bool seen[MOST_ROWS] = {0};
        n += grow(edges, g, seen, giver_of);
    }
    return n;
}

static void expect_cover(const struct part_cover_edges *edges, int64_t expected)
{
    bool sends[MOST_ROWS], sums[MOST_ROWS];
    int64_t n = part_cover(edges, sends, sums);
    cr_expect_eq(n, expected, "%ld rows, expected %ld", (long)n, (long)expected);
    cr_expect_eq(count(sends, edges->n_giver) + count(sums, edges->n_taker), n);
    cr_expect(covers(edges, sends, sums), "an edge has neither its row nor a sum");
}

Test(part_cover, small_pairs_have_the_least_of_all_covers)
{
    static struct pair pair;
    for (uint32_t seed = 0; seed < 400; seed++) {
        pair_draw(seed, 1 + (int)(seed % 9), 1 + (int)(seed / 9 % 8), 20 + (int)(seed % 5) * 40, &pair);
        expect_cover(&pair.edges, least_cover(&pair.edges));
    }
}

Test(part_cover, larger_pairs_have_as_few_rows_as_the_greatest_matching_has_edges)
{
    static struct pair pair;
    for (uint32_t seed = 0; seed < 60; seed++) {
        pair_draw(seed, 20 + (int)(seed * 37 % 180), 20 + (int)(seed * 53 % 180), 1 + (int)(seed % 8), &pair);
        expect_cover(&pair.edges, greatest_matching(&pair.edges));
    }
}

Test(part_cover, one_taker_of_many_gets_one_sum_and_one_giver_to_many_sends_its_row)
{
    static struct pair pair;
    pair_draw(1, 50, 1, 256, &pair);
    expect_cover(&pair.edges, 1);
    pair_draw(1, 1, 50, 256, &pair);
    expect_cover(&pair.edges, 1);
}

Test(part_cover, a_taker_with_more_edges_than_a_sum_may_have_leaves_its_pair_as_it_is)
{
    int64_t n_giver = PART_COVER_EDGES_MOST + 1, *indptr = calloc((size_t)n_giver + 1, sizeof *indptr);
    uint32_t *all = calloc((size_t)n_giver, sizeof *all);
    bool *sends = calloc((size_t)n_giver, sizeof *sends), sums[1];
    for (int64_t g = 0; g <= n_giver; g++) {
        indptr[g] = g;
    }
    const struct part_cover_edges edges = {.n_giver = n_giver, .n_taker = 1, .indptr = indptr, .taker = all};
    cr_expect_eq(part_cover(&edges, sends, sums), n_giver);
    cr_expect(sends[0] && sends[n_giver - 1] && !sums[0]);
    const struct part_cover_edges fewer = {.n_giver = n_giver - 1, .n_taker = 1, .indptr = indptr, .taker = all};
    cr_expect_eq(part_cover(&fewer, sends, sums), 1);
    free(sends);
    free(all);
    free(indptr);
}

Test(part_cover, edges_turned_twice_are_as_they_were)
{
    static struct pair pair;
    pair_draw(7, 60, 90, 10, &pair);
    int64_t n = pair.indptr[60], turned_ptr[MOST_ROWS + 1], back_ptr[MOST_ROWS + 1];
    static int64_t from[MOST_EDGES];
    static uint32_t turned[MOST_EDGES], back[MOST_EDGES];
    const struct part_cover_edges other = {.n_giver = 90, .n_taker = 60, .indptr = turned_ptr, .taker = turned};
    part_cover_turn(&pair.edges, turned_ptr, turned, from);
    part_cover_turn(&other, back_ptr, back, NULL);
    cr_expect_arr_eq(back_ptr, pair.indptr, 61 * sizeof *back_ptr);
    cr_expect_arr_eq(back, pair.taker, (size_t)n * sizeof *back);
    for (int64_t t = 0; t < 90; t++) {
        for (int64_t e = turned_ptr[t]; e < turned_ptr[t + 1]; e++) {
            cr_assert_eq(pair.taker[from[e]], (uint32_t)t);
            cr_assert(from[e] >= pair.indptr[turned[e]] && from[e] < pair.indptr[turned[e] + 1]);
            cr_assert(e == turned_ptr[t] || turned[e] > turned[e - 1], "ascending");
        }
    }
}
