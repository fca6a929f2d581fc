#include "worker/plan/halo_rows.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Three parts; [d][s]: rows part d takes from part s along in-edges and along the transposed ones. */
static const int64_t takes[2][3][3] = {{{0, 4, 0}, {3, 0, 7}, {1, 2, 0}}, {{0, 5, 2}, {6, 0, 1}, {0, 8, 0}}};

static void counts(struct halo_counts out[3])
{
    struct part_sizes sizes[3] = {0};
    for (int p = 0; p < 3; p++) {
        for (int d = 0; d < 2; d++) {
            sizes[p].n_payload[d] = (int64_t *)(uintptr_t)takes[d][p];
        }
    }
    for (int p = 0; p < 3; p++) {
        halo_counts_from_sizes(sizes, 3, p, &out[p]);
    }
}

Test(travel, what_one_part_receives_is_what_the_other_sends_in_every_kind_of_travel)
{
    struct halo_counts part[3];
    counts(part);
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) {
                cr_expect_eq(halo_rows_in(&part[a], b, (enum halo_direction)t, PROGRAM_HOP_ALL),
                             halo_rows_out(&part[b], a, (enum halo_direction)t, PROGRAM_HOP_ALL));
            }
        }
    }
    cr_expect_eq(halo_rows_in(&part[1], 2, HALO_DIRECTION_IN, PROGRAM_HOP_ALL), 7);
    cr_expect_eq(halo_rows_in(&part[1], 2, HALO_DIRECTION_OUT, PROGRAM_HOP_ALL), 1);
    cr_expect_eq(halo_rows_in(&part[1], 2, HALO_DIRECTION_RETURN, PROGRAM_HOP_ALL), 2,
                 "a maximum's gradients go back the way rows came");
    for (int p = 0; p < 3; p++) {
        halo_counts_release(&part[p]);
    }
}

Test(travel, only_payloads_between_ranks_are_listed_in_the_order_they_are_used)
{
    struct halo_counts part[3];
    counts(part);
    const uint32_t rank_of_part[] = {0, 1, 0};
    struct halo_counts own[2] = {part[0], part[2]};
    struct halo_list list;
    halo_list_build(&(struct halo_owners){3, 2, own, rank_of_part, 0}, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &list);
    cr_assert_eq(list.n_fetch, 2);
    cr_expect(list.fetch[0].to == 0 && list.fetch[0].from == 1 && list.fetch[0].n_row == 4);
    cr_expect(list.fetch[1].to == 2 && list.fetch[1].from == 1 && list.fetch[1].n_row == 2);
    cr_expect_eq(list.n_fetch_row, 6);
    cr_expect_eq(list.most_fetch_row, 4);
    cr_expect_eq(list.n_serve, 2, "part 1 takes from both");
    cr_expect_eq(list.n_serve_row, 10);
    halo_list_release(&list);

    /* Block (i, j) comes j = i+1, i+2, …: part 1 takes from 2 before it takes from 0. */
    halo_list_build(&(struct halo_owners){3, 1, &part[1], (const uint32_t[]){1, 0, 1}, 0}, HALO_DIRECTION_IN, PROGRAM_HOP_ALL,
                    &list);
    cr_assert_eq(list.n_fetch, 2);
    cr_expect(list.fetch[0].from == 2 && list.fetch[0].n_row == 7);
    cr_expect(list.fetch[1].from == 0 && list.fetch[1].n_row == 3);
    halo_list_release(&list);
    for (int p = 0; p < 3; p++) {
        halo_counts_release(&part[p]);
    }
}
