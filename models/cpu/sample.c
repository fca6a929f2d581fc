/* Blocks made of others for one halo pass: edges of listed columns, and edges from their other ends.
 *
 * The places of a result's arrays in scratch follow from its upper bounds; the work itself fills them.
 */
#include "models/cpu/cpu.h"

#include <string.h>

#define SCRATCH_ALIGN 64
#define NOT_KEPT UINT32_MAX
#define ROWS_AT_ONCE 256 /* that a thread takes */

/* Arrays in scratch. */
struct arrays {
    void *schedule;
    int64_t *indptr; /* n_row + 1 */
    int64_t *next;   /* n_col: transposing, a row's next edge */
    uint32_t *place; /* n_col: sampling, a column's place among those kept (the same memory as next) */
    uint32_t *cols;
    float *weights;  /* or edges' rows of a table; NULL: the block is unweighted */
    uint16_t *types; /* likewise */
    size_t n_bytes;
};

static size_t aligned(size_t n)
{
    return (n + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

/* The arrays of a result with n_row rows, of a block whose edges have these arrays. scratch NULL: only their bytes */
static struct arrays arrays_place(int64_t n_row, int64_t n_col, int64_t n_edge, bool weighted, bool typed,
                                  char *scratch)
{
    struct arrays a = {0};
    size_t at = 0, n = (size_t)n_edge, indptr, next, cols, weights, types;
    indptr = at += aligned(cpu_schedule_most(n_row, n_edge));
    next = at += aligned(((size_t)n_row + 1) * sizeof *a.indptr);
    cols = at += aligned((size_t)n_col * sizeof *a.next);
    weights = at += aligned(n * sizeof *a.cols);
    types = at += weighted ? aligned(n * sizeof *a.weights) : 0;
    a.n_bytes = at + (typed ? aligned(n * sizeof *a.types) : 0);
    if (scratch != NULL) {
        a.schedule = scratch;
        a.indptr = (int64_t *)(void *)(scratch + indptr);
        a.next = (int64_t *)(void *)(scratch + next);
        a.place = (uint32_t *)(void *)(scratch + next);
        a.cols = (uint32_t *)(void *)(scratch + cols);
        a.weights = weighted ? (float *)(void *)(scratch + weights) : NULL;
        a.types = typed ? (uint16_t *)(void *)(scratch + types) : NULL;
    }
    return a;
}

static struct arrays arrays_of(const struct device_block *block, int64_t n_row, int64_t n_col, void *scratch)
{
    return arrays_place(n_row, n_col, block->n_edge, block->weights != NULL, block->types != NULL, scratch);
}

size_t cpu_block_made_bytes(int64_t n_row, int64_t n_col, int64_t n_edge, size_t edge_bytes)
{
    size_t extra = edge_bytes - sizeof(uint32_t);
    bool typed = extra % sizeof(float) != 0;
    return arrays_place(n_row, n_col, n_edge, extra >= sizeof(float), typed, NULL).n_bytes;
}

static struct device_block block_of(const struct arrays *a, int64_t n_row, int64_t n_col, int64_t n_edge)
{
    return (struct device_block){.n_row = n_row,
                                 .n_col = n_col,
                                 .n_edge = n_edge,
                                 .indptr = a->indptr,
                                 .cols = a->cols,
                                 .types = a->types,
                                 .weights = a->weights,
                                 .schedule = a->schedule};
}

struct device_block cpu_block_sampled(const struct device_block *block, int64_t n_kept, void *scratch)
{
    const struct arrays a = arrays_of(block, block->n_row, block->n_col, scratch);
    struct device_block out = block_of(&a, block->n_row, n_kept, block->n_edge);
    out.rows = block->rows;
    out.edge_table = block->edge_table;
    return out;
}

struct device_block cpu_block_transposed(const struct device_block *block, int64_t n_own, void *scratch)
{
    const struct arrays a = arrays_of(block, block->n_col, block->n_row, scratch);
    struct device_block out = block_of(&a, block->n_col, n_own, block->n_edge);
    out.edge_table = block->edge_table;
    return out;
}

/* indptr[r + 1] counts the edges of row r: turn counts into ends. */
static void counts_sum(int64_t n_row, int64_t *indptr)
{
    indptr[0] = 0;
    for (int64_t r = 0; r < n_row; r++) {
        indptr[r + 1] += indptr[r];
    }
}

/* --- edges of listed columns --- */

static int64_t row_count(const struct device_block *block, const uint32_t *place, int64_t r)
{
    int64_t n = 0;
    for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
        n += place[block->cols[e]] != NOT_KEPT;
    }
    return n;
}

/* The block's edge e becomes edge `at`, of this column. */
static void edge_put(const struct device_block *block, int64_t e, const struct arrays *to, int64_t at, uint32_t col)
{
    to->cols[at] = col;
    if (to->weights != NULL) {
        memcpy(&to->weights[at], &block->weights[e], sizeof *to->weights);
    }
    if (to->types != NULL) {
        to->types[at] = block->types[e];
    }
}

static void row_fill(const struct device_block *block, const struct arrays *to, int64_t r)
{
    int64_t at = to->indptr[r];
    for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
        uint32_t place = to->place[block->cols[e]];
        if (place == NOT_KEPT) {
            continue;
        }
        edge_put(block, e, to, at++, place);
    }
}

