/* What travels to a worker, counted from the graph, against what its parts and the others list: rows that are shared, and covers. */
#include "partition/part/part_cover.h"
#include "partition/part/part_shared.h"
#include "tests/support/graphs/cut_graph.h"

#include <criterion/criterion.h>

/* Rows of part q that parts of this rank take, of one side, up to a hop: every payload row marked by its node. */
static int64_t shared_rows(const struct cut *cut, enum part_direction d, int q, int rank, int n_rank, int side,
                           int hop)
{
    uint8_t seen[37] = {0};
    int64_t n = 0;
    for (int p = rank; p < cut->partition.n_part; p += n_rank) {
        const struct part_rows taken = part_halo_taken(&cut->part[p].halo, d, hop);
        const struct part_block block = part_block(&cut->part[p], d, q);
        for (int64_t c = 0; part_shared_side_of(q, p) == (enum part_shared_side)side && c < part_rows_with(&taken, q);
             c++) {
            n += !seen[block.node[c]];
            seen[block.node[c]] = 1;
        }
    }
    return n;
}

static void shared_agree(struct cut *cut)
{
    int n_part = cut->partition.n_part, n_hop = cut->partition.n_hop, n_rank = n_part > 2 ? 3 : n_part;
    int32_t rank_of_part[7];
    struct part_shared shared;
    for (int p = 0; p < n_part; p++) {
        rank_of_part[p] = p % n_rank;
    }
    cr_assert_eq(part_shared_build(&cut->dataset, &cut->partition, rank_of_part, (uint32_t)n_rank, &shared),
                 STATUS_OK);
    for (int i = 0; i < n_part * n_rank * PART_SHARED_N_SIDE * (n_hop + 1) * PART_DIRECTION_N; i++) {
        int q = i % n_part, rank = i / n_part % n_rank, side = i / n_part / n_rank % PART_SHARED_N_SIDE;
        int hop = i / n_part / n_rank / PART_SHARED_N_SIDE % (n_hop + 1);
        enum part_direction d = i / n_part / n_rank / PART_SHARED_N_SIDE / (n_hop + 1) > 0 ? PART_DIRECTION_OUT
                                                                                           : PART_DIRECTION_IN;
        int64_t expected = rank == q % n_rank ? 0 : shared_rows(cut, d, q, rank, n_rank, side, hop);
        cr_assert_eq(part_shared_rows(&shared, d, q, (uint32_t)rank, (enum part_shared_side)side, hop), expected);
    }
    part_shared_release(&shared);
}

Test(part_shared, rows_that_parts_of_a_worker_share_are_counted_as_the_parts_list_them)
{
    cut_every(shared_agree);
}

/* The edges from rows of part q to rows of some parts: givers in the order in which these first list them, takers part after part. */
struct list {
    int64_t n_giver, n_taker;
    uint32_t giver[64]; /* node ids */
    bool edge[64][64];
};

static int64_t giver_of(struct list *list, uint32_t node)
{
    int64_t g = 0;
    while (g < list->n_giver && list->giver[g] != node) {
        g++;
    }
    cr_assert_lt(g, 64);
    list->giver[g] = node;
    list->n_giver += g == list->n_giver;
    return g;
}

/* As part q has them, or the takers: blocks of either side list their rows by the other's numbers. Edges into rows of hop ≤ `hop`. */
static void list_of(const struct cut *cut, enum part_direction d, int32_t hop, int q, const int32_t *rank_of_part,
                    int rank, enum part_shared_side side, bool by_giver, struct list *out)
{
    enum part_direction opposite = PART_DIRECTION_N - 1 - d;
    *out = (struct list){0};
    for (int p = 0; p < cut->partition.n_part; p++) {
        if (rank_of_part[p] != rank || rank_of_part[q] == rank || part_shared_side_of(q, p) != side) {
            continue;
        }
        const struct part_block block = by_giver ? part_block(&cut->part[q], opposite, p)
                                                 : part_block(&cut->part[p], d, q);
        int64_t n_giver = by_giver ? block.n_row : block.n_col;
        for (int64_t g = 0; g < n_giver; g++) {
            giver_of(out, by_giver ? cut->part[q].node[block.rows[g]] : block.node[g]);
        }
        for (int64_t r = 0; r < block.n_row; r++) {
            for (int64_t e = block.indptr[r]; e < block.indptr[r + 1]; e++) {
                uint32_t own = cut->part[by_giver ? q : p].node[block.rows[r]], other = block.node[block.cols[e]];
                uint32_t into = (d == PART_DIRECTION_IN) == by_giver ? other : own;
                int64_t g = giver_of(out, by_giver ? own : other);
                int64_t t = out->n_taker + (by_giver ? (int64_t)block.cols[e] : r);
                cr_assert_lt(t, 64);
                out->edge[g][t] = hop >= cut->partition.n_hop || cut->partition.hop[into] <= hop;
            }
        }
        out->n_taker += by_giver ? block.n_col : block.n_row;
    }
}

