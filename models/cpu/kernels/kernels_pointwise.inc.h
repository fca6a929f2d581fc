/* Random draws, activation with dropout, and column sums, over the vector alphabet or left to the compiler's
 * vectors. */

/* Philox of protocol/base/random.h on WORD_LANES counters at once; a lane's upper word is never read by the
 * product. */
INLINE void draw_lanes(words c[4], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < RANDOM_PHILOX_ROUNDS; round++) {
        words p0 = words_multiply_low(words_set(RANDOM_PHILOX_M0), c[0]);
        words p1 = words_multiply_low(words_set(RANDOM_PHILOX_M1), c[2]);
        c[0] = words_xor(words_xor(words_high(p1), c[1]), words_set(k0));
        c[2] = words_xor(words_xor(words_high(p0), c[3]), words_set(k1));
        c[1] = p1;
        c[3] = p0;
        k0 += RANDOM_PHILOX_W0;
        k1 += RANDOM_PHILOX_W1;
    }
}

TARGET static void draw(const struct random_key *key, uint64_t row, uint32_t first_quad, int64_t n_quad,
                        uint32_t *out)
{
    uint32_t counter[4], k[2];
    for (int64_t q = 0; q < n_quad; q += WORD_LANES) {
        random_counter(key, row, first_quad + (uint32_t)q, counter, k);
        words c[4] = {words_count(counter[0]), words_set(counter[1]), words_set(counter[2]), words_set(counter[3])};
        draw_lanes(c, k);
        if (q + WORD_LANES <= n_quad) {
            words_store(out + 4 * q, c[0], c[1], c[2], c[3]);
        } else {
            uint32_t last[4 * WORD_LANES];
            words_store(last, c[0], c[1], c[2], c[3]);
            memcpy(out + 4 * q, last, (size_t)(4 * (n_quad - q)) * sizeof *out);
        }
    }
}

INLINE float keep_by_mask(uint32_t mask, float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = value};
    both.bits &= mask;
    return both.value;
}

TARGET static void drop_values(const struct cpu_drop *drop, int64_t n, const uint32_t *rows, const uint32_t *columns,
                               const float *values, float *out)
{
    uint32_t counter[4], k[2], drawn[4 * WORD_LANES], mask[WORD_LANES], last[2][WORD_LANES] = {{0}};
    random_counter(&drop->key, 0, 0, counter, k);
    for (int64_t e = 0; e < n; e += WORD_LANES) {
        const int64_t n_lane = n - e < WORD_LANES ? n - e : WORD_LANES;
        const uint32_t *column = columns + e, *row = rows + e;
        if (n_lane < WORD_LANES) {
            memcpy(last[0], column, (size_t)n_lane * sizeof *column);
            memcpy(last[1], row, (size_t)n_lane * sizeof *row);
            column = last[0];
            row = last[1];
        }
        words quads = words_high(words_multiply_low(words_load(column), words_set(1U << 30))); /* column / 4 */
        words c[4] = {quads, words_load(row), words_set(counter[2]), words_set(counter[3])};
        draw_lanes(c, k);
        words_store(drawn, c[0], c[1], c[2], c[3]);
        for (int64_t lane = 0; lane < WORD_LANES; lane++) { /* half of them are dropped: no branch would be guessed */
            mask[lane] = 0U - (uint32_t)(drawn[4 * lane + column[lane] % 4] >= drop->threshold);
        }
        for (int64_t lane = 0; lane < n_lane; lane++) {
            out[e + lane] = keep_by_mask(mask[lane], values[e + lane] * drop->scale);
        }
    }
}

