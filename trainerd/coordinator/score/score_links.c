#include "trainerd/coordinator/score/score_links.h"

#include "protocol/base/memory.h"
#include "trainerd/coordinator/score/score_loss.h"
#include "trainerd/coordinator/score/score_ranked.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK ((int64_t)1 << 16) /* scores whose losses are added up at once, whatever the number of threads */

void links_score(const struct decoder *decoder, const float *rows, const struct links_pairs *pairs, float *score)
{
    const struct decoder_pairs of = {.n = pairs->n, .end = pairs->end, .relation = pairs->relation};
    decoder_score(decoder, rows, &of, score);
}

/* The arrays of what is held out, and their lengths. */
struct numbers {
    void **at;
    size_t n, size;
};

#define N_NUMBERS (5 * LINKS_SPLIT_N)

static void pairs_numbers(struct links_pairs *pairs, struct numbers out[2])
{
    out[0] = (struct numbers){(void **)&pairs->end, 2 * (size_t)pairs->n, sizeof *pairs->end};
    out[1] = (struct numbers){(void **)&pairs->relation, pairs->relation != NULL ? (size_t)pairs->n : 0,
                              sizeof *pairs->relation};
}

static void numbers_of(struct links *links, struct numbers out[N_NUMBERS])
{
    for (int split = 0; split < LINKS_SPLIT_N; split++) {
        struct links_held *held = &links->held[split];
        struct numbers *of = out + 5 * split;
        pairs_numbers(&held->positive, of);
        pairs_numbers(&held->negative, of + 2);
        of[4] = (struct numbers){(void **)&held->tail, (size_t)held->positive.n * (size_t)held->n_tail,
                                 sizeof *held->tail};
    }
}

enum status score_held_copy(const struct links *links, struct links *out)
{
    struct numbers to[N_NUMBERS];
    enum status status = STATUS_OK;
    *out = *links;
    numbers_of(out, to);
    for (int k = 0; k < N_NUMBERS; k++) {
        const void *from = *to[k].at;
        *to[k].at = NULL;
        if (status == STATUS_OK && to[k].n > 0) {
            status = memory_copy(MEMORY_OTHER, from, to[k].n, to[k].size, to[k].at);
        }
    }
    return status;
}

void score_held_release(struct links *links)
{
    struct numbers all[N_NUMBERS];
    numbers_of(links, all);
    for (int k = 0; k < N_NUMBERS; k++) {
        memory_release(MEMORY_OTHER, *all[k].at, all[k].n, all[k].size);
    }
    *links = (struct links){0};
}

enum status score_links_open(const struct links_held *held, const struct links_known *known,
                             const struct score_rows *rows, const struct job *job, struct score_links *out)
{
    int64_t n = held->positive.n, n_tail = held->n_tail;
    *out = (struct score_links){
        .n_positive = n, .n_tail = n_tail, .n_negative = n_tail > 0 ? n * n_tail : held->negative.n};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n, sizeof *out->positive, &out->positive);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)out->n_negative, sizeof *out->negative, &out->negative);
    }
    if (status == STATUS_OK && held->among_all) {
        status = memory_acquire(MEMORY_OTHER, 2 * (size_t)n, sizeof *out->rank, &out->rank);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct decoder_pairs tails = {
        .n = n, .end = held->positive.end, .relation = held->positive.relation, .n_tail = n_tail, .tail = held->tail};
    links_score(rows->decoder, rows->of, &held->positive, out->positive);
    if (held->among_all) {
        score_all_rank(rows, &held->positive, out->positive, known, job, out->rank);
    } else if (n_tail > 0) {
        decoder_score(rows->decoder, rows->of, &tails, out->negative);
    } else {
        links_score(rows->decoder, rows->of, &held->negative, out->negative);
    }
    return STATUS_OK;
}