void cpu_block_sample(struct device *device, const struct device_block *block, int64_t n_kept, const uint32_t *kept,
                      void *scratch, struct device_block *out)
{
    const struct arrays to = arrays_of(block, block->n_row, block->n_col, scratch);
    const int64_t n_row = block->n_row;
    bool parallel = n_row + block->n_edge >= CPU_PARALLEL_MIN;
    memset(to.place, 0xff, (size_t)block->n_col * sizeof *to.place);
    for (int64_t i = 0; i < n_kept; i++) {
        to.place[kept[i]] = (uint32_t)i;
    }
    CPU_LOOP_AS(
        "omp parallel for num_threads(n_loop_thread) schedule(dynamic, ROWS_AT_ONCE)", cpu_device(device), parallel,
        for (int64_t r = 0; r < n_row; r++) { to.indptr[r + 1] = row_count(block, to.place, r); });
    counts_sum(n_row, to.indptr);
    CPU_LOOP_AS(
        "omp parallel for num_threads(n_loop_thread) schedule(dynamic, ROWS_AT_ONCE)", cpu_device(device), parallel,
        for (int64_t r = 0; r < n_row; r++) { row_fill(block, &to, r); });
    cpu_schedule_make(n_row, block->n_edge, to.indptr, to.schedule);
    *out = cpu_block_sampled(block, n_kept, scratch);
}

/* --- edges from their other ends --- */

static void edge_turn(const struct device_block *block, const struct arrays *to, int64_t r, int64_t e)
{
    int64_t at = to->indptr[block->cols[e] + 1]++;
    edge_put(block, e, to, at, block->rows != NULL ? block->rows[r] : (uint32_t)r);
}

/* Type after type, as each row has them: no row is gone through twice. */
static void typed_edges_put(const struct device_block *block, const struct arrays *to)
{
    int64_t n_left = block->indptr[block->n_row] - block->indptr[0];
    memcpy(to->next, block->indptr, (size_t)block->n_row * sizeof *to->next);
    for (uint32_t type = 0; n_left > 0; type++) {
        for (int64_t r = 0; r < block->n_row; r++) {
            for (; to->next[r] < block->indptr[r + 1] && block->types[to->next[r]] == type; to->next[r]++, n_left--) {
                edge_turn(block, to, r, to->next[r]);
            }
        }
    }
}

void cpu_block_transpose(struct device *device, const struct device_block *block, int64_t n_own, void *scratch,
                         struct device_block *out)
{
    const struct arrays to = arrays_of(block, block->n_col, block->n_row, scratch);
    const int64_t n_row = block->n_col;
    (void)device;
    /* Counted one place too far, so that indptr[c + 1] is where column c's next edge goes, and in the end where they
     * end. */
    memset(to.indptr, 0, ((size_t)n_row + 1) * sizeof *to.indptr);
    for (int64_t e = block->indptr[0]; e < block->indptr[block->n_row]; e++) {
        int64_t c = (int64_t)block->cols[e] + 2;
        to.indptr[c <= n_row ? c : 0]++;
    }
    counts_sum(n_row, to.indptr);
    if (block->types != NULL) {
        typed_edges_put(block, &to);
    } else {
        for (int64_t r = 0; r < block->n_row; r++) {
            for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
                edge_turn(block, &to, r, e);
            }
        }
    }
    cpu_schedule_make(n_row, block->n_edge, to.indptr, to.schedule);
    *out = cpu_block_transposed(block, n_own, scratch);
}
