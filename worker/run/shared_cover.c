/* Lists of covered pairs: rows and sums that own parts give, and blocks of what they take, trimmed to the rows and sums that come.
 *
 * Both ends find the same cover from the same edges (part_cover.h). A taker's row that gets a sum keeps one edge, of weight 1, to it.
 */
#include "partition/part/part_cover.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "worker/run/shared_rows_state.h"

#include <stdlib.h>
#include <string.h>

/* A pair's edges both ways, and its cover. */
struct cover {
    int64_t n_giver, n_taker, n_edge;
    int64_t *giver_ptr, *taker_ptr; /* n_giver + 1, n_taker + 1 */
    uint32_t *taker, *giver;        /* n_edge: of each giver's edges, of each taker's */
    int64_t *from;                  /* n_edge: where a taker's edge is among the givers' */
    bool *sends, *sums;
    int64_t n_send, n_sum;
};

static void cover_open(int64_t n_giver, int64_t n_taker, int64_t n_edge, struct cover *out)
{
    *out = (struct cover){.n_giver = n_giver,
                          .n_taker = n_taker,
                          .n_edge = n_edge,
                          .giver_ptr = memory_alloc((size_t)n_giver + 1, sizeof *out->giver_ptr),
                          .taker_ptr = memory_alloc((size_t)n_taker + 1, sizeof *out->taker_ptr),
                          .taker = memory_alloc((size_t)n_edge, sizeof *out->taker),
                          .giver = memory_alloc((size_t)n_edge, sizeof *out->giver),
                          .from = memory_alloc((size_t)n_edge, sizeof *out->from),
                          .sends = memory_alloc((size_t)n_giver, sizeof *out->sends),
                          .sums = memory_alloc((size_t)n_taker, sizeof *out->sums)};
}

static void cover_close(struct cover *c)
{
    free(c->giver_ptr);
    free(c->taker_ptr);
    free(c->taker);
    free(c->giver);
    free(c->from);
    free(c->sends);
    free(c->sums);
}

static struct part_cover_edges edges_by_giver(const struct cover *c)
{
    return (struct part_cover_edges){.n_giver = c->n_giver, .n_taker = c->n_taker, .indptr = c->giver_ptr, .taker = c->taker};
}

static struct part_cover_edges edges_by_taker(const struct cover *c)
{
    return (struct part_cover_edges){.n_giver = c->n_taker, .n_taker = c->n_giver, .indptr = c->taker_ptr, .taker = c->giver};
}

static void cover_find(struct cover *c)
{
    const struct part_cover_edges edges = edges_by_giver(c);
    part_cover(&edges, c->sends, c->sums);
    for (int64_t g = 0; g < c->n_giver; g++) {
        c->n_send += c->sends[g];
    }
    for (int64_t t = 0; t < c->n_taker; t++) {
        c->n_sum += c->sums[t];
    }
}

/* As the giver has the pair: by its own rows. */
static void cover_of_given(const struct part_block *block, struct cover *out)
{
    cover_open(block->n_row, block->n_col, block->n_edge, out);
    memcpy(out->giver_ptr, block->indptr, ((size_t)block->n_row + 1) * sizeof *out->giver_ptr);
    memcpy(out->taker, block->cols, (size_t)block->n_edge * sizeof *out->taker);
    const struct part_cover_edges edges = edges_by_giver(out);
    part_cover_turn(&edges, out->taker_ptr, out->giver, out->from);
    cover_find(out);
}

/* As the taker has it: by its own rows, too. */
static void cover_of_taken(const struct part_block *block, struct cover *out)
{
    cover_open(block->n_col, block->n_row, block->n_edge, out);
    memcpy(out->taker_ptr, block->indptr, ((size_t)block->n_row + 1) * sizeof *out->taker_ptr);
    memcpy(out->giver, block->cols, (size_t)block->n_edge * sizeof *out->giver);
    const struct part_cover_edges edges = edges_by_taker(out);
    part_cover_turn(&edges, out->giver_ptr, out->taker, NULL);
    cover_find(out);
}

/* --- given --- */

/* Rows that travel, and each sum's edges in the order that the taker has them in. */
static void given_write(const struct shared_rows *s, const struct shared_given *list, const struct part_block *block,
                        const struct cover *c)
{
    uint32_t *row = s->given + list->row;
    for (int64_t g = 0; g < c->n_giver; g++) {
        if (c->sends[g]) {
            *row++ = block->rows[g];
        }
    }
    int64_t n_edge = 0, *ptr = s->sum_ptr + list->ptr;
    *ptr = 0;
    for (int64_t t = 0; t < c->n_taker; t++) {
        for (int64_t e = c->taker_ptr[t]; c->sums[t] && e < c->taker_ptr[t + 1]; e++, n_edge++) {
            s->sum_cols[list->edge + n_edge] = block->rows[c->giver[e]];
            if (s->sum_weights != NULL) {
                s->sum_weights[list->edge + n_edge] = block->weights[c->from[e]];
            }
        }
        if (c->sums[t]) {
            *++ptr = n_edge;
        }
    }
}

