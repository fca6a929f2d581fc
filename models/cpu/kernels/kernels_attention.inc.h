/* Attention: a row's edges in runs, from both ends.
 *
 * Scores of a run come first, then the softmax's arithmetic on all of its edges at once, then the rows of values,
 * which are near by now or on their way.
 */

/* --- forward --- */

/* Weights exp(score - peak) of n heads after raising their peaks, and Σ of them; scale: of what was added before;
 * ahead: rows whose first lines are fetched, or NULL. */
INLINE void forward_weights(const struct run *run, int64_t n, const struct run_rows *ahead, int64_t n_column, float *softmax,
                            run_numbers weight, float *scale)
{
    float sum[HEADS];
    for (int64_t h = 0; h < n; h++) {
        float greatest = run_max(run, weight[h]), peak = run->is_first ? -INFINITY : softmax[2 * h];
        scale[h] = 1.0f;
        if (greatest > peak) {
            float lanes[LANES];
            vector_store(lanes, vector_exp(vector_set(peak - greatest)));
            scale[h] = lanes[0];
            peak = greatest;
        }
        softmax[2 * h] = peak;
    }
    for (int64_t h = 0; h < n; h++) {
        vector minus_peak = vector_set(-softmax[2 * h]);
        EACH_VECTOR(i, run)
        {
            vector_store(weight[h] + i, vector_exp(vector_add(vector_load(weight[h] + i), minus_peak)));
            if (ahead != NULL) {
                fetch_first(ahead, i, h * n_column, n_column);
            }
        }
    }
    run_sums(run, weight, n, sum);
    for (int64_t h = 0; h < n; h++) {
        softmax[2 * h + 1] = (run->is_first ? 0.0f : scale[h] * softmax[2 * h + 1]) + sum[h];
    }
}

/* The weights of edges with key + query > 0, others 0, and Σ of them. */
INLINE void positive_weights(const struct run *run, int64_t n, run_numbers x, run_numbers weight, const float *scale,
                             run_numbers positive, float *norm)
{
    float sum[HEADS];
    for (int64_t h = 0; h < n; h++) {
        EACH_VECTOR(i, run)
        {
            vector w = vector_load(weight[h] + i);
            vector_store(positive[h] + i, vector_select_positive(vector_load(x[h] + i), w, vector_set(0.0f)));
        }
    }
    run_sums(run, positive, n, sum);
    for (int64_t h = 0; h < n; h++) {
        norm[h] = (run->is_first ? 0.0f : scale[h] * norm[h]) + sum[h];
    }
}

/* Keys at the other ends: rows as wide as values, or n numbers per edge. */
INLINE void keys_open(const struct cpu_attention *a, const enum device_score_kind kind, const struct run *run, int64_t first,
                      int64_t n, struct run_rows *key, run_numbers number)
{
    const int64_t n_head = a->how->n_head, n_column = a->how->n_column;
    if (kind == DEVICE_SCORE_ADD || kind == DEVICE_SCORE_COSINE) {
        rows_open(run, a->source.key, a->self_source.key, n_head, first, key);
        run_columns(run, key, n, number[0]);
    } else if (kind == DEVICE_SCORE_DOT) {
        rows_open(run, a->source.key, a->self_source.key, n_head * n_column, first * n_column, key);
    }
}

INLINE void forward_heads(const struct cpu_attention *a, const enum device_score_kind kind, const struct run *run,
                          int64_t first, int64_t n)
{
    const struct device_attention *how = a->how;
    const int64_t n_column = how->n_column, head = run->head + first, own_head = run->row * how->n_head + first;
    const float *query = a->target.query + (kind == DEVICE_SCORE_ADD ? own_head : own_head * n_column);
    const bool fetch = kind == DEVICE_SCORE_ADD || kind == DEVICE_SCORE_DOT;
    float *positive = kind == DEVICE_SCORE_ADD && a->state->positive != NULL ? a->state->positive + head * n_column : NULL;
    float scale[HEADS], *out = a->out + head * n_column;
    run_numbers keep, x, weight, positive_weight;
    struct run_rows value, key;
    rows_open(run, a->source.value, a->self_source.value, how->n_head * n_column, first * n_column, &value);
    keys_open(a, kind, run, first, n, &key, x);
    run_scores(how, kind, run, first, n, query, kind == DEVICE_SCORE_DOT ? &key : &value, x, x, weight);
    forward_weights(run, n, fetch ? &value : NULL, n_column, a->state->softmax + 2 * head, weight, scale);
    if (positive != NULL) {
        positive_weights(run, n, x, weight, scale, positive_weight, a->state->positive_weight + head);
    }
    run_keep(a, run, first, n, keep);
    for (int64_t h = 0; a->threshold > 0 && h < n; h++) {
        multiply_edges(run, weight[h], keep[h]);
        if (positive != NULL) {
            multiply_edges(run, positive_weight[h], keep[h]);
        }
    }
    const float *start = run->is_first ? NULL : scale;
    if (positive != NULL) {
        add_rows_twice(&value, weight, positive_weight, start, n, n_column, out, positive);
    } else {
        add_rows(&value, weight, start, fetch ? FETCH_REST : FETCH_NONE, n, n_column, out);
    }
}

