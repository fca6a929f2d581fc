#include "models/steps/scorer.h"

#include "protocol/base/amounts.h"

/* Pairs at a time, whatever the cache says. */
#define WINDOW_LEAST 64
#define WINDOW_MOST 4096
#define ALIGN 16 /* floats */

/* --- memory: of each slot the values of a window and their gradients, what ops save, and their workspace; then of
 * each chunk the weights' gradients and a loss --- */

/* Floats of a row before a value, or n_value behind it before its gradient; then come those that ops save. */
static int64_t floats_before(const struct program *scorer, int value)
{
    int64_t n = 0;
    for (int v = 0; v < value; v++) {
        n += scorer->value[v % scorer->n_value].width;
    }
    return n;
}

static int64_t saved_before(const struct program *scorer, int op)
{
    int64_t n = floats_before(scorer, 2 * scorer->n_value);
    for (int k = 0; k < op; k++) {
        n += op_saved_width(scorer, &scorer->op[k], 0);
    }
    return n;
}

static int64_t window_pairs(const struct program *scorer, const struct device_ops *ops)
{
    int64_t most = 1;
    for (int v = 0; v < scorer->n_value; v++) {
        most = larger(most, scorer->value[v].width);
    }
    return smaller(larger(ops->n_window_float / 2 / most / WINDOW_LEAST * WINDOW_LEAST, WINDOW_LEAST), WINDOW_MOST);
}

static int64_t slot_floats(const struct program *scorer, const struct device_ops *ops)
{
    const int64_t n = window_pairs(scorer, ops);
    size_t workspace = DEVICE_BYTES(ops, LOSS, n);
    for (int k = 0; k < scorer->n_op; k++) {
        const size_t n_bytes = op_workspace(scorer, &scorer->op[k], ops, n);
        workspace = n_bytes > workspace ? n_bytes : workspace;
    }
    const int64_t n_float = saved_before(scorer, scorer->n_op) * n + ((int64_t)workspace + 3) / 4;
    return (n_float + ALIGN - 1) / ALIGN * ALIGN;
}

static const struct parameter *first_param(const struct program *program)
{
    return &program->param[program->decoder];
}

/* Of the decoder alone. */
static int64_t weight_floats(const struct program *program)
{
    return program->decoder < program->n_param ? program->n_weight - first_param(program)->offset : 0;
}

int64_t scorer_bytes(const struct program *program, const struct device_ops *ops, bool gradients)
{
    const int64_t sums = gradients ? weight_floats(program) * (int64_t)sizeof(float) + (int64_t)sizeof(double) : 0;
    return ops->n_chunk * (slot_floats(program->scorer, ops) * (int64_t)sizeof(float) + sums);
}

/* --- a chunk of pairs at work --- */

struct run {
    const struct scorer *scorer;
    const struct scorer_pairs *pairs;
    float *score;                          /* NULL: gradients are wanted */
    const struct scorer_gradients *wanted; /* NULL: scores */
    int64_t n_chunk, n_window;
};

struct window {
    const struct run *run;
    int64_t first, n;
    float *memory; /* of the slot */
    float *sums;   /* the chunk's, of the decoder's weights' gradients */
    double *loss;  /* likewise */
};

static float *rows_at(const struct window *w, int64_t n_before)
{
    return w->memory + n_before * w->run->n_window;
}

static float *value_of(const struct window *w, int value)
{
    return rows_at(w, floats_before(w->run->scorer->program->scorer, value));
}

static float *gradient_of(const struct window *w, int value)
{
    return value_of(w, w->run->scorer->program->scorer->n_value + value);
}

/* A product's rows may have other bits where there are fewer of them: by_window there are always as many. */
static int64_t n_rows(const struct window *w, const struct op *op)
{
    return op->kind == OP_KIND_LINEAR && w->run->scorer->by_window ? w->run->n_window : w->n;
}

