/* What every device does alike with a tile program over edges: which rows are read where, and how a row's results
 * begin and end.
 */
#ifndef MODELS_DEVICE_TILE_EDGES_H
#define MODELS_DEVICE_TILE_EDGES_H

#include "models/device/device_args.h"

#include <math.h>
#include <string.h>

/* Are these the rows of the block's columns, not of its own rows? */
static inline bool device_tile_is_far(const struct device_tile_edges *how, int rows)
{
    bool of_source = rows == TILE_ROWS_IN_0 || rows == TILE_ROWS_SCALE_0;
    return of_source != how->rows_are_sources;
}

/* A row before its first edge. out, saved: the row's, of the whole target and of all that is saved. */
static inline void device_tile_begin(const struct tile_result *r, float *out, float *saved)
{
    static const float starts[] = {[TILE_REDUCTION_SUM] = 0.0F,
                                   [TILE_REDUCTION_MAX] = -INFINITY,
                                   [TILE_REDUCTION_MIN] = INFINITY,
                                   [TILE_REDUCTION_LOGSUMEXP] = -INFINITY,
                                   [TILE_REDUCTION_SOFTMAX] = 0.0F};
    const bool picks = r->reduction == TILE_REDUCTION_MAX || r->reduction == TILE_REDUCTION_MIN;
    const uint32_t none = UINT32_MAX;
    for (int64_t i = 0; i < r->n; i++) {
        out[r->at + i] = starts[r->reduction];
        if (picks) {
            memcpy(&saved[r->saved + i], &none, sizeof none);
        } else if (r->reduction == TILE_REDUCTION_LOGSUMEXP) {
            saved[r->saved + i] = 0.0F;
        }
    }
    for (int64_t i = 0; i < r->n_with && r->reduction == TILE_REDUCTION_SOFTMAX; i++) { /* sums, greatest scores */
        saved[r->saved + i] = 0.0F;
        saved[r->saved + r->n_with + i] = -INFINITY;
    }
}

/* Σ y exp(s - m) and Σ exp(s - m) become the weighted mean, and m + log Σ. Σ is 0 without edges, and where all scores
 * are -inf; of a score that is not a number it is not one, either. */
static inline void device_tile_end_softmax(const struct tile_result *r, float *out, float *saved)
{
    const int64_t width = r->n / r->n_with;
    for (int64_t i = 0; i < r->n_with; i++) {
        float sum = saved[i], *most = &saved[r->n_with + i];
        for (int64_t c = 0; c < width; c++) {
            out[i * width + c] = sum == 0.0F ? 0.0F : out[i * width + c] / sum;
        }
        saved[i] = sum == 0.0F ? 0.0F : *most + logf(sum);
        *most = 0.0F;
    }
}

/* The row of OUT after its last edge: a row without edges is 0; not a number stays. */
static inline void device_tile_end(const struct device_tile_edges *how, int64_t row)
{
    const struct tile *tile = how->of.tile;
    float *out = how->of.to[TILE_TARGET_OUT] + row * tile->target[TILE_TARGET_OUT];
    float *saved = how->saved != NULL ? how->saved + row * tile->saved : NULL;
    const float scale = tile->scales_mean ? how->of.rows[TILE_ROWS_SCALE_2][row] : 1.0F;
    for (int k = 0; k < tile->n_result; k++) {
        const struct tile_result *r = &tile->result[k];
        if (r->target != TILE_TARGET_OUT) {
            continue;
        }
        if (r->reduction == TILE_REDUCTION_SOFTMAX) {
            device_tile_end_softmax(r, out + r->at, saved + r->saved);
            continue;
        }
        for (int64_t i = 0; i < r->n; i++) {
            float *to = &out[r->at + i];
            if (r->reduction == TILE_REDUCTION_LOGSUMEXP) {
                *to = saved[r->saved + i] == 0.0F ? 0.0F : *to + logf(saved[r->saved + i]);
                saved[r->saved + i] = *to;
            } else if (r->reduction != TILE_REDUCTION_SUM) {
                *to = isinf(*to) ? 0.0F : *to;
            } else if (tile->scales_mean) {
                *to *= scale;
            }
        }
    }
}

#endif