/* --- backward --- */

/* α from scores; weight = μ α. */
INLINE void edge_weights(const struct cpu_attention *a, const struct run *run, const float *score, const float *peak,
                         const float *keep, float *alpha, float *weight)
{
    EACH_VECTOR(i, run)
    {
        vector x = vector_exp(vector_fma(vector_load(peak + i), vector_set(-1.0f), vector_load(score + i)));
        vector_store(alpha + i, x);
        vector_store(weight + i, a->threshold > 0 ? vector_multiply(vector_load(keep + i), x) : x);
    }
}

/* de = factor · α (μ g - D), g = ⟨grad_out, value⟩. */
INLINE void edge_gradients(const struct cpu_attention *a, const struct run *run, const float *alpha, const float *d,
                           const float *keep, const float *g, float factor, float *de)
{
    EACH_VECTOR(i, run)
    {
        vector grad = vector_load(g + i);
        grad = a->threshold > 0 ? vector_multiply(vector_load(keep + i), grad) : grad;
        grad = vector_multiply(vector_load(alpha + i), vector_fma(vector_load(d + i), vector_set(-1.0f), grad));
        vector_store(de + i, vector_multiply(grad, vector_set(factor)));
    }
}

static const float run_ones[HEADS] = {EIGHT(1.0f)};

/* Gradients of some heads of a row's query from a run of its in-edges. */
INLINE void query_heads(const struct cpu_attention *a, const enum device_score_kind kind, const struct run *run, int64_t first,
                        int64_t n, double *grad_att)
{
    const struct device_attention *how = a->how;
    const int64_t n_column = how->n_column, width = how->n_head * n_column;
    const int64_t head = run->row * how->n_head + first, column = first * n_column;
    const float *query = a->target.query + head * n_column, *grad_out = a->target.grad_out + head * n_column;
    float *out = a->grad_query + (run->head + first) * n_column;
    run_numbers keep, number, product, score, de;
    struct run_rows value, key;
    rows_open(run, a->source.value, a->self_source.value, width, column, &value);
    keys_open(a, kind, run, first, n, &key, number);
    run_keep(a, run, first, n, keep);
    run_scores(how, kind, run, first, n, query, kind == DEVICE_SCORE_DOT ? &key : &value, number, product, score);
    for (int64_t h = 0; h < n; h++) {
        const float *softmax = a->target.softmax + 2 * (head + h);
        float peak[RUN], d[RUN], alpha[RUN], weight[RUN], g[RUN];
        EACH_VECTOR(i, run)
        {
            vector_store(peak + i, vector_set(softmax[0]));
            vector_store(d + i, vector_set(softmax[1]));
        }
        fill_edges(run, g, 0.0f);
        dots(&value, h * n_column, grad_out + h * n_column, kind == DEVICE_SCORE_DOT, n_column, g);
        edge_weights(a, run, score[h], peak, keep[h], alpha, weight);
        edge_gradients(a, run, alpha, d, keep[h], g, kind == DEVICE_SCORE_DOT ? how->scale : 1.0f, de[h]);
        if (kind == DEVICE_SCORE_COSINE) {
            multiply_edges(run, de[h], number[h]);
        }
    }
    if (kind == DEVICE_SCORE_DOT || kind == DEVICE_SCORE_COSINE) {
        const struct run_rows *rows = kind == DEVICE_SCORE_DOT ? &key : &value;
        add_rows(rows, de, run->is_first ? NULL : run_ones, FETCH_NONE, n, n_column, out);
    }
    for (int64_t h = 0; kind == DEVICE_SCORE_MLP && h < n; h++) {
        int64_t c = h * n_column;
        leaky_rows(&value, c, query + c, how->att + column + c, how->slope, de[h], run->is_first, n_column, out + c,
                   grad_att != NULL ? grad_att + column + c : NULL);
    }
}

