#include "partition/methods/order.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define N_CLIQUE 16
#define CLIQUE 24
#define N (N_CLIQUE * CLIQUE)

/* A number that scatters 0 … N-1: 5 has no factor in common with 384. */
static uint32_t shuffled(uint32_t i)
{
    return (i * 5 + 7) % N;
}

/* Cliques on a ring: members i·CLIQUE … of clique i, under shuffled numbers; one edge to the next clique. */
static struct dataset cliques(void)
{
    static uint32_t pair[N_CLIQUE * (CLIQUE * (CLIQUE - 1) / 2 + 1)][2];
    int64_t n = 0;
    for (uint32_t c = 0; c < N_CLIQUE; c++) {
        for (uint32_t a = 0; a < CLIQUE; a++) {
            for (uint32_t b = a + 1; b < CLIQUE; b++) {
                pair[n][0] = shuffled(c * CLIQUE + a);
                pair[n++][1] = shuffled(c * CLIQUE + b);
            }
        }
        pair[n][0] = shuffled(c * CLIQUE);
        pair[n++][1] = shuffled((c + 1) % N_CLIQUE * CLIQUE + 1);
    }
    return tiny_from_edges(N, n, (const uint32_t(*)[2])pair, true);
}

static uint32_t clique_of(uint32_t node)
{
    for (uint32_t i = 0; i < N; i++) {
        if (shuffled(i) == node) {
            return i / CLIQUE;
        }
    }
    return N_CLIQUE;
}

Test(order, misses_are_those_of_two_first_in_first_out_caches)
{
    /* Row 4 gathers 0 1 2 3 (four misses), row 5 gathers 0 3: both kept by a cache of four, 3 by one of two or three.
     * A cache of four times the rows keeps both. */
    const uint32_t pair[6][2] = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {0, 5}, {3, 5}};
    struct dataset dataset = tiny_from_edges(6, 6, pair, false);
    const uint32_t order[6] = {0, 1, 2, 3, 4, 5};
    const int64_t expected[] = {0, 6 + 4, 5 + 4, 5 + 4, 4 + 4, 4 + 4};
    int32_t owner[6] = {0};
    int64_t n_miss;
    for (int64_t window = 1; window <= 5; window++) {
        cr_assert_eq(order_misses(&dataset, owner, order, window, &n_miss), STATUS_OK);
        cr_assert_eq(n_miss, expected[window], "window %lld: %lld", (long long)window, (long long)n_miss);
    }
    owner[0] = 1; /* edges between parts are not counted */
    cr_assert_eq(order_misses(&dataset, owner, order, 4, &n_miss), STATUS_OK);
    cr_assert_eq(n_miss, 3 + 3);
    tiny_release(&dataset);
}

Test(order, clusters_lie_in_one_piece_each_and_next_to_those_they_are_linked_to)
{
    struct dataset dataset = cliques();
    uint32_t sequence[N];
    cr_assert_eq(order_cluster(&dataset, CLIQUE, N, sequence), STATUS_OK);
    int n_change = 0, n_far = 0;
    for (int i = 1; i < N; i++) {
        uint32_t before = clique_of(sequence[i - 1]), here = clique_of(sequence[i]);
        n_change += before != here;
        n_far += before != here && (before + 1) % N_CLIQUE != here && (here + 1) % N_CLIQUE != before;
    }
    cr_assert_eq(n_change, N_CLIQUE - 1);
    cr_assert_leq(n_far, 1);
    tiny_release(&dataset);
}

#define GROUP 4 /* cliques */

/* Cliques again, not on a ring, but with links to all others of their group. */
static struct dataset groups(void)
{
    static uint32_t pair[N_CLIQUE * (CLIQUE * (CLIQUE - 1) / 2) + N * (GROUP - 1)][2];
    int64_t n = 0;
    for (uint32_t a = 0; a < N; a++) {
        for (uint32_t b = a + 1; b < N; b++) {
            bool same = a / CLIQUE == b / CLIQUE, linked = a / CLIQUE / GROUP == b / CLIQUE / GROUP;
            if (same || (linked && a % CLIQUE == b % CLIQUE)) {
                pair[n][0] = shuffled(a);
                pair[n++][1] = shuffled(b);
            }
        }
    }
    return tiny_from_edges(N, n, (const uint32_t(*)[2])pair, true);
}

