/* GAT with eight heads of eight columns, as it was published, several heads at once.
 *
 * Heads this narrow fill no vector, one after another: here a run's numbers lie edge by edge, an edge's eight side by
 * side, and the columns of eight heads are one row. Columns are added in the order of the edges; sums over columns go
 * in eight lanes, sums over edges in two for each head, added up in one order whatever the vectors' width.
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

/* The numbers of the edge past the last, where there is one. */
INLINE void narrow_pad(const struct run *run, const int64_t n_number, float value, float *x)
{
    for (int64_t k = 0; run->n % 2 != 0 && k < n_number; k++) {
        x[run->n * n_number + k] = value;
    }
}

/* The numbers in rows of n_number, eight or sixteen; `past` after the last edge. */
INLINE void narrow_open(const struct run *run, const struct run_rows *rows, const int64_t n_number, float past, float *x)
{
    for (int64_t i = 0; i < run->n; i++) {
        fetch_row(rows->ahead[i]);
        memcpy(x + i * n_number, rows->row[i], (size_t)n_number * sizeof *x);
    }
    narrow_pad(run, n_number, past, x);
}

/* x becomes key + query, score its leaky; own: the query or key of the row. */
INLINE void narrow_scores(const struct run *run, float slope, const float *own, float *x, float *score)
{
    float mine[2 * NARROW];
    narrow_twice(own, 1, mine);
    EACH_NARROW(i, run)
    {
        vector sum = vector_add(vector_load(x + i), PER_HEAD(mine, i));
        vector_store(x + i, sum);
        vector_store(score + i, vector_multiply(sum, vector_select_positive(sum, vector_set(1.0f), vector_set(slope))));
    }
}

/* sum[h] = scale[h] · sum[h] + Σ x, from 0 where the row begins. */
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

/* softmax of eight heads with this run's scores; scale: of what was added before. */
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
        float before = run->is_first ? -INFINITY : softmax[2 * h], peak = greatest > before ? greatest : before;
        softmax[2 * h] = peak;
        scale[h] = scale[h + NARROW] = before == peak ? 0.0f : before - peak;
    }
    for (int64_t i = 0; i < 2 * NARROW; i += LANES) {
        vector_store(scale + i, vector_exp(vector_load(scale + i)));
    }
}

/* keep[8 i + h] = μ of edge i at head first + h. */
INLINE void narrow_keep(const struct cpu_attention *a, const struct run *run, int64_t first, float *keep)
{
    const uint32_t threshold = a->threshold;
    const float scale = a->keep_scale;
    for (int64_t quad = 0; quad < 2; quad++) {
        uint32_t counter[4], key[2], drawn[RUN * 4];
        random_edge_counter(&a->how->key, 0, 0, (uint32_t)(first / 4 + quad), counter, key);
        for (int64_t i = 0; i < run->n; i += WORD_LANES) {
            words c[4] = {words_load(run->from + i), words_load(run->to + i), words_set(counter[2]), words_set(counter[3])};
            draw_lanes(c, key);
            words_store(drawn + 4 * i, c[0], c[1], c[2], c[3]);
        }
        for (int64_t i = 0; i < run->n; i++) {
            for (int64_t k = 0; k < 4; k++) {
                uint32_t mask = drawn[4 * i + k] >= threshold ? UINT32_MAX : 0;
                keep[i * NARROW + 4 * quad + k] = keep_by_mask(mask, scale);
            }
        }
    }
    narrow_pad(run, NARROW, 0.0f, keep);
}

INLINE void narrow_multiply(const struct run *run, float *x, const float *by)
{
    EACH_NARROW(i, run)
    {
        vector_store(x + i, vector_multiply(vector_load(x + i), vector_load(by + i)));
    }
}

/* out = scale · out + Σ_i weight[i] · row_i, and with `other` another such sum of the same rows; scale NULL: from 0. */
INLINE void narrow_add(const struct run_rows *rows, const float *weight, const float *other_weight, const float *scale,
                       float *out, float *other)
{
    for (int base = 0; base < NARROW_VECTORS; base += 4) {
        const int64_t column = base * LANES;
        vector sum[4], other_sum[4];
        for (int v = 0; v < 4; v++) {
            vector zero = vector_set(0.0f), by = scale != NULL ? vector_eights(scale, base + v) : zero;
            sum[v] = scale != NULL ? vector_multiply(vector_load(out + column + v * LANES), by) : zero;
            other_sum[v] = scale != NULL && other != NULL ? vector_multiply(vector_load(other + column + v * LANES), by) : zero;
        }
        for (int64_t i = 0; i < rows->n; i++) {
            const float *row = rows->row[i] + column;
            for (int64_t c = 0; c < 4 * LANES; c += LINE_FLOATS) {
                fetch_row(rows->ahead[i] + column + c);
            }
            for (int v = 0; v < 4; v++) {
                vector x = vector_load(row + v * LANES);
                sum[v] = vector_fma(vector_eights(weight + i * NARROW, base + v), x, sum[v]);
                if (other != NULL) {
                    other_sum[v] = vector_fma(vector_eights(other_weight + i * NARROW, base + v), x, other_sum[v]);
                }
            }
        }
        for (int v = 0; v < 4; v++) {
            vector_store(out + column + v * LANES, sum[v]);
            if (other != NULL) {
                vector_store(other + column + v * LANES, other_sum[v]);
            }
        }
    }
}

