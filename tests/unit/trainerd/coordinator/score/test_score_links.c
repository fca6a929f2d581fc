/* Metrics of links against their definitions, edge by edge and negative by negative. */
#include "protocol/base/random.h"
#include "tests/support/process/expect.h"
#include "trainerd/coordinator/score/score.h"
#include "trainerd/coordinator/score/score_links.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 4096 };

static const struct job_choices all_metrics = {8,
                                               {JOB_METRIC_ROC_AUC, JOB_METRIC_AVERAGE_PRECISION, JOB_METRIC_MRR,
                                                JOB_METRIC_HITS_1, JOB_METRIC_HITS_3, JOB_METRIC_HITS_10,
                                                JOB_METRIC_HITS_20, JOB_METRIC_HITS_50}};
static const int64_t hits[] = {0, 0, 0, 1, 3, 10, 20, 50};

static const struct job losses[] = {{.train.loss = JOB_LOSS_AUTO},
                                    {.train.loss = JOB_LOSS_MARGIN, .task.margin = 0.75},
                                    {.train.loss = JOB_LOSS_CROSS_ENTROPY}};

static uint32_t draw(int64_t seed, int64_t row)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, 0);
}

/* Scores with many ties, in steps of 1/4 around 0, the positives a little higher. */
static struct score_links drawn(int64_t seed, int64_t n_positive, int64_t n_negative, int64_t n_tail)
{
    static float positive[MOST], negative[MOST];
    struct score_links links = {n_positive, n_tail,   n_tail > 0 ? n_positive * n_tail : n_negative,
                                positive,   negative, NULL};
    uint32_t n_value = seed % 3 == 0 ? 5 : 200;
    for (int64_t k = 0; k < links.n_positive; k++) {
        positive[k] = ((float)(draw(seed, k) % n_value) - (float)(n_value / 2) + 1.0F) / 4.0F;
    }
    for (int64_t k = 0; k < links.n_negative; k++) {
        negative[k] = ((float)(draw(seed, MOST + k) % n_value) - (float)(n_value / 2)) / 4.0F;
    }
    return links;
}

static double area(const struct score_links *links)
{
    double sum = 0.0;
    for (int64_t i = 0; i < links->n_positive; i++) {
        for (int64_t k = 0; k < links->n_negative; k++) {
            double by = (double)links->positive[i] - links->negative[k];
            sum += by > 0.0 ? 1.0 : by == 0.0 ? 0.5 : 0.0;
        }
    }
    return sum / ((double)links->n_positive * (double)links->n_negative);
}

/* Mean over the edges of the precision at their score: scikit-learn's sum, an edge at a time. */
static double precision(const struct score_links *links)
{
    double sum = 0.0;
    for (int64_t i = 0; i < links->n_positive; i++) {
        double n_true = 0.0, n_false = 0.0;
        for (int64_t k = 0; k < links->n_positive; k++) {
            n_true += links->positive[k] >= links->positive[i];
        }
        for (int64_t k = 0; k < links->n_negative; k++) {
            n_false += links->negative[k] >= links->positive[i];
        }
        sum += n_true / (n_true + n_false);
    }
    return sum / (double)links->n_positive;
}

static int descending(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a < b) - (a > b);
}

/* As ogb's Evaluator: y_pred_pos > kth_score_in_negative_edges; 1 for fewer negatives than K. */
static double pool_hits(const struct score_links *links, int64_t k)
{
    static float sorted[MOST];
    double n = 0.0;
    if (links->n_negative < k) {
        return 1.0;
    }
    memcpy(sorted, links->negative, (size_t)links->n_negative * sizeof *sorted);
    qsort(sorted, (size_t)links->n_negative, sizeof *sorted, descending);
    for (int64_t i = 0; i < links->n_positive; i++) {
        n += links->positive[i] > sorted[k - 1];
    }
    return n / (double)links->n_positive;
}

/* As ogb's Evaluator: the mean of the optimistic and the pessimistic rank, plus 1. */
static double rank(const struct score_links *links, int64_t i)
{
    int64_t n = links->n_tail > 0 ? links->n_tail : links->n_negative;
    const float *negative = links->negative + (links->n_tail > 0 ? i * n : 0);
    double optimistic = 0.0, pessimistic = 0.0;
    for (int64_t k = 0; k < n; k++) {
        optimistic += negative[k] > links->positive[i];
        pessimistic += negative[k] >= links->positive[i];
    }
    return 0.5 * (optimistic + pessimistic) + 1.0;
}

static double truth(const struct score_links *links, int number)
{
    double sum = 0.0;
    int64_t k = hits[number];
    if (number < 2) {
        return number == 0 ? area(links) : precision(links);
    }
    if (k > 0 && links->n_tail == 0) {
        return pool_hits(links, k);
    }
    for (int64_t i = 0; i < links->n_positive; i++) {
        sum += k > 0 ? (double)(rank(links, i) <= (double)k) : 1.0 / rank(links, i);
    }
    return sum / (double)links->n_positive;
}

