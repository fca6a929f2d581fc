/* Covered lists: rows and sums that own parts give, and blocks of what they take, trimmed to the rows and sums that
 * come.
 *
 * Both ends find the same cover from the same edges (part_cover.h): all of a list, or those into rows of hop ≤ h, of
 * which a taker's block gets a trimmed copy. A taker's row that gets a sum keeps one edge, of weight 1, to it.
 */
#include "worker/route/dedup_cover.h"
#include "partition/part/part_cover.h"
#include "protocol/base/memory.h"
#include "worker/rows/part_hop.h"

#include <stdlib.h>

/* A list's edges both ways, and its cover. Takers are the rows of all taking parts, part after part. */
struct cover {
    int64_t n_giver, n_taker, n_edge;
    int64_t *giver_ptr, *taker_ptr; /* n_giver + 1, n_taker + 1 */
    uint32_t *taker, *giver;        /* n_edge: of each giver's edges; of each taker's, in the order of its block */
    float *weight;                  /* n_edge: of each taker's edges; NULL: not wanted */
    bool *sends, *sums;
    int64_t n_send, n_sum;
};

/* A taking part's block: on its own rank, or as the giver has it, by the rows that travel. Of a hop, the edges into
 * rows up to it. */
struct edges {
    struct part_block of;  /* with the edges of all hops */
    int64_t n_row, n_edge; /* its first rows that are left, and edges */
    const int64_t *indptr; /* n_row + 1 */
    const uint32_t *cols;
    const float *weights; /* NULL unless weighted */

    /* Their memory where they were picked out: of transposed edges, whose rows lead to rows of any hop. NULL: they
     * are the part's */
    int64_t *picked_indptr;
    uint32_t *picked_cols;
    float *picked_weights;
};

/* Pick out of a block's edges those to its first n_col columns. */
static void edges_pick(struct edges *e, int64_t n_col)
{
    const struct part_block *of = &e->of;
    e->picked_indptr = memory_alloc((size_t)of->n_row + 1, sizeof *e->picked_indptr);
    e->picked_cols = memory_alloc((size_t)of->n_edge, sizeof *e->picked_cols);
    e->picked_weights = of->weights != NULL ? memory_alloc((size_t)of->n_edge, sizeof *e->picked_weights) : NULL;
    e->n_edge = 0;
    for (int64_t r = 0; r < of->n_row; r++) {
        for (int64_t at = of->indptr[r]; at < of->indptr[r + 1]; at++) {
            if (of->cols[at] >= n_col) {
                continue;
            }
            e->picked_cols[e->n_edge] = of->cols[at];
            if (of->weights != NULL) {
                e->picked_weights[e->n_edge] = of->weights[at];
            }
            e->n_edge++;
        }
        e->picked_indptr[r + 1] = e->n_edge;
    }
    e->indptr = e->picked_indptr;
    e->cols = e->picked_cols;
    e->weights = e->picked_weights;
}

static struct part_block block_of(const struct dedup *s, enum part_direction d, const struct dedup_taker *taker)
{
    return part_remap_block(own_part(s->own, taker->i), d, taker->k, &s->own->remap[taker->i][d]);
}

static struct edges edges_open(const struct dedup *s, enum part_direction d, int32_t hop,
                               const struct dedup_taker *taker)
{
    const struct part *part = own_part(s->own, taker->i);
    const struct part_pairs *pairs = &part->halo.pairs[d];
    int64_t at = taker->k * (int64_t)part->n_hop + hop;
    struct edges e = {.of = block_of(s, d, taker)};
    e.n_row = e.of.n_row;
    e.n_edge = e.of.n_edge;
    e.indptr = e.of.indptr;
    e.cols = e.of.cols;
    e.weights = e.of.weights;
    if (hop < part->n_hop && d == PART_DIRECTION_IN) {
        e.n_row = pairs->n_row_hop[at];
        e.n_edge = e.indptr[e.n_row];
    } else if (hop < part->n_hop) {
        edges_pick(&e, pairs->n_col_hop[at]);
    }
    return e;
}

static void edges_close(struct edges *e)
{
    free(e->picked_indptr);
    free(e->picked_cols);
    free(e->picked_weights);
}

