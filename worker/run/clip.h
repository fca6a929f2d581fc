/* Gradient clipping (train.clip_norm): all gradients of an epoch are multiplied by one factor, so that their norm is
 * at most so much.
 *
 * The norm is of the whole gradient, all parameters' and all parts' embeddings: squares of embeddings are summed by
 * part and go along the tree with the gradients, those of the others are added up by every rank alike. Gradients stay
 * as they are, the step multiplies: norm and factor do not leave the device.
 */
#ifndef WORKER_CLIP_H
#define WORKER_CLIP_H

#include "worker/state/trainer_state.h"

/* Before gradients are reduced: squares of each own part's embeddings, among its sums. */
void clip_begin(struct trainer *trainer);

/* After it: the factor's place on the device, NULL without clipping. The norm is then on its way to
 * trainer->memory.shared. */
const double *clip_end(struct trainer *trainer);

#endif
