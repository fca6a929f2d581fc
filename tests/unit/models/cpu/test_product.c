/* Products of numbers rounded to BF16: all kernels and tiles have the bits of a plain loop; so has the device. */
#include "models/cpu/cpu.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

/* --- the plain loop --- */

static float flushed(double x)
{
    return fabs(x) < (double)FLT_MIN ? copysignf(0.0F, (float)x) : (float)x;
}

/* On the grid of eight bits, which ends at 2^-133; ties to even are nearbyint's. */
static float rounded(float x)
{
    int exponent;
    x = flushed((double)x);
    frexp((double)x, &exponent);
    exponent = exponent < -125 ? -133 : exponent - 8;
    return flushed(ldexp(nearbyint(ldexp((double)x, -exponent)), exponent));
}

/* A sum without 24 bits above the least normal number is 0, also where few bits would round it up to that. */
static float plus(float a, float b, float sum)
{
    double exact = fma((double)a, (double)b, (double)flushed((double)sum));
    return fabs(exact) < 0x1p-126 - 0x1p-151 ? copysignf(0.0F, (float)exact) : fmaf(a, b, flushed((double)sum));
}

static float truth(const struct cpu_product *p, int64_t i, int64_t j, float sum)
{
    for (int64_t group = 0; group == 0 || group < p->k; group += 32) {
        float part[2] = {0.0F, 0.0F};
        for (int64_t k = group; k < group + 32; k++) {
            float a = k >= p->k ? 0.0F : rounded(p->a[p->a_is_transposed ? k * p->m + i : i * p->k + k]);
            float b = k >= p->k ? 0.0F : rounded(p->b[p->b_is_transposed ? j * p->k + k : k * p->n + j]);
            part[k % 2] = plus(a, b, part[k % 2]);
        }
        sum = plus(1.0F, plus(1.0F, part[1], part[0]), sum);
    }
    return sum;
}

/* --- drawn numbers --- */

/* Between -1 and 1; of any exponent; with products about the least number; some not finite, a NaN by bits that rounding
 * cuts off among them. */
enum numbers { MODERATE, ANY, TINY, NOT_FINITE, NUMBERS_N };

static float *drawn(enum numbers numbers, int64_t n)
{
    static const uint32_t others[] = {0x7fc00000U, 0x7f800001U, 0xff800000U, 0x7f800000U, 0x7f7fffffU, 0x007fffffU};
    float *out = device_scratch((size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)random() * 2;
        float moderate = (float)random() * 0x1p-30F - 1.0F;
        if (numbers == TINY) {
            bits = (bits & 0x807fffffU) | (uint32_t)(random() % 30 == 0 ? 0 : 56 + random() % 16) << 23;
        } else if (numbers == NOT_FINITE && random() % 300 == 0) {
            bits = others[random() % 6];
        } else if (numbers != ANY || (bits & 0x7f800000U) == 0x7f800000U) {
            memcpy(&bits, &moderate, sizeof bits);
        }
        bits = random() % 9 == 0 ? (bits & 0xffff0000U) | 0x8000U : bits; /* between two numbers of BF16 */
        memcpy(&out[i], &bits, sizeof bits);
    }
    return out;
}

static bool is_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* With each set of kernels, and by tiles, whose turn is the last. Denormals stay what they are elsewhere. */
static void shape_check(enum numbers numbers, int64_t m, int64_t n, int64_t k, int turn)
{
    float *a = drawn(numbers, m * k), *b = drawn(numbers, k * n), *start = drawn(numbers, m * n + 1);
    float *want = drawn(numbers, m * n + 1), *c = drawn(numbers, m * n + 1);
    volatile float least = FLT_MIN, half = 0.5F;
    struct cpu_product p = {m, n, k, a, b, turn & 1, turn & 2, turn & 4, c};
    for (int64_t i = 0; i < m * n; i++) {
        start[i] = numbers == TINY ? start[i] * 0x1p-60F : start[i];
        want[i] = truth(&p, i / n, i % n, p.add ? start[i] : 0.0F);
    }
    want[m * n] = start[m * n]; /* behind c */
    for (int variant = 0; variant <= CPU_VARIANT_N; variant++) {
        const bool by_tiles = variant == CPU_VARIANT_N;
        const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)(by_tiles ? 0 : variant));
        if (kernels == NULL || (by_tiles && !cpu_has_tiles())) {
            continue;
        }
        memcpy(c, start, (size_t)(m * n + 1) * sizeof *c);
        (by_tiles ? cpu_product_tiles : kernels->product)(&p);
        for (int64_t i = 0; i <= m * n; i++) {
            cr_assert(is_same(c[i], want[i]), "%s%s, %d x %d x %d, turn %d: c[%d] is %a, expected %a", kernels->name,
                      by_tiles ? " by tiles" : "", (int)m, (int)n, (int)k, turn, (int)i, (double)c[i],
                      (double)want[i]);
        }
        cr_assert(least * half > 0.0F, "%s", kernels->name);
    }
    free(c);
    free(want);
    free(start);
    free(b);
    free(a);
}

