/* Operations that let their caller's other work on between two pieces: the same results, polled by the calling thread
 * alone. */
#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROW = 6000, F = 48, N_OTHER = 700 };

/* What polling does: operations of its own. */
struct polled {
    struct device *device;
    pthread_t caller;
    struct device_block other;
    const float *x;
    float *rows, *sums; /* N_OTHER × F */
    bool works;
    int n, n_foreign; /* calls */
};

static void poll_work(void *context)
{
    struct polled *p = context;
    uint32_t rows[N_OTHER];
    const struct device_aggregate how = {.begin = true};
    p->n++;
    p->n_foreign += !pthread_equal(p->caller, pthread_self());
    if (!p->works) { /* operations outside of a parallel region poll, too */
        p->works = true;
        for (uint32_t r = 0; r < N_OTHER; r++) {
            rows[r] = (uint32_t)(r * 7 % N_ROW);
        }
        p->device->ops->rows_gather(p->device, N_OTHER, F, rows, 1.0F, p->x, p->rows);
        p->device->ops->aggregate_sum(p->device, &p->other, &how, F, p->x, p->sums);
        p->works = false;
    }
}

static int64_t degree_with_hubs(int64_t row, int64_t n_row)
{
    return row % 1500 == 7 ? n_row : 12 + row % 9;
}

struct results {
    float *sum, *max, *product, *weight;
    uint32_t *arg;
};

static void run(struct device *device, const struct device_block *block, const float *x, const struct results *out)
{
    const struct device_ops *ops = device->ops;
    const struct device_aggregate how = {.begin = true, .finish = true};
    void *scratch = device_scratch(DEVICE_BYTES(ops, LINEAR, N_ROW, F, F));
    ops->aggregate_sum(device, block, &how, F, x, out->sum);
    ops->aggregate_max(device, block, &(struct device_max){.arg_base = 0, .begin = true}, F, x, out->max, out->arg);
    ops->linear(device, &(struct device_linear){N_ROW, F, F, x, .w = x}, out->product);
    ops->linear_backward_weight(device, N_ROW, F, F, x, out->product, scratch, false, out->weight);
    free(scratch);
}

static struct results results_open(void)
{
    size_t n = (size_t)N_ROW * F;
    return (struct results){calloc(n, sizeof(float)), calloc(n, sizeof(float)), calloc(n, sizeof(float)),
                            calloc((size_t)F * F, sizeof(float)), calloc(n, sizeof(uint32_t))};
}

static void results_close(struct results *r)
{
    free(r->sum);
    free(r->max);
    free(r->product);
    free(r->weight);
    free(r->arg);
}

static void expect_same(const struct results *a, const struct results *b, int n_thread)
{
    size_t n_bytes = (size_t)N_ROW * F * sizeof(float);
    cr_expect_eq(memcmp(a->sum, b->sum, n_bytes), 0, "sums, %d threads", n_thread);
    cr_expect_eq(memcmp(a->max, b->max, n_bytes), 0, "maxima, %d threads", n_thread);
    cr_expect_eq(memcmp(a->arg, b->arg, n_bytes), 0, "places of maxima, %d threads", n_thread);
    cr_expect_eq(memcmp(a->product, b->product, n_bytes), 0, "products, %d threads", n_thread);
    cr_expect_eq(memcmp(a->weight, b->weight, (size_t)F * F * sizeof(float)), 0, "gradients of weights, %d threads",
                 n_thread);
}

Test(poll, operations_that_are_polled_by_others_have_the_bits_that_they_have_alone)
{
    struct device_block graph = device_graph(N_ROW, N_ROW, degree_with_hubs);
    struct device_block other = device_graph(N_OTHER, N_ROW, degree_mixed);
    float *x = device_random((size_t)N_ROW * F, 1), *rows = calloc((size_t)N_OTHER * F, sizeof *rows);
    float *sums = calloc((size_t)N_OTHER * F, sizeof *sums);
    struct results alone = results_open(), polled = results_open();
    for (int n_thread = 1; n_thread <= 3; n_thread++) {
        struct polled p = {.caller = pthread_self(), .other = other, .x = x, .rows = rows, .sums = sums};
        struct device_block block = graph;
        cr_assert_eq(device_cpu.open(n_thread, &p.device), STATUS_OK);
        cr_assert_eq(device_cpu.block_open(p.device, &block), STATUS_OK);
        run(p.device, &block, x, &alone);
        device_cpu.poll(p.device, poll_work, &p);
        run(p.device, &block, x, &polled);
        device_cpu.poll(p.device, NULL, NULL);
        int n = p.n;
        run(p.device, &block, x, &alone);
        expect_same(&alone, &polled, n_thread);
        cr_expect(n_thread > 1 || n > 20, "%d polls", n); /* of several threads, others may take all pieces */
        cr_expect_eq(p.n, n, "polls end");
        cr_expect_eq(p.n_foreign, 0, "%d threads: only the caller polls", n_thread);
        device_cpu.block_close(p.device, &block);
        device_cpu.close(p.device);
    }
    results_close(&alone);
    results_close(&polled);
    free(x);
    free(rows);
    free(sums);
    device_graph_free(&graph);
    device_graph_free(&other);
}
