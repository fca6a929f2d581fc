/* The table of the reference device. */
#include "models/reference/reference.h"

const struct device_ops device_reference = {.name = "reference",
                                            .unified = true,
#define X(op) .op = reference_##op,
                                            DEVICE_OP_LIST(X)
#undef X
};
