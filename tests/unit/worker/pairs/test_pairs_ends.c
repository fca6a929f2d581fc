/* Pairs of edges' ends: every end has as many as it should, of every node alike, none with an edge; lists of them. */
#include "worker/pairs/pairs_ends.h"

#include "protocol/base/memory.h"
#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { N_NODE = 30, N_EPOCH = 500, N_ITEM = 4000 };

/* What is drawn in some epochs: of each node that takes an end's place, how often, and how often it is left out. */
struct drawn {
    int64_t n, n_left_out, count[N_NODE];
};

struct seen {
    const struct cut *cut;
    const struct pairs_draw *draw;
    int64_t *number; /* of the part's scores, how often */
};

static uint32_t node_at(const struct cut *cut, int p, int64_t row)
{
    return cut->partition.order[cut->partition.part_begin[p] + row];
}

static bool is_edge(const struct dataset *d, uint32_t a, uint32_t b, uint32_t type)
{
    return d->facts.n_relation > 0
               ? tiny_typed_edge(d, a, b, (uint16_t)type) >= 0 || tiny_typed_edge(d, b, a, (uint16_t)type) >= 0
               : tiny_edge(d, a, b) >= 0 || tiny_edge(d, b, a) >= 0;
}

/* A block's edges come first, each with an edge's number; then pairs without one, each of an edge at the row. */
static void block_check(const struct seen *s, int p, int q, const struct pairs_item *item, int64_t n, int64_t n_edge,
                        struct drawn *out)
{
    const struct part *part = &s->cut->part[p];
    const int64_t each = 1 + s->draw->negatives;
    for (int64_t k = 0; k < n; k++) {
        const int64_t entry = item[k].number / each;
        s->number[item[k].number]++;
        cr_assert(part->links.indptr[item[k].row] <= entry && entry < part->links.indptr[item[k].row + 1]);
        cr_assert_eq(item[k].number % each == 0, k < n_edge);
        cr_assert_eq(item[k].type, part->links.types != NULL ? part->links.types[entry] : 0);
        if (k < n_edge) {
            cr_assert_eq(s->draw->begin[q] + item[k].other, part->links.places[entry]);
            continue;
        }
        out->n++;
        if (item[k].other == PAIRS_LEFT_OUT) {
            out->n_left_out++;
            continue;
        }
        const uint32_t node = node_at(s->cut, p, item[k].row), other = node_at(s->cut, q, item[k].other);
        cr_assert(node != other && !is_edge(&s->cut->dataset, node, other, pairs_relation(item[k].type)));
        out->count[other]++;
    }
}

static void epoch_check(const struct seen *s, int p, uint32_t epoch, struct device *device, struct drawn *out)
{
    static struct pairs_item item[N_ITEM];
    const struct random_key key = {.seed = 5, .epoch = epoch};
    const int64_t n_score = s->draw->n_end[p] * (1 + s->draw->negatives);
    s->number[0] = 0;
    for (int64_t k = 0; k < n_score; k++) {
        s->number[k] = 0;
    }
    for (int q = 0; q < s->cut->partition.n_part; q++) {
        int64_t n_edge = pairs_ends_listed(s->draw, &s->cut->part[p], q),
                n = pairs_ends_block(s->draw, &key, &s->cut->part[p], q, device, item);
        cr_assert_eq(n_edge, pairs_ends_between(s->draw, &s->cut->part[p].halo, false, q), "parts %d and %d", p, q);
        cr_assert_eq(n, n_edge + pairs_ends_count(s->draw, &key, p, q));
        cr_assert_leq(n, n_edge + pairs_ends_most(s->draw, p, q));
        block_check(s, p, q, item, n, n_edge, out);
    }
    for (int64_t k = 0; k < n_score; k++) {
        cr_assert_eq(s->number[k], 1, "score %ld of part %d in epoch %u", (long)k, p, epoch);
    }
}

