/* The partners of nodes: the other nodes with the highest scores, of all nodes of a graph.
 *
 * A pair's score is the decoder's, the same float32 as in decoder_score. Knows rows and what is asked, neither graphs
 * nor workers.
 */
#ifndef TRAINERD_PARTNERS_H
#define TRAINERD_PARTNERS_H

#include "partition/links/links_asked.h"
#include "trainerd/coordinator/score/decoder.h"

#include <stdint.h>

/* For each asked node the k nodes with the highest scores, highest first, of equal scores the smaller node first;
 * neither the node itself nor one that an edge joins with it (asked->known), nor one whose score is not a number.
 * Where there are fewer, node -1 and score NaN fill the places.
 *
 *   shapes  rows n_node × decoder->width · node_out, score_out asked->n × k
 *   owns    borrows all; allocates a struct decoder_lanes for each thread while it runs: the heap of k is in the
 *           node's own places of the output
 *   cost    asked->n · n_node scores, on several threads; the same bits for any number of them
 */
void partners_find(const struct decoder *decoder, const float *rows, int64_t n_node, const struct links_asked *asked,
                   int64_t k, int64_t *node_out, float *score_out);

#endif
