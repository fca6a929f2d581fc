/* What the emulator's files share: its knobs, how it ends, and what ThreadSanitizer is told. The emulator itself is never built with
 * ThreadSanitizer: to it, only kernels, copies and the host are there. */
#ifndef EMULATOR_EMULATOR_H
#define EMULATOR_EMULATOR_H

#include <cuda_runtime.h>

#include <vector>

namespace emulator
{

/* Print and end. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void die(const char *format, ...);

/* EMULATOR_ORDER: 0 up, -1 down, else a shuffle's seed. */
long order();
/* A list in that order; `salt` tells lists apart. */
void order_arrange(std::vector<int> &list, unsigned salt);
bool is_protected(); /* EMULATOR_PROTECT */
bool is_eager();     /* EMULATOR_EAGER */
bool is_unified();   /* EMULATOR_UNIFIED */
/* Of the EMULATOR_GPUS (1) that there are, the numbers of those that CUDA_VISIBLE_DEVICES shows, in its order. */
const std::vector<int> &gpus();
/* A function that device code looks for by its name. */
struct named {
    const char *name;
    void *function;
};
/* NULL: it is not among these, or the knob is 0, since the machine lacks the library. */
void *function_find(const std::vector<named> &all, const char *name, const char *knob);
/* Bytes that a knob says. */
size_t n_byte(const char *knob, size_t otherwise);

/* --- device memory (memory.cpp) --- */
bool on_device(const void *at);
size_t device_bytes(); /* EMULATOR_MEMORY */
bool context_take();   /* EMULATOR_CONTEXT; false: there is not so much */
/* While something runs on the device its memory can be read and written. Calls nest. */
void device_enter();
void device_leave();

/* --- a grid (block.cpp) --- */
void grid_run(const char *kernel, const void *code, dim3 grid, dim3 block, const std::function<void()> &body);
/* Called when a block has ended, and at the end of a grid; NULL but where accesses are counted (sectors/). */
extern void (*block_watch)(const void *code, bool is_last);
/* Byte of its array in shared memory; -1: it is elsewhere. */
long shared_place(const void *at);
size_t shared_bytes();

/* --- launches (stream.cpp) --- */
double clock_now_s(); /* CLOCK_MONOTONIC, as traces of jobs have it */
/* With EMULATOR_LAUNCHES=FILE: add a line "ASKED_S RUN_S BLOCKS THREADS KERNEL" for a grid that has run so long on the processor. */
void launch_write(const char *kernel, const char *types, double asked_s, double run_s, long n_block, long n_thread);

/* --- streams (stream.cpp) --- */
/* Run it in the order of the stream. */
void enqueue(cudaStream_t stream, std::function<void()> run, std::function<bool()> ready = nullptr);

} // namespace emulator

/* ThreadSanitizer; nothing without it. */
#ifdef EMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);
#define tsan_self() __tsan_get_current_fiber()
#define tsan_new() __tsan_create_fiber(0)
#define tsan_become(fiber) __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync)
#define tsan_release __tsan_release
#define tsan_acquire __tsan_acquire
#define tsan_ignore_writes(is) ((is) ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__)
#else
static inline void tsan_nothing(void *)
{
}
#define tsan_self() nullptr
#define tsan_new() nullptr
#define tsan_become(fiber) tsan_nothing(fiber)
#define tsan_release tsan_nothing
#define tsan_acquire tsan_nothing
#define tsan_ignore_writes(is) (void)(is)
#endif

/* What sanitizers shall see (copy.cpp, built with them). */
extern "C" {
void emulator_copy(void *to, const void *from, size_t n_bytes);
void emulator_set(void *to, int byte, size_t n_bytes);
void emulator_gemm(int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc);
/* out = alpha · A · x + beta · out. turn: -1: edges in their order, in shares of the matrix's; else a row's from that one on, around */
void emulator_spmm(long n_row, long n_col, const int *offsets, const int *columns, const float *values, long f,
                   float alpha, const float *x, float beta, float *out, long turn);
}

#endif
