/* The loss over pairs of nodes, with an edge and without, and its gradient, edge by edge: no array has a row for each
 * pair. s are scores, which the job's decoder makes of two rows (link_decoder.h).
 *
 *     uniform pairs (D85)   mean of log(1 + exp(−s)) over edges + mean of log(1 + exp(s)) over drawn pairs
 *     groups (D86)          mean over ends of edges of what device_pair_losses has, each with pairs of its own
 *
 * Each end of a pair makes its own gradient from the other end's row, so no gradient travels. Parts meet as in a halo
 * pass (D1), and rows of other ranks' parts come whole, one part after the other.
 * source  Kipf & Welling, Variational Graph Auto-Encoders (2016); torch_geometric.nn.GAE.recon_loss
 */
#ifndef WORKER_LINKS_H
#define WORKER_LINKS_H

#include "worker/state/trainer_state.h"

/* What the plan has to know; NULL: the job trains on labels, or not at all. Then, with the plan and what it was made
 * from, slots and numbers. links_close frees both.
 * errors  STATUS_DATA parts whose pairs are not those of their edges; STATUS_CONFIG too many pairs in a part */
const struct pairs_draw *links_open(const struct own_parts *own, const struct job *job, struct trainer_links *out);
enum status links_count(const struct own_parts *own, const struct memory_plan_input *in,
                        const struct memory_links *plan, struct trainer_links *links);
void links_close(struct trainer_links *links);

/* The step of kind LOSS. errors  STATUS_PEER of the exchange; of the device */
enum status links_run(struct trainer *trainer, const struct step *step);

#endif
