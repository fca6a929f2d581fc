/* Pairs of nodes with and without an edge: scores of a run of them, and what these give the own row. */

/* The other ends' rows of one run; those of the next row's pairs are prefetched meanwhile. */
INLINE void link_rows_open(const struct device_links *how, const struct cpu_link_row *row, int64_t e,
                           struct run_rows *rows)
{
    rows->n = smaller(row->end - e, RUN);
    for (int64_t i = 0; i < (rows->n + 3) / 4 * 4; i++) {
        int64_t at = smaller(e + i, row->end - 1), after = row->next_begin + (e - row->begin) + i;
        rows->row[i] = how->x + (int64_t)(how->places[at] - how->first) * how->f;
        rows->prefetch[i] = after < row->next_end ? how->x + (int64_t)(how->places[after] - how->first) * how->f
                                                  : rows->row[i];
    }
}

/* With t the score of a pair without an edge, or minus that of one with: score becomes ± weight · σ(t). Returns the
 * sum of log(1 + e^t) = max(t, 0) + log(1 + e^−|t|): the logarithms of a run as that of one product. */
INLINE double link_weights(const struct device_links *how, int64_t n, float *score)
{
    const float sign = how->joined ? -1.0f : 1.0f, scale = sign * (float)how->weight;
    double sum = 0.0, product = 1.0;
    for (int64_t i = 0; i < n; i++) {
        float t = sign * score[i], small = tile_exp(t > 0.0f ? -t : t);
        sum += t > 0.0f ? (double)t : 0.0;
        product *= 1.0 + (double)small;
        score[i] = scale * ((t > 0.0f ? 1.0f : small) / (1.0f + small));
    }
    return sum + log(product);
}

TARGET static double link_row(const struct device_links *how, const struct cpu_link_row *row)
{
    const float one = 1.0f;
    double sum = 0.0;
    for (int64_t e = row->begin; e < row->end; e += RUN) {
        struct run_rows rows;
        run_numbers score;
        link_rows_open(how, row, e, &rows);
        dots_by(&rows, 0, how->own + row->row * how->f, true, how->f, score[0]);
        sum += link_weights(how, rows.n, score[0]);
        const struct rows_sum add = {&rows, 0, rows.n, &one, 1, how->f, 0};
        add_rows(&add, FETCH_NONE, score, how->grad + row->row * how->f);
    }
    return sum;
}
