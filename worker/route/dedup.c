#include "protocol/base/memory.h"
#include "worker/plan/memory_plan.h"
#include "worker/route/dedup_cover.h"

#include <stdlib.h>
#include <string.h>

/* --- one list --- */

static uint32_t *slot_of(const struct dedup_merge *m, uint32_t row)
{
    size_t at = (row * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (m->n_table - 1);
    while (m->table[at] != 0 && m->row[m->table[at] - 1] != row) {
        at = (at + 1) & (m->n_table - 1);
    }
    return &m->table[at];
}

uint32_t dedup_row_place(const struct dedup_merge *m, uint32_t row)
{
    return *slot_of(m, row) - 1;
}

static void row_add(struct dedup_merge *m, uint32_t row)
{
    uint32_t *slot = slot_of(m, row);
    if (*slot == 0) {
        m->row[m->n_row] = row;
        *slot = ++m->n_row;
    }
}

static int64_t taker_rows(const struct dedup *s, enum part_direction d, const struct dedup_taker *taker, int32_t hop)
{
    const struct part_rows rows = taker->rows(&own_part(s->own, taker->i)->halo, d, hop);
    return part_rows_at(&rows, taker->k);
}

/* Put the list together; counts_out[h]: rows up to hop h, and all. Of a cover, which counts its own: taker after
 * taker, whatever the hops. */
static void merge_run(const struct dedup *s, enum part_direction d, struct dedup_merge *m, uint32_t *counts_out)
{
    int32_t n_hop = own_part(s->own, 0)->n_hop, first = s->counts.covers ? n_hop : 0;
    int64_t n_all = 0;
    for (int32_t l = 0; l < m->n_taker; l++) {
        n_all += taker_rows(s, d, &m->taker[l], n_hop);
    }
    m->n_row = 0;
    m->n_table = 2;
    while (m->n_table < 2 * (size_t)n_all) {
        m->n_table *= 2;
    }
    m->table = memory_alloc(m->n_table, sizeof *m->table);
    m->row = memory_alloc((size_t)n_all, sizeof *m->row);
    for (int32_t hop = first; hop <= n_hop; hop++) {
        for (int32_t l = 0; l < m->n_taker; l++) {
            const struct dedup_taker *taker = &m->taker[l];
            int64_t end = taker_rows(s, d, taker, hop);
            int64_t begin = hop > first ? taker_rows(s, d, taker, hop - 1) : 0;
            for (int64_t at = begin; at < end; at++) {
                row_add(m, taker->row[at]);
            }
        }
        if (first == 0) {
            counts_out[hop] = m->n_row;
        }
    }
}

static void merge_end(struct dedup_merge *m)
{
    free(m->table);
    free(m->row);
    m->n_taker = 0;
}

/* --- what own parts give --- */

static void givers_find(const struct dedup *s, enum part_direction d, int32_t i, uint32_t rank,
                        enum part_dedup_side side, struct dedup_merge *m)
{
    const struct part *part = own_part(s->own, i);
    const struct part_rows sent = part_halo_sent(&part->halo, d, part->n_hop);
    for (int32_t k = 0; k < sent.pairs->n_pair; k++) {
        int32_t p = sent.pairs->pair[k].part;
        if (k != sent.pairs->own && s->own->setup.rank_of_part[p] == rank &&
            part_dedup_side_at(part->part, p) == side) {
            const struct part_send send = part_send(part, d, p);
            m->taker[m->n_taker++] = (struct dedup_taker){.i = i, .k = k, .row = send.rows, .rows = part_halo_sent};
        }
    }
}

/* The rows of a list that own parts give, or its cover. */
static uint32_t sent_list(struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m,
                          struct dedup_sent *list, bool write)
{
    if (s->counts.covers) {
        return m->n_row > 0 ? dedup_cover_give(s, way, m, list, write) : 0;
    }
    list->row = s->n_given;
    if (write && m->n_row > 0) {
        memcpy(s->sent + s->n_given, m->row, m->n_row * sizeof *s->sent);
    }
    s->n_given += m->n_row;
    return m->n_row;
}

/* Run over all lists that own parts give in this direction, at this hop: count them, and with `write` write them
 * down. */
static void sent_walk(struct dedup *s, const struct dedup_way *way, struct dedup_merge *m, bool write)
{
    enum part_direction d = way->d;
    for (int32_t i = 0; i < s->own->n; i++) {
        for (uint32_t rank = 0; rank < s->own->n_rank; rank++) {
            for (int side = 0; side < PART_DEDUP_N_SIDE; side++) {
                if (rank != s->own->setup.rank) {
                    givers_find(s, d, i, rank, (enum part_dedup_side)side, m);
                }
                uint32_t *counts = part_dedup_at(&s->counts, d, s->own->number[i], rank, (enum part_dedup_side)side);
                int64_t list = dedup_place(s, i, rank, (enum part_dedup_side)side, way->hop);
                merge_run(s, d, m, counts);
                counts[way->hop] = sent_list(s, way, m, &s->sent_list[d][list], write);
                merge_end(m);
            }
        }
    }
}

/* --- what own parts take --- */

static void takers_find(const struct dedup *s, enum part_direction d, int32_t q, enum part_dedup_side side,
                        struct dedup_merge *m)
{
    for (int32_t i = 0; i < s->own->n && s->own->index[q] < 0; i++) {
        const struct part *part = own_part(s->own, i);
        int32_t k = part_dedup_side_at(q, part->part) == side ? part_pair_find(&part->halo.pairs[d], q) : -1;
        if (k >= 0) {
            const struct part_block block = part_block_at(part, d, k);
            m->taker[m->n_taker++] = (struct dedup_taker){
                .i = i, .k = k, .row = block.node, .rows = part_halo_received};
        }
    }
}

/* Scales of a taker's rows at their places. */
static void scales_fill(const struct dedup *s, enum part_direction d, const struct dedup_merge *m,
                        const struct dedup_taker *taker, float *scale)
{
    const struct part *part = own_part(s->own, taker->i);
    const struct part_block block = part_block_at(part, d, taker->k);
    for (int64_t c = 0; c < block.n_col; c++) {
        scale[dedup_row_place(m, block.node[c])] = part_device_scale(&s->own->setup, part, block.strength,
                                                                     block.degree, c);
    }
}

/* A taker's columns count places in the list; order of edges untouched. */
static void columns_remap(const struct dedup *s, enum part_direction d, const struct dedup_merge *m,
                          const struct dedup_taker *taker)
{
    const struct part *part = own_part(s->own, taker->i);
    const struct part_remap *remap = &s->own->remap[taker->i][d];
    const struct part_block block = part_remap_block(part, d, taker->k, remap);
    if (remap->edges.cols == NULL) {
        return;
    }
    uint32_t *cols = part_remap_edges(remap, &part->halo.pairs[d], taker->k).cols;
    for (int64_t e = 0; e < block.n_edge; e++) {
        cols[e] = dedup_row_place(m, block.node[cols[e]]);
    }
}

/* Where in the list a taker's rows are. */
static void taker_scatter(struct dedup *s, enum part_direction d, const struct dedup_merge *m,
                          const struct dedup_taker *taker, bool write)
{
    const struct part *part = own_part(s->own, taker->i);
    const struct part_block block = part_block_at(part, d, taker->k);
    s->scatter_at[d][s->pair_begin[d][taker->i] + taker->k] = s->n_scatter;
    for (int64_t c = 0; write && c < block.n_col; c++) {
        s->scatter[s->n_scatter + c] = dedup_row_place(m, block.node[c]);
    }
    s->n_scatter += block.n_col;
}

/* The rows of a list that own parts take, or its cover. */
static uint32_t received_list(struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m, bool write)
{
    enum part_direction d = way->d;
    for (int32_t l = 0; s->counts.scatters && l < m->n_taker; l++) {
        taker_scatter(s, d, m, &m->taker[l], write);
    }
    if (s->counts.scatters) {
        return m->n_row;
    }
    if (s->counts.covers) {
        return m->n_row > 0 ? dedup_cover_take(s, way, m, write) : 0;
    }
    if (write && m->n_row > 0) {
        memcpy(s->node + s->n_taken, m->row, m->n_row * sizeof *s->node);
    }
    for (int32_t l = 0; write && l < m->n_taker; l++) {
        if (s->scale != NULL) {
            scales_fill(s, d, m, &m->taker[l], s->scale + s->n_taken);
        }
        columns_remap(s, d, m, &m->taker[l]);
    }
    s->n_taken += m->n_row;
    return m->n_row;
}

/* Where the list of part q's rows is. */
static int64_t received_place(const struct dedup *s, int32_t q, int side, int32_t hop)
{
    return (q * (int64_t)PART_DEDUP_N_SIDE + side) * dedup_n_list(s) + dedup_hop_list(s, hop);
}

/* Likewise over all lists that own parts take. */
static void received_walk(struct dedup *s, const struct dedup_way *way, struct dedup_merge *m, bool write)
{
    enum part_direction d = way->d;
    for (int32_t q = 0; q < s->own->n_part; q++) {
        for (int side = 0; side < PART_DEDUP_N_SIDE && s->own->index[q] < 0; side++) {
            takers_find(s, d, q, (enum part_dedup_side)side, m);
            uint32_t *counts = part_dedup_at(&s->counts, d, q, s->own->setup.rank, (enum part_dedup_side)side);
            merge_run(s, d, m, counts);
            s->taken_at[d][received_place(s, q, side, way->hop)] = s->n_taken;
            counts[way->hop] = received_list(s, way, m, write);
            merge_end(m);
        }
    }
}

/* --- all of them --- */

/* Is there a list of this direction and hop? Those of all edges come last. */
static bool way_next(const struct dedup *s, struct dedup_way *way)
{
    bool is_one;
    do {
        way->hop += way->d == PART_DIRECTION_OUT;
        way->d = PART_DIRECTION_N - 1 - way->d;
        is_one = way->hop < s->counts.n_hop ? (s->hops[way->d] >> way->hop & 1) != 0
                                            : way->d == PART_DIRECTION_IN || !s->symmetric;
    } while (!is_one && way->hop <= s->counts.n_hop);
    return way->hop <= s->counts.n_hop;
}

static const struct dedup_way way_begin = {.d = PART_DIRECTION_OUT, .hop = -1};

static void walk(struct dedup *s, struct dedup_merge *m, bool write)
{
    s->n_given = s->n_taken = s->n_scatter = s->n_sum_ptr = s->n_sum_edge = 0;
    for (struct dedup_way way = way_begin; way_next(s, &way);) {
        sent_walk(s, &way, m, write);
        s->n_sent_in = way.d == PART_DIRECTION_IN ? s->n_given : s->n_sent_in;
    }
    for (struct dedup_way way = way_begin; way_next(s, &way);) {
        received_walk(s, &way, m, write);
        s->n_scatter_in = way.d == PART_DIRECTION_IN ? s->n_scatter : s->n_scatter_in;
    }
}

struct list {
    size_t n_bytes;
    void *out;
};

/* All that is taken for the lists. */
static int lists_of(struct dedup *s, struct list out[6])
{
    bool scaled = s->own->setup.scaled != NULL, weighted = own_part(s->own, 0)->facts.weighted;
    const struct list all[] = {{(size_t)s->n_taken * sizeof *s->node, &s->node},
                               {scaled ? (size_t)s->n_taken * sizeof *s->scale : 0, &s->scale},
                               {(size_t)s->n_scatter * sizeof *s->scatter, &s->scatter},
                               {(size_t)s->n_sum_ptr * sizeof *s->sum_ptr, &s->sum_ptr},
                               {(size_t)s->n_sum_edge * sizeof *s->sum_cols, &s->sum_cols},
                               {weighted ? (size_t)s->n_sum_edge * sizeof *s->sum_weights : 0, &s->sum_weights}};
    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all;
}

static enum status lists_take(struct dedup *s)
{
    struct list list[6];
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)s->n_given, sizeof *s->sent, &s->sent);
    for (int l = 0, n = lists_of(s, list); l < n && status == STATUS_OK; l++) {
        status = own_parts_acquire(s->own, list[l].n_bytes, list[l].out);
    }
    return status;
}

