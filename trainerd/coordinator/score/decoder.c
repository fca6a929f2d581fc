/* LANES pairs side by side: a column, or a layer's output, is LANES numbers. So loops over lanes vectorise, and each
 * lane's sum stays in the order of its columns. */
#include "trainerd/coordinator/score/decoder.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define LANES DECODER_LANES

/* Products from which on threads save more than it takes to wake them: on busy cores that is milliseconds. */
#define PARALLEL_LEAST ((int64_t)1 << 22)

struct decoder decoder_of(const struct job *job, const struct program *program, const float *arena)
{
    struct decoder decoder = {.width = program->value[program->logits].width};
    if (program->decoder < 0) {
        return decoder;
    }
    const struct parameter *param = program->param + program->decoder;
    if (job->task.decoder == JOB_DECODER_DISTMULT) {
        decoder.relations = arena + param->offset;
        return decoder;
    }
    decoder.n_layer = (program->n_param - program->decoder) / 2;
    ASSERT(decoder.n_layer <= DECODER_LAYERS_MOST);
    for (int i = 0; i < decoder.n_layer; i++) {
        const struct parameter *weight = &param[2 * i], *bias = &param[2 * i + 1];
        decoder.layer[i] = (struct decoder_layer){.f_in = weight->shape[1],
                                                  .f_out = weight->shape[0],
                                                  .weight = arena + weight->offset,
                                                  .bias = arena + bias->offset};
    }
    return decoder;
}

/* Products of a pair. */
static int64_t cost_of(const struct decoder *decoder)
{
    int64_t n = decoder->width;
    for (int i = 0; i < decoder->n_layer; i++) {
        n += decoder->layer[i].f_in * decoder->layer[i].f_out;
    }
    return n;
}

/* Columns of the widest array of the layers, their input included. */
static int64_t widest(const struct decoder *decoder)
{
    int64_t most = decoder->width;
    for (int i = 0; i < decoder->n_layer; i++) {
        most = decoder->layer[i].f_out > most ? decoder->layer[i].f_out : most;
    }
    return most;
}

void decoder_lanes_open(const struct decoder *decoder, struct decoder_lanes *out)
{
    *out = (struct decoder_lanes){.decoder = decoder, .n_spare = widest(decoder) * LANES};
    out->asked = memory_alloc((size_t)(decoder->width * LANES), sizeof *out->asked);
    out->spare = memory_alloc((size_t)(2 * out->n_spare), sizeof *out->spare);
}

void decoder_lanes_close(struct decoder_lanes *lanes)
{
    free(lanes->spare);
    free(lanes->asked);
    *lanes = (struct decoder_lanes){0};
}

/* A product of two floats is exact in double: with a relation either end's row may come first. */
void decoder_ask(const struct decoder_lanes *lanes, int lane, const float *row, int relation)
{
    int64_t width = lanes->decoder->width;
    const float *of = lanes->decoder->relations != NULL ? lanes->decoder->relations + relation * width : NULL;
    for (int64_t c = 0; c < width; c++) {
        lanes->asked[c * LANES + lane] = of != NULL ? (double)row[c] * of[c] : (double)row[c];
    }
}