static struct op_call call_of(const struct window *w, int k)
{
    const struct scorer *s = w->run->scorer;
    const struct program *scorer = s->program->scorer;
    const struct op *op = &scorer->op[k];
    struct op_call call = {.device = s->device,
                           .program = scorer,
                           .op = op,
                           .n = n_rows(w, op),
                           .training = true,
                           .out = value_of(w, op->out),
                           .saved = {rows_at(w, saved_before(scorer, k))},
                           .workspace = rows_at(w, saved_before(scorer, scorer->n_op)),
                           .node = w->run->pairs->relations != NULL ? w->run->pairs->relations + w->first : NULL};
    for (int i = 0; i < OP_N_IN && op->in[i] >= 0; i++) {
        call.in[i] = value_of(w, op->in[i]);
    }
    call.f = op->in[0] >= 0 ? scorer->value[op->in[0]].width : 0;
    for (int i = 0; i < OP_N_PARAM; i++) {
        if (op->param[i] >= 0) {
            call.param[i] = s->weights + first_param(s->program)[op->param[i]].offset;
        }
    }
    return call;
}

static float *window_scores(const struct window *w)
{
    const struct scorer *s = w->run->scorer;
    const struct program *scorer = s->program->scorer;
    for (int end = 0; end < SCORER_N_END; end++) {
        s->device->ops->rows_gather(s->device, w->n, scorer->value[end].width, w->run->pairs->list[end] + w->first,
                                    1.0F, w->run->pairs->rows[end], value_of(w, end));
    }
    for (int k = 0; k < scorer->n_op; k++) {
        const struct op_call call = call_of(w, k);
        op_defs[call.op->kind]->forward(&call);
    }
    return value_of(w, scorer->logits);
}

/* Does an op from k on read a value? */
static bool is_read(const struct program *scorer, int value, int k)
{
    bool any = false;
    for (; k < scorer->n_op && !any; k++) {
        for (int i = 0; i < OP_N_IN; i++) {
            any = any || scorer->op[k].in[i] == value;
        }
    }
    return any;
}

/* Is there a gradient of op k's input, of an op behind it or an input before it? */
static bool has_gradient(const struct program *scorer, int k, int input)
{
    const int value = scorer->op[k].in[input];
    bool has = is_read(scorer, value, k + 1);
    for (int i = 0; i < input; i++) {
        has = has || scorer->op[k].in[i] == value;
    }
    return has;
}

/* From the slopes, which are the gradient of the scores. */
static void window_backward(const struct window *w)
{
    const struct program *program = w->run->scorer->program, *scorer = program->scorer;
    for (int k = scorer->n_op - 1; k >= 0; k--) {
        struct op_call call = call_of(w, k);
        call.grad_out = gradient_of(w, call.op->out);
        for (int i = 0; i < OP_N_IN && call.op->in[i] >= 0; i++) {
            const int value = call.op->in[i];
            const bool is_other = value < SCORER_N_END && value != (int)w->run->wanted->end;
            if (scorer->value[value].needs_grad && !is_other) {
                call.grad_in[i] = gradient_of(w, value);
                call.add[i] = has_gradient(scorer, k, i);
            }
        }
        for (int i = 0; i < OP_N_PARAM; i++) {
            const int param = call.op->param[i];
            if (param >= 0 && scorer->param[param].trains) {
                call.grad_param[i] = w->sums + first_param(program)[param].offset - first_param(program)->offset;
                call.add_param[i] = true;
            }
        }
        op_defs[call.op->kind]->backward(&call);
    }
}

/* Of the window's scores, where the gradient of these belongs. */
static void slopes_make(const struct window *w, const float *score)
{
    const struct scorer_gradients *wanted = w->run->wanted;
    const struct scorer_pairs *pairs = w->run->pairs;
    struct device *device = w->run->scorer->device;
    const struct device_ops *ops = device->ops;
    const struct program *scorer = w->run->scorer->program->scorer;
    float *slope = gradient_of(w, scorer->logits);
    if (wanted->slope != NULL && pairs->numbers != NULL) {
        ops->rows_gather(device, w->n, 1, pairs->numbers + w->first, 1.0F, wanted->slope, slope);
        return;
    }
    ops->axpby(device, w->n, 1.0F, NULL, wanted->slope != NULL ? wanted->slope + w->first : score, 0.0F, NULL, slope);
    if (wanted->slope == NULL) {
        struct device_pair_losses losses = *wanted->losses;
        losses.n_group = w->n;
        losses.score = slope;
        losses.scratch = rows_at(w, saved_before(scorer, scorer->n_op));
        ops->pair_losses(device, &losses, w->loss);
    }
}