static int64_t list_cover(const struct list *list, struct part_sums *sums_io, int64_t *n_halo_io)
{
    int64_t indptr[65] = {0}, n = 0;
    static uint32_t taker[64 * 64];
    bool sends[64], sums[64];
    for (int64_t g = 0; g < list->n_giver; g++) {
        for (int64_t t = 0; t < list->n_taker; t++) {
            taker[n] = (uint32_t)t;
            n += list->edge[g][t];
        }
        indptr[g + 1] = n;
        *n_halo_io += indptr[g + 1] > indptr[g];
    }
    const struct part_cover_edges edges = {
        .n_giver = list->n_giver, .n_taker = list->n_taker, .indptr = indptr, .taker = taker};
    int64_t n_row = n > 0 ? part_cover(&edges, sends, sums) : 0;
    for (int64_t t = 0; t < list->n_taker && n > 0; t++) {
        sums_io->n_row += sums[t];
        for (int64_t g = 0; g < list->n_giver; g++) {
            sums_io->n_edge += sums[t] && list->edge[g][t];
        }
    }
    return n_row;
}

/* What part q sends to all workers: every list as both ends have it, and as it was counted. */
static void part_covers_agree(const struct cut *cut, const struct part_shared *shared, enum part_direction d,
                              int32_t hop, int q, const int32_t *rank_of_part, struct part_cover_rows *rows_io)
{
    struct part_sums sums = {0};
    for (int l = 0; l < (int)shared->n_rank * PART_SHARED_N_SIDE; l++) {
        static struct list given, taken;
        int rank = l / PART_SHARED_N_SIDE;
        enum part_shared_side side = l % PART_SHARED_N_SIDE == 0 ? PART_SHARED_BELOW : PART_SHARED_ABOVE;
        list_of(cut, d, hop, q, rank_of_part, rank, side, true, &given);
        list_of(cut, d, hop, q, rank_of_part, rank, side, false, &taken);
        cr_assert(given.n_giver == taken.n_giver && given.n_taker == taken.n_taker);
        cr_assert_arr_eq(given.giver, taken.giver, sizeof given.giver);
        cr_assert_arr_eq(given.edge, taken.edge, sizeof given.edge);
        int64_t n = list_cover(&given, &sums, &rows_io->n_halo);
        cr_assert_eq(part_shared_rows(shared, d, q, (uint32_t)rank, side, hop), n);
        rows_io->n_cover += n;
    }
    const struct part_sums *made = part_sums_at(shared, d, q, hop);
    cr_assert(made->n_row == sums.n_row && made->n_edge == sums.n_edge);
}

static void covers_agree(struct cut *cut)
{
    int n_part = cut->partition.n_part, n_hop = cut->partition.n_hop;
    int32_t rank_of_part[16];
    if (cut->dataset.n_relation > 0) {
        return;
    }
    for (int n_rank = 1; n_rank <= n_part; n_rank++) {
        struct part_cover_rows rows, here = {0};
        struct part_shared shared;
        for (int p = 0; p < n_part; p++) {
            rank_of_part[p] = p % n_rank;
        }
        const struct part_cover_input input = {.dataset = &cut->dataset,
                                               .partition = &cut->partition,
                                               .rank_of_part = rank_of_part,
                                               .n_rank = (uint32_t)n_rank,
                                               .hops = {(UINT32_C(1) << n_hop) - 1, (UINT32_C(1) << n_hop) - 1}};
        cr_assert_eq(part_shared_cover(&input, &shared, &rows), STATUS_OK);
        for (int i = 0; i < PART_DIRECTION_N * (n_hop + 1) * n_part; i++) {
            int32_t hop = i / n_part % (n_hop + 1);
            enum part_direction d = i < (n_hop + 1) * n_part ? PART_DIRECTION_IN : PART_DIRECTION_OUT;
            struct part_cover_rows again = {
                0}; /* all edges' covers of a symmetric graph are the same both ways, and counted once */
            bool mirrored = d == PART_DIRECTION_OUT && cut->dataset.symmetric && hop == n_hop;
            part_covers_agree(cut, &shared, d, hop, i % n_part, rank_of_part, mirrored ? &again : &here);
        }
        cr_assert(rows.n_halo == here.n_halo && rows.n_cover == here.n_cover && rows.n_cover <= rows.n_halo);
        part_shared_release(&shared);
    }
}

Test(part_shared, covers_are_counted_as_both_ends_find_them)
{
    cut_every(covers_agree);
}
