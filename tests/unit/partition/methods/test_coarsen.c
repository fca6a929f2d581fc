#include "partition/methods/partition_coarsen.h"
#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <metis.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* --- graphs from a list of edges, by an adjacency matrix, which shares nothing with the code --- */

#define N_MOST 400

static unsigned drawn;

static unsigned draw(unsigned n)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % n;
}

enum shape { SHAPE_RANDOM, SHAPE_GROUPS, SHAPE_HUBS, SHAPE_PATH, SHAPE_STAR, SHAPE_EMPTY, N_SHAPE };

/* The probability in percent that u and v are neighbours. */
static unsigned percent(enum shape shape, unsigned n, unsigned u, unsigned v)
{
    switch (shape) {
    case SHAPE_RANDOM:
        return 3;
    case SHAPE_GROUPS:
        return u % 7 == v % 7 ? 30 : 1;
    case SHAPE_HUBS:
        return 2 * n / (1 + u) / (1 + v / 8);
    case SHAPE_PATH:
        return v == u + 1 ? 100 : 0;
    case SHAPE_STAR:
        return u == 0 && v % 3 > 0 ? 100 : 0;
    default:
        return 0;
    }
}

static struct weighted_graph graph_draw(enum shape shape, int32_t n, int32_t n_constraint, bool weighted)
{
    static int32_t weight[N_MOST][N_MOST];
    struct weighted_graph g = {.n_node = n, .n_constraint = n_constraint};
    memset(weight, 0, sizeof weight);
    int32_t n_entry = 0;
    for (int32_t u = 0; u < n; u++) {
        for (int32_t v = u + 1; v < n; v++) {
            if (draw(100) < percent(shape, (unsigned)n, (unsigned)u, (unsigned)v)) {
                weight[u][v] = weight[v][u] = weighted ? 1 + (int32_t)draw(9) : 1;
                n_entry += 2;
            }
        }
    }
    g.indptr = memory_alloc((size_t)n + 1, sizeof *g.indptr);
    g.indices = memory_alloc((size_t)n_entry + 1, sizeof *g.indices);
    g.edge_weight = weighted ? memory_alloc((size_t)n_entry + 1, sizeof *g.edge_weight) : NULL;
    g.node_weight = memory_alloc((size_t)(n * n_constraint), sizeof *g.node_weight);
    for (int32_t u = 0, at = 0; u < n; u++) {
        for (int32_t v = 0; v < n; v++) {
            if (weight[u][v] > 0) {
                g.indices[at] = v;
                if (weighted) {
                    g.edge_weight[at] = weight[u][v];
                }
                at++;
            }
        }
        g.indptr[u + 1] = at;
        for (int32_t c = 0; c < n_constraint; c++) {
            g.node_weight[u * n_constraint + c] = 1 + (int32_t)draw(c == 0 ? 1 : 5);
        }
    }
    return g;
}

static void graph_free(struct weighted_graph *g)
{
    free(g->indptr);
    free(g->indices);
    free(g->edge_weight);
    free(g->node_weight);
}

static int64_t entry_weight(const struct weighted_graph *g, int64_t e)
{
    return g->edge_weight != NULL ? g->edge_weight[e] : 1;
}

static int64_t entry_weights(const struct weighted_graph *g)
{
    int64_t sum = 0;
    for (int64_t e = 0; e < g->indptr[g->n_node]; e++) {
        sum += entry_weight(g, e);
    }
    return sum;
}

static int64_t cut_of(const struct weighted_graph *g, const int32_t *owner)
{
    int64_t cut = 0;
    for (int64_t v = 0; v < g->n_node; v++) {
        for (int64_t e = g->indptr[v]; e < g->indptr[v + 1]; e++) {
            cut += owner[g->indices[e]] != owner[v] ? entry_weight(g, e) : 0;
        }
    }
    return cut;
}

static int64_t heaviest_part(const struct weighted_graph *g, const int32_t *owner, int32_t n_part, int c)
{
    int64_t weight[64] = {0}, most = 0;
    for (int64_t v = 0; v < g->n_node; v++) {
        weight[owner[v]] += g->node_weight[v * g->n_constraint + c];
    }
    for (int32_t p = 0; p < n_part; p++) {
        most = weight[p] > most ? weight[p] : most;
    }
    return most;
}

static int64_t node_weights(const struct weighted_graph *g, int c)
{
    int64_t sum = 0;
    for (int64_t v = 0; v < g->n_node; v++) {
        sum += g->node_weight[v * g->n_constraint + c];
    }
    return sum;
}

/* --- methods that coarsen_parts may be given --- */

struct seen {
    const struct weighted_graph *whole;
    int32_t n_part, n_node; /* n_node: of the graph that the method got */
    bool by_metis;
    int64_t cut; /* of what the method made */
    bool even;   /* no part of it is so heavy that nodes must leave it */
};

