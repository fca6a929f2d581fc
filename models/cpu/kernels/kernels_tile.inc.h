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

/* Where an operand of each of some rows of a run lies: found once, where it is read often. */
INLINE void tile_operands_find(const struct cpu_tile *tile, const struct tile_operand *o, int64_t begin, int64_t end,
                               const float **rows)
{
    for (int64_t t = begin; t < end; t++) {
        rows[t - begin] = tile_operand_at(tile, o, t);
    }
}

/* One instruction's loops: heads, whose columns are side by side, are one where all operands let them. */
struct tile_loop {
    const struct cpu_tile *tile;
    const struct tile_instruction *i;
    int64_t n_row, n_head, n;
    bool a_one, b_one; /* one number for all columns of a head */
    const float *a[CPU_TILE_RUN], *b[CPU_TILE_RUN];
    float *z[CPU_TILE_RUN];
};

INLINE bool tile_is_flat(const struct tile_operand *o, int64_t n_column)
{
    return (o->head == 0 && o->column == 0) || (o->column == 1 && o->head == n_column);
}

/* A loop over columns without dependences: where the result lies on an operand, it lies on all of it. */
#ifdef __clang__
#define TILE_COLUMNS _Pragma("clang loop vectorize(assume_safety)") for (int64_t c = 0; c < n; c++)
#else
#define TILE_COLUMNS _Pragma("GCC ivdep") for (int64_t c = 0; c < n; c++)
#endif

#define TILE_EACH(x_is, y_is, expression)                                                                            \
    {                                                                                                                \
        const float x_0 = a[0], y_0 = b[0]; /* in this branch alone: else loops do not become vectors */             \
        (void)x_0, (void)y_0;                                                                                        \
        TILE_COLUMNS                                                                                                 \
        {                                                                                                            \
            const float x = x_is, y = y_is;                                                                          \
            (void)y;                                                                                                 \
            z[c] = (expression);                                                                                     \
        }                                                                                                            \
    }

