/* The table of the cuda device, and what its shared object shows. */
#include "models/cuda/cuda.h"
#include "protocol/base/version.h"

const struct device_ops device_cuda = {
    CUDA_SIZES,
    .takes_bf16 = true,
#define X(op) .op = cuda_##op,
    DEVICE_OP_LIST(X)
#undef X
        .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .forget = cuda_forget,
    .lend = cuda_lend,
    .reach = cuda_reach,
    .leave = cuda_leave,
    .rows_take = cuda_rows_take,
    .sums_open = cuda_sums_open,
    .sums_take = cuda_sums_take,
    .sums_buffer = cuda_sums_buffer,
    .sums_bytes = cuda_sums_bytes,
};

extern const struct cuda_module cuda_module;
const struct cuda_module cuda_module = {
    .n_bytes = sizeof(struct cuda_module),
    .n_ops_bytes = sizeof(struct device_ops),
    .version = TRAINERD_VERSION,
    .open = cuda_open_turn,
    .gpus = cuda_gpus_placed,
};