/* out[o] = Σ_i weight[o][i] · in[i] + bias[o], and relu of it. */
static void layer_make(const struct decoder_layer *layer, bool relu, const double *in, double *out)
{
    for (int64_t o = 0; o < layer->f_out; o++) {
        double sum[LANES] = {0};
        for (int64_t i = 0; i < layer->f_in; i++) {
            double weight = layer->weight[o * layer->f_in + i];
            for (int lane = 0; lane < LANES; lane++) {
                sum[lane] += weight * in[i * LANES + lane];
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            double y = sum[lane] + layer->bias[o];
            out[o * LANES + lane] = relu && y < 0.0 ? 0.0 : y;
        }
    }
}

static void layers_make(const struct decoder_lanes *lanes, float out[LANES])
{
    const struct decoder *decoder = lanes->decoder;
    double *in = lanes->spare, *next = lanes->spare + lanes->n_spare;
    for (int i = 0; i < decoder->n_layer; i++) {
        layer_make(&decoder->layer[i], i + 1 < decoder->n_layer, in, next);
        double *made = next;
        next = in;
        in = made;
    }
    for (int lane = 0; lane < LANES; lane++) {
        out[lane] = (float)in[lane];
    }
}

/* The scores of products, which are in the first half of the spare memory. */
static void products_score(const struct decoder_lanes *lanes, float out[LANES])
{
    double sum[LANES] = {0};
    if (lanes->decoder->n_layer > 0) {
        layers_make(lanes, out);
        return;
    }
    for (int64_t c = 0; c < lanes->decoder->width; c++) {
        for (int lane = 0; lane < LANES; lane++) {
            sum[lane] += lanes->spare[c * LANES + lane];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        out[lane] = (float)sum[lane];
    }
}

/* out[lane] = Σ_c asked[c][lane] · row[c] */
static void sums_make(const double *asked, int64_t width, const float *row, float out[LANES])
{
    double sum[LANES] = {0};
    for (int64_t c = 0; c < width; c++) {
        for (int lane = 0; lane < LANES; lane++) {
            sum[lane] += asked[c * LANES + lane] * row[c];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        out[lane] = (float)sum[lane];
    }
}

void decoder_answer(const struct decoder_lanes *lanes, const float *row, float out[LANES])
{
    int64_t width = lanes->decoder->width;
    if (lanes->decoder->n_layer == 0) {
        sums_make(lanes->asked, width, row, out);
        return;
    }
    for (int64_t c = 0; c < width; c++) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes->spare[c * LANES + lane] = lanes->asked[c * LANES + lane] * row[c];
        }
    }
    products_score(lanes, out);
}

/* A pair's ends and relation. */
struct one {
    const float *head, *tail;
    int relation;
};

static struct one pair_of(const struct decoder_pairs *pairs, const float *rows, int64_t width, int64_t k)
{
    int64_t of = pairs->n_tail > 0 ? k / pairs->n_tail : k;
    uint32_t tail = pairs->n_tail > 0 ? pairs->tail[k] : pairs->end[2 * k + 1];
    return (struct one){.head = rows + pairs->end[2 * of] * width,
                        .tail = rows + tail * width,
                        .relation = pairs->relation != NULL ? pairs->relation[of] : -1};
}

/* Pairs first to first + n - 1: their products, and what is made of these. */
static void batch_score(const struct decoder_lanes *lanes, const float *rows, const struct decoder_pairs *pairs,
                        int64_t first, int n, float out[LANES])
{
    int64_t width = lanes->decoder->width;
    for (int lane = 0; lane < n; lane++) {
        const struct one pair = pair_of(pairs, rows, width, first + lane);
        decoder_ask(lanes, lane, pair.head, pair.relation);
        for (int64_t c = 0; c < width; c++) {
            lanes->spare[c * LANES + lane] = lanes->asked[c * LANES + lane] * pair.tail[c];
        }
    }
    products_score(lanes, out);
}

void decoder_score(const struct decoder *decoder, const float *rows, const struct decoder_pairs *pairs, float *score)
{
    int64_t n = pairs->n_tail > 0 ? pairs->n * pairs->n_tail : pairs->n;
#pragma omp parallel if (n * cost_of(decoder) > PARALLEL_LEAST)
    {
        struct decoder_lanes lanes;
        decoder_lanes_open(decoder, &lanes);
#pragma omp for schedule(static)
        for (int64_t first = 0; first < n; first += LANES) {
            float out[LANES];
            int n_here = (int)(n - first < LANES ? n - first : LANES);
            batch_score(&lanes, rows, pairs, first, n_here, out);
            memcpy(score + first, out, (size_t)n_here * sizeof *out);
        }
        decoder_lanes_close(&lanes);
    }
}
