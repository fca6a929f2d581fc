#include "worker/run/link_decoder.h"

#include "protocol/base/log.h"
#include "worker/pairs/pairs_layers.h"

static float *weights_of(const struct trainer *t, int param)
{
    return t->parameters.weights + t->program.param[param].offset;
}

static float *gradients_of(const struct trainer *t, int param, int32_t i)
{
    return trainer_gradients(t, i) + t->program.param[param].offset;
}

/* Some pairs in the layers. */
struct batch {
    const struct trainer *t;
    const struct pairs_layers *layers;
    int32_t i;
    struct device_pairs pairs;
    char *memory; /* layers.n_bytes */
};

static float *array_at(const struct batch *b, int64_t at)
{
    return (float *)(void *)(b->memory + at);
}

static int weight_of(const struct batch *b, int layer)
{
    return b->t->program.decoder + 2 * layer;
}

/* The layers' outputs, with relu but the last one's, which go to `out`. */
static void batch_forward(const struct batch *b, float *out)
{
    const struct device_activate relu = {.activation = DEVICE_ACTIVATION_RELU};
    const struct pairs_layers *l = b->layers;
    struct device *device = b->t->device;
    device->ops->pair_products(device, &b->pairs, array_at(b, l->at[0]));
    for (int k = 0; k < l->n; k++) {
        float *y = k + 1 < l->n ? array_at(b, l->at[k + 1]) : out;
        const struct device_linear how = {.n = b->pairs.n,
                                          .f_in = l->width[k],
                                          .f_out = l->width[k + 1],
                                          .x = array_at(b, l->at[k]),
                                          .w = weights_of(b->t, weight_of(b, k)),
                                          .bias = weights_of(b->t, weight_of(b, k) + 1),
                                          .scratch = array_at(b, l->scratch_at)};
        device->ops->linear(device, &how, y);
        if (k + 1 < l->n) {
            device->ops->activate_forward(device, b->pairs.n, l->width[k + 1], &relu, y, y);
        }
    }
}

/* The gradient of layer k's input from that of its output; the weights' are added. */
static void layer_backward(const struct batch *b, int k, const float *grad_y, float *grad_x)
{
    const struct device_activate relu = {.activation = DEVICE_ACTIVATION_RELU};
    const struct pairs_layers *l = b->layers;
    const int64_t n = b->pairs.n, f_in = l->width[k], f_out = l->width[k + 1];
    struct device *device = b->t->device;
    float *x = array_at(b, l->at[k]), *scratch = array_at(b, l->scratch_at);
    device->ops->linear_backward_weight(device, n, f_in, f_out, x, grad_y, scratch, true,
                                        gradients_of(b->t, weight_of(b, k), b->i));
    device->ops->column_sum(
        device, &(struct device_column_sum){.n = n, .f = f_out, .x = grad_y, .add = true, .scratch = scratch},
        gradients_of(b->t, weight_of(b, k) + 1, b->i));
    device->ops->linear(device,
                        &(struct device_linear){.n = n,
                                                .f_in = f_out,
                                                .f_out = f_in,
                                                .x = grad_y,
                                                .w = weights_of(b->t, weight_of(b, k)),
                                                .turned = true},
                        grad_x);
    if (k > 0) {
        device->ops->activate_backward(device, n, f_in, &relu, NULL, x, grad_x, false, grad_x);
    }
}

static void batch_backward(const struct batch *b, const float *slope, float *grad)
{
    const struct pairs_layers *l = b->layers;
    const float *grad_y = slope;
    for (int k = l->n - 1; k >= 0; k--) {
        float *grad_x = array_at(b, l->grad_at[k % 2]);
        layer_backward(b, k, grad_y, grad_x);
        grad_y = grad_x;
    }
    b->t->ops->pair_products_backward(b->t->device, &b->pairs, grad_y, grad);
}

/* plan.links.n_decoder_bytes of the loss's workspace. */
static void *scratch_of(const struct trainer *t, const struct link_pairs *of)
{
    char *workspace = trainer_operand(t, step_operand(of->step, OP_ROLE_WORKSPACE), of->i);
    return workspace + t->plan.loss_workspace.n_scratch - t->plan.links.n_decoder_bytes;
}

static struct batch batch_open(const struct trainer *t, const struct link_pairs *of,
                               const struct pairs_layers *layers)
{
    return (struct batch){.t = t, .layers = layers, .i = of->i, .memory = scratch_of(t, of)};
}

