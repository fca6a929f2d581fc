#include "tests/gpu/bench/atomics.h"

#include <stdio.h>
#include <stdlib.h>

/* Edges of a piece: short enough that a long row keeps many warps busy. */
#define PIECE 512

static int64_t pieces_of(const struct graph *graph, struct atomics_piece *out)
{
    int64_t n = 0;
    for (int64_t r = 0; r < graph->n_node; r++) {
        bool is_long = graph->indptr[r + 1] - graph->indptr[r] > CUDA_LONG_EDGES;
        for (int64_t e = graph->indptr[r]; is_long && e < graph->indptr[r + 1]; e += PIECE, n++) {
            int64_t end = e + PIECE < graph->indptr[r + 1] ? e + PIECE : graph->indptr[r + 1];
            if (out != NULL) {
                out[n] = (struct atomics_piece){r, e, end};
            }
        }
    }
    return n;
}

void atomics_sum_open(struct figure *f, const struct graph *graph, const struct device_block *block, int64_t n_column,
                      const float *x, float *out, struct atomics_sum *sum)
{
    const struct cuda_schedule none = {.n_byte = sizeof none};
    *sum = (struct atomics_sum){
        .block = *block, .n_piece = pieces_of(graph, NULL), .f = n_column, .x = x, .out = out};
    struct atomics_piece *host = malloc((size_t)(sum->n_piece + 1) * sizeof *host);
    if (host == NULL) {
        snprintf(f->reason, sizeof f->reason, "no host memory");
        return;
    }
    pieces_of(graph, host);
    sum->piece = figure_copy(f, host, sum->n_piece * (int64_t)sizeof *host);
    sum->block.schedule = figure_copy(f, &none, sizeof none);
    free(host);
}

void atomics_sum_run(struct figure *f, void *sum)
{
    const struct atomics_sum *s = sum;
    const struct device_aggregate plain = {.begin = true, .finish = true};
    f->ops->aggregate_sum(f->device, &s->block, &plain, s->f, s->x, s->out);
    atomics_launch(f, s);
}