static void window_run(const struct window *w)
{
    const struct run *run = w->run;
    const struct scorer_gradients *wanted = run->wanted;
    struct device *device = run->scorer->device;
    const struct program *scorer = run->scorer->program->scorer;
    const float *score = window_scores(w);
    if (wanted == NULL) {
        const uint32_t *numbers = run->pairs->numbers;
        device->ops->rows_add(device, w->n, 1, numbers != NULL ? numbers + w->first : NULL, 1.0F, score,
                              numbers != NULL ? run->score : run->score + w->first);
        return;
    }
    slopes_make(w, score);
    window_backward(w);
    if (is_read(scorer, (int)wanted->end, 0)) {
        const struct device_collect collect = {
            .n = w->n, .f = scorer->value[wanted->end].width, .rows = run->pairs->list[wanted->end] + w->first};
        device->ops->rows_collect(device, &collect, gradient_of(w, (int)wanted->end), wanted->rows);
    }
}

/* The first pair of a chunk: where gradients are added, none whose row is in the chunk before. */
static int64_t chunk_begin(const struct run *run, int64_t chunk)
{
    const int64_t n = run->pairs->n;
    int64_t e = n * chunk / run->n_chunk;
    const uint32_t *row = run->wanted != NULL ? run->pairs->list[run->wanted->end] : NULL;
    while (row != NULL && e > 0 && e < n && row[e] == row[e - 1]) {
        e++;
    }
    return e;
}

/* Behind the slots: all chunks' sums of the weights' gradients, then their losses. */
static float *chunk_sums(const struct run *run, int64_t chunk)
{
    const struct scorer *s = run->scorer;
    const int64_t slots = s->ops->n_chunk * slot_floats(s->program->scorer, s->ops);
    return (float *)s->memory + slots + chunk * weight_floats(s->program);
}

static double *chunk_loss(const struct run *run, int64_t chunk)
{
    return (double *)(void *)chunk_sums(run, run->scorer->ops->n_chunk) + chunk;
}

static void chunk_run(void *context, int chunk, int slot)
{
    const struct run *run = context;
    const struct scorer *s = run->scorer;
    const int64_t end = chunk_begin(run, chunk + 1);
    struct window w = {.run = run,
                       .first = chunk_begin(run, chunk),
                       .memory = (float *)s->memory + slot * slot_floats(s->program->scorer, s->ops)};
    if (run->wanted != NULL) {
        w.sums = chunk_sums(run, chunk);
        w.loss = chunk_loss(run, chunk);
        s->device->ops->fill_zero(s->device, w.sums, (size_t)weight_floats(s->program) * sizeof(float));
        s->device->ops->fill_zero(s->device, w.loss, sizeof(double));
    }
    for (; w.first < end; w.first += run->n_window) {
        w.n = smaller(end - w.first, run->n_window);
        window_run(&w);
    }
}

static struct run run_of(const struct scorer *scorer, const struct scorer_pairs *pairs)
{
    struct run run = {
        .scorer = scorer, .pairs = pairs, .n_window = window_pairs(scorer->program->scorer, scorer->ops)};
    run.n_chunk = larger(smaller(pairs->n / run.n_window, scorer->ops->n_chunk), 1);
    return run;
}

void scorer_scores(const struct scorer *scorer, const struct scorer_pairs *pairs, float *score)
{
    struct run run = run_of(scorer, pairs);
    run.score = score;
    scorer->device->ops->chunks_run(scorer->device, (int)run.n_chunk, chunk_run, &run);
}

void scorer_gradients(const struct scorer *scorer, const struct scorer_pairs *pairs,
                      const struct scorer_gradients *wanted)
{
    const struct device_ops *ops = scorer->device->ops;
    const int64_t n = weight_floats(scorer->program);
    struct run run = run_of(scorer, pairs);
    run.wanted = wanted;
    ops->chunks_run(scorer->device, (int)run.n_chunk, chunk_run, &run);
    if (n > 0) {
        float *all = chunk_sums(&run, 0), *to = wanted->weights + first_param(scorer->program)->offset;
        ops->chunks_add(scorer->device, n, run.n_chunk, all, all);
        ops->axpby(scorer->device, n, 1.0F, NULL, to, 1.0F, all, to);
    }
    for (int64_t chunk = 0; chunk < run.n_chunk && wanted->losses != NULL; chunk++) {
        ops->doubles_merge(scorer->device, false, 1, chunk_loss(&run, chunk), wanted->loss);
    }
}