/* Pairs from `first` on. */
static void batch_take(struct batch *b, const struct device_pairs *all, int64_t first)
{
    b->pairs = *all;
    b->pairs.n = all->n - first < PAIRS_LAYERS_PAIRS ? all->n - first : PAIRS_LAYERS_PAIRS;
    b->pairs.rows = all->rows + first;
    b->pairs.places = all->places + first;
    b->pairs.numbers = NULL;
}

static struct device_pairs pairs_scaled(const struct trainer *t, const struct link_pairs *of)
{
    struct device_pairs out = of->pairs;
    if (t->program.decoder >= 0) {
        out.scale = weights_of(t, t->program.decoder);
        out.n_type = t->program.param[t->program.decoder].shape[0];
        out.scratch = scratch_of(t, of);
    } else {
        out.types = NULL;
    }
    return out;
}

void link_decoder_scores(const struct trainer *t, const struct link_pairs *of, float *score)
{
    struct pairs_layers layers;
    if (!pairs_layers_of(&t->program, t->setup.job, t->ops, &layers)) {
        const struct device_pairs pairs = pairs_scaled(t, of);
        t->ops->pair_scores(t->device, &pairs, score);
        return;
    }
    struct batch b = batch_open(t, of, &layers);
    for (int64_t first = 0; first < of->pairs.n; first += PAIRS_LAYERS_PAIRS) {
        const uint32_t *numbers = of->pairs.numbers;
        float *out = numbers != NULL ? array_at(&b, layers.at[layers.n]) : score + first;
        batch_take(&b, &of->pairs, first);
        batch_forward(&b, out);
        if (numbers != NULL) {
            t->ops->rows_add(t->device, b.pairs.n, 1, numbers + first, 1.0f, out, score);
        }
    }
}

void link_decoder_gradients(const struct trainer *t, const struct link_pairs *of, const float *slope)
{
    float *grad = trainer_operand(t, step_operand(of->step, OP_ROLE_GRAD_IN_0), of->i);
    struct pairs_layers layers;
    if (!pairs_layers_of(&t->program, t->setup.job, t->ops, &layers)) {
        const struct device_pairs pairs = pairs_scaled(t, of);
        t->ops->pair_gradients(t->device, &pairs, slope, grad,
                               t->program.decoder >= 0 ? gradients_of(t, t->program.decoder, of->i) : NULL);
        return;
    }
    struct batch b = batch_open(t, of, &layers);
    for (int64_t first = 0; first < of->pairs.n; first += PAIRS_LAYERS_PAIRS) {
        const float *of_batch = slope + first;
        float *gathered = array_at(&b, layers.at[layers.n]);
        batch_take(&b, &of->pairs, first);
        batch_forward(&b, gathered);
        if (of->pairs.numbers != NULL) {
            t->ops->rows_gather(t->device, b.pairs.n, 1, of->pairs.numbers + first, 1.0f, slope, gathered);
            of_batch = gathered;
        }
        batch_backward(&b, of_batch, grad);
    }
}

void link_decoder_train(const struct trainer *t, const struct link_pairs *of, const struct device_pair_losses *losses)
{
    struct pairs_layers layers;
    bool has_layers = pairs_layers_of(&t->program, t->setup.job, t->ops, &layers);
    ASSERT(has_layers);
    float *grad = trainer_operand(t, step_operand(of->step, OP_ROLE_GRAD_IN_0), of->i);
    struct batch b = batch_open(t, of, &layers);
    for (int64_t first = 0; first < of->pairs.n; first += PAIRS_LAYERS_PAIRS) {
        struct device_pair_losses of_batch = *losses;
        batch_take(&b, &of->pairs, first);
        of_batch.n_group = b.pairs.n;
        of_batch.score = array_at(&b, layers.at[layers.n]);
        batch_forward(&b, of_batch.score);
        t->ops->pair_losses(t->device, &of_batch, trainer_sums(t, of->i));
        batch_backward(&b, of_batch.score, grad);
    }
}

void link_decoder_begin(const struct trainer *t, int32_t i)
{
    for (int p = t->program.decoder; p >= 0 && p < t->program.n_param; p++) {
        t->ops->fill_zero(t->device, gradients_of(t, p, i), (size_t)t->program.param[p].n_shared * sizeof(float));
    }
}

void link_decoder_end(const struct trainer *t, int32_t i)
{
    for (int p = t->program.decoder; p >= 0 && p < t->program.n_param; p++) {
        float *grad = gradients_of(t, p, i);
        t->ops->axpby(t->device, t->program.param[p].n_shared, 0.5f, NULL, grad, 0.0f, NULL, grad);
    }
}
