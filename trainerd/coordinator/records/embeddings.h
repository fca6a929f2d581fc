/* Embeddings of nodes: which part has which, and their transfer between workers and whole tensors, part by part.
 *
 * The coordinator has the tensors in memory only while it reads or writes a file of weights.
 */
#ifndef TRAINERD_EMBEDDINGS_H
#define TRAINERD_EMBEDDINGS_H

#include "partition/part/part.h"
#include "partition/part/partition.h"
#include "trainerd/coordinator/fleet/fleet.h"
#include "trainerd/coordinator/records/weights.h"

struct embeddings {
    int32_t n_part;
    int64_t n_node;   /* nodes with an embedding */
    uint32_t *column; /* n_node: columns of the features, part after part in the parts' order */
    int64_t width;    /* floats of each */
    int64_t *n_float; /* n_part: floats of the part; NULL: no embeddings */
};

/* owns  the caller owns *out: embeddings_release. errors  STATUS_NOMEM. cost  O(nodes); 4 bytes for each of n_node */
enum status embeddings_build(const struct dataset *dataset, const struct partition *partition,
                             const struct part_sizes *sizes, const struct program *program, struct embeddings *out);
void embeddings_release(struct embeddings *embeddings);

/* Copy EMBEDDINGS or EMBEDDINGS_BEST from the workers to the tensors / from the tensors to the workers. Needs the
 * memory of one part's embeddings. errors  those of the fleet */
enum status embeddings_get(const struct embeddings *embeddings, struct fleet *fleet, enum worker_state what,
                           struct weights *weights);
enum status embeddings_put(const struct embeddings *embeddings, struct fleet *fleet, enum worker_state what,
                           const struct weights *weights);

#endif