/* x = k ln 2 + r, |r| ≤ ln 2 / 2: e^r − 1 by its series, and 2^k. */
INLINE float exponential_parts(float x, float *power_out)
{
    const float to_whole = 0x1.8p23f; /* adding it leaves the nearest whole number in the low bits */
    union {
        float value;
        uint32_t bits;
    } whole = {.value = x * 0x1.715476p0f + to_whole}, power = {.bits = (whole.bits - 0x4b400000U + 127) << 23};
    float k = whole.value - to_whole;
    float r = (x - k * 0x1.62ep-1f) - k * 0x1.0bfbe8p-15f;
    float tail = 0x1.a01a02p-13f;
    tail = tail * r + 0x1.6c16c2p-10f;
    tail = tail * r + 0x1.111112p-7f;
    tail = tail * r + 0x1.555556p-5f;
    tail = tail * r + 0x1.555556p-3f;
    tail = tail * r + 0.5f;
    *power_out = power.value;
    return tail * r * r + r;
}

/* e^x − 1 for x ≤ 0 (0 above), within 2 units in the last place: 2^k (e^r − 1) + (2^k − 1). */
INLINE float expm1_negative(float x)
{
    float bounded = x > -30.0f ? x : -30.0f, power; /* also where x is not a number */
    float series = exponential_parts(bounded < 0.0f ? bounded : 0.0f, &power);
    return power * series + (power - 1.0f);
}

INLINE float activate_value(const enum device_activation kind, float x)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return x <= 0.0f ? 0.0f : x; /* not a number stays one */
    case DEVICE_ACTIVATION_ELU: {
        float negative = expm1_negative(x);
        return x < 0.0f ? negative : x;
    }
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return x > 0.0f ? x : 0.01f * x;
    case DEVICE_ACTIVATION_GELU:
        return 0.5f * x * erfcf(-x * (float)M_SQRT1_2);
    case DEVICE_ACTIVATION_NONE:
        break;
    }
    return x;
}

/* The derivative at input x (gelu) or where the activation's value is u (the others). */
INLINE float activate_slope(const enum device_activation kind, float x, float u)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return u > 0.0f ? 1.0f : 0.0f;
    case DEVICE_ACTIVATION_ELU:
        return u > 0.0f ? 1.0f : u + 1.0f;
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return u > 0.0f ? 1.0f : 0.01f;
    case DEVICE_ACTIVATION_GELU: /* Φ(x) + x φ(x) */
        return 0.5f * erfcf(-x * (float)M_SQRT1_2) + x * expf(-0.5f * x * x) * (float)(0.5 * M_2_SQRTPI * M_SQRT1_2);
    case DEVICE_ACTIVATION_NONE:
        break;
    }
    return 1.0f;
}

/* Columns whose draws are made in one go. */
#define DRAW_COLUMNS 256

/* An element is dropped where its draw is below the threshold, else scaled by 1 / (1 - p); threshold 0: no
 * dropout. */
struct dropout {
    uint32_t threshold;
    float scale;
};

static struct dropout dropout_make(const struct device_activate *activate)
{
    return (struct dropout){random_drop_threshold(activate->p), (float)(1.0 / (1.0 - activate->p))};
}

/* Masks of what is kept (all ones) and dropped (zeros) for n columns from column c of row r. A loop of its own: with
 * a comparison beside it the compiler branches around the arithmetic and misses its vectors. */
INLINE void keep_masks(const struct device_activate *activate, uint32_t threshold, int64_t r, int64_t c, int64_t n,
                       uint32_t *keep)
{
    draw(&activate->key, activate->node[r], (uint32_t)(c / 4), (n + 3) / 4, keep);
    for (int64_t i = 0; i < n; i++) {
        keep[i] = keep[i] >= threshold ? UINT32_MAX : 0;
    }
}

/* y = dropout(act(x)) */
INLINE void forward_columns(const enum device_activation kind, int64_t n, float scale, const uint32_t *keep,
                            const float *x, float *y)
{
    for (int64_t c = 0; c < n; c++) {
        y[c] = keep_by_mask(keep[c], activate_value(kind, x[c]) * scale);
    }
}