static void cover_open(int64_t n_giver, int64_t n_taker, int64_t n_edge, bool weighted, struct cover *out)
{
    *out = (struct cover){.n_giver = n_giver,
                          .giver_ptr = memory_alloc((size_t)n_giver + 1, sizeof *out->giver_ptr),
                          .taker_ptr = memory_alloc((size_t)n_taker + 1, sizeof *out->taker_ptr),
                          .taker = memory_alloc((size_t)n_edge, sizeof *out->taker),
                          .giver = memory_alloc((size_t)n_edge, sizeof *out->giver),
                          .weight = weighted ? memory_alloc((size_t)n_edge, sizeof *out->weight) : NULL,
                          .sends = memory_alloc((size_t)n_giver, sizeof *out->sends),
                          .sums = memory_alloc((size_t)n_taker, sizeof *out->sums)};
}

static void cover_close(struct cover *c)
{
    free(c->giver_ptr);
    free(c->taker_ptr);
    free(c->taker);
    free(c->giver);
    free(c->weight);
    free(c->sends);
    free(c->sums);
}

/* One part's rows behind those of the others: a row's edges lead to `place` of the block's payload rows. */
static void takers_add(struct cover *c, const int64_t *indptr, const uint32_t *column, int64_t n_row,
                       const uint32_t *place)
{
    for (int64_t r = 0; r < n_row; r++) {
        c->taker_ptr[++c->n_taker] = c->n_edge + indptr[r + 1];
    }
    for (int64_t e = 0; e < indptr[n_row]; e++) {
        c->giver[c->n_edge + e] = place[column[e]];
    }
    c->n_edge += indptr[n_row];
}

/* Places in the list of the n rows that the taker has listed. */
static uint32_t *places_of(const struct dedup_merge *m, const uint32_t *row, int64_t n)
{
    uint32_t *place = memory_alloc((size_t)n, sizeof *place);
    for (int64_t r = 0; r < n; r++) {
        place[r] = dedup_row_place(m, row[r]);
    }
    return place;
}

static void cover_find(struct cover *c)
{
    const struct part_cover_edges by_taker = {
        .n_giver = c->n_taker, .n_taker = c->n_giver, .indptr = c->taker_ptr, .taker = c->giver};
    part_cover_turn(&by_taker, c->giver_ptr, c->taker, NULL);
    const struct part_cover_edges edges = {
        .n_giver = c->n_giver, .n_taker = c->n_taker, .indptr = c->giver_ptr, .taker = c->taker};
    part_cover(&edges, c->sends, c->sums);
    for (int64_t g = 0; g < c->n_giver; g++) {
        c->n_send += c->sends[g];
    }
    for (int64_t t = 0; t < c->n_taker; t++) {
        c->n_sum += c->sums[t];
    }
}

/* --- given --- */

/* A taking part's rows, from the block that has them by own rows. */
static void sent_add(const struct edges *by_row, const struct dedup_merge *m, struct cover *c)
{
    const struct part_block *block = &by_row->of;
    int64_t *indptr = memory_alloc((size_t)block->n_col + 1, sizeof *indptr),
            *from = memory_alloc((size_t)by_row->n_edge, sizeof *from);
    uint32_t *giver = memory_alloc((size_t)by_row->n_edge, sizeof *giver),
             *place = places_of(m, block->rows, block->n_row);
    const struct part_cover_edges edges = {
        .n_giver = by_row->n_row, .n_taker = block->n_col, .indptr = by_row->indptr, .taker = by_row->cols};
    part_cover_turn(&edges, indptr, giver, from);
    for (int64_t e = 0; c->weight != NULL && e < by_row->n_edge; e++) {
        c->weight[c->n_edge + e] = by_row->weights[from[e]];
    }
    takers_add(c, indptr, giver, block->n_col, place);
    free(place);
    free(giver);
    free(from);
    free(indptr);
}

static void cover_of_sent(const struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m,
                          struct cover *out)
{
    enum part_direction listed = PART_DIRECTION_N - 1 - way->d;
    int64_t n_taker = 0, n_edge = 0;
    for (int32_t l = 0; l < m->n_taker; l++) {
        const struct part_block block = block_of(s, listed, &m->taker[l]);
        n_taker += block.n_col;
        n_edge += block.n_edge;
    }
    cover_open(m->n_row, n_taker, n_edge, own_part(s->own, 0)->facts.weighted, out);
    for (int32_t l = 0; l < m->n_taker; l++) {
        struct edges edges = edges_open(s, listed, way->hop, &m->taker[l]);
        sent_add(&edges, m, out);
        edges_close(&edges);
    }
    cover_find(out);
}