Test(product, has_the_bits_of_a_plain_loop_with_every_set_of_kernels, .timeout = 300)
{
    static const int64_t edges[][3] = {{1, 1, 1},   {1, 1, 0},     {6, 64, 128}, {7, 65, 129},   {384, 16, 2},
                                       {385, 3, 5}, {3, 130, 700}, {5, 17, 513}, {200, 47, 256}, {12, 300, 31}};
    srandom(7);
    for (int turn = 0; turn < 8 * NUMBERS_N; turn += SANITIZED ? 3 : 1) {
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
            if (i % 2 == (size_t)turn % 2 || !SANITIZED) {
                shape_check((enum numbers)(turn / 8), edges[i][0], edges[i][1], edges[i][2], turn);
            }
        }
    }
    for (int i = 0; i < (SANITIZED ? 8 : 60); i++) {
        int64_t m = 1 + random() % (i % 4 == 0 ? 300 : 40), n = 1 + random() % (i % 4 == 1 ? 300 : 40);
        shape_check((enum numbers)(i % NUMBERS_N), m, n, 1 + random() % 300, (int)(random() % 8));
    }
}

/* Where this processor has AVX-512. */
Test(product, a_small_one_in_float32_has_the_bits_of_onednn, .timeout = 100)
{
    void (*small)(const struct cpu_product *) = cpu_kernels_best()->product_small;
    int n_small = 0, n_draw = SANITIZED ? 500 : 5000;
    srandom(8);
    for (int i = 0; i < n_draw && small != NULL; i++) {
        const int turn = (int)(random() % 8), numbers = i % 9 == 0 ? NOT_FINITE : i % 7 == 0 ? ANY : MODERATE;
        const int64_t m = 1 + random() % (i % 2 ? 300 : 20), n = 1 + random() % (i % 3 ? 70 : 300),
                      k = 1 + random() % (i % 5 ? 64 : 2000);
        float *a = drawn(numbers, m * k), *b = drawn(numbers, k * n), *want = drawn(numbers, m * n),
              *c = device_scratch((size_t)(m * n) * sizeof *c);
        const struct cpu_product p = {m, n, k, a, b, turn & 1, turn & 2, turn & 4, c};
        memcpy(c, want, (size_t)(m * n) * sizeof *c);
        if (cpu_product_is_small(&p)) {
            n_small++;
            small(&p);
            dnnl_sgemm(turn & 1 ? 'T' : 'N', turn & 2 ? 'T' : 'N', m, n, k, 1.0F, a, turn & 1 ? m : k, b,
                       turn & 2 ? k : n, p.add ? 1.0F : 0.0F, want, n);
        }
        for (int64_t j = 0; j < m * n; j++) {
            cr_assert(is_same(c[j], want[j]), "%d x %d x %d, turn %d: c[%d] is %a, expected %a", (int)m, (int)n,
                      (int)k, turn, (int)j, (double)c[j], (double)want[j]);
        }
        free(c);
        free(want);
        free(b);
        free(a);
    }
    cr_assert(small == NULL || n_small > n_draw / 2, "%d of %d draws are small", n_small, n_draw);
}

/* On the cpu device, where pieces of rows, threads, forms and scratch change no bit; near on the reference, which adds in
 * double. Forward, and the gradients of rows and of the weight, of one chunk. */
Test(product, maps_of_the_device_have_its_bits)
{
    enum { N = 1100, IN = 33, OUT = 21, ROWS = 512, MOST = N * IN };
    float *x = device_random(5 * MOST, 1), *w = x + MOST, *bias = w + MOST, *grad = bias + MOST, *start = grad + MOST;
    float *y = device_scratch(3 * MOST * sizeof *y);
    void *scratch = device_scratch(DEVICE_BYTES(&device_cpu, LINEAR, N, IN, OUT));
    for (int turn = SANITIZED; turn < 10; turn += SANITIZED ? 3 : 1) {
        struct device *device;
        const bool add = turn & 2, is_cpu = turn < 8;
        cr_assert_eq((is_cpu ? &device_cpu : &device_reference)->open(1 + turn % 3, &device), STATUS_OK);
        device->products = DEVICE_PRODUCTS_BF16;
        if (is_cpu) {
            cpu_device(device)->product = turn & 1 && cpu_has_tiles() ? cpu_product_tiles
                                                                      : cpu_kernels_best()->product;
        }
        struct device_linear forward = {N, IN, OUT, x, w, .add = add, .bias = add ? NULL : bias};
        forward.scratch = turn & 4 ? scratch : NULL;
        memcpy(y, start, MOST * sizeof *y);
        memcpy(y + MOST, start, MOST * sizeof *y);
        memcpy(y + 2 * MOST, start, MOST * sizeof *y);
        device->ops->linear(device, &forward, y);
        device->ops->linear(device, &(struct device_linear){N, OUT, IN, grad, w, .transposed = true, .add = add},
                            y + MOST);
        device->ops->linear_backward_weight(device, ROWS, IN, OUT, x, grad, scratch, add, y + 2 * MOST);
        const struct cpu_product maps[] = {{N, OUT, IN, x, w, false, true, add, y},
                                           {N, IN, OUT, grad, w, false, false, add, y + MOST},
                                           {OUT, IN, ROWS, grad, x, true, false, add, y + 2 * MOST}};
        for (int map = 0; map < 3; map++) {
            const struct cpu_product *p = &maps[map];
            for (int64_t i = 0; i < p->m * p->n; i++) {
                float want = truth(p, i / p->n, i % p->n, add ? start[i] : 0.0F) +
                             (map == 0 && !add ? bias[i % p->n] : 0.0F);
                cr_assert(is_cpu ? is_same(p->c[i], want) : fabsf(p->c[i] - want) < 1e-4F,
                          "%s, map %d: number %d is %a, expected %a", device->ops->name, map, (int)i, (double)p->c[i],
                          (double)want);
            }
        }
        device->ops->close(device);
    }
    free(scratch);
    free(y);
    free(x);
}
