/* Attention over rows of many edges: in pieces of DEVICE_PIECE_EDGES, each with a state of its own, merged in their
 * order. Those of hub rows, too long for one thread, are first merged to DEVICE_HUB_EDGES of them. */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* Of a piece's results, those of all its heads where heads have few columns. */
#define PIECE_FLOATS 4096

/* The results of a pass for some heads, of one piece or of a row; NULL: the pass has no such result. */
struct partial {
    float *softmax; /* heads × 2: (m, s) */
    float *wide[2]; /* heads × wide_columns: out, positive · grad_query · grad_value, dot's grad_key */
    float *narrow;  /* heads: positive_weight · add's grad_query · grad_key */
};

/* Columns of one head in these; positive has as many, without the features in outputs of its score. */
static int64_t wide_columns(const struct cpu_attention *a)
{
    return a->pass == CPU_ATTENTION_SOURCE ? a->how->n_column : device_attention_columns(a->how);
}

/* The row's arrays from `head` on, or with `at` those of a partial of n heads. */
static struct partial arrays_of(const struct cpu_attention *a, int64_t head, int64_t n, float *at)
{
    bool dot = a->how->score == DEVICE_SCORE_DOT;
    struct partial made = {0};
    switch (a->pass) {
    case CPU_ATTENTION_FORWARD:
        made = (struct partial){a->state->softmax, {a->out, a->state->positive}, a->state->positive_weight};
        break;
    case CPU_ATTENTION_QUERY:
        *(a->how->score == DEVICE_SCORE_ADD ? &made.narrow : &made.wide[0]) = a->grad_query;
        break;
    case CPU_ATTENTION_SOURCE:
        made = (struct partial){NULL, {a->grad_value, dot ? a->grad_key : NULL}, dot ? NULL : a->grad_key};
        break;
    }
    float **arrays[] = {&made.softmax, &made.wide[0], &made.wide[1], &made.narrow};
    const int64_t widths[] = {2, wide_columns(a), wide_columns(a), 1};
    for (int k = 0; k < 4; k++) {
        if (*arrays[k] != NULL) {
            *arrays[k] = at != NULL ? at : *arrays[k] + head * widths[k];
            at = at != NULL ? at + n * widths[k] : NULL;
        }
    }
    return made;
}

/* Heads whose results fit a partial; groups of eight, which some kernels work on together, stay together. */
static int64_t heads_at_once(const struct cpu_attention *a, int64_t most)
{
    struct partial made = arrays_of(a, 0, 0, NULL);
    int64_t n_float = (made.softmax != NULL ? 2 : 0) + (made.narrow != NULL ? 1 : 0);
    n_float += (made.wide[0] != NULL ? wide_columns(a) : 0) + (made.wide[1] != NULL ? wide_columns(a) : 0);
    int64_t n = most / n_float;
    return n < 8 ? n : n / 8 * 8;
}

/* x = scale · x + scale_other · other */
static void merge(int64_t n, float scale, float *x, float scale_other, const float *other)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = scale * x[i] + scale_other * other[i];
    }
}

/* Add a piece's n heads to the row's. Softmaxes of disjoint sets of edges join as (m, s, out) do edge by edge:
 *   m = max(m₁, m₂)   s = s₁ exp(m₁ - m) + s₂ exp(m₂ - m)   out likewise; gradients are sums: factors of 1 */
static void merge_heads(const struct cpu_attention *a, int64_t n, const struct partial *row,
                        const struct partial *piece)
{
    const int64_t n_column = wide_columns(a);
    for (int64_t h = 0; h < n; h++) {
        float scale = 1.0f, scale_piece = 1.0f;
        if (row->softmax != NULL) {
            float *to = row->softmax + 2 * h;
            const float *from = piece->softmax + 2 * h;
            float row_max = to[0] > from[0] ? to[0] : from[0];
            scale = to[0] == row_max ? 1.0f : expf(to[0] - row_max);
            scale_piece = from[0] == row_max ? 1.0f : expf(from[0] - row_max);
            to[0] = row_max;
            merge(1, scale, to + 1, scale_piece, from + 1);
        }
        for (int k = 0; k < 2; k++) {
            if (row->wide[k] != NULL) {
                merge(n_column, scale, row->wide[k] + h * n_column, scale_piece, piece->wide[k] + h * n_column);
            }
        }
        if (row->narrow != NULL) {
            merge(1, scale, row->narrow + h, scale_piece, piece->narrow + h);
        }
    }
}

/* If nothing was added to a row before, its first piece is its state. */
static void copy_heads(const struct cpu_attention *a, int64_t n, const struct partial *row,
                       const struct partial *piece)
{
    float *const to[] = {row->softmax, row->wide[0], row->wide[1], row->narrow};
    const float *const from[] = {piece->softmax, piece->wide[0], piece->wide[1], piece->narrow};
    const int64_t widths[] = {2, wide_columns(a), wide_columns(a), 1};
    for (int k = 0; k < 4; k++) {
        if (to[k] != NULL) {
            memcpy(to[k], from[k], (size_t)(n * widths[k]) * sizeof(float));
        }
    }
}

