#include "partition/part/part.h"
#include "tests/support/model/halo_table.h"

#include <criterion/criterion.h>

#define N 8

/* Place n parts of which part d takes halo[d * n + s] rows from part s. */
static void place(int32_t n, const int64_t *halo, const int64_t *n_edge, int32_t n_rank, int32_t *out_rank)
{
    struct part_sizes sizes[N] = {0};
    for (int32_t p = 0; p < n; p++) {
        sizes[p] = (struct part_sizes){.n_edge = n_edge[p]};
        halo_table(n, halo, halo, p, &sizes[p].halo);
    }
    partition_place(n, sizes, n_rank, out_rank);
    for (int32_t p = 0; p < n; p++) {
        part_halo_release(&sizes[p].halo);
    }
}

/* Parts on a ring of heavy pairs: (0,4) (1,5) (2,6) (3,7) exchange most, neighbours a little. */
static void pairs(int64_t halo[N * N])
{
    for (int a = 0; a < N; a++) {
        for (int b = 0; b < N; b++) {
            halo[a * N + b] = a == b ? 0 : (a % 4 == b % 4 ? 1000 : 10);
        }
    }
}

Test(place, as_many_workers_as_parts_is_the_identity)
{
    int64_t halo[N * N], n_edge[N] = {9, 1, 1, 1, 1, 1, 1, 1};
    int32_t rank[N];
    pairs(halo);
    place(N, halo, n_edge, N, rank);
    for (int p = 0; p < N; p++) {
        cr_assert_eq(rank[p], p);
    }
}

Test(place, parts_that_share_most_rows_sit_together)
{
    int64_t halo[N * N], n_edge[N] = {100, 100, 100, 100, 100, 100, 100, 100};
    int32_t rank[N];
    pairs(halo);
    place(N, halo, n_edge, 4, rank);
    for (int p = 0; p < N; p++) {
        cr_assert_eq(rank[p], p % 4, "part %d on rank %d", p, rank[p]);
    }
    place(N, halo, n_edge, 2, rank);
    for (int p = 0; p < 4; p++) {
        cr_assert_eq(rank[p], rank[p + 4]);
    }
}

/* Parts in a row, neighbours exchanging 100 rows, but the 4th and the 5th 10. */
Test(place, parts_are_kept_in_order_where_that_costs_little_and_cut_where_least_crosses)
{
    int64_t halo[N * N] = {0}, n_edge[N] = {100, 100, 100, 97, 103, 100, 100, 100};
    int32_t rank[N];
    for (int a = 0; a + 1 < N; a++) {
        halo[a * N + a + 1] = halo[(a + 1) * N + a] = a == 3 ? 10 : 100;
    }
    place(N, halo, n_edge, 2, rank);
    for (int p = 0; p < N; p++) {
        cr_expect_eq(rank[p], p / 4, "part %d on rank %d", p, rank[p]);
    }
    place(N, halo, n_edge, 3, rank);
    for (int p = 1; p < N; p++) {
        cr_expect(rank[p] == rank[p - 1] || rank[p] == rank[p - 1] + 1, "part %d on rank %d", p, rank[p]);
    }
}

Test(place, swaps_repair_what_growing_got_wrong)
{
    /* 0 is drawn to 1 most, but 1 belongs to 2 and 0 to 3 when the whole is counted. */
    int64_t halo[16] = {0, 9, 0, 8, 9, 0, 8, 0, 0, 8, 0, 1, 8, 0, 1, 0};
    int64_t n_edge[4] = {10, 10, 10, 10};
    int32_t rank[4];
    place(4, halo, n_edge, 2, rank);
    cr_assert_eq(rank[0], rank[3]);
    cr_assert_eq(rank[1], rank[2]);
    cr_assert_neq(rank[0], rank[1]);
}

Test(place, edges_stay_even_where_traffic_would_pile_all_on_one)
{
    int64_t halo[N * N], n_edge[N] = {70, 10, 10, 10, 10, 10, 10, 10};
    int32_t rank[N];
    int64_t load[2] = {0, 0};
    for (int i = 0; i < N * N; i++) {
        halo[i] = i / N == 0 || i % N == 0 ? 500 : 1; /* everybody is drawn to part 0 */
    }
    place(N, halo, n_edge, 2, rank);
    for (int p = 0; p < N; p++) {
        load[rank[p]] += n_edge[p];
    }
    cr_assert_eq(load[0], 70);
    cr_assert_eq(load[1], 70);
}

Test(place, every_rank_has_a_part_and_part_0_is_on_rank_0)
{
    uint32_t state = 1;
    for (int round = 0; round < 200; round++) {
        int64_t halo[N * N], n_edge[N];
        int32_t rank[N], again[N];
        for (int i = 0; i < N * N; i++) {
            state = state * 1664525u + 1013904223u;
            halo[i] = state >> 28;
            n_edge[i / N] = round % 3 == 0 ? 0 : (int64_t)(state >> 24);
        }
        for (int32_t n_rank = 1; n_rank <= N; n_rank++) {
            int size[N] = {0};
            place(N, halo, n_edge, n_rank, rank);
            place(N, halo, n_edge, n_rank, again);
            for (int p = 0; p < N; p++) {
                cr_assert(rank[p] >= 0 && rank[p] < n_rank);
                cr_assert_eq(rank[p], again[p]);
                size[rank[p]]++;
            }
            for (int r = 0; r < n_rank; r++) {
                cr_assert_gt(size[r], 0);
            }
            cr_assert_eq(rank[0], 0);
        }
    }
}
