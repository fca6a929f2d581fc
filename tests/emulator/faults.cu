/* Small kernels that are right, and each with a fault planted: what the emulator and the sanitizers have to find.
 *
 *   emulator-faults NAME    runs one; "right" runs all without their faults and checks what they compute
 *
 * scripts/check-emulator says which fault is found by what.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#define ALL 0xffffffffU
#define N 256

/* Of both libraries' return codes 0 is success. */
#define CHECK(call) ((int)(call) == 0 ? (void)0 : failed(#call))

static void failed(const char *call)
{
    fprintf(stderr, "%s fails\n", call);
    exit(1);
}

static const char *fault;

static bool is(const char *name)
{
    return strcmp(fault, name) == 0;
}

/* --- kernels --- */

/* sum[block] = Σ x over the block's N numbers, by halving. */
__global__ void block_sums(const float *x, float *sum, bool waits)
{
    SHARED(float, part, N);
    const unsigned t = threadIdx.x;
    part[t] = x[blockIdx.x * N + t];
    for (unsigned d = N / 2; d > 0; d /= 2) {
        if (waits) {
            __syncthreads();
        }
        if (t < d) {
            part[t] += part[t + d];
        }
    }
    if (t == 0) {
        sum[blockIdx.x] = part[0];
    }
}

/* Each warp's numbers turned around, through shared memory. */
__global__ void warps_reverse(const float *x, float *out, bool waits)
{
    SHARED(float, kept, N);
    const unsigned t = threadIdx.x;
    kept[t] = x[t];
    if (waits) {
        __syncwarp(ALL);
    }
    out[t] = kept[t / 32 * 32 + 31 - t % 32];
}

/* The sum over a warp, by shuffles. */
__global__ void warp_sums(const float *x, float *out, unsigned mask)
{
    float sum = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(mask, sum, d, 32);
    }
    out[threadIdx.x] = sum;
}

__global__ void half_shuffle(const float *x, float *out)
{
    const unsigned mask = 0x0000ffffU;
    if (threadIdx.x % 32 < 16) { /* lane 0 reads lane 16 */
        out[threadIdx.x] = __shfl_sync(mask, x[threadIdx.x], 16, 32);
    }
}

__global__ void scale(const float *x, float factor, float *out, unsigned n_most)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n_most) {
        out[i] = factor * x[i];
    }
}

/* A view with pointers in it, as blocks of a graph are handed over. */
struct view {
    int64_t n;
    const float *x;
};

__global__ void view_copy(struct view view, float *out)
{
    if (threadIdx.x < view.n) {
        out[threadIdx.x] = view.x[threadIdx.x];
    }
}

__global__ void first_of_block(float *out, bool own)
{
    if (threadIdx.x == 0) {
        out[own ? blockIdx.x : 0] = (float)blockIdx.x;
    }
}

__global__ void barrier_of_half(float *out)
{
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncwarp(ALL);
    }
    out[threadIdx.x] = 1.0F;
}

__global__ void shared_past_end(float *out)
{
    SHARED(float, kept, 32);
    kept[threadIdx.x + 1] = 1.0F;
    out[threadIdx.x] = kept[threadIdx.x];
}

__global__ void shared_too_large(float *out)
{
    SHARED(float, kept, 16384);
    kept[threadIdx.x] = 0.0F;
    out[threadIdx.x] = kept[threadIdx.x];
}