/* Rows that travel, and each sum's edges in the order that the taker has them in. */
static void sent_write(const struct dedup *s, const struct dedup_sent *list, const struct dedup_merge *m,
                       const struct cover *c)
{
    uint32_t *row = s->sent + list->row;
    for (int64_t g = 0; g < c->n_giver; g++) {
        if (c->sends[g]) {
            *row++ = m->row[g];
        }
    }
    int64_t n_edge = 0, *ptr = s->sum_ptr + list->ptr;
    *ptr = 0;
    for (int64_t t = 0; t < c->n_taker; t++) {
        for (int64_t e = c->taker_ptr[t]; c->sums[t] && e < c->taker_ptr[t + 1]; e++, n_edge++) {
            s->sum_cols[list->edge + n_edge] = m->row[c->giver[e]];
            if (s->sum_weights != NULL) {
                s->sum_weights[list->edge + n_edge] = c->weight[e];
            }
        }
        if (c->sums[t]) {
            *++ptr = n_edge;
        }
    }
}

uint32_t dedup_cover_give(struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m,
                          struct dedup_sent *list, bool write)
{
    struct cover c;
    cover_of_sent(s, way, m, &c);
    *list = (struct dedup_sent){.row = s->n_given, .n_sum = c.n_sum, .ptr = s->n_sum_ptr, .edge = s->n_sum_edge};
    if (write) {
        sent_write(s, list, m, &c);
    }
    uint32_t n_row = (uint32_t)(c.n_send + c.n_sum);
    s->n_given += c.n_send;
    s->n_sum_ptr += c.n_sum + 1;
    struct part_sums made = {.n_row = c.n_sum};
    for (int64_t r = 0; r < c.n_taker; r++) {
        made.n_edge += c.sums[r] ? c.taker_ptr[r + 1] - c.taker_ptr[r] : 0;
    }
    s->n_sum_edge += made.n_edge;
    if (!write) {
        struct part_sums *all = part_sums_at(&s->counts, way->d, s->own->number[m->taker[0].i], way->hop);
        all->n_row += made.n_row;
        all->n_edge += made.n_edge;
    }
    cover_close(&c);
    return n_row;
}

/* --- taken --- */

static void cover_of_received(const struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m,
                              struct cover *out)
{
    int64_t n_taker = 0, n_edge = 0;
    for (int32_t l = 0; l < m->n_taker; l++) {
        const struct part_block block = block_of(s, way->d, &m->taker[l]);
        n_taker += block.n_row;
        n_edge += block.n_edge;
    }
    cover_open(m->n_row, n_taker, n_edge, false, out);
    for (int32_t l = 0; l < m->n_taker; l++) {
        struct edges edges = edges_open(s, way->d, way->hop, &m->taker[l]);
        uint32_t *place = places_of(m, edges.of.node, edges.of.n_col);
        takers_add(out, edges.indptr, edges.cols, edges.n_row, place);
        free(place);
        edges_close(&edges);
    }
    cover_find(out);
}

/* Node ids and scales of what comes: sums are of no node, and have theirs. place: of a row that travels, in the
 * payload. */
static void received_write(const struct dedup *s, enum part_direction d, const struct dedup_merge *m,
                           const struct cover *c, const uint32_t *place)
{
    for (int64_t g = 0; g < c->n_giver; g++) {
        if (c->sends[g]) {
            s->node[s->n_taken + place[g]] = m->row[g];
        }
    }
    for (int32_t l = 0; l < m->n_taker && s->scale != NULL; l++) {
        const struct part *part = own_part(s->own, m->taker[l].i);
        const struct part_block block = block_of(s, d, &m->taker[l]);
        for (int64_t r = 0; r < block.n_col; r++) {
            uint32_t g = dedup_row_place(m, block.node[r]);
            if (c->sends[g]) {
                s->scale[s->n_taken + place[g]] = part_device_scale(&s->own->setup, part, block.strength,
                                                                    block.degree, r);
            }
        }
    }
    for (int64_t k = 0; k < c->n_sum && s->scale != NULL; k++) {
        s->scale[s->n_taken + c->n_send + k] = 1.0F;
    }
}

/* How far a list's blocks are trimmed: takers, their edges, sums. */
struct trimmed {
    int64_t n_taker, n_edge;
    uint32_t n_sum;
};

