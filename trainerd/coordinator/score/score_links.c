#include "trainerd/coordinator/score/score_links.h"

#include "protocol/base/memory.h"
#include "trainerd/coordinator/score/score_ranked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((int64_t)1 << 16) /* scores whose losses are added up at once, whatever the number of threads */

/* Products from which on threads save more than it takes to wake them: on busy cores that is milliseconds. */
#define PARALLEL_LEAST ((int64_t)1 << 22)

static float pair_score(const float *rows, int64_t width, uint32_t head, uint32_t tail)
{
    const float *a = rows + head * width, *b = rows + tail * width;
    double sum = 0.0;
    for (int64_t c = 0; c < width; c++) {
        sum += (double)a[c] * b[c];
    }
    return (float)sum;
}

void links_score(const float *rows, int64_t width, const struct links_pairs *pairs, float *score)
{
#pragma omp parallel for schedule(static) if (pairs->n * width > PARALLEL_LEAST)
    for (int64_t k = 0; k < pairs->n; k++) {
        score[k] = pair_score(rows, width, pairs->end[2 * k], pairs->end[2 * k + 1]);
    }
}

/* The arrays of what is held out, and their lengths. */
struct numbers {
    uint32_t **at;
    size_t n;
};

#define N_NUMBERS (3 * LINKS_SPLIT_N)

static void numbers_of(struct links *links, struct numbers out[N_NUMBERS])
{
    for (int split = 0; split < LINKS_SPLIT_N; split++) {
        struct links_held *held = &links->held[split];
        out[3 * split] = (struct numbers){&held->positive.end, 2 * (size_t)held->positive.n};
        out[3 * split + 1] = (struct numbers){&held->negative.end, 2 * (size_t)held->negative.n};
        out[3 * split + 2] = (struct numbers){&held->tail, (size_t)held->positive.n * (size_t)held->n_tail};
    }
}

enum status score_held_copy(const struct links *links, struct links *out)
{
    struct numbers to[N_NUMBERS];
    enum status status = STATUS_OK;
    *out = *links;
    numbers_of(out, to);
    for (int k = 0; k < N_NUMBERS; k++) {
        const uint32_t *from = *to[k].at;
        *to[k].at = NULL;
        if (status == STATUS_OK && to[k].n > 0) {
            status = memory_acquire(MEMORY_OTHER, to[k].n, sizeof *from, to[k].at);
        }
        if (*to[k].at != NULL) {
            memcpy(*to[k].at, from, to[k].n * sizeof *from);
        }
    }
    return status;
}

void score_held_release(struct links *links)
{
    struct numbers all[N_NUMBERS];
    numbers_of(links, all);
    for (int k = 0; k < N_NUMBERS; k++) {
        memory_release(MEMORY_OTHER, *all[k].at, all[k].n, sizeof(uint32_t));
    }
    *links = (struct links){0};
}

enum status score_links_open(const struct links_held *held, const float *rows, int64_t width, struct score_links *out)
{
    int64_t n = held->positive.n, n_tail = held->n_tail;
    *out = (struct score_links){
        .n_positive = n, .n_tail = n_tail, .n_negative = n_tail > 0 ? n * n_tail : held->negative.n};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n, sizeof *out->positive, &out->positive);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_negative, sizeof *out->negative, &out->negative);
    }
    if (status != STATUS_OK) {
        return status;
    }
    links_score(rows, width, &held->positive, out->positive);
    if (n_tail == 0) {
        links_score(rows, width, &held->negative, out->negative);
    }
#pragma omp parallel for schedule(static) if (n * n_tail * width > PARALLEL_LEAST)
    for (int64_t k = 0; k < n * n_tail; k++) {
        out->negative[k] = pair_score(rows, width, held->positive.end[2 * (k / n_tail)], held->tail[k]);
    }
    return STATUS_OK;
}

void score_links_close(struct score_links *links)
{
    memory_release(MEMORY_OTHER, links->positive, (size_t)links->n_positive, sizeof *links->positive);
    memory_release(MEMORY_OTHER, links->negative, (size_t)links->n_negative, sizeof *links->negative);
    *links = (struct score_links){0};
}

static bool all_numbers(const float *score, int64_t n)
{
    bool all = true;
    for (int64_t k = 0; k < n; k++) {
        all = all && !isnan(score[k]);
    }
    return all;
}

/* Negatives that hits@K allows at or above an edge, plus 1; 0: the metric is mrr. */
static int64_t hits_of(enum job_metric metric)
{
    switch (metric) {
    case JOB_METRIC_HITS_1:
        return 1;
    case JOB_METRIC_HITS_3:
        return 3;
    case JOB_METRIC_HITS_10:
        return 10;
    case JOB_METRIC_HITS_20:
        return 20;
    case JOB_METRIC_HITS_50:
        return 50;
    case JOB_METRIC_HITS_100:
        return 100;
    default:
        return 0;
    }
}

