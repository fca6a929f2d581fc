/* Residuals: what rounding loses of a payload row is added to it before it is written down the next time
 * (exchange.error_feedback).
 *
 *     x̃ = decode(encode(x(t) + r(t)))      r(t+1) = x(t) + r(t) − x̃      so that Σ_t x̃ = Σ_t x(t) + r(0) − r(T)
 *
 * A row is written down several times in an epoch: for each part that takes it, and again where it is fetched again.
 * All of them read the same residual and make the same next one, which takes its place when the epoch has ended, so
 * that neither the order of work nor recomputation shows. A row that a sample leaves out keeps its residual; what a
 * sample counts it is multiplied by where it is taken. Epochs in fp32 lose nothing: residuals are then 0. Knows
 * places, not how rows are coded.
 * source  Seide et al., INTERSPEECH 2014; Karimireddy et al., ICML 2019
 */
#ifndef WORKER_FEEDBACK_H
#define WORKER_FEEDBACK_H

#include "worker/halo/halo_state.h"

/* Where the program feeds errors back; else trainer->routes.feedback stays NULL. errors  STATUS_NOMEM. Closed also
 * after a failure */
enum status feedback_open(struct trainer *trainer);
void feedback_close(struct trainer *trainer);

/* Point the coding of own part i's rows of this direction's piece p at their residuals. */
void feedback_rows(const struct halo *h, enum halo_direction direction, int p, int32_t i, struct device_coding *how);

/* Likewise of the gradients that own part i makes of its pair k's rows. */
void feedback_gradients(const struct halo *h, int p, int32_t i, int32_t k, struct device_coding *how);

/* Multiply a piece's n_row decoded rows by what they count in a sample. */
void feedback_weigh(const struct halo *h, int64_t n_row, int64_t width, float *rows);

/* A training epoch at this level has ended: the next one's residuals. */
void feedback_settle(struct trainer *trainer, const struct level *level);

/* Own part i's, feedback_list_floats of them (host). */
enum status feedback_get(struct trainer *trainer, int32_t i, float *to);
enum status feedback_set(struct trainer *trainer, int32_t i, const float *from);

#endif
