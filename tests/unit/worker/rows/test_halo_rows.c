#include "worker/rows/halo_rows.h"

#include "tests/support/model/halo_table.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Three parts; [d][s]: rows part d takes from part s along in-edges and along the transposed ones. */
static const int64_t takes[2][3][3] = {{{0, 4, 0}, {3, 0, 7}, {1, 2, 0}}, {{0, 5, 2}, {6, 0, 1}, {0, 8, 0}}};

static void parts_open(struct part_halo out[3])
{
    for (int p = 0; p < 3; p++) {
        halo_table(3, takes[0][0], takes[1][0], p, &out[p]);
    }
}

static void parts_close(struct part_halo part[3])
{
    for (int p = 0; p < 3; p++) {
        part_halo_release(&part[p]);
    }
}

static int64_t rows_in(const struct part_halo *part, int32_t from, enum halo_direction direction)
{
    const struct part_rows in = halo_rows_in(part, direction, PROGRAM_HOP_ALL);
    return part_rows_with(&in, from);
}

static int64_t rows_out(const struct part_halo *part, int32_t to, enum halo_direction direction)
{
    const struct part_rows out = halo_rows_out(part, direction, PROGRAM_HOP_ALL);
    return part_rows_with(&out, to);
}

Test(travel, what_one_part_receives_is_what_the_other_sends_in_every_kind_of_travel)
{
    struct part_halo part[3];
    parts_open(part);
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) {
                cr_expect_eq(rows_in(&part[a], b, (enum halo_direction)t),
                             rows_out(&part[b], a, (enum halo_direction)t));
            }
        }
    }
    cr_expect_eq(rows_in(&part[1], 2, HALO_DIRECTION_IN), 7);
    cr_expect_eq(rows_in(&part[1], 2, HALO_DIRECTION_OUT), 1);
    cr_expect_eq(rows_in(&part[1], 2, HALO_DIRECTION_RETURN), 2, "a maximum's gradients go back the way rows came");
    parts_close(part);
}

static void expect_fetches(const struct halo_owners *owners, const struct halo_fetch *expected, int n)
{
    struct halo_cursor cursor = {0};
    struct halo_fetch fetch;
    for (int i = 0; i < n; i++) {
        cr_assert(halo_fetch_next(owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &cursor, &fetch));
        cr_expect(fetch.to == expected[i].to && fetch.from == expected[i].from && fetch.n_row == expected[i].n_row);
    }
    cr_expect_not(halo_fetch_next(owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &cursor, &fetch), "there is none left");
}

Test(travel, only_payloads_between_ranks_are_listed_in_the_order_they_are_used)
{
    struct part_halo part[3];
    parts_open(part);
    const uint32_t rank_of_part[] = {0, 1, 0};
    const struct part_halo *const own[2] = {&part[0], &part[2]};
    const struct halo_owners owners = {.n_own_part = 2, .own = own, .rank_of_part = rank_of_part};
    struct halo_list list = halo_list_count(&owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL);
    cr_assert_eq(list.n_fetch, 2);
    expect_fetches(&owners, (const struct halo_fetch[]){{0, 1, 4}, {2, 1, 2}}, 2);
    cr_expect_eq(list.n_fetch_row, 6);
    cr_expect_eq(list.most_fetch_row, 4);
    cr_expect_eq(list.n_serve, 2, "part 1 takes from both");
    cr_expect_eq(list.n_serve_row, 10);

    /* Block (i, j) comes j = i+1, i+2, …: part 1 takes from 2 before it takes from 0. */
    const struct part_halo *const second = &part[1];
    const struct halo_owners one = {.n_own_part = 1, .own = &second, .rank_of_part = (const uint32_t[]){1, 0, 1}};
    cr_assert_eq(halo_list_count(&one, HALO_DIRECTION_IN, PROGRAM_HOP_ALL).n_fetch, 2);
    expect_fetches(&one, (const struct halo_fetch[]){{1, 2, 7}, {1, 0, 3}}, 2);
    parts_close(part);
}

/* Of parts 0 … 4, parts 1 and 3 are here: what they take of part 2 has two lists, of the others one. */
Test(travel, shared_rows_are_fetched_once_for_each_side_in_the_order_of_the_walk)
{
    static const uint32_t rank_of_part[] = {1, 0, 1, 0, 1};
    struct part_shared shared;
    struct part_halo part[2] = {{.part = 1}, {.part = 3}};
    const struct part_halo *const own[2] = {&part[0], &part[1]};
    cr_assert_eq(part_shared_acquire(5, 2, 0, true, &shared), STATUS_OK);
    *part_shared_at(&shared, PART_DIRECTION_IN, 0, 0, PART_SHARED_ABOVE) = 7;
    *part_shared_at(&shared, PART_DIRECTION_IN, 2, 0, PART_SHARED_BELOW) = 3;
    *part_shared_at(&shared, PART_DIRECTION_IN, 2, 0, PART_SHARED_ABOVE) = 4;
    *part_shared_at(&shared, PART_DIRECTION_IN, 3, 1, PART_SHARED_BELOW) = 5;
    *part_shared_at(&shared, PART_DIRECTION_IN, 3, 1, PART_SHARED_ABOVE) = 6;
    const struct halo_owners owners = {.n_own_part = 2, .own = own, .rank_of_part = rank_of_part, .shared = &shared};
    struct halo_list list = halo_list_count(&owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL);
    cr_expect(list.n_fetch == 3 && list.n_fetch_row == 14 && list.most_fetch_row == 7);
    cr_expect(list.n_serve == 2 && list.n_serve_row == 11 && list.most_serve_row == 6);
    expect_fetches(&owners, (const struct halo_fetch[]){{1, 2, 3}, {3, 0, 7}, {3, 2, 4}}, 3);
    part_shared_release(&shared);
}
