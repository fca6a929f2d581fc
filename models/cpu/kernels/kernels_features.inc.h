/* Features f of a run's edges: products with them, sums of them, and rows at the other ends with a weight's product W
 * f added.
 *
 * Sums over a run's edges go in float, edge after edge; runs are added to gradients of parameters in double.
 */

#define PROJECTED 64 /* columns of rows with W f that are made at a time */

/* The features of the run's edges, which are rows of the block's table. */
INLINE void features_open(const struct cpu_attention *a, const struct run *run, struct run_rows *rows)
{
    const uint32_t *of = a->block->edge_rows;
    const int64_t n_more = a->how->n_edge_column;
    rows->n = run->n;
    for (int64_t i = 0; i < run->padded; i++) {
        rows->row[i] = a->block->edge_table + of[run->edge + smaller(i, run->n - 1)] * n_more;
        rows->prefetch[i] = a->block->edge_table + of[smaller(run->edge + RUN + i, run->last)] * n_more;
    }
}

/* sum[k] += x · y of edge i + k, in 16 columns from x_column and y_column on: all, or those of the mask. */
INLINE void pair_add(const struct run_rows *x, int64_t x_column, const struct run_rows *y, int64_t y_column,
                     int64_t i, const bool whole, const lane_mask *mask, vector sum[4][PARTS])
{
    fetch_four(y, i, y_column);
    for (int64_t p = 0; p < PARTS; p++) {
        for (int64_t k = 0; k < 4; k++) {
            vector mine = columns_load(x->row[i + k] + x_column + p * LANES, whole, mask[p]);
            vector other = columns_load(y->row[i + k] + y_column + p * LANES, whole, mask[p]);
            sum[k][p] = vector_fma(mine, other, sum[k][p]);
        }
    }
}

/* to[i] = Σ_c x_i[x_column + c] · y_i[y_column + c], c < n. Writes the run's edges, rounded up to fours. */
SHARED void pair_dots(const struct run_rows *x, int64_t x_column, const struct run_rows *y, int64_t y_column,
                      int64_t n, float *to)
{
    const int64_t n_whole = n - n % PARTS_LANES;
    lane_mask rest[PARTS];
    parts_masks(n % PARTS_LANES, rest);
    for (int64_t i = 0; i < x->n; i += 4) {
        vector sum[4][PARTS];
        parts_zero(sum);
        for (int64_t c = 0; c < n_whole; c += PARTS_LANES) {
            pair_add(x, x_column + c, y, y_column + c, i, true, rest, sum);
        }
        if (n_whole < n) {
            pair_add(x, x_column + n_whole, y, y_column + n_whole, i, false, rest, sum);
        }
        parts_sums(to + i, sum);
    }
}

/* sum[c] += Σ_i weight[i] · f_i[c], c < n */
SHARED void features_sum(const struct run_rows *features, int64_t n, const float *weight, double *sum)
{
    float part[LANES];
    for (int64_t c = 0; c < n; c += LANES) {
        const lane_mask mask = mask_first(smaller(n - c, LANES));
        vector total = vector_set(0.0f);
        for (int64_t i = 0; i < features->n; i++) {
            total = vector_fma(vector_set(weight[i]), vector_load_mask(features->row[i] + c, mask), total);
        }
        vector_store(part, total);
        for (int64_t k = 0; k < smaller(n - c, LANES); k++) {
            sum[c + k] += (double)part[k];
        }
    }
}

/* Some columns of a weight of edges: W f has n of them, and f n_more; they lie as Wᵀ, a row of `stride` for each of
 * f's. */
struct edge_weight {
    const float *weight;
    int64_t stride, n_more, n;
};

/* Rows at the other ends with W f added. */
struct projected {
    struct run_rows rows;
    float x[RUN][PROJECTED];
};

/* x_i[c] = row_i[column + c] + Σ_d W[c, d] f_i[d], d in ascending order */
SHARED void project(const struct run_rows *rows, int64_t column, const struct run_rows *features,
                    const struct edge_weight *by, struct projected *out)
{
    out->rows.n = rows->n;
    for (int64_t i = 0; i < rows->n; i += 4) {
        for (int64_t c = 0; c < by->n; c += LANES) {
            const lane_mask mask = mask_first(smaller(by->n - c, LANES));
            vector x[4];
            for (int64_t k = 0; k < 4; k++) {
                x[k] = vector_load_mask(rows->row[i + k] + column + c, mask);
                fetch_row(rows->prefetch[i + k] + column + c);
            }
            for (int64_t d = 0; d < by->n_more; d++) {
                const vector weight = vector_load_mask(by->weight + d * by->stride + c, mask);
                for (int64_t k = 0; k < 4; k++) {
                    x[k] = vector_fma(vector_set(features->row[i + k][d]), weight, x[k]);
                }
            }
            for (int64_t k = 0; k < 4; k++) {
                vector_store(out->x[i + k] + c, x[k]);
            }
        }
        for (int64_t k = 0; k < 4; k++) {
            out->rows.row[i + k] = out->rows.prefetch[i + k] = out->x[i + k];
        }
    }
}

/* grad[d, c] += Σ_i f_i[d] · de[i] · att[c] · leaky'(own[c] + x_i[c]), grad lying as the weight does. Overwrites
 * x. */
SHARED void project_sums(struct projected *x, const struct run_rows *features, const struct edge_weight *by,
                         const struct leaky *leaky, const float *de, double *grad)
{
    float part[LANES];
    for (int64_t c = 0; c < by->n; c += LANES) {
        const int64_t n = smaller(by->n - c, LANES);
        const lane_mask mask = mask_first(n);
        const vector own = vector_load_mask(leaky->own + c, mask), att = vector_load_mask(leaky->att + c, mask);
        const vector less = vector_multiply(att, vector_set(leaky->slope));
        for (int64_t i = 0; i < features->n; i++) {
            vector slope = vector_select_positive(vector_add(own, vector_load(x->x[i] + c)), att, less);
            vector_store(x->x[i] + c, vector_multiply(vector_set(de[i]), slope));
        }
        for (int64_t d = 0; d < by->n_more; d++) {
            vector total = vector_set(0.0f);
            for (int64_t i = 0; i < features->n; i++) {
                total = vector_fma(vector_set(features->row[i][d]), vector_load(x->x[i] + c), total);
            }
            vector_store(part, total);
            for (int64_t k = 0; k < n; k++) {
                grad[d * by->stride + c + k] += (double)part[k];
            }
        }
    }
}
