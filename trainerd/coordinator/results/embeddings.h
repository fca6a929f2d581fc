/* Which nodes' embeddings live with which part, and their way between workers and whole tensors, part by part.
 *
 * A coordinator holds the tensors only while it reads or writes a file of weights.
 */
#ifndef TRAINERD_EMBEDDINGS_H
#define TRAINERD_EMBEDDINGS_H

#include "partition/part/part.h"
#include "partition/partition.h"
#include "trainerd/coordinator/fleet/fleet.h"
#include "trainerd/coordinator/results/weights.h"

struct embeddings {
    int32_t n_part;
    int64_t n_node;   /* nodes that have one */
    uint32_t *column; /* n_node: of the features, part after part in the parts' order */
    int64_t width;    /* floats of each */
    int64_t *n_float; /* n_part: that live with the part; NULL: none anywhere */
};

/* owns  the caller owns *out: embeddings_release. errors  STATUS_NOMEM. cost  one look at each node; 4 bytes for each of n_node */
enum status embeddings_build(const struct dataset *dataset, const struct partition *partition, const struct part_sizes *sizes,
                             const struct program *program, struct embeddings *out);
void embeddings_release(struct embeddings *embeddings);

/* Take a state's (fleet_get) into the tensors; give the tensors' to the workers. Memory: one part's. errors  those of the fleet */
enum status embeddings_get(const struct embeddings *embeddings, struct fleet *fleet, uint32_t what, struct weights *weights);
enum status embeddings_put(const struct embeddings *embeddings, struct fleet *fleet, uint32_t what,
                           const struct weights *weights);

#endif
