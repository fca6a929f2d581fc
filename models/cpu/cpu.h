/* The cpu device: OpenMP over fixed pieces of work, oneDNN for dense products, own kernels for the rest.
 *
 * Bits never depend on the number of threads: work is cut into pieces only by shape, one thread processes a piece,
 * and partial results are combined in the order of the pieces. They do not depend on the processor's vectors either:
 * the kernels of kernels.h add lane by lane, in one order, with one rounding per step.
 */
#ifndef MODELS_CPU_CPU_H
#define MODELS_CPU_CPU_H

#include "models/cpu/kernels/kernels.h"
#include "models/cpu/threads.h"
#include "models/device/device_list.h"
#include "models/device/row_chunks.h"
#include "models/reference/reference.h"

#include <omp.h>

struct cpu_device {
    struct device base;
    int n_thread;
    struct cpu_threads *threads; /* how many of these a loop takes; of a const device, too */
    struct cpu_threads threads_now;
    bool in_chunks;              /* operations have no loops on several threads */
    void (*poll)(void *context); /* NULL: none */
    void *poll_context;
    const struct cpu_kernels *kernels;
    void (*product)(const struct cpu_product *product); /* in BF16: the kernels', or by tiles */
    enum status failed;                                 /* the first failure since open */
    char reason[1024];
};

static inline struct cpu_device *cpu_device(struct device *device)
{
    return (struct cpu_device *)device;
}

/* Called between two pieces of an operation. Only the calling thread polls, and not in operations inside of chunks or
 * of a poll. */
static inline void cpu_between(const struct cpu_device *device)
{
    if (device->poll != NULL && !device->in_chunks && omp_get_level() <= 1 && omp_get_thread_num() == 0) {
        device->poll(device->poll_context);
    }
}

/* Cold operations, and those on any host memory, are the reference device's. */
#define cpu_close reference_close
#define cpu_acquire reference_acquire
#define cpu_release reference_release
#define cpu_borrow reference_borrow
#define cpu_giveback reference_giveback
#define cpu_mark reference_mark
#define cpu_follow reference_follow
#define cpu_passed reference_passed
#define cpu_batch_norm_begin reference_batch_norm_begin
#define cpu_doubles_merge reference_doubles_merge
#define cpu_floats_compare reference_floats_compare
#define cpu_clip_factor reference_clip_factor

#define X(op) DEVICE_OP_PROTOTYPE(cpu, op);
DEVICE_OP_LIST(X)
#undef X

/* Threads of a loop that begins, where it is_worth several; 0: it is not, or runs inside of another. */
static inline int cpu_loop_begin(const struct cpu_device *device, bool is_worth)
{
    if (!is_worth || device->n_thread == 1 || device->in_chunks || omp_get_level() > 0) {
        return 0;
    }
    return cpu_threads_begin(device->threads) ? 1 : device->n_thread;
}

/* A for loop on all threads, or on the calling one without a parallel region: one of a single thread, too, takes
 * 0.3 us, and 0.9 us inside of another. */
#define CPU_LOOP_AS(pragma, device, is_worth, ...)                                                                   \
    do {                                                                                                             \
        const int n_loop_thread = cpu_loop_begin(device, is_worth);                                                  \
        if (n_loop_thread > 1) {                                                                                     \
            _Pragma(pragma) __VA_ARGS__                                                                              \
        } else {                                                                                                     \
            __VA_ARGS__                                                                                              \
        }                                                                                                            \
        if (n_loop_thread > 0) {                                                                                     \
            cpu_threads_end((device)->threads);                                                                      \
        }                                                                                                            \
    } while (0)
#define CPU_LOOP(device, is_worth, ...)                                                                              \
    CPU_LOOP_AS("omp parallel for num_threads(n_loop_thread)", device, is_worth, __VA_ARGS__)
#define CPU_LOOP_DYNAMIC(device, is_worth, ...)                                                                      \
    CPU_LOOP_AS("omp parallel for num_threads(n_loop_thread) schedule(dynamic)", device, is_worth, __VA_ARGS__)

/* Below this many elements an operation stays on the calling thread: waking other threads costs more than it
 * saves. */
#define CPU_PARALLEL_MIN 16384

/* Rows in one step of a loop over n rows of f columns: about 64 KiB of floats. */
int64_t cpu_step_rows(int64_t f);

