/* GAT with eight heads of eight columns, as in its paper, all eight heads at once.
 *
 * The formulas are those of the score `add` in kernels_scores.inc.h and of the passes in kernels_attention.inc.h. A
 * single such head would not fill a vector: here a run's numbers lie edge by edge, [8 i + h] that of edge i at head
 * h, and the 64 columns of eight heads are one row.
 *
 * Order of summation, which defines the bits: numbers and rows add edge after edge; a product's eight columns are
 * added 4 apart, then 2, 1.
 */

#define NARROW 8 /* heads, and columns of each */
#define NARROW_VECTORS (NARROW * NARROW / LANES)

/* Numbers of a run's edges, and of one more where the run is odd. */
typedef float narrow_numbers[RUN * NARROW];

#define EACH_NARROW(i, run) for (int64_t i = 0; i < ((run)->n + (run)->n % 2) * NARROW; i += LANES)

/* Numbers per head that go with the vector of numbers per edge from i on, out of a list of two copies. */
#define PER_HEAD(twice, i) vector_load((twice) + (i) % (2 * NARROW))

INLINE void narrow_twice(const float *x, int64_t step, float twice[2 * NARROW])
{
    for (int64_t h = 0; h < NARROW; h++) {
        twice[h] = twice[h + NARROW] = x[h * step];
    }
}

/* An odd run goes on for one edge more: its n_number numbers. */
INLINE void narrow_pad(const struct run *run, const int64_t n_number, float value, float *x)
{
    if (run->n % 2 == 0) {
        return;
    }
    for (int64_t k = 0; k < n_number; k++) {
        x[run->n * n_number + k] = value;
    }
}

/* x[n_number i + k] = row_i[k], n_number eight or sixteen; `past` after the last edge. */
INLINE void narrow_open(const struct run *run, const struct run_rows *rows, const int64_t n_number, float past,
                        float *x)
{
    for (int64_t i = 0; i < run->n; i++) {
        fetch_row(rows->prefetch[i]);
        memcpy(x + i * n_number, rows->row[i], (size_t)n_number * sizeof *x);
    }
    narrow_pad(run, n_number, past, x);
}

/* score = leaky(x) + shift, x becomes key + query: it comes as the other ends' keys or queries, own is the row's
 * query or key. */
INLINE void narrow_scores(const struct run *run, const struct device_attention *how, const float *own, float *x,
                          float *score)
{
    const vector one = vector_set(1.0f), slope = vector_set(how->slope), shift = vector_set(how->shift);
    float mine[2 * NARROW];
    narrow_twice(own, 1, mine);
    EACH_NARROW(i, run)
    {
        vector sum = vector_add(vector_load(x + i), PER_HEAD(mine, i));
        vector_store(x + i, sum);
        vector_store(score + i, vector_add(vector_multiply(sum, vector_select_positive(sum, one, slope)), shift));
    }
}

/* sum[h · step] += x[8 i + h], edge i of a span after edge i. */
INLINE void narrow_sums(const struct span *span, const float *x, int64_t step, float *sum)
{
    float total[NARROW];
    for (int64_t h = 0; h < NARROW; h++) {
        total[h] = sum[h * step];
    }
    for (int64_t i = span->begin; i < span->end; i++) {
        for (int64_t h = 0; h < NARROW; h++) {
            total[h] += x[i * NARROW + h];
        }
    }
    for (int64_t h = 0; h < NARROW; h++) {
        sum[h * step] = total[h];
    }
}

/* Raise m of eight heads at a span's first edge, as bases_raise; scale: c of each. softmax: (m, s) per head */
INLINE void narrow_raise(const float *score, bool is_first, float *softmax, float scale[2 * NARROW])
{
    for (int64_t h = 0; h < NARROW; h++) {
        scale[h] = scale[h + NARROW] = base_raise(is_first ? -INFINITY : softmax[2 * h], score[h], &softmax[2 * h]);
    }
    for (int64_t i = 0; i < 2 * NARROW; i += LANES) {
        vector_store(scale + i, vector_exp(vector_load(scale + i)));
    }
    for (int64_t h = 0; h < NARROW; h++) {
        softmax[2 * h + 1] = is_first ? 0.0f : scale[h] * softmax[2 * h + 1];
    }
}