/* grad_x (+)= dropout'(grad_y) · act', where act' needs the value before the dropout's scale: y / scale */
INLINE void backward_columns(const enum device_activation kind, int64_t n, float scale, const uint32_t *keep,
                             const float *x, const float *y, const float *grad_y, bool add, float *grad_x)
{
    float unscale = 1.0f / scale;
    for (int64_t c = 0; c < n; c++) {
        float input = kind == DEVICE_ACTIVATION_GELU ? x[c] : 0.0f;
        float output = kind == DEVICE_ACTIVATION_GELU || kind == DEVICE_ACTIVATION_NONE ? 0.0f : y[c] * unscale;
        float grad = grad_y[c] * scale * activate_slope(kind, input, output);
        grad = keep_by_mask(keep[c], grad);
        grad_x[c] = add ? grad_x[c] + grad : grad;
    }
}

/* clang-format off */
#define EACH_ACTIVATION(X)                                                                             \
    X(DEVICE_ACTIVATION_NONE) X(DEVICE_ACTIVATION_RELU) X(DEVICE_ACTIVATION_ELU)                       \
    X(DEVICE_ACTIVATION_LEAKY_RELU) X(DEVICE_ACTIVATION_GELU)
/* clang-format on */

TARGET static void activate_forward(const struct device_activate *activate, int64_t f, int64_t first, int64_t end,
                                    const float *x, float *y)
{
    uint32_t keep[DRAW_COLUMNS];
    memset(keep, 0xff, sizeof keep);
    struct dropout dropout = dropout_make(activate);
    for (int64_t r = first; r < end; r++) {
        for (int64_t c = 0, n; c < f; c += n) {
            n = smaller(f - c, DRAW_COLUMNS);
            if (dropout.threshold > 0) {
                keep_masks(activate, dropout.threshold, r, c, n, keep);
            }
            switch (activate->activation) {
#define X(kind)                                                                                                      \
    case kind:                                                                                                       \
        forward_columns(kind, n, dropout.scale, keep, x + r * f + c, y + r * f + c);                                 \
        break;
                EACH_ACTIVATION(X)
#undef X
            }
        }
    }
}

TARGET static void activate_backward(const struct device_activate *activate, int64_t f, int64_t first, int64_t end,
                                     const float *x, const float *y, const float *grad_y, bool add, float *grad_x)
{
    uint32_t keep[DRAW_COLUMNS];
    memset(keep, 0xff, sizeof keep);
    struct dropout dropout = dropout_make(activate);
    if (activate->activation == DEVICE_ACTIVATION_RELU) {
        dropout.threshold = 0; /* a dropped y is 0, where relu's slope is 0, too: no draw is needed */
    }
    for (int64_t r = first; r < end; r++) {
        for (int64_t c = 0, n; c < f; c += n) {
            int64_t i = r * f + c;
            const float *x_run = x != NULL ? x + i : NULL, *y_run = y != NULL ? y + i : NULL;
            n = smaller(f - c, DRAW_COLUMNS);
            if (dropout.threshold > 0) {
                keep_masks(activate, dropout.threshold, r, c, n, keep);
            }
            switch (activate->activation) {
#define X(kind)                                                                                                      \
    case kind:                                                                                                       \
        backward_columns(kind, n, dropout.scale, keep, x_run, y_run, grad_y + i, add, grad_x + i);                   \
        break;
                EACH_ACTIVATION(X)
#undef X
            }
        }
    }
}

/* Double sums, row after row. */
TARGET static void column_sum(int64_t n, int64_t f, const float *x, double *sum)
{
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            sum[c] += x[r * f + c];
        }
    }
}

/* 16 rows at a time, four columns of them as vectors. */
TARGET static void transpose(int64_t n_row, int64_t n_col, const float *from, int64_t from_step, float *to,
                             int64_t to_step)
{
    int64_t r = 0, whole = n_col / 4 * 4;
    for (; r + 16 <= n_row; r += 16) {
        const float *row[16];
        for (int64_t i = 0; i < 16; i++) {
            row[i] = from + (r + i) * from_step;
        }
        for (int64_t c = 0; c < whole; c += 4) {
            parts_columns(row, c, 4, to + c * to_step + r, to_step);
        }
    }
    for (int64_t c = 0; c < n_col; c++) {
        for (int64_t i = c < whole ? r : 0; i < n_row; i++) {
            to[c * to_step + i] = from[i * from_step + c];
        }
    }
}
