/* Ranks and losses of edges among all nodes, one candidate at a time. */
#include "protocol/base/random.h"
#include "tests/support/model/decoders.h"
#include "tests/support/process/expect.h"
#include "trainerd/coordinator/score/score.h"
#include "trainerd/coordinator/score/score_links.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <string.h>

enum { N_NODE = 600, N_EDGE = 41, WIDTH = 4, N_RELATION = 3 };

static float rows[N_NODE * WIDTH], weights[N_RELATION * WIDTH];
static uint32_t end[2 * N_EDGE], row[2 * N_EDGE], known_node[2 * N_EDGE * N_NODE];
static uint16_t relation[N_EDGE];
static int64_t begin[2 * N_EDGE + 1];

/* The dot product, and one whose heads and tails differ. */
static struct test_decoder decoders[2];

static float weight(int64_t i)
{
    return i < N_RELATION * WIDTH ? weights[i] : 0.0F;
}

static const struct decoder *open_decoder(int d)
{
    test_decoder_open(d == 0 ? "dot" : "complex", 0, WIDTH, N_RELATION, weight, &decoders[d]);
    if (d > 0) {
        memcpy(decoders[d].decoder.weights + decoders[d].program.param[decoders[d].program.decoder].offset, weights,
               sizeof weights);
    }
    return &decoders[d].decoder;
}

static const struct job losses[] = {{.train.loss = JOB_LOSS_AUTO},
                                    {.train.loss = JOB_LOSS_MARGIN, .task.margin = 1.5},
                                    {.train.loss = JOB_LOSS_CROSS_ENTROPY}};

static uint32_t draw(int64_t seed, int64_t at, int column)
{
    const struct random_key key = {.seed = (uint64_t)seed, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)at, (uint32_t)column);
}

/* Rows of small numbers, so that many scores are equal; a question without any candidate at the end. */
static struct links_known fill(int64_t seed)
{
    int64_t n = 0;
    for (int i = 0; i < N_NODE * WIDTH; i++) {
        rows[i] = (float)(draw(seed, i, 0) % 5) / 2.0F - 1.0F;
    }
    for (int i = 0; i < N_RELATION * WIDTH; i++) {
        weights[i] = (float)(draw(seed, i, 1) % 5) / 2.0F - 1.0F;
    }
    for (int i = 0; i < 2 * N_EDGE; i++) {
        end[i] = draw(seed, i, 2) % N_NODE;
        relation[i / 2] = (uint16_t)(draw(seed, i / 2, 3) % N_RELATION);
        row[i] = (uint32_t)i;
        begin[i] = n;
        for (uint32_t v = 0; v < N_NODE; v++) {
            bool is_known = i == 2 * N_EDGE - 1 || draw(seed, i * N_NODE + v, 4) % 20 < (uint32_t)(i % 7);
            if (v != end[i] && is_known) {
                known_node[n++] = v;
            }
        }
    }
    begin[2 * N_EDGE] = n;
    return (struct links_known){2 * N_EDGE, row, 2 * N_EDGE, begin, n, known_node};
}

/* The candidates of question i, and how high the edge is among them. */
struct truth {
    double above, equal, n, bce, margin, exponentials, score;
};

static float score_of(const struct decoder *decoder, uint32_t a, uint32_t b, int k)
{
    uint32_t pair[] = {a, b};
    const struct links_pairs pairs = {1, pair, &relation[k]};
    float score;
    links_score(decoder, rows, &pairs, &score);
    return score;
}

static struct truth truth_of(const struct decoder *decoder, int i)
{
    const bool is_tail = i % 2 != 0;
    struct truth t = {.score = score_of(decoder, end[i - is_tail], end[i + 1 - is_tail], i / 2)};
    for (uint32_t v = 0; v < N_NODE; v++) {
        bool is_out = v == end[i];
        for (int64_t at = begin[i]; at < begin[i + 1]; at++) {
            is_out = is_out || known_node[at] == v;
        }
        if (is_out) {
            continue;
        }
        double s = is_tail ? score_of(decoder, v, end[i], i / 2) : score_of(decoder, end[i], v, i / 2);
        t.above += s > t.score;
        t.equal += s == t.score;
        t.n += 1.0;
        t.bce += log(1.0 + exp(s));
        t.margin += fmax(0.0, 1.5 - t.score + s);
        t.exponentials += exp(s);
    }
    return t;
}