/* One pass over the rows for both to[8 i + h] = ⟨own, row_i⟩ of each head and out (+)= Σ_i weight[i] · row_i. */
INLINE void narrow_dots_and_add(const struct run_rows *rows, const float *own, const float *weight, bool is_first, float *to,
                                float *out)
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
                fetch_row(rows->ahead[i] + column + c);
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

/* Forward of heads first … first+7 from one run. */
INLINE void narrow_forward(const struct cpu_attention *a, const struct run *run, int64_t first)
{
    const int64_t n_head = a->how->n_head, head = run->head + first;
    float *positive_out = a->state->positive != NULL ? a->state->positive + head * NARROW : NULL;
    float *softmax = a->state->softmax + 2 * head, scale[2 * NARROW], peak[2 * NARROW];
    narrow_numbers x, weight, positive, keep;
    struct run_rows value, key;
    rows_open(run, a->source.value, a->self_source.value, n_head * NARROW, first * NARROW, &value);
    rows_open(run, a->source.key, a->self_source.key, n_head, first, &key);
    narrow_open(run, &key, NARROW, -INFINITY, x);
    narrow_scores(run, a->how->slope, a->target.query + run->row * n_head + first, x, weight);
    narrow_maxima(run, weight, softmax, scale);
    narrow_twice(softmax, 2, peak);
    EACH_NARROW(i, run)
    {
        vector w = vector_exp(vector_fma(PER_HEAD(peak, i), vector_set(-1.0f), vector_load(weight + i)));
        vector_store(weight + i, w);
        vector_store(positive + i, vector_select_positive(vector_load(x + i), w, vector_set(0.0f)));
    }
    narrow_sums(run, weight, scale, 2, softmax + 1);
    if (positive_out != NULL) {
        narrow_sums(run, positive, scale, 1, a->state->positive_weight + head);
    }
    if (a->threshold > 0) {
        narrow_keep(a, run, first, keep);
        narrow_multiply(run, weight, keep);
        narrow_multiply(run, positive, keep);
    }
    const float *start = run->is_first ? NULL : scale;
    if (positive_out != NULL) {
        narrow_add(&value, weight, positive, start, a->out + head * NARROW, positive_out);
    } else {
        narrow_add(&value, weight, NULL, start, a->out + head * NARROW, NULL);
    }
}

/* Gradients of heads first … first+7 of a row as a source, from a run of its out-edges. */
INLINE void narrow_source(const struct cpu_attention *a, const struct run *run, int64_t first)
{
    const int64_t n_head = a->how->n_head, width = n_head * NARROW, head = run->row * n_head + first;
    const int64_t to_head = run->head + first;
    const bool drops = a->threshold > 0;
    narrow_numbers x, alpha, weight, keep, d, g;
    float softmax[2 * RUN * NARROW];
    struct run_rows grad_out, query, state;
    rows_open(run, a->target.grad_out, a->self_target.grad_out, width, first * NARROW, &grad_out);
    rows_open(run, a->target.softmax, a->self_target.softmax, 2 * n_head, 2 * first, &state);
    rows_open(run, a->target.query, a->self_target.query, n_head, first, &query);
    narrow_open(run, &state, 2 * NARROW, 0.0f, softmax);
    narrow_open(run, &query, NARROW, -INFINITY, x);
    narrow_scores(run, a->how->slope, a->source.key + head, x, alpha);
    if (drops) {
        narrow_keep(a, run, first, keep);
    }
    EACH_NARROW(i, run)
    { /* α = exp(score - L), weight = μ α */
        vector peak, rest;
        vector_pairs(softmax + 2 * i, &peak, &rest);
        vector e = vector_exp(vector_fma(peak, vector_set(-1.0f), vector_load(alpha + i)));
        vector_store(d + i, rest);
        vector_store(alpha + i, e);
        vector_store(weight + i, drops ? vector_multiply(vector_load(keep + i), e) : e);
    }
    narrow_pad(run, NARROW, 0.0f, g);
    narrow_dots_and_add(&grad_out, a->source.value + head * NARROW, weight, run->is_first, g, a->grad_value + to_head * NARROW);
    EACH_NARROW(i, run)
    { /* de = α (μ g - D) · leaky' */
        vector grad = vector_load(g + i);
        grad = drops ? vector_multiply(vector_load(keep + i), grad) : grad;
        grad = vector_multiply(vector_load(alpha + i), vector_fma(vector_load(d + i), vector_set(-1.0f), grad));
        vector slope = vector_select_positive(vector_load(x + i), vector_set(1.0f), vector_set(a->how->slope));
        vector_store(g + i, vector_multiply(grad, slope));
    }
    narrow_sums(run, g, NULL, 1, a->grad_key + to_head);
}

/* Can a whole attention go this way? */
INLINE bool is_narrow(const struct device_attention *how)
{
    return how->score == DEVICE_SCORE_ADD && how->n_column == NARROW && how->n_head % NARROW == 0;
}
