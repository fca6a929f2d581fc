/* CUDA's run time on the CPU: what device code sees when it is compiled by g++ instead of nvcc, and the calls of the host.
 *
 * Each CUDA thread of a block is a fiber that runs until a barrier or a warp collective; blocks run one after another. EMULATOR_ORDER
 * chooses the order of threads, blocks and streams (up, down, or a number: a shuffle), so that what depends on it shows. Copies beside
 * a kernel are done as late as waits allow. These end
 * the process with a message: a barrier that not all threads can reach, a collective whose lanes differ in mask or place, a lane that
 * reads one that takes no part, a pointer to host memory that is not pinned in a kernel's arguments, a copy between other places than
 * it says, the default stream, a wait while a stream is captured, a capture whose streams do not end in the first one, an event of another one. Shared memory is NaNs in each block and ends where it ends
 * (AddressSanitizer sees it). Under ThreadSanitizer CUDA threads and streams are fibers, ordered by barriers, launches, streams and
 * events alone: a race is found by what orders two accesses, not by luck. With EMULATOR_PROTECT=1 the host's touch of device memory ends the process. Streams run as late as
 * waits allow, or with EMULATOR_EAGER=1 at once. With EMULATOR_UNIFIED=1 host memory is the device's, too, for tests of single
 * operations. EMULATOR_GPUS says how many GPUs there are (1), of which CUDA_VISIBLE_DEVICES shows some; they are one. EMULATOR_MEMORY is the device's memory in bytes (16 GiB), of which
 * choosing the device takes EMULATOR_CONTEXT (256 MiB), and EMULATOR_OTHERS is what other processes use; each process has it for itself. EMULATOR_SYS is its /sys. Protected memory can be opened by other
 * processes (cudaIpc*), unless EMULATOR_IPC=0, and of the blocks that are named the EMULATOR_SPOIL-th has nothing but ones, the EMULATOR_SHORT-th a page too little; giving back what another process has open ends this one. Interprocess events are not there. With EMULATOR_LAUNCHES=FILE each launch becomes
 * a line of that file. Not modelled: time, caches, weak memory.
 */
#ifndef EMULATOR_CUDA_RUNTIME_H
#define EMULATOR_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

/* The compiler finds a call whose return code is dropped; the toolkit's headers do not ask for that. */
#define EMULATOR_CHECKED __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/* --- calls of the host --- */

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorNotSupported = 801
} cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
typedef struct emulator_stream *cudaStream_t;
typedef struct emulator_event *cudaEvent_t;
typedef struct emulator_graph *cudaGraph_t;
typedef struct emulator_graph *cudaGraphExec_t;
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1, cudaIpcMemLazyEnablePeerAccess = 1 };
typedef struct {
    char reserved[64];
} cudaIpcMemHandle_t;

typedef struct {
    char bytes[16];
} cudaUUID_t;
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem;
    int major, minor;
};

const char *cudaGetErrorString(cudaError_t code);
EMULATOR_CHECKED cudaError_t cudaGetLastError(void);
EMULATOR_CHECKED cudaError_t cudaDriverGetVersion(int *out);
EMULATOR_CHECKED cudaError_t cudaGetDeviceCount(int *out);
EMULATOR_CHECKED cudaError_t cudaSetDevice(int gpu);
EMULATOR_CHECKED cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int gpu);

EMULATOR_CHECKED cudaError_t cudaDeviceGetPCIBusId(char *out, int n_bytes, int gpu);
#define CUDA_SYS (getenv("EMULATOR_SYS") != NULL ? getenv("EMULATOR_SYS") : "")
enum cudaDeviceP2PAttr { cudaDevP2PAttrAccessSupported = 2, cudaDevP2PAttrNativeAtomicSupported };
/* Four GPUs, by number, read each other's memory, pairs of them by NVLink. */
EMULATOR_CHECKED cudaError_t cudaDeviceGetP2PAttribute(int *out, enum cudaDeviceP2PAttr what, int gpu, int other);
EMULATOR_CHECKED cudaError_t cudaMemGetInfo(size_t *free_out, size_t *all_out);
/* The function of the driver's management library; NULL: EMULATOR_NVML=0, or none of those that are called. */
void *emulator_nvml(const char *name);

