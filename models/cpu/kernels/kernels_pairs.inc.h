/* Pairs of rows whose scores are dot products: runs of pairs of one row. */

/* Pairs from e on, of one row. */
INLINE void pair_run(const struct device_pairs *pairs, int64_t e, int64_t end, struct run_rows *rows)
{
    const int64_t most = smaller(end - e, RUN);
    rows->n = 1;
    while (rows->n < most && pairs->rows[e + rows->n] == pairs->rows[e]) {
        rows->n++;
    }
    for (int64_t i = 0; i < (rows->n + 3) / 4 * 4; i++) {
        rows->row[i] = pairs->x + (int64_t)pairs->places[e + smaller(i, rows->n - 1)] * pairs->f;
        rows->prefetch[i] = rows->row[i];
    }
}

TARGET static void pair_scores(const struct device_pairs *pairs, int64_t first, int64_t end, float *score)
{
    struct run_rows rows;
    for (int64_t e = first; e < end; e += rows.n) {
        float of_run[RUN] = {0};
        const float *own = pairs->own + (int64_t)pairs->rows[e] * pairs->f;
        pair_run(pairs, e, end, &rows);
        dots_by(&rows, 0, own, false, pairs->f, of_run);
        for (int64_t i = 0; i < rows.n; i++) {
            score[device_listed(pairs->numbers, e + i)] = of_run[i];
        }
    }
}

TARGET static void pair_gradients(const struct device_pairs *pairs, int64_t first, int64_t end, const float *slope,
                                  float *grad)
{
    const float one = 1.0f;
    struct run_rows rows;
    for (int64_t e = first; e < end; e += rows.n) {
        run_numbers of_run;
        float *to = grad + (int64_t)pairs->rows[e] * pairs->f;
        pair_run(pairs, e, end, &rows);
        for (int64_t i = 0; i < rows.n; i++) {
            of_run[0][i] = slope[device_listed(pairs->numbers, e + i)];
        }
        const struct rows_sum add = {&rows, 0, rows.n, &one, 1, pairs->f, 0};
        add_rows(&add, FETCH_NONE, of_run, to);
    }
}

/* --- losses of groups: each makes slopes of the scores, and returns the loss --- */

/* log(1 + e^t), and its derivative in t times the weight. */
INLINE double pair_softplus(float t, float weight, float *slope_out)
{
    float small = tile_exp(t > 0.0f ? -t : t);
    *slope_out = weight * ((t > 0.0f ? 1.0f : small) / (1.0f + small));
    return (t > 0.0f ? (double)t : 0.0) + log(1.0 + (double)small);
}

/* Of how many pairs a group's sum is over, at least 1. */
INLINE int64_t pair_n_there(const float *score, int64_t n)
{
    int64_t n_there = 0;
    for (int64_t k = 0; k < n; k++) {
        n_there += score[k] != -INFINITY;
    }
    return n_there > 0 ? n_there : 1;
}

INLINE double pair_group_bce(const struct device_pair_losses *how, float *score)
{
    const float weight = (float)how->weight;
    float *negative = score + how->has_edge, slope;
    const int64_t n_there = pair_n_there(negative, how->n_negative);
    double loss = 0.0, sum = 0.0;
    if (how->has_edge) {
        loss = pair_softplus(-score[0], weight, &slope);
        score[0] = -slope;
    }
    for (int64_t k = 0; k < how->n_negative; k++) {
        sum += pair_softplus(negative[k], weight / (float)n_there, &slope);
        negative[k] = slope;
    }
    return loss + sum / (double)n_there;
}

INLINE double pair_group_margin(const struct device_pair_losses *how, float *score)
{
    const int64_t n_there = pair_n_there(score + 1, how->n_negative);
    const float slope = (float)how->weight / (float)n_there, least = score[0] - how->margin;
    double sum = 0.0;
    score[0] = 0.0f;
    for (int64_t k = 1; k <= how->n_negative; k++) {
        const bool counts = !(score[k] <= least); /* not a number, too */
        sum += counts ? (double)score[k] - (double)least : 0.0;
        score[k] = counts ? slope : 0.0f;
        score[0] -= score[k];
    }
    return sum / (double)n_there;
}

INLINE double pair_group_cross_entropy(const struct device_pair_losses *how, float *score)
{
    const float first = score[0];
    float most = first;
    double sum = 0.0;
    for (int64_t k = 1; k <= how->n_negative; k++) {
        most = score[k] > most ? score[k] : most;
    }
    for (int64_t k = 0; k <= how->n_negative; k++) {
        score[k] = tile_exp(score[k] - most);
        sum += (double)score[k];
    }
    const float factor = (float)(how->weight / sum);
    for (int64_t k = 0; k <= how->n_negative; k++) {
        score[k] *= factor;
    }
    score[0] -= (float)how->weight;
    return log(sum) + (double)most - (double)first;
}

TARGET static double pair_losses(const struct device_pair_losses *how, int64_t first, int64_t end)
{
    double sum = 0.0;
    for (int64_t g = first; g < end; g++) {
        float *score = how->score + g * (how->has_edge + how->n_negative);
        sum += how->loss == DEVICE_PAIR_LOSS_BCE      ? pair_group_bce(how, score)
               : how->loss == DEVICE_PAIR_LOSS_MARGIN ? pair_group_margin(how, score)
                                                      : pair_group_cross_entropy(how, score);
    }
    return sum;
}