/* z = an expression of x, and of y where there are two. */
#define TILE_MAP(name, two, expression)                                                                              \
    TARGET static void tile_##name(const struct tile_loop *l)                                                        \
    {                                                                                                                \
        const int64_t n = l->n, step = (two) ? l->i->b.head : 0;                                                     \
        const float first = l->i->number[0], second = l->i->number[1];                                               \
        (void)first, (void)second;                                                                                   \
        for (int64_t t = 0; t < l->n_row; t++) {                                                                     \
            const float *a = l->a[t], *b = l->b[t];                                                                  \
            float *z = l->z[t];                                                                                      \
            for (int64_t h = 0; h < l->n_head; h++, a += l->i->a.head, b += step, z += l->i->out_head) {             \
                if (l->a_one && (l->b_one || !(two))) {                                                              \
                    TILE_EACH(x_0, y_0, expression)                                                                  \
                } else if (l->a_one) {                                                                               \
                    TILE_EACH(x_0, b[c], expression)                                                                 \
                } else if (l->b_one || !(two)) {                                                                     \
                    TILE_EACH(a[c], y_0, expression)                                                                 \
                } else {                                                                                             \
                    TILE_EACH(a[c], b[c], expression)                                                                \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }

/* e^x with the bounds of vector_exp, in one lane's arithmetic, so that loops of it become vectors. */
INLINE float tile_exp(float x)
{
    const float least = -87.0f > x ? -87.0f : x; /* vectors' own maximum, which keeps what is not a number */
    float power, series = exponential_parts(88.0f < least ? 88.0f : least, &power);
    float y = power * series + power;
    return -87.0f > x ? 0.0f : y;
}

INLINE float tile_sigmoid(float x)
{
    return 1.0f / (1.0f + tile_exp(-x));
}

INLINE float tile_tanh(float x)
{
    float magnitude = x < 0.0f ? -x : x, e = tile_exp(-2.0f * magnitude), y = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -y : y;
}

/* clang-format off */
TILE_MAP(COPY, 0, x)
TILE_MAP(RELU, 0, x <= 0.0f ? 0.0f : x)
TILE_MAP(LEAKY_RELU, 0, x > 0.0f ? x : x * first)
TILE_MAP(ELU, 0, x < 0.0f ? expm1_negative(x) : x)
TILE_MAP(GELU, 0, activate_value(DEVICE_ACTIVATION_GELU, x))
TILE_MAP(SILU, 0, x * tile_sigmoid(x))
TILE_MAP(SIGMOID, 0, tile_sigmoid(x))
TILE_MAP(TANH, 0, tile_tanh(x))
TILE_MAP(SOFTPLUS, 0, x > 0.0f ? x + log1pf(tile_exp(-x)) : log1pf(tile_exp(x)))
TILE_MAP(EXP, 0, tile_exp(x))
TILE_MAP(LOG, 0, logf(x))
TILE_MAP(SQRT, 0, sqrtf(x))
TILE_MAP(ABS, 0, x < 0.0f ? -x : x)
TILE_MAP(CLAMP, 0, x < first ? first : x > second ? second : x)
TILE_MAP(SQUARE, 0, x * x)
TILE_MAP(POWER, 0, powf(x, first))
TILE_MAP(ADD, 1, x + y)
TILE_MAP(SUBTRACT, 1, x - y)
TILE_MAP(MULTIPLY, 1, x * y)
TILE_MAP(DIVIDE, 1, x / y)
TILE_MAP(MINIMUM, 1, x < y || x != x ? x : y)
TILE_MAP(MAXIMUM, 1, x > y || x != x ? x : y)
TILE_MAP(RELU_BACK, 1, y > 0.0f ? x : 0.0f)
TILE_MAP(LEAKY_RELU_BACK, 1, y > 0.0f ? x : x * first)
TILE_MAP(ELU_BACK, 1, y > 0.0f ? x : x * (y + 1.0f))
TILE_MAP(GELU_BACK, 1, x * activate_slope(DEVICE_ACTIVATION_GELU, y, 0.0f))
TILE_MAP(SILU_BACK, 1, x * (tile_sigmoid(y) * (1.0f + y * (1.0f - tile_sigmoid(y)))))
TILE_MAP(SIGMOID_BACK, 1, x * (y * (1.0f - y)))
TILE_MAP(TANH_BACK, 1, x * (1.0f - y * y))
TILE_MAP(SOFTPLUS_BACK, 1, x * tile_sigmoid(y))
TILE_MAP(SQRT_BACK, 1, x == 0.0f || (y == 0.0f && first != 0.0f) ? 0.0f : 0.5f * x / y)
TILE_MAP(ABS_BACK, 1, y > 0.0f ? x : y < 0.0f ? -x : 0.0f)
TILE_MAP(CLAMP_BACK, 1, y < first || y > second ? 0.0f : x)
TILE_MAP(SQUARE_BACK, 1, x * (2.0f * y))
TILE_MAP(POWER_BACK, 1, x == 0.0f || first == 0.0f ? 0.0f : x * (first * powf(y, first - 1.0f)))
TILE_MAP(LESS, 1, x < y ? 1.0f : x == y ? 0.5f : 0.0f)
/* clang-format on */

/* a where the bits of b, a node id, are the source's. */
TARGET static void tile_WON(const struct tile_loop *l)
{
    const struct tile_instruction *i = l->i;
    const int64_t n = i->n_column;
    for (int64_t t = 0; t < l->n_row; t++) {
        const uint32_t source = l->tile->source[t];
        for (int64_t h = 0; h < i->n_head; h++) {
            const uint32_t *winner = (const uint32_t *)(const void *)(l->b[t] + h * i->b.head);
            const float *a = l->a[t] + h * i->a.head, factor = l->tile->factor;
            float *z = l->z[t] + h * i->out_head;
            if (i->a.column == 1 && i->b.column == 1) {
                TILE_COLUMNS
                {
                    const float x = a[c] / factor;
                    z[c] = winner[c] == source ? x : 0.0f;
                }
            }
            for (int64_t c = 0; c < n && (i->a.column != 1 || i->b.column != 1); c++) {
                z[c] = winner[c * i->b.column] == source ? a[c * i->a.column] / factor : 0.0f;
            }
        }
    }
}

TARGET static void tile_DROP(const struct tile_loop *l)
{
    const struct cpu_tile *tile = l->tile;
    const struct tile_instruction *i = l->i;
    const double p = (double)i->number[0];
    const float keep = (float)(1.0 / (1.0 - p));
    const uint32_t threshold = random_drop_threshold(p), first = (uint32_t)i->number[1];
    for (int64_t t = 0; t < l->n_row; t++) {
        for (int64_t h = 0; h < i->n_head; h++) {
            for (int64_t c = 0; c < i->n_column; c++) {
                float x = l->a[t][h * i->a.head + c * i->a.column];
                uint32_t head = first + (uint32_t)(h * i->n_column + c);
                bool drops = tile->how->drops &&
                             random_edge_u32(&tile->key, tile->target[t], tile->source[t], head) < threshold;
                l->z[t][h * i->out_head + c] = drops ? 0.0f : tile->how->drops ? x * keep : x;
            }
        }
    }
}

/* --- contractions --- */

/* Sums in 16 lanes, or else sums of rows, k ascending? */
INLINE bool tile_makes_dots(const struct tile_instruction *i)
{
    return i->n_column == 1 || (i->b.inner == 1 && i->b.column > 1);
}

/* z[c] = Σ_k a[k, c] b[k, c], however they lie */
INLINE void tile_sums(const struct tile_instruction *i, const float *x, const float *y, float *z)
{
    const bool dots = tile_makes_dots(i);
    for (int64_t c = 0; c < i->n_column; c++) {
        float lane[TILE_LANES] = {0.0f};
        for (int64_t k = 0; k < i->n_inner; k++) {
            lane[dots ? k % TILE_LANES : 0] += x[c * i->a.column + k * i->a.inner] *
                                               y[c * i->b.column + k * i->b.inner];
        }
        for (int64_t half = TILE_LANES / 2; half > 0; half /= 2) {
            for (int64_t l = 0; l < half; l++) {
                lane[l] += lane[l + half];
            }
        }
        z[c] = lane[0];
    }
}

/* Sums that stay in registers: of rows × vectors of columns; in 16 lanes, of rows × columns. */
#define TILE_BLOCK_ROWS 4
#define TILE_BLOCK_VECTORS (LANES == 16 ? 4 : 2)
#define TILE_DOT_ROWS (LANES == 16 ? 4 : 1)
#define TILE_DOT_COLUMNS 4

/* Numbers of a by rows of a weight, or of b; of b by rows of a; dots of a with a weight's rows, b's, or a number. */
enum tile_block {
    TILE_BLOCK_WEIGHT,
    TILE_BLOCK_B,
    TILE_BLOCK_A,
    TILE_BLOCK_DOTS_WEIGHT,
    TILE_BLOCK_DOTS_B,
    TILE_BLOCK_DOTS_NUMBER
};

/* z[c] = Σ_k a[k, c] b[k, c] of some rows, at vectors of columns: k ascending. */
INLINE void tile_block_products(const struct tile_instruction *i, const enum tile_block how, const float *const *x,
                                const float *const *y, const bool whole, const lane_mask *mask, float *const *z,
                                int64_t c)
{
    vector sum[TILE_BLOCK_ROWS][TILE_BLOCK_VECTORS], row[TILE_BLOCK_VECTORS];
    for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            sum[r][v] = vector_set(0.0f);
        }
    }
    for (int64_t k = 0; k < i->n_inner; k++) {
        for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
            const float *a = x[r] + k * i->a.inner, *b = y[r] + k * i->b.inner;
            const vector factor = vector_set(how == TILE_BLOCK_A ? b[0] : a[0]);
            for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
                if (r == 0 || how != TILE_BLOCK_WEIGHT) {
                    row[v] = columns_load((how == TILE_BLOCK_A ? a : b) + c + v * LANES, whole, mask[v]);
                }
                sum[r][v] = vector_add(sum[r][v], vector_multiply(factor, row[v]));
            }
        }
    }
    for (int64_t r = 0; r < TILE_BLOCK_ROWS; r++) {
        for (int64_t v = 0; v < TILE_BLOCK_VECTORS; v++) {
            columns_store(z[r] + c + v * LANES, whole, mask[v], sum[r][v]);
        }
    }
}

