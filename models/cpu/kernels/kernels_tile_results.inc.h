/* What leaves a tile program: reductions of a run's edges, sums of weights' gradients, and sets of each row's own.
 *
 * Sums over edges are made one after another, so that nothing depends on how wide vectors are.
 */

/* The greatest, or least, with the node id of its source; what is not a number is both. */
INLINE void tile_best(int64_t n, bool greatest, const float *from, uint32_t source, float *out, float *saved)
{
    uint32_t *winner = (uint32_t *)(void *)saved;
    TILE_COLUMNS
    {
        bool better = (greatest ? from[c] > out[c] : from[c] < out[c]) || from[c] != from[c];
        winner[c] = better ? source : winner[c];
        out[c] = better ? from[c] : out[c];
    }
}

/* out += factor y, of n_factor factors for `width` columns each */
INLINE void tile_add_products(int64_t n_factor, int64_t width, const float *factors, const float *y, float *out)
{
    if (width == 1) {
        const int64_t n = n_factor;
        TILE_COLUMNS
        {
            out[c] += factors[c] * y[c];
        }
        return;
    }
    const int64_t n = width;
    for (int64_t j = 0; j < n_factor; j++, out += width, y += width) {
        const float factor = factors[j];
        TILE_COLUMNS
        {
            out[c] += factor * y[c];
        }
    }
}

/* Softmaxes of up to TILE_LANES numbers side by side at `from`, and of each of them `width` columns of y (NULL:
 * none). `most` is their base, of RAISE above (kernels_attention.inc.h), -inf before the first edge. */
struct tile_softmaxes {
    const float *const *from, *const *y;
    int64_t width;
    float *most, *sum, *out;
};

/* Has some base to be raised at this edge? */
INLINE bool tile_raises(int64_t n, const float *values, float shift, const float *most)
{
    int any = 0;
    TILE_COLUMNS
    {
        any |= values[c] + shift - most[c] > RAISE;
    }
    return any != 0;
}

/* Raise what has to be, and bring the sums so far to it. */
INLINE void tile_raise(int64_t n, const float *values, float shift, const struct tile_softmaxes *s)
{
    float before[TILE_LANES];
    TILE_COLUMNS
    {
        const float value = values[c] + shift, most = s->most[c];
        const bool up = value - most > RAISE;
        before[c] = up ? tile_exp(most - value) : 1.0f;
        s->most[c] = up ? value : most;
        s->sum[c] *= before[c];
    }
    for (int64_t j = 0; j < n && s->y != NULL; j++) {
        for (int64_t k = 0; k < s->width; k++) {
            s->out[j * s->width + k] *= before[j];
        }
    }
}

/* n_edge edges, one after another. Scores of -inf weigh 0. */
INLINE void tile_softmaxes_add(int64_t n_edge, int64_t n, float shift, const struct tile_softmaxes *s)
{
    for (int64_t t = 0; t < n_edge; t++) {
        const float *values = s->from[t];
        float weights[TILE_LANES];
        if (tile_raises(n, values, shift, s->most)) {
            tile_raise(n, values, shift, s);
        }
        TILE_COLUMNS
        {
            weights[c] = tile_exp(values[c] + shift - (s->most[c] > -INFINITY ? s->most[c] : 0.0f));
            s->sum[c] += weights[c];
        }
        if (s->y != NULL) {
            tile_add_products(n, s->width, weights, s->y[t], s->out);
        }
    }
}

TARGET static void tile_softmax(const struct cpu_tile *tile, const struct cpu_tile_result *r)
{
    const bool sums_rows = r->of->reduction == TILE_REDUCTION_SOFTMAX;
    const int64_t n = sums_rows ? r->of->n_with : r->of->n, width = sums_rows ? r->of->n / n : 0;
    const int64_t n_edge = r->end - r->begin;
    const float *from[CPU_TILE_RUN], *y[CPU_TILE_RUN];
    tile_operands_find(tile, sums_rows ? &r->of->with : &r->of->from, r->begin, r->end, from);
    tile_operands_find(tile, &r->of->from, r->begin, r->end, y);
    struct tile_softmaxes s = {from,  sums_rows ? y : NULL, width, sums_rows ? r->saved + n : r->out, r->saved,
                               r->out};
    for (int64_t begin = 0; begin < n; begin += TILE_LANES) {
        if (n - begin >= TILE_LANES) {
            tile_softmaxes_add(n_edge, TILE_LANES, r->shift, &s);
        } else {
            tile_softmaxes_add(n_edge, n - begin, r->shift, &s);
        }
        for (int64_t t = 0; t < n_edge; t++) {
            from[t] += TILE_LANES;
            y[t] += TILE_LANES * width;
        }
        s.most += TILE_LANES;
        s.sum += TILE_LANES;
        s.out += TILE_LANES * width;
    }
}

