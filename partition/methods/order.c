/* Makes the candidates, measures them and keeps the best; the dataset's own order is the baseline. */
#include "partition/methods/order.h"

#include "partition/rows/row_pairs.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_MOST 8192 /* rows: 4 MiB at 128 columns, about what a core's caches hold */
#define GAIN 0.97        /* another order must have fewer misses than this share of the current order's */

/* Distribute a sequence to the parts. */
static void deal(const uint32_t *sequence, int64_t n_node, const int32_t *owner, int32_t n_part,
                 const int64_t *part_begin, uint32_t *order)
{
    int64_t *next = memory_alloc((size_t)n_part, sizeof *next);
    memcpy(next, part_begin, (size_t)n_part * sizeof *next);
    for (int64_t i = 0; i < n_node; i++) {
        uint32_t v = sequence != NULL ? sequence[i] : (uint32_t)i;
        order[next[owner[v]]++] = v;
    }
    free(next);
}

enum status order_misses(const struct dataset *dataset, const int32_t *owner, const uint32_t *order, int64_t window,
                         int64_t *n_miss_out)
{
    uint32_t(*fetched)[2]; /* when a row was last fetched into each cache, in its fetches so far; 0 never */
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *fetched, &fetched);
    if (status != STATUS_OK) {
        return status;
    }
    /* Fetches are counted modulo 2^32 - 1, from 1: a row that survives a whole round of the counter does no harm. */
    const int64_t windows[2] = {window, ORDER_CACHES * window};
    uint32_t now[2] = {0};
    int64_t n_miss = 0;
    for (int64_t r = 0; r < dataset->n_node; r++) {
        int64_t v = order[r];
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            uint32_t u = dataset->indices[i];
            for (int k = 0; k < 2 && owner[u] == owner[v]; k++) {
                if (fetched[u][k] == 0 || now[k] - fetched[u][k] >= windows[k]) {
                    now[k] = now[k] == UINT32_MAX ? 1 : now[k] + 1;
                    fetched[u][k] = now[k];
                    n_miss++;
                }
            }
        }
    }
    memory_release(MEMORY_OTHER, fetched, (size_t)dataset->n_node, sizeof *fetched);
    *n_miss_out = n_miss;
    return STATUS_OK;
}

enum candidate { CANDIDATE_CLUSTERS, CANDIDATE_BREADTH, CANDIDATE_N };

static enum status make(enum candidate candidate, const struct dataset *dataset, const int32_t *owner, int64_t window,
                        uint32_t *sequence)
{
    return candidate == CANDIDATE_CLUSTERS ? order_cluster(dataset, window / 8, 8 * window, sequence)
                                           : order_breadth(dataset, owner, sequence);
}

/* Smaller parts are measured with a smaller cache, for which they are then ordered. */
static int64_t window_of(int64_t n_node, int32_t n_part)
{
    int64_t window = n_node / n_part / 8;
    return window < 16 ? 16 : window > WINDOW_MOST ? WINDOW_MOST : window;
}

/* A candidate's order, and its misses. */
struct trial {
    uint32_t *order; /* n_node */
    int64_t n_miss;
    enum status status;
};

static void trial_run(enum candidate candidate, const struct dataset *dataset, const int32_t *owner, int32_t n_part,
                      const int64_t *part_begin, struct trial *trial)
{
    int64_t n = dataset->n_node, window = window_of(n, n_part);
    uint32_t *sequence = NULL;
    trial->status = memory_acquire(MEMORY_OTHER, (size_t)n, sizeof *sequence, &sequence);
    if (trial->status == STATUS_OK) {
        trial->status = memory_acquire(MEMORY_OTHER, (size_t)n, sizeof *trial->order, &trial->order);
    }
    if (trial->status == STATUS_OK) {
        trial->status = make(candidate, dataset, owner, window, sequence);
    }
    if (trial->status == STATUS_OK) {
        deal(sequence, n, owner, n_part, part_begin, trial->order);
        trial->status = order_misses(dataset, owner, trial->order, window, &trial->n_miss);
    }
    memory_release(MEMORY_OTHER, sequence, (size_t)n, sizeof *sequence);
}

enum status order_build(const struct dataset *dataset, const int32_t *owner, int32_t n_part,
                        const int64_t *part_begin, uint32_t *order)
{
    int64_t n = dataset->n_node, least = 0;
    struct trial trials[CANDIDATE_N] = {0};
    deal(NULL, n, owner, n_part, part_begin, order);
    enum status status = order_misses(dataset, owner, order, window_of(n, n_part), &least);
#pragma omp parallel for schedule(dynamic) if (dataset->n_edge > ROWS_PARALLEL_LEAST)
    for (int candidate = 0; candidate < CANDIDATE_N; candidate++) {
        trial_run((enum candidate)candidate, dataset, owner, n_part, part_begin, &trials[candidate]);
    }
    for (int candidate = 0; candidate < CANDIDATE_N; candidate++) {
        const struct trial *trial = &trials[candidate];
        if (trial->status != STATUS_OK) { /* its reason is that thread's */
            status = status_fail(trial->status, "no memory to order %lld nodes", (long long)n);
        } else if ((double)trial->n_miss < GAIN * (double)least) {
            memcpy(order, trial->order, (size_t)n * sizeof *order);
            least = trial->n_miss;
        }
        memory_release(MEMORY_OTHER, trial->order, (size_t)n, sizeof *trial->order);
    }
    return status;
}