/* g = ⟨value, grad_out_i⟩ and grad_value (+)= Σ_i weight[i] · grad_out_i of n heads. */
INLINE void source_values(const struct run *run, const struct run_rows *grad_out, int64_t n, int64_t n_column,
                          const float *value, run_numbers weight, run_numbers g, float *grad_value)
{
    const bool fused = n_column == FUSED_VECTORS * LANES && FUSED_VECTORS % PARTS == 0;
    for (int64_t h = 0; h < n; h++) {
        int64_t c = h * n_column;
        fill_edges(run, g[h], 0.0f);
        if (fused) {
            dots_and_add(grad_out, c, value + c, weight[h], run->is_first, FUSED_VECTORS, g[h], grad_value + c);
        } else {
            dots(grad_out, c, value + c, false, n_column, g[h]);
        }
    }
    if (!fused) {
        add_rows(grad_out, weight, run->is_first ? NULL : run_ones, FETCH_ALL, n, n_column, grad_value);
    }
}

/* Gradients of some heads of a row as a source, from a run of its out-edges. */
INLINE void source_heads(const struct cpu_attention *a, const enum device_score_kind kind, const struct run *run, int64_t first,
                         int64_t n)
{
    const struct device_attention *how = a->how;
    const int64_t n_head = how->n_head, n_column = how->n_column, width = n_head * n_column;
    const int64_t head = run->row * n_head + first, column = first * n_column, to_head = run->head + first;
    const float *value = a->source.value + head * n_column, *own = value;
    float *grad_value = a->grad_value + to_head * n_column, sum[HEADS];
    run_numbers keep, number, x, score, alpha, weight, g, de, softmax[2];
    struct run_rows grad_out, query, state;
    rows_open(run, a->target.grad_out, a->self_target.grad_out, width, column, &grad_out);
    rows_open(run, a->target.softmax, a->self_target.softmax, 2 * n_head, 2 * first, &state);
    run_columns(run, &state, 2 * n, softmax[0][0]);
    if (kind == DEVICE_SCORE_ADD) {
        rows_open(run, a->target.query, a->self_target.query, n_head, first, &query);
        run_columns(run, &query, n, x[0]);
        own = a->source.key + head;
    } else {
        rows_open(run, a->target.query, a->self_target.query, width, column, &query);
        own = kind == DEVICE_SCORE_DOT ? a->source.key + head * n_column : value;
    }
    for (int64_t h = 0; kind == DEVICE_SCORE_COSINE && h < n; h++) {
        fill_edges(run, number[h], a->source.key[head + h]);
    }
    run_keep(a, run, first, n, keep);
    run_scores(how, kind, run, first, n, own, &query, kind == DEVICE_SCORE_ADD ? x : number, x, score);
    for (int64_t h = 0; h < n; h++) {
        edge_weights(a, run, score[h], softmax[0][0] + 2 * h * RUN, keep[h], alpha[h], weight[h]);
    }
    source_values(run, &grad_out, n, n_column, value, weight, g, grad_value);
    for (int64_t h = 0; h < n; h++) {
        const float *d = softmax[0][0] + (2 * h + 1) * RUN;
        edge_gradients(a, run, alpha[h], d, keep[h], g[h], kind == DEVICE_SCORE_DOT ? how->scale : 1.0f, de[h]);
        for (int64_t i = 0; kind == DEVICE_SCORE_ADD && i < run->padded; i += LANES) {
            vector slope = vector_select_positive(vector_load(x[h] + i), vector_set(1.0f), vector_set(how->slope));
            vector_store(de[h] + i, vector_multiply(vector_load(de[h] + i), slope));
        }
        if (kind == DEVICE_SCORE_MLP) {
            int64_t c = h * n_column;
            leaky_rows(&query, c, value + c, how->att + column + c, how->slope, de[h], false, n_column, grad_value + c, NULL);
        }
        if (kind == DEVICE_SCORE_COSINE) {
            multiply_edges(run, number[h], de[h]);
            multiply_edges(run, de[h], x[h]);
        }
    }
    if (kind == DEVICE_SCORE_COSINE) {
        add_rows(&query, number, run_ones, FETCH_NONE, n, n_column, grad_value);
    }
    if (kind == DEVICE_SCORE_DOT) {
        add_rows(&query, de, run->is_first ? NULL : run_ones, FETCH_NONE, n, n_column, a->grad_key + to_head * n_column);
    } else if (kind != DEVICE_SCORE_MLP) {
        run_sums(run, de, n, sum);
        for (int64_t h = 0; h < n; h++) {
            a->grad_key[to_head + h] = (run->is_first ? 0.0f : a->grad_key[to_head + h]) + sum[h];
        }
    }
}

