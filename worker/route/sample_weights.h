/* Importance sampling (exchange.sampling_weights = "edges"): each row of a pair of parts has a chance of its own, which grows with what its
 * edges between the two count.
 *
 *   p_u = c · sqrt(Σ_v a_vu²), at least p / 10 and at most 1, with c such that Σ_u p_u = p · n
 *
 * over edges from u, a row of one part, to rows v of the other, and a_vu the edge's coefficient in the sum that the program makes. Both parts
 * have these edges, add them up in the same order and so find the same thresholds, whatever the number of workers. Knows a part and
 * the program's scales, no epoch.
 * source  Σ_u ‖column u of A‖² x_u² / p_u is least for such p_u where rows x_u are alike; FastGCN (Chen et al., ICLR 2018) for a layer
 */
#ifndef WORKER_SAMPLE_WEIGHTS_H
#define WORKER_SAMPLE_WEIGHTS_H

#include "worker/rows/part_device.h"

/* sqrt(Σ_v a_vu²) of the rows that the part takes of its pair k (IN), or gives to it (OUT).
 *
 *   shapes  out n payload rows of the block (IN), or n rows listed (OUT)
 *   cost    an addition for each edge of the block
 */
void sample_row_weights(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                        int32_t k, double *out);

/* Thresholds of n rows, from their weights: a row whose draw of 32 bits is below its own is in the sample.
 *
 *   shapes  weight, out n: at least 1, and 2³² - 1 where p_u is 1
 *   units   0 < p < 1
 *   cost    n × some 60 additions
 */
void sample_thresholds(int64_t n, double p, const double *weight, uint32_t *out);

#endif