/* rank = (n_above + n_not_below) / 2 + 1 */
static double rank_of(int64_t n_above, int64_t n_not_below)
{
    return 0.5 * (double)(n_above + n_not_below) + 1.0;
}

/* Among the pool: rows of all scores in order. An edge is above the K-th highest negative where fewer than K
 * negatives are not below it. */
static double pool_metric(enum job_metric metric, const struct score_links *links, const uint64_t *row)
{
    int64_t n = links->n_positive + links->n_negative, k = hits_of(metric), n_above = 0;
    struct ranked_group group = {.begin = n, .end = n};
    double sum = 0.0;
    while (ranked_next(row, &group)) {
        int64_t n_not_below = n_above + group.n_negative;
        double of_each = k > 0 ? (double)(n_not_below < k) : 1.0 / rank_of(n_above, n_not_below);
        sum += (double)group.n_positive * of_each;
        n_above = n_not_below;
    }
    return sum / (double)links->n_positive;
}

/* Each edge among its own tails. */
static double tails_metric(enum job_metric metric, const struct score_links *links)
{
    int64_t k = hits_of(metric);
    double sum = 0.0;
    for (int64_t i = 0; i < links->n_positive; i++) {
        const float *tail = links->negative + i * links->n_tail, score = links->positive[i];
        int64_t n_above = 0, n_not_below = 0;
        for (int64_t t = 0; t < links->n_tail; t++) {
            n_above += tail[t] > score;
            n_not_below += tail[t] >= score;
        }
        double rank = rank_of(n_above, n_not_below);
        sum += k > 0 ? (double)(rank <= (double)k) : 1.0 / rank;
    }
    return sum / (double)links->n_positive;
}

static bool takes_pool(enum job_metric metric, const struct score_links *links)
{
    return !job_metric_is_of_links(metric) || links->n_tail == 0;
}

/* All scores in order: an array with room for twice as many. */
static enum status rows_open(const struct score_links *links, uint64_t **out)
{
    int64_t n = links->n_positive + links->n_negative;
    enum status status = memory_acquire(MEMORY_OTHER, 2 * (size_t)n, sizeof **out, out);
    if (status != STATUS_OK) {
        return status;
    }
    for (int64_t k = 0; k < links->n_positive; k++) {
        (*out)[k] = ranked_row(links->positive[k], true);
    }
    for (int64_t k = 0; k < links->n_negative; k++) {
        (*out)[links->n_positive + k] = ranked_row(links->negative[k], false);
    }
    ranked_sort(*out, *out + n, n);
    return STATUS_OK;
}

enum status score_links_metrics(const struct job_choices *metrics, const struct score_links *links, double *out)
{
    int64_t n = links->n_positive + links->n_negative;
    bool known = links->n_positive > 0 && all_numbers(links->positive, links->n_positive) &&
                 all_numbers(links->negative, links->n_negative);
    bool pooled = false;
    uint64_t *row = NULL;
    for (int i = 0; i < metrics->n; i++) {
        pooled = pooled || takes_pool((enum job_metric)metrics->of[i], links);
    }
    enum status status = known && pooled ? rows_open(links, &row) : STATUS_OK;
    for (int i = 0; i < metrics->n && status == STATUS_OK; i++) {
        enum job_metric metric = (enum job_metric)metrics->of[i];
        out[i] = !known                            ? (double)NAN
                 : !job_metric_is_of_links(metric) ? ranked_metric(metric, row, n)
                 : takes_pool(metric, links)       ? pool_metric(metric, links, row)
                                                   : tails_metric(metric, links);
    }
    memory_release(MEMORY_OTHER, row, 2 * (size_t)n, sizeof *row);
    return status;
}

/* log(1 + exp(x)) without overflow. */
static double softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

/* Mean of softplus(sign · s). */
static double loss_mean(const float *score, int64_t n, double sign)
{
    int64_t n_chunk = (n + CHUNK - 1) / CHUNK;
    double *part = memory_alloc((size_t)n_chunk + 1, sizeof *part), sum = 0.0;
#pragma omp parallel for schedule(static) if (n_chunk > 1)
    for (int64_t chunk = 0; chunk < n_chunk; chunk++) {
        int64_t end = (chunk + 1) * CHUNK < n ? (chunk + 1) * CHUNK : n;
        for (int64_t k = chunk * CHUNK; k < end; k++) {
            part[chunk] += softplus(sign * score[k]);
        }
    }
    for (int64_t chunk = 0; chunk < n_chunk; chunk++) {
        sum += part[chunk];
    }
    free(part);
    return sum / (double)n;
}

double score_links_loss(const struct score_links *links)
{
    return loss_mean(links->positive, links->n_positive, -1.0) + loss_mean(links->negative, links->n_negative, 1.0);
}
