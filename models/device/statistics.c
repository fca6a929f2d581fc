#include "models/device/statistics.h"

void statistics_merge(int64_t f, double *left, const double *right)
{
    double n = left[0] + right[0];
    if (right[0] == 0.0) {
        return;
    }
    double share = right[0] / n, both = left[0] * share; /* n_l n_r / n */
    for (int64_t c = 1; c <= f; c++) {
        double apart = right[c] - left[c];
        left[c] += apart * share;
        left[f + c] += right[f + c] + apart * apart * both;
    }
    left[0] = n;
}
