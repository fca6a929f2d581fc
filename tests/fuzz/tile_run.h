/* A tile program over three rows, and over edges between them, in arrays of exactly the sizes that it says. */
#ifndef TESTS_FUZZ_TILE_RUN_H
#define TESTS_FUZZ_TILE_RUN_H

#include "models/device/device.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N_NODE 3
#define N_EDGE 42

/* Arrays of exactly the sizes that a program says; filled alike for each device. */
struct arrays {
    float *list[TILE_ROWS_N + TILE_TARGET_N + 2 * TILE_N_PARAM + 1];
    size_t n_float[TILE_ROWS_N + TILE_TARGET_N + 2 * TILE_N_PARAM + 1];
    int n;
};

static float *array(struct arrays *arrays, int64_t n_row, int64_t width)
{
    const size_t n = (size_t)(width > 0 ? n_row * width : 0);
    float *out = width > 0 ? memory_alloc(n, sizeof *out) : NULL;
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)((i * 73 + (size_t)arrays->n * 29) % 257) / 128.0F - 1.0F;
    }
    arrays->n_float[arrays->n] = n;
    arrays->list[arrays->n++] = out;
    return out;
}

static struct device_tile how_of(const struct tile *tile, struct arrays *arrays)
{
    static const uint32_t node[N_NODE] = {0, 1, 2};
    struct device_tile how = {.tile = tile, .drops = true, .row_node = node};
    for (int k = 0; k < TILE_ROWS_N; k++) {
        how.rows[k] = array(arrays, N_NODE, k == TILE_ROWS_SCALE_2 ? 1 : tile->width[k]);
    }
    for (int k = 0; k < TILE_TARGET_N; k++) {
        how.to[k] = array(arrays, N_NODE, tile->target[k]);
    }
    for (int k = 0; k < TILE_N_PARAM; k++) {
        how.param[k] = array(arrays, 1, tile->param[k]);
        how.grad_param[k] = array(arrays, 1, tile->param[k]);
    }
    return how;
}

static void rows_run(const struct device_ops *ops, struct device *device, const struct tile *tile,
                     struct arrays *arrays)
{
    struct device_tile how = how_of(tile, arrays);
    how.scratch = memory_alloc((size_t)device_tile_bytes(ops, tile, false) + 1, 1);
    ops->tile_rows(device, N_NODE, &how);
    free(how.scratch);
}

/* Rows of no edge, one, and more than a run has. */
static void edges_run(const struct device_ops *ops, struct device *device, const struct tile *tile,
                      struct arrays *arrays)
{
    static const int64_t indptr[N_NODE + 1] = {0, 0, 1, N_EDGE};
    static uint32_t cols[N_EDGE];
    const bool has_features = tile->width[TILE_ROWS_FEATURE] > 0;
    struct device_tile_edges how = {.of = how_of(tile, arrays),
                                    .rows_are_sources = tile->n_float % 2 == 0,
                                    .with_self = !has_features && tile->saved % 2 == 0,
                                    .begin = true,
                                    .factor = 1.0F,
                                    .saved = array(arrays, N_NODE, tile->saved)};
    for (uint32_t e = 0; e < N_EDGE; e++) {
        cols[e] = e % N_NODE;
    }
    struct device_block block = {.n_row = N_NODE, .n_col = N_NODE, .n_edge = N_EDGE, .indptr = indptr, .cols = cols};
    block.edge_table = how.of.rows[TILE_ROWS_FEATURE];
    block.edge_rows = has_features ? cols : NULL;
    how.block = &block;
    how.col_node = how.of.row_node;
    memcpy(how.self_rows, how.of.rows, sizeof how.self_rows);
    how.n_finish = how.of.to[TILE_TARGET_OUT] != NULL ? N_NODE : 0;
    how.of.scratch = memory_alloc((size_t)device_tile_bytes(ops, tile, true) + 1, 1);
    ASSERT(ops->block_open(device, &block) == STATUS_OK);
    ops->tile_edges(device, &how);
    ops->block_close(device, &block);
    free(how.of.scratch);
}

static void arrays_free(struct arrays *arrays)
{
    for (int k = 0; k < arrays->n; k++) {
        free(arrays->list[k]);
    }
}

/* A row has neither a source nor a weight, and its results are stored. */
static bool is_of_edges(const struct tile *tile)
{
    bool out = false;
    for (int k = 0; k < tile->n_instruction; k++) {
        out = out || tile->instruction[k].op == TILE_OP_WON || tile->instruction[k].op == TILE_OP_DROP;
    }
    for (int k = 0; k < tile->n_result; k++) {
        out = out || tile->result[k].reduction != TILE_REDUCTION_SUM;
    }
    return out;
}

#endif
