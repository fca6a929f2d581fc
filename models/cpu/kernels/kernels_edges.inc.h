/* Products of a row's own columns with the rows at a run's other ends, and weighted sums of these rows.
 *
 * Order of summation, which defines the bits:
 *   over edges    sums of rows add one edge after another, in the block's order, with one rounding each (fma), and so
 *                 do sums of numbers
 *   over columns  products add in 16 lanes: lane l takes columns l, l + 16, …, in ascending order; at the end the
 *                 lanes are added in one fixed tree: 8 apart, then 4, 2, 1
 * A vector of 16, 8 or 4 lanes is a part of these 16: its width changes no bit.
 */

/* Masks of the parts of 16 columns of which n are there. */
INLINE void parts_masks(int64_t n, lane_mask mask[PARTS])
{
    for (int64_t p = 0; p < PARTS; p++) {
        int64_t rest = n - p * LANES;
        mask[p] = mask_first(rest < 0 ? 0 : smaller(rest, LANES));
    }
}

INLINE void parts_zero(vector sum[4][PARTS])
{
    for (int64_t k = 0; k < 4; k++) {
        for (int64_t p = 0; p < PARTS; p++) {
            sum[k][p] = vector_set(0.0f);
        }
    }
}

/* The coming rows of four edges, 16 columns from column c on. */
INLINE void fetch_four(const struct run_rows *rows, int64_t i, int64_t c)
{
    for (int64_t k = 0; k < 4; k++) {
        fetch_row(rows->prefetch[i + k] + c);
    }
}

/* sum[k] += own · row of edge i + k, in 16 columns from c on: all, or those of the mask. */
INLINE void dots_add(const struct run_rows *rows, int64_t i, int64_t column, const float *own, const bool fetch,
                     int64_t c, const bool whole, const lane_mask *mask, vector sum[4][PARTS])
{
    if (fetch) {
        fetch_four(rows, i, column + c);
    }
    for (int64_t p = 0; p < PARTS; p++) {
        vector mine = columns_load(own + c + p * LANES, whole, mask[p]);
        for (int64_t k = 0; k < 4; k++) {
            vector x = columns_load(rows->row[i + k] + column + c + p * LANES, whole, mask[p]);
            sum[k][p] = vector_fma(mine, x, sum[k][p]);
        }
    }
}

/* to[i] = ⟨own, row_i⟩ = Σ_c own[c] · row_i[column + c], c < n_column. Writes n, rounded up to fours. */
INLINE void dots_by(const struct run_rows *rows, int64_t column, const float *own, const bool fetch, int64_t n_column,
                    float *to)
{
    const int64_t n_whole = n_column - n_column % PARTS_LANES;
    lane_mask rest[PARTS];
    parts_masks(n_column % PARTS_LANES, rest);
    for (int64_t i = 0; i < rows->n; i += 4) {
        vector sum[4][PARTS];
        parts_zero(sum);
        for (int64_t c = 0; c < n_whole; c += PARTS_LANES) {
            dots_add(rows, i, column, own, fetch, c, true, rest, sum);
        }
        if (n_whole < n_column) {
            dots_add(rows, i, column, own, fetch, n_whole, false, rest, sum);
        }
        parts_sums(to + i, sum);
    }
}

SHARED void dots(const struct run_rows *rows, int64_t column, const float *own, bool fetch, int64_t n_column,
                 float *to)
{
    dots_by(rows, column, own, fetch, n_column, to);
}

/* A perceptron's layer at each edge, x_i = own + row_i behind a leaky relu: leaky(x) = x where x > 0, else slope ·
 * x. */
struct leaky {
    int64_t n_column;
    const float *own, *att; /* n_column each */
    float slope;
};

/* sum[k] += att · leaky(own + row of edge i + k), as dots_add. */
INLINE void leaky_add(const struct run_rows *rows, int64_t i, int64_t column, const struct leaky *by, int64_t c,
                      const bool whole, const lane_mask *mask, vector sum[4][PARTS])
{
    fetch_four(rows, i, column + c);
    for (int64_t p = 0; p < PARTS; p++) {
        vector mine = columns_load(by->own + c + p * LANES, whole, mask[p]);
        vector att = columns_load(by->att + c + p * LANES, whole, mask[p]);
        vector less = vector_multiply(att, vector_set(by->slope));
        for (int64_t k = 0; k < 4; k++) {
            vector x = vector_add(mine, columns_load(rows->row[i + k] + column + c + p * LANES, whole, mask[p]));
            sum[k][p] = vector_fma(vector_select_positive(x, att, less), x, sum[k][p]);
        }
    }
}

