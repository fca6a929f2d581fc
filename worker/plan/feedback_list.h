/* Which rows have residuals (exchange.error_feedback), and how many bytes that is.
 *
 * A residual is what rounding has lost of a row so far: it belongs to an op, a direction and a row; parts that take
 * the row share it. Rows that parts give (IN, OUT) have one at each own row, read in all of an epoch, and beside it
 * the next epoch's; gradients that return have one at each row that the part makes some of, which is replaced as it
 * is read, once an epoch. Pure counting from the program's steps and the parts' pairs: the plan, the trainer and the
 * coordinator, which stores residuals in checkpoints, count alike.
 */
#ifndef WORKER_FEEDBACK_LIST_H
#define WORKER_FEEDBACK_LIST_H

#include "models/steps/step.h"
#include "worker/rows/halo_routes.h"

#include <stdint.h>

struct feedback_rows {
    int op;
    enum halo_direction direction;
    int piece;         /* of that direction's payloads */
    enum op_role role; /* whose codec they have */
    int64_t width;
    int32_t hop; /* of what travels */
};

struct feedback_list {
    int n;
    struct feedback_rows *rows; /* n: in the order of the first passes that write them down */
};

/* From the training list; none where the program feeds nothing back. Release with feedback_list_release. */
void feedback_list_build(const struct program *program, const struct step_list *train, struct feedback_list *out);
void feedback_list_release(struct feedback_list *list);

/* -1: they are never coded. */
int feedback_list_find(const struct feedback_list *list, int op, enum halo_direction direction, int piece);

/* Floats of an own part's residuals; of those that the next epoch's have besides. */
int64_t feedback_floats(const struct feedback_rows *rows, const struct part_halo *own);
int64_t feedback_floats_next(const struct feedback_rows *rows, const struct part_halo *own);

/* Of all residuals of a part, wherever it lies: what a checkpoint has of it. */
int64_t feedback_list_floats(const struct feedback_list *list, const struct part_halo *own);

/* Bytes of all that an own part has. */
int64_t feedback_list_bytes(const struct feedback_list *list, const struct part_halo *own);

#endif