/* What rows of a run add to some columns: y, or y by one factor, or y by as many. */
struct tile_sum {
    int64_t n;
    float scale;
    const float **from, **with;
    bool by_column;
};

/* out += Σ of all rows at TILE_SUM_VECTORS vectors from column c on, which stay in registers. */
#define TILE_SUM_VECTORS 4
INLINE void tile_sum_at(const struct tile_sum *s, int64_t c, const bool whole, const lane_mask *mask, float *out)
{
    vector sum[TILE_SUM_VECTORS];
    for (int64_t v = 0; v < TILE_SUM_VECTORS; v++) {
        sum[v] = columns_load(out + c + v * LANES, whole, mask[v]);
    }
    for (int64_t t = 0; t < s->n; t++) {
        const vector factor = vector_set(s->with != NULL && !s->by_column ? s->with[t][0] : 1.0f);
        for (int64_t v = 0; v < TILE_SUM_VECTORS; v++) {
            vector y = columns_load(s->from[t] + c + v * LANES, whole, mask[v]);
            if (s->by_column) {
                y = vector_multiply(columns_load(s->with[t] + c + v * LANES, whole, mask[v]), y);
            } else if (s->with != NULL) {
                y = vector_multiply(factor, y);
            }
            sum[v] = vector_add(sum[v], vector_multiply(vector_set(s->scale), y));
        }
    }
    for (int64_t v = 0; v < TILE_SUM_VECTORS; v++) {
        columns_store(out + c + v * LANES, whole, mask[v], sum[v]);
    }
}

INLINE void tile_sum_columns(const struct tile_sum *s, int64_t n_column, float *out)
{
    const int64_t n_block = TILE_SUM_VECTORS * LANES, n_whole = n_column - n_column % n_block;
    lane_mask rest[TILE_SUM_VECTORS];
    for (int64_t v = 0; v < TILE_SUM_VECTORS; v++) {
        const int64_t n = n_column - n_whole - v * LANES;
        rest[v] = mask_first(n < 0 ? 0 : smaller(n, LANES));
    }
    for (int64_t c = 0; c < n_whole; c += n_block) {
        tile_sum_at(s, c, true, rest, out);
    }
    if (n_whole < n_column) {
        tile_sum_at(s, n_whole, false, rest, out);
    }
}

TARGET static void tile_sum(const struct cpu_tile *tile, const struct cpu_tile_result *to)
{
    const struct tile_result *r = to->of;
    const float *from[CPU_TILE_RUN], *with[CPU_TILE_RUN];
    float *out = to->out;
    struct tile_sum s = {.n = to->end - to->begin, .scale = tile->factor, .from = from};
    tile_operands_find(tile, &r->from, to->begin, to->end, from);
    if (r->n_with == 0) {
        tile_sum_columns(&s, r->n, out);
        return;
    }
    tile_operands_find(tile, &r->with, to->begin, to->end, with);
    s.with = with;
    if (r->n_with == r->n) {
        s.by_column = true;
        tile_sum_columns(&s, r->n, out);
        return;
    }
    for (int64_t j = 0; j < r->n_with; j++) {
        tile_sum_columns(&s, r->n / r->n_with, out + j * (r->n / r->n_with));
        for (int64_t t = 0; t < s.n; t++) {
            from[t] += r->n / r->n_with;
            with[t]++;
        }
    }
}

TARGET static void tile_reduce(const struct cpu_tile *tile, const struct cpu_tile_result *r)
{
    if (r->of->reduction == TILE_REDUCTION_LOGSUMEXP || r->of->reduction == TILE_REDUCTION_SOFTMAX) {
        tile_softmax(tile, r);
        return;
    }
    if (r->of->reduction == TILE_REDUCTION_SUM) {
        tile_sum(tile, r);
        return;
    }
    for (int64_t t = r->begin; t < r->end; t++) {
        tile_best(r->of->n, r->of->reduction == TILE_REDUCTION_MAX, tile_operand_at(tile, &r->of->from, t),
                  tile->source[t], r->out, r->saved);
    }
}

