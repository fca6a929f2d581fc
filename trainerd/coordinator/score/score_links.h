/* Metrics and the loss of links: how high edges rank among pairs of nodes without one.
 *
 * Knows rows, pairs and a decoder, neither graphs nor workers.
 */
#ifndef TRAINERD_SCORE_LINKS_H
#define TRAINERD_SCORE_LINKS_H

#include "partition/graph/links.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/score/score_all.h"

#include <stdint.h>

/* The scores of pairs (decoder.h).  shapes  rows n_node × decoder->width · score pairs->n */
void links_score(const struct decoder *decoder, const float *rows, const struct links_pairs *pairs, float *score);

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
    struct score_rank *rank; /* n_positive × 2, of those that are ranked among all nodes, tail and head; else NULL */
};

/* Scores of a split's pairs, each as links_score has it. known: of edges among all nodes (links_known_held). job: of
 * the loss, which will be asked for; NULL: it will not. owns  the caller: score_links_close, also after a failure.
 * errors  STATUS_NOMEM */
enum status score_links_open(const struct links_held *held, const struct links_known *known,
                             const struct score_rows *rows, const struct job *job, struct score_links *out);
void score_links_close(struct score_links *links);

/* Metrics of links, NaN where there is no edge or a score is not a number:
 *
 *   roc_auc, average_precision  as of nodes (score.h), over all edges and all negatives
 *   mrr      mean of 1 / rank, rank = (negatives above + negatives above or equal) / 2 + 1: among the pool, or among
 *            an edge's own tails
 *   hits@K   with a pool the share of edges above its K-th highest negative (fewer negatives: 1); with tails the
 *            share of edges whose rank is K at most
 *   Among all nodes an edge has two ranks, of its tail and of its head: mrr and hits@K are means over both, and the
 *   first two metrics are NaN.
 *   shapes  out metrics->n
 *   owns    borrows all; allocates 16 bytes for each score while it runs, unless each metric is mrr or hits@K of
 *           tails
 *   errors  STATUS_NOMEM
 *   cost    sorts once, by 32-bit keys
 *   source  Hu et al., "Open Graph Benchmark", NeurIPS 2020: ogb.linkproppred.Evaluator, eval_metric "mrr" and
 *           "hits@K"
 */
enum status score_links_metrics(const struct job_choices *metrics, const struct score_links *links, double *out);

/* The job's train.loss of the held-out edges, in double; NaN without an edge. s⁺ is an edge's score, s⁻ those of its
 * own negatives: its tails, or pair number i mod m of a pool of m for edge i.
 *
 *   bce            mean over edges of log(1 + exp(−s⁺)) + mean over negatives of log(1 + exp(s⁻))
 *   margin         mean over edges of the mean over their negatives of max(0, task.margin − s⁺ + s⁻)
 *   cross_entropy  mean over edges of log(exp(s⁺) + Σ exp(s⁻)) − s⁺
 *   notes   among all nodes an edge has negatives of its own for each end, the candidates there: means over edges are
 *           over both ends
 *   source  Kipf & Welling, "Variational graph auto-encoders", 2016; torch_geometric.nn.GAE.recon_loss, without its
 *           1e-15 inside the logarithm. Bordes et al., NIPS 2013, eq. 1
 */
double score_links_loss(const struct job *job, const struct score_links *links);

#endif