static void expect_truth(const struct score_links *links)
{
    double found[JOB_CHOICES_MOST];
    expect_done(score_links_metrics(&all_metrics, links, found));
    for (int i = 0; i < all_metrics.n; i++) {
        cr_expect_float_eq(found[i], truth(links, i), 1e-12, "%s of %lld edges: %.17g, not %.17g",
                           score_name(all_metrics.of[i]), (long long)links->n_positive, found[i], truth(links, i));
    }
}

Test(score_links, metrics_among_a_pool_are_what_their_definitions_say)
{
    for (int64_t seed = 0; seed < 60; seed++) {
        const struct score_links links = drawn(seed, 1 + draw(seed, -1) % 90, 1 + draw(seed, -2) % 120, 0);
        expect_truth(&links);
    }
}

Test(score_links, metrics_among_tails_are_what_their_definitions_say)
{
    for (int64_t seed = 0; seed < 60; seed++) {
        const struct score_links links = drawn(seed, 1 + draw(seed, -1) % 60, 0, 1 + draw(seed, -2) % 60);
        expect_truth(&links);
    }
}

/* Values by hand. Of 3, 1, 1: above all; one above, one equal; below two and equal to one. */
Test(score_links, ranks_of_ties_are_in_the_middle)
{
    float positive[] = {3.0F, 1.0F, 0.0F}, negative[] = {2.0F, 1.0F, 0.0F};
    const struct score_links links = {3, 0, 3, positive, negative, NULL};
    double found[JOB_CHOICES_MOST];
    expect_done(score_links_metrics(&all_metrics, &links, found));
    cr_expect_float_eq(found[2], (1.0 + 1.0 / 2.5 + 1.0 / 3.5) / 3.0, 1e-15);
    cr_expect_float_eq(found[3], 1.0 / 3.0, 1e-15, "above the highest negative, 2: only 3");
    cr_expect_float_eq(found[4], 2.0 / 3.0, 1e-15, "above the third, 0: not 0 itself");
    cr_expect_eq(found[5], 1.0, "fewer than 10 negatives");
    const struct score_links one = {1, 3, 3, &positive[1], negative, NULL}; /* rank 2.5 */
    expect_done(score_links_metrics(&all_metrics, &one, found));
    cr_expect(found[2] == 1.0 / 2.5 && found[3] == 0.0 && found[4] == 1.0);
}

Test(score_links, scores_that_are_no_numbers_and_splits_without_edges_have_no_metric)
{
    for (int bad = 0; bad < 3; bad++) {
        float positive[] = {1.0F, 2.0F}, negative[] = {0.0F, 1.0F};
        struct score_links links = {bad == 2 ? 0 : 2, 0, 2, positive, negative, NULL};
        *(bad == 0 ? &positive[1] : &negative[0]) = NAN;
        double found[JOB_CHOICES_MOST] = {0.0};
        expect_done(score_links_metrics(&all_metrics, &links, found));
        for (int i = 0; i < all_metrics.n; i++) {
            cr_expect(isnan(found[i]), "%s", score_name(all_metrics.of[i]));
        }
        for (size_t l = 0; l < sizeof losses / sizeof *losses; l++) {
            cr_expect(isnan(score_links_loss(&losses[l], &links)), "loss %zu", l);
        }
    }
}

Test(score_links, scores_are_dot_products_of_the_rows_of_all_pairs)
{
    enum { N_NODE = 20, WIDTH = 7, N = 12, N_TAIL = 3 };
    float rows[N_NODE * WIDTH];
    uint32_t end[2 * N], pool[2 * (N + 1)], tail[N * N_TAIL];
    for (int i = 0; i < N_NODE * WIDTH; i++) {
        rows[i] = (float)(draw(5, i) % 1000) / 333.0F - 1.5F;
    }
    for (int i = 0; i < 2 * N; i++) {
        end[i] = draw(6, i) % N_NODE;
    }
    for (int i = 0; i < 2 * (N + 1); i++) {
        pool[i] = draw(7, i) % N_NODE;
    }
    for (int i = 0; i < N * N_TAIL; i++) {
        tail[i] = draw(8, i) % N_NODE;
    }
    const struct decoder decoder = {.width = WIDTH};
    const struct score_rows all = {&decoder, rows, N_NODE};
    struct links_held held = {.positive = {N, end, NULL}, .negative = {N + 1, pool, NULL}};
    for (int n_tail = 0; n_tail <= N_TAIL; n_tail += N_TAIL) {
        struct score_links links;
        held.n_tail = n_tail;
        held.tail = n_tail > 0 ? tail : NULL;
        expect_done(score_links_open(&held, NULL, &all, NULL, &links));
        cr_assert(links.n_positive == N && links.n_negative == (n_tail > 0 ? N * n_tail : N + 1));
        for (int64_t k = 0; k < N + links.n_negative; k++) {
            bool edge = k < N;
            int64_t at = edge ? k : k - N;
            uint32_t a = edge ? end[2 * at] : n_tail > 0 ? end[2 * (at / n_tail)] : pool[2 * at];
            uint32_t b = edge ? end[2 * at + 1] : n_tail > 0 ? tail[at] : pool[2 * at + 1];
            double sum = 0.0;
            for (int c = 0; c < WIDTH; c++) {
                sum += (double)rows[a * WIDTH + (uint32_t)c] * rows[b * WIDTH + (uint32_t)c];
            }
            cr_assert_eq((edge ? links.positive : links.negative)[at], (float)sum, "pair %lld", (long long)k);
        }
        score_links_close(&links);
    }
}

