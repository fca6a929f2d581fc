/* Rows on their way between two workers in one process: what one gives is what the other takes, row for row. */
#include "worker/route/dedup.h"
#include "worker/route/dedup_cover.h"
#include "worker/route/sample.h"
#include "worker/route/sample_dedup.h"
#include "worker/route/stored.h"
#include "worker/state/trainer_state.h"

#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PART = 4, N_RANK = 2 };

static struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct part opened[N_PART], came[N_PART]; /* of trainers; as they came */
    struct part *parts[N_RANK][N_PART];
    uint32_t rank_of_part[N_PART];
    struct exchange *exchange[N_RANK];
    struct trainer *trainer[N_RANK];
    uint32_t n_rank;
} w;

/* Parts 0 and 2 are of rank 0, 1 and 3 of rank 1; or all of rank 0. */
static void world_open(const char *text, uint32_t n_rank, bool covered, bool stores)
{
    char job[512];
    snprintf(job, sizeof job, "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\nmethod = \"random\"\n%s",
             text);
    w = (struct world){.n_rank = n_rank};
    cr_assert_eq(job_load_text(job, strlen(job), "test", NULL, 0, &w.job), STATUS_OK, "%s", status_reason());
    w.dataset = tiny_build(&(struct tiny_graph){.n_node = 60, .n_draw = 400, .symmetric = true, .seed = 5});
    cr_assert_eq(partition_build(&w.dataset, &w.job, &w.partition), STATUS_OK, "%s", status_reason());
    w.partition.covered = covered;
    w.partition.stores = stores;
    for (int32_t p = 0; p < N_PART; p++) {
        w.opened[p] = cut_part(&w.dataset, &w.partition, p);
        w.came[p] = cut_part(&w.dataset, &w.partition, p);
        w.rank_of_part[p] = (uint32_t)p % n_rank;
        w.parts[w.rank_of_part[p]][p] = &w.opened[p];
    }
    for (uint32_t rank = 0; rank < n_rank; rank++) {
        w.exchange[rank] = exchange_open(64, 64);
        const struct trainer_setup setup = {.job = &w.job,
                                            .ops = &device_cpu,
                                            .n_thread = 1,
                                            .rank = rank,
                                            .n_rank = n_rank,
                                            .n_part = N_PART,
                                            .parts = w.parts[rank],
                                            .rank_of_part = w.rank_of_part,
                                            .exchange = w.exchange[rank]};
        cr_assert_eq(trainer_open(&setup, &w.trainer[rank]), STATUS_OK, "%s", status_reason());
    }
}

static void world_close(void)
{
    for (uint32_t rank = 0; rank < w.n_rank; rank++) {
        trainer_close(w.trainer[rank]);
        exchange_close(w.exchange[rank]);
    }
    for (int32_t p = 0; p < N_PART; p++) {
        cut_part_close(&w.opened[p]);
        cut_part_close(&w.came[p]);
    }
    partition_release(&w.partition);
    tiny_release(&w.dataset);
}

/* A part's worker, and its place there. */
static struct trainer *of_part(int32_t p, int32_t *i_out)
{
    struct trainer *t = w.trainer[w.rank_of_part[p]];
    *i_out = t->own.index[p];
    return t;
}

static const struct part_pairs *pairs_of(int32_t p, enum part_direction d)
{
    return &w.opened[p].halo.pairs[d];
}

/* Node ids of the payload rows of part p's pair k. */
static const uint32_t *nodes_of(int32_t p, int32_t k)
{
    return w.opened[p].arrays[PART_DIRECTION_IN].node + part_pair_off_diagonal(pairs_of(p, PART_DIRECTION_IN), k).col;
}

/* --- sampling --- */

static void expect_alike(int32_t taker, int32_t giver, int64_t *n_drawn_out, int64_t *n_all_out)
{
    int32_t i, j, k = part_pair_find(pairs_of(taker, PART_DIRECTION_IN), giver),
                  back = part_pair_find(pairs_of(giver, PART_DIRECTION_OUT), taker);
    const struct trainer *t = of_part(taker, &i), *u = of_part(giver, &j);
    int64_t n = sample_drawn(t->routes.sample)[i].received[k];
    cr_assert_eq(sample_drawn(u->routes.sample)[j].sent[back], n);
    const uint32_t *received = sample_received(t->routes.sample, i, k),
                   *sent = sample_sent(u->routes.sample, j, back);
    for (int64_t r = 0; r < n; r++) {
        cr_assert_eq(nodes_of(taker, k)[received[r]], w.opened[giver].node[sent[r]]);
    }
    *n_drawn_out += n;
    *n_all_out += part_pair_cols(pairs_of(taker, PART_DIRECTION_IN), k);
}

