/* GAT's rows of few edges, several rows at once.
 *
 * Between two of many parts a row has one or two edges, which would leave most lanes of its runs empty. Here a run
 * holds the edges of several rows, as they follow each other in the block, each row with all of its edges. What is
 * computed for each edge i of row r(i) is computed for the whole run; sums are of a row's own edges:
 *   forward   x_i = key_j + query_r(i)    e_i = leaky(x_i) + shift
 *             c_r = exp(m_r - m'_r)       w_i = exp(e_i - m'_r(i))
 *             s'_r = c_r s_r + Σ_i w_i    out'_r = c_r out_r + Σ_i μ_i w_i value_i, likewise over x_i > 0
 *   source    α_i = exp(e_i - L_i)        g_i = ⟨value_r(i), grad_out_i⟩    de_i = α_i (μ_i g_i - D_i)
 *             grad_value_r (+)= Σ_i μ_i α_i grad_out_i    grad_key_r (+)= Σ_i de_i leaky'(x_i)
 *
 * The bits are those of a run of its own for each row. Rows whose m moves behind their first edge have one.
 */

#define SHORT 8 /* edges of a row, at most: alone, a row of 9 to 16 takes less time */

struct short_rows {
    struct run run; /* the edges; its own row is 0 */
    int64_t n_row;
    int64_t block_row[RUN]; /* each row's number in the block … */
    int64_t row[RUN + 1];   /* … and as run.row; behind the last one run.next */
    int64_t begin[RUN + 1]; /* their first edges, which are those to themselves where they have any */
    int64_t own[RUN];       /* the row of each edge; past the last edge that of the last */
};

/* Dataset ids at both ends of each edge, as run_nodes. */
INLINE void short_nodes(const struct cpu_attention *a, struct short_rows *rows)
{
    struct run *run = &rows->run;
    for (int64_t k = 0; k < rows->n_row; k++) {
        const uint32_t own = a->how->row_node[rows->row[k]];
        for (int64_t i = rows->begin[k]; i < rows->begin[k + 1]; i++) {
            uint32_t other = a->with_self && i == rows->begin[k] ? own : a->how->col_node[run->col[i]];
            run->to[i] = a->rows_are_sources ? other : own;
            run->from[i] = a->rows_are_sources ? own : other;
        }
    }
}

/* Append the block's row r and its edges. */
INLINE void short_append(const struct cpu_attention *a, int64_t r, struct short_rows *rows)
{
    const struct device_block *block = a->block;
    const int64_t row = block->rows != NULL ? block->rows[r] : r, last = block->indptr[block->n_row] - 1;
    struct run *run = &rows->run;
    int64_t n = run->n;
    rows->begin[rows->n_row] = n;
    rows->block_row[rows->n_row] = r;
    rows->row[rows->n_row++] = row;
    if (a->with_self) { /* the columns of this edge are not read */
        rows->own[n] = row;
        run->col[n] = run->prefetch[n] = 0;
        n++;
    }
    for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++, n++) {
        rows->own[n] = row;
        run->col[n] = block->cols[e];
        run->prefetch[n] = block->cols[smaller(e + RUN, last)];
    }
    run->n = rows->begin[rows->n_row] = n;
}

/* Append rows from r on, while they are short and the run has room. Returns the row after the last. */
INLINE int64_t short_open(const struct cpu_attention *a, int64_t r, int64_t end, struct short_rows *rows)
{
    const struct device_block *block = a->block;
    struct run *run = &rows->run;
    rows->n_row = run->n = 0;
    for (; r < end; r++) {
        int64_t n = block->indptr[r + 1] - block->indptr[r] + a->with_self;
        if (n > SHORT || n > RUN - run->n) {
            break;
        }
        if (n > 0) {
            short_append(a, r, rows);
        } else if (a->begin) {
            row_none(a, r);
        }
    }
    if (run->n == 0) {
        return r;
    }
    int64_t next = smaller(r, block->n_row - 1);
    rows->row[rows->n_row] = block->rows != NULL ? block->rows[next] : next;
    run->padded = (run->n + PARTS_LANES - 1) / PARTS_LANES * PARTS_LANES;
    for (int64_t i = run->n; i < run->padded; i++) {
        rows->own[i] = rows->own[run->n - 1];
        run->col[i] = run->col[run->n - 1];
        run->prefetch[i] = run->prefetch[run->n - 1];
    }
    run->has_self = false;
    run->is_first = a->begin;
    run->bias = a->bias + RUN - run->n;
    run->row = run->head = 0;
    if (a->threshold > 0) {
        short_nodes(a, rows);
    }
    return r;
}

/* The rows at the other ends, as rows_open. */
INLINE void short_open_far(const struct short_rows *rows, const bool with_self, const float *x, const float *self,
                           int64_t width, int64_t column, struct run_rows *far)
{
    const struct run *run = &rows->run;
    rows_open(run, x, self, width, column, far);
    for (int64_t k = 0; k < rows->n_row && with_self; k++) {
        far->row[rows->begin[k]] = self + rows->row[k] * width + column;
        far->prefetch[rows->begin[k]] = self + rows->row[k + 1] * width + column;
    }
    for (int64_t i = run->n; i < run->padded && with_self; i++) {
        far->row[i] = far->row[run->n - 1];
        far->prefetch[i] = far->prefetch[run->n - 1];
    }
}

