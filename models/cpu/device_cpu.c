/* The table of the cpu device. */
#include "models/reference/reference.h"

const struct device_ops device_cpu = {
    .name = "cpu",
    .host_visible = true,
#define X(op) .op = reference_##op,
    DEVICE_OP_LIST(X)
#undef X
};