Test(routes, ten_rows_are_drawn_by_their_nodes_whatever_the_list)
{
    static const uint32_t rows[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, n_at_hop[2] = {3, 6};
    static const uint32_t node[10] = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    const struct job job = {.exchange = {.sampling = 0.5}};
    const struct row_filter *filter = row_filter_of(&job);
    struct row_filter_epoch epoch = {.key = {.seed = 7, .epoch = 2, .stream = RANDOM_STREAM_SAMPLE},
                                     .threshold = UINT64_C(1) << 31};
    uint32_t out[2][10], n_drawn[2][3], n = 0;
    struct sample_rows from = {
        .n = 10, .rows = rows, .node = node, .n_hop = 2, .n_at_hop = n_at_hop, .out = out[0], .n_drawn = n_drawn[0]};
    sample_filter(filter, &epoch, &from);
    for (uint32_t i = 0; i < 10; i++) {
        if (i == 3 || i == 6) {
            cr_expect_eq(n_drawn[0][i / 3 - 1], n, "rows of the first hops");
        }
        if (random_u32(&epoch.key, node[rows[i]], 0) < epoch.threshold) {
            cr_expect_eq(out[0][n++], rows[i]);
        }
    }
    cr_expect_eq(n_drawn[0][2], n);
    cr_expect(n > 0 && n < 10);
    from.rows = NULL;
    from.out = out[1];
    from.n_drawn = n_drawn[1];
    sample_filter(filter, &epoch, &from);
    cr_assert_eq(n_drawn[1][2], n, "the same nodes");
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_eq(out[1][i], out[0][n - 1 - i]);
    }
    epoch.threshold = UINT64_C(1) << 32;
    sample_filter(filter, &epoch, &from);
    cr_expect(n_drawn[1][0] == 3 && n_drawn[1][1] == 6 && n_drawn[1][2] == 10);
}

/* So that rows divided by it have the mean of all rows, also where a pair has one row. */
Test(routes, each_row_is_drawn_as_often_as_sampling_says)
{
    enum { N_EPOCH = 100000 };
    static const uint32_t node[1] = {17};
    const struct job job = {.exchange = {.sampling = 0.1}};
    struct row_filter_epoch at = {.key = {.seed = 7, .stream = RANDOM_STREAM_SAMPLE},
                                  .threshold = (uint64_t)(0.1 * 4294967296.0)};
    uint32_t out[1], n_drawn[1], n = 0;
    const struct sample_rows from = {.n = 1, .node = node, .out = out, .n_drawn = n_drawn};
    for (at.key.epoch = 0; at.key.epoch < N_EPOCH; at.key.epoch++) {
        sample_filter(row_filter_of(&job), &at, &from);
        n += n_drawn[0];
    }
    cr_expect_lt(abs((int)n - N_EPOCH / 10), 380, "%u draws, 4 standard deviations are 380", n);
}

Test(routes, both_ends_draw_the_same_rows_of_a_sample)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 4\ninput_dropout = 0.5\n[exchange]\nsampling = 0.4\n", N_RANK,
               false, false);
    for (uint32_t epoch = 0; epoch < 5; epoch++) {
        int64_t n_drawn = 0, n_all = 0;
        for (uint32_t rank = 0; rank < N_RANK; rank++) {
            w.trainer[rank]->run.epoch = epoch;
            cr_assert_eq(
                sample_draw(w.trainer[rank]->routes.sample, w.trainer[rank]->run.epoch, &w.trainer[rank]->run.level),
                STATUS_OK);
        }
        for (int32_t p = 0; p < N_PART; p++) {
            for (int32_t q = 0; q < N_PART; q++) {
                if (p != q) {
                    expect_alike(p, q, &n_drawn, &n_all);
                }
            }
        }
        cr_expect(n_drawn > n_all / 5 && n_drawn < 3 * n_all / 5, "%lld of %lld", (long long)n_drawn,
                  (long long)n_all);
    }
    world_close();
}

