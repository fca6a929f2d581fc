/* Packing of listed rows of an array, and adding them back. */
#include "models/cuda/quads.h"

/* Row to[r] of out (+)= factor · row from[r] of x; NULL: row r. With factor 1 elements are copied, of any type. A
 * list of another process may have rows from n_x on: they are skipped, and *beyond says whose they are. */
struct listed_map {
    double factor; /* a float: arguments have no padding */
    int64_t f, add;
    const uint32_t *from, *to;
    const float *x;
    float *out;
    int64_t n_x;
    uint32_t *beyond;
    int64_t lender;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const int64_t at = from != NULL ? (int64_t)__ldg(from + r) : r,
                      place = to != NULL ? (int64_t)__ldg(to + r) : r;
        if (at >= n_x) {
            *beyond = (uint32_t)lender;
            return;
        }
        struct quad value = quad_load<VECTOR>(x + at * f + c, n);
        for (int k = 0; factor != 1.0 && k < 4; k++) {
            value.v[k] = (float)factor * value.v[k];
        }
        quad_put<VECTOR>(out + place * f + c, n, add != 0, value);
    }
};

extern "C" void cuda_rows_take(struct device *device, enum device_lane lane, const struct device_rows *how,
                               float *out)
{
    const listed_map map = {how->factor, how->f, 0,        how->rows,   nullptr,
                            how->x,      out,    how->n_x, how->beyond, how->lender};
    quads_launch(device, how->n_row, how->f, how->f % 4 == 0 && quad_aligned(how->x) && quad_aligned(out), map, lane);
}

extern "C" void cuda_rows_gather(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                                 const float *x, float *out)
{
    const struct device_rows how = {n_row, f, INT64_MAX, rows, factor, x, NULL, 0};
    cuda_rows_take(device, DEVICE_LANE_COMPUTE, &how, out);
}

extern "C" void cuda_rows_add(struct device *device, int64_t n_row, int64_t f, const uint32_t *rows, float factor,
                              const float *x, float *out)
{
    const listed_map map = {factor, f, 1, nullptr, rows, x, out, INT64_MAX, nullptr, 0};
    quads_launch(device, n_row, f, f % 4 == 0 && quad_aligned(x) && quad_aligned(out), map);
}