Test(score_links, the_loss_is_the_mean_cross_entropy_of_edges_plus_that_of_negatives)
{
    const struct score_links links = drawn(1, 70, 90, 0);
    double edges = 0.0, others = 0.0;
    for (int64_t k = 0; k < 70; k++) {
        edges += log(1.0 + exp(-(double)links.positive[k])) / 70.0; /* -log σ(s) */
    }
    for (int64_t k = 0; k < 90; k++) {
        others += log(1.0 + exp((double)links.negative[k])) / 90.0; /* -log(1 - σ(s)) */
    }
    cr_expect_float_eq(score_links_loss(&losses[0], &links), edges + others, 1e-12);
    float high = 1000.0F, low = -1000.0F;
    const struct score_links sure = {1, 0, 1, &high, &low, NULL}, wrong = {1, 0, 1, &low, &high, NULL};
    cr_expect_eq(score_links_loss(&losses[0], &sure), 0.0);
    cr_expect_eq(score_links_loss(&losses[0], &wrong), 2000.0, "no overflow");
}

/* Each edge with its own negatives: n_tail tails, or of a pool one after another, from its beginning again. */
Test(score_links, margin_and_cross_entropy_compare_each_edge_with_its_own_negatives)
{
    static const int64_t n_tails[] = {0, 1, 7}, pools[] = {5, 70, 90};
    for (int64_t seed = 0; seed < 9; seed++) {
        const struct score_links links = drawn(seed, 70, pools[seed % 3], n_tails[seed / 3]);
        int64_t n = links.n_tail > 0 ? links.n_tail : 1;
        double margin = 0.0, entropy = 0.0;
        for (int64_t k = 0; k < 70; k++) {
            double s = links.positive[k], sum = exp(s);
            for (int64_t i = 0; i < n; i++) {
                double other = links.negative[links.n_tail > 0 ? k * n + i : k % links.n_negative];
                margin += fmax(0.0, 0.75 - s + other) / (double)n / 70.0;
                sum += exp(other);
            }
            entropy += (log(sum) - s) / 70.0;
        }
        cr_expect_float_eq(score_links_loss(&losses[1], &links), margin, 1e-12, "%g", margin);
        cr_expect_float_eq(score_links_loss(&losses[2], &links), entropy, 1e-12, "%g", entropy);
    }
    float high = 1000.0F, low = -1000.0F;
    const struct score_links sure = {1, 0, 1, &high, &low, NULL}, wrong = {1, 0, 1, &low, &high, NULL};
    cr_expect(score_links_loss(&losses[1], &sure) == 0.0 && score_links_loss(&losses[2], &sure) == 0.0);
    cr_expect(score_links_loss(&losses[1], &wrong) == 2000.75 && score_links_loss(&losses[2], &wrong) == 2000.0);
}

Test(score_links, auto_is_roc_auc_and_none_of_them_is_a_sum)
{
    struct job job = {.task.kind = JOB_TASK_LINK};
    struct job_choices metrics;
    expect_done(score_metrics(&job, false, 16, &metrics));
    cr_assert(metrics.n == 1 && metrics.of[0] == JOB_METRIC_ROC_AUC);
    job.task.candidates = JOB_CANDIDATES_ALL;
    expect_done(score_metrics(&job, false, 16, &metrics));
    cr_assert(metrics.n == 1 && metrics.of[0] == JOB_METRIC_MRR);
    job.task.candidates = JOB_CANDIDATES_DRAWN;
    job.train.metrics = (struct job_choices){
        4, {JOB_METRIC_MRR, JOB_METRIC_AUTO, JOB_METRIC_ROC_AUC, JOB_METRIC_HITS_100}};
    expect_done(score_metrics(&job, false, 16, &metrics));
    cr_assert(metrics.n == 3 && metrics.of[0] == JOB_METRIC_MRR && metrics.of[1] == JOB_METRIC_ROC_AUC &&
              metrics.of[2] == JOB_METRIC_HITS_100);
    const double sums[SCORE_N_SUM] = {1, 1, 1, 1, 1, 1, 1};
    for (int i = 0; i < metrics.n; i++) {
        cr_expect(score_takes_rows((enum job_metric)metrics.of[i]));
        cr_expect(isnan(score_from_sums((enum job_metric)metrics.of[i], false, sums)));
    }
}