/* What a worker takes of part q on a side: each own part finds its drawn rows in it. */
static void expect_scatter(int32_t taker, int32_t giver)
{
    int32_t i, j, k = part_pair_find(pairs_of(taker, PART_DIRECTION_IN), giver);
    const struct trainer *t = of_part(taker, &i), *u = of_part(giver, &j);
    const struct dedup_list list = {
        .i = j, .rank = w.rank_of_part[taker], .side = part_dedup_side_at(giver, taker), .hop = PROGRAM_HOP_ALL};
    int64_t n_there = part_dedup_rows(sample_dedup_counts(sample_get_dedup(t->routes.sample)), PART_DIRECTION_IN,
                                      giver, list.rank, list.side, PROGRAM_HOP_ALL);
    cr_assert_eq(part_dedup_rows(sample_dedup_counts(sample_get_dedup(u->routes.sample)), PART_DIRECTION_IN, giver,
                                 list.rank, list.side, PROGRAM_HOP_ALL),
                 n_there);
    const uint32_t *sent = sample_dedup_sent(sample_get_dedup(u->routes.sample), &list),
                   *scatter = sample_dedup_scatter(sample_get_dedup(t->routes.sample), i, k);
    int64_t n = sample_drawn(t->routes.sample)[i].received[k];
    for (int64_t r = 0; r < n; r++) {
        cr_assert_lt(scatter[r], n_there);
        cr_assert_eq(w.opened[giver].node[sent[scatter[r]]],
                     nodes_of(taker, k)[sample_received(t->routes.sample, i, k)[r]]);
    }
}

Test(routes, each_part_finds_its_drawn_rows_in_what_comes_once_for_its_worker)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 4\ninput_dropout = 0.5\n[exchange]\nsampling = 0.4\n", N_RANK,
               false, false);
    for (uint32_t rank = 0; rank < N_RANK; rank++) {
        w.trainer[rank]->run.epoch = 3;
        cr_assert_eq(
            sample_draw(w.trainer[rank]->routes.sample, w.trainer[rank]->run.epoch, &w.trainer[rank]->run.level),
            STATUS_OK);
    }
    for (int32_t p = 0; p < N_PART; p++) {
        expect_scatter(p, (p + 1) % N_PART);
        expect_scatter(p, (p + 3) % N_PART);
    }
    world_close();
}

/* --- deduplicated rows, and covers --- */

/* Columns of the taker's remapped block count rows of the list, which the giver has in the same order. */
static void expect_listed(int32_t taker, int32_t giver)
{
    int32_t i, j, k = part_pair_find(pairs_of(taker, PART_DIRECTION_IN), giver);
    const struct trainer *t = of_part(taker, &i), *u = of_part(giver, &j);
    const struct dedup_list list = {
        .i = j, .rank = w.rank_of_part[taker], .side = part_dedup_side_at(giver, taker), .hop = PROGRAM_HOP_ALL};
    const uint32_t *sent = dedup_sent(u->routes.dedup, &list),
                   *node = dedup_node(t->routes.dedup, PART_DIRECTION_IN, PROGRAM_HOP_ALL, giver, list.side);
    int64_t n = part_dedup_rows(dedup_counts(t->routes.dedup), PART_DIRECTION_IN, giver, list.rank, list.side,
                                PROGRAM_HOP_ALL);
    cr_assert_eq(dedup_sums(u->routes.dedup, &list), 0);
    for (int64_t r = 0; r < n; r++) {
        cr_assert_eq(node[r], w.opened[giver].node[sent[r]]);
    }
    const struct part_block from = part_block_at(&w.came[taker], PART_DIRECTION_IN, k),
                            to = part_device_host_block(&t->own.part[i], PART_DIRECTION_IN, k);
    for (int64_t e = 0; e < from.n_edge; e++) {
        cr_assert_eq(node[to.cols[e]], from.node[from.cols[e]]);
    }
}

Test(routes, rows_that_own_parts_share_are_listed_alike_on_both_ends)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 4\ninput_dropout = 0.5\n[exchange]\ncover = false\n", N_RANK,
               false, false);
    for (int32_t p = 0; p < N_PART; p++) {
        expect_listed(p, (p + 1) % N_PART);
        expect_listed(p, (p + 3) % N_PART);
    }
    world_close();
}