void score_links_close(struct score_links *links)
{
    memory_release(MEMORY_OTHER, links->rank, 2 * (size_t)links->n_positive, sizeof *links->rank);
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
    static const int64_t hits[] = {
        [JOB_METRIC_MRR] = 0,      [JOB_METRIC_HITS_1] = 1,   [JOB_METRIC_HITS_3] = 3,    [JOB_METRIC_HITS_10] = 10,
        [JOB_METRIC_HITS_20] = 20, [JOB_METRIC_HITS_50] = 50, [JOB_METRIC_HITS_100] = 100};
    return hits[metric];
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

/* Both ends of each edge among all nodes; a rank that is NaN makes the sum NaN. */
static double all_metric(enum job_metric metric, const struct score_links *links)
{
    int64_t k = hits_of(metric);
    double sum = 0.0;
    for (int64_t i = 0; i < 2 * links->n_positive; i++) {
        double rank = links->rank[i].rank;
        sum += isnan(rank) ? (double)NAN : k > 0 ? (double)(rank <= (double)k) : 1.0 / rank;
    }
    return sum / (2.0 * (double)links->n_positive);
}

static bool takes_pool(enum job_metric metric, const struct score_links *links)
{
    return links->rank == NULL && (!job_metric_is_of_links(metric) || links->n_tail == 0);
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
        bool ranks = job_metric_is_of_links(metric);
        out[i] = !known || (!ranks && links->rank != NULL) ? (double)NAN
                 : !ranks                                  ? ranked_metric(metric, row, n)
                 : links->rank != NULL                     ? all_metric(metric, links)
                 : takes_pool(metric, links)               ? pool_metric(metric, links, row)
                                                           : tails_metric(metric, links);
    }
    memory_release(MEMORY_OTHER, row, 2 * (size_t)n, sizeof *row);
    return status;
}

/* What a mean is over: n of these, each a number of scores. */
struct losses {
    const struct score_links *links;
    double margin;
    int64_t n, n_each;
    double (*of)(const struct losses *losses, int64_t k);
};

static double edge_bce(const struct losses *losses, int64_t k)
{
    return softplus(-(double)losses->links->positive[k]);
}

static double negative_bce(const struct losses *losses, int64_t k)
{
    return softplus(losses->links->negative[k]);
}

/* The n_each negatives of edge k. */
static const float *negatives_of(const struct losses *losses, int64_t k)
{
    const struct score_links *links = losses->links;
    return links->negative + (links->n_tail > 0 ? k * links->n_tail : k % links->n_negative);
}

static double edge_margin(const struct losses *losses, int64_t k)
{
    const float *negative = negatives_of(losses, k);
    double sum = 0.0;
    for (int64_t i = 0; i < losses->n_each; i++) {
        double over = losses->margin - losses->links->positive[k] + negative[i];
        sum += over < 0.0 ? 0.0 : over;
    }
    return sum / (double)losses->n_each;
}

static double edge_cross_entropy(const struct losses *losses, int64_t k)
{
    const float *negative = negatives_of(losses, k);
    struct log_sum sum = log_sum_make(losses->links->positive[k]);
    for (int64_t i = 0; i < losses->n_each; i++) {
        log_sum_add(&sum, negative[i]);
    }
    return log_sum_end(&sum) - losses->links->positive[k];
}

/* In chunks of so many that they have CHUNK scores. */
static double loss_mean(const struct losses *losses)
{
    int64_t n = losses->n, size = CHUNK / losses->n_each + 1, n_chunk = (n + size - 1) / size;
    double *part = memory_alloc((size_t)n_chunk + 1, sizeof *part), sum = 0.0;
#pragma omp parallel for schedule(static) if (n_chunk > 1)
    for (int64_t chunk = 0; chunk < n_chunk; chunk++) {
        int64_t end = (chunk + 1) * size < n ? (chunk + 1) * size : n;
        for (int64_t k = chunk * size; k < end; k++) {
            part[chunk] += losses->of(losses, k);
        }
    }
    for (int64_t chunk = 0; chunk < n_chunk; chunk++) {
        sum += part[chunk];
    }
    free(part);
    return sum / (double)n;
}

/* Of both ends among all nodes: means over them, but of bce over all candidates. */
static double all_loss(const struct job *job, const struct score_links *links, double edges)
{
    bool groups = job->train.loss == JOB_LOSS_MARGIN || job->train.loss == JOB_LOSS_CROSS_ENTROPY;
    double sum = 0.0;
    int64_t n = 0;
    for (int64_t i = 0; i < 2 * links->n_positive; i++) {
        sum += links->rank[i].loss;
        n += groups ? 1 : links->rank[i].n;
    }
    return (groups ? 0.0 : edges) + sum / (double)n;
}

double score_links_loss(const struct job *job, const struct score_links *links)
{
    struct losses losses = {.links = links, .margin = job->task.margin, .n = links->n_positive, .n_each = 1};
    bool groups = job->train.loss == JOB_LOSS_MARGIN || job->train.loss == JOB_LOSS_CROSS_ENTROPY;
    if (groups && links->rank == NULL) {
        losses.n_each = links->n_tail > 0 ? links->n_tail : 1;
        losses.of = job->train.loss == JOB_LOSS_MARGIN ? edge_margin : edge_cross_entropy;
        return loss_mean(&losses);
    }
    losses.of = edge_bce;
    double edges = loss_mean(&losses);
    if (links->rank != NULL) {
        return all_loss(job, links, edges);
    }
    losses.of = negative_bce;
    losses.n = links->n_negative;
    return edges + loss_mean(&losses);
}
