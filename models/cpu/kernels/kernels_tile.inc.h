/* Tile programs (models/tile/tile.h): one instruction after another, each on all rows of a run.
 *
 * Sums over columns are made in 16 lanes, which are added up in one order; sums over rows and edges one after
 * another. Nothing depends on how wide vectors are.
 */

#define TILE_LANES 16

INLINE const float *tile_operand_at(const struct cpu_tile *tile, const struct tile_operand *o, int64_t t)
{
    switch (o->kind) {
    case TILE_REGISTER:
        return tile->registers + t * tile->how->tile->n_float + o->at;
    case TILE_ROW:
        return tile->rows[o->which][t] + o->at;
    case TILE_PARAM:
        return tile->how->param[o->which] + o->at;
    case TILE_NUMBER:
        break;
    }
    return &o->number;
}

INLINE float *tile_out_at(const struct cpu_tile *tile, const struct tile_instruction *i, int64_t t)
{
    return tile->registers + t * tile->how->tile->n_float + i->out;
}

/* One instruction's loops: heads, whose columns are side by side, are one where all operands let them. */
struct tile_shape {
    int64_t n_head, n_column;
};

INLINE bool tile_is_flat(const struct tile_operand *o, int64_t n_column)
{
    return (o->head == 0 && o->column == 0) || (o->column == 1 && o->head == n_column);
}

INLINE struct tile_shape tile_shape_of(const struct tile_instruction *i, bool two)
{
    bool flat = i->n_head == 1 || (i->out_head == i->n_column && tile_is_flat(&i->a, i->n_column) &&
                                   (!two || tile_is_flat(&i->b, i->n_column)));
    return flat ? (struct tile_shape){1, i->n_head * i->n_column} : (struct tile_shape){i->n_head, i->n_column};
}

/* A loop over columns without dependences: where the result lies on an operand, it lies on all of it. */
#ifdef __clang__
#define TILE_COLUMNS _Pragma("clang loop vectorize(assume_safety)") for (int64_t c = 0; c < n; c++)
#else
#define TILE_COLUMNS _Pragma("GCC ivdep") for (int64_t c = 0; c < n; c++)
#endif