/* Are at most an eighth of the rows' n numbers not 0, as the gradient of a maximum has it? */
INLINE bool tile_is_sparse(const float *const *rows, int64_t n_row, int64_t n)
{
    int64_t n_number = 0;
    for (int64_t t = 0; t < n_row; t++) {
        const float *row = rows[t];
        int some = 0;
        TILE_COLUMNS
        {
            some += row[c] != 0.0f;
        }
        n_number += some;
    }
    return 8 * n_number <= n_row * n;
}

/* z[c] = Σ_k a[k] b[k, c] of rows of which few numbers are not 0: the others add nothing. */
INLINE void tile_sparse_products(const struct tile_loop *l)
{
    const int64_t n = l->i->n_column, n_inner = l->i->n_inner;
    for (int64_t t = 0; t < l->n_row; t++) {
        const float *a = l->a[t], *b = l->b[t];
        float *z = l->z[t];
        memset(z, 0, (size_t)n * sizeof *z);
        for (int64_t k = 0; k < n_inner; k++, b += l->i->b.inner) {
            const float factor = a[k];
            if (factor != 0.0f) {
                TILE_COLUMNS
                {
                    z[c] += factor * b[c];
                }
            }
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

/* z[c] = Σ_k a[c, k] b[c, k] of some rows, at four of n columns, or of heads of one column: in 16 lanes. */
INLINE void tile_block_dots(const struct tile_instruction *i, const enum tile_block how, const float *const *x,
                            const float *const *y, float *const *z, int64_t c, int64_t n)
{
    const bool by_head = i->n_column == 1, shares = how == TILE_BLOCK_DOTS_WEIGHT;
    const int64_t a_step = by_head ? i->a.head : i->a.column, b_step = by_head ? i->b.head : i->b.column;
    const int64_t n_inner = i->n_inner, n_whole = n_inner - n_inner % TILE_LANES;
    vector sum[TILE_DOT_ROWS][TILE_DOT_COLUMNS][PARTS], row, other[TILE_DOT_COLUMNS];
    float out[TILE_DOT_COLUMNS], number[LANES];
    for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
        for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
            for (int64_t p = 0; p < PARTS; p++) {
                sum[r][j][p] = vector_set(0.0f);
            }
        }
    }
    for (int64_t k = 0; k < n_inner; k += TILE_LANES) {
        for (int64_t p = 0; p < PARTS; p++) {
            const int64_t at = k + p * LANES, left = n_inner - at;
            const lane_mask mask = mask_first(left < 0 ? 0 : smaller(left, LANES));
            for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
                for (int64_t j = 0; j < TILE_DOT_COLUMNS; j++) {
                    const int64_t column = c + j < n ? c + j : c;
                    if (how == TILE_BLOCK_DOTS_NUMBER) {
                        vector_store(number, vector_set(y[r][column * b_step]));
                        other[j] = columns_load(number, k < n_whole, mask);
                    } else if (r == 0 || !shares) {
                        other[j] = columns_load(y[r] + column * b_step + at, k < n_whole, mask);
                    }
                    if (j == 0 || !shares) {
                        row = columns_load(x[r] + column * a_step + at, k < n_whole, mask);
                    }
                    sum[r][j][p] = vector_add(sum[r][j][p], vector_multiply(row, other[j]));
                }
            }
        }
    }
    for (int64_t r = 0; r < TILE_DOT_ROWS; r++) {
        parts_sums(out, sum[r]);
        for (int64_t j = 0; j < TILE_DOT_COLUMNS && c + j < n; j++) {
            z[r][(c + j) * (by_head ? i->out_head : 1)] = out[j];
        }
    }
}