/* to[i] = Σ_c att[c] · leaky(own[c] + row_i[column + c]); att · leaky'(x) is picked first, then multiplies x. Writes
 * n, rounded up to fours. */
SHARED void leaky_dots(const struct run_rows *rows, int64_t column, const struct leaky *by, float *to)
{
    const int64_t n_whole = by->n_column - by->n_column % PARTS_LANES;
    lane_mask rest[PARTS];
    parts_masks(by->n_column % PARTS_LANES, rest);
    for (int64_t i = 0; i < rows->n; i += 4) {
        vector sum[4][PARTS];
        parts_zero(sum);
        for (int64_t c = 0; c < n_whole; c += PARTS_LANES) {
            leaky_add(rows, i, column, by, c, true, rest, sum);
        }
        if (n_whole < by->n_column) {
            leaky_add(rows, i, column, by, n_whole, false, rest, sum);
        }
        parts_sums(to + i, sum);
    }
}

/* Some edges of a run, begin … end-1. */
struct span {
    int64_t begin, end;
};

/* sum[h · step] += x[h][i], edge i of a span after edge i. */
struct numbers_sum {
    float (*x)[RUN];
    int64_t step;
    float *sum;
};

/* n_sum such sums of n heads: four heads at a time, as each addition waits for its last one. */
INLINE void add_numbers(const struct span *span, int64_t n, const struct numbers_sum *sums, const int n_sum)
{
    for (int64_t h = 0; h < n; h += 4) {
        const float *numbers[8];
        float total[8];
        for (int k = 0; k < 4 * n_sum; k++) {
            const struct numbers_sum *one = &sums[k / 4];
            const int64_t at = smaller(h + k % 4, n - 1);
            numbers[k] = one->x[at];
            total[k] = one->sum[at * one->step];
        }
        for (int64_t i = span->begin; i < span->end; i++) {
            for (int k = 0; k < 4 * n_sum; k++) {
                total[k] += numbers[k][i];
            }
        }
        for (int k = 0; k < 4 * n_sum; k++) {
            if (h + k % 4 < n) {
                sums[k / 4].sum[(h + k % 4) * sums[k / 4].step] = total[k];
            }
        }
    }
}

SHARED void span_sums(const struct span *span, run_numbers x, int64_t n, int64_t step, float *sum)
{
    const struct numbers_sum one = {x, step, sum};
    add_numbers(span, n, &one, 1);
}

SHARED void span_sums_twice(const struct span *span, int64_t n, const struct numbers_sum sums[2])
{
    add_numbers(span, n, sums, 2);
}

/* Common to weighted sums over the rows of a run. */
struct rows_sum {
    const struct run_rows *rows;
    int64_t begin, end; /* of their edges */
    const float *scale; /* n_head: of the sums so far; NULL: they start from 0 */
    int64_t n_head, n_column;
    int64_t skip; /* columns of a row in front of head 0's */
};

/* One of the sums: out[h, c] = scale[h] · out[h, c] + Σ_i weight[h][i] · row_i[h, c]. */
struct weighted {
    float (*weight)[RUN]; /* n_head × RUN */
    float *out;           /* n_head × n_column */
};

/* Some vectors of columns: neighbours in one head's row (head_step 0, step LANES), or the same columns of as many
 * heads (head_step 1, step n_column). */
struct some_columns {
    int64_t head, column; /* the first vector's; column counts from head 0 on */
    int64_t head_step, step;
    lane_mask mask;
};

