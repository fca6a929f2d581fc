/* Messages move while operations run: payloads are packed, sent and received in the middle of them, with the same
 * bits. */
#include "tests/equivalence/compare.h"

#include <criterion/criterion.h>
#include <unistd.h>

enum { N_TURN = 8 };

/* Longer than the trainer lets pass between two polls (worker/run/trainer.c). */
enum { TURN_US = 150 };

static void (*poll)(void *context);
static void *poll_context;

static void poll_keep(struct device *device, void (*call)(void *context), void *context)
{
    (void)device;
    poll = call;
    poll_context = context;
}

/* As in a long operation: time enough for all that other ranks ask for. */
static void turns(void)
{
    for (int i = 0; i < N_TURN; i++) {
        usleep(TURN_US);
        poll(poll_context);
    }
}

static void sum_slowly(struct device *device, const struct device_block *block, const struct device_aggregate *how,
                       int64_t f, const void *x, float *out)
{
    turns();
    device_cpu.aggregate_sum(device, block, how, f, x, out);
    turns();
}

static void max_slowly(struct device *device, const struct device_block *block, const struct device_max *how,
                       int64_t f, const float *x, float *out, uint32_t *arg)
{
    turns();
    device_cpu.aggregate_max(device, block, how, f, x, out, arg);
    turns();
}

static void attention_slowly(struct device *device, const struct device_attention_rows *rows,
                             const struct device_attention_state *state, float *out)
{
    turns();
    device_cpu.attention_forward(device, rows, state, out);
    turns();
}

static void queries_slowly(struct device *device, const struct device_attention_rows *rows, void *scratch,
                           float *grad_query, float *grad_att, float *grad_edge)
{
    turns();
    device_cpu.attention_backward_query(device, rows, scratch, grad_query, grad_att, grad_edge);
    turns();
}

static void sources_slowly(struct device *device, const struct device_attention_rows *rows, float *grad_value,
                           float *grad_key)
{
    turns();
    device_cpu.attention_backward_source(device, rows, grad_value, grad_key);
    turns();
}

static void product_slowly(struct device *device, const struct device_linear *how, float *y)
{
    turns();
    device_cpu.linear(device, how, y);
}

static struct device_ops slow;

static enum status slow_open(int n_thread, struct device **out)
{
    enum status status = device_cpu.open(n_thread, out);
    if (status == STATUS_OK) {
        (*out)->ops = &slow;
    }
    return status;
}

static const struct device_ops *slow_cpu(void)
{
    slow = *compare_narrow_cpu();
    slow.open = slow_open;
    slow.poll = poll_keep;
    slow.aggregate_sum = sum_slowly;
    slow.aggregate_max = max_slowly;
    slow.attention_forward = attention_slowly;
    slow.attention_backward_query = queries_slowly;
    slow.attention_backward_source = sources_slowly;
    slow.linear = product_slowly;
    return &slow;
}

static void expect_same_bits(const char *model, const char *exchange)
{
    const struct task task = {.data = "generator = 'sbm'\nnodes = 600\ndegree = 8\nclasses = 5\nfeatures = 24",
                              .partition = "parts = 6\nmethod = 'random'",
                              .model = model,
                              .exchange = exchange,
                              .train = "prune = 'never'",
                              .epochs = 3};
    struct cluster_result first, other;
    compare_run(&task, &compare_plain, &first);
    for (int n_worker = 2; n_worker <= 4; n_worker += 2) {
        const struct way way = {.workers = n_worker, .prefetch = 1, .is_halo = n_worker == 2, .device = slow_cpu()};
        compare_run(&task, &way, &other);
        compare_same(&task, &way, &first, &other);
        cluster_release(&other);
    }
    cluster_release(&first);
}

Test(polled, sums_and_covers, .timeout = 900)
{
    expect_same_bits("kind = 'gcn'\nlayers = 3\nhidden = 16\ndropout = 0.5", NULL);
    expect_same_bits("kind = 'sage'\nlayers = 3\nhidden = 16", NULL);
}

Test(polled, gradients_that_return, .timeout = 900)
{
    expect_same_bits("kind = 'gat'\nheads = 2\nlayers = 2\nhidden = 8", NULL);
    expect_same_bits("kind = 'sage'\naggregator = 'max'\nlayers = 2\nhidden = 16", NULL);
}

Test(polled, sampled_and_coded_rows, .timeout = 900)
{
    expect_same_bits("kind = 'sage'\nlayers = 3\nhidden = 16", "sampling = 0.3\ncodec = 'int4'");
    expect_same_bits("kind = 'gat'\nheads = 2\nlayers = 2\nhidden = 8", "sampling = 0.5");
}

Test(polled, stale_rows, .timeout = 900)
{
    expect_same_bits("kind = 'gcn'\nlayers = 3\nhidden = 16", "stale = 1");
    expect_same_bits("kind = 'gat'\nheads = 2\nlayers = 2\nhidden = 8", "stale = 1\ncodec = 'int8'");
}

/* Within the least limit that there is, next to everything lies on the disk. */
Test(polled, spilled_payloads, .timeout = 900)
{
    const struct task task = {.data = "generator = 'sbm'\nnodes = 4000\ndegree = 8\nclasses = 5\nfeatures = 24",
                              .partition = "parts = 6\nmethod = 'random'",
                              .model = "kind = 'sage'\nlayers = 3\nhidden = 128",
                              .train = "prune = 'never'",
                              .epochs = 3};
    const struct way way = {.workers = 2, .prefetch = 1, .recompute = "auto", .spills = true, .device = slow_cpu()};
    struct cluster_result first, other;
    compare_run(&task, &compare_plain, &first);
    compare_run(&task, &way, &other);
    cr_expect_gt(other.moved, 0);
    compare_same(&task, &way, &first, &other);
    cluster_release(&first);
    cluster_release(&other);
}
