/* The job's decoder (task.decoder): scores of pairs, and from slopes of the scores gradients of own rows and of the
 * decoder's weights. The dot product has operations of its own, a text a scorer.
 */
#ifndef WORKER_LINK_DECODER_H
#define WORKER_LINK_DECODER_H

#include "worker/pairs/pairs_list.h"
#include "worker/state/trainer_state.h"

/* Own part i's rows with others; the decoder adds its weights. */
struct link_pairs {
    const struct step *step; /* of kind LOSS */
    int32_t i;
    const struct pairs_list *list;
    const float *own, *x; /* rows of own part i, and of the other one */
    bool numbered;        /* scores and slopes stand where the list's numbers say, else in its order */
};

/* score[number] of each pair, which has 0 there. */
void link_decoder_scores(const struct trainer *trainer, const struct link_pairs *pairs, float *score);

/* From slope[number] of each pair: added to the gradients of the own rows and of the decoder's weights. */
void link_decoder_gradients(const struct trainer *trainer, const struct link_pairs *pairs, const float *slope);

/* Of a text: the same from the losses of pairs that are groups of their own, which are added to the part's. */
void link_decoder_train(const struct trainer *trainer, const struct link_pairs *pairs,
                        const struct device_pair_losses *losses);

/* The weights' gradients of own part i are 0 before its pairs, and each pair was seen from both of its ends after. */
void link_decoder_begin(const struct trainer *trainer, int32_t i);
void link_decoder_end(const struct trainer *trainer, int32_t i);

#endif