/* --- rows first … end-1 --- */

/* What is the next row's own, but for numbers per head. */
INLINE void fetch_next(const struct cpu_attention *a, int64_t r)
{
    const int64_t width = a->how->n_head * a->how->n_column;
    int64_t row = a->block->rows != NULL ? a->block->rows[r] : r;
    for (int i = 0; i < 2; i++) {
        fetch_own(a->own_reads[i] != NULL ? a->own_reads[i] + row * width : NULL, width, false);
        fetch_own(a->own_writes[i] != NULL ? a->own_writes[i] + row * width : NULL, width, true);
    }
}

INLINE void row_zero(int64_t row, int64_t width, float *x)
{
    if (x != NULL) {
        memset(x + row * width, 0, (size_t)width * sizeof *x);
    }
}

/* A row that begins without any edge. */
INLINE void row_none(const struct cpu_attention *a, int64_t row)
{
    const int64_t n_head = a->how->n_head, width = n_head * a->how->n_column;
    row_zero(row, width, a->out);
    row_zero(row, width, a->grad_query);
    row_zero(row, width, a->grad_value);
    row_zero(row, a->how->score == DEVICE_SCORE_DOT ? width : n_head, a->grad_key);
    if (a->state != NULL) {
        row_zero(row, width, a->state->positive);
        row_zero(row, n_head, a->state->positive_weight);
    }
    for (int64_t h = row * n_head; a->state != NULL && h < (row + 1) * n_head; h++) {
        a->state->softmax[2 * h] = -INFINITY;
        a->state->softmax[2 * h + 1] = 0.0f;
    }
}

/* Heads first … first+n-1 of one run, with one kind of score. */
typedef void heads_function(const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n, double *grad_att);

#define HEADS_FUNCTION(name, kind, call)                                                                                       \
    TARGET static void name##_##kind(const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n,           \
                                     double *grad_att)                                                                         \
    {                                                                                                                          \
        (void)n;                                                                                                               \
        (void)grad_att;                                                                                                        \
        call;                                                                                                                  \
    }
#define EACH_SCORE(X) X(DEVICE_SCORE_ADD) X(DEVICE_SCORE_MLP) X(DEVICE_SCORE_DOT) X(DEVICE_SCORE_COSINE)
#define FORWARD(kind) HEADS_FUNCTION(forward, kind, forward_heads(a, kind, run, first, n))
#define SOURCE(kind) HEADS_FUNCTION(source, kind, source_heads(a, kind, run, first, n))
EACH_SCORE(FORWARD)
EACH_SCORE(SOURCE)
HEADS_FUNCTION(forward, narrow, narrow_forward(a, run, first))
HEADS_FUNCTION(source, narrow, narrow_source(a, run, first))
HEADS_FUNCTION(query, DEVICE_SCORE_MLP, query_heads(a, DEVICE_SCORE_MLP, run, first, n, grad_att))
HEADS_FUNCTION(query, DEVICE_SCORE_DOT, query_heads(a, DEVICE_SCORE_DOT, run, first, n, grad_att))
HEADS_FUNCTION(query, DEVICE_SCORE_COSINE, query_heads(a, DEVICE_SCORE_COSINE, run, first, n, grad_att))

#define FORWARD_ENTRY(kind) [kind] = forward_##kind,
#define SOURCE_ENTRY(kind) [kind] = source_##kind,
static heads_function *const forward_functions[] = {EACH_SCORE(FORWARD_ENTRY)};
static heads_function *const source_functions[] = {EACH_SCORE(SOURCE_ENTRY)};
static heads_function *const query_functions[] = {[DEVICE_SCORE_MLP] = query_DEVICE_SCORE_MLP,
                                                  [DEVICE_SCORE_DOT] = query_DEVICE_SCORE_DOT,
                                                  [DEVICE_SCORE_COSINE] = query_DEVICE_SCORE_COSINE};

