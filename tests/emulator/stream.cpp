/* Streams, events, captures of several streams and graphs: nothing runs before it is waited for, and then in any order that streams and events allow. */
#include "tests/emulator/emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <random>

using namespace emulator;

struct stream_work {
    std::function<void()> run;
    std::function<bool()> ready; /* may it run? none: at once */
    uint64_t *from_host;         /* what the host did before it gave this work */
};

/* What is captured: work of the stream that began, and of those that came to wait for its events. */
struct captured_work {
    size_t stream; /* among capture.streams */
    enum { RUN, RECORD, WAIT } kind;
    std::function<void()> run;
    size_t event; /* RECORD, WAIT: by its number of those recorded */
};

struct capture {
    std::vector<cudaStream_t> streams; /* the first one began */
    std::vector<captured_work> work;
    size_t n_event;
};

struct emulator_stream {
    std::deque<stream_work> work;
    capture *captured;     /* NULL: not capturing */
    size_t captured_index; /* among its streams */
    void *tsan;
    uint64_t sync;
};

struct emulator_event {
    uint64_t n_recorded, n_passed;
    uint64_t sync;
    capture *captured; /* where it was recorded last; NULL: not in a capture */
    size_t number;     /* of its record there */
};

struct emulator_graph {
    capture recorded;
    std::vector<cudaStream_t> streams; /* its own, once it can be launched, for all but the first */
    std::vector<cudaEvent_t> events;   /* and its own, one for each record; the last one: of a launch's begin */
};

static std::vector<cudaStream_t> streams;
static std::vector<capture *> &ended =
    *new std::vector<capture *>; /* captures whose events may still be asked for, until the end */
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

/* A piece of work of any stream: `wanted` first, or shuffled. */
static bool step_any(cudaStream_t wanted)
{
    std::vector<cudaStream_t> tries = streams;
    std::stable_partition(tries.begin(), tries.end(), [&](cudaStream_t s) { return s == wanted; });
    if (order() > 0) {
        std::shuffle(tries.begin(), tries.end(), luck);
    }
    return std::any_of(tries.begin(), tries.end(), step);
}

/* Run what is needed until done(). */
template <typename F> static void run_until(cudaStream_t wanted, F done)
{
    while (!done() && step_any(wanted)) {
    }
    if (!done()) {
        die("streams wait for each other");
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
        s->captured->work.push_back({s->captured_index, captured_work::RUN, std::move(run), 0});
        return;
    }
    uint64_t *from_host = new uint64_t(0);
    tsan_release(from_host);
    s->work.push_back({std::move(run), std::move(ready), from_host});
    if (is_eager()) {
        run_until(s, [s] { return s->work.empty(); });
    }
}

static const char *launches_path()
{
    static const char *path = getenv("EMULATOR_LAUNCHES");
    return path;
}

/* 0 without a log: to ThreadSanitizer, what a stream writes to the host's stack is a race. */
static double seconds(clockid_t clock)
{
    if (launches_path() == nullptr) {
        return 0.0;
    }
    timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_now_s()
{
    return seconds(CLOCK_MONOTONIC);
}

void launch_write(const char *kernel, const char *types, double asked_s, double run_s, long n_block, long n_thread)
{
    static FILE *file = launches_path() != nullptr ? fopen(launches_path(), "ae") : nullptr;
    if (file != nullptr) {
        fprintf(file, "%.9f %.9f %ld %ld %s %s\n", asked_s, run_s, n_block, n_thread, kernel, types);
        fflush(file);
    }
}

void launch(const char *kernel, const char *types, const void *code, dim3 grid, dim3 block, cudaStream_t stream,
            std::function<void()> body)
{
    const double asked_s = clock_now_s();
    enqueue(stream, [=] {
        const double begin_s = seconds(CLOCK_THREAD_CPUTIME_ID);
        grid_run(kernel, code, grid, block, body);
        launch_write(kernel, types, asked_s, seconds(CLOCK_THREAD_CPUTIME_ID) - begin_s,
                     (long)grid.x * grid.y * grid.z, (long)block.x * block.y * block.z);
    });
}

} // namespace emulator

static cudaStream_t stream_new()
{
    cudaStream_t s = new emulator_stream{};
    s->tsan = tsan_new();
    streams.push_back(s);
    return s;
}

static void record(cudaEvent_t event, cudaStream_t s)
{
    uint64_t n = ++event->n_recorded;
    enqueue(s, [event, n] {
        tsan_release(&event->sync);
        event->n_passed = n;
    });
}

static void follow(cudaStream_t s, cudaEvent_t event)
{
    uint64_t n = event->n_recorded;
    enqueue(
        s, [event] { tsan_acquire(&event->sync); }, [event, n] { return event->n_passed >= n; });
}