static void check(const struct tiny_graph *graph, int n_part, int64_t negatives)
{
    struct tiny_graph links = *graph;
    struct cut cut;
    struct pairs_draw draw;
    struct drawn all = {0};
    struct device *device;
    links.of_links = true;
    cut_open(&links, n_part, JOB_METHOD_RANDOM, 0, &cut);
    pairs_draw_open(&(struct pairs_draw_input){.n_part = n_part,
                                               .rows = cut.part[0].links.rows,
                                               .ends = cut.part[0].links.ends,
                                               .n_link = cut.part[0].links.n,
                                               .n_joined = -1,
                                               .negatives = negatives},
                    &draw);
    struct seen seen = {&cut, &draw, memory_alloc(N_ITEM, sizeof *seen.number)};
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    for (uint32_t epoch = 0; epoch < N_EPOCH; epoch++) {
        for (int p = 0; p < n_part; p++) {
            epoch_check(&seen, p, epoch, device, &all);
        }
    }
    cr_assert_eq(all.n, 2 * cut.part[0].links.n * negatives * N_EPOCH);
    /* A node is drawn alike, and left out where it has an edge: of n ends those whose node it is or is joined with. */
    for (uint32_t v = 0; v < N_NODE; v++) {
        double n_may = 0.0;
        for (int p = 0; p < n_part; p++) {
            for (int64_t r = 0; r < cut.part[p].n_own; r++) {
                for (int64_t e = cut.part[p].links.indptr[r]; e < cut.part[p].links.indptr[r + 1]; e++) {
                    uint32_t type = cut.part[p].links.types != NULL ? cut.part[p].links.types[e] : 0,
                             u = node_at(&cut, p, r);
                    n_may += u != v && !is_edge(&cut.dataset, u, v, pairs_relation(type));
                }
            }
        }
        double mean = n_may * (double)negatives * N_EPOCH / N_NODE;
        cr_expect_lt(fabs((double)all.count[v] - mean), 5.0 * sqrt(mean) + 1.0, "node %u: %ld, expected about %.0f",
                     v, (long)all.count[v], mean);
    }
    device_cpu.close(device);
    free(seen.number);
    pairs_draw_close(&draw);
    cut_close(&cut);
}

Test(pairs_ends, every_end_of_an_edge_has_its_pairs_of_any_node_without_an_edge)
{
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 45, .symmetric = true, .no_loops = true, .seed = 3}, 1, 2);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 45, .symmetric = true, .loops = true, .seed = 3}, 5, 3);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 60, .loops = true, .seed = 4}, 3, 1);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 70, .n_relation = 3, .seed = 5}, 4, 2);
    check(&(struct tiny_graph){.n_node = N_NODE, .n_draw = 40, .hub = true, .seed = 6}, N_NODE / 2, 4);
}

Test(pairs_ends, a_list_is_in_order_of_heads_and_either_rows_without_what_is_left_out)
{
    static const struct pairs_item item[] = {{.row = 4, .other = 1, .type = 4, .number = 10},
                                             {.row = 0, .other = PAIRS_LEFT_OUT, .number = 11},
                                             {.row = 1, .other = 1, .type = 0, .number = 12},
                                             {.row = 0, .other = 2, .type = 3, .number = 14},
                                             {.row = 4, .other = 0, .type = 2, .number = 13}};
    enum { N = sizeof item / sizeof *item, N_ROW = 5 };
    void *memory = memory_alloc(pairs_list_bytes(N_ROW, N), 1);
    struct pairs_list list = pairs_list_in(memory, N_ROW, N);
    pairs_list_sort(item, N, false, N_ROW, &list);
    cr_assert(list.n == 4 && list.n_head == 3);
    cr_assert(list.rows[0] == 1 && list.rows[1] == 4 && list.rows[2] == 4 && list.rows[3] == 0);
    cr_assert(list.numbers[0] == 12 && list.numbers[1] == 10 && list.numbers[2] == 13 && list.numbers[3] == 14);
    cr_assert(list.relations[1] == 2 && list.relations[2] == 1 && list.relations[3] == 1);
    pairs_list_sort(item, N, true, N_ROW, &list);
    cr_assert(list.n == 4 && list.n_head == 1 && list.rows[0] == 2 && list.places[0] == 0);
    cr_assert(list.rows[1] == 0 && list.places[1] == 4 && list.relations[1] == 1);
    cr_assert(list.rows[2] == 1 && list.places[2] == 4 && list.places[3] == 1 && list.numbers[3] == 12);
    free(memory);
}
