/* The table of the cuda device. */
#include "models/cuda/cuda.h"

const struct device_ops device_cuda = {
#ifdef CUDA_EMULATED
    .name = "cuda-emulated",
#else
    .name = "cuda",
#endif
    .n_window_float = (int64_t)1 << 22,
    .codecs = DEVICE_CODECS_ALL,
    .joined_edges = DEVICE_HUB_EDGES,
#define X(op) .op = cuda_##op,
    DEVICE_OP_LIST(X)
#undef X
};