static void lists_return(struct dedup *s)
{
    struct list list[6];
    part_lent_end(&s->own->setup, &s->sent_lent);
    memory_release(MEMORY_STRUCTURE, s->sent, (size_t)s->n_given, sizeof *s->sent);
    for (int l = 0, n = lists_of(s, list); l < n; l++) {
        own_parts_release(s->own, *(void **)list[l].out, list[l].n_bytes);
    }
}

/* Places of lists of all own parts' pairs. */
static void pairs_number(struct dedup *s, enum part_direction d)
{
    s->pair_begin[d] = memory_alloc((size_t)s->own->n + 1, sizeof *s->pair_begin[d]);
    for (int32_t i = 0; i < s->own->n; i++) {
        s->pair_begin[d][i + 1] = s->pair_begin[d][i] + own_part(s->own, i)->halo.pairs[d].n_pair;
    }
    s->scatter_at[d] = memory_alloc((size_t)s->pair_begin[d][s->own->n], sizeof *s->scatter_at[d]);
}

enum status dedup_open(const struct own_parts *own, struct dedup **out)
{
    const struct program *program = own->setup.program;
    const struct part *any = own_part(own, 0);
    struct dedup *s = *out = memory_alloc(1, sizeof *s);
    s->own = own;
    bool mirrors = part_dedup_mirrors(any->facts.symmetric, any->covered, any->n_hop);
    enum status status = part_dedup_acquire(own->n_part, own->n_rank, any->n_hop, mirrors, &s->counts);
    status = status == STATUS_OK && any->covered ? part_sums_acquire(&s->counts) : status;
    s->symmetric = any->facts.symmetric;
    s->counts.covers = any->covered;
    s->counts.scatters = memory_plan_scatters(program);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        pairs_number(s, (enum part_direction)d);
        s->hops[d] = any->covered ? memory_plan_hops(program, (enum part_direction)d, any->n_hop) : 0;
        s->sent_list[d] = memory_alloc((size_t)dedup_place(s, s->own->n, 0, PART_DEDUP_BELOW, 0),
                                       sizeof *s->sent_list[d]);
        s->taken_at[d] = memory_alloc((size_t)received_place(s, s->own->n_part, 0, 0), sizeof *s->taken_at[d]);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct dedup_merge m = {.taker = memory_alloc((size_t)s->own->n_part, sizeof *m.taker)};
    walk(s, &m, false);
    status = lists_take(s);
    if (status == STATUS_OK) {
        walk(s, &m, true);
        status = part_lend(&s->own->setup, s->sent, s->n_given * (int64_t)sizeof *s->sent, &s->sent_lent);
        if (s->symmetric && !mirrors) {
            part_dedup_mirror(&s->counts);
        }
    }
    free(m.taker);
    return status;
}

