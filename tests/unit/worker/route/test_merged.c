/* Blocks merged into one: every edge of every part, in the order of the blocks. */
#include "worker/route/merged.h"
#include "worker/state/trainer_state.h"

#include "partition/methods/reach.h"
#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define N_PART 5

static struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct part *parts[N_PART], opened[N_PART]; /* of the trainer */
    uint32_t rank_of_part[N_PART];
    struct exchange *exchange;
    struct device_ops ops;
    struct trainer *trainer;
} world;

/* Node 0 alone is trained on, so that most rows are further from it than a model of few layers reaches. */
static void few_trained(void)
{
    for (int64_t v = 0; v < world.dataset.n_node; v++) {
        world.dataset.labels.n_split[world.dataset.labels.split[v]]--;
        world.dataset.labels.split[v] = (uint8_t)(v == 0 ? DATASET_SPLIT_TRAIN : DATASET_SPLIT_TEST);
        world.dataset.labels.n_split[world.dataset.labels.split[v]]++;
    }
}

static void world_open(const struct tiny_graph *graph, const char *model, int n_hop, int64_t merged_edges)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = %d\nmethod = \"random\"\n[model]\n%s\nhidden = 2\n",
        N_PART, model);
    world = (struct world){.ops = device_cpu};
    world.ops.merged_edges = merged_edges;
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &world.job), STATUS_OK, "%s", status_reason());
    world.dataset = tiny_build(graph);
    few_trained();
    cr_assert_eq(partition_build(&world.dataset, &world.job, &world.partition), STATUS_OK, "%s", status_reason());
    if (n_hop > 0) {
        struct reach reach;
        cr_assert_eq(reach_build(&world.dataset, n_hop, &reach), STATUS_OK);
        cr_assert_eq(reach_order(&reach, &world.partition), STATUS_OK);
    }
    for (int32_t p = 0; p < N_PART; p++) {
        world.opened[p] = cut_part(&world.dataset, &world.partition, p);
        world.parts[p] = &world.opened[p];
    }
    world.exchange = exchange_open(64, 64);
    const struct trainer_setup setup = {.job = &world.job,
                                        .ops = &world.ops,
                                        .n_thread = 1,
                                        .n_rank = 1,
                                        .n_part = N_PART,
                                        .parts = world.parts,
                                        .rank_of_part = world.rank_of_part,
                                        .exchange = world.exchange};
    cr_assert_eq(trainer_open(&setup, &world.trainer), STATUS_OK, "%s", status_reason());
}

static void world_close(void)
{
    trainer_close(world.trainer);
    exchange_close(world.exchange);
    for (int32_t p = 0; p < N_PART; p++) {
        cut_part_close(&world.opened[p]);
    }
    partition_release(&world.partition);
    tiny_release(&world.dataset);
}

static bool has_block(enum part_direction d, int32_t hop)
{
    struct device_block block;
    const struct merged_hops hops = {.of = hop, .from = PROGRAM_HOP_ALL, .to = PROGRAM_HOP_ALL};
    return merged_block(world.trainer->routes.merged, d, &hops, &block);
}

/* --- the graph itself --- */

/* An edge of row v: its other end, and the place of that in the order in which v's part adds. */
struct neighbour {
    int64_t node, place;
    float weight;
};