EMULATOR_CHECKED cudaError_t cudaMalloc(void **out, size_t n_bytes);
EMULATOR_CHECKED cudaError_t cudaFree(void *block);
/* Memory of other processes: by the first byte of a block. */
EMULATOR_CHECKED cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *block);
EMULATOR_CHECKED cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags);
EMULATOR_CHECKED cudaError_t cudaIpcCloseMemHandle(void *opened);
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaEnableDefault };
EMULATOR_CHECKED cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                              unsigned long long flags,
                                                              enum cudaDriverEntryPointQueryResult *result);
EMULATOR_CHECKED cudaError_t cudaMallocHost(void **out, size_t n_bytes);
EMULATOR_CHECKED cudaError_t cudaFreeHost(void *block);
EMULATOR_CHECKED cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                                             cudaStream_t stream);
EMULATOR_CHECKED cudaError_t cudaMemsetAsync(void *to, int byte, size_t n_bytes, cudaStream_t stream);

EMULATOR_CHECKED cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
EMULATOR_CHECKED cudaError_t cudaStreamDestroy(cudaStream_t stream);
EMULATOR_CHECKED cudaError_t cudaStreamSynchronize(cudaStream_t stream);
EMULATOR_CHECKED cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
EMULATOR_CHECKED cudaError_t cudaDeviceSynchronize(void);
EMULATOR_CHECKED cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
EMULATOR_CHECKED cudaError_t cudaEventDestroy(cudaEvent_t event);
EMULATOR_CHECKED cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
EMULATOR_CHECKED cudaError_t cudaEventQuery(cudaEvent_t event);
EMULATOR_CHECKED cudaError_t cudaEventSynchronize(cudaEvent_t event);

/* Launches of one stream, with the arguments that they had. */
EMULATOR_CHECKED cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
EMULATOR_CHECKED cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
EMULATOR_CHECKED cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
EMULATOR_CHECKED cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
EMULATOR_CHECKED cudaError_t cudaGraphDestroy(cudaGraph_t graph);
EMULATOR_CHECKED cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

#ifdef __cplusplus
}

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <typeinfo>

/* --- the language of kernels --- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

namespace emulator
{

struct place {
    const char *file;
    int line;
};

enum class collective { SHUFFLE, BALLOT, SYNC, MULTIPLY };

/* Of the thread that runs. */
const dim3 &thread_index();
int lane();
extern dim3 block_index, block_dim, grid_dim;

void barrier(place where);
/* Meet the lanes of `mask`. SHUFFLE: the value of lane `from`; BALLOT: a bit for each lane whose value is not 0;
 * MULTIPLY: each value is the address of a lane's fragments. */
uint64_t meet(place where, collective what, unsigned mask, uint64_t value, int from);
/* A lane's share of a product by tensor cores (models/cuda/dense/tensor.h), of 8 or 16 of the k. */
struct fragments {
    float *sum;
    const uint32_t *a, *b;
    int n_k;
};

/* A thread's copies into shared memory that may not be done, and how often it has committed. */
#define EMULATOR_COPIES_MOST 128
struct late_copies {
    int n, n_commit;
    struct {
        float *to;
        const float *from;
        int n_float, commit; /* so many commits were before it */
        bool is_there;
    } of[EMULATOR_COPIES_MOST];
};
late_copies *copies();
void copy_begin(place where, float *to, const float *from, int n_float, bool is_there);

/* The block's array with this key. */
void *shared(const void *key, size_t n_bytes);
/* Ends the process where a word of the argument is a pointer to host memory. */
void argument_check(const char *kernel, int index, const void *bytes, size_t n_bytes);
/* code: the kernel's address. */
void launch(const char *kernel, const char *types, const void *code, dim3 grid, dim3 block, cudaStream_t stream,
            std::function<void()> body);

template <typename T> T shuffle(place where, unsigned mask, T value, int from)
{
    static_assert(sizeof(T) <= 8, "a shuffle carries 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = meet(where, collective::SHUFFLE, mask, bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int lane_in(int from, int width)
{
    return (lane() & ~(width - 1)) | (from & (width - 1));
}

static inline int lane_down(int n, int width)
{
    return (lane() & (width - 1)) + n < width ? lane() + n : lane();
}

static inline int lane_up(int n, int width)
{
    return (lane() & (width - 1)) >= n ? lane() - n : lane();
}

template <typename... P, typename... A>
void kernel_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
    std::tuple<P...> copy(arguments...);
    std::apply(
        [&](const P &...argument) {
            int index = 0;
            (argument_check(name, index++, &argument, sizeof argument), ...);
        },
        copy);
    launch(name, typeid(void(P...)).name(), (const void *)kernel, grid, block, stream,
           [kernel, copy] { std::apply(kernel, copy); });
}

} // namespace emulator

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index)
#define blockDim (emulator::block_dim)
#define gridDim (emulator::grid_dim)
#define EMULATOR_HERE (emulator::place{__FILE__, __LINE__})
#define __syncthreads() emulator::barrier(EMULATOR_HERE)
#define __syncwarp(mask) ((void)emulator::meet(EMULATOR_HERE, emulator::collective::SYNC, mask, 0, 0))
#define __shfl_sync(mask, v, from, width) emulator::shuffle(EMULATOR_HERE, mask, v, emulator::lane_in(from, width))
#define __shfl_xor_sync(mask, v, bits, width)                                                                        \
    emulator::shuffle(EMULATOR_HERE, mask, v, emulator::lane_in(emulator::lane() ^ (bits), width))
