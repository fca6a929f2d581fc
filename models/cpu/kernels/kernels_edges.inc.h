/* Runs of up to 32 edges of one row, over the vector alphabet: what an attention is made of.
 *
 * Products of the row's own columns with those at the other ends, and weighted sums of these. Columns are added in the
 * order of the edges; sums over columns and over the edges of a run go in 16 lanes that are added in one order,
 * whatever the vectors' width.
 */

#define RUN 32  /* edges, and those by which the rows at their other ends are fetched before their turn */
#define HEADS 8 /* whose numbers per edge are held at a time */
#define PARTS_LANES 16
/* Compiled once for all that call it, per run and head: inlined, these would be most of what there is to compile. */
#define SHARED __attribute__((noinline)) TARGET static
#define EIGHT(x) x, x, x, x, x, x, x, x
#define FOUR(x) EIGHT(x), EIGHT(x), EIGHT(x), EIGHT(x)

/* Some edges of one row, the row's edge to itself first of all. Lists go on past the last edge with copies of it. */
struct run {
    int64_t n;
    int64_t padded; /* n, up to whole PARTS_LANES */
    bool has_self;
    bool is_first;               /* of a row that begins: sums start from 0 */
    const float *bias;           /* 0 for each edge, -inf past the last */
    int64_t row;                 /* the own row, of what is read */
    int64_t head;                /* the own row's head 0, of what is written */
    int64_t next;                /* the row after the own one, or itself where it is the last */
    int64_t col[RUN];            /* rows at the other ends; the edge to itself: any */
    int64_t ahead[RUN];          /* rows at the other ends of the edges RUN further on, as in col */
    uint32_t to[RUN], from[RUN]; /* dataset ids; with dropout only */
};

/* Numbers per edge of up to HEADS heads. */
typedef float run_numbers[HEADS][RUN];

#define EACH_VECTOR(i, run) for (int64_t i = 0; i < (run)->padded; i += LANES)

/* Columns of n edges from edge e on, that of `last` in place of those behind it; 0 where there are none at all. */
INLINE void copy_cols(const uint32_t *cols, int64_t e, int64_t last, int64_t n, int64_t *to)
{
    bool any = last >= e && last >= 0;
    int64_t n_there = any ? smaller(last + 1 - e, n) : 0, i = 0, end = any ? cols[last] : 0;
    for (; i < n_there; i++) {
        to[i] = cols[e + i];
    }
    for (; i < n; i++) {
        to[i] = end;
    }
}

/* Fill in the run that starts at edge e of those of the block's row r up to e_end, or at the edge to itself before it. */
INLINE void run_open(const struct cpu_attention *a, int64_t r, int64_t e, int64_t e_end, bool has_self, bool is_first,
                     struct run *run)
{
    static const float bias[2 * RUN] = {FOUR(0.0f), FOUR(-INFINITY)};
    const struct device_block *block = a->block;
    const int64_t last = block->n_edge - 1, last_here = e_end - 1;
    run->has_self = has_self;
    run->is_first = is_first;
    run->n = smaller(last_here + 1 - e + has_self, RUN);
    run->padded = (run->n + PARTS_LANES - 1) / PARTS_LANES * PARTS_LANES;
    run->bias = bias + RUN - run->n;
    run->row = block->rows != NULL ? block->rows[r] : r;
    run->next = r + 1 == block->n_row ? run->row : block->rows != NULL ? block->rows[r + 1] : r + 1;
    run->head = a->is_piece ? -a->first_head : run->row * a->how->n_head;
    copy_cols(block->cols, e, last_here, run->padded - has_self, run->col + has_self);
    copy_cols(block->cols, smaller(e + RUN, last), last, run->padded - has_self, run->ahead + has_self);
    if (has_self) {
        run->col[0] = run->col[1];
        run->ahead[0] = run->ahead[1];
    }
    for (int64_t i = 0; a->threshold > 0 && i < run->padded; i++) {
        uint32_t own = a->how->row_node[run->row];
        uint32_t other = i < has_self || last_here < e ? own : a->how->col_node[run->col[i]];
        run->to[i] = a->rows_are_sources ? other : own;
        run->from[i] = a->rows_are_sources ? own : other;
    }
}

