/* Runs: up to 32 edges of one row, with the rows at their other ends. The unit of work of an attention.
 *
 * A row is the destination of its edges (forward, gradients of queries) or their source (gradients of keys and
 * values); the "other ends" are then the sources or the destinations. A run's numbers per edge lie side by side, an
 * edge in each lane, so that the softmax's arithmetic is done on all of its edges at once. Runs begin at a block's
 * first edge of the row (or at the row's edge to itself) and are cut every 32 edges. The cut leaves no trace, but
 * where two sums go to one array run after run: the sources' gradients of mlp and cosine. A run of several rows
 * (kernels_short.inc.h) holds them whole.
 */

#define RUN CPU_ATTENTION_RUN /* edges; rows at the other ends are prefetched as many edges before their turn */
#define HEADS 8               /* heads whose numbers per edge are worked on together */
#define PARTS_LANES 16
/* Compiled once for all callers, per run and head: inlined, these would be most of what there is to compile. */
#define SHARED __attribute__((noinline)) TARGET static
#define EIGHT(x) x, x, x, x, x, x, x, x

/* Some edges of one row, the row's edge to itself first of all. Lists go on past the last edge with copies of it. */
struct run {
    int64_t n;
    int64_t padded; /* n, rounded up to a multiple of PARTS_LANES */
    bool has_self;
    bool is_first;               /* the row's first run of a pass that begins: sums start from 0 */
    const float *bias;           /* the shift for each edge, -inf past the last */
    int64_t row;                 /* the own row, for reads */
    int64_t head;                /* the own row's head 0, for writes */
    int64_t next;                /* the row after the own one, or the row itself where it is the last */
    int64_t edge, last;          /* the run's first edge that is the block's; the block's last */
    int64_t col[RUN];            /* rows at the other ends; the edge to itself: any */
    int64_t prefetch[RUN];       /* rows at the other ends of the edges RUN further on, as in col */
    uint32_t to[RUN], from[RUN]; /* dataset ids of destination and source; with dropout only */
};

/* The edges of one of the block's rows that are in no run yet. */
struct edges_left {
    int64_t row, begin, end;
    bool has_self; /* the edge to itself comes first */
    bool is_first; /* nothing of the row was added before */
};

/* Numbers per edge of up to HEADS heads. */
typedef float run_numbers[HEADS][RUN];

#define EACH_VECTOR(i, run) for (int64_t i = 0; i < (run)->padded; i += LANES)

/* Columns of n edges from edge e on; past edge `last` that of `last`, 0 where there is no edge at all. */
INLINE void copy_cols(const uint32_t *cols, int64_t e, int64_t last, int64_t n, int64_t *to)
{
    bool any = last >= e && last >= 0;
    int64_t n_there = any ? smaller(last + 1 - e, n) : 0, i = 0, end = any ? cols[last] & ~DEVICE_MARKS : 0;
    for (; i < n_there; i++) {
        to[i] = cols[e + i] & ~DEVICE_MARKS;
    }
    for (; i < n; i++) {
        to[i] = end;
    }
}

/* Dataset ids at both ends of each edge: the keys of dropout's random numbers. */
INLINE void run_nodes(const struct cpu_attention *a, bool has_edge, struct run *run)
{
    const uint32_t own = a->how->row_node[run->row];
    for (int64_t i = 0; i < run->padded; i++) {
        uint32_t other = i < run->has_self || !has_edge ? own : a->how->col_node[run->col[i]];
        run->to[i] = a->rows_are_sources ? other : own;
        run->from[i] = a->rows_are_sources ? own : other;
    }
}

