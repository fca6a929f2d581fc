/* The table of the cuda device. */
#include "models/cuda/cuda.h"

const struct device_ops device_cuda = {.name = CUDA_NAME,
                                       .n_window_float = CUDA_N_WINDOW_FLOAT,
                                       .codecs = DEVICE_CODECS_ALL,
                                       .joined_edges = CUDA_JOINED_EDGES,
#define X(op) .op = cuda_##op,
                                       DEVICE_OP_LIST(X)
#undef X
};