/* What it is given has the whole graph's weights, and each entry's pair. */
static void check_coarse(const struct weighted_graph *whole, const struct weighted_graph *g)
{
    cr_assert_eq(g->n_constraint, whole->n_constraint);
    for (int c = 0; c < g->n_constraint; c++) {
        cr_expect_eq(node_weights(g, c), node_weights(whole, c));
    }
    int64_t links = 0, mirrored = 0;
    for (int32_t v = 0; v < g->n_node; v++) {
        for (int32_t e = g->indptr[v]; e < g->indptr[v + 1]; e++) {
            int32_t other = g->indices[e];
            cr_assert(other >= 0 && other < g->n_node && other != v);
            links += entry_weight(g, e);
            for (int32_t back = g->indptr[other]; back < g->indptr[other + 1]; back++) {
                mirrored += g->indices[back] == v && entry_weight(g, back) == entry_weight(g, e);
            }
        }
    }
    cr_expect_eq(mirrored, g->indptr[g->n_node], "not symmetric, or a pair twice");
    cr_expect_leq(links, entry_weights(whole));
}

static int method(const void *context, const struct weighted_graph *g, int32_t *owner)
{
    struct seen *seen = (struct seen *)(uintptr_t)context;
    seen->n_node = g->n_node;
    check_coarse(seen->whole, g);
    if (seen->by_metis) {
        idx_t n_node = g->n_node, n_constraint = g->n_constraint, n_part = seen->n_part, value;
        if (METIS_PartGraphKway(&n_node, &n_constraint, g->indptr, g->indices, g->node_weight, NULL, g->edge_weight,
                                &n_part, NULL, NULL, NULL, &value, owner) != METIS_OK) {
            return 7;
        }
    } else {
        for (int32_t v = 0; v < g->n_node; v++) {
            owner[v] = (int32_t)draw((unsigned)seen->n_part);
        }
    }
    seen->cut = cut_of(g, owner);
    seen->even = true;
    for (int c = 0; c < g->n_constraint; c++) {
        seen->even = seen->even &&
                     heaviest_part(g, owner, seen->n_part, c) * seen->n_part * 100 <= node_weights(g, c) * 103;
    }
    return 0;
}

static int refusing(const void *context, const struct weighted_graph *g, int32_t *owner)
{
    (void)context;
    memset(owner, 0, (size_t)g->n_node * sizeof *owner);
    return -3;
}

/* --- --- */

Test(coarsen, any_graph_keeps_its_weights_and_gets_valid_parts_that_are_the_same_again)
{
    for (int round = 0; round < 150; round++) {
        int32_t owner[N_MOST], again[N_MOST];
        drawn = 1000u + (unsigned)round;
        enum shape shape = (enum shape)(round % N_SHAPE);
        int32_t n = 2 + (int32_t)draw(N_MOST - 2), n_part = 2 + (int32_t)draw(7);
        struct weighted_graph g = graph_draw(shape, n, 1 + round / N_SHAPE % 2, round % 4 == 3);
        struct seen seen = {.whole = &g, .n_part = n_part};
        unsigned state = drawn;
        cr_assert_eq(coarsen_parts(&g, 0, n_part, method, &seen, owner), 0);
        for (int32_t v = 0; v < n; v++) {
            cr_assert(owner[v] >= 0 && owner[v] < n_part, "round %d", round);
        }
        drawn = state;
        cr_assert_eq(coarsen_parts(&g, 0, n_part, method, &seen, again), 0);
        cr_expect_arr_eq(owner, again, (size_t)n * sizeof *owner, "round %d", round);
        graph_free(&g);
    }
}

Test(coarsen, parts_are_nearly_as_good_as_the_methods_own_and_as_even)
{
    int64_t all = 0, all_direct = 0;
    int n_even = 0;
    for (int round = 0; round < 24; round++) {
        int32_t owner[N_MOST], direct[N_MOST];
        drawn = 77u + (unsigned)round;
        static const enum shape shapes[] = {SHAPE_RANDOM, SHAPE_GROUPS, SHAPE_HUBS, SHAPE_PATH};
        struct weighted_graph g = graph_draw(shapes[round % 4], N_MOST, 1 + round / 4 % 2, round % 8 > 3);
        struct seen seen = {.whole = &g, .n_part = 4, .by_metis = true}, whole = seen;
        cr_assert_eq(coarsen_parts(&g, INT32_MAX, 4, method, &whole, direct), 0);
        cr_expect_eq(whole.n_node, N_MOST, "a graph of few entries is not coarsened");
        cr_expect_eq(cut_of(&g, direct), whole.cut);
        cr_assert_eq(coarsen_parts(&g, 0, 4, method, &seen, owner), 0);
        cr_expect_lt(seen.n_node, N_MOST * 9 / 10, "round %d: %d nodes", round, seen.n_node);
        cr_expect(!seen.even || cut_of(&g, owner) <= seen.cut, "round %d: moves at borders lower the cut", round);
        n_even += seen.even;
        all += cut_of(&g, owner);
        all_direct += whole.cut;
        for (int c = 0; c < g.n_constraint; c++) {
            cr_expect_leq(heaviest_part(&g, owner, 4, c), node_weights(&g, c) * 30 / 100, "round %d", round);
        }
        graph_free(&g);
    }
    cr_expect_gt(n_even, 6);
    cr_expect_leq(all * 10, all_direct * 11, "%lld for %lld", (long long)all, (long long)all_direct);
}

Test(coarsen, what_the_method_refuses_is_refused)
{
    int32_t owner[N_MOST];
    drawn = 5;
    struct weighted_graph g = graph_draw(SHAPE_GROUPS, N_MOST, 1, false);
    cr_expect_eq(coarsen_parts(&g, 0, 3, refusing, NULL, owner), -3);
    graph_free(&g);
}
