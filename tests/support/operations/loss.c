/* Losses and scores, labels as input. */
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

#include <math.h>
#include <stdlib.h>

enum { SPLIT = 2, N_SCORE = sizeof(struct device_score) / sizeof(double) };

/* What of n rows is known: int32 n, or float n × c with some unknown; every third row is of the split. */
struct labelled {
    int32_t *classes;
    float *rows;
    uint8_t *split;
};

static struct labelled labelled(struct operation_run *run, int64_t n, int64_t c)
{
    struct labelled l;
    int32_t *classes = malloc((size_t)n * sizeof *classes);
    float *rows = malloc((size_t)(n * c) * sizeof *rows);
    uint8_t *split = malloc((size_t)n);
    if (classes == NULL || rows == NULL || split == NULL) {
        operation_give_up("out of memory");
    }
    for (int64_t r = 0; r < n; r++) {
        classes[r] = r % 11 == 3 ? -1 : (int32_t)(r * 5 % c);
        split[r] = r % 3 == 0 ? SPLIT : (uint8_t)(1 + r % 2 * 2);
        for (int64_t k = 0; k < c; k++) {
            rows[r * c + k] = (r * c + k) % 13 == 0 ? NAN : (float)((r + k) % 2);
        }
    }
    l.classes = operation_copy(run, classes, (size_t)n * sizeof *classes);
    l.rows = operation_copy(run, rows, (size_t)(n * c) * sizeof *rows);
    l.split = operation_copy(run, split, (size_t)n);
    free(classes);
    free(rows);
    free(split);
    return l;
}

static struct device_draw drawn(struct operation_run *run, int64_t n, double p)
{
    return (struct device_draw){.p = p,
                                .key = {.seed = 3, .op = 4},
                                .now = operation_now(run, (struct device_now){.epoch = 6}),
                                .node = operation_numbers(run, n, 5, 31)};
}

/* 0, 0.5, 1, … */
static const float *weights(struct operation_run *run, int64_t c)
{
    float *all = malloc((size_t)c * sizeof *all);
    if (all == NULL) {
        operation_give_up("out of memory");
    }
    for (int64_t k = 0; k < c; k++) {
        all[k] = 0.5F * (float)k;
    }
    const float *out = operation_copy(run, all, (size_t)c * sizeof *all);
    free(all);
    return out;
}

/* loss, n, classes, thousandths drawn (negative: none, with weights and as much smoothing): with a gradient, and
 * scores alone */
static void loss(struct operation_run *run, const int64_t *shape)
{
    int64_t n = shape[1], c = shape[2];
    struct labelled l = labelled(run, n, c);
    struct device_scoring how = {.loss = (enum device_loss)shape[0],
                                 .n = n,
                                 .c = c,
                                 .logits = operation_random(run, n * c),
                                 .labels = shape[0] != DEVICE_LOSS_CROSS_ENTROPY ? (const void *)l.rows : l.classes,
                                 .delta = 0.5,
                                 .row_split = l.split,
                                 .split = SPLIT,
                                 .drawn = drawn(run, n, shape[3] > 0 ? (double)shape[3] / 1000.0 : 0.0),
                                 .now = operation_now(run, (struct device_now){.epoch = 6, .n_loss_row = 40.0}),
                                 .scratch = operation_scratch(run, DEVICE_BYTES(run->ops, LOSS, n))};
    if (shape[3] < 0) {
        how.weights = weights(run, c);
        how.smoothing = shape[0] == DEVICE_LOSS_CROSS_ENTROPY ? (double)-shape[3] / 1000.0 : 0.0;
    }
    how.grad = operation_floats(run, n * c);
    run->ops->loss(run->device, &how, (struct device_score *)operation_doubles(run, N_SCORE));
    how.grad = NULL;
    run->ops->loss(run->device, &how, (struct device_score *)operation_doubles(run, N_SCORE));
}

/* n, f, classes */
static void labels(struct operation_run *run, const int64_t *shape)
{
    int64_t n = shape[0], f = shape[1], c = shape[2];
    struct labelled l = labelled(run, n, c);
    const float *x = operation_random(run, n * f);
    for (int several = 0; several < 2; several++) {
        const struct device_labels how = {n,       c,     several ? NULL : l.classes, several ? l.rows : NULL,
                                          l.split, SPLIT, drawn(run, n, 0.3)};
        run->ops->labels_append(run->device, &how, f, x, operation_floats(run, n * (f + c)));
        run->ops->draw_count(run->device, &how, operation_doubles(run, 1));
    }
}