/* Outside of a capture an event has to be of none. */
static void expect_plain(cudaEvent_t event)
{
    if (event->captured != nullptr) {
        die("an event of a capture is asked for outside of it");
    }
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = stream_new();
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
    event->captured = s->captured;
    if (s->captured != nullptr) {
        event->number = s->captured->n_event++;
        s->captured->work.push_back({s->captured_index, captured_work::RECORD, {}, event->number});
        return cudaSuccess;
    }
    record(event, s);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned)
{
    bool is_open = std::find(ended.begin(), ended.end(), event->captured) == ended.end();
    if (event->captured != nullptr && is_open && s->captured == nullptr) { /* the stream joins the capture */
        s->captured = event->captured;
        s->captured_index = s->captured->streams.size();
        s->captured->streams.push_back(s);
    }
    if (s->captured != nullptr) {
        if (event->captured != s->captured) {
            die("a captured stream waits for an event that is not of its capture");
        }
        s->captured->work.push_back({s->captured_index, captured_work::WAIT, {}, event->number});
        return cudaSuccess;
    }
    expect_plain(event);
    follow(s, event);
    return cudaSuccess;
}

/* A look moves one piece of work on: who only looks comes to an end, too. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    expect_plain(event);
    if (event->n_passed < event->n_recorded) {
        step_any(nullptr);
    }
    if (event->n_passed < event->n_recorded) {
        return cudaErrorNotReady;
    }
    tsan_acquire(&event->sync);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    expect_plain(event);
    uint64_t n = event->n_recorded;
    run_until(nullptr, [event, n] { return event->n_passed >= n; });
    tsan_acquire(&event->sync);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    s->captured = new capture{};
    s->captured_index = 0;
    s->captured->streams.push_back(s);
    return cudaSuccess;
}

/* Is all work of the capture before the end of the stream that began it? */
static bool is_joined(const capture &all)
{
    std::vector<bool> behind(all.work.size(), false);
    for (size_t i = all.work.size(); i-- > 0;) {
        const captured_work &w = all.work[i];
        bool is = w.stream == 0;
        for (size_t k = i + 1; k < all.work.size() && !is; k++) {
            bool same = all.work[k].stream == w.stream;
            bool waits = w.kind == captured_work::RECORD && all.work[k].kind == captured_work::WAIT &&
                         all.work[k].event == w.event;
            is = behind[k] && (same || waits);
        }
        behind[i] = is;
    }
    return std::all_of(behind.begin(), behind.end(), [](bool is) { return is; });
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    capture *all = s->captured;
    if (!is_joined(*all)) {
        die("what is captured does not end where the stream that began it does");
    }
    for (cudaStream_t one : all->streams) {
        one->captured = nullptr;
    }
    ended.push_back(all);
    *out = new emulator_graph{*all, {}, {}};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    *out = new emulator_graph{graph->recorded, {}, {}};
    for (size_t i = 0; i <= graph->recorded.n_event; i++) {
        (*out)->events.push_back(new emulator_event{});
    }
    for (size_t i = 1; i < graph->recorded.streams.size(); i++) {
        (*out)->streams.push_back(stream_new());
    }
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
    record(graph->events.back(), s);
    for (cudaStream_t own : graph->streams) {
        follow(own, graph->events.back());
    }
    for (const captured_work &w : graph->recorded.work) {
        cudaStream_t on = w.stream == 0 ? s : graph->streams[w.stream - 1];
        if (w.kind == captured_work::RUN) {
            enqueue(on, w.run);
        } else if (w.kind == captured_work::RECORD) {
            record(graph->events[w.event], on);
        } else {
            follow(on, graph->events[w.event]);
        }
    }
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t code = cudaSuccess;
    for (cudaStream_t own : graph->streams) {
        code = code == cudaSuccess ? cudaStreamDestroy(own) : code;
    }
    for (cudaEvent_t own : graph->events) {
        delete own;
    }
    delete graph;
    return code;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    return cudaGraphDestroy(graph);
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaSuccess                 ? "no error"
           : code == cudaErrorMemoryAllocation ? "out of memory"
           : code == cudaErrorNoDevice         ? "no CUDA-capable device is detected"
           : code == cudaErrorNotSupported     ? "operation not supported"
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

cudaError_t cudaDeviceGetP2PAttribute(int *out, enum cudaDeviceP2PAttr what, int gpu, int other)
{
    const std::vector<int> &all = emulator::gpus();
    const int n = what == cudaDevP2PAttrAccessSupported ? 4 : 2;
    *out = all.at((size_t)gpu) / n == all.at((size_t)other) / n;
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
