/* Attention over the edges of a row, run by run: forward, and the gradients at either end of an edge.
 *
 *   e_ij = score(source j, destination i), of kernels_scores.inc.h, head by head
 *   α_ij = exp(e_ij) / Σ_j exp(e_ij)               over i's in-edges
 *   out_i = Σ_j μ_ij α_ij value_j                  μ: dropout's factor, 0 or 1 / (1 - p)
 *
 * No number per edge outlives its run: backward makes α anew from two numbers per destination and head,
 *   L_i = ln Σ_j exp(e_ij)     α_ij = exp(e_ij - L_i)
 *   D_i = ⟨grad_out_i, out_i⟩  de_ij = α_ij (μ_ij ⟨grad_out_i, value_j⟩ - D_i), the gradient of e_ij
 *
 * Shapes  value, grad_out, out n × n_head·n_column · L, D n × n_head · key, query: by score, see device.h
 * Order   a row's edges as the block has them, its edge to itself first; sums of numbers and of rows add edge after
 *         edge, so that neither the runs nor the borders between blocks leave a trace
 * source  Milakov & Gimelshein, arXiv 1805.02867 (online softmax) · Dao et al., NeurIPS 2022 (D)
 */

/* Start on heads first … first+n-1 of a run. */
INLINE void heads_open(const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n,
                       struct heads *w)
{
    w->a = a;
    w->run = run;
    w->first = first;
    w->n = n;
    w->head = run->row * a->how->n_head + first;
    w->to_head = run->head + first;
    w->own_step = w->far_step = w->rows_step = a->how->n_column;
    if (a->how->n_edge_column > 0) {
        features_open(a, run, &w->features);
    }
}

/* The values of the sources at the other ends. */
INLINE void open_values(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    rows_open(w->run, a->source.value, a->self_source.value, a->how->n_head * n_column, w->first * n_column,
              &w->rows);
}

/* Multiply by dropout's factors, where there is dropout. */
INLINE void drop(const struct heads *w, run_numbers x)
{
    if (w->a->threshold == 0) {
        return;
    }
    for (int64_t h = 0; h < w->n; h++) {
        multiply_edges(w->run, x[h], w->mu[h]);
    }
}

/* --- forward ---
 *
 * State of a row and head while its edges come, s = 0 and out = 0 before the first:
 *   m' = m, or e_i at the first edge and where e_i - m > RAISE     c = exp(m - m')     w_i = exp(e_i - m')
 *   s' = c s + w_i     out' = c out + μ_i w_i value_i
 * m is the score of some edge: at most RAISE less than the greatest so far, which is all that exp needs. It is nearly
 * always the first edge's, and whether it moves depends on the edges alone. attention_finish then divides out by s,
 * and L = m + ln s. GAT in training has two sums more, only over the edges with x = key + query > 0 (positive,
 * positive_weight); with them the query's gradient needs no edge, see attention_begin.
 */

#define RAISE 16.0f

/* m before a row's edges is -inf. Scores of -inf alone get a weight of 0 each, whose sum is not a number. */
INLINE float base_raise(float base, float score, float *raised)
{
    const float first = score == -INFINITY ? -FLT_MAX : score;
    *raised = base == -INFINITY ? first : score - base > RAISE ? score : base;
    return base == *raised ? 0.0f : base - *raised; /* ln c */
}

/* Raise m of n heads at a span's first edge, and s by c, of each. softmax: (m, s) */
INLINE void bases_raise(const struct heads *w, int64_t edge, float *softmax, float *scale)
{
    const bool is_first = w->run->is_first && edge == 0;
    for (int64_t h = 0; h < w->n; h++) {
        float ln = base_raise(is_first ? -INFINITY : softmax[2 * h], w->score[h][edge], &softmax[2 * h]);
        scale[h] = 1.0f;
        if (ln != 0.0f && !is_first) {
            float lanes[LANES];
            vector_store(lanes, vector_exp(vector_set(ln)));
            scale[h] = lanes[0];
        }
        softmax[2 * h + 1] = is_first ? 0.0f : scale[h] * softmax[2 * h + 1];
    }
}