/* n, f, most pairs of a row, with an edge: the pairs with some of the places, and then the others */
static void links(struct operation_run *run, const int64_t *shape)
{
    const int64_t n = shape[0], f = shape[1], most = shape[2], n_place = 3 * most + 1;
    int64_t *indptr = malloc((size_t)(n + 1) * sizeof *indptr);
    uint32_t *places = malloc((size_t)(n * most) * sizeof *places);
    if (indptr == NULL || places == NULL) {
        operation_give_up("out of memory");
    }
    indptr[0] = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t n_pair = r * 7 % (most + 1);
        for (int64_t e = 0; e < n_pair; e++) { /* some twice */
            places[indptr[r] + e] = (uint32_t)((r % 5 + e * n_place / (n_pair + 1) * 9 / 10) % n_place);
        }
        indptr[r + 1] = indptr[r] + n_pair;
    }
    struct device_links how = {.n_row = n,
                               .f = f,
                               .indptr = operation_copy(run, indptr, (size_t)(n + 1) * sizeof *indptr),
                               .places = operation_copy(run, places, (size_t)indptr[n] * sizeof *places),
                               .end = (uint32_t)n_place / 3,
                               .joined = shape[3] != 0,
                               .weight = 0.125,
                               .own = operation_random(run, n * f),
                               .grad = operation_floats(run, n * f),
                               .scratch = operation_scratch(run, DEVICE_BYTES(run->ops, LOSS, n))};
    const float *x = operation_random(run, n_place * f);
    double *sum = operation_scratch(run, sizeof *sum), all;
    float *rounded = operation_floats(run, 1); /* scores are floats */
    run->ops->fill_zero(run->device, how.grad, (size_t)(n * f) * sizeof *how.grad);
    run->ops->fill_zero(run->device, sum, sizeof *sum);
    for (int half = 0; half < 2; half++) {
        how.x = x + how.first * f;
        run->ops->link_loss(run->device, &how, sum);
        how.first = how.end;
        how.end = (uint32_t)n_place;
    }
    run->ops->copy(run->device, &all, sum, sizeof all);
    float value = (float)all;
    run->ops->copy(run->device, rounded, &value, sizeof value);
    free(indptr);
    free(places);
}

/* n, f, 1: by numbers */
static void pairs(struct operation_run *run, const int64_t *shape)
{
    const int64_t n = shape[0], f = shape[1], n_place = 41, n_row = n / 3 + 1;
    uint32_t *rows = malloc((size_t)n * sizeof *rows), *places = malloc((size_t)n * sizeof *places),
             *numbers = malloc((size_t)n * sizeof *numbers);
    if (rows == NULL || places == NULL || numbers == NULL) {
        operation_give_up("out of memory");
    }
    for (int64_t e = 0; e < n; e++) {
        rows[e] = (uint32_t)(e / 3 * 7 / 9); /* of three to six pairs, but for a long one */
        rows[e] = e > n / 4 && e < n / 2 ? rows[n / 4] : rows[e];
        places[e] = (uint32_t)(e * 31 % n_place);
        numbers[e] = (uint32_t)(n - 1 - e);
    }
    for (int64_t e = n / 2; e < n; e++) {
        rows[e] = rows[e] < rows[e - 1] ? rows[e - 1] : rows[e];
    }
    struct device_pairs how = {.n = n,
                               .f = f,
                               .rows = operation_copy(run, rows, (size_t)n * sizeof *rows),
                               .places = operation_copy(run, places, (size_t)n * sizeof *places),
                               .own = operation_random(run, n_row * f),
                               .x = operation_random(run, n_place * f)};
    const float *slope = operation_random(run, n), *x = operation_random(run, n * f);
    float *score = operation_floats(run, n), *grad = operation_floats(run, n_row * f),
          *ordered = operation_floats(run, n_row * f), *few = operation_floats(run, n_place * f);
    run->ops->fill_zero(run->device, grad, (size_t)(n_row * f) * sizeof *grad);
    run->ops->fill_zero(run->device, ordered, (size_t)(n_row * f) * sizeof *ordered);
    run->ops->fill_zero(run->device, few, (size_t)(n_place * f) * sizeof *few);
    run->ops->rows_collect(run->device, &(struct device_collect){.n = n, .f = f, .rows = how.rows}, x, ordered);
    run->ops->rows_collect(run->device,
                           &(struct device_collect){.n = n, .f = f, .rows = how.places, .n_row = n_place}, x, few);
    how.numbers = shape[2] != 0 ? operation_copy(run, numbers, (size_t)n * sizeof *numbers) : NULL;
    run->ops->pair_scores(run->device, &how, score);
    run->ops->pair_gradients(run->device, &how, slope, grad);
    free(rows);
    free(places);
    free(numbers);
}