/* Rows of a run in blocks. */
INLINE void tile_blocks(const struct tile_loop *l, const enum tile_block how)
{
    const struct tile_instruction *i = l->i;
    const float *x[TILE_BLOCK_ROWS], *y[TILE_BLOCK_ROWS];
    float *z[TILE_BLOCK_ROWS];
    const bool dots = how >= TILE_BLOCK_DOTS_WEIGHT, by_head = dots && i->n_column == 1;
    const int64_t n_row = dots ? TILE_DOT_ROWS : TILE_BLOCK_ROWS, n = by_head ? i->n_head : i->n_column;
    const int64_t n_column = dots ? TILE_DOT_COLUMNS : TILE_BLOCK_VECTORS * LANES;
    for (int64_t h = 0; h < (by_head ? 1 : i->n_head); h++) {
        for (int64_t t = 0; t < l->n_row; t += n_row) {
            for (int64_t r = 0; r < n_row; r++) { /* behind the run's end the last one again */
                const int64_t at = smaller(t + r, l->n_row - 1);
                x[r] = l->a[at] + h * i->a.head;
                y[r] = l->b[at] + h * i->b.head;
                z[r] = l->z[at] + h * i->out_head;
            }
            for (int64_t c = 0; c < n; c += n_column) {
                lane_mask mask[TILE_BLOCK_VECTORS];
                tile_block_masks(n - c, mask);
                if (dots) {
                    tile_block_dots(i, how, x, y, z, c, n);
                } else if (c + n_column <= n) {
                    tile_block_products(i, how, x, y, true, mask, z, c);
                } else {
                    tile_block_products(i, how, x, y, false, mask, z, c);
                }
            }
        }
    }
}