/* The first edge from `edge` on at which some head's m has to be raised: nearly always the run's end. */
INLINE int64_t bases_hold(const struct heads *w, int64_t edge, const float *softmax)
{
    vector above[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        above[p] = vector_set(0.0f);
    }
    for (int64_t h = 0; h < w->n; h++) {
        const vector minus_base = vector_set(-softmax[2 * h]);
        EACH_VECTOR(i, w->run)
        {
            int64_t p = i / LANES % PARTS;
            above[p] = vector_greater(vector_add(vector_load(w->score[h] + i), minus_base), above[p]);
        }
    }
    bool holds = parts_max(above) <= RAISE;
    for (int64_t i = edge; i < w->run->n && !holds; i++) {
        for (int64_t h = 0; h < w->n; h++) {
            if (w->score[h][i] - softmax[2 * h] > RAISE) {
                return i;
            }
        }
    }
    return w->run->n;
}

/* The edges from span.end on at which m holds: m, c · s and c of n heads, weights w_i of the run's edges (right in
 * the span); with `fetch` the first lines of the rows of the next run are prefetched beside the exponentials. */
INLINE void forward_weights(struct heads *w, const bool fetch, struct span *span, float *scale)
{
    const int64_t n_column = w->a->how->n_column;
    float *softmax = w->a->state->softmax + 2 * w->to_head;
    span->begin = span->end;
    bases_raise(w, span->begin, softmax, scale);
    span->end = bases_hold(w, span->begin + 1, softmax);
    for (int64_t h = 0; h < w->n; h++) {
        vector minus_base = vector_set(-softmax[2 * h]);
        EACH_VECTOR(i, w->run)
        {
            vector_store(w->weight[h] + i, vector_exp(vector_add(vector_load(w->score[h] + i), minus_base)));
            if (fetch) {
                fetch_first(&w->rows, i, h * n_column, n_column);
            }
        }
    }
}

/* s', and out' = c out + Σ_i μ_i w_i value_i */
INLINE void forward_values(struct heads *w, const struct span *span, const float *scale, enum run_fetch fetch)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column;
    const float *start = w->run->is_first && span->begin == 0 ? NULL : scale;
    const struct rows_sum how = {&w->rows, span->begin, span->end, start, w->n, n_column, 0};
    span_sums(span, w->weight, w->n, 2, a->state->softmax + 2 * w->to_head + 1);
    drop(w, w->weight);
    if (device_attention_columns(a->how) > n_column) {
        heads_add_wide(w, &how, w->weight, fetch, a->out);
    } else {
        add_rows(&how, fetch, w->weight, a->out + w->to_head * n_column);
    }
}

/* The weights of edges with x > 0, 0 for the others, and s' and positive_weight' = c positive_weight + Σ of them. */
INLINE void positive_weights(struct heads *w, const struct span *span, const float *scale)
{
    float *sum = w->a->state->positive_weight + w->to_head;
    for (int64_t h = 0; h < w->n; h++) {
        sum[h] = w->run->is_first && span->begin == 0 ? 0.0f : scale[h] * sum[h];
        EACH_VECTOR(i, w->run)
        {
            vector weight = vector_load(w->weight[h] + i);
            vector_store(w->positive[h] + i,
                         vector_select_positive(vector_load(w->x[h] + i), weight, vector_set(0.0f)));
        }
    }
    const struct numbers_sum sums[2] = {{w->weight, 2, w->a->state->softmax + 2 * w->to_head + 1},
                                        {w->positive, 1, sum}};
    span_sums_twice(span, w->n, sums);
}

/* out and positive in one pass over the values. */
INLINE void forward_values_twice(struct heads *w, const struct span *span, const float *scale)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_column = a->how->n_column, at = w->to_head * n_column;
    const float *start = w->run->is_first && span->begin == 0 ? NULL : scale;
    const struct rows_sum how = {&w->rows, span->begin, span->end, start, w->n, n_column, 0};
    positive_weights(w, span, scale);
    drop(w, w->weight);
    drop(w, w->positive);
    add_rows_twice(&how, w->weight, a->out + at, w->positive, a->state->positive + at);
}

