/* The loss of links. */
#include "models/reference/reference.h"

#include <math.h>

/* −log σ(s) of a pair with an edge, −log(1 − σ(s)) of another one; the derivatives σ(s) − 1 and σ(s). */
void reference_link_loss(struct device *device, const struct device_links *how, double *sum)
{
    (void)device;
    for (int64_t r = 0; r < how->n_row; r++) {
        const float *own = how->own + r * how->f;
        float *grad = how->grad + r * how->f;
        for (int64_t e = how->indptr[r]; e < how->indptr[r + 1]; e++) {
            if (how->places[e] < how->first || how->places[e] >= how->end) {
                continue;
            }
            const float *x = how->x + (int64_t)(how->places[e] - how->first) * how->f;
            double s = reference_product(how->f, own, x), t = how->joined ? -s : s;
            double slope = (how->joined ? -1.0 : 1.0) / (1.0 + exp(-t));
            *sum += 0.5 * how->weight * (fmax(t, 0.0) + log1p(exp(-fabs(t))));
            for (int64_t c = 0; c < how->f; c++) {
                grad[c] = (float)(grad[c] + how->weight * slope * x[c]);
            }
        }
    }
}