TARGET static void tile_CONTRACT(const struct tile_loop *l)
{
    const struct tile_operand *a = &l->i->a, *b = &l->i->b;
    const bool dots = tile_makes_dots(l->i), weight = b->kind == TILE_PARAM;
    if (dots && weight && a->column == 0 && a->inner == 1 && b->inner == 1 && l->i->n_column > 1) {
        tile_blocks(l, TILE_BLOCK_DOTS_WEIGHT);
    } else if (dots && a->inner == 1 && b->inner == 1) {
        tile_blocks(l, TILE_BLOCK_DOTS_B);
    } else if (dots && a->inner == 1 && b->inner == 0) {
        tile_blocks(l, TILE_BLOCK_DOTS_NUMBER);
    } else if (!dots && a->column == 0 && b->column == 1 && weight && a->inner == 1 && l->i->n_head == 1 &&
               tile_is_sparse(l->a, l->n_row, l->i->n_inner)) {
        tile_sparse_products(l);
    } else if (!dots && a->column == 0 && b->column == 1 && weight) {
        tile_blocks(l, TILE_BLOCK_WEIGHT);
    } else if (!dots && a->column == 0 && b->column == 1) {
        tile_blocks(l, TILE_BLOCK_B);
    } else if (!dots && a->column == 1 && b->column == 0) {
        tile_blocks(l, TILE_BLOCK_A);
    } else {
        for (int64_t t = 0; t < l->n_row; t++) {
            for (int64_t h = 0; h < l->i->n_head; h++) {
                tile_sums(l->i, l->a[t] + h * a->head, l->b[t] + h * b->head, l->z[t] + h * l->i->out_head);
            }
        }
    }
}

/* --- a run --- */

/* The loops of an instruction by rows. */
INLINE void tile_loop_rows(const struct cpu_tile *tile, bool two, struct tile_loop *l)
{
    const struct tile_instruction *i = l->i;
    const bool flat = i->n_head == 1 || (i->out_head == i->n_column && tile_is_flat(&i->a, i->n_column) &&
                                         (!two || tile_is_flat(&i->b, i->n_column)));
    l->n_row = tile->n;
    l->n_head = flat ? 1 : i->n_head;
    l->n = flat ? i->n_head * i->n_column : i->n_column;
    l->a_one = i->a.column == 0;
    l->b_one = i->b.column == 0;
    tile_operands_find(tile, &i->a, 0, tile->n, l->a);
    tile_operands_find(tile, two ? &i->b : &i->a, 0, tile->n, l->b);
    for (int64_t t = 0; t < tile->n; t++) {
        l->z[t] = tile->registers + t * tile->how->tile->n_float + i->out;
    }
}

/* Number `at` of a transposed register: of each row of the run. */
INLINE float *tile_transposed_at(const struct cpu_tile *tile, int64_t at)
{
    return tile->registers + CPU_TILE_FLOATS + at * CPU_TILE_RUN;
}

