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
TILE_BINARY(sqrt_back, x == 0.0f || (y == 0.0f && first != 0.0f) ? 0.0f : 0.5f * x / y)
TILE_BINARY(abs_back, y > 0.0f ? x : y < 0.0f ? -x : 0.0f)
TILE_BINARY(clamp_back, y < first || y > second ? 0.0f : x)
TILE_BINARY(square_back, x * (2.0f * y))
TILE_BINARY(power_back, x == 0.0f || first == 0.0f ? 0.0f : x * (first * powf(y, first - 1.0f)))
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

/* Sums that stay in registers: of rows × vectors of columns; in 16 lanes, of rows × columns. */
#define TILE_BLOCK_ROWS 4
#define TILE_BLOCK_VECTORS (LANES == 16 ? 4 : 2)
#define TILE_DOT_ROWS (LANES == 16 ? 4 : 1)
#define TILE_DOT_COLUMNS 4

/* z[c] = Σ_k a[k] w[k, c] of some rows, at vectors of columns: k ascending, as tile_rows_product. */
INLINE void tile_block_products(const struct tile_instruction *i, const float *const *x, const float *w,
                                const bool whole, const lane_mask *mask, float *const *z, int64_t c)
{
    vector sum[TILE_BLOCK_ROWS][TILE_BLOCK_VECTORS];
    for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            sum[r][v] = vector_set(0.0f);
        }
    }
    for (int64_t k = 0; k < i->n_inner; k++) {
        vector y[TILE_BLOCK_VECTORS];
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            y[v] = columns_load(w + k * i->b.inner + c + v * LANES, whole, mask[v]);
        }
        for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
            const vector factor = vector_set(x[r][k * i->a.inner]);
            for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
                sum[r][v] = vector_add(sum[r][v], vector_multiply(factor, y[v]));
            }
        }
    }
    for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            columns_store(z[r] + c + v * LANES, whole, mask[v], sum[r][v]);
        }
    }
}

INLINE void tile_block_masks(int64_t n, lane_mask mask[TILE_BLOCK_VECTORS])
{
    for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
        const int64_t some = n - v * LANES;
        mask[v] = mask_first(some < 0 ? 0 : some < LANES ? some : LANES);
    }
}

/* z[c] = Σ_k a[k] w[c, k] of some rows, at four columns: in 16 lanes, as tile_dot_of. */
INLINE void tile_block_dots(const struct tile_instruction *i, const float *const *x, const float *w, float *const *z,
                            int64_t c)
{
    const int64_t n = i->n_inner, n_whole = n - n % TILE_LANES, some = i->n_column - c;
    const int64_t n_column = some < TILE_DOT_COLUMNS ? some : TILE_DOT_COLUMNS;
    vector sum[TILE_DOT_ROWS][TILE_DOT_COLUMNS][PARTS];
    const float *column[TILE_DOT_COLUMNS];
    float out[TILE_DOT_COLUMNS];
    for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
        column[j] = w + (c + (j < n_column ? j : 0)) * i->b.column;
    }
    for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
        for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
            for (int64_t p = 0; p < PARTS; p++) {
                sum[r][j][p] = vector_set(0.0f);
            }
        }
    }
    for (int64_t k = 0; k < n; k += TILE_LANES) {
        for (int64_t p = 0; p < PARTS; p++) {
            const int64_t at = k + p * LANES, left = n - at;
            const lane_mask mask = mask_first(left < 0 ? 0 : left < LANES ? left : LANES);
            vector y[TILE_DOT_COLUMNS];
            for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
                y[j] = columns_load(column[j] + at, k < n_whole, mask);
            }
            for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
                const vector row = columns_load(x[r] + at, k < n_whole, mask);
                for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
                    sum[r][j][p] = vector_add(sum[r][j][p], vector_multiply(row, y[j]));
                }
            }
        }
    }
    for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
        parts_sums(out, sum[r]);
        for (int64_t j = 0; j < n_column; j++) {
            z[r][c + j] = out[j];
        }
    }
}

/* Where some rows of a run lie; behind its end the last one again. */
INLINE void tile_block_rows(const struct tile_instruction *i, const struct cpu_tile *tile, int64_t first, int64_t n,
                            int64_t head, const float **x, float **z)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t t = first + r < tile->n ? first + r : tile->n - 1;
        x[r] = tile_operand_at(tile, &i->a, t) + head * i->a.head;
        z[r] = tile_out_at(tile, i, t) + head * i->out_head;
    }
}

/* A run's rows times one weight, which they all have. */
INLINE void tile_contract_weight(const struct cpu_tile *tile, const struct tile_instruction *i, const bool dots)
{
    const float *x[TILE_BLOCK_ROWS];
    float *z[TILE_BLOCK_ROWS];
    const int64_t n_row = dots ? TILE_DOT_ROWS : TILE_BLOCK_ROWS;
    const int64_t n_column = dots ? TILE_DOT_COLUMNS : TILE_BLOCK_VECTORS * LANES;
    for (int64_t h = 0; h < i->n_head; h++) {
        const float *w = tile_operand_at(tile, &i->b, 0) + h * i->b.head;
        for (int64_t t = 0; t < tile->n; t += n_row) {
            tile_block_rows(i, tile, t, n_row, h, x, z);
            for (int64_t c = 0; c < i->n_column; c += n_column) {
                lane_mask mask[TILE_BLOCK_VECTORS];
                tile_block_masks(i->n_column - c, mask);
                if (dots) {
                    tile_block_dots(i, x, w, z, c);
                } else if (c + n_column <= i->n_column) {
                    tile_block_products(i, x, w, true, mask, z, c);
                } else {
                    tile_block_products(i, x, w, false, mask, z, c);
                }
            }
        }
    }
}

TARGET static void tile_contract(const struct cpu_tile *tile, const struct tile_instruction *i)
{
    const struct tile_operand *a = &i->a, *b = &i->b;
    bool dots = i->n_column == 1 || (b->inner == 1 && b->column > 1);
    if (b->kind == TILE_PARAM && a->column == 0 && i->n_column > 1) {
        if (dots && a->inner == 1 && b->inner == 1 && i->n_inner > 4) {
            tile_contract_weight(tile, i, true);
            return;
        }
        if (!dots && b->column == 1) {
            tile_contract_weight(tile, i, false);
            return;
        }
    }
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