/* The first edge from `edge` on at which some head's m has to be raised, as bases_hold. base: twice eight m */
INLINE int64_t narrow_hold(const struct run *run, int64_t edge, const float *score, const float base[2 * NARROW])
{
    vector above[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        above[p] = vector_set(0.0f);
    }
    for (int64_t i = 0; i < run->n * NARROW; i += PARTS_LANES) {
        for (int64_t p = 0; p < PARTS; p++) {
            int64_t k = i + p * LANES;
            above[p] = vector_greater(vector_fma(PER_HEAD(base, k), vector_set(-1.0f), vector_load(score + k)),
                                      above[p]);
        }
    }
    bool holds = parts_max(above) <= RAISE;
    for (int64_t k = edge * NARROW; k < run->n * NARROW && !holds; k++) {
        if (score[k] - base[k % NARROW] > RAISE) {
            return k / NARROW;
        }
    }
    return run->n;
}

/* mu[8 i + h] = μ of edge i at head first + h, as run_dropout draws it. */
INLINE void narrow_dropout(const struct cpu_attention *a, const struct run *run, int64_t first, float *mu)
{
    const uint32_t threshold = a->threshold;
    const float scale = a->keep_scale;
    for (int64_t quad = 0; quad < 2; quad++) {
        uint32_t counter[4], key[2], drawn[RUN * 4];
        random_edge_counter(&a->key, 0, 0, (uint32_t)(first / 4 + quad), counter, key);
        for (int64_t i = 0; i < run->n; i += WORD_LANES) {
            words c[4] = {words_load(run->from + i), words_load(run->to + i), words_set(counter[2]),
                          words_set(counter[3])};
            draw_lanes(c, key);
            words_store(drawn + 4 * i, c[0], c[1], c[2], c[3]);
        }
        for (int64_t i = 0; i < run->n; i++) {
            for (int64_t k = 0; k < 4; k++) {
                uint32_t mask = drawn[4 * i + k] >= threshold ? UINT32_MAX : 0;
                mu[i * NARROW + 4 * quad + k] = keep_by_mask(mask, scale);
            }
        }
    }
    narrow_pad(run, NARROW, 0.0f, mu);
}

INLINE void narrow_multiply(const struct run *run, float *x, const float *by)
{
    EACH_NARROW(i, run)
    {
        vector_store(x + i, vector_multiply(vector_load(x + i), vector_load(by + i)));
    }
}

/* Up to two sums over the same rows of 64 columns: out = scale · out + Σ_i weight_i · row_i, weight_i per head. */
struct narrow_sum {
    const float *weight;
    float *out;
};

/* scale NULL: from 0. Four vectors of columns of each sum stay in registers while the edges stream by. */
INLINE void narrow_add(const struct run_rows *rows, const struct span *span, const float *scale,
                       const struct narrow_sum *sums, const int n_sum)
{
    for (int base = 0; base < NARROW_VECTORS; base += 4) {
        const int64_t column = base * LANES;
        vector total[2][4];
        for (int v = 0; v < 4; v++) {
            vector zero = vector_set(0.0f), by = scale != NULL ? vector_eights(scale, base + v) : zero;
            for (int s = 0; s < n_sum; s++) {
                const float *out = sums[s].out + column + v * LANES;
                total[s][v] = scale != NULL ? vector_multiply(vector_load(out), by) : zero;
            }
        }
        for (int64_t i = span->begin; i < span->end; i++) {
            const float *row = rows->row[i] + column;
            for (int64_t c = 0; c < 4 * LANES; c += LINE_FLOATS) {
                fetch_row(rows->prefetch[i] + column + c);
            }
            for (int v = 0; v < 4; v++) {
                vector x = vector_load(row + v * LANES);
                for (int s = 0; s < n_sum; s++) {
                    total[s][v] = vector_fma(vector_eights(sums[s].weight + i * NARROW, base + v), x, total[s][v]);
                }
            }
        }
        for (int v = 0; v < 4; v++) {
            for (int s = 0; s < n_sum; s++) {
                vector_store(sums[s].out + column + v * LANES, total[s][v]);
            }
        }
    }
}