static int by_place(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool counts(int64_t node, int32_t hop)
{
    return world.partition.n_hop == 0 || hop >= world.partition.n_hop || world.partition.hop[node] <= hop;
}

/* Which row of its part a node is, and of which part. */
static int64_t row_of(int64_t node, int32_t *part_out)
{
    for (int32_t p = 0; p < N_PART; p++) {
        for (int64_t r = world.partition.part_begin[p]; r < world.partition.part_begin[p + 1]; r++) {
            if (world.partition.order[r] == node) {
                *part_out = p;
                return r - world.partition.part_begin[p];
            }
        }
    }
    cr_assert_fail("node %lld is in no part", (long long)node);
    return -1;
}

/* Parts from v's own on, around, and in each of them by row. */
static void neighbour_add(int64_t v, int64_t u, int64_t edge, struct neighbour *list, int64_t *n)
{
    int32_t of, own;
    int64_t r = row_of(u, &of);
    row_of(v, &own);
    list[(*n)++] = (struct neighbour){.node = u,
                                      .place = (of - own + N_PART) % N_PART * world.dataset.n_node + r,
                                      .weight = edge >= 0 ? world.dataset.edge_weight[edge] : 1.0F};
}

/* The edges of v that a sum with an output of a hop adds: its in-edges; or those towards nodes that count, with v's
 * own loop where others would be added on their own. */
static int64_t neighbours(enum part_direction d, int32_t hop, int64_t v, struct neighbour *list)
{
    const struct dataset *dataset = &world.dataset;
    int64_t n = 0;
    for (int64_t w = 0; w < dataset->n_node; w++) {
        for (int64_t e = dataset->indptr[w]; e < dataset->indptr[w + 1]; e++) {
            int64_t u = dataset->indices[e], edge = dataset->edge_weight != NULL ? e : -1;
            if (d == PART_DIRECTION_IN && w == v) {
                neighbour_add(v, u, edge, list, &n);
            } else if (d == PART_DIRECTION_OUT && u == v && counts(w, hop)) {
                neighbour_add(v, w, edge, list, &n);
            }
        }
    }
    bool picks = d == PART_DIRECTION_OUT && hop < world.partition.n_hop;
    if (picks && dataset->facts.loops == GRAPH_LOOPS_IMPLICIT && counts(v, hop)) {
        neighbour_add(v, v, -1, list, &n);
    }
    qsort(list, (size_t)n, sizeof *list, by_place);
    return n;
}

/* --- merged blocks against it --- */

/* Which node each row of an array of a hop's rows is; -1: none. */
static void nodes_of(int32_t hop, int64_t *node)
{
    const struct memory_plan *plan = &world.trainer->plan;
    for (int64_t r = 0; r < memory_plan_rows(plan, hop); r++) {
        node[r] = -1;
    }
    for (int32_t p = 0; p < N_PART; p++) {
        int64_t first = world.partition.part_begin[p];
        for (int64_t r = first; r < world.partition.part_begin[p + 1]; r++) {
            if (counts(world.partition.order[r], hop)) {
                node[memory_plan_row_begin(plan, hop, p) + r - first] = world.partition.order[r];
            }
        }
    }
}

/* One row adds what the graph has; columns below DEVICE_BORDER. */
static void row_agrees(enum part_direction d, int32_t hop, const struct device_block *block, int64_t r, int64_t v,
                       const int64_t *from)
{
    struct neighbour list[64];
    int64_t n = neighbours(d, hop, v, list), begin = block->indptr[r];
    cr_assert_eq(block->indptr[r + 1] - begin, n, "direction %d hop %d: row of node %lld has %lld edges, not %lld", d,
                 hop, (long long)v, (long long)(block->indptr[r + 1] - begin), (long long)n);
    for (int64_t k = 0; k < n; k++) {
        cr_assert_eq(from[block->cols[begin + k]], list[k].node, "direction %d hop %d: edge %lld of node %lld", d,
                     hop, (long long)k, (long long)v);
        cr_assert(block->weights == NULL || block->weights[begin + k] == list[k].weight);
    }
}

/* Every row that counts is there once, and no other row that is a node. */
static void block_agrees(enum part_direction d, int32_t hop, int32_t cols, int32_t rows)
{
    const struct memory_plan *plan = &world.trainer->plan;
    const struct merged_hops hops = {.of = hop, .from = cols, .to = rows};
    int64_t *from = calloc((size_t)memory_plan_rows(plan, cols), sizeof *from), n_seen = 0, n_node = 0;
    int64_t *to = calloc((size_t)memory_plan_rows(plan, rows), sizeof *to);
    struct device_block block;
    nodes_of(cols, from);
    nodes_of(rows, to);
    cr_assert(merged_block(world.trainer->routes.merged, d, &hops, &block), "direction %d hop %d", d, hop);
    for (int64_t r = 0; r < block.n_row; r++) {
        int64_t at = block.rows != NULL ? block.rows[r] : r, v = to[at];
        if (v < 0) {
            cr_assert_eq(block.indptr[r + 1], block.indptr[r], "rows between the parts' have no edges");
            continue;
        }
        row_agrees(d, hop, &block, r, v, from);
        cr_expect(counts(v, d == PART_DIRECTION_OUT ? program_hop_before(hop) : hop));
        to[at] = -1;
        n_seen++;
    }
    for (int64_t v = 0; v < world.dataset.n_node; v++) {
        n_node += counts(v, d == PART_DIRECTION_OUT ? program_hop_before(hop) : hop);
    }
    cr_expect_eq(n_seen, n_node, "direction %d hop %d: %lld of %lld rows", d, hop, (long long)n_seen,
                 (long long)n_node);
    cr_expect_eq(block.n_edge, block.indptr[block.n_row]);
    free(from);
    free(to);
}

static const struct tiny_graph graphs[] = {{.n_node = 60, .n_draw = 70, .symmetric = true, .seed = 5},
                                           {.n_node = 60, .n_draw = 140, .seed = 6},
                                           {.n_node = 60, .n_draw = 140, .no_loops = true, .seed = 8},
                                           {.n_node = 60, .n_draw = 140, .loops = true, .seed = 9},
                                           {.n_node = 60, .n_draw = 140, .weighted = true, .seed = 7}};
enum { N_GRAPH = sizeof graphs / sizeof *graphs };

Test(merged, every_rows_edges_come_in_the_order_of_its_parts_blocks)
{
    for (int g = 0; g < N_GRAPH; g++) {
        world_open(&graphs[g], g % 2 == 0 ? "kind = \"gcn\"" : "kind = \"sage\"", 0, 1000);
        for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
            block_agrees(d, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL);
        }
        world_close();
    }
}