/* Fill in the first run of the remaining edges. */
INLINE void run_open(const struct cpu_attention *a, const struct edges_left *left, struct run *run)
{
    const struct device_block *block = a->block;
    const int64_t r = left->row, e = left->begin, last = block->indptr[block->n_row] - 1, last_here = left->end - 1;
    const bool has_self = left->has_self;
    run->has_self = has_self;
    run->is_first = left->is_first;
    run->n = smaller(last_here + 1 - e + has_self, RUN);
    run->padded = (run->n + PARTS_LANES - 1) / PARTS_LANES * PARTS_LANES;
    run->bias = a->bias + RUN - run->n;
    run->row = block->rows != NULL ? block->rows[r] : r;
    run->next = r + 1 == block->n_row ? run->row : block->rows != NULL ? block->rows[r + 1] : r + 1;
    run->edge = e;
    run->last = last;
    run->head = a->is_piece ? -a->first_head : run->row * a->how->n_head;
    copy_cols(block->cols, e, last_here, run->padded - has_self, run->col + has_self);
    copy_cols(block->cols, smaller(e + RUN, last), last, run->padded - has_self, run->prefetch + has_self);
    if (has_self) {
        run->col[0] = run->col[1];
        run->prefetch[0] = run->prefetch[1];
    }
    if (a->threshold > 0) {
        run_nodes(a, last_here >= e, run);
    }
}

/* One quad of Philox numbers for each edge: drawn[k][i] is number k of edge i, for heads 4·quad … 4·quad+3. */
INLINE void run_draw(const struct cpu_attention *a, const struct run *run, uint32_t quad, uint32_t drawn[4][RUN])
{
    uint32_t counter[4], key[2];
    random_edge_counter(&a->key, 0, 0, quad, counter, key);
    for (int64_t i = 0; i < run->n; i += WORD_LANES) {
        words c[4] = {words_load(run->from + i), words_load(run->to + i), words_set(counter[2]),
                      words_set(counter[3])};
        draw_lanes(c, key);
        for (int64_t k = 0; k < 4; k++) {
            words_store_low(drawn[k] + i, c[k]);
        }
    }
}

/* Dropout's factors: mu[h][i] = μ of the run's edge i at head first + h, 0 where the coefficient is dropped, else 1 /
 * (1 - p). Drawn anew in each pass from the ids at the edge's ends, so that no mask is stored and both directions and
 * all workers see the same one. Without dropout mu is not written. */
INLINE void run_dropout(const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n_head,
                        run_numbers mu)
{
    const uint32_t threshold = a->threshold;
    const float scale = a->keep_scale;
    const int64_t before = first % 4; /* heads of the first quad before `first` */
    if (threshold == 0) {
        return;
    }
    for (int64_t quad = 0; 4 * quad < before + n_head; quad++) {
        uint32_t drawn[4][RUN];
        run_draw(a, run, (uint32_t)(first / 4 + quad), drawn);
        for (int64_t k = 0; k < 4; k++) {
            int64_t h = 4 * quad + k - before;
            if (h < 0 || h >= HEADS) {
                continue;
            }
            for (int64_t i = 0; i < RUN; i++) { /* as in keep_masks: without a comparison beside the arithmetic */
                drawn[k][i] = drawn[k][i] >= threshold ? UINT32_MAX : 0;
            }
            for (int64_t i = 0; i < RUN; i++) {
                mu[h][i] = keep_by_mask(drawn[k][i], scale);
            }
        }
    }
}

/* Rows at the other ends in one array, from one column on. */
struct run_rows {
    int64_t n;
    const float *row[RUN];
    const float *prefetch[RUN];
};

/* x: the array of `width` columns at the other ends, self: that of the edge to itself. */
INLINE void rows_open(const struct run *run, const float *x, const float *self, int64_t width, int64_t column,
                      struct run_rows *rows)
{
    rows->n = run->n;
    for (int64_t i = 0; i < run->padded; i++) {
        rows->row[i] = x + run->col[i] * width + column;
        rows->prefetch[i] = x + run->prefetch[i] * width + column;
    }
    if (run->has_self) {
        int64_t n_self = run->n > 1 ? 1 : run->padded; /* the only one, so it also fills the padding */
        for (int64_t i = 0; i < n_self; i++) {
            rows->row[i] = self + run->row * width + column;
        }
        rows->prefetch[0] = self + run->next * width + column;
    }
}