/* x summed over the edges of one row of a block, and over what came: rows, and sums that the giver made of its own. */
static double row_sum(const struct part_block *block, int64_t r, const double *x)
{
    double sum = 0.0;
    for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
        sum += x[block->cols[e]];
    }
    return sum;
}

static double number(uint32_t node)
{
    return 1.0 + node % 7;
}

static void expect_covered(int32_t taker, int32_t giver, int64_t *n_sum_out)
{
    int32_t i, j, k = part_pair_find(pairs_of(taker, PART_DIRECTION_IN), giver);
    const struct trainer *t = of_part(taker, &i), *u = of_part(giver, &j);
    const struct dedup_list list = {
        .i = j, .rank = w.rank_of_part[taker], .side = part_dedup_side_at(giver, taker), .hop = PROGRAM_HOP_ALL};
    int64_t n_sum = dedup_sums(u->routes.dedup, &list),
            n = part_dedup_rows(dedup_counts(t->routes.dedup), PART_DIRECTION_IN, giver, list.rank, list.side,
                                PROGRAM_HOP_ALL),
            n_row = n - n_sum;
    double *came = memory_alloc((size_t)n, sizeof *came), *all = memory_alloc(60, sizeof *all);
    const uint32_t *sent = dedup_sent(u->routes.dedup, &list);
    for (int64_t r = 0; r < n_row; r++) {
        came[r] = number(w.opened[giver].node[sent[r]]);
    }
    const struct device_block sums = dedup_sum_block(u->routes.dedup, &list, 0, n_sum);
    for (int64_t s = 0; s < n_sum; s++) {
        for (int64_t e = sums.indptr[s]; e < sums.indptr[s + 1]; e++) {
            came[n_row + s] += number(w.opened[giver].node[sums.cols[e]]);
        }
    }
    const struct part_block from = part_block_at(&w.came[taker], PART_DIRECTION_IN, k),
                            to = part_device_host_block(&t->own.part[i], PART_DIRECTION_IN, k);
    for (int64_t c = 0; c < from.n_col; c++) {
        all[c] = number(from.node[c]);
    }
    for (int64_t r = 0; r < from.n_row; r++) {
        cr_assert_float_eq(row_sum(&to, r, came), row_sum(&from, r, all), 0.0, "row %lld", (long long)r);
    }
    *n_sum_out += n_sum;
    free(all);
    free(came);
}

Test(routes, rows_and_sums_of_a_cover_add_up_to_what_the_rows_would)
{
    int64_t n_sum = 0;
    world_open("[model]\nkind = \"gin\"\nhidden = 4\ninput_dropout = 0.5\n", N_RANK, true, false);
    for (int32_t p = 0; p < N_PART; p++) {
        expect_covered(p, (p + 1) % N_PART, &n_sum);
        expect_covered(p, (p + 3) % N_PART, &n_sum);
    }
    cr_expect_gt(n_sum, 0);
    cr_expect_null(dedup_trimmed(w.trainer[0]->routes.dedup), "parts have what they need of the trimmed blocks");
    world_close();
}

/* --- replicated inputs --- */

Test(routes, blocks_of_stored_inputs_have_payload_rows_as_columns)
{
    world_open("[model]\nkind = \"sage\"\nhidden = 4\ninput_dropout = 0.5\n", N_RANK, false, true);
    for (int32_t p = 0; p < N_PART; p++) {
        int32_t i;
        const struct trainer *t = of_part(p, &i);
        const struct part_pairs *pairs = pairs_of(p, PART_DIRECTION_IN);
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            if (k != pairs->own) {
                const struct part_block from = part_block_at(&w.came[p], PART_DIRECTION_IN, k);
                const struct device_block block = stored_block(t->routes.stored, i, PROGRAM_HOP_ALL, k);
                cr_assert(block.n_row == from.n_row && block.n_col == from.n_col && block.n_edge == from.n_edge);
                cr_assert_arr_eq(block.cols, from.cols, (size_t)from.n_edge * sizeof *from.cols);
                cr_expect_eq(stored_rows_before(t->routes.stored, i, k),
                             nodes_of(p, k) - nodes_of(p, pairs->own == 0 ? 1 : 0));
            }
        }
    }
    world_close();
}