/* --- backward --- */

/* α = exp(e - L) */
INLINE void backward_alphas(struct heads *w)
{
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector l = vector_load(w->softmax[2 * h] + i);
            vector_store(w->alpha[h] + i, vector_exp(vector_fma(l, vector_set(-1.0f), vector_load(w->score[h] + i))));
        }
    }
}

/* de = α (μ g - D); g becomes μ g. */
INLINE void backward_scores(struct heads *w)
{
    drop(w, w->g);
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector d = vector_load(w->softmax[2 * h + 1] + i);
            vector rest = vector_fma(d, vector_set(-1.0f), vector_load(w->g[h] + i));
            vector_store(w->de[h] + i, vector_multiply(vector_load(w->alpha[h] + i), rest));
        }
    }
}

/* The own row is the destination: L and D are its own, and g = ⟨grad_out_i, value_j⟩ reads the values at the other
 * ends, which scores have prefetched unless they read keys. */
INLINE void query_dots(struct heads *w, const bool fetch)
{
    const int64_t n_column = w->a->how->n_column, wide = device_attention_columns(w->a->how);
    const float *softmax = w->a->target.softmax + 2 * w->head, *grad_out = w->a->target.grad_out + w->head * wide;
    for (int64_t h = 0; h < w->n; h++) {
        fill_edges(w->run, w->softmax[2 * h], softmax[2 * h]);
        fill_edges(w->run, w->softmax[2 * h + 1], softmax[2 * h + 1]);
        fill_edges(w->run, w->g[h], 0.0f);
        dots(&w->rows, h * n_column, grad_out + h * wide, fetch, n_column, w->g[h]);
        if (wide > n_column) {
            features_dot(w, h, grad_out + h * wide + n_column, NULL, w->g[h]);
        }
    }
}

/* The own row is the source: gradients, L and D of the destinations at the other ends. */
INLINE void open_gradients(struct heads *w)
{
    const struct cpu_attention *a = w->a;
    const int64_t n_head = a->how->n_head, n_column = device_attention_columns(a->how);
    w->rows_step = n_column;
    rows_open(w->run, a->target.grad_out, a->self_target.grad_out, n_head * n_column, w->first * n_column, &w->rows);
    rows_open(w->run, a->target.softmax, a->self_target.softmax, 2 * n_head, 2 * w->first, &w->other);
    run_columns(w->run, &w->other, 2 * w->n, w->softmax[0]);
}

/* The rows' weights μ α: α itself without dropout. */
INLINE float (*source_weights(struct heads *w))[RUN]
{
    if (w->a->threshold == 0) {
        return w->alpha;
    }
    for (int64_t h = 0; h < w->n; h++) {
        EACH_VECTOR(i, w->run)
        {
            vector_store(w->weight[h] + i, vector_multiply(vector_load(w->mu[h] + i), vector_load(w->alpha[h] + i)));
        }
    }
    return w->weight;
}

/* g = ⟨value_j, grad_out_i⟩ and grad_value_j (+)= Σ_i μ α grad_out_i: in one pass over the rows where a head's
 * columns fit the registers, else in two. */
INLINE void source_values(struct heads *w)
{
    const int64_t n_column = w->a->how->n_column, step = w->rows_step;
    const bool is_fused = n_column == FUSED_VECTORS * LANES && FUSED_VECTORS % PARTS == 0;
    const float *value = w->a->source.value + w->head * n_column;
    float *grad_value = w->a->grad_value + w->to_head * n_column, (*weight)[RUN] = source_weights(w);
    for (int64_t h = 0; h < w->n; h++) {
        int64_t c = h * n_column;
        fill_edges(w->run, w->g[h], 0.0f);
        if (is_fused) {
            const struct dots_and_sum to = {value + c, weight[h], w->run->is_first, w->g[h], grad_value + c};
            dots_and_add(&w->rows, h * step, &to, FUSED_VECTORS);
        } else {
            dots(&w->rows, h * step, value + c, false, n_column, w->g[h]);
        }
        if (step > n_column) {
            features_dot(w, h, NULL, &w->rows, w->g[h]);
        }
    }
    if (!is_fused && step > n_column) {
        heads_add_narrow(w, &w->rows, weight, FETCH_ALL, w->a->grad_value);
    } else if (!is_fused) {
        heads_add(w, &w->rows, weight, FETCH_ALL, w->a->grad_value);
    }
}