/* out (16 × 8) = x, as 16 × 8 numbers, times its first 8 × 8, from shared memory. */
__global__ void tensor_product(const float *x, float *out, bool waits)
{
    SHARED(float4, kept, 32);
    const float *a = (const float *)kept;
    const unsigned l = threadIdx.x, g = l / 4, t = l % 4;
    copy_async<4>((float *)&kept[l], x + 4 * l, true);
    copy_async_commit();
    if (waits) {
        copy_async_wait<0>();
    }
    __syncthreads();
    float sum[4] = {}, left[4] = {a[g * 8 + t], a[g * 8 + 64 + t], a[g * 8 + t + 4], a[g * 8 + 68 + t]};
    const float right[2] = {a[t * 8 + g], a[t * 8 + 32 + g]};
    tf32_multiply(sum, left, right);
    for (unsigned i = 0; i < 4; i++) {
        out[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = sum[i];
    }
}

/* --- the host --- */

struct scene {
    cudaStream_t stream, other;
    cudaEvent_t event;
    float *x, *out; /* 4 · N numbers each, on the device */
    std::vector<float> given, got;
};

static void expect(const scene &s, const char *what, int i, float value)
{
    if (s.got[(size_t)i] != value) {
        fprintf(stderr, "%s: element %d is %g, expected %g\n", what, i, (double)s.got[(size_t)i], (double)value);
        exit(1);
    }
}

static void bring(scene &s)
{
    CHECK(cudaMemcpyAsync(s.got.data(), s.out, s.got.size() * sizeof(float), cudaMemcpyDeviceToHost, s.stream));
    CHECK(cudaStreamSynchronize(s.stream));
}

static void open(scene &s)
{
    s.given.resize(4 * N);
    s.got.assign(4 * N, 0.0F);
    for (int i = 0; i < 4 * N; i++) {
        s.given[(size_t)i] = (float)(i % 7);
    }
    size_t n_bytes = s.given.size() * sizeof(float);
    CHECK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&s.other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&s.event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&s.x, n_bytes));
    CHECK(cudaMalloc((void **)&s.out, n_bytes));
    CHECK(cudaMemcpyAsync(s.x, s.given.data(), n_bytes, cudaMemcpyHostToDevice, s.stream));
    CHECK(cudaMemsetAsync(s.out, 0, n_bytes, s.stream));
    CHECK(cudaStreamSynchronize(s.stream));
}

static void close(scene &s)
{
    CHECK(cudaFree(s.x));
    CHECK(cudaFree(s.out));
    CHECK(cudaEventDestroy(s.event));
    CHECK(cudaStreamDestroy(s.other));
    CHECK(cudaStreamDestroy(s.stream));
}

static void shared_memory(scene &s)
{
    LAUNCH(block_sums, dim3(2), dim3(N), s.stream, s.x, s.out, !is("no-syncthreads"));
    bring(s);
    for (int b = 0; b < 2; b++) {
        float sum = 0.0F;
        for (int i = 0; i < N; i++) {
            sum += s.given[(size_t)(b * N + i)];
        }
        expect(s, "block_sums", b, sum);
    }
    LAUNCH(warps_reverse, dim3(1), dim3(N), s.stream, s.x, s.out, !is("no-syncwarp"));
    bring(s);
    for (int i = 0; i < N; i++) {
        expect(s, "warps_reverse", i, s.given[(size_t)(i / 32 * 32 + 31 - i % 32)]);
    }
}

static void collectives(scene &s)
{
    LAUNCH(warp_sums, dim3(1), dim3(N), s.stream, s.x, s.out, is("lane-not-in-mask") ? 0xfffffffeU : ALL);
    bring(s);
    for (int i = 0; i < N; i++) {
        float sum = 0.0F;
        for (int l = 0; l < 32; l++) {
            sum += s.given[(size_t)(i / 32 * 32 + l)];
        }
        expect(s, "warp_sums", i, sum);
    }
    if (is("absent-lane")) {
        LAUNCH(half_shuffle, dim3(1), dim3(32), s.stream, s.x, s.out);
        bring(s);
    }
    if (is("stuck")) {
        LAUNCH(barrier_of_half, dim3(1), dim3(64), s.stream, s.out);
        bring(s);
    }
}