Test(order, nested_clusters_lie_in_one_piece_each_and_so_do_those_around_them)
{
    struct dataset dataset = groups();
    uint32_t sequence[N];
    cr_assert_eq(order_cluster(&dataset, CLIQUE, GROUP * CLIQUE, sequence), STATUS_OK);
    int n_change = 0, n_group = 0;
    for (int i = 1; i < N; i++) {
        uint32_t before = clique_of(sequence[i - 1]), here = clique_of(sequence[i]);
        n_change += before != here;
        n_group += before / GROUP != here / GROUP;
    }
    cr_assert_eq(n_change, N_CLIQUE - 1);
    cr_assert_eq(n_group, N_CLIQUE / GROUP - 1);
    tiny_release(&dataset);
}

Test(order, no_cluster_grows_past_its_cap)
{
    struct dataset dataset = cliques();
    uint32_t sequence[N], seen[N] = {0};
    for (int64_t most = 1; most < 40; most += 6) {
        int64_t outer = most % 12 == 1 ? most : 3 * most;
        cr_assert_eq(order_cluster(&dataset, most, outer, sequence), STATUS_OK); /* a larger one overruns its keys */
        for (int i = 0; i < N; i++) {
            seen[sequence[i]]++;
        }
    }
    for (int i = 1; i < N; i++) {
        cr_assert_eq(seen[i], seen[0]);
    }
    tiny_release(&dataset);
}

Test(order, hubs_come_first_in_their_cluster)
{
    const uint32_t pair[6][2] = {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {2, 3}, {2, 1}};
    struct dataset dataset = tiny_from_edges(5, 6, pair, true);
    uint32_t sequence[5];
    cr_assert_eq(order_cluster(&dataset, 5, 5, sequence), STATUS_OK);
    cr_assert_eq(sequence[0], 4);
    cr_assert_eq(sequence[1], 2);
    cr_assert_eq(sequence[4], 0);
    tiny_release(&dataset);
}

Test(order, breadth_first_unrolls_a_shuffled_path_inside_each_part)
{
    uint32_t pair[N - 1][2], sequence[N], place[N];
    int32_t owner[N];
    for (uint32_t i = 0; i + 1 < N; i++) {
        pair[i][0] = shuffled(i);
        pair[i][1] = shuffled(i + 1);
    }
    struct dataset dataset = tiny_from_edges(N, N - 1, (const uint32_t(*)[2])pair, true);
    for (uint32_t i = 0; i < N; i++) {
        owner[shuffled(i)] = i >= N / 2;
    }
    cr_assert_eq(order_breadth(&dataset, owner, sequence), STATUS_OK);
    for (uint32_t i = 0; i < N; i++) {
        place[sequence[i]] = i;
    }
    for (uint32_t i = 0; i + 1 < N; i++) {
        cr_assert(i + 1 == N / 2 || abs((int)place[shuffled(i)] - (int)place[shuffled(i + 1)]) == 1);
    }
    tiny_release(&dataset);
}

Test(order, shuffled_communities_come_out_with_a_third_of_the_misses)
{
    struct dataset dataset = cliques();
    int32_t owner[N];
    int64_t part_begin[3] = {0, 0, N}, before, after;
    uint32_t order[N], plain[N];
    for (uint32_t v = 0, n = 0; v < 2 * N; v++) {
        if (v < N) {
            owner[v] = clique_of(v) % 2;
            part_begin[1] += owner[v] == 0;
        }
        if (owner[v % N] == (int32_t)(v / N)) {
            plain[n++] = v % N;
        }
    }
    cr_assert_eq(order_build(&dataset, owner, 2, part_begin, order), STATUS_OK);
    cr_assert_eq(order_misses(&dataset, owner, plain, 48, &before), STATUS_OK);
    cr_assert_eq(order_misses(&dataset, owner, order, 48, &after), STATUS_OK);
    cr_assert_lt(3 * after, before, "%lld misses of %lld are left", (long long)after, (long long)before);
    tiny_release(&dataset);
}

Test(order, an_order_that_is_good_already_stays)
{
    uint32_t pair[N - 1][2], order[N];
    int32_t owner[N] = {0};
    const int64_t part_begin[2] = {0, N};
    for (uint32_t i = 0; i + 1 < N; i++) {
        pair[i][0] = i;
        pair[i][1] = i + 1;
    }
    struct dataset dataset = tiny_from_edges(N, N - 1, (const uint32_t(*)[2])pair, true);
    cr_assert_eq(order_build(&dataset, owner, 1, part_begin, order), STATUS_OK);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_eq(order[i], i);
    }
    tiny_release(&dataset);
}
