/* Epilogues: a pass that adds up neighbours makes what row-local steps behind it would (struct device_epilogue),
 * before it stores a row; these steps are gone from the lists. It is for passes in which a row's sum ends in one
 * block: the plan knows which. Bits are those of the steps.
 */
#ifndef MODELS_EPILOGUE_H
#define MODELS_EPILOGUE_H

#include "models/steps/step.h"

/* Rewrite the lists for an aggregate's forward passes. What the pass makes is its operand OUT then; values between,
 * which no other step reads, are not made. */
void epilogue_take(const struct program *program, struct step_lists *lists, int op);

/* Store what an aggregate's backward pass makes as BF16, where only products in BF16 read it, which would round it
 * so. Behind step_lists_finish. */
void epilogue_round(const struct program *program, struct step_lists *lists, int op);

/* What the pass does behind its sums, in a call of its own op. */
struct device_epilogue epilogue_make(const struct step *pass, const struct op_call *call);

#endif