/* keep[h][i] = μ of the run's edge i at head first + h: 0 where it is dropped. */
INLINE void run_keep(const struct cpu_attention *a, const struct run *run, int64_t first, int64_t n_head, run_numbers keep)
{
    const int64_t before = first % 4; /* heads of the first quad that are not asked for */
    for (int64_t quad = 0; a->threshold > 0 && 4 * quad < before + n_head; quad++) {
        uint32_t counter[4], key[2], drawn[4][RUN];
        random_edge_counter(&a->key, 0, 0, (uint32_t)(first / 4 + quad), counter, key);
        for (int64_t i = 0; i < run->n; i += WORD_LANES) {
            words c[4] = {words_load(run->from + i), words_load(run->to + i), words_set(counter[2]), words_set(counter[3])};
            draw_lanes(c, key);
            for (int64_t k = 0; k < 4; k++) {
                words_store_low(drawn[k] + i, c[k]);
            }
        }
        const uint32_t threshold = a->threshold;
        const float scale = a->keep_scale;
        for (int64_t k = 0; k < 4; k++) {
            int64_t h = 4 * quad + k - before;
            if (h < 0 || h >= HEADS) {
                continue;
            }
            for (int64_t i = 0; i < RUN; i++) { /* as in keep_masks: without a comparison beside the arithmetic */
                drawn[k][i] = drawn[k][i] >= threshold ? UINT32_MAX : 0;
            }
            for (int64_t i = 0; i < RUN; i++) {
                keep[h][i] = keep_by_mask(drawn[k][i], scale);
            }
        }
    }
}

/* Rows at the other ends in one array, from one column on. */
struct run_rows {
    int64_t n;
    const float *row[RUN];
    const float *ahead[RUN];
};

/* x: the array of `width` columns at the other ends, self: that of the edge to itself. */
INLINE void rows_open(const struct run *run, const float *x, const float *self, int64_t width, int64_t column,
                      struct run_rows *rows)
{
    rows->n = run->n;
    for (int64_t i = 0; i < run->padded; i++) {
        rows->row[i] = x + run->col[i] * width + column;
        rows->ahead[i] = x + run->ahead[i] * width + column;
    }
    for (int64_t i = 0; run->has_self && i < (run->n > 1 ? 1 : run->padded); i++) {
        rows->row[i] = self + run->row * width + column;
    }
    if (run->has_self) {
        rows->ahead[0] = self + run->next * width + column;
    }
}

/* Into the second cache: until its turn comes, a run's worth of rows passes through the first. */
INLINE void fetch_row(const float *x)
{
    __builtin_prefetch(x, 0, 2);
}

/* Which lines of the rows ahead a sum of rows fetches; of WIDE columns together the first may have been fetched with
 * the weights: memory would have nothing to do meanwhile. */
enum run_fetch { FETCH_NONE, FETCH_ALL, FETCH_REST };
#define WIDE (4 * LANES)

/* What FETCH_REST leaves out, of the edges of vector i at a head that begins in this column. */
INLINE void fetch_first(const struct run_rows *rows, int64_t i, int64_t column, int64_t n_column)
{
    for (int64_t end = column + n_column; end - column >= WIDE; column += WIDE) {
        for (int64_t k = i; k < smaller(i + LANES, rows->n); k++) {
            fetch_row(rows->ahead[k] + column);
        }
    }
}

/* numbers[k][i] = row_i[k] for n columns k. */
INLINE void run_columns(const struct run *run, const struct run_rows *rows, int64_t n, float *numbers)
{
    for (int64_t i = 0; i < run->n; i++) {
        fetch_row(rows->ahead[i]);
    }
    for (int64_t i = 0; i < run->padded; i += PARTS_LANES) {
        for (int64_t k = 0; k < n; k += 4) {
            parts_columns(rows->row + i, k, smaller(n - k, 4), numbers + k * RUN + i, RUN);
        }
    }
}

