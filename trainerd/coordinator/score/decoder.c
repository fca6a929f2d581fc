/* Of the dot product LANES pairs side by side: a column is LANES numbers. So loops over lanes vectorise, and each
 * lane's sum stays in the order of its columns. */
#include "trainerd/coordinator/score/decoder.h"

#include "models/steps/scorer.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define LANES DECODER_LANES
#define PAIRS (DECODER_LANES * DECODER_BLOCK) /* of a text at a time */

/* Products from which on threads save more than it takes to wake them: on busy cores that is milliseconds. */
#define PARALLEL_LEAST ((int64_t)1 << 22)

enum status decoder_open(const struct program *program, struct decoder *out)
{
    const struct device_ops *ops;
    *out = (struct decoder){.program = program, .width = program->value[program->logits].width};
    if (program->scorer == NULL) {
        return STATUS_OK;
    }
    enum status status = device_find("cpu", &ops);
    if (status == STATUS_OK) {
        status = ops->open(0, &out->device);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)program->n_weight, sizeof *out->weights, &out->weights);
    }
    if (status == STATUS_OK) {
        out->n_memory = (size_t)scorer_bytes(program, ops, false);
        status = ops->acquire(out->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, out->n_memory, &out->memory);
    }
    return status;
}

void decoder_close(struct decoder *decoder)
{
    if (decoder->memory != NULL) {
        decoder->device->ops->release(decoder->device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, decoder->memory,
                                      decoder->n_memory);
    }
    memory_release(MEMORY_OTHER, decoder->weights, (size_t)decoder->program->n_weight, sizeof *decoder->weights);
    if (decoder->device != NULL) {
        decoder->device->ops->close(decoder->device);
    }
    *decoder = (struct decoder){.program = decoder->program};
}

void decoder_lanes_open(const struct decoder *decoder, const float *rows, struct decoder_lanes *out)
{
    *out = (struct decoder_lanes){.decoder = decoder, .rows = rows};
    if (decoder->device == NULL) {
        out->column = memory_alloc((size_t)(decoder->width * LANES), sizeof *out->column);
        return;
    }
    for (int k = 0; k < 3; k++) {
        out->list[k] = memory_alloc(PAIRS, sizeof *out->list[k]);
    }
}

void decoder_lanes_close(struct decoder_lanes *lanes)
{
    free(lanes->column);
    for (int k = 0; k < 3; k++) {
        free(lanes->list[k]);
    }
    *lanes = (struct decoder_lanes){0};
}

void decoder_ask(struct decoder_lanes *lanes, int lane, const struct decoder_question *question)
{
    const int64_t width = lanes->decoder->width;
    lanes->question[lane] = *question;
    for (int64_t c = 0; c < width && lanes->column != NULL; c++) {
        lanes->column[c * LANES + lane] = (double)lanes->rows[question->node * width + c];
    }
}

/* --- texts --- */

/* Pairs of the lists. */
static void lists_score(const struct decoder_lanes *lanes, int64_t n, float *score)
{
    const struct decoder *decoder = lanes->decoder;
    const struct scorer scorer = {.device = decoder->device,
                                  .ops = decoder->device->ops,
                                  .program = decoder->program,
                                  .weights = decoder->weights,
                                  .memory = decoder->memory,
                                  .by_window = true};
    const struct scorer_pairs pairs = {.n = n,
                                       .rows = {lanes->rows, lanes->rows},
                                       .list = {lanes->list[SCORER_HEAD], lanes->list[SCORER_TAIL]},
                                       .relations = lanes->list[2]};
    memset(score, 0, (size_t)n * sizeof *score);
    scorer_scores(&scorer, &pairs, score);
}

static void list_put(const struct decoder_lanes *lanes, int64_t i, uint32_t head, uint32_t tail, int relation)
{
    lanes->list[SCORER_HEAD][i] = head;
    lanes->list[SCORER_TAIL][i] = tail;
    lanes->list[2][i] = relation >= 0 ? (uint32_t)relation : 0;
}

/* --- dot products --- */

/* out[lane] = Σ_c column[c][lane] · row[c] */
static void sums_make(const double *column, int64_t width, const float *row, float out[LANES])
{
    double sum[LANES] = {0};
    for (int64_t c = 0; c < width; c++) {
        for (int lane = 0; lane < LANES; lane++) {
            sum[lane] += column[c * LANES + lane] * row[c];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        out[lane] = (float)sum[lane];
    }
}

void decoder_answer(const struct decoder_lanes *lanes, int64_t first, int64_t n, float *score)
{
    const int64_t width = lanes->decoder->width;
    for (int64_t k = 0; k < n && lanes->column != NULL; k++) {
        float of_lane[LANES];
        sums_make(lanes->column, width, lanes->rows + (first + k) * width, of_lane);
        for (int lane = 0; lane < LANES; lane++) {
            score[lane * n + k] = of_lane[lane];
        }
    }
    for (int64_t i = 0; i < LANES * n && lanes->column == NULL; i++) {
        const struct decoder_question *q = &lanes->question[i / n];
        const uint32_t other = (uint32_t)(first + i % n);
        list_put(lanes, i, q->is_tail ? other : q->node, q->is_tail ? q->node : other, q->relation);
    }
    if (lanes->column == NULL) {
        lists_score(lanes, LANES * n, score);
    }
}

/* --- pairs --- */

struct ends {
    uint32_t head, tail;
    int relation;
};

static struct ends ends_of(const struct decoder_pairs *pairs, int64_t k)
{
    int64_t of = pairs->n_tail > 0 ? k / pairs->n_tail : k;
    return (struct ends){.head = pairs->end[2 * of],
                         .tail = pairs->n_tail > 0 ? pairs->tail[k] : pairs->end[2 * k + 1],
                         .relation = pairs->relation != NULL ? pairs->relation[of] : -1};
}

static float dot_of(const struct decoder *decoder, const float *rows, struct ends ends)
{
    const float *head = rows + ends.head * decoder->width, *tail = rows + ends.tail * decoder->width;
    double sum = 0.0;
    for (int64_t c = 0; c < decoder->width; c++) {
        sum += (double)head[c] * tail[c];
    }
    return (float)sum;
}

static void texts_score(const struct decoder *decoder, const float *rows, const struct decoder_pairs *pairs,
                        int64_t n, float *score)
{
    struct decoder_lanes lanes;
    decoder_lanes_open(decoder, rows, &lanes);
    for (int64_t first = 0; first < n; first += PAIRS) {
        const int64_t n_here = n - first < PAIRS ? n - first : PAIRS;
        for (int64_t i = 0; i < n_here; i++) {
            const struct ends ends = ends_of(pairs, first + i);
            list_put(&lanes, i, ends.head, ends.tail, ends.relation);
        }
        lists_score(&lanes, n_here, score + first);
    }
    decoder_lanes_close(&lanes);
}

void decoder_score(const struct decoder *decoder, const float *rows, const struct decoder_pairs *pairs, float *score)
{
    const int64_t n = pairs->n_tail > 0 ? pairs->n * pairs->n_tail : pairs->n;
    if (decoder->device != NULL) {
        texts_score(decoder, rows, pairs, n, score);
        return;
    }
#pragma omp parallel for schedule(static) if (n * decoder->width > PARALLEL_LEAST)
    for (int64_t k = 0; k < n; k++) {
        score[k] = dot_of(decoder, rows, ends_of(pairs, k));
    }
}