/* Have the parts transposed blocks of a hop of their own? */
static bool parts_have(int32_t hop)
{
    return part_device_blocks(&world.trainer->own.part[0], PART_DIRECTION_OUT, hop)->at != NULL;
}

/* The sums of a model of three layers whose first one is computed once, or whose aggregates follow their linear
 * maps. */
Test(merged, blocks_of_a_hop_have_the_edges_to_rows_that_count_and_no_others)
{
    static const char model[] = "kind = \"gcn\"\nlayers = 3";
    for (int g = 0; g < N_GRAPH; g++) {
        world_open(&graphs[g], model, 3, 1000);
        block_agrees(PART_DIRECTION_IN, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL);
        for (int32_t hop = 0; hop < 2; hop++) {
            block_agrees(PART_DIRECTION_IN, hop, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL);
            block_agrees(PART_DIRECTION_OUT, hop, hop, hop + 1);
            block_agrees(PART_DIRECTION_OUT, hop, hop, PROGRAM_HOP_ALL);
            cr_expect_not(parts_have(hop), "edges are there once");
        }
        world_close();
    }
}

Test(merged, a_row_of_more_edges_than_the_device_sums_alike_leaves_blocks_as_they_are)
{
    const struct tiny_graph graph = {.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5};
    world_open(&graph, "kind = \"gcn\"", 0, 3);
    cr_expect_not(has_block(PART_DIRECTION_IN, PROGRAM_HOP_ALL));
    world_close();
    world_open(&graph, "kind = \"gcn\"", 0, 0);
    cr_expect_not(has_block(PART_DIRECTION_IN, PROGRAM_HOP_ALL));
    world_close();
    world_open(&graph, "kind = \"gcn\"\nlayers = 3", 3, 3);
    cr_expect_not(has_block(PART_DIRECTION_IN, PROGRAM_HOP_ALL));
    cr_expect_not(has_block(PART_DIRECTION_IN, 0), "they are the first rows of all");
    cr_expect(parts_have(1) && !has_block(PART_DIRECTION_OUT, 1));
    world_close();
}

/* A model of attention drops coefficients by the ids of nodes, which are listed for it. */
Test(merged, attentions_have_merged_blocks_and_the_nodes_of_all_rows)
{
    static const char *const models[] = {"kind = \"gat\"\nattention_dropout = 0.5", "kind = \"transformer\""};
    for (int g = 0; g < N_GRAPH; g++) {
        world_open(&graphs[g], models[g % 2], 0, 1000);
        const struct memory_plan *plan = &world.trainer->plan;
        const uint32_t *node = merged_node(world.trainer->routes.merged);
        int64_t *of = calloc((size_t)plan->rows.n_row, sizeof *of);
        nodes_of(PROGRAM_HOP_ALL, of);
        for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
            block_agrees(d, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL, PROGRAM_HOP_ALL);
        }
        cr_expect_eq(node != NULL, g % 2 == 0);
        for (int64_t r = 0; r < plan->rows.n_row && node != NULL; r++) {
            cr_expect(of[r] < 0 || node[r] == of[r], "row %lld", (long long)r);
        }
        free(of);
        world_close();
    }
}

/* What lies in arrays of several hops, and sums that depend on where a block begins. */
Test(merged, models_without_sums_that_join_take_no_memory_for_it)
{
    static const struct {
        const char *model;
        int n_hop;
    } of[] = {{"kind = \"gat\"\nlayers = 3", 3}, {"kind = \"sage\"\naggregator = \"max\"", 0}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        world_open(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5}, of[i].model,
                   of[i].n_hop, 1000);
        cr_expect_not(has_block(PART_DIRECTION_IN, PROGRAM_HOP_ALL));
        cr_expect_eq(world.trainer->plan.merged.n_edge[PART_DIRECTION_IN][0], 0);
        world_close();
    }
}
