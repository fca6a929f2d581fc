/* Held-out edges ranked among all nodes (task.candidates = "all"): each tail among all tails of its head, and each
 * head among all heads of its tail, without those that make a known edge.
 */
#ifndef TRAINERD_SCORE_ALL_H
#define TRAINERD_SCORE_ALL_H

#include "partition/links/links_known.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/score/decoder.h"

#include <stdint.h>

/* The rows of all nodes, and what makes scores of two. */
struct score_rows {
    const struct decoder *decoder;
    const float *of; /* n_node × decoder->width */
    int64_t n_node;
};

/* Of question i of links_known_held: how high the edge's score is among the candidates'. */
struct score_rank {
    double rank; /* the mean of the best and the worst place among equal scores; NaN: a score is not a number */
    double
        loss;  /* of train.loss: a sum over candidates for bce, of margin and cross-entropy as in score_links_loss */
    int64_t n; /* candidates */
};

/* Rank all questions.
 *
 *   shapes  positive n edges: their scores · known of 2 × n questions · out 2 × n
 *   notes   job: that of the loss; NULL: the losses stay 0
 *   owns    borrows all; allocates a struct decoder_lanes and LANES × BLOCK scores for each thread while it runs
 *   cost    2 · n · n_node scores, on several threads; the same bits for any number of them
 *   source  Bordes et al., NIPS 2013: the filtered setting
 */
void score_all_rank(const struct score_rows *rows, const struct links_pairs *edges, const float *positive,
                    const struct links_known *known, const struct job *job, struct score_rank *out);

#endif