/* Into the second cache: until its turn comes, a run's worth of rows passes through the first. */
INLINE void fetch_row(const float *x)
{
    __builtin_prefetch(x, 0, 2);
}

/* Which lines of the coming rows a sum of rows prefetches. Of WIDE columns together, FETCH_REST leaves out the first
 * line: fetch_first did it beside the exponentials, while memory had nothing else to do. */
enum run_fetch { FETCH_NONE, FETCH_ALL, FETCH_REST };
#define WIDE (4 * LANES)

/* What FETCH_REST leaves out, of the edges of vector i at a head that begins in this column. */
INLINE void fetch_first(const struct run_rows *rows, int64_t i, int64_t column, int64_t n_column)
{
    for (int64_t end = column + n_column; end - column >= WIDE; column += WIDE) {
        for (int64_t k = i; k < smaller(i + LANES, rows->n); k++) {
            fetch_row(rows->prefetch[k] + column);
        }
    }
}

/* numbers[k][i] = row_i[k] for n columns k. */
INLINE void run_columns(const struct run *run, const struct run_rows *rows, int64_t n, float *numbers)
{
    for (int64_t i = 0; i < run->n; i++) {
        fetch_row(rows->prefetch[i]);
    }
    for (int64_t i = 0; i < run->padded; i += PARTS_LANES) {
        for (int64_t k = 0; k < n; k += 4) {
            parts_columns(rows->row + i, k, smaller(n - k, 4), numbers + k * RUN + i, RUN);
        }
    }
}

/* A row of an array of n_column columns per head that is soon read, or written. */
INLINE void fetch_own(const float *x, int64_t n_column, const bool write)
{
    if (x == NULL) {
        return;
    }
    for (int64_t c = 0; c < n_column; c += LINE_FLOATS) {
        if (write) {
            __builtin_prefetch(x + c, 1);
        } else {
            __builtin_prefetch(x + c);
        }
    }
}

INLINE void row_zero(int64_t row, int64_t width, float *x)
{
    if (x != NULL) {
        memset(x + row * width, 0, (size_t)width * sizeof *x);
    }
}

/* A row without any edge, in a pass that begins: sums of 0, row max -inf. */
INLINE void row_none(const struct cpu_attention *a, int64_t row)
{
    const int64_t n_head = a->how->n_head, width = n_head * a->how->n_column;
    const int64_t wide = n_head * device_attention_columns(a->how);
    row_zero(row, wide, a->out);
    row_zero(row, a->how->score == DEVICE_SCORE_ADD ? n_head : wide, a->grad_query);
    row_zero(row, width, a->grad_value);
    row_zero(row, a->how->score == DEVICE_SCORE_DOT ? width : n_head, a->grad_key);
    if (a->state == NULL) {
        return;
    }
    row_zero(row, width, a->state->positive);
    row_zero(row, n_head, a->state->positive_weight);
    for (int64_t h = row * n_head; h < (row + 1) * n_head; h++) {
        a->state->softmax[2 * h] = -INFINITY;
        a->state->softmax[2 * h + 1] = 0.0f;
    }
}

/* Prefetch what a row has of own columns to read; its numbers per head are few. */
INLINE void fetch_own_reads(const struct cpu_attention *a, int64_t row)
{
    const int64_t width = a->own.n_column;
    for (int i = 0; i < 2; i++) {
        fetch_own(a->own.reads[i] != NULL ? a->own.reads[i] + row * width : NULL, width, false);
    }
}

/* Likewise what it has to read and to write. */
INLINE void fetch_own_rows(const struct cpu_attention *a, int64_t row)
{
    const int64_t width = a->own.n_column;
    fetch_own_reads(a, row);
    for (int i = 0; i < 2; i++) {
        fetch_own(a->own.writes[i] != NULL ? a->own.writes[i] + row * width : NULL, width, true);
    }
}
