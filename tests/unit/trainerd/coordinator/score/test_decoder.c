/* Scores of pairs against plain loops over columns and layers. */
#include "protocol/base/random.h"
#include "tests/support/model/decoders.h"
#include "trainerd/coordinator/score/decoder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { N_NODE = 60, N = 333, N_TAIL = 3, WIDTH = 22, N_RELATION = 4 };

static float rows[N_NODE * WIDTH], score[N * N_TAIL];
static uint32_t end[2 * N], tail[N * N_TAIL];
static uint16_t relation[N];
static const struct decoder_pairs pairs = {N, end, relation, 0, NULL}, tails = {N, end, relation, N_TAIL, tail};

static uint32_t draw(int64_t row, int column)
{
    const struct random_key key = {.seed = 1, .stream = RANDOM_STREAM_GENERATOR};
    return random_u32(&key, (uint64_t)row, (uint32_t)column);
}

static float number(int64_t row, int column)
{
    return (float)draw(row, column) / 2e9F - 1.0F;
}

static void fill(void)
{
    for (int i = 0; i < N_NODE * WIDTH; i++) {
        rows[i] = number(i, 0);
    }
    for (int i = 0; i < N; i++) {
        end[2 * i] = draw(i, 2) % N_NODE;
        end[2 * i + 1] = draw(i, 3) % N_NODE;
        relation[i] = (uint16_t)(draw(i, 4) % N_RELATION);
    }
    for (int i = 0; i < N * N_TAIL; i++) {
        tail[i] = draw(i, 5) % N_NODE;
    }
}

TestSuite(decoder, .init = fill);

/* Linear layers of both rows side by side, in which directions count. */
static const char side_by_side[] = "def score(e):\n"
                                   "    x = linear('a', concat(e.src.x, e.dst.x), 9)\n"
                                   "    return linear('b', tanh(x), 1)\n";

static const char *const all[] = {"dot", "distmult", "complex", side_by_side, "mlp"};
enum { N_DECODER = sizeof all / sizeof *all };

static float weight(int64_t i)
{
    return number(i, 1);
}

/* Of the first three; the others' linear maps are the property test's. */
static double truth(int d, const struct test_decoder *decoder, uint32_t head, uint32_t tail_of, uint32_t r)
{
    const float *u = rows + head * WIDTH, *v = rows + tail_of * WIDTH;
    const float *w = d > 0 ? test_decoder_weight(decoder, 0) + r * WIDTH : NULL;
    double sum = 0.0;
    for (int c = 0, n = WIDTH / 2; c < WIDTH; c++) {
        const double x = (double)u[c] * v[c];
        sum += d == 0   ? x
               : d == 1 ? w[c] * x
               : c < n  ? w[c] * (x + (double)u[n + c] * v[n + c])
                        : w[c] * ((double)u[c - n] * v[c] - (double)u[c] * v[c - n]);
    }
    return sum;
}

Test(decoder, scores_are_what_their_formulas_say)
{
    for (int d = 0; d < 3; d++) {
        struct test_decoder decoder;
        test_decoder_open(all[d], 2, WIDTH, N_RELATION, weight, &decoder);
        decoder_score(&decoder.decoder, rows, &pairs, score);
        for (int i = 0; i < N; i++) {
            double expected = truth(d, &decoder, end[2 * i], end[2 * i + 1], relation[i]);
            cr_assert_float_eq(score[i], expected, 2e-5 * (1.0 + fabs(expected)), "decoder %d, pair %d: %g, not %g",
                               d, i, score[i], expected);
        }
        decoder_score(&decoder.decoder, rows, &tails, score);
        for (int i = 0; i < N * N_TAIL; i++) {
            double expected = truth(d, &decoder, end[2 * (i / N_TAIL)], tail[i], relation[i / N_TAIL]);
            cr_assert_float_eq(score[i], expected, 2e-5 * (1.0 + fabs(expected)), "decoder %d, tail %d", d, i);
        }
        test_decoder_close(&decoder);
    }
}

/* Bits, not values: partners and ranks compare scores of pairs with those of one node with all others. */
Test(decoder, a_pair_has_the_same_bits_in_any_batch_and_number_of_threads)
{
    for (int d = 0; d < N_DECODER; d++) {
        static float again[N], out[DECODER_LANES * DECODER_BLOCK];
        struct test_decoder decoder;
        struct decoder_lanes lanes;
        omp_set_num_threads(4);
        test_decoder_open(all[d], 2, WIDTH, N_RELATION, weight, &decoder);
        decoder_score(&decoder.decoder, rows, &pairs, score);
        omp_set_num_threads(1);
        decoder_lanes_open(&decoder.decoder, rows, &lanes);
        for (int64_t i = 0; i < N; i++) {
            const struct decoder_pairs one = {1, end + 2 * i, relation + i, 0, NULL};
            const struct decoder_question question = {end[2 * i + i % 2], relation[i], i % 2 != 0};
            const int64_t n = 1 + i % 3, lane = i % DECODER_LANES;
            const int64_t other = end[2 * i + 1 - i % 2], first = other < n ? 0 : other - n + 1;
            decoder_score(&decoder.decoder, rows, &one, &again[i]);
            cr_assert_eq(memcmp(&score[i], &again[i], sizeof *score), 0, "decoder %d, pair %d", d, (int)i);
            decoder_ask(&lanes, (int)lane, &question);
            decoder_answer(&lanes, first, n, out);
            cr_assert_eq(memcmp(&score[i], &out[lane * n + other - first], sizeof *score), 0, "decoder %d, pair %d",
                         d, (int)i);
        }
        decoder_lanes_close(&lanes);
        test_decoder_close(&decoder);
    }
}

Test(decoder, a_row_that_is_not_a_number_has_no_score)
{
    rows[end[0] * WIDTH + 1] = NAN;
    for (int d = 0; d < N_DECODER; d++) {
        struct test_decoder decoder;
        test_decoder_open(all[d], 2, WIDTH, N_RELATION, weight, &decoder);
        decoder_score(&decoder.decoder, rows, &pairs, score);
        cr_expect(isnan(score[0]), "decoder %d", d);
        test_decoder_close(&decoder);
    }
}