/* The own row of each edge. */
INLINE void short_open_own(const struct short_rows *rows, const float *x, int64_t width, int64_t column,
                           struct run_rows *own)
{
    own->n = rows->run.n;
    for (int64_t i = 0; i < rows->run.padded; i++) {
        own->row[i] = own->prefetch[i] = x + rows->own[i] * width + column;
    }
}

/* x_i = far_i + own_r(i), numbers of one head each, and the scores e_i */
INLINE void short_scores(struct heads *w, const struct short_rows *rows, const float *own)
{
    const vector slope = vector_set(w->a->how->slope), one = vector_set(1.0f);
    struct run_rows mine;
    run_numbers numbers;
    short_open_own(rows, own, w->a->how->n_head, w->first, &mine);
    run_columns(w->run, &w->other, w->n, w->x[0]);
    run_columns(w->run, &mine, w->n, numbers[0]);
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector x = vector_add(vector_load(w->x[h] + i), vector_load(numbers[h] + i));
            vector e = vector_multiply(x, vector_select_positive(x, one, slope));
            vector_store(w->x[h] + i, x);
            vector_store(w->score[h] + i, vector_add(e, vector_load(w->run->bias + i)));
        }
    }
}

/* to_r = scale_r · to_r + Σ_i x_i of each row and head, from 0 where the rows begin. scale: n numbers of each row,
 * NULL: 1; to: one of each head, `step` apart */
INLINE void short_sums(const struct heads *w, const struct short_rows *rows, run_numbers x, const float *scale,
                       int64_t step, float *to)
{
    for (int64_t k = 0; k < rows->n_row; k++) {
        float *at = to + (rows->row[k] * w->a->how->n_head + w->first) * step;
        for (int64_t h = 0; h < w->n; h++) {
            float before = scale != NULL ? scale[k * w->n + h] * at[h * step] : at[h * step];
            at[h * step] = w->run->is_first ? 0.0f : before;
        }
        span_sums(&(struct span){rows->begin[k], rows->begin[k + 1]}, x, w->n, step, at);
    }
}

/* m' of each row and head at its first edge, also to each edge, and c: n numbers of each row. false: some m moves
 * behind its row's first edge, and nothing was written */
INLINE bool short_bases(const struct heads *w, const struct short_rows *rows, run_numbers base, float *scale)
{
    const int64_t n = w->n, n_head = w->a->how->n_head;
    const float *softmax = w->a->state->softmax + 2 * w->first;
    vector above = vector_set(0.0f);
    float most[LANES];
    for (int64_t h = 0; h < n; h++) {
        for (int64_t k = 0; k < rows->n_row; k++) {
            const int64_t begin = rows->begin[k];
            const float before = w->run->is_first ? -INFINITY : softmax[2 * (rows->row[k] * n_head + h)];
            float raised;
            scale[k * n + h] = base_raise(before, w->score[h][begin], &raised);
            for (int64_t i = begin; i < rows->begin[k + 1]; i++) {
                base[h][i] = raised;
            }
        }
        for (int64_t i = w->run->n; i < w->run->padded; i++) {
            base[h][i] = 0.0f;
        }
        EACH_VECTOR(i, w->run)
        {
            vector minus_base = vector_multiply(vector_load(base[h] + i), vector_set(-1.0f));
            above = vector_greater(vector_add(vector_load(w->score[h] + i), minus_base), above);
        }
    }
    vector_store(most, above);
    bool holds = true;
    for (int64_t i = 0; i < LANES; i++) {
        holds = holds && most[i] <= RAISE;
    }
    for (int64_t i = 0; i < rows->n_row * n && !w->run->is_first; i += LANES) {
        vector_store(scale + i, vector_exp(vector_load(scale + i)));
    }
    return holds;
}

/* w_i = exp(e_i - m'), and with `with_positive` those of edges with x_i > 0, 0 for the others. */
INLINE void short_weights(struct heads *w, run_numbers base, const bool with_positive)
{
    const int64_t n_column = w->a->how->n_column;
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector minus_base = vector_multiply(vector_load(base[h] + i), vector_set(-1.0f));
            vector weight = vector_exp(vector_add(vector_load(w->score[h] + i), minus_base));
            vector_store(w->weight[h] + i, weight);
            if (with_positive) {
                vector x = vector_load(w->x[h] + i);
                vector_store(w->positive[h] + i, vector_select_positive(x, weight, vector_set(0.0f)));
            }
            fetch_first(&w->rows, i, h * n_column, n_column);
        }
    }
}