Test(score_all, ranks_and_losses_are_those_of_each_candidate_alone)
{
    static const struct job_choices metrics = {3, {JOB_METRIC_MRR, JOB_METRIC_HITS_10, JOB_METRIC_HITS_100}};
    for (int64_t seed = 0; seed < 4; seed++) {
        const struct links_known known = fill(seed);
        const struct decoder *decoder = open_decoder(seed % 2);
        const struct links_held held = {.positive = {N_EDGE, end, relation}, .among_all = true};
        const struct score_rows all = {decoder, rows, N_NODE};
        double mrr = 0.0, hits[2] = {0.0}, n = 0.0, sums[3] = {0.0}, edges = 0.0, found[JOB_CHOICES_MOST];
        struct score_links links;
        for (int i = 0; i < 2 * N_EDGE; i++) {
            const struct truth t = truth_of(decoder, i);
            double rank = t.above + t.equal / 2.0 + 1.0;
            mrr += 1.0 / rank / (2.0 * N_EDGE);
            hits[0] += (rank <= 10.0) / (2.0 * N_EDGE);
            hits[1] += (rank <= 100.0) / (2.0 * N_EDGE);
            n += t.n;
            sums[0] += t.bce;
            sums[1] += (t.n > 0.0 ? t.margin / t.n : 0.0) / (2.0 * N_EDGE);
            sums[2] += (log(exp(t.score) + t.exponentials) - t.score) / (2.0 * N_EDGE);
            edges += log(1.0 + exp(-t.score)) / (2.0 * N_EDGE);
        }
        const double expected[] = {edges + sums[0] / n, sums[1], sums[2]};
        for (int l = 0; l < 3; l++) {
            expect_done(score_links_open(&held, &known, &all, &losses[l], &links));
            expect_done(score_links_metrics(&metrics, &links, found));
            cr_expect_float_eq(found[0], mrr, 1e-12, "%g, not %g", found[0], mrr);
            cr_expect_float_eq(found[1], hits[0], 1e-12);
            cr_expect_float_eq(found[2], hits[1], 1e-12);
            cr_expect(hits[0] > 0.0 && hits[1] > hits[0] && hits[1] < 1.0);
            cr_expect_float_eq(score_links_loss(&losses[l], &links), expected[l], 1e-10 * expected[l],
                               "%d: %g, not %g", l, score_links_loss(&losses[l], &links), expected[l]);
            score_links_close(&links);
        }
        test_decoder_close(&decoders[seed % 2]);
    }
}

Test(score_all, any_number_of_threads_gives_the_same_bits)
{
    static struct score_rank of[2][2 * N_EDGE];
    const struct links_known known = fill(5);
    const struct links_pairs edges = {N_EDGE, end, relation};
    float positive[N_EDGE];
    for (int i = 0; i < N_NODE * WIDTH; i++) {
        rows[i] = (float)draw(7, i, 0) / 2e9F - 1.0F;
    }
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 1 : 4);
        const struct score_rows all = {open_decoder(1), rows, N_NODE};
        links_score(all.decoder, rows, &edges, positive);
        score_all_rank(&all, &edges, positive, &known, &losses[2], of[i]);
        test_decoder_close(&decoders[1]);
    }
    cr_assert_eq(memcmp(of[0], of[1], sizeof of[0]), 0);
}

/* A candidate's counts, that of a known node does not. */
Test(score_all, a_score_that_is_not_a_number_leaves_no_metric)
{
    static const struct job_choices metrics = {2, {JOB_METRIC_MRR, JOB_METRIC_ROC_AUC}};
    uint32_t one[] = {0, 1}, of[] = {0, 1}, node[] = {1, 2, 0, 2};
    int64_t from[] = {0, 2, 4};
    const struct links_known known = {2, of, 2, from, 4, node};
    const struct links_held held = {.positive = {1, one, NULL}, .among_all = true};
    float four[] = {1.0F, 1.0F, NAN, 0.5F};
    const struct decoder single = {.width = 1};
    const struct score_rows all = {&single, four, 4};
    for (int way = 0; way < 2; way++) {
        struct score_links links;
        double found[JOB_CHOICES_MOST];
        four[3] = way == 0 ? 0.5F : NAN;
        expect_done(score_links_open(&held, &known, &all, &losses[0], &links));
        expect_done(score_links_metrics(&metrics, &links, found));
        cr_expect(way == 0 ? found[0] == 1.0 : isnan(found[0]));
        cr_expect(isnan(found[1]), "there are no pairs without an edge");
        cr_expect_eq(isnan(score_links_loss(&losses[0], &links)), way == 1);
        score_links_close(&links);
    }
}