/* loss, groups, pairs without an edge in each, 0: no edge */
static void groups(struct operation_run *run, const int64_t *shape)
{
    const int64_t n_group = shape[1], n = shape[2] + shape[3];
    const float *drawn_scores = operation_random(run, n_group * n);
    float *score = operation_floats(run, n_group * n), *all = malloc((size_t)(n_group * n) * sizeof *all), value;
    double *sum = operation_scratch(run, sizeof *sum), total;
    if (all == NULL) {
        operation_give_up("out of memory");
    }
    run->ops->copy(run->device, all, drawn_scores, (size_t)(n_group * n) * sizeof *all);
    for (int64_t i = 0; i < n_group * n; i++) {
        bool is_left_out = i % n >= shape[3] && (i * 7 % 5 == 0 || i / n % 11 == 3); /* some groups have none left */
        all[i] = is_left_out ? -INFINITY : 4.0F * all[i];
    }
    run->ops->copy(run->device, score, all, (size_t)(n_group * n) * sizeof *all);
    run->ops->fill_zero(run->device, sum, sizeof *sum);
    run->ops->pair_losses(run->device,
                          &(struct device_pair_losses){
                              .loss = (enum device_pair_loss)shape[0],
                              .n_group = n_group,
                              .n_negative = shape[2],
                              .has_edge = shape[3] != 0,
                              .weight = 0.25,
                              .share = 0.5,
                              .margin = 1.5F,
                              .score = score,
                              .scratch = operation_scratch(run, DEVICE_BYTES(run->ops, LOSS, n_group)),
                          },
                          sum);
    run->ops->copy(run->device, &total, sum, sizeof total);
    value = (float)total;
    run->ops->copy(run->device, operation_floats(run, 1), &value, sizeof value);
    free(all);
}

#define SAME OPERATION_SAME_EMULATED, 1e-6, loss
#define PAIRS OPERATION_SAME_EMULATED, 1e-5, pairs
#define GROUPS OPERATION_SAME_EMULATED, 1e-5, groups
#define LINKS OPERATION_SAME_EMULATED, 1e-5, links

const struct operation_case operation_loss_cases[] = {
    {"links-900x16", LINKS, {900, 16, 70, 1}},
    {"pairs-without-an-edge-900x33", LINKS, {900, 33, 10, 0}},
    {"links-5000x128", LINKS, {5000, 128, 9, 1}},
    {"links-3x1", LINKS, {3, 1, 2, 0}},
    {"pairs-5000x33", PAIRS, {5000, 33, 0}},
    {"pairs-by-numbers-3000x128", PAIRS, {3000, 128, 1}},
    {"pairs-200x1100", PAIRS, {200, 1100, 0}},
    {"pairs-2x1", PAIRS, {2, 1, 1}},
    {"groups-bce-3000x4", GROUPS, {DEVICE_PAIR_LOSS_BCE, 3000, 4, 1}},
    {"groups-bce-edges-2000", GROUPS, {DEVICE_PAIR_LOSS_BCE, 2000, 0, 1}},
    {"groups-bce-others-2000", GROUPS, {DEVICE_PAIR_LOSS_BCE, 2000, 1, 0}},
    {"groups-margin-3000x4", GROUPS, {DEVICE_PAIR_LOSS_MARGIN, 3000, 4, 1}},
    {"groups-cross-entropy-3000x4", GROUPS, {DEVICE_PAIR_LOSS_CROSS_ENTROPY, 3000, 4, 1}},
    {"groups-cross-entropy-7x300", GROUPS, {DEVICE_PAIR_LOSS_CROSS_ENTROPY, 7, 300, 1}},
    {"cross-entropy-5000x7", SAME, {DEVICE_LOSS_CROSS_ENTROPY, 5000, 7, 0}},
    {"cross-entropy-900x40", SAME, {DEVICE_LOSS_CROSS_ENTROPY, 900, 40, 600}},
    {"binary-cross-entropy-3000x5", SAME, {DEVICE_LOSS_BCE, 3000, 5, 0}},
    {"binary-cross-entropy-900x40", SAME, {DEVICE_LOSS_BCE, 900, 40, 600}},
    {"cross-entropy-weights-5000x7", SAME, {DEVICE_LOSS_CROSS_ENTROPY, 5000, 7, -100}},
    {"cross-entropy-weights-900x40", SAME, {DEVICE_LOSS_CROSS_ENTROPY, 900, 40, -300}},
    {"binary-cross-entropy-weights-900x40", SAME, {DEVICE_LOSS_BCE, 900, 40, -100}},
    {"squared-error-3000x1", SAME, {DEVICE_LOSS_MSE, 3000, 1, 0}},
    {"absolute-error-900x40", SAME, {DEVICE_LOSS_MAE, 900, 40, 0}},
    {"cross-entropy-1x2", SAME, {DEVICE_LOSS_CROSS_ENTROPY, 1, 2, 0}},
    {"squared-error-900x40", SAME, {DEVICE_LOSS_MSE, 900, 40, 600}},
    {"huber-3000x5", SAME, {DEVICE_LOSS_HUBER, 3000, 5, 0}},
    {"labels-3000x3x4", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, labels, {3000, 3, 4}},
    {0},
};