/* n_sum sums of the same rows over some columns: the totals stay in registers while the edges stream by. */
INLINE void add_columns(const struct rows_sum *how, enum run_fetch fetch, const struct weighted *sums,
                        const int n_sum, const struct some_columns at, const int n_vector)
{
    const struct run_rows *rows = how->rows;
    const bool is_wide = n_vector == 4 && at.head_step == 0; /* whole vectors of one head */
    const int64_t fetch_from = is_wide && fetch == FETCH_REST ? LINE_FLOATS : 0,
                  span = (n_vector - 1) * at.step + LANES;
    const float *weight[2];
    float *out[2];
    vector total[2][4];
    for (int s = 0; s < n_sum; s++) {
        weight[s] = sums[s].weight[at.head];
        out[s] = sums[s].out + at.column;
    }
    for (int v = 0; v < n_vector; v++) {
        for (int s = 0; s < n_sum; s++) {
            total[s][v] = vector_set(0.0f);
            if (how->scale != NULL) {
                vector scale = vector_set(how->scale[at.head + v * at.head_step]);
                total[s][v] = vector_multiply(columns_load(out[s] + v * at.step, is_wide, at.mask), scale);
            }
        }
    }
    for (int64_t i = how->begin; i < how->end; i++) {
        const float *row = rows->row[i] + how->skip + at.column, *coming = rows->prefetch[i] + how->skip + at.column;
        if (fetch != FETCH_NONE) {
            for (int64_t c = fetch_from; c < span; c += LINE_FLOATS) {
                fetch_row(coming + c);
            }
        }
        for (int v = 0; v < n_vector; v++) {
            vector x = columns_load(row + v * at.step, is_wide, at.mask);
            for (int s = 0; s < n_sum; s++) {
                total[s][v] = vector_fma(vector_set(weight[s][v * at.head_step * RUN + i]), x, total[s][v]);
            }
        }
    }
    for (int v = 0; v < n_vector; v++) {
        for (int s = 0; s < n_sum; s++) {
            columns_store(out[s] + v * at.step, is_wide, at.mask, total[s][v]);
        }
    }
}

/* The same for all columns of all heads, four vectors at a time: a sum alone would wait for its last addition. Where
 * a head's columns fill no four vectors, four heads go together. */
INLINE void add_heads(const struct rows_sum *how, enum run_fetch fetch, const struct weighted *sums, const int n_sum)
{
    const int64_t n_head = how->n_head, n_column = how->n_column;
    for (int64_t h = 0, n_together; h < n_head; h += n_together) {
        n_together = n_column < WIDE && n_head - h >= 4 ? 4 : 1;
        for (int64_t c = 0, n; c < n_column; c += n) {
            int64_t at = h * n_column + c;
            n = WIDE;
            if (n_column - c >= n) {
                add_columns(how, fetch, sums, n_sum, (struct some_columns){h, at, 0, LANES, mask_first(LANES)}, 4);
                continue;
            }
            n = smaller(n_column - c, LANES);
            if (n_together == 4) {
                add_columns(how, fetch, sums, n_sum, (struct some_columns){h, at, 1, n_column, mask_first(n)}, 4);
            } else {
                add_columns(how, fetch, sums, n_sum, (struct some_columns){h, at, 0, LANES, mask_first(n)}, 1);
            }
        }
    }
}

SHARED void add_rows(const struct rows_sum *how, enum run_fetch fetch, run_numbers weight, float *out)
{
    const struct weighted sum = {weight, out};
    add_heads(how, fetch, &sum, 1);
}

/* Two sums in one pass over the rows. */
SHARED void add_rows_twice(const struct rows_sum *how, run_numbers weight, float *out, run_numbers other_weight,
                           float *other)
{
    const struct weighted sums[2] = {{weight, out}, {other_weight, other}};
    add_heads(how, FETCH_REST, sums, 2);
}

/* Vectors of one head's columns that dots_and_add holds in registers. */
#define FUSED_VECTORS (VECTORS_MAX / 4)

/* One pass over the rows, from `column` on, for both dot[i] = ⟨own, row_i⟩ and out (+)= Σ_i weight[i] · row_i. */
struct dots_and_sum {
    const float *own, *weight;
    bool is_first; /* out starts from 0 */
    float *dot, *out;
};

/* The bits of dots and add_columns. Columns are n_vector full vectors and full parts of 16. */
INLINE void dots_and_add(const struct run_rows *rows, int64_t column, const struct dots_and_sum *to,
                         const int n_vector)
{
    vector mine[FUSED_VECTORS], sum[FUSED_VECTORS];
    for (int v = 0; v < n_vector; v++) {
        mine[v] = vector_load(to->own + v * LANES);
        sum[v] = to->is_first ? vector_set(0.0f) : vector_load(to->out + v * LANES);
    }
    for (int64_t i = 0; i < rows->n; i += 4) {
        vector dot[4][PARTS];
        parts_zero(dot);
        for (int64_t k = 0; k < 4; k++) {
            if (i + k < rows->n) {
                const float *row = rows->row[i + k] + column;
                vector w = vector_set(to->weight[i + k]);
                for (int v = 0; v < n_vector; v++) {
                    vector x = vector_load(row + v * LANES);
                    dot[k][v % PARTS] = vector_fma(mine[v], x, dot[k][v % PARTS]);
                    sum[v] = vector_fma(w, x, sum[v]);
                }
                for (int c = 0; c < n_vector * LANES; c += LINE_FLOATS) {
                    fetch_row(rows->prefetch[i + k] + column + c);
                }
            }
        }
        parts_sums(to->dot + i, dot);
    }
    for (int v = 0; v < n_vector; v++) {
        vector_store(to->out + v * LANES, sum[v]);
    }
}