void dedup_close(struct dedup *s)
{
    if (s == NULL) {
        return;
    }
    lists_return(s);
    dedup_trimmed_end(s);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        free(s->sent_list[d]);
        free(s->taken_at[d]);
        free(s->pair_begin[d]);
        free(s->scatter_at[d]);
    }
    part_dedup_release(&s->counts);
    free(s);
}

const struct part_dedup *dedup_counts(const struct dedup *s)
{
    return s != NULL ? &s->counts : NULL;
}

/* Where the graph is symmetric, both directions have the same lists, but for covers of hops. */
static int listed(const struct dedup *s, enum part_direction d, int32_t hop)
{
    return s->symmetric && !(s->counts.covers && hop < s->counts.n_hop) ? PART_DIRECTION_IN : d;
}

static const struct dedup_sent *sent_of(const struct dedup *s, const struct dedup_list *list)
{
    return &s->sent_list[listed(s, list->d, list->hop)][dedup_place(s, list->i, list->rank, list->side, list->hop)];
}

const uint32_t *dedup_sent_here(const struct dedup *s, const struct dedup_list *list)
{
    return s->sent + sent_of(s, list)->row;
}

const uint32_t *dedup_sent(const struct dedup *s, const struct dedup_list *list)
{
    return part_lent_view(&s->sent_lent, dedup_sent_here(s, list));
}

