/* out = in | known labels: of the training rows; in training only of those without a loss. */
#include "models/ops/ops.h"

struct device_draw op_labels_hidden(const struct op_call *call)
{
    return (struct device_draw){
        .p = call->training ? call->op->dropout : 0.0, .key = call->key, .now = call->now, .node = call->node};
}

/* The denominator of the mean loss: hidden rows, or for rows of labels their known labels. */
static int64_t one(const struct program *program, const struct op *op)
{
    (void)program;
    (void)op;
    return 1;
}

static struct device_labels labels_of(const struct op_call *call)
{
    int64_t f = call->program->value[call->op->in[0]].width;
    return (struct device_labels){.n = call->n,
                                  .c = op_width(call) - f,
                                  .labels = call->labels->labels,
                                  .label_rows = call->labels->label_rows,
                                  .row_split = call->labels->split,
                                  .split = call->labels->train,
                                  .drawn = op_labels_hidden(call)};
}

static void count_partial(const struct op_call *call)
{
    const struct device_labels labels = labels_of(call);
    call->device->ops->draw_count(call->device, &labels, call->sum);
}

static void count_merge(struct device *device, const struct program *program, const struct op *op, double *left,
                        const double *right)
{
    (void)program;
    (void)op;
    device->ops->doubles_merge(device, false, 1, right, left);
}

static void count_total(const struct op_call *call)
{
    if (call->sum != NULL) {
        call->device->ops->move(call->device, DEVICE_LANE_COMPUTE, call->statistics, call->sum, sizeof *call->sum);
    }
}

/* Label reuse: Wang et al., Bag of Tricks for Node Classification with Graph Neural Networks, 2021, section 3.2 */
static void forward(const struct op_call *call)
{
    const struct device_labels labels = labels_of(call);
    call->device->ops->labels_append(call->device, &labels, call->program->value[call->op->in[0]].width, call->in[0],
                                     call->out);
}

static void backward(const struct op_call *call)
{
    (void)call; /* nothing learns after the features */
}

static const struct global_def global = {
    .n_sum = one,
    .n_statistics = one,
    .forward = {.partial = count_partial,
                .partial_access = {.reads = OP_ROLES(NODE) | OP_ROLES(LABELS)},
                .merge = count_merge,
                .total = count_total},
};

const struct op_def op_labels = {
    .name = "labels",
    .title = "label input",
    .also_reads = OP_ROLES(NODE) | OP_ROLES(LABELS),
    .forward = forward,
    .backward = backward,
    .global = &global,
};
