/* The table of the reference device. */
#include "models/reference/reference.h"

const struct device_ops device_reference = {.name = "reference",
                                            .unified = true,
                                            .n_window_float = (int64_t)1 << 10,
                                            .n_chunk = 16,
                                            .codecs = DEVICE_CODECS_ALL,
#define X(op) .op = reference_##op,
                                            DEVICE_OP_LIST(X)
#undef X
};
