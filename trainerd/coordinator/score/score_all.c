/* LANES questions and BLOCK nodes at a time: their scores, and for each question how many are above the edge's. Those
 * of nodes that are no candidates become NaN, which no comparison counts. */
#include "trainerd/coordinator/score/score_all.h"

#include "trainerd/coordinator/score/score_loss.h"

#include <math.h>

#define LANES DECODER_LANES
#define BLOCK DECODER_BLOCK

/* A question under way. */
struct lane {
    int64_t known, known_end; /* of known->node: those that are not passed yet */
    uint32_t node;            /* asked about, no candidate itself */
    float positive;
    int64_t n, n_number; /* candidates so far, and those whose score is a number */
    int64_t n_above, n_not_below;
    double loss;
    struct log_sum exponentials;
};

struct ranking {
    const struct score_rows *rows;
    const struct links_pairs *edges;
    const float *positive;
    const struct links_known *known;
    const struct job *job; /* NULL: no losses */
};

static struct lane lane_begin(const struct ranking *of, int64_t i)
{
    const int64_t *begin = of->known->begin + of->known->row[i];
    float positive = of->positive[i / 2];
    return (struct lane){.known = begin[0],
                         .known_end = begin[1],
                         .node = of->edges->end[i],
                         .positive = positive,
                         .exponentials = log_sum_make(positive)};
}

/* Of nodes first to first + n - 1: no candidates are the node that is asked about, and those that are known. */
static void lane_leave_out(const struct ranking *of, int64_t first, int64_t n, struct lane *lane, float *score)
{
    lane->n += n;
    if (lane->node >= first && lane->node < first + n) {
        score[lane->node - first] = NAN;
        lane->n--;
    }
    for (; lane->known < lane->known_end && of->known->node[lane->known] < first + n; lane->known++) {
        score[of->known->node[lane->known] - first] = NAN;
        lane->n--;
    }
}

static void lane_count(int64_t n, const float *score, struct lane *lane)
{
    int n_above = 0, n_not_below = 0, n_number = 0;
    for (int64_t k = 0; k < n; k++) {
        n_above += score[k] > lane->positive;
        n_not_below += score[k] >= lane->positive;
        n_number += score[k] == score[k];
    }
    lane->n_above += n_above;
    lane->n_not_below += n_not_below;
    lane->n_number += n_number;
}

static void lane_lose(const struct job *job, int64_t n, const float *score, struct lane *lane)
{
    for (int64_t k = 0; k < n; k++) {
        if (isnan(score[k])) {
            continue;
        }
        if (job->train.loss == JOB_LOSS_MARGIN) {
            double over = job->task.margin - lane->positive + score[k];
            lane->loss += over < 0.0 ? 0.0 : over;
        } else if (job->train.loss == JOB_LOSS_CROSS_ENTROPY) {
            log_sum_add(&lane->exponentials, score[k]);
        } else {
            lane->loss += softplus(score[k]);
        }
    }
}

static struct score_rank lane_end(const struct job *job, const struct lane *lane)
{
    struct score_rank out = {
        .rank = 0.5 * (double)(lane->n_above + lane->n_not_below) + 1.0, .loss = lane->loss, .n = lane->n};
    if (job != NULL && job->train.loss == JOB_LOSS_MARGIN) {
        out.loss = lane->n > 0 ? lane->loss / (double)lane->n : 0.0;
    } else if (job != NULL && job->train.loss == JOB_LOSS_CROSS_ENTROPY) {
        out.loss = log_sum_end(&lane->exponentials) - lane->positive;
    }
    if (lane->n_number < lane->n || isnan(lane->positive)) {
        out.rank = out.loss = NAN;
    }
    return out;
}

/* Questions first_question to first_question + n_lane - 1. */
static void lanes_rank(const struct ranking *of, struct decoder_lanes *lanes, int64_t first_question, int n_lane,
                       struct score_rank *out)
{
    struct lane lane[LANES];
    float score[LANES * BLOCK];
    for (int l = 0; l < n_lane; l++) {
        int64_t i = first_question + l;
        lane[l] = lane_begin(of, i);
        decoder_ask(lanes, l,
                    &(struct decoder_question){
                        .node = lane[l].node, .relation = links_relation(of->edges, i / 2), .is_tail = i % 2 != 0});
    }
    for (int64_t first = 0; first < of->rows->n_node; first += BLOCK) {
        int64_t n = of->rows->n_node - first < BLOCK ? of->rows->n_node - first : BLOCK;
        decoder_answer(lanes, first, n, score);
        for (int l = 0; l < n_lane; l++) {
            lane_leave_out(of, first, n, &lane[l], score + l * n);
            lane_count(n, score + l * n, &lane[l]);
            if (of->job != NULL) {
                lane_lose(of->job, n, score + l * n, &lane[l]);
            }
        }
    }
    for (int l = 0; l < n_lane; l++) {
        out[l] = lane_end(of->job, &lane[l]);
    }
}

void score_all_rank(const struct score_rows *rows, const struct links_pairs *edges, const float *positive,
                    const struct links_known *known, const struct job *job, struct score_rank *out)
{
    const struct ranking of = {rows, edges, positive, known, job};
#pragma omp parallel if (rows->decoder->device == NULL)
    {
        struct decoder_lanes lanes;
        decoder_lanes_open(rows->decoder, rows->of, &lanes);
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < 2 * edges->n; first += LANES) {
            int n = (int)(2 * edges->n - first < LANES ? 2 * edges->n - first : LANES);
            lanes_rank(&of, &lanes, first, n, out + first);
        }
        decoder_lanes_close(&lanes);
    }
}