/* Columns become places in the payload, and a row that gets a sum has one edge. */
static void block_trim(const struct edges *from, const struct cover *c, const uint32_t *place,
                       const struct part_edges *to, struct trimmed *at)
{
    int64_t n_edge = 0;
    for (int64_t r = 0; r < from->n_row; r++, at->n_taker++) {
        int64_t end = c->taker_ptr[at->n_taker + 1];
        for (int64_t e = c->taker_ptr[at->n_taker]; !c->sums[at->n_taker] && e < end; e++, n_edge++) {
            to->cols[n_edge] = place[c->giver[e]];
            if (to->weights != NULL) {
                to->weights[n_edge] = from->weights[e - at->n_edge];
            }
        }
        if (c->sums[at->n_taker]) {
            if (to->weights != NULL) {
                to->weights[n_edge] = 1.0F;
            }
            to->cols[n_edge++] = (uint32_t)c->n_send + at->n_sum++;
        }
        to->indptr[r + 1] = n_edge;
    }
    at->n_edge = c->taker_ptr[at->n_taker];
}

/* Trim all of a taker's block where it is remapped. */
static void trim_all(const struct dedup *s, enum part_direction d, const struct dedup_taker *taker,
                     const struct edges *edges, const struct cover *c, const uint32_t *place, struct trimmed *at)
{
    const struct part_pairs *pairs = &own_part(s->own, taker->i)->halo.pairs[d];
    const struct part_remap *remap = &s->own->remap[taker->i][d];
    if (remap->edges.cols != NULL) {
        const struct part_edges to = part_remap_edges(remap, pairs, taker->k);
        block_trim(edges, c, place, &to, at);
    }
}

/* Write a hop's part of it down trimmed, for part_hop_open. */
static void trim_copy(struct dedup *s, const struct dedup_way *way, const struct dedup_taker *taker,
                      const struct edges *edges, const struct cover *c, const uint32_t *place, struct trimmed *at)
{
    const struct part *part = own_part(s->own, taker->i);
    const struct part_edges to = {
        .indptr = memory_alloc((size_t)edges->n_row + 1, sizeof *to.indptr),
        .cols = memory_alloc((size_t)edges->n_edge, sizeof *to.cols),
        .weights = edges->weights != NULL ? memory_alloc((size_t)edges->n_edge, sizeof *to.weights) : NULL};
    if (s->trimmed == NULL) {
        s->trimmed = memory_alloc((size_t)s->own->n_part, sizeof *s->trimmed);
    }
    struct part_edges **blocks = &s->trimmed[part->part];
    if (*blocks == NULL) {
        *blocks = memory_alloc((size_t)part_hop_place(part, PART_DIRECTION_N, 0, 0), sizeof **blocks);
    }
    block_trim(edges, c, place, &to, at);
    (*blocks)[part_hop_place(part, way->d, way->hop, taker->k)] = to;
}

struct part_edges *const *dedup_trimmed(const struct dedup *s)
{
    return s != NULL ? s->trimmed : NULL;
}

void dedup_trimmed_end(struct dedup *s)
{
    if (s == NULL || s->trimmed == NULL) {
        return;
    }
    for (int32_t i = 0; i < s->own->n; i++) {
        const struct part *part = own_part(s->own, i);
        struct part_edges *blocks = s->trimmed[part->part];
        for (int64_t b = 0; blocks != NULL && b < part_hop_place(part, PART_DIRECTION_N, 0, 0); b++) {
            free(blocks[b].indptr);
            free(blocks[b].cols);
            free(blocks[b].weights);
        }
        free(blocks);
    }
    free(s->trimmed);
    s->trimmed = NULL;
}

/* The blocks of all takers. */
static void blocks_trim(struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m,
                        const struct cover *c, const uint32_t *place)
{
    struct trimmed at = {0};
    for (int32_t l = 0; l < m->n_taker; l++) {
        const struct part *part = own_part(s->own, m->taker[l].i);
        struct edges edges = edges_open(s, way->d, way->hop, &m->taker[l]);
        if (way->hop < part->n_hop) {
            trim_copy(s, way, &m->taker[l], &edges, c, place, &at);
        } else {
            trim_all(s, way->d, &m->taker[l], &edges, c, place, &at);
        }
        edges_close(&edges);
    }
}

uint32_t dedup_cover_take(struct dedup *s, const struct dedup_way *way, const struct dedup_merge *m, bool write)
{
    struct cover c;
    cover_of_received(s, way, m, &c);
    if (write) {
        uint32_t *place = memory_alloc((size_t)c.n_giver, sizeof *place), n_place = 0;
        for (int64_t g = 0; g < c.n_giver; g++) {
            place[g] = n_place;
            n_place += c.sends[g];
        }
        received_write(s, way->d, m, &c, place);
        blocks_trim(s, way, m, &c, place);
        free(place);
    }
    uint32_t n_row = (uint32_t)(c.n_send + c.n_sum);
    s->n_taken += n_row;
    cover_close(&c);
    return n_row;
}
