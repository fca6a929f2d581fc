/* A lowering at work, and the operands of its steps; only for lower.c and lower_operands.c. */
#ifndef MODELS_LOWERING_H
#define MODELS_LOWERING_H

#include "models/steps/step.h"

struct lowering {
    const struct program *program;
    struct step_list *list; /* being written */
    bool lossy;             /* the list is training's */
    bool *written;          /* n_value: its gradient is there */
    bool *param_written;    /* n_param: likewise */
    int *n_reader;          /* n_value: ops that have yet to add to its gradient */
    int *maker;             /* n_value: the op that makes it; -1: the features */
    int n_ready;
    int *ready; /* n_op: ops whose output's gradient is complete */
};

struct lowering_use {
    enum step_access access;
    bool packing, running;
};

/* Add an operand to a step; if the role exists, merge the two uses. */
void lowering_operand(struct step *step, const struct step_operand *operand);

/* Add the array of a role of the step's op; nothing if the op does not have the role. */
void lowering_role(const struct lowering *l, struct step *step, enum op_role role, struct lowering_use use);

/* Add sets of roles that are touched while the step runs on a part: what is in both is updated. */
void lowering_roles(const struct lowering *l, struct step *step, op_roles reads, op_roles writes);

/* Find the gradient of in[k]: a fresh one where an aggregate finds one that it cannot add to. out->access: the wanted
 * one, which becomes an update where a dense op adds. false: no gradient is wanted. */
bool lowering_grad_in(const struct lowering *l, const struct step *step, int k, struct step_operand *out);

#endif