/* The pass over edges of a row, in pieces as if each had no others before it, into the row's results or a partial. */
static void pieces_join(const struct cpu_device *device, const struct cpu_attention *a, const struct cpu_piece *of,
                        bool is_fresh, const struct partial *to, double *sums)
{
    float memory[PIECE_FLOATS];
    const int64_t n = a->end_head - a->first_head;
    struct partial made = arrays_of(a, 0, n, memory);
    struct device_attention_state state = {made.softmax, made.wide[1], made.narrow};
    struct cpu_attention alone = *a;
    alone.is_piece = true;
    alone.state = a->pass == CPU_ATTENTION_FORWARD ? &state : NULL;
    alone.out = alone.grad_value = made.wide[0];
    alone.grad_query = made.wide[0] != NULL ? made.wide[0] : made.narrow;
    alone.grad_key = made.wide[1] != NULL ? made.wide[1] : made.narrow;
    for (int64_t e = of->begin; e < of->end; e += DEVICE_PIECE_EDGES) {
        int64_t end = e + DEVICE_PIECE_EDGES < of->end ? e + DEVICE_PIECE_EDGES : of->end;
        device->kernels->attention_piece(&alone, of->row, e, end, sums);
        (is_fresh && e == of->begin ? copy_heads : merge_heads)(a, n, to, &made);
    }
}

/* One row of many edges: a merged one's pieces lie between marks, and what is not marked goes on edge by edge. */
static void row_long(const struct cpu_device *device, const struct cpu_attention *attention, int64_t r, double *sums)
{
    const struct device_block *block = attention->block;
    const int64_t n_head = attention->how->n_head, row = block->rows != NULL ? block->rows[r] : r;
    const int64_t n_together = heads_at_once(attention, PIECE_FLOATS), begin = block->indptr[r];
    struct cpu_attention a = *attention;
    for (int64_t h = 0; h < n_head; h += n_together) {
        a.first_head = h;
        a.end_head = h + n_together < n_head ? h + n_together : n_head;
        const struct partial own = arrays_of(&a, row * n_head + h, 0, NULL);
        for (int64_t e = begin, next; e < block->indptr[r + 1]; e = next) {
            next = device_run_end(block, e, block->indptr[r + 1]);
            if (device_run_goes_on(block, e)) {
                device->kernels->attention_piece(&a, r, e, next, sums);
            } else {
                pieces_join(device, &a, &(struct cpu_piece){r, e, next}, a.begin && e == begin, &own, sums);
            }
        }
    }
}

void cpu_attention_rows(const struct cpu_device *device, const struct cpu_attention *a, int64_t first, int64_t end,
                        double *sums)
{
    const int64_t *indptr = a->block->indptr;
    for (int64_t r = first, next; r < end; r = next + 1) {
        for (next = r; next < end && indptr[next + 1] - indptr[next] <= DEVICE_PIECE_EDGES;) {
            next++;
        }
        device->kernels->attention_rows(a, r, next, sums);
        if (next < end) {
            row_long(device, a, next, sums);
        }
    }
}

/* Is piece p its row's first? */
static bool begins_row(const struct cpu_schedule *schedule, int64_t p)
{
    return p == 0 || schedule->piece[p - 1].row != schedule->piece[p].row;
}

/* All pieces' heads a.first_head … a.end_head-1 in parallel, then into the rows, piece after piece. */
static void run_pieces(const struct cpu_device *device, const struct cpu_attention *a, int64_t n_slot, double *sums)
{
    const struct cpu_schedule *schedule = a->block->schedule;
    const int64_t n_piece = schedule->n_piece, n_head = a->how->n_head, width = cpu_attention_sums(a->how);
    const int64_t n = a->end_head - a->first_head;
    CPU_LOOP_DYNAMIC(
        device, true, for (int64_t slot = 0; slot < n_slot; slot++) {
            for (int64_t p = slot * n_piece / n_slot; p < (slot + 1) * n_piece / n_slot; p++) {
                const struct partial made = arrays_of(a, 0, n, schedule->partial + p * CPU_PARTIAL_COLUMNS);
                pieces_join(device, a, &schedule->piece[p], true, &made, sums != NULL ? sums + slot * width : NULL);
            }
        });
    for (int64_t p = 0; p < n_piece; p++) {
        int64_t r = schedule->piece[p].row, row = a->block->rows != NULL ? a->block->rows[r] : r;
        struct partial made = arrays_of(a, 0, n, schedule->partial + p * CPU_PARTIAL_COLUMNS);
        struct partial own = arrays_of(a, row * n_head + a->first_head, 0, NULL);
        (begins_row(schedule, p) && a->begin ? copy_heads : merge_heads)(a, n, &own, &made);
    }
}

void cpu_attention_hub(const struct cpu_device *device, const struct cpu_attention *attention, int64_t n_slot,
                       double *sums)
{
    const struct cpu_schedule *schedule = attention->block->schedule;
    if (schedule == NULL || schedule->n_piece == 0) {
        return;
    }
    const int64_t n_piece = schedule->n_piece, n_head = attention->how->n_head;
    struct cpu_attention a = *attention;
    const int64_t n_together = heads_at_once(&a, CPU_PARTIAL_COLUMNS);
    if (n_together == 0) { /* one head is too wide for a partial: one thread for each row */
        for (int64_t p = 0; p < n_piece; p++) {
            if (begins_row(schedule, p)) {
                row_long(device, &a, schedule->piece[p].row, sums);
            }
        }
        return;
    }
    for (int64_t h = 0; h < n_head; h += n_together) {
        a.first_head = h;
        a.end_head = h + n_together < n_head ? h + n_together : n_head;
        run_pieces(device, &a, n_slot < n_piece ? n_slot : n_piece, sums);
    }
}
