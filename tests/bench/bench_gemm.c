/* Dense products of the cpu device against oneDNN called directly for the whole matrix, interleaved in one run: in
 * float32, and of numbers rounded to BF16 in both forms (oneDNN's in float32).
 *
 * usage  bench_gemm [threads [rows f_in f_out]]
 */
#include "models/cpu/cpu.h"
#include "tests/bench/bench.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#define N_REPEAT 9

struct shape {
    int64_t n, f_in, f_out;
};

struct arrays {
    float *x, *w, *y, *grad_w;
    void *scratch;
};

static float *ones(struct device *device, int64_t n)
{
    float *values = NULL;
    if (device->ops->acquire(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, (size_t)n * sizeof *values, &values) !=
        STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(STATUS_NOMEM));
    }
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float)(i % 13) * 0.1f;
    }
    return values;
}

static void ours(struct device *device, int which, const struct shape *s, const struct arrays *a)
{
    if (which == 0) {
        device->ops->linear(
            device, &(struct device_linear){s->n, s->f_in, s->f_out, a->x, .w = a->w, .scratch = a->scratch}, a->y);
    } else if (which == 1) {
        device->ops->linear(device, &(struct device_linear){s->n, s->f_out, s->f_in, a->y, a->w, .transposed = true},
                            a->x);
    } else {
        device->ops->linear_backward_weight(device, s->n, s->f_in, s->f_out, a->x, a->y, a->scratch, false,
                                            a->grad_w);
    }
}

static void direct(int which, const struct shape *s, const struct arrays *a)
{
    if (which == 0) {
        dnnl_sgemm('N', 'T', s->n, s->f_out, s->f_in, 1.0f, a->x, s->f_in, a->w, s->f_in, 0.0f, a->y, s->f_out);
    } else if (which == 1) {
        dnnl_sgemm('N', 'N', s->n, s->f_in, s->f_out, 1.0f, a->y, s->f_out, a->w, s->f_in, 0.0f, a->x, s->f_in);
    } else {
        dnnl_sgemm('T', 'N', s->f_out, s->f_in, s->n, 1.0f, a->y, s->f_out, a->x, s->f_in, 0.0f, a->grad_w, s->f_in);
    }
}

static void measure(struct device *device, const struct shape *s)
{
    static const char *const names[] = {"forward", "input gradient", "weight gradient"};
    size_t n_scratch = DEVICE_BYTES(device->ops, LINEAR, s->n, s->f_in, s->f_out) / sizeof(float) + 1;
    struct arrays a = {ones(device, s->n * s->f_in), ones(device, s->f_out * s->f_in), ones(device, s->n * s->f_out),
                       ones(device, s->f_out * s->f_in), ones(device, (int64_t)n_scratch)};
    for (int which = 0; which < 3; which++) {
        struct bench_time our_time = {0}, direct_time = {0};
        for (int i = 0; i < N_REPEAT; i++) {
            bench_start(&our_time);
            ours(device, which, s, &a);
            bench_stop(&our_time);
            bench_start(&direct_time);
            direct(which, s, &a);
            bench_stop(&direct_time);
        }
        double flops = 2e-9 * (double)s->n * (double)s->f_in * (double)s->f_out;
        char figure[96];
        snprintf(figure, sizeof figure, "linear %s %d x %d x %d%s%s", names[which], (int)s->n, (int)s->f_in,
                 (int)s->f_out, device->products == DEVICE_PRODUCTS_BF16 ? ", BF16" : "",
                 cpu_device(device)->product == cpu_product_tiles ? " by tiles" : "");
        bench_line(figure, flops / our_time.best, "GF/s", flops / direct_time.best, direct_time.best / our_time.best,
                   s->n < 200000 || s->f_out < 256            ? 0.0
                   : device->products == DEVICE_PRODUCTS_BF16 ? 0.9
                                                              : 0.95); /* narrow and small products have no bar */
    }
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a.x, (size_t)(s->n * s->f_in) * sizeof(float));
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a.w,
                         (size_t)(s->f_out * s->f_in) * sizeof(float));
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a.y, (size_t)(s->n * s->f_out) * sizeof(float));
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a.grad_w,
                         (size_t)(s->f_out * s->f_in) * sizeof(float));
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a.scratch, n_scratch * sizeof(float));
}

int main(int argc, char **argv)
{
    const struct shape standard[] = {
        {200000, 256, 256}, {200000, 256, 47}, {200000, 128, 7}, {2708, 1433, 16}, {2708, 16, 7}};
    struct device *device = NULL;
    if (device_cpu.open(argc > 1 ? atoi(argv[1]) : 0, &device) != STATUS_OK) {
        return 1;
    }
    omp_set_num_threads(((struct cpu_device *)device)->n_thread);
    size_t n_standard = argc > 4 ? 0 : sizeof standard / sizeof *standard;
    bench_header();
    struct shape given = argc > 4 ? (struct shape){atoll(argv[2]), atoll(argv[3]), atoll(argv[4])} : standard[0];
    for (int form = argc > 4 ? 0 : 1; form < (cpu_has_tiles() ? 3 : 2); form++) {
        device->products = form > 0 ? DEVICE_PRODUCTS_BF16 : DEVICE_PRODUCTS_FP32;
        cpu_device(device)->product = form > 1 ? cpu_product_tiles : cpu_kernels_best()->product;
        measure(device, &given);
    }
    device->products = DEVICE_PRODUCTS_FP32;
    for (size_t i = 0; i < n_standard; i++) {
        measure(device, &standard[i]);
    }
    device_cpu.close(device);
    return 0;
}