/* z = an expression of x */
#define TILE_UNARY(name, expression)                                                                                 \
    TARGET static void tile_##name(const struct cpu_tile *tile, const struct tile_instruction *i)                    \
    {                                                                                                                \
        const struct tile_shape shape = tile_shape_of(i, false);                                                     \
        const int64_t n = shape.n_column;                                                                            \
        const float first = i->number[0], second = i->number[1];                                                     \
        (void)first;                                                                                                 \
        (void)second;                                                                                                \
        for (int64_t t = 0; t < tile->n; t++) {                                                                      \
            const float *a = tile_operand_at(tile, &i->a, t);                                                        \
            float *z = tile_out_at(tile, i, t);                                                                      \
            for (int64_t h = 0; h < shape.n_head; h++, a += i->a.head, z += i->out_head) {                           \
                if (i->a.column == 0) {                                                                              \
                    const float x = a[0];                                                                            \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                } else {                                                                                             \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        const float x = a[c];                                                                        \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }

/* z = an expression of x and y */
#define TILE_BINARY(name, expression)                                                                                \
    TARGET static void tile_##name(const struct cpu_tile *tile, const struct tile_instruction *i)                    \
    {                                                                                                                \
        const struct tile_shape shape = tile_shape_of(i, true);                                                      \
        const int64_t n = shape.n_column;                                                                            \
        const float first = i->number[0], second = i->number[1];                                                     \
        (void)first;                                                                                                 \
        (void)second;                                                                                                \
        for (int64_t t = 0; t < tile->n; t++) {                                                                      \
            const float *a = tile_operand_at(tile, &i->a, t), *b = tile_operand_at(tile, &i->b, t);                  \
            float *z = tile_out_at(tile, i, t);                                                                      \
            for (int64_t h = 0; h < shape.n_head; h++, a += i->a.head, b += i->b.head, z += i->out_head) {           \
                if (i->a.column == 0 && i->b.column == 0) {                                                          \
                    const float x = a[0], y = b[0];                                                                  \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                } else if (i->a.column == 0) {                                                                       \
                    const float x = a[0];                                                                            \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        const float y = b[c];                                                                        \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                } else if (i->b.column == 0) {                                                                       \
                    const float y = b[0];                                                                            \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        const float x = a[c];                                                                        \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                } else {                                                                                             \
                    TILE_COLUMNS                                                                                     \
                    {                                                                                                \
                        const float x = a[c], y = b[c];                                                              \
                        z[c] = (expression);                                                                         \
                    }                                                                                                \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }

/* e^x with the bounds of vector_exp, in one lane's arithmetic, so that loops of it become vectors. */
INLINE float tile_exp_of(float x)
{
    float bounded = x < -87.0f ? -87.0f : x, power;
    float series = exponential_parts(bounded > 88.0f ? 88.0f : bounded, &power);
    return x < -87.0f ? 0.0f : power * series + power;
}

INLINE float tile_sigmoid_of(float x)
{
    return 1.0f / (1.0f + tile_exp_of(-x));
}

INLINE float tile_tanh_of(float x)
{
    float magnitude = x < 0.0f ? -x : x, e = tile_exp_of(-2.0f * magnitude), y = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -y : y;
}

/* clang-format off */
TILE_UNARY(copy, x)
TILE_UNARY(relu, x <= 0.0f ? 0.0f : x)
TILE_UNARY(leaky_relu, x > 0.0f ? x : x * first)
TILE_UNARY(elu, x < 0.0f ? expm1_negative(x) : x)
TILE_UNARY(gelu, activate_value(DEVICE_ACTIVATION_GELU, x))
TILE_UNARY(silu, x * tile_sigmoid_of(x))
TILE_UNARY(sigmoid, tile_sigmoid_of(x))
TILE_UNARY(tanh, tile_tanh_of(x))
TILE_UNARY(softplus, x > 0.0f ? x + log1pf(tile_exp_of(-x)) : log1pf(tile_exp_of(x)))
TILE_UNARY(exp, tile_exp_of(x))
TILE_UNARY(log, logf(x))
TILE_UNARY(sqrt, sqrtf(x))
TILE_UNARY(abs, x < 0.0f ? -x : x)
TILE_UNARY(clamp, x < first ? first : x > second ? second : x)
TILE_UNARY(square, x * x)
TILE_UNARY(power, powf(x, first))
TILE_BINARY(plus, x + y)
TILE_BINARY(subtract, x - y)
TILE_BINARY(multiply, x * y)
TILE_BINARY(divide, x / y)
TILE_BINARY(minimum, x < y || x != x ? x : y)
TILE_BINARY(maximum, x > y || x != x ? x : y)
TILE_BINARY(relu_back, y > 0.0f ? x : 0.0f)
TILE_BINARY(leaky_relu_back, y > 0.0f ? x : x * first)
TILE_BINARY(elu_back, y > 0.0f ? x : x * (y + 1.0f))
TILE_BINARY(gelu_back, x * activate_slope(DEVICE_ACTIVATION_GELU, y, 0.0f))
TILE_BINARY(silu_back, x * (tile_sigmoid_of(y) * (1.0f + y * (1.0f - tile_sigmoid_of(y)))))
TILE_BINARY(sigmoid_back, x * (y * (1.0f - y)))
TILE_BINARY(tanh_back, x * (1.0f - y * y))
TILE_BINARY(softplus_back, x * tile_sigmoid_of(y))
TILE_BINARY(sqrt_back, x == 0.0f ? 0.0f : 0.5f * x / y)
TILE_BINARY(abs_back, y > 0.0f ? x : y < 0.0f ? -x : 0.0f)
TILE_BINARY(clamp_back, y < first || y > second ? 0.0f : x)
TILE_BINARY(square_back, x * (2.0f * y))
TILE_BINARY(power_back, x * (first * powf(y, first - 1.0f)))
TILE_BINARY(less, x < y ? 1.0f : x == y ? 0.5f : 0.0f)
/* clang-format on */

/* a where the bits of b, a node id, are the source's. */
TARGET static void tile_won(const struct cpu_tile *tile, const struct tile_instruction *i)
{
    for (int64_t t = 0; t < tile->n; t++) {
        const float *a = tile_operand_at(tile, &i->a, t), *b = tile_operand_at(tile, &i->b, t);
        float *z = tile_out_at(tile, i, t);
        const uint32_t source = tile->source[t];
        for (int64_t h = 0; h < i->n_head; h++) {
            const uint32_t *winner = (const uint32_t *)(const void *)(b + h * i->b.head);
            for (int64_t c = 0; c < i->n_column; c++) {
                const float x = a[h * i->a.head + c * i->a.column] / tile->factor;
                z[h * i->out_head + c] = winner[c * i->b.column] == source ? x : 0.0f;
            }
        }
    }
}

TARGET static void tile_drop(const struct cpu_tile *tile, const struct tile_instruction *i)
{
    const double p = (double)i->number[0];
    const float keep = (float)(1.0 / (1.0 - p));
    const uint32_t threshold = random_drop_threshold(p), first = (uint32_t)i->number[1];
    for (int64_t t = 0; t < tile->n; t++) {
        const float *a = tile_operand_at(tile, &i->a, t);
        float *z = tile_out_at(tile, i, t);
        for (int64_t h = 0; h < i->n_head; h++) {
            for (int64_t c = 0; c < i->n_column; c++) {
                float x = a[h * i->a.head + c * i->a.column];
                uint32_t head = first + (uint32_t)(h * i->n_column + c);
                bool drops = tile->how->drops &&
                             random_edge_u32(&tile->key, tile->target[t], tile->source[t], head) < threshold;
                z[h * i->out_head + c] = drops ? 0.0f : tile->how->drops ? x * keep : x;
            }
        }
    }
}

/* --- contractions --- */

/* Σ_k x[k] y[k] */
INLINE float tile_dot_of(int64_t n, const float *x, int64_t x_step, const float *y, int64_t y_step)
{
    float lane[TILE_LANES] = {0.0f};
    int64_t k = 0;
    if (n <= 4) { /* the lanes that are not 0 */
        for (; k < n; k++) {
            lane[k] = x[k * x_step] * y[k * y_step];
        }
        return (lane[0] + lane[2]) + (lane[1] + lane[3]);
    }
    if (x_step == 1 && y_step == 1) {
        for (; k + TILE_LANES <= n; k += TILE_LANES) {
            for (int64_t l = 0; l < TILE_LANES; l++) {
                lane[l] += x[k + l] * y[k + l];
            }
        }
    } else if (x_step == 1 && y_step == 0) {
        for (; k + TILE_LANES <= n; k += TILE_LANES) {
            for (int64_t l = 0; l < TILE_LANES; l++) {
                lane[l] += x[k + l] * y[0];
            }
        }
    }
    for (; k < n; k++) {
        lane[k % TILE_LANES] += x[k * x_step] * y[k * y_step];
    }
    for (int64_t half = TILE_LANES / 2; half > 0; half /= 2) {
        for (int64_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

/* z[c] = Σ_k a[k] b[k, c], of rows of b side by side: k ascending. */
INLINE void tile_rows_product(int64_t n, int64_t n_inner, const float *a, int64_t a_column, int64_t a_inner,
                              const float *b, int64_t b_column, int64_t b_inner, float *z)
{
    for (int64_t c = 0; c < n; c++) {
        z[c] = 0.0f;
    }
    for (int64_t k = 0; k < n_inner; k++, a += a_inner, b += b_inner) {
        if (a_column == 0 && b_column == 1) {
            const float x = a[0];
            TILE_COLUMNS
            {
                z[c] += x * b[c];
            }
        } else if (a_column == 1 && b_column == 0) {
            const float y = b[0];
            TILE_COLUMNS
            {
                z[c] += a[c] * y;
            }
        } else {
            TILE_COLUMNS
            {
                z[c] += a[c * a_column] * b[c * b_column];
            }
        }
    }
}

TARGET static void tile_contract(const struct cpu_tile *tile, const struct tile_instruction *i)
{
    const struct tile_operand *a = &i->a, *b = &i->b;
    bool dots = i->n_column == 1 || (b->inner == 1 && b->column > 1);
    for (int64_t t = 0; t < tile->n; t++) {
        const float *x = tile_operand_at(tile, a, t), *y = tile_operand_at(tile, b, t);
        float *z = tile_out_at(tile, i, t);
        for (int64_t h = 0; h < i->n_head; h++, x += a->head, y += b->head, z += i->out_head) {
            for (int64_t c = 0; dots && c < i->n_column; c++) {
                z[c] = tile_dot_of(i->n_inner, x + c * a->column, a->inner, y + c * b->column, b->inner);
            }
            if (!dots) {
                tile_rows_product(i->n_column, i->n_inner, x, a->column, a->inner, y, b->column, b->inner, z);
            }
        }
    }
}

TARGET static void tile_run(const struct cpu_tile *tile)
{
    static void (*const run[TILE_OP_N])(const struct cpu_tile *, const struct tile_instruction *) = {
        [TILE_OP_COPY] = tile_copy,
        [TILE_OP_RELU] = tile_relu,
        [TILE_OP_LEAKY_RELU] = tile_leaky_relu,
        [TILE_OP_ELU] = tile_elu,
        [TILE_OP_GELU] = tile_gelu,
        [TILE_OP_SILU] = tile_silu,
        [TILE_OP_SIGMOID] = tile_sigmoid,
        [TILE_OP_TANH] = tile_tanh,
        [TILE_OP_SOFTPLUS] = tile_softplus,
        [TILE_OP_EXP] = tile_exp,
        [TILE_OP_LOG] = tile_log,
        [TILE_OP_SQRT] = tile_sqrt,
        [TILE_OP_ABS] = tile_abs,
        [TILE_OP_CLAMP] = tile_clamp,
        [TILE_OP_POWER] = tile_power,
        [TILE_OP_ADD] = tile_plus,
        [TILE_OP_SUBTRACT] = tile_subtract,
        [TILE_OP_MULTIPLY] = tile_multiply,
        [TILE_OP_DIVIDE] = tile_divide,
        [TILE_OP_MINIMUM] = tile_minimum,
        [TILE_OP_MAXIMUM] = tile_maximum,
        [TILE_OP_RELU_BACK] = tile_relu_back,
        [TILE_OP_LEAKY_RELU_BACK] = tile_leaky_relu_back,
        [TILE_OP_ELU_BACK] = tile_elu_back,
        [TILE_OP_GELU_BACK] = tile_gelu_back,
        [TILE_OP_SILU_BACK] = tile_silu_back,
        [TILE_OP_SIGMOID_BACK] = tile_sigmoid_back,
        [TILE_OP_TANH_BACK] = tile_tanh_back,
        [TILE_OP_SOFTPLUS_BACK] = tile_softplus_back,
        [TILE_OP_SQRT_BACK] = tile_sqrt_back,
        [TILE_OP_ABS_BACK] = tile_abs_back,
        [TILE_OP_CLAMP_BACK] = tile_clamp_back,
        [TILE_OP_POWER_BACK] = tile_power_back,
        [TILE_OP_LESS] = tile_less,
        [TILE_OP_WON] = tile_won,
        [TILE_OP_CONTRACT] = tile_contract,
        [TILE_OP_DROP] = tile_drop,
    };
    for (int k = 0; k < tile->how->tile->n_instruction; k++) {
        const struct tile_instruction *i = &tile->how->tile->instruction[k];
        bool squares = i->number[0] == 2.0f;
        if (i->op == TILE_OP_POWER && squares) {
            tile_square(tile, i);
        } else if (i->op == TILE_OP_POWER_BACK && squares) {
            tile_square_back(tile, i);
        } else {
            run[i->op](tile, i);
        }
    }
}

/* --- results --- */

/* The greatest, or least, with the node id of its source. */
INLINE void tile_best(int64_t n, bool greatest, const float *from, uint32_t source, float *out, float *saved)
{
    uint32_t *winner = (uint32_t *)(void *)saved;
    TILE_COLUMNS
    {
        bool better = greatest ? from[c] > out[c] : from[c] < out[c];
        winner[c] = better ? source : winner[c];
        out[c] = better ? from[c] : out[c];
    }
}

/* Σ exp(value - the greatest so far) of up to TILE_LANES numbers side by side at `from`, raised once for the run.
 * before: what sums so far are multiplied by; weights: exp(value - the greatest) of each of the run's rows. */
INLINE void tile_exponentials(const struct cpu_tile *tile, const struct tile_operand *from, int64_t first, int64_t n,
                              float shift, float *most, float *sum, float *before, float (*weights)[TILE_LANES])
{
    TILE_COLUMNS
    {
        before[c] = most[c];
    }
    for (int64_t t = 0; t < tile->n; t++) {
        const float *values = tile_operand_at(tile, from, t) + first;
        TILE_COLUMNS
        {
            float value = values[c] + shift;
            most[c] = value > most[c] ? value : most[c];
        }
    }
    TILE_COLUMNS
    {
        before[c] = tile_exp_of(before[c] - most[c]);
        sum[c] *= before[c];
    }
    for (int64_t t = 0; t < tile->n; t++) {
        const float *values = tile_operand_at(tile, from, t) + first;
        TILE_COLUMNS
        {
            weights[t][c] = tile_exp_of(values[c] + shift - most[c]);
            sum[c] += weights[t][c];
        }
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

/* out += what leaves row t */
INLINE void tile_add(const struct cpu_tile *tile, const struct tile_result *r, int64_t t, float *out)
{
    const float *from = tile_operand_at(tile, &r->from, t);
    const int64_t n = r->n;
    if (r->n_with > 0) {
        tile_add_products(r->n_with, n / r->n_with, tile_operand_at(tile, &r->with, t), from, out);
        return;
    }
    TILE_COLUMNS
    {
        out[c] += from[c];
    }
}

TARGET static void tile_softmax(const struct cpu_tile *tile, const struct cpu_tile_result *r)
{
    const bool sums_rows = r->of->reduction == TILE_REDUCTION_SOFTMAX;
    const int64_t n = sums_rows ? r->of->n_with : r->of->n, width = r->of->n / n;
    float *sum = r->saved, *most = sums_rows ? r->saved + n : r->out;
    float before[TILE_LANES], weights[CPU_TILE_RUN][TILE_LANES];
    for (int64_t begin = 0; begin < n; begin += TILE_LANES) {
        const int64_t some = n - begin < TILE_LANES ? n - begin : TILE_LANES;
        tile_exponentials(tile, sums_rows ? &r->of->with : &r->of->from, begin, some, r->shift, most + begin,
                          sum + begin, before, weights);
        for (int64_t j = 0; j < some && sums_rows; j++) {
            for (int64_t c = 0; c < width; c++) {
                r->out[(begin + j) * width + c] *= before[j];
            }
        }
        for (int64_t t = 0; t < tile->n && sums_rows; t++) {
            tile_add_products(some, width, weights[t], tile_operand_at(tile, &r->of->from, t) + begin * width,
                              r->out + begin * width);
        }
    }
}

/* Where an operand of each of a run's rows lies: found once, where it is read often. */
INLINE void tile_operands_find(const struct cpu_tile *tile, const struct tile_operand *o, const float **rows)
{
    for (int64_t t = 0; t < tile->n; t++) {
        rows[t] = tile_operand_at(tile, o, t);
    }
}

/* What a run's rows add to some columns: y, or y by one factor, or y by as many. */
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

TARGET static void tile_sum(const struct cpu_tile *tile, const struct tile_result *r, float *out)
{
    const float *from[CPU_TILE_RUN], *with[CPU_TILE_RUN];
    struct tile_sum s = {.n = tile->n, .scale = tile->factor, .from = from};
    tile_operands_find(tile, &r->from, from);
    if (r->n_with == 0) {
        tile_sum_columns(&s, r->n, out);
        return;
    }
    tile_operands_find(tile, &r->with, with);
    s.with = with;
    if (r->n_with == r->n) {
        s.by_column = true;
        tile_sum_columns(&s, r->n, out);
        return;
    }
    for (int64_t j = 0; j < r->n_with; j++) {
        tile_sum_columns(&s, r->n / r->n_with, out + j * (r->n / r->n_with));
        for (int64_t t = 0; t < tile->n; t++) {
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
        tile_sum(tile, r->of, r->out);
        return;
    }
    for (int64_t t = 0; t < tile->n; t++) {
        tile_best(r->of->n, r->of->reduction == TILE_REDUCTION_MAX, tile_operand_at(tile, &r->of->from, t),
                  tile->source[t], r->out, r->saved);
    }
}

/* A run's sums in float, added in double. */
TARGET static void tile_weigh(const struct cpu_tile *tile, const struct tile_result *r, double *grad)
{
    float sum[256];
    const float *from[CPU_TILE_RUN], *with[CPU_TILE_RUN];
    tile_operands_find(tile, &r->from, from);
    if (r->n_with == 0) {
        for (int64_t begin = 0; begin < r->n; begin += 256) {
            const int64_t n = r->n - begin < 256 ? r->n - begin : 256;
            memset(sum, 0, sizeof sum);
            for (int64_t t = 0; t < tile->n; t++) {
                const float *x = from[t] + begin;
                TILE_COLUMNS
                {
                    sum[c] += x[c];
                }
            }
            for (int64_t c = 0; c < n; c++) {
                grad[begin + c] += (double)(tile->factor * sum[c]);
            }
        }
        return;
    }
    tile_operands_find(tile, &r->with, with);
    for (int64_t begin = 0; begin < r->n_with; begin += 256) {
        const int64_t n = r->n_with - begin < 256 ? r->n_with - begin : 256;
        for (int64_t i = 0; i < r->n; i++) {
            memset(sum, 0, (size_t)n * sizeof *sum);
            for (int64_t t = 0; t < tile->n; t++) {
                const float x = from[t][i], *y = with[t] + begin;
                TILE_COLUMNS
                {
                    sum[c] += x * y[c];
                }
            }
            double *to = grad + i * r->step + begin * r->step_with;
            for (int64_t c = 0; c < n; c++) {
                to[c * r->step_with] += (double)(tile->factor * sum[c]);
            }
        }
    }
}

/* Row t of `to`, which is `width` wide, += what leaves row t. */
TARGET static void tile_store(const struct cpu_tile *tile, const struct tile_result *r, int64_t width, float *to)
{
    for (int64_t t = 0; t < tile->n; t++) {
        tile_add(tile, r, t, to + t * width + r->at);
    }
}