/* out'_r = c_r out_r + Σ_i μ_i w_i value_i of each row; positive likewise */
INLINE void short_values(struct heads *w, const struct short_rows *rows, const float *scale, const bool with_positive)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    for (int64_t k = 0; k < rows->n_row; k++) {
        const int64_t at = (rows->row[k] * a->how->n_head + w->first) * n_column;
        const struct rows_sum how = {
            &w->rows, rows->begin[k], rows->begin[k + 1], w->run->is_first ? NULL : scale + k * w->n, w->n, n_column,
            0};
        if (with_positive) {
            add_rows_twice(&how, w->weight, a->out + at, w->positive, a->state->positive + at);
        } else {
            add_rows(&how, FETCH_REST, w->weight, a->out + at);
        }
    }
}

/* m' of each row and head */
INLINE void short_keep(const struct heads *w, const struct short_rows *rows, run_numbers base)
{
    for (int64_t k = 0; k < rows->n_row; k++) {
        float *softmax = w->a->state->softmax + 2 * (rows->row[k] * w->a->how->n_head + w->first);
        for (int64_t h = 0; h < w->n; h++) {
            softmax[2 * h] = base[h][rows->begin[k]];
        }
    }
}

/* Rows whose m moves: a run of its own for each. */
INLINE void forward_alone(const struct cpu_attention *a, const struct short_rows *rows, int64_t first, int64_t n)
{
    const int64_t *indptr = a->block->indptr;
    for (int64_t k = 0; k < rows->n_row; k++) {
        const int64_t r = rows->block_row[k];
        struct run run;
        run_open(a, &(struct edges_left){r, indptr[r], indptr[r + 1], a->with_self, a->begin}, &run);
        forward_add(a, &run, first, n, NULL);
    }
}

TARGET static void forward_short(const struct cpu_attention *a, const struct short_rows *rows, int64_t first,
                                 int64_t n)
{
    const int64_t n_head = a->how->n_head, n_column = a->how->n_column;
    const bool with_positive = a->state->positive != NULL;
    struct heads w;
    run_numbers base;
    float scale[RUN * HEADS + LANES];
    heads_open(a, &rows->run, first, n, &w);
    short_open_far(rows, a->with_self, a->source.value, a->self_source.value, n_head * n_column, first * n_column,
                   &w.rows);
    short_open_far(rows, a->with_self, a->source.key, a->self_source.key, n_head, first, &w.other);
    short_scores(&w, rows, a->target.query);
    if (!short_bases(&w, rows, base, scale)) {
        forward_alone(a, rows, first, n);
        return;
    }
    short_keep(&w, rows, base);
    short_weights(&w, base, with_positive);
    short_sums(&w, rows, w.weight, scale, 2, a->state->softmax + 1);
    if (with_positive) {
        short_sums(&w, rows, w.positive, scale, 1, a->state->positive_weight);
    }
    run_dropout(a, w.run, first, n, w.mu);
    drop(&w, w.weight);
    if (with_positive) {
        drop(&w, w.positive);
    }
    short_values(&w, rows, scale, with_positive);
}

/* g_i = ⟨value_r(i), grad_out_i⟩ and grad_value_r (+)= Σ_i μ_i α_i grad_out_i */
INLINE void short_source_values(struct heads *w, const struct short_rows *rows)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_head = a->how->n_head, n_column = a->how->n_column;
    float(*weight)[RUN] = source_weights(w);
    struct run_rows own;
    short_open_own(rows, a->source.value, n_head * n_column, w->first * n_column, &own);
    for (int64_t h = 0; h < w->n; h++) {
        fill_edges(w->run, w->g[h], 0.0f);
        pair_dots(&own, h * n_column, &w->rows, h * n_column, n_column, w->g[h]);
    }
    for (int64_t k = 0; k < rows->n_row; k++) {
        const struct rows_sum how = {
            &w->rows, rows->begin[k], rows->begin[k + 1], w->run->is_first ? NULL : run_ones, w->n, n_column, 0};
        add_rows(&how, FETCH_NONE, weight, a->grad_value + (rows->row[k] * n_head + w->first) * n_column);
    }
}

TARGET static void source_short(const struct cpu_attention *a, const struct short_rows *rows, int64_t first,
                                int64_t n)
{
    const int64_t n_head = a->how->n_head, n_column = a->how->n_column;
    struct heads w;
    heads_open(a, &rows->run, first, n, &w);
    short_open_far(rows, a->with_self, a->target.grad_out, a->self_target.grad_out, n_head * n_column,
                   first * n_column, &w.rows);
    short_open_far(rows, a->with_self, a->target.softmax, a->self_target.softmax, 2 * n_head, 2 * first, &w.other);
    run_columns(w.run, &w.other, 2 * n, w.softmax[0]);
    short_open_far(rows, a->with_self, a->target.query, a->self_target.query, n_head, first, &w.other);
    run_dropout(a, w.run, first, n, w.mu);
    short_scores(&w, rows, a->source.key);
    backward_alphas(&w);
    short_source_values(&w, rows);
    backward_scores(&w);
    add_slopes(&w);
    short_sums(&w, rows, w.de, NULL, 1, a->grad_key);
}

/* Can these functions compute a pass over rows of few edges? */
INLINE bool is_short(const struct cpu_attention *a)
{
    return !is_narrow(a->how) && a->how->score == DEVICE_SCORE_ADD && a->how->n_edge_column == 0 &&
           a->pass != CPU_ATTENTION_QUERY;
}