const struct part_lent *dedup_sent_lent(const struct dedup *s)
{
    return s != NULL ? &s->sent_lent : NULL;
}

int64_t dedup_sums(const struct dedup *s, const struct dedup_list *list)
{
    return sent_of(s, list)->n_sum;
}

const uint32_t *dedup_scatter(const struct dedup *s, enum part_direction d, int32_t i, int32_t k)
{
    int from = listed(s, d, PROGRAM_HOP_ALL);
    return s->scatter + s->scatter_at[from][s->pair_begin[from][i] + k];
}

struct device_block dedup_sum_block(const struct dedup *s, const struct dedup_list *list, int64_t first,
                                    int64_t n_row)
{
    const struct dedup_sent *sent = sent_of(s, list);
    const int64_t *indptr = s->sum_ptr + sent->ptr;
    return (struct device_block){.n_row = n_row,
                                 .n_col = s->own->part[list->i].part->n_own,
                                 .n_edge = indptr[sent->n_sum],
                                 .indptr = indptr + first,
                                 .is_part = true,
                                 .cols = s->sum_cols + sent->edge,
                                 .weights = s->sum_weights != NULL ? s->sum_weights + sent->edge : NULL};
}

static int64_t received_from(const struct dedup *s, enum part_direction d, int32_t hop, int32_t q,
                             enum part_dedup_side side)
{
    return s->taken_at[listed(s, d, hop)][received_place(s, q, (int)side, hop)];
}

const float *dedup_scale(const struct dedup *s, enum part_direction d, int32_t hop, int32_t q,
                         enum part_dedup_side side)
{
    return s->scale != NULL ? s->scale + received_from(s, d, hop, q, side) : NULL;
}

const uint32_t *dedup_node(const struct dedup *s, enum part_direction d, int32_t hop, int32_t q,
                           enum part_dedup_side side)
{
    return s->node + received_from(s, d, hop, q, side);
}
