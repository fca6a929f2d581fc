/* Scores of pairs against plain loops over columns and layers. */
#include "protocol/base/random.h"
#include "trainerd/coordinator/score/decoder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { N_NODE = 60, N = 333, N_TAIL = 3, WIDTH = 21, N_RELATION = 4, MOST = 1 << 16 };

static float rows[N_NODE * WIDTH], weights[MOST], score[N * N_TAIL];
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
    for (int i = 0; i < MOST; i++) {
        weights[i] = number(i, 1);
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

static const struct decoder dot = {.width = WIDTH}, distmult = {.width = WIDTH, .relations = weights};

/* Layers of these widths, one after another in the weights. */
static struct decoder mlp(int n_layer, const int64_t *f_out)
{
    struct decoder decoder = {.width = WIDTH, .n_layer = n_layer};
    int64_t f_in = WIDTH, at = 0;
    for (int i = 0; i < n_layer; i++) {
        decoder.layer[i] = (struct decoder_layer){f_in, f_out[i], weights + at, weights + at + f_in * f_out[i]};
        at += (f_in + 1) * f_out[i];
        f_in = f_out[i];
    }
    cr_assert(at <= MOST && f_in == 1);
    return decoder;
}

static double truth(const struct decoder *decoder, uint32_t a, uint32_t b, uint32_t r)
{
    double x[64], y[64], sum = 0.0;
    for (uint32_t c = 0; c < WIDTH; c++) {
        double of = decoder->relations != NULL ? decoder->relations[r * WIDTH + c] : 1.0;
        x[c] = of * rows[a * WIDTH + c] * rows[b * WIDTH + c];
        sum += x[c];
    }
    for (int l = 0; l < decoder->n_layer; l++) {
        const struct decoder_layer *layer = &decoder->layer[l];
        for (int64_t o = 0; o < layer->f_out; o++) {
            y[o] = layer->bias[o];
            for (int64_t i = 0; i < layer->f_in; i++) {
                y[o] += x[i] * layer->weight[o * layer->f_in + i];
            }
            y[o] = l + 1 < decoder->n_layer && y[o] < 0.0 ? 0.0 : y[o];
        }
        memcpy(x, y, sizeof x);
        sum = x[0];
    }
    return sum;
}

static void expect_scores(const struct decoder *decoder)
{
    decoder_score(decoder, rows, &pairs, score);
    for (int i = 0; i < N; i++) {
        double expected = truth(decoder, end[2 * i], end[2 * i + 1], relation[i]);
        cr_assert_float_eq(score[i], expected, 1e-6 * (1.0 + fabs(expected)), "pair %d: %g, not %g", i, score[i],
                           expected);
    }
    decoder_score(decoder, rows, &tails, score);
    for (int i = 0; i < N * N_TAIL; i++) {
        double expected = truth(decoder, end[2 * (i / N_TAIL)], tail[i], relation[i / N_TAIL]);
        cr_assert_float_eq(score[i], expected, 1e-6 * (1.0 + fabs(expected)), "tail %d", i);
    }
}

Test(decoder, scores_are_what_their_formulas_say)
{
    const struct decoder one = mlp(1, (int64_t[]){1}), two = mlp(2, (int64_t[]){32, 1}),
                         four = mlp(4, (int64_t[]){5, 33, 1, 1});
    const struct decoder *const all[] = {&dot, &distmult, &one, &two, &four};
    for (int i = 0; i < 5; i++) {
        expect_scores(all[i]);
    }
}

/* Bits, not values: partners and ranks compare scores of pairs with those of one node with all others. */
Test(decoder, a_pair_has_the_same_bits_from_either_end_in_any_batch_and_number_of_threads)
{
    const struct decoder two = mlp(2, (int64_t[]){32, 1});
    const struct decoder *const all[] = {&dot, &distmult, &two};
    for (int d = 0; d < 3; d++) {
        static float again[N];
        omp_set_num_threads(4);
        decoder_score(all[d], rows, &pairs, score);
        omp_set_num_threads(1);
        for (int64_t i = 0; i < N; i++) {
            struct decoder_lanes lanes;
            float out[DECODER_LANES];
            uint32_t other[] = {end[2 * i + 1], end[2 * i]};
            const struct decoder_pairs one = {1, other, relation + i, 0, NULL};
            decoder_score(all[d], rows, &one, &again[i]);
            cr_assert_eq(memcmp(&score[i], &again[i], sizeof *score), 0, "decoder %d, pair %d", d, (int)i);
            decoder_lanes_open(all[d], &lanes);
            decoder_ask(&lanes, (int)(i % DECODER_LANES), rows + end[2 * i] * WIDTH, relation[i]);
            decoder_answer(&lanes, rows + end[2 * i + 1] * WIDTH, out);
            cr_assert_eq(memcmp(&score[i], &out[i % DECODER_LANES], sizeof *score), 0, "decoder %d, pair %d", d,
                         (int)i);
            decoder_lanes_close(&lanes);
        }
    }
}

Test(decoder, a_row_that_is_not_a_number_has_no_score)
{
    const struct decoder two = mlp(2, (int64_t[]){32, 1});
    const struct decoder *const all[] = {&dot, &distmult, &two};
    rows[end[0] * WIDTH + 1] = NAN;
    for (int d = 0; d < 3; d++) {
        decoder_score(all[d], rows, &pairs, score);
        cr_expect(isnan(score[0]), "decoder %d", d);
    }
}

/* The places of the weights in an arena: the last parameters of the program. */
Test(decoder, weights_are_the_last_parameters_of_the_program)
{
    struct value value[] = {{.width = 3}, {.width = WIDTH}};
    struct parameter param[] = {{.shape = {9, 9}},
                                {.shape = {32, WIDTH}, .offset = 96},
                                {.shape = {32}, .offset = 768},
                                {.shape = {1, 32}, .offset = 800},
                                {.shape = {1}, .offset = 832}};
    struct program program = {.n_value = 2, .value = value, .n_param = 5, .param = param, .logits = 1, .decoder = -1};
    struct job job = {.task.kind = JOB_TASK_LINK};
    struct decoder found = decoder_of(&job, &program, NULL);
    cr_assert(found.width == WIDTH && found.relations == NULL && found.n_layer == 0);
    program.decoder = 1;
    job.task.decoder = JOB_DECODER_MLP;
    found = decoder_of(&job, &program, weights);
    cr_assert(found.n_layer == 2 && found.layer[0].f_in == WIDTH && found.layer[0].f_out == 32 &&
              found.layer[1].f_in == 32 && found.layer[1].f_out == 1);
    cr_assert(found.layer[0].weight == weights + 96 && found.layer[0].bias == weights + 768 &&
              found.layer[1].weight == weights + 800 && found.layer[1].bias == weights + 832);
    job.task.decoder = JOB_DECODER_DISTMULT;
    found = decoder_of(&job, &program, weights);
    cr_assert(found.n_layer == 0 && found.relations == weights + 96);
}
