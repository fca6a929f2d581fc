#include "worker/route/sample_weights.h"

#include <math.h>

/* Of p: no row's chance is less. */
#define FLOOR 0.1

void sample_row_weights(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                        int32_t k, double *out)
{
    const struct part_block block = part_block_at(part, d, k);
    const struct aggregate_def *scaled = setup->scaled;
    bool in = d == PART_DIRECTION_IN;
    int64_t n = in ? block.n_col : block.n_row;
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0.0;
    }
    for (int64_t r = 0; r < block.n_row; r++) {
        double row = scaled != NULL ? part_device_scale(setup, part, part->strength, part->degree, block.rows[r])
                                    : 1.0;
        for (int64_t e = block.indptr[r]; e < block.indptr[r + 1]; e++) {
            double col = scaled != NULL ? part_device_scale(setup, part, block.strength, block.degree, block.cols[e])
                                        : 1.0;
            double to = in ? row : col, from = in ? col : row;
            double a = (block.weights != NULL ? block.weights[e] : 1.0) * to *
                       (scaled != NULL && scaled->scales_sources ? from : 1.0);
            out[in ? block.cols[e] : r] += a * a;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = sqrt(out[i]);
    }
}

static double chance(double p, double weight)
{
    return weight < FLOOR * p ? FLOOR * p : weight < 1.0 ? weight : 1.0;
}

/* Σ_u p_u where p_u is c times its weight, within bounds. */
static double chances_sum(int64_t n, double p, const double *weight, double c)
{
    double sum = 0.0;
    for (int64_t u = 0; u < n; u++) {
        sum += chance(p, c * weight[u]);
    }
    return sum;
}

/* The c that makes Σ_u p_u p · n: between the one that gives the greatest weight p, and the one that gives the least weight 1. */
static double factor_find(int64_t n, double p, const double *weight)
{
    double most = 0.0, least = INFINITY;
    for (int64_t u = 0; u < n; u++) {
        most = weight[u] > most ? weight[u] : most;
        least = weight[u] > 0.0 && weight[u] < least ? weight[u] : least;
    }
    double low = p / most, high = 1.0 / least, middle = low + (high - low) / 2.0;
    while (low < middle && middle < high) {
        if (chances_sum(n, p, weight, middle) < p * (double)n) {
            low = middle;
        } else {
            high = middle;
        }
        middle = low + (high - low) / 2.0;
    }
    return high;
}

void sample_thresholds(int64_t n, double p, const double *weight, uint32_t *out)
{
    bool any = false;
    for (int64_t u = 0; u < n; u++) {
        any = any || weight[u] > 0.0;
    }
    double c = any ? factor_find(n, p, weight) : 0.0;
    for (int64_t u = 0; u < n; u++) {
        double threshold = (any ? chance(p, c * weight[u]) : p) * 4294967296.0;
        out[u] = threshold < 1.0 ? 1 : threshold < (double)UINT32_MAX ? (uint32_t)threshold : UINT32_MAX;
    }
}
