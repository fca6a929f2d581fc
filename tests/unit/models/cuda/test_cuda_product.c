/* Products of the cuda device, emulated: in float32 they have the bits of a plain loop; in TF32 and BF16 they are near the
 * sums in double, and tf32x3 is no further from them than the plain loop. Forward, and the gradients of rows and of the weight,
 * of any shape. */
#include "models/cuda/sizes.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef CUDA_EMULATED
enum map { FORWARD, ROWS, WEIGHT, MAP_N };

/* c (m × n) (+)= Σ_k a[i, k] · b[j, k] (+ bias), in chunks of the k. */
struct trial {
    enum map map;
    int64_t n_row, f_in, f_out;
    bool add, has_bias;
    int64_t m, n, k, chunk, a_m, a_k, b_n, b_k;
    float *a, *b, *bias, *start, *c, *memory;
};

/* Numbers in [-1, 1), or none below 0 in a; each array begins `shift` floats behind a place for any type. */
static struct trial trial_open(enum map map, const int64_t shape[3], int turn, int64_t shift, bool is_positive)
{
    struct trial t = {.map = map, .n_row = shape[0], .f_in = shape[1], .f_out = shape[2], .add = turn & 1};
    t.has_bias = map == FORWARD && (turn & 2) != 0;
    t.m = map == WEIGHT ? t.f_out : t.n_row;
    t.n = map == FORWARD ? t.f_out : t.f_in;
    t.k = map == FORWARD ? t.f_in : map == ROWS ? t.f_out : t.n_row;
    t.a_m = map == WEIGHT ? 1 : t.k;
    t.a_k = map == WEIGHT ? t.m : 1;
    t.b_n = map == FORWARD ? t.k : 1;
    t.b_k = map == FORWARD ? 1 : t.n;
    t.chunk = map == WEIGHT ? cuda_weight_chunk_rows(t.n_row, t.f_in, t.f_out) : t.k + (t.k == 0);
    const int64_t sizes[] = {t.m * t.k, t.n * t.k, t.n, t.m * t.n + 1, t.m * t.n + 1};
    float **const arrays[] = {&t.a, &t.b, &t.bias, &t.start, &t.c};
    int64_t size = 0;
    for (int i = 0; i < 5; i++) {
        size += sizes[i] / 16 * 16 + 32;
    }
    t.memory = device_random((size_t)size, (uint32_t)(turn + 1));
    size = 0;
    for (int i = 0; i < 5; size += sizes[i] / 16 * 16 + 32, i++) {
        *arrays[i] = t.memory + size + shift;
    }
    for (int64_t i = 0; is_positive && i < t.m * t.k; i++) {
        t.a[i] = fmaxf(t.a[i], 0.0F);
    }
    return t;
}

static void run(const struct trial *t, enum device_products products)
{
    struct device *device;
    cr_assert_eq(device_cuda.open(1, &device), STATUS_OK, "%s", status_reason());
    void *scratch = device_scratch(DEVICE_BYTES(&device_cuda, LINEAR, t->n_row, t->f_in, t->f_out));
    device->products = products;
    memcpy(t->c, t->start, (size_t)(t->m * t->n + 1) * sizeof *t->c);
    if (t->map == WEIGHT) {
        device->ops->linear_backward_weight(device, t->n_row, t->f_in, t->f_out, t->b, t->a, scratch, t->add, t->c);
    } else {
        const struct device_linear how = {
            t->n_row,     t->k, t->n, t->a, t->b, .bias = t->has_bias ? t->bias : NULL, .transposed = t->map == ROWS,
            .add = t->add};
        device->ops->linear(device, &how, t->c);
    }
    cr_assert_eq(device_sync(device), STATUS_OK, "%s", status_reason());
    device->ops->close(device);
    free(scratch);
    cr_assert_eq(t->c[t->m * t->n], t->start[t->m * t->n], "behind the result");
}

/* What is multiplied for x; TF32's roundings are counted as errors. */
static double operand(double x, enum device_products products)
{
    int exponent = 0;
    const double fraction = products == DEVICE_PRODUCTS_BF16 ? frexp(x, &exponent) : 0.0;
    return products == DEVICE_PRODUCTS_BF16 ? ldexp(rint(256.0 * fraction), exponent - 8) : x;
}

/* The sum in double, that of absolute values, and the chain of float32. */
struct truth {
    double sum, size;
    float chain;
};

static struct truth truth_of(const struct trial *t, int64_t i, int64_t j, enum device_products products)
{
    const double before = t->add ? (double)t->start[i * t->n + j] : 0.0,
                 bias = t->has_bias ? (double)t->bias[j] : 0.0;
    struct truth out = {before + bias, fabs(before) + fabs(bias), (float)before};
    for (int64_t first = 0; first < t->k; first += t->chunk) {
        float chain = 0.0F;
        for (int64_t k = first; k < t->k && k < first + t->chunk; k++) {
            const float a = t->a[i * t->a_m + k * t->a_k], b = t->b[j * t->b_n + k * t->b_k];
            chain = fmaf(a, b, chain);
            out.sum += operand(a, products) * operand(b, products);
            out.size += fabs((double)a * (double)b);
        }
        out.chain = first == 0 && !t->add ? chain : out.chain + chain;
    }
    out.chain = t->has_bias ? out.chain + (float)bias : out.chain;
    return out;
}

/* --- any shape --- */

/* Of a product's two roundings to 11 bits, or of what three products leave out and round (of BF16's nothing); of sums of
 * 16, cut off, and of their sum. */