/* Vectors of columns in one pass of leaky_columns, which holds five registers for each. */
#define LEAKY_VECTORS (VECTORS_MAX / 4)

/* Outputs of backward through leaky_dots, given de[i], the gradient of its result i. */
struct leaky_gradient {
    const float *de;
    bool is_first; /* out starts from 0 */
    float *out;    /* n_column: gradient of the row's own columns */
};

/* Backward of e_i = Σ_c att[c] · leaky(x), x = own[c] + row_i[column + c], for columns of n_vector vectors:
 *   ∂e/∂own[c] = att[c] · leaky'(x):  out[c] (+)= Σ_i de[i] · att[c] · leaky'(x)
 *   ∂e/∂att[c] = leaky(x):            grad_att[c] += Σ_i de[i] · leaky(x), a run's sum in float, runs in double;
 *   NULL:
 *                                     not wanted */
INLINE void leaky_columns(const struct run_rows *rows, int64_t column, const int n_vector, const bool whole,
                          const struct leaky *by, const struct leaky_gradient *to, double *grad_att)
{
    const int64_t n = by->n_column;
    lane_mask mask = mask_first(n - (n_vector - 1) * LANES), start = to->is_first ? mask_first(0) : mask;
    vector mine[LEAKY_VECTORS], weight[LEAKY_VECTORS], less[LEAKY_VECTORS], sum[LEAKY_VECTORS],
        att_sum[LEAKY_VECTORS];
    float part[LEAKY_VECTORS * LANES];
    for (int v = 0; v < n_vector; v++) {
        mine[v] = columns_load(by->own + v * LANES, whole, mask);
        weight[v] = columns_load(by->att + v * LANES, whole, mask);
        less[v] = vector_multiply(weight[v], vector_set(by->slope));
        sum[v] = vector_load_mask(to->out + v * LANES, start);
        att_sum[v] = vector_set(0.0f);
    }
    for (int64_t i = 0; i < rows->n; i++) {
        vector g = vector_set(to->de[i]), less_g = vector_set(to->de[i] * by->slope);
        for (int v = 0; v < n_vector; v++) {
            vector x = vector_add(mine[v], columns_load(rows->row[i] + column + v * LANES, whole, mask));
            sum[v] = vector_fma(g, vector_select_positive(x, weight[v], less[v]), sum[v]);
            if (grad_att != NULL) {
                att_sum[v] = vector_fma(vector_select_positive(x, g, less_g), x, att_sum[v]);
            }
        }
    }
    for (int v = 0; v < n_vector; v++) {
        vector_store_mask(to->out + v * LANES, mask, sum[v]);
        vector_store(part + v * LANES, att_sum[v]);
    }
    if (grad_att != NULL) {
        for (int64_t c = 0; c < n; c++) {
            grad_att[c] += (double)part[c];
        }
    }
}

/* The same for all columns, some vectors at a time. */
SHARED void leaky_rows(const struct run_rows *rows, int64_t column, const struct leaky *by,
                       const struct leaky_gradient *to, double *grad_att)
{
    for (int64_t c = 0, n; c < by->n_column; c += n) {
        const int64_t rest = by->n_column - c;
        const bool is_wide = rest >= LEAKY_VECTORS * LANES;
        n = is_wide ? LEAKY_VECTORS * LANES : smaller(rest, LANES);
        const struct leaky by_part = {n, by->own + c, by->att + c, by->slope};
        const struct leaky_gradient to_part = {to->de, to->is_first, to->out + c};
        double *grad_part = grad_att != NULL ? grad_att + c : NULL;
        if (is_wide) {
            leaky_columns(rows, column + c, LEAKY_VECTORS, true, &by_part, &to_part, grad_part);
        } else {
            leaky_columns(rows, column + c, 1, false, &by_part, &to_part, grad_part);
        }
    }
}
