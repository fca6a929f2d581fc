/* GAT with eight heads of eight columns, as in its paper, all eight heads at once.
 *
 * The formulas are those of the score `add` in kernels_scores.inc.h and of the passes in kernels_attention.inc.h. A
 * single such head would not fill a vector: here a run's numbers lie edge by edge, [8 i + h] that of edge i at head
 * h, and the 64 columns of eight heads are one row.
 *
 * Order of summation, which defines the bits: rows add edge after edge; a product's eight columns are added 4 apart,
 * then 2, 1; a sum over a run's edges goes in two lanes per head, even edges and odd ones, which are added at its
 * end.
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

/* sum[h] = scale[h] · sum[h] + Σ_i x[8 i + h], from 0 where the row begins; sum[h] lies at h · step. */
INLINE void narrow_sums(const struct run *run, const float *x, const float *scale, int64_t step, float *sum)
{
    float lanes[2 * NARROW];
    vector part[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        part[p] = vector_set(0.0f);
    }
    for (int64_t i = 0; i < run->n * NARROW; i += PARTS_LANES) {
        for (int64_t p = 0; p < PARTS; p++) {
            part[p] = vector_add(part[p], vector_load(x + i + p * LANES));
        }
    }
    for (int64_t p = 0; p < PARTS; p++) {
        vector_store(lanes + p * LANES, part[p]);
    }
    for (int64_t h = 0; h < NARROW; h++) {
        float start = run->is_first ? 0.0f : scale != NULL ? scale[h] * sum[h * step] : sum[h * step];
        sum[h * step] = start + (lanes[h] + lanes[h + NARROW]);
    }
}

/* Raise the row maxima m of eight heads by a run's scores: m' = max(m, max_i e_i); scale = exp(m - m'), of what was
 * added before. softmax: (m, s) per head */
INLINE void narrow_maxima(const struct run *run, const float *score, float *softmax, float scale[2 * NARROW])
{
    float lanes[2 * NARROW];
    vector part[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        part[p] = vector_set(-INFINITY);
    }
    for (int64_t i = 0; i < run->n * NARROW; i += PARTS_LANES) {
        for (int64_t p = 0; p < PARTS; p++) {
            part[p] = vector_greater(vector_load(score + i + p * LANES), part[p]);
        }
    }
    for (int64_t p = 0; p < PARTS; p++) {
        vector_store(lanes + p * LANES, part[p]);
    }
    for (int64_t h = 0; h < NARROW; h++) {
        float greatest = lanes[h + NARROW] > lanes[h] ? lanes[h + NARROW] : lanes[h];
        float before = run->is_first ? -INFINITY : softmax[2 * h], row_max = greatest > before ? greatest : before;
        softmax[2 * h] = row_max;
        scale[h] = scale[h + NARROW] = before == row_max ? 0.0f : before - row_max;
    }
    for (int64_t i = 0; i < 2 * NARROW; i += LANES) {
        vector_store(scale + i, vector_exp(vector_load(scale + i)));
    }
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
INLINE void narrow_add(const struct run_rows *rows, const float *scale, const struct narrow_sum *sums,
                       const int n_sum)
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
        for (int64_t i = 0; i < rows->n; i++) {
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

/* Forward of heads first … first+7 from one run: w = exp(e - row max), sums of w, of μ w · value, and of both over
 * the edges with x > 0. */
INLINE void narrow_forward(const struct cpu_attention *a, const struct run *run, int64_t first)
{
    const int64_t n_head = a->how->n_head, head = run->head + first;
    const bool with_positive = a->state->positive != NULL;
    float *softmax = a->state->softmax + 2 * head, scale[2 * NARROW], row_max[2 * NARROW];
    narrow_numbers x, weight, positive, mu;
    struct run_rows value, key;
    rows_open(run, a->source.value, a->self_source.value, n_head * NARROW, first * NARROW, &value);
    rows_open(run, a->source.key, a->self_source.key, n_head, first, &key);
    narrow_open(run, &key, NARROW, -INFINITY, x);
    narrow_scores(run, a->how, a->target.query + run->row * n_head + first, x, weight);
    narrow_maxima(run, weight, softmax, scale);
    narrow_twice(softmax, 2, row_max);
    EACH_NARROW(i, run)
    {
        vector w = vector_exp(vector_fma(PER_HEAD(row_max, i), vector_set(-1.0f), vector_load(weight + i)));
        vector_store(weight + i, w);
        vector_store(positive + i, vector_select_positive(vector_load(x + i), w, vector_set(0.0f)));
    }
    narrow_sums(run, weight, scale, 2, softmax + 1);
    if (with_positive) {
        narrow_sums(run, positive, scale, 1, a->state->positive_weight + head);
    }
    if (a->threshold > 0) {
        narrow_dropout(a, run, first, mu);
        narrow_multiply(run, weight, mu);
        narrow_multiply(run, positive, mu);
    }
    const float *start = run->is_first ? NULL : scale;
    const struct narrow_sum sums[2] = {{weight, a->out + head * NARROW},
                                       {positive, with_positive ? a->state->positive + head * NARROW : NULL}};
    if (with_positive) {
        narrow_add(&value, start, sums, 2);
    } else {
        narrow_add(&value, start, sums, 1);
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
    narrow_sums(run, g, NULL, 1, a->grad_key + to_head);
}

/* Can this path compute an attention with all of its heads? */
INLINE bool is_narrow(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_ADD && how->n_column == NARROW && how->n_head % NARROW == 0 &&
           how->n_edge_column == 0;
}
