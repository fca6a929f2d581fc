/* The loops over rows of an attention's passes, and what is computed of each own row alone. */

/* GAT with heads of eight columns, eight at once: kernels_narrow.inc.h. */
#define NARROW_PASS(pass)                                                                                            \
    TARGET static void pass##_narrow(HEADS_ARGUMENTS)                                                                \
    {                                                                                                                \
        (void)n;                                                                                                     \
        (void)sums;                                                                                                  \
        narrow_##pass(a, run, first);                                                                                \
    }
NARROW_PASS(forward)
NARROW_PASS(source)

#define BY_SCORE(pass)                                                                                               \
    [DEVICE_SCORE_MLP] = pass##_mlp, [DEVICE_SCORE_DOT] = pass##_dot, [DEVICE_SCORE_COSINE] = pass##_cosine
static heads_function *const forward_functions[] = {[DEVICE_SCORE_ADD] = forward_add, BY_SCORE(forward)};
static heads_function *const source_functions[] = {[DEVICE_SCORE_ADD] = source_add, BY_SCORE(source)};
static heads_function *const query_functions[] = {[DEVICE_SCORE_ADD] = query_add, BY_SCORE(query)};

/* --- rows first … end-1 --- */

TARGET static heads_function *heads_choose(const struct cpu_attention *a)
{
    switch (a->pass) {
    case CPU_ATTENTION_FORWARD:
        return is_narrow(a->how) ? forward_narrow : forward_functions[a->how->score];
    case CPU_ATTENTION_SOURCE:
        return is_narrow(a->how) ? source_narrow : source_functions[a->how->score];
    default:
        return query_functions[a->how->score];
    }
}

/* The edges left of a row, run by run, each run's heads a few at a time. */
INLINE void row_edges(const struct cpu_attention *a, heads_function *heads, struct edges_left left, double *sums)
{
    while (left.has_self || left.begin < left.end) {
        struct run run;
        run_open(a, &left, &run);
        for (int64_t h = a->first_head, n; h < a->end_head; h += n) {
            n = smaller(a->end_head - h, HEADS);
            heads(a, &run, h, n, sums);
        }
        left.begin += run.n - left.has_self;
        left.has_self = left.is_first = false;
    }
}

/* One run of rows with few edges, from r on, and rows without edges between them. Returns the row behind the last. */
SHARED int64_t rows_short(const struct cpu_attention *a, int64_t r, int64_t end)
{
    struct short_rows rows;
    const int64_t next = short_open(a, r, end, &rows);
    for (int64_t k = 0; k < rows.n_row; k++) { /* what is only written needs none: it comes in order */
        fetch_own_reads(a, rows.row[k + 1]);
    }
    for (int64_t h = a->first_head, n; h < a->end_head && rows.n_row > 0; h += n) {
        n = smaller(a->end_head - h, HEADS);
        (a->pass == CPU_ATTENTION_FORWARD ? forward_short : source_short)(a, &rows, h, n);
    }
    return next;
}

TARGET static void attention_rows(const struct cpu_attention *a, int64_t first, int64_t end, double *sums)
{
    heads_function *heads = heads_choose(a);
    const int64_t *indptr = a->block->indptr;
    const bool with_short = is_short(a);
    for (int64_t r = first; r < end;) {
        const int64_t n_here = indptr[r + 1] - indptr[r] + a->with_self;
        const int64_t next = with_short && n_here <= SHORT ? rows_short(a, r, end) : r;
        if (next > r) {
            r = next;
            continue;
        }
        if (r + 1 < end) {
            fetch_own_rows(a, a->block->rows != NULL ? a->block->rows[r + 1] : r + 1);
        }
        if (a->begin && !a->with_self && indptr[r] == indptr[r + 1]) {
            row_none(a, r);
        }
        row_edges(a, heads, (struct edges_left){r, indptr[r], indptr[r + 1], a->with_self, a->begin}, sums);
        r++;
    }
}

