/* One number per edge and head of a run: e^x, scores, their maxima and sums.
 *
 * They lie by head, an edge in each lane; past a run's last edge scores are -inf, so that nothing of them is left.
 */

/* e^x within 2 units in the last place; 0 below -87, above 88 that of 88; what is not a number stays one.
 * x = k ln 2 + r, |r| ≤ ln 2 / 2; e^r − 1 by its series, times 2^k. */
INLINE vector vector_exp(vector x)
{
    vector below = vector_fma(x, vector_set(-1.0f), vector_set(-87.0f)), to_whole = vector_set(0x1.8p23f);
    vector bounded = vector_select_positive(below, vector_set(-87.0f), x);
    bounded = vector_select_positive(vector_add(x, vector_set(-88.0f)), vector_set(88.0f), bounded);
    vector whole = vector_fma(bounded, vector_set(0x1.715476p0f), to_whole); /* k in the low bits */
    vector k = vector_add(whole, vector_set(-0x1.8p23f));
    vector r = vector_fma(k, vector_set(-0x1.62ep-1f), bounded);
    r = vector_fma(k, vector_set(-0x1.0bfbe8p-15f), r);
    vector tail = vector_set(0x1.a01a02p-13f);
    tail = vector_fma(tail, r, vector_set(0x1.6c16c2p-10f));
    tail = vector_fma(tail, r, vector_set(0x1.111112p-7f));
    tail = vector_fma(tail, r, vector_set(0x1.555556p-5f));
    tail = vector_fma(tail, r, vector_set(0x1.555556p-3f));
    tail = vector_fma(tail, r, vector_set(0.5f));
    vector series = vector_fma(vector_multiply(tail, r), r, r), power = vector_power(whole);
    return vector_select_positive(below, vector_set(0.0f), vector_fma(power, series, power));
}

INLINE void fill_edges(const struct run *run, float *x, float value)
{
    EACH_VECTOR(i, run)
    {
        vector_store(x + i, vector_set(value));
    }
}

INLINE void multiply_edges(const struct run *run, float *x, const float *by)
{
    EACH_VECTOR(i, run)
    {
        vector_store(x + i, vector_multiply(vector_load(x + i), vector_load(by + i)));
    }
}

/* score[i] of n heads. own: the row's key or query (MLP, COSINE: value or query) at the first of them; far: the other
 * one of the rows at the other ends, but ADD has them in `number`, COSINE its keys. x becomes key + query, or
 * ⟨value, query⟩, and may be `number`. Past the last edge scores are -inf. */
INLINE void run_scores(const struct device_attention *how, const enum device_score_kind kind, const struct run *run,
                       int64_t first, int64_t n, const float *own, const struct run_rows *far, run_numbers number,
                       run_numbers x, run_numbers score)
{
    const vector slope = vector_set(how->slope), one = vector_set(1.0f), scale = vector_set(how->scale);
    const int64_t n_column = how->n_column;
    for (int64_t h = 0; h < n; h++) {
        if (kind != DEVICE_SCORE_ADD) {
            int64_t c = h * n_column;
            fill_edges(run, score[h], 0.0f);
            if (kind == DEVICE_SCORE_MLP) {
                leaky_dots(far, c, own + c, how->att + first * n_column + c, how->slope, n_column, score[h]);
            } else {
                dots(far, c, own + c, true, n_column, score[h]);
            }
        }
        EACH_VECTOR(i, run)
        {
            vector s;
            if (kind == DEVICE_SCORE_ADD) {
                vector sum = vector_add(vector_load(number[h] + i), vector_set(own[h]));
                vector_store(x[h] + i, sum);
                s = vector_multiply(sum, vector_select_positive(sum, one, slope));
            } else if (kind == DEVICE_SCORE_COSINE) {
                s = vector_multiply(vector_load(score[h] + i), vector_load(number[h] + i));
                vector_store(x[h] + i, vector_load(score[h] + i));
            } else {
                s = vector_load(score[h] + i);
                s = kind == DEVICE_SCORE_DOT ? vector_multiply(s, scale) : s;
            }
            vector_store(score[h] + i, vector_add(s, vector_load(run->bias + i)));
        }
    }
}

INLINE float run_max(const struct run *run, const float *x)
{
    vector part[PARTS];
    for (int64_t p = 0; p < PARTS; p++) {
        part[p] = vector_load(x + p * LANES);
        if (run->padded > PARTS_LANES) {
            part[p] = vector_greater(vector_load(x + PARTS_LANES + p * LANES), part[p]);
        }
    }
    return parts_max(part);
}

/* sum[h] of n heads, whose number is rounded up to fours there. */
INLINE void run_sums(const struct run *run, run_numbers x, int64_t n, float *sum)
{
    for (int64_t h = 0; h < n; h += 4) {
        vector part[4][PARTS];
        for (int64_t k = 0; k < 4; k++) {
            const float *numbers = x[smaller(h + k, n - 1)];
            for (int64_t p = 0; p < PARTS; p++) {
                part[k][p] = vector_load(numbers + p * LANES);
                if (run->padded > PARTS_LANES) {
                    part[k][p] = vector_add(vector_load(numbers + PARTS_LANES + p * LANES), part[k][p]);
                }
            }
        }
        parts_sums(sum + h, part);
    }
}