/* Own part i's list for part q, which lies on the rank of that number. */
static void given_add(struct trainer *t, enum part_direction d, int32_t i, const struct part_block *block, int32_t q,
                      bool write)
{
    struct shared_rows *s = t->shared_rows;
    enum part_shared_side side = part_shared_side_of(t->own[i], q);
    uint32_t rank = t->setup.rank_of_part[q];
    struct shared_given *list = &s->given_list[d][shared_place(t, i, rank, side)];
    struct cover c;
    cover_of_given(block, &c);
    *list = (struct shared_given){.row = s->n_given, .n_sum = c.n_sum, .ptr = s->n_sum_ptr, .edge = s->n_sum_edge};
    *part_shared_at(&s->counts, d, t->own[i], rank, side) = (uint32_t)(c.n_send + c.n_sum);
    if (write) {
        given_write(s, list, block, &c);
    }
    s->n_given += c.n_send;
    s->n_sum_ptr += c.n_sum + 1;
    for (int64_t r = 0; r < c.n_taker; r++) {
        s->n_sum_edge += c.sums[r] ? c.taker_ptr[r + 1] - c.taker_ptr[r] : 0;
    }
    cover_close(&c);
}

/* --- taken --- */

/* Node ids and scales of what comes: sums are of no node, and have theirs. */
static void taken_write(const struct trainer *t, const struct part *part, const struct part_block *block, const struct cover *c)
{
    const struct shared_rows *s = t->shared_rows;
    int64_t at = s->n_taken;
    for (int64_t g = 0; g < c->n_giver; g++) {
        if (c->sends[g]) {
            s->node[at] = block->node[g];
            if (s->scale != NULL) {
                s->scale[at] = part_device_scale(&t->part_setup, part, block->strength, block->degree, g);
            }
            at++;
        }
    }
    for (int64_t k = 0; k < c->n_sum && s->scale != NULL; k++) {
        s->scale[at + k] = 1.0F;
    }
}

/* Columns become places in the payload, and a row that gets a sum has one edge; all within the block's own memory. */
static void block_trim(const struct part_block *block, const struct cover *c)
{
    int64_t *indptr = (int64_t *)(uintptr_t)block->indptr;
    uint32_t *cols = (uint32_t *)(uintptr_t)block->cols;
    float *weights = (float *)(uintptr_t)block->weights;
    uint32_t *place = memory_alloc((size_t)c->n_giver, sizeof *place);
    uint32_t n_place = 0;
    for (int64_t g = 0; g < c->n_giver; g++) {
        place[g] = n_place;
        n_place += c->sends[g];
    }
    int64_t n_edge = 0;
    for (int64_t r = 0; r < c->n_taker; r++) {
        for (int64_t e = c->taker_ptr[r]; !c->sums[r] && e < c->taker_ptr[r + 1]; e++, n_edge++) {
            cols[n_edge] = place[c->giver[e]];
            if (weights != NULL) {
                weights[n_edge] = weights[e];
            }
        }
        if (c->sums[r]) {
            if (weights != NULL) {
                weights[n_edge] = 1.0F;
            }
            cols[n_edge++] = n_place++;
        }
        indptr[r + 1] = n_edge;
    }
    free(place);
}

static void taken_add(struct trainer *t, enum part_direction d, int32_t i, const struct part_block *block, int32_t q,
                      bool write)
{
    struct shared_rows *s = t->shared_rows;
    const struct part *part = t->setup.parts[t->own[i]];
    enum part_shared_side side = part_shared_side_of(q, part->part);
    struct cover c;
    cover_of_taken(block, &c);
    s->taken_at[d][q * PART_SHARED_N_SIDE + (int32_t)side] = s->n_taken;
    *part_shared_at(&s->counts, d, q, t->setup.rank, side) = (uint32_t)(c.n_send + c.n_sum);
    if (write) {
        taken_write(t, part, block, &c);
        block_trim(block, &c);
    }
    s->n_taken += c.n_send + c.n_sum;
    cover_close(&c);
}

/* Every pair of own parts with another one's. */
static void pairs_walk(struct trainer *t, bool given, bool write)
{
    int n_direction = shared_n_direction(t->shared_rows);
    for (int i = 0; i < t->n_own * n_direction; i++) {
        enum part_direction d = i % n_direction == 0 ? PART_DIRECTION_IN : PART_DIRECTION_OUT;
        struct part *part = t->setup.parts[t->own[i / n_direction]];
        enum part_direction listed = given ? PART_DIRECTION_N - 1 - d : d;
        const struct part_pairs *pairs = &part->halo.pairs[listed];
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            const struct part_block block = part_block_at(part, listed, k);
            if (k != pairs->own) {
                (given ? given_add : taken_add)(t, d, i / n_direction, &block, pairs->pair[k].part, write);
            }
        }
    }
}

void shared_cover_walk(struct trainer *t, bool write)
{
    struct shared_rows *s = t->shared_rows;
    s->n_given = s->n_taken = s->n_sum_ptr = s->n_sum_edge = 0;
    pairs_walk(t, true, write); /* reads blocks that are then trimmed */
    pairs_walk(t, false, write);
    for (int32_t i = 0; i < t->n_own && write; i++) {
        struct part *part = t->setup.parts[t->own[i]];
        ASSERT(!part->turned); /* there is no way back to the whole blocks */
        part->turned = true;
    }
}
