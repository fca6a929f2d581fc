/* Cutting rows, chunks and blocks into pieces of work: only by shape, never by the number of threads. */
#include "models/cpu/cpu.h"

#include <omp.h>
#include <stdlib.h>

/* Cost of one range of a block: an edge costs 1, a row 1. */
#define RANGE_COST_MIN 1024
#define RANGE_COST_MAX 16384
#define RANGE_N_WANTED 256

int64_t cpu_step_rows(int64_t f)
{
    int64_t rows = 16384 / (f > 0 ? f : 1);
    return rows > 1 ? rows : 1;
}

static int64_t range_cost(int64_t n_row, int64_t n_edge)
{
    int64_t cost = (n_row + n_edge) / RANGE_N_WANTED;
    return cost < RANGE_COST_MIN ? RANGE_COST_MIN : cost > RANGE_COST_MAX ? RANGE_COST_MAX : cost;
}

bool cpu_schedule_is_small(int64_t n_row, int64_t n_edge)
{
    return n_row + n_edge <= RANGE_COST_MIN;
}

/* Walk the rows once; with NULL arrays only count. A hub row ends the range before it and belongs to no range. */
static void cut(struct cpu_schedule *schedule, int64_t n_row, const int64_t *indptr, int64_t *range,
                struct cpu_piece *piece)
{
    int64_t limit = range_cost(n_row, n_row > 0 ? indptr[n_row] - indptr[0] : 0);
    int64_t n_range = 0, n_piece = 0, first = 0, cost = 0;
    for (int64_t r = 0; r <= n_row; r++) {
        bool hub = r < n_row && indptr[r + 1] - indptr[r] > DEVICE_HUB_EDGES;
        if (r > first && (r == n_row || hub || cost >= limit)) {
            if (range != NULL) {
                range[2 * n_range] = first;
                range[2 * n_range + 1] = r;
            }
            n_range++;
            first = r;
            cost = 0;
        }
        if (hub) {
            for (int64_t e = indptr[r]; e < indptr[r + 1]; e += DEVICE_HUB_EDGES, n_piece++) {
                int64_t end = e + DEVICE_HUB_EDGES < indptr[r + 1] ? e + DEVICE_HUB_EDGES : indptr[r + 1];
                if (piece != NULL) {
                    piece[n_piece] = (struct cpu_piece){r, e, end};
                }
            }
            first = r + 1;
        } else if (r < n_row) {
            cost += 1 + indptr[r + 1] - indptr[r];
        }
    }
    schedule->n_range = n_range;
    schedule->n_piece = n_piece;
}

enum status cpu_schedule_open(int64_t n_row, const int64_t *indptr, struct cpu_schedule **out)
{
    struct cpu_schedule *schedule = memory_alloc(1, sizeof *schedule);
    cut(schedule, n_row, indptr, NULL, NULL);
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)schedule->n_range * 2, sizeof *schedule->range,
                                        &schedule->range);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_STRUCTURE, (size_t)schedule->n_piece, sizeof *schedule->piece,
                                &schedule->piece);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_STRUCTURE, (size_t)schedule->n_piece * CPU_PARTIAL_COLUMNS,
                                sizeof *schedule->partial, &schedule->partial);
    }
    if (status != STATUS_OK) {
        cpu_schedule_close(schedule);
        return status;
    }
    cut(schedule, n_row, indptr, schedule->range, schedule->piece);
    *out = schedule;
    return STATUS_OK;
}

/* Ranges and pieces at most: a range but the last costs its limit or ends at a hub row, and all but a row's last
 * piece are full. */
static int64_t most_pieces(int64_t n_edge)
{
    return 2 * (n_edge / DEVICE_HUB_EDGES);
}

static int64_t most_ranges(int64_t n_row, int64_t n_edge)
{
    return RANGE_N_WANTED + (n_row + n_edge) / RANGE_COST_MAX + n_edge / DEVICE_HUB_EDGES + 2;
}

size_t cpu_schedule_most(int64_t n_row, int64_t n_edge)
{
    return sizeof(struct cpu_schedule) + (size_t)most_ranges(n_row, n_edge) * 2 * sizeof(int64_t) +
           (size_t)most_pieces(n_edge) * (sizeof(struct cpu_piece) + CPU_PARTIAL_COLUMNS * sizeof(float));
}

void cpu_schedule_make(int64_t n_row, int64_t n_edge, const int64_t *indptr, void *memory)
{
    struct cpu_schedule *schedule = memory;
    schedule->range = (int64_t *)(void *)(schedule + 1);
    schedule->piece = (struct cpu_piece *)(void *)(schedule->range + 2 * most_ranges(n_row, n_edge));
    schedule->partial = (float *)(void *)(schedule->piece + most_pieces(n_edge));
    cut(schedule, n_row, indptr, schedule->range, schedule->piece);
}

void cpu_schedule_close(struct cpu_schedule *schedule)
{
    if (schedule == NULL) {
        return;
    }
    memory_release(MEMORY_STRUCTURE, schedule->range, (size_t)schedule->n_range * 2, sizeof *schedule->range);
    memory_release(MEMORY_STRUCTURE, schedule->piece, (size_t)schedule->n_piece, sizeof *schedule->piece);
    memory_release(MEMORY_STRUCTURE, schedule->partial, (size_t)schedule->n_piece * CPU_PARTIAL_COLUMNS,
                   sizeof *schedule->partial);
    free(schedule);
}

size_t cpu_schedule_bytes(int64_t n_block, int64_t n_row, int64_t n_edge)
{
    if (n_block <= 0) {
        return 0;
    }
    if (cpu_schedule_is_small(n_row / n_block, n_edge / n_block)) {
        n_block = 0; /* nearly all blocks have no schedule */
    }
    int64_t n_range = n_block + (n_row + n_edge) /
                                    (n_block > 0 ? range_cost(n_row / n_block, n_edge / n_block) : RANGE_COST_MIN);
    int64_t n_piece = n_edge / DEVICE_HUB_EDGES; /* as if every edge were a hub row's: still next to nothing */
    return (size_t)n_range * 2 * sizeof(int64_t) +
           (size_t)n_piece * (sizeof(struct cpu_piece) + CPU_PARTIAL_COLUMNS * sizeof(float));
}

void cpu_chunks_run(struct device *device, int n_chunk, void (*run)(void *context, int chunk, int slot),
                    void *context)
{
    struct cpu_device *cpu = cpu_device(device);
    int n_all = cpu_loop_begin(cpu, n_chunk > 1), n_thread = n_all < n_chunk ? n_all : n_chunk;
    if (n_all > 0) { /* else operations may have loops of their own */
        cpu->in_chunks = true;
    }
    if (n_thread <= 1) {
        for (int i = 0; i < n_chunk; i++) {
            run(context, i, 0);
        }
    } else {
#pragma omp parallel for num_threads(n_thread) schedule(dynamic)
        for (int i = 0; i < n_chunk; i++) {
            run(context, i, omp_get_thread_num());
        }
    }
    if (n_all > 0) {
        cpu->in_chunks = false;
        cpu_threads_end(cpu->threads);
    }
}