/* The schedule of rows: ranges of even cost, and hub rows, too long for one thread, in pieces. */
struct cpu_schedule {
    int64_t n_range;
    int64_t *range; /* n_range × 2: first row and end */
    int64_t n_piece;
    struct cpu_piece *piece; /* of hub rows, a row's pieces one after another */
    float *partial;          /* n_piece × CPU_PARTIAL_COLUMNS: a piece's sums, or its results in an attention */
};

struct cpu_piece {
    int64_t row;        /* of the block */
    int64_t begin, end; /* edges */
};

#define CPU_PARTIAL_COLUMNS 1024

/* The schedule of a block; a small block has no schedule of its own: `small` then holds its only range. */
struct cpu_small_schedule {
    struct cpu_schedule schedule;
    int64_t range[2];
};

static inline const struct cpu_schedule *cpu_block_schedule(const struct device_block *block,
                                                            struct cpu_small_schedule *small)
{
    if (block->schedule != NULL) {
        return block->schedule;
    }
    small->range[0] = 0;
    small->range[1] = block->n_row;
    small->schedule = (struct cpu_schedule){.n_range = block->n_row > 0, .range = small->range};
    return &small->schedule;
}

/* Edges of a block. For a block made for one pass, n_edge is only their upper bound. */
static inline int64_t cpu_n_edge(const struct device_block *block)
{
    return block->indptr[block->n_row];
}

/* Is any block of this many rows and edges one range? */
bool cpu_schedule_is_small(int64_t n_row, int64_t n_edge);

/* owns  the caller owns *out: cpu_schedule_close · errors  STATUS_NOMEM */
enum status cpu_schedule_open(int64_t n_row, const int64_t *indptr, struct cpu_schedule **out);
void cpu_schedule_close(struct cpu_schedule *schedule);

/* A schedule in the caller's memory, cpu_schedule_most bytes for n_row rows of at most n_edge edges. Nothing to
 * close. */
size_t cpu_schedule_most(int64_t n_row, int64_t n_edge);
void cpu_schedule_make(int64_t n_row, int64_t n_edge, const int64_t *indptr, void *memory);

/* The result of block_sample and block_transpose, before the work is done. */
struct device_block cpu_block_sampled(const struct device_block *block, int64_t n_kept, void *scratch);
struct device_block cpu_block_transposed(const struct device_block *block, int64_t n_own, void *scratch);

/* Partial sums of an attention's parameters, and of relation_dot, at most; rows of a chunk of a weight's gradient. */
#define CPU_ATTENTION_PARTIALS 128
#define CPU_TILE_PARTIALS 128
#define CPU_RELATION_CHUNKS 32
int64_t cpu_weight_chunk_rows(int64_t n);

/* to (columns × rows) = from (rows × columns) transposed */
void cpu_transpose(struct cpu_device *device, int64_t rows, int64_t columns, const float *from, float *to);

/* Does a product of n rows of f_in columns with wᵀ turn w first? */
bool cpu_linear_turns(int64_t n, int64_t f_in);

/* Is a product in float32 one for product_small? */
bool cpu_product_is_small(const struct cpu_product *p);

/* Bytes of the scratch of block_sample and block_transpose for a result of this size. */
size_t cpu_block_made_bytes(int64_t n_row, int64_t n_col, int64_t n_edge, size_t edge_bytes);

/* About the bytes of n_block schedules over n_row rows and n_edge edges in all. */
size_t cpu_schedule_bytes(int64_t n_block, int64_t n_row, int64_t n_edge);

/* Scratch of aggregate_sum over rows of up to n_col × f; 0: it needs none. */
size_t cpu_panel_bytes(int64_t n_col, int64_t f);

/* Run a sum over all rows of a schedule. */
void cpu_sum(struct cpu_device *device, const struct cpu_schedule *schedule, const struct cpu_sum *sum);

/* Run an attention's pass over the hub rows of its block; sums as the kernels', or NULL.
 *
 *   notes  a row's pieces start empty and are merged in their order into the row: softmaxes by their row maxima, sums
 *          by adding. sums has n_slot sets; a piece's set depends only on its number
 */
void cpu_attention_hub(const struct cpu_device *device, const struct cpu_attention *attention, int64_t n_slot,
                       double *sums);

/* The same over other rows of the block, first … end-1, in one thread; sums is one set, or NULL. */
void cpu_attention_rows(const struct cpu_device *device, const struct cpu_attention *attention, int64_t first,
                        int64_t end, double *sums);

#endif
