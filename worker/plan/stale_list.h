/* Which payloads training keeps from one epoch to the next (exchange.stale), and how many bytes that is.
 *
 * An aggregate reads the rows that forward took from others in some passes, forward and backward, and adds the
 * gradients that return in one. What its last such pass has read is replaced by the present epoch's. Pure counting
 * from the program's steps and the parts' pairs: the plan, the trainer and the coordinator, which stores what is kept
 * in checkpoints, count alike.
 * source  Wan et al., ICLR 2022 (PipeGCN)
 */
#ifndef WORKER_STALE_LIST_H
#define WORKER_STALE_LIST_H

#include "models/steps/step.h"
#include "worker/rows/halo_routes.h"

#include <stdint.h>

/* Fetches of a rank under way at once: what comes has its place, so that no slots limit them. */
#define STALE_N_FLIGHT 16

struct stale_payload {
    int op;
    enum halo_direction direction; /* IN: rows; RETURN: gradients */
    int32_t hop;                   /* of what travels */
    int64_t n_row_bytes;           /* as it travels */
    int first_pass, last_pass;     /* of the op's, as struct step numbers them: those that read it */
};

struct stale_list {
    int n;
    struct stale_payload *payload; /* n: in the order of their first passes */
};

/* From the training list; none where the program keeps none. Release with stale_list_release. */
void stale_list_build(const struct program *program, const struct step_list *train, struct stale_list *out);
void stale_list_release(struct stale_list *list);

/* The payload that a pass of these steps reads in this direction; -1: none. */
int stale_list_find(const struct stale_list *list, int op, enum halo_direction direction);

/* Bytes that an own part keeps of payload p, all pairs together. */
int64_t stale_part_bytes(const struct stale_payload *payload, const struct part_halo *own);

/* Bytes that own parts keep of all payloads for others to fetch. */
int64_t stale_sent_bytes(const struct stale_list *list, const struct halo_owners *owners);

/* Floats that a part keeps of all payloads, wherever it lies: what a checkpoint has of it. */
int64_t stale_list_floats(const struct stale_list *list, const struct part_halo *own);

/* Bytes of the lists that say where an own part's payloads lie. */
int64_t stale_list_places(const struct stale_list *list, const struct part_halo *own);

#endif