/* Some numbers of the rows times vectors of others, which stay in registers: over the rows one after another. */
INLINE void tile_weigh_at(const struct cpu_tile *tile, const struct tile_result *r, const float *const *from,
                          const float *const *with, int64_t i, int64_t c, const bool whole, const bool sparse,
                          const lane_mask *mask, double *grad)
{
    const int64_t left = r->n_with - c, n = whole ? TILE_BLOCK_VECTORS * LANES : left;
    vector sum[TILE_BLOCK_ROWS][TILE_BLOCK_VECTORS];
    float sums[TILE_BLOCK_VECTORS * LANES];
    int64_t place[TILE_BLOCK_ROWS];
    for (int64_t j = 0; j < TILE_BLOCK_ROWS; j++) {
        place[j] = i + j < r->n ? i + j : r->n - 1;
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            sum[j][v] = vector_set(0.0f);
        }
    }
    for (int64_t t = 0; t < tile->n; t++) {
        vector y[TILE_BLOCK_VECTORS];
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            y[v] = columns_load(with[t] + c + v * LANES, whole, mask[v]);
        }
        for (int64_t j = 0; j < TILE_BLOCK_ROWS; j++) {
            const vector factor = vector_set(from[t][place[j]]);
            if (sparse && from[t][place[j]] == 0.0f) {
                continue;
            }
            for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
                sum[j][v] = vector_add(sum[j][v], vector_multiply(factor, y[v]));
            }
        }
    }
    for (int64_t j = 0; j < TILE_BLOCK_ROWS && i + j < r->n; j++) {
        double *to = grad + (i + j) * r->step + c * r->step_with;
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            vector_store(sums + v * LANES, sum[j][v]);
        }
        for (int64_t k = 0; k < n && r->step_with == 1; k++) {
            to[k] += (double)(tile->factor * sums[k]);
        }
        for (int64_t k = 0; k < n && r->step_with != 1; k++) {
            to[k * r->step_with] += (double)(tile->factor * sums[k]);
        }
    }
}

/* A run's sums in float, added in double. */
TARGET static void tile_weigh(const struct cpu_tile *tile, const struct tile_result *r, double *grad)
{
    float sum[256];
    const float *from[CPU_TILE_RUN], *with[CPU_TILE_RUN];
    tile_operands_find(tile, &r->from, 0, tile->n, from);
    for (int64_t begin = 0; begin < r->n && r->n_with == 0; begin += 256) {
        const int64_t n = smaller(r->n - begin, 256);
        memset(sum, 0, sizeof sum);
        tile_sum_columns(&(struct tile_sum){.n = tile->n, .scale = 1.0f, .from = from}, n, sum);
        for (int64_t c = 0; c < n; c++) {
            grad[begin + c] += (double)(tile->factor * sum[c]);
        }
        for (int64_t t = 0; t < tile->n; t++) {
            from[t] += n;
        }
    }
    if (r->n_with == 0) {
        return;
    }
    /* Vectors are of those that lie side by side in the gradient. */
    struct tile_result of = *r;
    if (r->step == 1 && r->step_with != 1) {
        of = (struct tile_result){.from = r->with,
                                  .n = r->n_with,
                                  .step = r->step_with,
                                  .with = r->from,
                                  .n_with = r->n,
                                  .step_with = r->step};
    }
    tile_operands_find(tile, &of.from, 0, tile->n, from);
    tile_operands_find(tile, &of.with, 0, tile->n, with);
    const bool sparse = tile_is_sparse(from, tile->n, of.n);
    for (int64_t c = 0; c < of.n_with; c += TILE_BLOCK_VECTORS * LANES) {
        lane_mask mask[TILE_BLOCK_VECTORS];
        tile_block_masks(of.n_with - c, mask);
        for (int64_t i = 0; i < of.n; i += TILE_BLOCK_ROWS) {
            if (c + TILE_BLOCK_VECTORS * LANES <= of.n_with) {
                tile_weigh_at(tile, &of, from, with, i, c, true, sparse, mask, grad);
            } else {
                tile_weigh_at(tile, &of, from, with, i, c, false, sparse, mask, grad);
            }
        }
    }
}
