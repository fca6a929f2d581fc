/* The table of the cpu device. */
#include "models/cpu/cpu.h"

const struct device_ops device_cpu = {.name = "cpu",
                                      .unified = true,
                                      .n_window_float = (int64_t)1 << 16,
                                      .n_chunk = 16,
                                      .codecs = DEVICE_CODECS_ALL,
                                      .merged_edges = DEVICE_HUB_EDGES,
                                      .merges_attention = true,
#define X(op) .op = cpu_##op,
                                      DEVICE_OP_LIST(X)
#undef X
};
