/* out = in | known labels: of the training rows, in training of those alone that the loss leaves out. */
#include "models/ops/ops.h"

struct device_draw op_labels_hidden(const struct op_call *call)
{
    return (struct device_draw){.p = call->training ? call->op->dropout : 0.0, .key = call->key, .node = call->node};
}

/* How many rows the loss is over. */
static int64_t one(const struct program *program, const struct op *op)
{
    (void)program;
    (void)op;
    return 1;
}

static void count_partial(const struct op_call *call)
{
    const struct device_draw hidden = op_labels_hidden(call);
    call->device->ops->draw_count(call->device, call->n, call->labels->split, call->labels->train, &hidden, call->sum);
}

static void count_merge(const struct program *program, const struct op *op, double *left, const double *right)
{
    (void)program;
    (void)op;
    left[0] += right[0];
}

static void count_total(const struct op_call *call)
{
    if (call->sum != NULL) {
        call->device->ops->upload(call->device, call->statistics, call->sum, sizeof *call->sum);
    }
}

/* Label reuse: Wang et al., Bag of Tricks for Node Classification with Graph Neural Networks, 2021, section 3.2 */
static void forward(const struct op_call *call)
{
    const struct device_draw hidden = op_labels_hidden(call);
    int64_t f = call->program->value[call->op->in[0]].width, c = call->program->value[call->op->out].width - f;
    call->device->ops->labels_append(call->device, call->n, f, call->in[0], c, call->labels->labels, call->labels->label_rows,
                                     call->labels->split, call->labels->train, &hidden, call->out);
}

static void backward(const struct op_call *call)
{
    (void)call; /* nothing learns behind the features */
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
    .also_reads = OP_ROLES(NODE) | OP_ROLES(LABELS),
    .forward = forward,
    .backward = backward,
    .global = &global,
};
