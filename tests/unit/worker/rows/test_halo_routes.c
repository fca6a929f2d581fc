#include "worker/rows/halo_routes.h"

#include "tests/support/model/halo_table.h"

#include <criterion/criterion.h>

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

Test(routes, what_one_part_receives_is_what_the_other_sends_in_every_kind_of_travel)
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

static void expect_route(const struct halo_route *route, int32_t from, int32_t to, int64_t n_row)
{
    cr_expect(route->from == from && route->to == to && route->n_row == n_row, "%d to %d: %lld rows", route->from,
              route->to, (long long)route->n_row);
}

Test(routes, pairs_between_ranks_alone_are_listed_in_the_order_they_are_used)
{
    struct part_halo part[3];
    struct halo_routes routes;
    parts_open(part);
    const uint32_t rank_of_part[] = {0, 1, 0};
    const struct part_halo *own[2] = {&part[0], &part[2]};
    const struct halo_owners owners = {.n_own_part = 2, .own = own, .rank_of_part = rank_of_part};
    halo_routes_open(&owners, &routes);
    halo_routes_list(&owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &routes);
    cr_assert_eq(routes.total.received.n, 2);
    expect_route(&routes.take[0], 1, 0, 4);
    expect_route(&routes.take[1], 1, 2, 2);
    cr_expect(routes.total.received.n_row == 6 && routes.total.received.most_row == 4);
    cr_expect_eq(routes.total.sent.n, 2, "part 1 takes from both");
    cr_expect_eq(routes.total.sent.n_row, 10);
    halo_routes_close(&routes);

    /* Block (i, j) comes j = i+1, i+2, …: part 1 takes from 2 before it takes from 0. */
    const struct part_halo *second = &part[1];
    const struct halo_owners one = {.n_own_part = 1, .own = &second, .rank_of_part = (const uint32_t[]){1, 0, 1}};
    halo_routes_open(&one, &routes);
    halo_routes_list(&one, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &routes);
    cr_assert_eq(routes.total.received.n, 2);
    expect_route(&routes.take[0], 2, 1, 7);
    expect_route(&routes.take[1], 0, 1, 3);
    const struct halo_route_totals total = halo_routes_total(&one, HALO_DIRECTION_IN, PROGRAM_HOP_ALL);
    cr_expect(total.received.n == 2 && total.received.n_row == 10 && total.sent.n == 2 && total.sent.n_row == 6,
              "the plan counts the same without a list");
    halo_routes_close(&routes);
    parts_close(part);
}

Test(routes, each_is_found_by_its_own_part_and_pair)
{
    struct part_halo part[3];
    struct halo_routes routes;
    parts_open(part);
    const uint32_t rank_of_part[] = {1, 0, 2};
    const struct part_halo *own = &part[1];
    const struct halo_owners owners = {.n_own_part = 1, .own = &own, .rank_of_part = rank_of_part};
    halo_routes_open(&owners, &routes);
    for (enum halo_direction d = HALO_DIRECTION_IN; d < HALO_DIRECTION_N; d++) {
        halo_routes_list(&owners, d, PROGRAM_HOP_ALL, &routes);
        const struct part_rows in = halo_rows_in(own, d, PROGRAM_HOP_ALL),
                               out = halo_rows_out(own, d, PROGRAM_HOP_ALL);
        for (int32_t k = 0; k < in.pairs->n_pair; k++) {
            const struct halo_route *found = halo_routes_received(&routes, &owners, d, 0, k);
            cr_assert_eq(found != NULL, part_rows_at(&in, k) > 0);
            cr_expect(found == NULL || (found->k == k && found->from == in.pairs->pair[k].part));
        }
        for (int32_t k = 0; k < out.pairs->n_pair; k++) {
            const struct halo_route *found = halo_routes_sent(&routes, 0, k);
            cr_assert_eq(found != NULL, part_rows_at(&out, k) > 0);
            cr_expect(found == NULL || (found->k == k && found->to == out.pairs->pair[k].part));
        }
    }
    cr_expect_null(halo_routes_sent(&routes, 1, 0));
    halo_routes_close(&routes);
    parts_close(part);
}

/* Of parts 0 … 4, parts 1 and 3 are here: what they take of part 2 has two lists, of the others one. */
Test(routes, dedup_are_taken_once_for_each_side_in_the_order_of_the_walk)
{
    static const uint32_t rank_of_part[] = {1, 0, 1, 0, 1};
    struct part_dedup dedup;
    struct halo_routes routes;
    struct part_halo part[2] = {{.part = 1}, {.part = 3}};
    const struct part_halo *own[2] = {&part[0], &part[1]};
    cr_assert_eq(part_dedup_acquire(5, 2, 0, true, &dedup), STATUS_OK);
    *part_dedup_at(&dedup, PART_DIRECTION_IN, 0, 0, PART_DEDUP_ABOVE) = 7;
    *part_dedup_at(&dedup, PART_DIRECTION_IN, 2, 0, PART_DEDUP_BELOW) = 3;
    *part_dedup_at(&dedup, PART_DIRECTION_IN, 2, 0, PART_DEDUP_ABOVE) = 4;
    *part_dedup_at(&dedup, PART_DIRECTION_IN, 3, 1, PART_DEDUP_BELOW) = 5;
    *part_dedup_at(&dedup, PART_DIRECTION_IN, 3, 1, PART_DEDUP_ABOVE) = 6;
    const struct halo_owners owners = {.n_own_part = 2, .own = own, .rank_of_part = rank_of_part, .dedup = &dedup};
    halo_routes_open(&owners, &routes);
    halo_routes_list(&owners, HALO_DIRECTION_IN, PROGRAM_HOP_ALL, &routes);
    const struct halo_route_sums received = routes.total.received, sent = routes.total.sent;
    cr_expect(received.n == 3 && received.n_row == 14 && received.most_row == 7);
    cr_expect(sent.n == 2 && sent.n_row == 11 && sent.most_row == 6);
    expect_route(&routes.take[0], 2, 1, 3);
    expect_route(&routes.take[1], 0, 3, 7);
    expect_route(&routes.take[2], 2, 3, 4);
    const struct halo_route *above = halo_routes_sent(&routes, 1, halo_route_taker(1, PART_DEDUP_ABOVE));
    cr_assert(above != NULL && above->is_dedup && above->from == 3 && above->n_row == 6);
    cr_expect_null(halo_routes_sent(&routes, 0, halo_route_taker(1, PART_DEDUP_ABOVE)));
    halo_routes_close(&routes);
    part_dedup_release(&dedup);
}
