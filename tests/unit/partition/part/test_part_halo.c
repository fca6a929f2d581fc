/* Lists of pairs: only what there is, found by number, counted either way. */
#include "partition/part/part_halo.h"

#include "protocol/base/memory.h"
#include "tests/support/model/halo_table.h"

#include <criterion/criterion.h>

#define N 7

/* Part 3 takes 5 rows of part 0 and 2 of part 6, and gives 4 to part 6 and 9 to part 1. */
static const int64_t in[N][N] = {[3] = {[0] = 5, [6] = 2}, [6] = {[3] = 4}, [1] = {[3] = 9}};
static const int64_t out[N][N] = {{0}};

Test(part_halo, a_pair_without_edges_is_not_listed_and_takes_no_memory)
{
    int64_t before = memory_now(MEMORY_N);
    struct part_halo halo, alone;
    halo_table(N, in[0], out[0], 3, &halo);
    int64_t one = memory_now(MEMORY_N) - before;
    cr_expect_eq(halo.pairs[PART_DIRECTION_IN].n_pair, 4, "0, 1, 6 and the diagonal");
    cr_expect_eq(one, 2 * part_pairs_bytes(4, 0));
    halo_table(N, in[0], out[0], 5, &alone);
    cr_expect_eq(alone.pairs[PART_DIRECTION_IN].n_pair, 1, "the diagonal");
    cr_expect_eq(memory_now(MEMORY_N) - before - one, 2 * part_pairs_bytes(1, 0));
    part_halo_release(&alone);
    part_halo_release(&halo);
    cr_expect_eq(memory_now(MEMORY_N), before);
}

Test(part_halo, a_pair_costs_24_bytes_a_direction_and_8_more_for_each_hop)
{
    cr_expect_eq(part_pairs_bytes(101, 0) - part_pairs_bytes(100, 0), 24);
    cr_expect_eq(part_pairs_bytes(101, 3) - part_pairs_bytes(100, 3), 24 + 3 * 8);
}

Test(part_halo, rows_are_found_by_part_and_are_none_with_parts_that_are_not_listed)
{
    static const int64_t taken[N] = {5, 0, 0, 0, 0, 0, 2}, given[N] = {0, 9, 0, 0, 0, 0, 4};
    struct part_halo halo;
    halo_table(N, in[0], out[0], 3, &halo);
    const struct part_rows to = part_halo_received(&halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
    const struct part_rows from = part_halo_sent(&halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
    for (int32_t q = 0; q < N; q++) {
        cr_expect_eq(part_rows_with(&to, q), taken[q]);
        cr_expect_eq(part_rows_with(&from, q), given[q]);
        int32_t k = part_pair_find(&halo.pairs[PART_DIRECTION_IN], q);
        cr_expect(k >= 0 ? halo.pairs[PART_DIRECTION_IN].pair[k].part == q : q == 2 || q == 4 || q == 5);
    }
    cr_expect_eq(part_rows_all(&to), 7);
    cr_expect_eq(part_rows_all(&from), 13);
    part_halo_release(&halo);
}
