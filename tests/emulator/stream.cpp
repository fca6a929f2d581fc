/* Streams, events and graphs: nothing runs before it is waited for, and then in any order that streams and events allow. */
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <deque>
#include <random>

using namespace emulator;

struct stream_work {
    std::function<void()> run;
    std::function<bool()> ready; /* may it run? none: at once */
    uint64_t *from_host;         /* what the host did before it gave this work */
};

struct emulator_stream {
    std::deque<stream_work> work;
    std::vector<std::function<void()>> *captured; /* NULL: not capturing */
    void *tsan;
    uint64_t sync;
};

struct emulator_event {
    uint64_t n_recorded, n_passed;
    uint64_t sync;
};

struct emulator_graph {
    std::vector<std::function<void()>> runs;
};

static std::vector<cudaStream_t> streams;
static std::mt19937 luck(1);

/* The stream's next piece of work, if it may run. */
static bool step(cudaStream_t s)
{
    if (s->work.empty() || (s->work.front().ready && !s->work.front().ready())) {
        return false;
    }
    stream_work next = std::move(s->work.front());
    s->work.pop_front();
    void *self = tsan_self();
    tsan_become(s->tsan);
    tsan_acquire(next.from_host);
    delete next.from_host;
    device_enter();
    next.run();
    device_leave();
    next = {}; /* freed in the stream's name */
    tsan_become(self);
    return true;
}

/* Run what is needed until done(): `wanted` first, or shuffled. */
template <typename F> static void run_until(cudaStream_t wanted, F done)
{
    while (!done()) {
        std::vector<cudaStream_t> tries = streams;
        std::stable_partition(tries.begin(), tries.end(), [&](cudaStream_t s) { return s == wanted; });
        if (order() > 0) {
            std::shuffle(tries.begin(), tries.end(), luck);
        }
        if (!std::any_of(tries.begin(), tries.end(), step)) {
            die("streams wait for each other");
        }
    }
}

namespace emulator
{

void enqueue(cudaStream_t s, std::function<void()> run, std::function<bool()> ready)
{
    if (s == nullptr) {
        die("the default stream is used");
    }
    if (s->captured != nullptr) {
        if (ready) {
            die("a wait for an event is captured");
        }
        s->captured->push_back(std::move(run));
        return;
    }
    uint64_t *from_host = new uint64_t(0);
    tsan_release(from_host);
    s->work.push_back({std::move(run), std::move(ready), from_host});
    if (is_eager()) {
        run_until(s, [s] { return s->work.empty(); });
    }
}

void launch(const char *kernel, dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> body)
{
    enqueue(stream, [=] { grid_run(kernel, grid, block, body); });
}

} // namespace emulator

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new emulator_stream{};
    (*out)->tsan = tsan_new();
    streams.push_back(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (s->captured != nullptr) {
        die("a stream is waited for while it is captured");
    }
    run_until(s, [s] { return s->work.empty(); });
    void *self = tsan_self();
    tsan_become(s->tsan);
    tsan_release(&s->sync);
    tsan_become(self);
    tsan_acquire(&s->sync);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t code = cudaStreamSynchronize(s);
    streams.erase(std::find(streams.begin(), streams.end(), s));
    delete s;
    return code;
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t code = cudaSuccess;
    for (cudaStream_t s : streams) {
        code = code == cudaSuccess ? cudaStreamSynchronize(s) : code;
    }
    return code;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new emulator_event{};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s)
{
    uint64_t n = ++event->n_recorded;
    enqueue(s, [event, n] {
        tsan_release(&event->sync);
        event->n_passed = n;
    });
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned)
{
    uint64_t n = event->n_recorded;
    enqueue(
        s, [event] { tsan_acquire(&event->sync); }, [event, n] { return event->n_passed >= n; });
    return cudaSuccess;
}

/* A look moves one piece of work on: who only looks comes to an end, too. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (event->n_passed < event->n_recorded) {
        std::any_of(streams.begin(), streams.end(), step);
    }
    if (event->n_passed < event->n_recorded) {
        return cudaErrorNotReady;
    }
    tsan_acquire(&event->sync);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    uint64_t n = event->n_recorded;
    run_until(nullptr, [event, n] { return event->n_passed >= n; });
    tsan_acquire(&event->sync);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    s->captured = new std::vector<std::function<void()>>;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    *out = new emulator_graph{std::move(*s->captured)};
    delete s->captured;
    s->captured = nullptr;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new emulator_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
    for (const std::function<void()> &run : graph->runs) {
        enqueue(s, run);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    delete graph;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess                 ? "no error"
           : code == cudaErrorMemoryAllocation ? "out of memory"
           : code == cudaErrorNoDevice         ? "no CUDA-capable device is detected"
                                               : "invalid argument";
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *out)
{
    *out = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *out)
{
    *out = (int)emulator::gpus().size();
    return *out > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int gpu)
{
    if (gpu < 0 || gpu >= (int)emulator::gpus().size()) {
        return cudaErrorInvalidDevice;
    }
    return emulator::context_take() ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int n_bytes, int gpu)
{
    if (gpu < 0 || gpu >= (int)emulator::gpus().size()) {
        return cudaErrorInvalidDevice;
    }
    snprintf(out, (size_t)n_bytes, "0000:%02x:00.0", emulator::gpus()[(size_t)gpu]);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int gpu)
{
    if (gpu < 0 || gpu >= (int)emulator::gpus().size()) {
        return cudaErrorInvalidDevice;
    }
    const int number = emulator::gpus()[(size_t)gpu];
    *out = {};
    snprintf(out->name, sizeof out->name, "emulated GPU %d", number);
    out->uuid.bytes[15] = (char)number;
    out->totalGlobalMem = emulator::device_bytes();
    out->major = 9;
    return cudaSuccess;
}

} /* extern "C" */