static double most_off(const struct trial *t, enum device_products products, double size)
{
    const double of_one = products == DEVICE_PRODUCTS_TF32     ? 0x1.02p-10
                          : products == DEVICE_PRODUCTS_TF32X3 ? 0x1p-21
                                                               : 0.0;
    return size * (of_one + 0x1p-20 + (double)(t->k / 16 + t->k / t->chunk + 2) * 0x1p-24);
}

static void shape_check(enum map map, const int64_t shape[3], int turn)
{
    struct trial t = trial_open(map, shape, turn, turn / 4 % 2, false);
    for (enum device_products products = DEVICE_PRODUCTS_FP32; products <= DEVICE_PRODUCTS_TF32X3; products++) {
        run(&t, products);
        for (int64_t i = 0; i < t.m * t.n; i++) {
            const struct truth truth = truth_of(&t, i / t.n, i % t.n, products);
            cr_assert(products == DEVICE_PRODUCTS_FP32
                          ? memcmp(&t.c[i], &truth.chain, sizeof truth.chain) == 0 || t.c[i] == truth.chain
                          : fabs((double)t.c[i] - truth.sum) <= most_off(&t, products, truth.size),
                      "map %d of %d x %d x %d, turn %d, products %d: number %d is %a, expected %a", (int)map,
                      (int)shape[0], (int)shape[1], (int)shape[2], turn, (int)products, (int)i, (double)t.c[i],
                      truth.sum);
        }
    }
    free(t.memory);
}

Test(cuda_product, is_near_the_sum_in_double_and_in_float32_a_plain_loops, .timeout = 600)
{
    static const int64_t edges[][3] = {{0, 5, 3},     {5, 0, 3},     {1, 1, 1},      {7, 3, 1},      {130, 47, 1},
                                       {1, 47, 130},  {129, 15, 47}, {128, 16, 128}, {300, 130, 47}, {65, 47, 129},
                                       {2100, 33, 7}, {1500, 1, 47}, {1030, 70, 66}, {64, 257, 64}};
    static const int sizes[] = {1, 4, 12, 32, 47, 64, 100, 128, 150};
    srandom(11);
    for (int turn = 0; turn < (SANITIZED ? 42 : 3 * 56); turn++) {
        const int64_t *edge = edges[turn / MAP_N % 14];
        shape_check((enum map)(turn % MAP_N), edge, turn / MAP_N);
    }
    for (int turn = 0; turn < (SANITIZED ? 6 : 60); turn++) {
        const int64_t shape[] = {1 + random() % 260, sizes[random() % 9] + random() % 2, sizes[random() % 9]};
        shape_check((enum map)(turn % MAP_N), shape, (int)(random() % 8));
    }
}

/* --- errors over the root of the mean square of the sums --- */

struct error {
    double most, rms;
};

/* Of the result, or of the chain. */
static struct error error_of(const struct trial *t, bool is_chain)
{
    struct error out = {0.0, 0.0};
    double squares = 0.0;
    for (int64_t i = 0; i < t->m * t->n; i++) {
        const struct truth truth = truth_of(t, i / t->n, i % t->n, DEVICE_PRODUCTS_FP32);
        const double off = fabs((double)(is_chain ? truth.chain : t->c[i]) - truth.sum);
        out.most = fmax(out.most, off);
        out.rms += off * off;
        squares += truth.sum * truth.sum;
    }
    return (struct error){out.most / sqrt(squares / (double)(t->m * t->n)), sqrt(out.rms / squares)};
}

Test(cuda_product, of_tf32x3_is_no_further_off_than_float32, .timeout = 600)
{
    static const int64_t sums[] = {64, 256, 1000, 4500};
    for (int turn = 0; turn < (SANITIZED ? 0 : 4 * MAP_N * 2); turn++) {
        const enum map map = (enum map)(turn / 2 % MAP_N);
        const int64_t k = sums[turn / 2 / MAP_N], m = 96, n = 72;
        const int64_t shape[] = {map == WEIGHT ? k : m, map == FORWARD ? k : n,
                                 map == FORWARD ? n
                                 : map == ROWS  ? k
                                                : m};
        if (k > 1000 && map != WEIGHT) { /* that has chunks */
            continue;
        }
        struct trial t = trial_open(map, shape, 4 * turn, 0, turn & 1);
        run(&t, DEVICE_PRODUCTS_TF32X3);
        const struct error own = error_of(&t, false), chain = error_of(&t, true);
        cr_expect(own.most <= chain.most && own.rms <= chain.rms, "map %d, K = %d: %g, %g; float32 %g, %g", (int)map,
                  (int)k, own.most, own.rms, chain.most, chain.rms);
        run(&t, DEVICE_PRODUCTS_TF32);
        cr_expect_lt(error_of(&t, false).rms, 5e-4);
        free(t.memory);
    }
}

Test(cuda_product, of_what_is_not_finite_is_not_finite)
{
    for (int p = DEVICE_PRODUCTS_BF16; p <= DEVICE_PRODUCTS_TF32X3; p++) {
        struct trial t = trial_open(FORWARD, (const int64_t[]){40, 20, 9}, 2, 0, false);
        t.a[3 * t.k + 5] = NAN;
        t.a[17 * t.k + 1] = INFINITY;
        run(&t, (enum device_products)p);
        for (int64_t i = 0; i < t.m * t.n; i++) {
            cr_expect_eq(isfinite(t.c[i]) != 0, i / t.n != 3 && i / t.n != 17, "row %d", (int)(i / t.n));
            cr_expect(i / t.n != 3 || isnan(t.c[i]));
        }
        free(t.memory);
    }
}
#endif