/* A row of an array of n_column columns per head that is read or written soon. */
INLINE void fetch_own(const float *x, int64_t n_column, const bool write)
{
    for (int64_t c = 0; x != NULL && c < n_column; c += LINE_FLOATS) {
        if (write) {
            __builtin_prefetch(x + c, 1);
        } else {
            __builtin_prefetch(x + c);
        }
    }
}

/* Masks of the parts of 16 columns of which n are there. */
INLINE void parts_masks(int64_t n, lane_mask mask[PARTS])
{
    for (int64_t p = 0; p < PARTS; p++) {
        int64_t rest = n - p * LANES;
        mask[p] = mask_first(rest < 0 ? 0 : smaller(rest, LANES));
    }
}

/* to[i] = Σ_c own[c] · row_i[c], or with att Σ_c att[c] · leaky(own[c] + row_i[c]); to has room for RUN. */
INLINE void dots_by(const struct run_rows *rows, int64_t column, const float *own, const float *att, float slope,
                    const bool fetch, int64_t n_column, float *to)
{
    lane_mask all[PARTS], rest[PARTS];
    parts_masks(PARTS_LANES, all);
    parts_masks(n_column % PARTS_LANES, rest);
    for (int64_t i = 0; i < rows->n; i += 4) {
        vector sum[4][PARTS];
        for (int64_t k = 0; k < 4; k++) {
            for (int64_t p = 0; p < PARTS; p++) {
                sum[k][p] = vector_set(0.0f);
            }
        }
        for (int64_t c = 0; c < n_column; c += PARTS_LANES) {
            const lane_mask *mask = c + PARTS_LANES <= n_column ? all : rest;
            for (int64_t k = 0; fetch && k < 4; k++) {
                fetch_row(rows->ahead[i + k] + column + c);
            }
            for (int64_t p = 0; p < PARTS; p++) {
                vector mine = vector_load_mask(own + c + p * LANES, mask[p]), weight = mine, less = mine;
                if (att != NULL) {
                    weight = vector_load_mask(att + c + p * LANES, mask[p]);
                    less = vector_multiply(weight, vector_set(slope));
                }
                for (int64_t k = 0; k < 4; k++) {
                    vector x = vector_load_mask(rows->row[i + k] + column + c + p * LANES, mask[p]);
                    if (att != NULL) {
                        x = vector_add(mine, x);
                        sum[k][p] = vector_fma(vector_select_positive(x, weight, less), x, sum[k][p]);
                    } else {
                        sum[k][p] = vector_fma(mine, x, sum[k][p]);
                    }
                }
            }
        }
        parts_sums(to + i, sum);
    }
}

SHARED void dots(const struct run_rows *rows, int64_t column, const float *own, bool fetch, int64_t n_column, float *to)
{
    dots_by(rows, column, own, NULL, 0.0f, fetch, n_column, to);
}

SHARED void leaky_dots(const struct run_rows *rows, int64_t column, const float *own, const float *att, float slope,
                       int64_t n_column, float *to)
{
    dots_by(rows, column, own, att, slope, true, n_column, to);
}

/* Of the edges of a run at one head. */
struct run_weights {
    const float *weight, *other; /* other: of a second sum over the same rows, or NULL */
    const float *scale;          /* of the sums so far; NULL: they start from 0 */
};

/* out[c] = scale · out[c] + Σ_i weight[i] · row_i[c], one edge after another, and with `other` another such sum of
 * the same rows. The vectors are n_vector neighbours in a row or, with a weight each, the same columns of so many heads. */
