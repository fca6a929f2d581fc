/* Hops to the training nodes, counted on graphs small enough to count by hand, and the order made of them. */
#include "partition/methods/reach.h"
#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N = 6 };

/* 0 → 1 → 2 → 3 ← 4, 5 alone; 3 is trained on. */
static int64_t indptr[N + 1] = {0, 0, 1, 2, 4, 4, 4};
static uint32_t sources[4] = {0, 1, 2, 4};
static uint8_t split[N] = {[3] = DATASET_SPLIT_TRAIN};

static struct dataset chain(void)
{
    return (struct dataset){.n_node = N, .n_edge = 4, .indptr = indptr, .indices = sources, .labels.split = split};
}

Test(reach, hops_are_counted_along_edges_towards_the_training_nodes)
{
    const struct dataset dataset = chain();
    const uint8_t hops[N] = {3, 2, 1, 0, 1, 4};
    struct reach reach;
    cr_assert_eq(reach_build(&dataset, 4, &reach), STATUS_OK);
    cr_expect_arr_eq(reach.hop, hops, sizeof hops);
    cr_expect_arr_eq(reach.n_node, ((int64_t[]){1, 3, 4, 5}), 4 * sizeof(int64_t));
    cr_expect_arr_eq(reach.n_edge, ((int64_t[]){2, 3, 4, 4}), 4 * sizeof(int64_t));
    reach_release(&reach);
}

Test(reach, nodes_past_the_last_hop_are_as_far_as_those_without_a_path)
{
    const struct dataset dataset = chain();
    const uint8_t hops[N] = {2, 2, 1, 0, 1, 2};
    struct reach reach;
    cr_assert_eq(reach_build(&dataset, 2, &reach), STATUS_OK);
    cr_expect_arr_eq(reach.hop, hops, sizeof hops);
    reach_release(&reach);
}

Test(reach, rows_are_ordered_by_hop_and_keep_their_order_within_one)
{
    const struct dataset dataset = chain();
    uint32_t order[N] = {5, 4, 3, 2, 1, 0};
    int32_t owner[N] = {0};
    int64_t begin[2] = {0, N};
    struct partition partition = {.n_part = 1, .n_node = N, .owner = owner, .part_begin = begin, .order = order};
    struct reach reach;
    cr_assert_eq(reach_build(&dataset, 3, &reach), STATUS_OK);
    cr_assert_eq(reach_order(&reach, &partition), STATUS_OK);
    cr_expect_arr_eq(order, ((uint32_t[]){3, 4, 2, 1, 5, 0}), sizeof order);
    cr_expect_eq(partition.n_hop, 3);
    cr_expect_null(reach.hop);
    reach_release(&reach);
    reach.hop = partition.hop;
    reach_release(&reach);
}

/* hop[u] = 1 + the least hop of what u leads to: checked on every edge, in as many rounds as it takes. */
Test(reach, every_hop_is_one_more_than_the_least_it_leads_to)
{
    for (int seed = 0; seed < 20; seed++) {
        struct tiny_graph graph = {
            .n_node = 60, .n_draw = 50 + 10 * seed, .symmetric = seed & 1, .seed = (uint64_t)seed};
        struct dataset dataset = tiny_build(&graph);
        int n_hop = 1 + seed % 5;
        int hop[60];
        for (int64_t v = 0; v < dataset.n_node; v++) {
            hop[v] = dataset.labels.split[v] == DATASET_SPLIT_TRAIN ? 0 : n_hop;
        }
        for (int round = 0; round < n_hop; round++) {
            for (int64_t v = 0; v < dataset.n_node; v++) {
                for (int64_t i = dataset.indptr[v]; i < dataset.indptr[v + 1]; i++) {
                    int *from = &hop[dataset.indices[i]];
                    *from = hop[v] + 1 < *from ? hop[v] + 1 : *from;
                }
            }
        }
        struct reach reach;
        cr_assert_eq(reach_build(&dataset, n_hop, &reach), STATUS_OK);
        for (int64_t v = 0; v < dataset.n_node; v++) {
            cr_assert_eq(reach.hop[v], hop[v], "seed %d, node %ld", seed, (long)v);
        }
        reach_release(&reach);
        tiny_release(&dataset);
    }
}