/* One pass over the rows for both to[8 i + h] = ⟨own, row_i⟩ of each head and out (+)= Σ_i weight[i] · row_i. */
INLINE void narrow_dots_and_add(const struct run_rows *rows, const float *own, const float *weight, bool is_first,
                                float *to, float *out)
{
    for (int base = 0; base < NARROW_VECTORS; base += 4) {
        const int64_t column = base * LANES;
        vector mine[4], sum[4];
        for (int v = 0; v < 4; v++) {
            mine[v] = vector_load(own + column + v * LANES);
            sum[v] = is_first ? vector_set(0.0f) : vector_load(out + column + v * LANES);
        }
        for (int64_t i = 0; i < rows->n; i++) {
            const float *row = rows->row[i] + column;
            vector product[4];
            for (int64_t c = 0; c < 4 * LANES; c += LINE_FLOATS) {
                fetch_row(rows->prefetch[i] + column + c);
            }
            for (int v = 0; v < 4; v++) {
                vector x = vector_load(row + v * LANES);
                product[v] = vector_multiply(mine[v], x);
                sum[v] = vector_fma(vector_eights(weight + i * NARROW, base + v), x, sum[v]);
            }
            eights_sums(to + i * NARROW + column / NARROW, product);
        }
        for (int v = 0; v < 4; v++) {
            vector_store(out + column + v * LANES, sum[v]);
        }
    }
}

/* What forward has of a run at eight heads. */
struct narrow_edges {
    narrow_numbers x, score, weight, positive, mu;
};

/* w = exp(e - m), for edges with x > 0 also in `positive`, and the sums of both over a span. positive_weight NULL:
 * not wanted; scale NULL: from 0 */
INLINE void narrow_weights(const struct run *run, const struct span *span, const float base[2 * NARROW],
                           const float *scale, struct narrow_edges *w, float *softmax, float *positive_weight)
{
    EACH_NARROW(i, run)
    {
        vector e = vector_fma(PER_HEAD(base, i), vector_set(-1.0f), vector_load(w->score + i));
        vector weight = vector_exp(e);
        vector_store(w->weight + i, weight);
        vector_store(w->positive + i, vector_select_positive(vector_load(w->x + i), weight, vector_set(0.0f)));
    }
    narrow_sums(span, w->weight, 2, softmax + 1);
    if (positive_weight == NULL) {
        return;
    }
    for (int64_t h = 0; h < NARROW; h++) {
        positive_weight[h] = scale == NULL ? 0.0f : scale[h] * positive_weight[h];
    }
    narrow_sums(span, w->positive, 1, positive_weight);
}

