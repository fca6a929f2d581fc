/* The table of the cpu device. */
#include "models/cpu/cpu.h"

const struct device_ops device_cpu = {.name = "cpu",
                                      .unified = true,
                                      .joined_edges = CPU_HUB_EDGES,
#define X(op) .op = cpu_##op,
                                      DEVICE_OP_LIST(X)
#undef X
};
