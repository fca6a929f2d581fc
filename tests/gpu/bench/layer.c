#include "tests/gpu/bench/layer.h"

static float *floats(struct figure *f, int64_t n)
{
    return figure_take(f, n * (int64_t)sizeof(float));
}

static void whole_open(struct figure *f, struct layer *l)
{
    int64_t wide = l->n * l->width;
    size_t linear = DEVICE_BYTES(f->ops, LINEAR, l->n, l->width, l->width),
           sum = DEVICE_BYTES(f->ops, COLUMN_SUM, l->n, l->width);
    l->input = figure_random(f, wide);
    l->w = figure_random(f, l->width * l->width);
    l->grad_input = floats(f, wide);
    l->grad_w = floats(f, l->width * l->width);
    l->scratch = figure_take(f, (int64_t)(linear > sum ? linear : sum));
    for (int i = 0; i < 2; i++) {
        l->att[i] = figure_random(f, l->width);
        l->grad_att[i] = floats(f, l->width);
    }
}

void layer_open(struct figure *f, const struct graph *graph, int64_t n_head, int64_t n_column, bool whole,
                struct layer *out)
{
    int64_t n = graph->n_node, heads = n * n_head, wide = heads * n_column;
    struct layer *l = out;
    *l = (struct layer){.n = n, .width = n_head * n_column};
    l->how = (struct device_attention){
        .score = DEVICE_SCORE_ADD, .n_head = n_head, .n_column = n_column, .slope = 0.2F};
    l->block = figure_block(f, graph);
    l->grad_out = figure_random(f, wide);
    l->x = figure_random(f, wide);
    l->key = figure_random(f, heads);
    l->query = figure_random(f, heads);
    l->out = floats(f, wide);
    l->grad_x = floats(f, wide);
    l->grad_key = floats(f, heads);
    l->grad_query = floats(f, heads);
    l->state.softmax = floats(f, 2 * heads);
    l->state.positive = floats(f, wide);
    l->state.positive_weight = floats(f, heads);
    if (whole) {
        whole_open(f, l);
    }
}

static struct device_attention_rows rows_of(const struct layer *l)
{
    const struct device_attention_source source = {l->x, l->key};
    const struct device_attention_target target = {l->query, l->state.softmax, l->grad_out};
    return (struct device_attention_rows){&l->how, &l->block, true, true, source, source, target, target, true};
}

void layer_attention_forward(struct figure *f, void *layer)
{
    const struct layer *l = layer;
    const struct device_attention_rows rows = rows_of(l);
    f->ops->attention_forward(f->device, &rows, &l->state, l->out);
    f->ops->attention_finish(f->device, l->n, &l->how, &l->state, l->out);
}

void layer_attention_backward(struct figure *f, void *layer)
{
    const struct layer *l = layer;
    const struct device_attention_rows rows = rows_of(l);
    f->ops->attention_backward_begin(f->device, l->n, &l->how, l->grad_out, l->out, &l->state, false, l->grad_query);
    f->ops->attention_backward_source(f->device, &rows, l->grad_x, l->grad_key);
}

void layer_whole(struct figure *f, void *layer)
{
    const struct layer *l = layer;
    int64_t n = l->n, width = l->width, n_head = l->how.n_head, n_column = l->how.n_column;
    f->ops->linear(f->device, &(struct device_linear){n, width, width, l->input, .w = l->w}, l->x);
    f->ops->head_dot(f->device, n, n_head, n_column, l->x, l->att[0], l->key);
    f->ops->head_dot(f->device, n, n_head, n_column, l->x, l->att[1], l->query);
    layer_attention_forward(f, layer);
    layer_attention_backward(f, layer);
    for (int i = 0; i < 2; i++) {
        const float *grad = i == 0 ? l->grad_key : l->grad_query;
        f->ops->column_sum(f->device,
                           &(struct device_column_sum){n, n_head * n_column, l->x, .n_head = n_head, .factor = grad,
                                                       .scratch = l->scratch},
                           l->grad_att[i]);
        f->ops->head_dot_backward_input(f->device, n, n_head, n_column, l->att[i], grad, true, l->grad_x);
    }
    f->ops->linear_backward_weight(f->device, n, width, width, l->input, l->grad_x, l->scratch, false, l->grad_w);
    f->ops->linear(f->device, &(struct device_linear){n, width, width, l->grad_x, l->w, .transposed = true},
                   l->grad_input);
}