INLINE void add_columns(const struct run_rows *rows, int64_t column, const struct run_weights *by, int64_t weight_step,
                        int64_t step, enum run_fetch fetch, lane_mask mask, const int n_vector, float *out, float *other)
{
    const bool is_wide = n_vector == 4 && weight_step == 0;
    vector sum[4], other_sum[4];
    lane_mask start = by->scale == NULL ? mask_first(0) : mask;
    for (int v = 0; v < n_vector; v++) {
        vector scale = vector_set(by->scale != NULL ? by->scale[v * weight_step / RUN] : 0.0f);
        sum[v] = vector_multiply(vector_load_mask(out + v * step, start), scale);
        other_sum[v] = other != NULL ? vector_multiply(vector_load_mask(other + v * step, start), scale) : sum[v];
    }
    for (int64_t i = 0; i < rows->n; i++) {
        const float *row = rows->row[i] + column;
        for (int64_t c = 0; fetch != FETCH_NONE && c < (n_vector - 1) * step + LANES; c += LINE_FLOATS) {
            if (c > 0 || !is_wide || fetch == FETCH_ALL) {
                fetch_row(rows->ahead[i] + column + c);
            }
        }
        for (int v = 0; v < n_vector; v++) {
            vector x = vector_load_mask(row + v * step, mask);
            sum[v] = vector_fma(vector_set(by->weight[v * weight_step + i]), x, sum[v]);
            if (other != NULL) {
                other_sum[v] = vector_fma(vector_set(by->other[v * weight_step + i]), x, other_sum[v]);
            }
        }
    }
    for (int v = 0; v < n_vector; v++) {
        vector_store_mask(out + v * step, mask, sum[v]);
        if (other != NULL) {
            vector_store_mask(other + v * step, mask, other_sum[v]);
        }
    }
}

/* Vectors of one head's columns that dots_and_add holds in registers. */
#define FUSED_VECTORS (VECTORS_MAX / 4)

/* One pass over the rows for both to[i] = ⟨own, row_i⟩ and out (+)= Σ_i weight[i] · row_i, the bits of dots and
 * add_columns. Columns are n_vector whole vectors and whole parts of 16. */
INLINE void dots_and_add(const struct run_rows *rows, int64_t column, const float *own, const float *weight, bool is_first,
                         const int n_vector, float *to, float *out)
{
    vector mine[FUSED_VECTORS], sum[FUSED_VECTORS];
    for (int v = 0; v < n_vector; v++) {
        mine[v] = vector_load(own + v * LANES);
        sum[v] = is_first ? vector_set(0.0f) : vector_load(out + v * LANES);
    }
    for (int64_t i = 0; i < rows->n; i += 4) {
        vector dot[4][PARTS];
        for (int64_t k = 0; k < 4; k++) {
            for (int64_t p = 0; p < PARTS; p++) {
                dot[k][p] = vector_set(0.0f);
            }
            if (i + k < rows->n) {
                const float *row = rows->row[i + k] + column;
                vector w = vector_set(weight[i + k]);
                for (int v = 0; v < n_vector; v++) {
                    vector x = vector_load(row + v * LANES);
                    dot[k][v % PARTS] = vector_fma(mine[v], x, dot[k][v % PARTS]);
                    sum[v] = vector_fma(w, x, sum[v]);
                }
                for (int c = 0; c < n_vector * LANES; c += LINE_FLOATS) {
                    fetch_row(rows->ahead[i + k] + column + c);
                }
            }
        }
        parts_sums(to + i, dot);
    }
    for (int v = 0; v < n_vector; v++) {
        vector_store(out + v * LANES, sum[v]);
    }
}

/* The same for all columns of n_head heads, each with its own weights: four sums at a time: one waits for the last. */
INLINE void add_rows_by(const struct run_rows *rows, run_numbers weight, run_numbers other_weight, const float *scale,
                        enum run_fetch fetch, int64_t n_head, int64_t n_column, float *out, float *other)
{
    for (int64_t h = 0, n_together; h < n_head; h += n_together) {
        n_together = n_column < WIDE && n_head - h >= 4 ? 4 : 1;
        struct run_weights by = {weight[h], other != NULL ? other_weight[h] : NULL, scale != NULL ? scale + h : NULL};
        for (int64_t c = 0, n; c < n_column; c += n) {
            int64_t at = h * n_column + c;
            float *to = out + at, *other_to = other != NULL ? other + at : NULL;
            n = WIDE;
            if (n_column - c >= n) {
                add_columns(rows, at, &by, 0, LANES, fetch, mask_first(LANES), 4, to, other_to);
                continue;
            }
            n = smaller(n_column - c, LANES);
            if (n_together == 4) {
                add_columns(rows, at, &by, RUN, n_column, fetch, mask_first(n), 4, to, other_to);
            } else {
                add_columns(rows, at, &by, 0, LANES, fetch, mask_first(n), 1, to, other_to);
            }
        }
    }
}

