/* The job's decoder (task.decoder): scores of pairs, and from slopes of the scores gradients of own rows and of the
 * decoder's weights. Layers run on some pairs at a time, so that no array has a row for each pair.
 */
#ifndef WORKER_LINK_DECODER_H
#define WORKER_LINK_DECODER_H

#include "worker/state/trainer_state.h"

/* Own part i's rows with others; the decoder adds its weights. */
struct link_pairs {
    const struct step *step; /* of kind LOSS */
    int32_t i;
    struct device_pairs pairs;
};

/* score[number] of each pair; of layers, where pairs have numbers, score has 0 there. */
void link_decoder_scores(const struct trainer *trainer, const struct link_pairs *of, float *score);

/* From slope[number] of each pair: added to the gradients of the own rows and of the decoder's weights. */
void link_decoder_gradients(const struct trainer *trainer, const struct link_pairs *of, const float *slope);

/* Of layers: scores, losses of pairs that are groups of their own, and gradients, some pairs at a time. */
void link_decoder_train(const struct trainer *trainer, const struct link_pairs *of,
                        const struct device_pair_losses *losses);

/* The weights' gradients of own part i are 0 before its pairs, and each pair was seen from both of its ends after. */
void link_decoder_begin(const struct trainer *trainer, int32_t i);
void link_decoder_end(const struct trainer *trainer, int32_t i);

#endif