/* What one stream writes the other one reads, and then the host. */
static void order_of_work(scene &s)
{
    LAUNCH(scale, dim3(4), dim3(N), s.stream, s.x, 2.0F, s.out, 4U * N);
    if (!is("no-event")) {
        CHECK(cudaEventRecord(s.event, s.stream));
        CHECK(cudaStreamWaitEvent(s.other, s.event, 0));
    }
    LAUNCH(scale, dim3(4), dim3(N), s.other, s.out, 3.0F, s.x, 4U * N);
    CHECK(cudaEventRecord(s.event, s.other));
    CHECK(cudaStreamWaitEvent(s.stream, s.event, 0));
    CHECK(cudaMemcpyAsync(s.got.data(), s.x, s.got.size() * sizeof(float), cudaMemcpyDeviceToHost, s.stream));
    if (!is("no-wait")) {
        CHECK(cudaStreamSynchronize(s.stream));
    }
    for (int i = 0; i < 4 * N; i++) {
        expect(s, "scale", i, 6.0F * s.given[(size_t)i]);
    }
    CHECK(cudaStreamSynchronize(s.stream));
    CHECK(cudaStreamSynchronize(s.other));
    CHECK(cudaMemcpyAsync(s.x, s.given.data(), s.given.size() * sizeof(float), cudaMemcpyHostToDevice, s.stream));
    CHECK(cudaStreamSynchronize(s.stream));
}

static void places(scene &s)
{
    struct view view = {N, is("host-pointer") ? s.given.data() : s.x};
    LAUNCH(view_copy, dim3(1), dim3(N), s.stream, view, s.out);
    LAUNCH(scale, dim3(5), dim3(N), s.stream, s.x, 1.0F, s.out, is("past-the-end") ? 4U * N + 1 : 4U * N);
    LAUNCH(first_of_block, dim3(2), dim3(32), s.stream, s.out, !is("two-blocks"));
    bring(s);
    expect(s, "first_of_block", 1, 1.0F);
    if (is("past-shared")) {
        LAUNCH(shared_past_end, dim3(1), dim3(32), s.stream, s.out);
    } else if (is("shared-too-large")) {
        LAUNCH(shared_too_large, dim3(1), dim3(32), s.stream, s.out);
    } else if (is("copy-of-wrong-kind")) {
        CHECK(cudaMemcpyAsync(s.out, s.x, 16, cudaMemcpyHostToDevice, s.stream));
    } else if (is("default-stream")) {
        LAUNCH(scale, dim3(1), dim3(32), nullptr, s.x, 1.0F, s.out, 32U);
    } else if (is("host-reads-device")) {
        printf("%g\n", (double)s.out[0]);
    }
    bring(s);
}

static void graphs(scene &s)
{
    cudaGraph_t graph;
    cudaGraphExec_t recorded;
    CHECK(cudaEventRecord(s.event, s.other));
    CHECK(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal));
    LAUNCH(scale, dim3(4), dim3(N), s.stream, s.x, 2.0F, s.x, 4U * N);
    if (is("wait-while-capturing")) {
        CHECK(cudaStreamSynchronize(s.stream));
    }
    if (is("event-of-no-capture")) {
        CHECK(cudaStreamWaitEvent(s.stream, s.event, 0));
    }
    CHECK(cudaEventRecord(s.event, s.stream));
    CHECK(cudaStreamWaitEvent(s.other, s.event, 0)); /* which is then captured, too */
    CHECK(cudaMemcpyAsync(s.out, s.x, s.got.size() * sizeof(float), cudaMemcpyDeviceToDevice, s.other));
    CHECK(cudaEventRecord(s.event, s.other));
    if (!is("not-joined")) {
        CHECK(cudaStreamWaitEvent(s.stream, s.event, 0));
    }
    CHECK(cudaStreamEndCapture(s.stream, &graph));
    if (is("event-of-a-capture")) {
        CHECK(cudaEventSynchronize(s.event));
    }
    CHECK(cudaGraphInstantiate(&recorded, graph, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(recorded, s.stream));
    }
    bring(s);
    expect(s, "a recorded launch", 1, 8.0F * s.given[1]);
    CHECK(cudaGraphExecDestroy(recorded));
    CHECK(cudaGraphDestroy(graph));
}