TARGET static heads_function *heads_of(const struct cpu_attention *a)
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

/* Edges e … e_end-1 of row r in runs, each run's heads a few at a time. */
INLINE void row_edges(const struct cpu_attention *a, heads_function *heads, int64_t r, int64_t e, int64_t e_end, bool has_self,
                      bool is_first, double *grad_att)
{
    while (has_self || e < e_end) {
        struct run run;
        run_open(a, r, e, e_end, has_self, is_first, &run);
        for (int64_t h = a->first_head, n; h < a->end_head; h += n) {
            n = smaller(a->end_head - h, HEADS);
            heads(a, &run, h, n, grad_att);
        }
        e += run.n - has_self;
        has_self = is_first = false;
    }
}

TARGET static void attention_rows(const struct cpu_attention *a, int64_t first, int64_t end, double *grad_att)
{
    heads_function *heads = heads_of(a);
    for (int64_t r = first; r < end; r++) {
        int64_t e = a->block->indptr[r], e_end = a->block->indptr[r + 1];
        if (r + 1 < end) {
            fetch_next(a, r + 1);
        }
        if (a->begin && !a->with_self && e == e_end) {
            row_none(a, r);
        }
        row_edges(a, heads, r, e, e_end, a->with_self, a->begin, grad_att);
    }
}

TARGET static void attention_piece(const struct cpu_attention *a, int64_t row, int64_t begin, int64_t end, double *grad_att)
{
    row_edges(a, heads_of(a), row, begin, end, a->with_self && begin == a->block->indptr[row], true, grad_att);
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

/* The softmax does not change when all its scores move by the same: Σ_j de_ij = 0, so only edges with x > 0, whose
 * slope differs from the others' by 1 - slope, are left of Σ_j de_ij · slope(x_ij). */
TARGET static void attention_begin(const struct cpu_attention_begin *b, int64_t first, int64_t end)
{
    const int64_t n_head = b->how->n_head, n_column = b->how->n_column;
    for (int64_t i = first * n_head; i < end * n_head; i++) {
        const float *grad_out = b->grad_out + i * n_column;
        double d = double_dot(n_column, grad_out, b->out + i * n_column);
        b->state->softmax[2 * i + 1] = (float)d;
        if (b->how->score == DEVICE_SCORE_ADD) {
            double positive = double_dot(n_column, grad_out, b->state->positive + i * n_column);
            double slope = (double)b->how->slope;
            float grad = (float)((1.0 - slope) * (positive - d * (double)b->state->positive_weight[i]));
            b->grad_query[i] = b->add ? b->grad_query[i] + grad : grad;
        }
    }
}

/* Rows that head_dot fetches ahead: loads of four rows in turn look like no stream to the processor. */
#define DOT_ROWS_AHEAD 16

/* Four rows at a time. */
TARGET static void head_dot(int64_t n_head, int64_t n_column, const float *x, const float *w, int64_t first, int64_t end,
                            float *out)
{
    const int64_t width = n_head * n_column;
    for (int64_t r = first; r < end; r += 4) {
        struct run_rows rows = {.n = 4};
        float dot[4];
        for (int64_t i = 0; i < 4; i++) {
            rows.row[i] = x + smaller(r + i, end - 1) * width;
            rows.ahead[i] = x + smaller(r + i + DOT_ROWS_AHEAD, end - 1) * width;
        }
        for (int64_t h = 0; h < n_head; h++) {
            dots_by(&rows, h * n_column, w + h * n_column, NULL, 0.0f, true, n_column, dot);
            for (int64_t i = 0; i < smaller(end - r, 4); i++) {
                out[(r + i) * n_head + h] = dot[i];
            }
        }
    }
}

TARGET static void head_dot_sum(int64_t n_head, int64_t n_column, const float *x, const float *grad, int64_t first, int64_t end,
                                double *sum)
{
    for (int64_t i = first * n_head; i < end * n_head; i++) {
        double *to = sum + i % n_head * n_column, g = (double)grad[i];
        for (int64_t c = 0; c < n_column; c++) {
            to[c] += g * (double)x[i * n_column + c];
        }
    }
}