/* --- a score's passes over some heads of one run --- */

#define HEADS_ARGUMENTS const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n, double *sums
typedef void heads_function(HEADS_ARGUMENTS);

/* fetch: dot's values are read here for the first time; mlp and cosine have read them for their scores. */
#define FORWARD(kind, fetch)                                                                                         \
    TARGET static void forward_##kind(HEADS_ARGUMENTS)                                                               \
    {                                                                                                                \
        struct heads w;                                                                                              \
        struct span span = {0};                                                                                      \
        float scale[HEADS];                                                                                          \
        (void)sums;                                                                                                  \
        heads_open(a, run, first, n, &w);                                                                            \
        open_values(&w);                                                                                             \
        kind##_target(&w);                                                                                           \
        run_dropout(a, run, first, n, w.mu);                                                                         \
        kind##_scores(&w);                                                                                           \
        while (span.end < run->n) {                                                                                  \
            forward_weights(&w, fetch, &span, scale);                                                                \
            forward_values(&w, &span, scale, fetch ? FETCH_REST : FETCH_NONE);                                       \
        }                                                                                                            \
    }
FORWARD(mlp, false)
FORWARD(dot, true)
FORWARD(cosine, false)

TARGET static void forward_add(HEADS_ARGUMENTS)
{
    struct heads w;
    struct span span = {0};
    float scale[HEADS];
    (void)sums;
    heads_open(a, run, first, n, &w);
    open_values(&w);
    run_dropout(a, run, first, n, w.mu);
    add_target(&w);
    add_scores(&w);
    while (span.end < run->n) {
        forward_weights(&w, true, &span, scale);
        if (a->state->positive != NULL) {
            forward_values_twice(&w, &span, scale);
        } else {
            forward_values(&w, &span, scale, FETCH_REST);
        }
    }
}

/* Gradients of the row's query, from its in-edges; add's needs no edge unless edges have features. */
#define QUERY(kind, fetch)                                                                                           \
    TARGET static void query_##kind(HEADS_ARGUMENTS)                                                                 \
    {                                                                                                                \
        struct heads w;                                                                                              \
        heads_open(a, run, first, n, &w);                                                                            \
        open_values(&w);                                                                                             \
        kind##_target(&w);                                                                                           \
        run_dropout(a, run, first, n, w.mu);                                                                         \
        kind##_scores(&w);                                                                                           \
        query_dots(&w, fetch);                                                                                       \
        backward_alphas(&w);                                                                                         \
        backward_scores(&w);                                                                                         \
        kind##_query_gradients(&w, sums);                                                                            \
    }
QUERY(add, true)
QUERY(mlp, false)
QUERY(dot, true)
QUERY(cosine, false)

/* Gradients of the row's value and key, from its out-edges. */
#define SOURCE(kind)                                                                                                 \
    TARGET static void source_##kind(HEADS_ARGUMENTS)                                                                \
    {                                                                                                                \
        struct heads w;                                                                                              \
        (void)sums;                                                                                                  \
        heads_open(a, run, first, n, &w);                                                                            \
        open_gradients(&w);                                                                                          \
        kind##_source(&w);                                                                                           \
        run_dropout(a, run, first, n, w.mu);                                                                         \
        kind##_scores(&w);                                                                                           \
        backward_alphas(&w);                                                                                         \
        source_values(&w);                                                                                           \
        backward_scores(&w);                                                                                         \
        kind##_source_gradients(&w);                                                                                 \
    }
SOURCE(add)
SOURCE(mlp)
SOURCE(dot)
SOURCE(cosine)
