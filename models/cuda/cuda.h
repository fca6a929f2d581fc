/* The cuda device: a GPU, one stream a lane, kernels of our own, cuBLAS for wide products in float32.
 *
 * State, memory and the order of work are C; .cu files hold kernels and, as most operations are one launch,
 * operations. Bits do not depend on the number of a GPU's processors: work is cut only by shape, and sums have a
 * fixed order, without atomics. Sums over neighbours, rows and columns, means, maxima, draws, codecs and optimisers
 * give the cpu device's bits; products, attention and the loss agree with it within tolerances.
 */
#ifndef MODELS_CUDA_CUDA_H
#define MODELS_CUDA_CUDA_H

#include "models/cuda/module.h"
#include "models/cuda/sizes.h"

#include <cuda_runtime.h>

/* Number of distinct marks of a lane; an older mark has passed when a later one has. */
#define CUDA_N_EVENT 64

/* Marks: the lane in the lowest bits, then how many there were before. */
#define CUDA_LANE_BITS 3

struct cuda_lane {
    cudaStream_t stream;
    cudaEvent_t event[CUDA_N_EVENT]; /* of mark n: n mod CUDA_N_EVENT */
    uint64_t n_marked, n_passed;
};

struct cuda_device {
    struct device base;
    struct cuda_lane lane[DEVICE_LANE_N];
    struct cuda_gpu gpu;
    struct blas *blas;          /* cuBLAS; NULL: not available */
    struct cuda_sparse *sparse; /* cuSPARSE, if it computes sums; else NULL */
    enum status failed;         /* the first failure since open */
    char reason[512];
};

#ifndef __cplusplus /* there it would hide the struct's constructor */
static inline struct cuda_device *cuda_device(struct device *device)
{
    return (struct cuda_device *)device;
}
#endif

/* Where all operations go. */
static inline cudaStream_t cuda_stream(struct device *device)
{
    return ((struct cuda_device *)device)->lane[DEVICE_LANE_COMPUTE].stream;
}

/* Numbers of a row of x, if it is rows of BF16; 0: it is floats. */
static inline int64_t cuda_bf16(const struct device *device, const void *x)
{
    int i = 0;
    while (i < device->bf16.n && device->bf16.rows[i].at != x) {
        i++;
    }
    return i < device->bf16.n ? device->bf16.rows[i].f : 0;
}

/* From a row to the next of f numbers: rows of BF16 are whole words. */
static inline int64_t cuda_row_step(const struct device *device, const void *x, int64_t f)
{
    return cuda_bf16(device, x) > 0 ? (f + 1) / 2 * 2 : f;
}

#define X(op) DEVICE_OP_PROTOTYPE(cuda, op);
DEVICE_OP_LIST(X)
#undef X
DEVICE_OP_PROTOTYPE(cuda, sums_open);
DEVICE_OP_PROTOTYPE(cuda, sums_take);
DEVICE_OP_PROTOTYPE(cuda, sums_buffer);

/* Keep a failure of the run time for `wait`; the first one is reported. */
void cuda_check(struct device *device, cudaError_t code, const char *what);

/* --- loan.c, and rows_take in aggregate/gather.cu --- */
DEVICE_OP_PROTOTYPE(cuda, lend);
DEVICE_OP_PROTOTYPE(cuda, reach);
DEVICE_OP_PROTOTYPE(cuda, leave);
DEVICE_OP_PROTOTYPE(cuda, rows_take);

/* --- recording.c --- */
void cuda_record(struct device *device);
void *cuda_recorded(struct device *device);
void cuda_replay(struct device *device, void *recording);
void cuda_forget(struct device *device, void *recording);

/* --- gpu.c --- */
enum status cuda_gpus(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out);
/* Likewise, with what cuda_module_gpus adds; in gpu_place.c. */
enum status cuda_gpus_placed(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out);
/* The GPU of worker `turn` of n_here, and how many of these share it. errors  STATUS_PEER "no usable GPU:
 * <reason>" */
enum status cuda_gpu_choose(uint32_t turn, uint32_t n_here, struct cuda_gpu *out, uint32_t *n_sharing_out);
/* Work on it, in this thread and from now on. errors  likewise */
enum status cuda_gpu_take(const struct cuda_gpu *gpu);
/* The device on the GPU of worker `turn` of n_here. */
enum status cuda_open_turn(uint32_t turn, uint32_t n_here, struct device **out);

/* --- gpu_memory.c --- */
/* Set number and n_used of n GPUs, as far as the driver reports them; needs no context. */
void cuda_gpus_look(struct cuda_gpu *gpu, int n);
/* The used memory of one GPU. -1: the driver does not report it. */
int64_t cuda_gpu_used(const struct cuda_gpu *gpu);
/* Workers of this machine open GPUs one after another, so that each one's memory can be measured. -1: no lock; the
 * result is passed to cuda_gpu_unlock. */
int cuda_gpu_lock(void);
void cuda_gpu_unlock(int lock);

/* --- dense/blas.c --- */
/* `blas` stays NULL where the machine has no cuBLAS. errors  kept for `wait`. Closed also after a failure */
void cuda_blas_open(struct cuda_device *cuda);
/* Its version, as protocol/base/libraries.h numbers it. */
uint32_t cuda_blas_version(struct cuda_device *cuda);
void cuda_blas_close(struct cuda_device *cuda);

/* --- aggregate/spmm.c: sums_open and sums_take --- */
/* Blocks are closed. */
void cuda_spmm_close(struct cuda_device *cuda);

#endif