/* An operand's numbers for all results of an instruction, transposed; behind the run's last row that again. */
INLINE const float *tile_operand_transposed(const struct cpu_tile *tile, const struct tile_instruction *i,
                                            const struct tile_operand *o, bool is_transposed, int64_t k, float *to)
{
    const int64_t n = i->n_column, size = CPU_TILE_RUN * sizeof(float);
    const float *rows[CPU_TILE_RUN], *from = is_transposed ? tile_transposed_at(tile, o->at + k * o->inner) : NULL;
    if (is_transposed && (o->column == 1 || n == 1) && (i->n_head == 1 || o->head == n)) {
        return from;
    }
    for (int64_t t = 0; t < CPU_TILE_RUN && !is_transposed; t++) {
        rows[t] = tile_operand_at(tile, o, smaller(t, tile->n - 1)) + k * o->inner;
    }
    for (int64_t j = 0; j < i->n_head * n; j++, to += CPU_TILE_RUN) {
        const int64_t at = j / n * o->head + j % n * o->column;
        if (j % n > 0 && o->column == 0) {
            memcpy(to, to - CPU_TILE_RUN, size);
        } else if (j >= n && o->head == 0) {
            memcpy(to, to - n * CPU_TILE_RUN, size);
        } else if (is_transposed) {
            memcpy(to, from + at * CPU_TILE_RUN, size);
        } else {
            for (int64_t t = 0; t < CPU_TILE_RUN; t++) {
                to[t] = rows[t][at];
            }
        }
    }
    return to - i->n_head * n * CPU_TILE_RUN;
}

#define TILE_NARROW (CPU_TILE_NARROW * CPU_TILE_RUN)

/* Sums of few products. */
TARGET static void tile_contract_transposed(const struct cpu_tile *tile, const struct tile_instruction *i, int how)
{
    const bool dots = tile_makes_dots(i);
    const int64_t n = i->n_head * i->n_column * CPU_TILE_RUN;
    float x[TILE_NARROW], y[TILE_NARROW], sum[4][TILE_NARROW] = {{0.0f}}, *z = tile_transposed_at(tile, i->out);
    for (int64_t k = 0; k < i->n_inner; k++) {
        const float *a = tile_operand_transposed(tile, i, &i->a, how & CPU_TILE_TRANSPOSED_A, k, x);
        const float *b = tile_operand_transposed(tile, i, &i->b, how & CPU_TILE_TRANSPOSED_B, k, y);
        float *to = sum[dots ? k : 0];
        TILE_COLUMNS
        {
            to[c] += a[c] * b[c];
        }
    }
    TILE_COLUMNS
    {
        z[c] = (sum[0][c] + sum[2][c]) + (sum[1][c] + sum[3][c]);
    }
}

TARGET static void tile_run(const struct cpu_tile *tile)
{
    static void (*const run[TILE_OP_N])(const struct tile_loop *) = {
#define X(name, text, n) [TILE_OP_##name] = tile_##name,
        TILE_OP_LIST(X)
#undef X
    };
    struct tile_loop l = {.tile = tile};
    float x[TILE_NARROW], y[TILE_NARROW];
    for (int k = 0; k < tile->how->tile->n_instruction; k++) {
        const struct tile_instruction *i = l.i = &tile->how->tile->instruction[k];
        const bool two = tile_op_n_operand(i->op) > 1, squares = i->number[0] == 2.0f;
        const int how = tile->layout[k];
        if (!(how & CPU_TILE_TRANSPOSED)) {
            tile_loop_rows(tile, two, &l);
        } else if (i->op == TILE_OP_CONTRACT) {
            tile_contract_transposed(tile, i, how);
        } else {
            l.n_row = l.n_head = 1;
            l.n = i->n_head * i->n_column * CPU_TILE_RUN;
            l.a_one = l.b_one = false;
            l.a[0] = tile_operand_transposed(tile, i, &i->a, how & CPU_TILE_TRANSPOSED_A, 0, x);
            l.b[0] = two ? tile_operand_transposed(tile, i, &i->b, how & CPU_TILE_TRANSPOSED_B, 0, y) : l.a[0];
            l.z[0] = tile_transposed_at(tile, i->out);
        }
        if (squares && i->op == TILE_OP_POWER) {
            tile_SQUARE(&l);
        } else if (squares && i->op == TILE_OP_POWER_BACK) {
            tile_SQUARE_BACK(&l);
        } else if (i->op != TILE_OP_CONTRACT || !(how & CPU_TILE_TRANSPOSED)) {
            run[i->op](&l);
        }
        for (int64_t j = 0; how & CPU_TILE_BOTH && j < i->n_head * i->n_column; j++) {
            const float *from = tile_transposed_at(tile, i->out + j);
            for (int64_t t = 0; t < tile->n; t++) {
                tile->registers[t * tile->how->tile->n_float + i->out + j] = from[t];
            }
        }
    }
}
