/* Metrics and the loss of links: how high edges rank among pairs of nodes without one.
 *
 * A pair's score is the dot product of its nodes' rows. Knows rows and pairs, neither graphs nor workers.
 */
#ifndef TRAINERD_SCORE_LINKS_H
#define TRAINERD_SCORE_LINKS_H

#include "partition/graph/links.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <stdint.h>

/* score[k] = Σ_c rows[head of k][c] · rows[tail of k][c], added in double in the order of the columns.
 *
 *   shapes  rows n_node × width · score pairs->n
 *   cost    n · width, on several threads; the same bits for any number of them
 */
void links_score(const float *rows, int64_t width, const struct links_pairs *pairs, float *score);

/* A copy of what is held out, to score rows after the dataset was released. owns: the caller: score_held_release,
 * also after a failure. errors  STATUS_NOMEM */
enum status score_held_copy(const struct links *links, struct links *out);
void score_held_release(struct links *links);

/* Scores of edges, and of what they are ranked among. */
struct score_links {
    int64_t n_positive;
    int64_t n_tail;     /* for each positive; 0: all are ranked among one pool */
    int64_t n_negative; /* of the pool, or n_positive × n_tail */
    float *positive, *negative;
};

/* Scores of a split's pairs, each as links_score has it. owns  the caller: score_links_close, also after a failure.
 * errors  STATUS_NOMEM */
enum status score_links_open(const struct links_held *held, const float *rows, int64_t width,
                             struct score_links *out);
void score_links_close(struct score_links *links);

/* Metrics of links, NaN where there is no edge or a score is not a number:
 *
 *   roc_auc, average_precision  as of nodes (score.h), over all edges and all negatives
 *   mrr      mean of 1 / rank, rank = (negatives above + negatives above or equal) / 2 + 1: among the pool, or among
 *            an edge's own tails
 *   hits@K   with a pool the share of edges above its K-th highest negative (fewer negatives: 1); with tails the
 *            share of edges whose rank is K at most
 *   shapes  out metrics->n
 *   owns    borrows all; allocates 16 bytes for each score while it runs, unless each metric is mrr or hits@K of
 *           tails
 *   errors  STATUS_NOMEM
 *   cost    sorts once, by 32-bit keys
 *   source  Hu et al., "Open Graph Benchmark", NeurIPS 2020: ogb.linkproppred.Evaluator, eval_metric "mrr" and
 *           "hits@K"
 */
enum status score_links_metrics(const struct job_choices *metrics, const struct score_links *links, double *out);

/* The loss: mean of softplus(-s) over edges + mean of softplus(s) over negatives, in double; NaN without an edge.
 *
 *   source  Kipf & Welling, "Variational graph auto-encoders", 2016; torch_geometric.nn.GAE.recon_loss, without its
 *           1e-15 inside the logarithm
 */
double score_links_loss(const struct score_links *links);

#endif
