/* Blocks merged into one: every edge of every part, in the order of the blocks. */
#include "worker/route/merged.h"
#include "worker/state/trainer_state.h"

#include "partition/part/part.h"
#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define N_PART 5

static struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct part *parts[N_PART], opened[N_PART], came[N_PART]; /* of the trainer; as they came */
    uint32_t rank_of_part[N_PART];
    struct exchange *exchange;
    struct device_ops ops;
    struct trainer *trainer;
} world;

static void world_open(const struct tiny_graph *graph, const char *model, int64_t merged_edges)
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
    cr_assert_eq(partition_build(&world.dataset, &world.job, &world.partition), STATUS_OK, "%s", status_reason());
    for (int32_t p = 0; p < N_PART; p++) {
        world.opened[p] = cut_part(&world.dataset, &world.partition, p);
        world.came[p] = cut_part(&world.dataset, &world.partition, p);
        world.parts[p] = &world.opened[p];
    }
    cr_assert_eq(exchange_open(64, 64, &world.exchange), STATUS_OK);
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
        cut_part_close(&world.came[p]);
    }
    partition_release(&world.partition);
    tiny_release(&world.dataset);
}

/* Which node each row of the arena is; -1: none. */
static void nodes_of(int64_t *node)
{
    const struct trainer *t = world.trainer;
    for (int64_t r = 0; r < t->plan.rows.n_row; r++) {
        node[r] = -1;
    }
    for (int32_t i = 0; i < N_PART; i++) {
        for (int64_t r = 0; r < t->own.part[i].part->n_own; r++) {
            node[t->plan.rows.row_begin[i] + r] = t->own.part[i].part->node[r];
        }
    }
}

/* The neighbours of own row r of part i in the order of its blocks are those that the joined block lists. */
static void row_agrees(enum part_direction d, int32_t i, int64_t r, const int64_t *node)
{
    const struct trainer *t = world.trainer;
    const struct device_block *merged = merged_block(t->routes.merged, d);
    int64_t at = merged->indptr[t->plan.rows.row_begin[i] + r],
            end = merged->indptr[t->plan.rows.row_begin[i] + r + 1];
    for (int32_t s = 0; s < N_PART; s++) {
        const struct part_block b = part_block(&world.came[i], d, (i + s) % N_PART);
        for (int64_t k = 0; k < b.n_row; k++) {
            if ((b.rows != NULL ? b.rows[k] : k) != r) {
                continue;
            }
            for (int64_t e = b.indptr[k]; e < b.indptr[k + 1]; e++, at++) {
                const struct part *other = t->own.part[(i + s) % N_PART].part;
                cr_assert_lt(at, end);
                uint32_t of = (s == 0 ? other->node : b.node)[b.cols[e]];
                cr_assert_eq(node[merged->cols[at]], of, "columns are the other part's own rows");
                cr_assert(b.weights == NULL || merged->weights[at] == b.weights[e]);
            }
        }
    }
    cr_assert_eq(at, end);
}

static void agrees(void)
{
    const struct trainer *t = world.trainer;
    int64_t *node = calloc((size_t)t->plan.rows.n_row, sizeof *node), n_edge = 0;
    nodes_of(node);
    for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
        cr_assert_not_null(merged_block(t->routes.merged, d));
        for (int32_t i = 0; i < N_PART; i++) {
            for (int64_t r = 0; r < t->own.part[i].part->n_own; r++) {
                row_agrees(d, i, r, node);
            }
        }
        n_edge = merged_block(t->routes.merged, d)->n_edge;
        cr_expect_eq(n_edge, world.dataset.n_edge);
        cr_expect_eq(merged_block(t->routes.merged, d)->indptr[t->plan.rows.n_row], n_edge,
                     "rows between the parts' have no edges");
    }
    free(node);
}

Test(merged, every_rows_edges_come_in_the_order_of_its_parts_blocks)
{
    world_open(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5}, "kind = \"gcn\"",
               1000);
    agrees();
    world_close();
    world_open(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .seed = 6}, "kind = \"sage\"", 1000);
    agrees();
    world_close();
    world_open(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .weighted = true, .seed = 7}, "kind = \"gcn\"",
               1000);
    agrees();
    world_close();
}

Test(merged, a_row_of_more_edges_than_the_device_sums_alike_leaves_blocks_as_they_are)
{
    const struct tiny_graph graph = {.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5};
    world_open(&graph, "kind = \"gcn\"", 3);
    cr_expect_null(merged_block(world.trainer->routes.merged, PART_DIRECTION_IN));
    world_close();
    world_open(&graph, "kind = \"gcn\"", 0);
    cr_expect_null(merged_block(world.trainer->routes.merged, PART_DIRECTION_IN));
    world_close();
}

Test(merged, models_without_sums_over_neighbours_take_no_memory_for_it)
{
    world_open(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5}, "kind = \"gat\"",
               1000);
    cr_expect_null(merged_block(world.trainer->routes.merged, PART_DIRECTION_IN));
    cr_expect_eq(world.trainer->plan.merged[PART_DIRECTION_IN], 0);
    world_close();
}