SHARED void add_rows(const struct run_rows *rows, run_numbers weight, const float *scale, enum run_fetch fetch, int64_t n_head,
                     int64_t n_column, float *out)
{
    add_rows_by(rows, weight, NULL, scale, fetch, n_head, n_column, out, NULL);
}

SHARED void add_rows_twice(const struct run_rows *rows, run_numbers weight, run_numbers other_weight, const float *scale,
                           int64_t n_head, int64_t n_column, float *out, float *other)
{
    add_rows_by(rows, weight, other_weight, scale, FETCH_REST, n_head, n_column, out, other);
}

/* Vectors of columns in one pass of leaky_columns, which holds five registers for each. */
#define LEAKY_VECTORS (VECTORS_MAX / 4)

/* Gradients through att · leaky(x), x = own[c] + row_i[c]: out[c] (+)= Σ_i de[i] · att[c] · leaky'(x) and, into
 * doubles where att's own is wanted, Σ_i de[i] · leaky(x). */
INLINE void leaky_columns(const struct run_rows *rows, int64_t column, const float *own, const float *att, float slope,
                          const float *de, bool is_first, int64_t n, const int n_vector, float *out, double *grad_att)
{
    lane_mask mask = mask_first(n - (n_vector - 1) * LANES), start = is_first ? mask_first(0) : mask;
    vector mine[LEAKY_VECTORS], weight[LEAKY_VECTORS], less[LEAKY_VECTORS], sum[LEAKY_VECTORS], att_sum[LEAKY_VECTORS];
    for (int v = 0; v < n_vector; v++) {
        mine[v] = vector_load_mask(own + v * LANES, mask);
        weight[v] = vector_load_mask(att + v * LANES, mask);
        less[v] = vector_multiply(weight[v], vector_set(slope));
        sum[v] = vector_load_mask(out + v * LANES, start);
        att_sum[v] = vector_set(0.0f);
    }
    for (int64_t i = 0; i < rows->n; i++) {
        vector g = vector_set(de[i]), less_g = vector_set(de[i] * slope);
        for (int v = 0; v < n_vector; v++) {
            vector x = vector_add(mine[v], vector_load_mask(rows->row[i] + column + v * LANES, mask));
            sum[v] = vector_fma(g, vector_select_positive(x, weight[v], less[v]), sum[v]);
            if (grad_att != NULL) {
                att_sum[v] = vector_fma(vector_select_positive(x, g, less_g), x, att_sum[v]);
            }
        }
    }
    float part[LEAKY_VECTORS * LANES];
    for (int v = 0; v < n_vector; v++) {
        vector_store_mask(out + v * LANES, mask, sum[v]);
        vector_store(part + v * LANES, att_sum[v]);
    }
    for (int64_t c = 0; grad_att != NULL && c < n; c++) {
        grad_att[c] += (double)part[c];
    }
}

SHARED void leaky_rows(const struct run_rows *rows, int64_t column, const float *own, const float *att, float slope,
                       const float *de, bool is_first, int64_t n_column, float *out, double *grad_att)
{
    for (int64_t c = 0, n; c < n_column; c += n) {
        double *to = grad_att != NULL ? grad_att + c : NULL;
        n = LEAKY_VECTORS * LANES;
        if (n_column - c >= n) {
            leaky_columns(rows, column + c, own + c, att + c, slope, de, is_first, n, LEAKY_VECTORS, out + c, to);
        } else {
            n = smaller(n_column - c, LANES);
            leaky_columns(rows, column + c, own + c, att + c, slope, de, is_first, n, 1, out + c, to);
        }
    }
}