/* Forward of heads first … first+7 from one run: sums of w, of μ w · value, and of both over the edges with x > 0. */
INLINE void narrow_forward(const struct cpu_attention *a, const struct run *run, int64_t first)
{
    const int64_t n_head = a->how->n_head, head = run->head + first;
    const int n_sum = a->state->positive != NULL ? 2 : 1;
    float *softmax = a->state->softmax + 2 * head, c[2 * NARROW], base[2 * NARROW];
    struct narrow_edges w;
    struct run_rows value, key;
    const struct narrow_sum sums[2] = {{w.weight, a->out + head * NARROW},
                                       {w.positive, n_sum == 2 ? a->state->positive + head * NARROW : NULL}};
    rows_open(run, a->source.value, a->self_source.value, n_head * NARROW, first * NARROW, &value);
    rows_open(run, a->source.key, a->self_source.key, n_head, first, &key);
    narrow_open(run, &key, NARROW, -INFINITY, w.x);
    narrow_scores(run, a->how, a->target.query + run->row * n_head + first, w.x, w.score);
    if (a->threshold > 0) {
        narrow_dropout(a, run, first, w.mu);
    }
    for (struct span span = {0}; span.end < run->n;) {
        const bool is_first = run->is_first && span.end == 0;
        const float *scale = is_first ? NULL : c;
        span.begin = span.end;
        narrow_raise(w.score + span.begin * NARROW, is_first, softmax, c);
        narrow_twice(softmax, 2, base);
        span.end = narrow_hold(run, span.begin + 1, w.score, base);
        narrow_weights(run, &span, base, scale, &w, softmax, n_sum == 2 ? a->state->positive_weight + head : NULL);
        if (a->threshold > 0) {
            narrow_multiply(run, w.weight, w.mu);
            narrow_multiply(run, w.positive, w.mu);
        }
        if (n_sum == 2) {
            narrow_add(&value, &span, scale, sums, 2);
        } else {
            narrow_add(&value, &span, scale, sums, 1);
        }
    }
}

/* Gradients of heads first … first+7 of a row as a source, from a run of its out-edges:
 *   grad_value_j (+)= Σ_i μ α grad_out_i · grad_key_j (+)= Σ_i de · leaky'(x), de = α (μ ⟨grad_out_i, value_j⟩ -
 *   D_i) */
INLINE void narrow_source(const struct cpu_attention *a, const struct run *run, int64_t first)
{
    const int64_t n_head = a->how->n_head, head = run->row * n_head + first, to_head = run->head + first;
    const bool drops = a->threshold > 0;
    narrow_numbers x, alpha, weight, mu, d, g;
    float softmax[2 * RUN * NARROW];
    struct run_rows grad_out, query, state;
    rows_open(run, a->target.grad_out, a->self_target.grad_out, n_head * NARROW, first * NARROW, &grad_out);
    rows_open(run, a->target.softmax, a->self_target.softmax, 2 * n_head, 2 * first, &state);
    rows_open(run, a->target.query, a->self_target.query, n_head, first, &query);
    narrow_open(run, &state, 2 * NARROW, 0.0f, softmax);
    narrow_open(run, &query, NARROW, -INFINITY, x);
    narrow_scores(run, a->how, a->source.key + head, x, alpha);
    EACH_NARROW(i, run)
    { /* α = exp(e - L) */
        vector l, rest;
        vector_pairs(softmax + 2 * i, &l, &rest);
        vector coefficient = vector_exp(vector_fma(l, vector_set(-1.0f), vector_load(alpha + i)));
        vector_store(d + i, rest);
        vector_store(alpha + i, coefficient);
        vector_store(weight + i, coefficient);
    }
    if (drops) { /* weight = μ α */
        narrow_dropout(a, run, first, mu);
        narrow_multiply(run, weight, mu);
    }
    narrow_pad(run, NARROW, 0.0f, g);
    narrow_dots_and_add(&grad_out, a->source.value + head * NARROW, weight, run->is_first, g,
                        a->grad_value + to_head * NARROW);
    if (drops) { /* μ g */
        narrow_multiply(run, g, mu);
    }
    EACH_NARROW(i, run)
    { /* de = α (μ g - D), and through leaky */
        vector rest = vector_fma(vector_load(d + i), vector_set(-1.0f), vector_load(g + i));
        vector slope = vector_select_positive(vector_load(x + i), vector_set(1.0f), vector_set(a->how->slope));
        vector_store(g + i, vector_multiply(vector_multiply(vector_load(alpha + i), rest), slope));
    }
    memset(a->grad_key + to_head, 0, run->is_first ? NARROW * sizeof(float) : 0);
    narrow_sums(&(struct span){0, run->n}, g, 1, a->grad_key + to_head);
}

/* Can this path compute an attention with all of its heads? */
INLINE bool is_narrow(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_ADD && how->n_column == NARROW && how->n_head % NARROW == 0 &&
           how->n_edge_column == 0;
}