TARGET static void attention_piece(const struct cpu_attention *a, int64_t row, int64_t begin, int64_t end,
                                   double *sums)
{
    const bool begins_row = begin == a->block->indptr[row];
    const struct edges_left left = {row, begin, end, a->with_self && begins_row,
                                    a->is_piece || (a->begin && begins_row)};
    row_edges(a, heads_choose(a), left, sums);
}

/* ⟨x, y⟩ in double lanes that are added up at the end: a fixed order that vectors can follow. */
INLINE double double_dot(int64_t n, const float *x, const float *y)
{
    double lane[8] = {0.0};
    int64_t c = 0;
    for (; c + 8 <= n; c += 8) {
        for (int64_t i = 0; i < 8; i++) {
            lane[i] += (double)x[c + i] * (double)y[c + i];
        }
    }
    for (; c < n; c++) {
        lane[0] += (double)x[c] * (double)y[c];
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* D_i = ⟨grad_out_i, out_i⟩, and add's gradient of the query, with no edge read:
 *   grad_query_i = Σ_j de_ij · leaky'(x_ij) = (1 - slope) · (⟨grad_out_i, positive_i⟩ - D_i · positive_weight_i)
 * The softmax does not change when all its scores move by the same, so Σ_j de_ij = 0: of leaky' = slope + (1 - slope)
 * [x > 0] only the second part is left, and Σ de_ij over the edges with x > 0 is the bracket above. */
TARGET static void attention_begin(const struct cpu_attention_begin *b, int64_t first, int64_t end)
{
    const int64_t n_head = b->how->n_head, n_column = device_attention_columns(b->how);
    for (int64_t i = first * n_head; i < end * n_head; i++) {
        const float *grad_out = b->grad_out + i * n_column;
        double d = double_dot(n_column, grad_out, b->out + i * n_column);
        b->state->softmax[2 * i + 1] = (float)d;
        if (b->state->positive != NULL) {
            double positive = double_dot(n_column, grad_out, b->state->positive + i * n_column);
            double slope = (double)b->how->slope;
            float grad = (float)((1.0 - slope) * (positive - d * (double)b->state->positive_weight[i]));
            b->grad_query[i] = b->add ? b->grad_query[i] + grad : grad;
        }
    }
}

/* How many rows before their turn head_dot prefetches: loads of four rows in turn look like no stream to the
 * processor. */
#define DOT_ROWS_PREFETCH 16

/* out[r, h] = ⟨x[r, h], w[h]⟩, four rows at a time, in the lanes of dots. */
TARGET static void head_dot(int64_t n_head, int64_t n_column, const float *x, const float *w, int64_t first,
                            int64_t end, float *out)
{
    const int64_t width = n_head * n_column;
    for (int64_t r = first; r < end; r += 4) {
        struct run_rows rows = {.n = 4};
        float dot[4];
        for (int64_t i = 0; i < 4; i++) {
            rows.row[i] = x + smaller(r + i, end - 1) * width;
            rows.prefetch[i] = x + smaller(r + i + DOT_ROWS_PREFETCH, end - 1) * width;
        }
        for (int64_t h = 0; h < n_head; h++) {
            dots_by(&rows, h * n_column, w + h * n_column, true, n_column, dot);
            for (int64_t i = 0; i < smaller(end - r, 4); i++) {
                out[(r + i) * n_head + h] = dot[i];
            }
        }
    }
}

/* sum[h, c] += Σ_r grad[r, h] · x[r, h, c] in double, row after row. */
TARGET static void head_dot_sum(int64_t n_head, int64_t n_column, const float *x, const float *grad, int64_t first,
                                int64_t end, double *sum)
{
    for (int64_t i = first * n_head; i < end * n_head; i++) {
        double *to = sum + i % n_head * n_column, g = (double)grad[i];
        for (int64_t c = 0; c < n_column; c++) {
            to[c] += g * (double)x[i * n_column + c];
        }
    }
}