#define __shfl_down_sync(mask, v, n, width) emulator::shuffle(EMULATOR_HERE, mask, v, emulator::lane_down(n, width))
#define __shfl_up_sync(mask, v, n, width) emulator::shuffle(EMULATOR_HERE, mask, v, emulator::lane_up(n, width))
#define __ballot_sync(mask, p) ((unsigned)emulator::meet(EMULATOR_HERE, emulator::collective::BALLOT, mask, !!(p), 0))
#define __any_sync(mask, p) (__ballot_sync(mask, p) != 0)
#define __all_sync(mask, p) (__ballot_sync(mask, !(p)) == 0)

/* T name[n] in shared memory, and a launch: the spellings that models/cuda/kernel.h gives them under nvcc. */
#define SHARED(T, name, n)                                                                                           \
    static const char name##_key = 0;                                                                                \
    T *const name = (T *)emulator::shared(&name##_key, sizeof(T) * (n))
#define LAUNCH(kernel, grid, block, stream, ...)                                                                     \
    emulator::kernel_launch(#kernel, kernel, grid, block, stream, __VA_ARGS__)

#define CUDART_INF_F HUGE_VALF

template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

template <typename T> static inline T __ldcs(const T *p)
{
    return *p;
}

template <typename T> static inline void __stcs(T *p, T value)
{
    *p = value;
}

static inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

static inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

/* --- tensor cores, and copies beside the kernel: as models/cuda/dense/tensor.h has them under nvcc --- */

/* Copies are done when they are waited for, and not before. */
template <int W> static inline void copy_async(float *to, const float *from, bool is_there)
{
    emulator::copy_begin(EMULATOR_HERE, to, from, W, is_there);
}

static inline void copy_async_commit()
{
    emulator::copies()->n_commit++;
}

template <int N> static inline void copy_async_wait()
{
    emulator::late_copies *late = emulator::copies();
    int n_left = 0;
    for (int i = 0; i < late->n; i++) {
        auto &copy = late->of[i];
        if (copy.commit + N >= late->n_commit) {
            late->of[n_left++] = copy;
        } else if (copy.n_float == 4) {
            *(float4 *)copy.to = copy.is_there ? *(const float4 *)copy.from : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        } else {
            *copy.to = copy.is_there ? *copy.from : 0.0F;
        }
    }
    late->n = n_left;
}

#define EMULATOR_MULTIPLY(sum, a, b, n_k)                                                                            \
    do {                                                                                                             \
        const emulator::fragments own = {sum, (const uint32_t *)(a), (const uint32_t *)(b), n_k};                    \
        (void)emulator::meet(EMULATOR_HERE, emulator::collective::MULTIPLY, 0xffffffffU, (uint64_t)&own, 0);         \
    } while (false)
#define tf32_multiply(sum, a, b) EMULATOR_MULTIPLY(sum, a, b, 8)
#define bf16_multiply(sum, a, b) EMULATOR_MULTIPLY(sum, a, b, 16)

static inline uint32_t bf16_pair(float low, float high)
{
    uint32_t half[2] = {__float_as_uint(low), __float_as_uint(high)};
    for (uint32_t &x : half) {
        x = (x & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : (x + 0x7fffU + (x >> 16 & 1U)) >> 16;
    }
    return half[0] | half[1] << 16;
}

/* Whole numbers alone: with floats, bits would depend on the order of arrival. */
template <typename T, typename = std::enable_if_t<std::is_integral<T>::value>>
static inline T atomicAdd(T *to, T value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline unsigned atomicMax(unsigned *to, unsigned value)
{
    unsigned before = __atomic_fetch_add(to, 0U, __ATOMIC_RELAXED);
    while (before < value &&
           !__atomic_compare_exchange_n(to, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return before;
}
#endif

#endif