static void tensor_cores(scene &s)
{
    LAUNCH(tensor_product, dim3(1), dim3(32), s.stream, s.x, s.out, !is("no-copy-wait"));
    bring(s);
    for (int i = 0; i < 128; i++) {
        float sum = 0.0F;
        for (int k = 0; k < 8; k++) {
            sum += s.given[(size_t)(i / 8 * 8 + k)] * s.given[(size_t)(k * 8 + i % 8)];
        }
        expect(s, "tensor_product", i, sum);
    }
}

static void products(scene &s)
{
    const float one = 1.0F, zero = 0.0F;
    cublasHandle_t blas;
    float *workspace;
    CHECK(cudaMalloc((void **)&workspace, 64));
    CHECK(cublasCreate(&blas));
    if (!is("no-blas-workspace")) {
        CHECK(cublasSetWorkspace(blas, workspace, 64));
    }
    CHECK(cublasSetStream(blas, s.stream));
    if (!is("no-blas-workspace")) { /* setting the stream has dropped it */
        CHECK(cublasSetWorkspace(blas, workspace, 64));
    }
    CHECK(cudaMemcpyAsync(s.x, s.given.data(), s.given.size() * sizeof(float), cudaMemcpyHostToDevice, s.stream));
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 2, &one, s.x, 2, s.x, 2, &zero, s.out, 2));
    bring(s);
    expect(s, "a product", 0, s.given[0] * s.given[0] + s.given[2] * s.given[2]);
    CHECK(cublasDestroy(blas));
    CHECK(cudaFree(workspace));
}

/* --- memory of another process --- */

/* Both come here, or the one that waits ends. */
static void meet(int other)
{
    char byte = 0;
    if (write(other, &byte, 1) != 1 || read(other, &byte, 1) != 1) {
        _exit(1);
    }
}

static void lend(scene &s, int other)
{
    cudaIpcMemHandle_t name;
    void *own;
    LAUNCH(scale, dim3(4), dim3(N), s.stream, s.x, 2.0F, s.out, 4U * N);
    if (!is("loan-not-made")) {
        CHECK(cudaStreamSynchronize(s.stream));
    }
    CHECK(cudaIpcGetMemHandle(&name, s.out));
    if (is("loan-to-itself")) {
        CHECK(cudaIpcOpenMemHandle(&own, name, cudaIpcMemLazyEnablePeerAccess));
    }
    CHECK(write(other, &name, sizeof name) - (ssize_t)sizeof name);
    meet(other); /* it is read */
    LAUNCH(scale, dim3(4), dim3(N), s.stream, s.x, 5.0F, s.out, 4U * N);
    CHECK(cudaStreamSynchronize(s.stream));
    meet(other), meet(other); /* it is left */
}

static void borrow(scene &s, int other)
{
    cudaIpcMemHandle_t name;
    void *theirs;
    CHECK(read(other, &name, sizeof name) - (ssize_t)sizeof name);
    CHECK(cudaIpcOpenMemHandle(&theirs, name, cudaIpcMemLazyEnablePeerAccess));
    LAUNCH(scale, dim3(4), dim3(N), s.stream, (const float *)theirs, 1.0F, s.out, 4U * N);
    if (!is("loan-not-read")) {
        CHECK(cudaStreamSynchronize(s.stream));
    }
    meet(other), meet(other);
    bring(s);
    expect(s, "a loan", 1, 2.0F * s.given[1]);
    if (!is("loan-not-left")) {
        CHECK(cudaIpcCloseMemHandle(theirs));
    }
    meet(other), meet(other); /* until it ends */
}

static void loans() /* before this process has a GPU */
{
    int ends[2];
    if (getenv("EMULATOR_PROTECT") != nullptr && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) {
        const int borrows = fork() == 0;
        close(ends[1 - borrows]);
        scene s = {};
        open(s);
        (borrows ? borrow : lend)(s, ends[borrows]);
        close(s);
        close(ends[borrows]);
    }
}

int main(int argc, char **argv)
{
    fault = argc == 2 ? argv[1] : "right";
    loans();
    scene s = {};
    open(s);
    shared_memory(s);
    collectives(s);
    tensor_cores(s);
    order_of_work(s);
    places(s);
    graphs(s);
    products(s);
    close(s);
    return 0;
}
