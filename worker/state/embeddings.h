/* Embeddings: weights that live with a part, one column of them for each of its nodes without features.
 *
 * Drawn, stepped, read and set where the part is, and nowhere else: their gradients are whole there, so that nothing
 * of them takes part in a reduction. They stay in memory, with a spill too. Laid out as struct parameter says, part
 * after part.
 */
#ifndef WORKER_EMBEDDINGS_H
#define WORKER_EMBEDDINGS_H

#include "worker/state/trainer_state.h"

/* Draw those of all own parts. errors  STATUS_IO of the spill */
enum status embeddings_draw(struct trainer *trainer);

/* Where a parameter's lie for own part i, in one of trainer->parameters.embeddings' arrays; NULL: not present
 * there. */
float *embeddings_at(const struct trainer *trainer, float *array, int param, int32_t i);

/* A parameter's step for all own parts. */
void embeddings_step(struct trainer *trainer, int param, const struct device_step *how);

#endif
