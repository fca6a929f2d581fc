/* Attention on the cpu device. GAT over blocks whose rows have few edges, which are worked on several at a time: the
 * bits of each row alone; any row's bits, however its edges are cut into blocks. */
#include "models/cpu/cpu.h"
#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_ROW 150

/* Around the limits: rows of up to 8 edges go together, 32 fill a run. */
static int64_t degree_few(int64_t row, int64_t n_row)
{
    static const int64_t degrees[] = {1, 0, 2, 1, 3, 7, 1, 9, 1, 17, 0, 1, 2, 33, 2, 1, 8, 8, 16, 31, 5, 6, 4};
    (void)n_row;
    return degrees[(row * row + row / 7) % (int64_t)(sizeof degrees / sizeof *degrees)];
}

/* A layer over N_ROW rows and what it reads; source and target lie as rows of the layer, and again for other ends. */
struct layer {
    struct device_attention how;
    struct device_block block;
    struct device_attention_source source[2];
    struct device_attention_target target[2];
    float *array[12]; /* all of the above */
    int n_array;
};

static float *numbers(struct layer *l, int64_t n)
{
    float *x = device_random((size_t)n, (uint32_t)(l->n_array + 3 * n));
    l->array[l->n_array++] = x;
    return x;
}

static struct layer layer(int64_t n_head, int64_t n_column, double p)
{
    static uint32_t nodes[N_ROW];
    struct layer l = {.how = {.score = DEVICE_SCORE_ADD,
                              .n_head = n_head,
                              .n_column = n_column,
                              .slope = 0.2F,
                              .shift = 0.25F,
                              .p = p,
                              .row_node = nodes,
                              .col_node = nodes}};
    for (uint32_t i = 0; i < N_ROW; i++) {
        nodes[i] = 7 * i + 3;
    }
    l.block = device_graph(N_ROW, N_ROW, degree_few);
    for (int i = 0; i < 2; i++) {
        const int64_t heads = N_ROW * n_head, wide = heads * n_column;
        l.source[i] = (struct device_attention_source){numbers(&l, wide), numbers(&l, wide)};
        l.target[i] = (struct device_attention_target){numbers(&l, wide), numbers(&l, 2 * heads), numbers(&l, wide)};
    }
    return l;
}

static void layer_free(struct layer *l)
{
    device_graph_free(&l->block);
    for (int i = 0; i < l->n_array; i++) {
        free(l->array[i]);
    }
}

/* --- bits: many rows in one call against each row's edges in a call of their own, which form no common run --- */

/* What a pass writes, for each row: wide, wide, 2 heads, heads; the first call's and the others'. */
struct written {
    float *wide[2], *softmax, *narrow;
};

static struct written written_open(int64_t heads, int64_t n_column)
{
    const size_t n = (size_t)heads, wide = (size_t)(heads * n_column);
    return (struct written){{calloc(wide, sizeof(float)), calloc(wide, sizeof(float))},
                            calloc(2 * n, sizeof(float)),
                            calloc(n, sizeof(float))};
}

static void written_free(struct written *w)
{
    free(w->wide[0]);
    free(w->wide[1]);
    free(w->softmax);
    free(w->narrow);
}

/* Let a pass write from row `row` of these arrays on. */
static void direct(const struct written *w, int64_t row, struct device_attention_state *state,
                   struct cpu_attention *a)
{
    const int64_t head = row * a->how->n_head, column = head * a->how->n_column;
    *state = (struct device_attention_state){w->softmax + 2 * head, w->wide[1] + column, w->narrow + head};
    a->state = a->pass == CPU_ATTENTION_FORWARD ? state : NULL;
    a->out = a->grad_value = w->wide[0] + column;
    a->grad_key = w->narrow + head;
}

/* A pass over the layer's rows, before it has anywhere to write. */
static struct cpu_attention pass_over(const struct layer *l, enum cpu_attention_pass pass, bool with_self)
{
    struct cpu_attention a = {.pass = pass,
                              .how = &l->how,
                              .key = {.seed = 5, .op = 2, .stream = RANDOM_STREAM_EDGE},
                              .block = &l->block,
                              .begin = true,
                              .with_self = with_self,
                              .end_head = l->how.n_head,
                              .rows_are_sources = pass == CPU_ATTENTION_SOURCE,
                              .threshold = l->how.p > 0.0 ? 1U << 30 : 0,
                              .keep_scale = 4.0F / 3.0F,
                              .source = l->source[0],
                              .self_source = l->source[1],
                              .target = l->target[0],
                              .self_target = l->target[1]};
    for (int i = 0; i < CPU_ATTENTION_RUN; i++) {
        a.bias[i] = l->how.shift;
        a.bias[CPU_ATTENTION_RUN + i] = -INFINITY;
    }
    return a;
}

/* The same bits, but for the sign of what is no number. */
static void check_floats(int64_t n, const float *one, const float *other, const char *name)
{
    int64_t n_other = 0;
    for (int64_t i = 0; i < n; i++) {
        n_other += memcmp(one + i, other + i, sizeof *one) != 0 && !(isnan(one[i]) && isnan(other[i]));
    }
    cr_expect_eq(n_other, 0, "%s: %lld of %lld", name, (long long)n_other, (long long)n);
}

static void check_alike(const struct layer *l, const struct written *one, const struct written *other,
                        const char *name)
{
    const int64_t heads = N_ROW * l->how.n_head, wide = heads * l->how.n_column;
    check_floats(wide, one->wide[0], other->wide[0], name);
    check_floats(wide, one->wide[1], other->wide[1], name);
    check_floats(2 * heads, one->softmax, other->softmax, name);
    check_floats(heads, one->narrow, other->narrow, name);
}

static void check_alone(const struct cpu_kernels *kernels, const struct layer *l, enum cpu_attention_pass pass,
                        bool with_self)
{
    const int64_t heads = N_ROW * l->how.n_head, *indptr = l->block.indptr;
    struct written together = written_open(heads, l->how.n_column), alone = written_open(heads, l->how.n_column);
    struct device_attention_state state;
    struct cpu_attention a = pass_over(l, pass, with_self);
    direct(&together, 0, &state, &a);
    kernels->attention_rows(&a, 0, N_ROW, NULL);
    a.is_piece = true;
    for (int64_t r = 0; r < N_ROW; r++) {
        direct(&alone, r, &state, &a);
        if (with_self || indptr[r] < indptr[r + 1]) {
            kernels->attention_piece(&a, r, indptr[r], indptr[r + 1], NULL);
        } else if (pass == CPU_ATTENTION_FORWARD) {
            for (int64_t h = 0; h < l->how.n_head; h++) {
                state.softmax[2 * h] = -INFINITY;
            }
        }
    }
    check_alike(l, &together, &alone, kernels->name);
    written_free(&together);
    written_free(&alone);
}

Test(attention, a_row_has_the_same_bits_beside_others_and_alone)
{
    static const int64_t shapes[][2] = {{1, 8}, {2, 40}, {4, 64}, {5, 3}, {11, 17}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int way = 0; way < 8; way++) {
            struct layer l = layer(shapes[i][0], shapes[i][1], way & 1 ? 0.25 : 0.0);
            for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
                const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
                if (kernels != NULL) {
                    check_alone(kernels, &l, way & 2 ? CPU_ATTENTION_SOURCE : CPU_ATTENTION_FORWARD, (way & 4) != 0);
                }
            }
            layer_free(&l);
        }
    }
}

/* --- bits: whole rows against rows whose edges lie in several blocks, cut anywhere --- */

#define N_CUT 3

/* Block k of N_CUT has the edges of each row from cut k on to the next, and the rows that have any there. */
struct cuts {
    uint32_t rows[N_CUT][N_ROW];
    int64_t indptr[N_CUT][N_ROW + 1];
    uint32_t *cols[N_CUT];
    struct device_block block[N_CUT];
};

static void cuts_open(const struct layer *l, uint32_t seed, struct cuts *to)
{
    for (int k = 0; k < N_CUT; k++) {
        int64_t n = 0, n_edge = 0;
        to->cols[k] = device_scratch((size_t)(l->block.n_edge + 1) * sizeof *to->cols[k]);
        to->indptr[k][0] = 0;
        for (int64_t r = 0; r < N_ROW; r++) {
            const int64_t begin = l->block.indptr[r], n_here = l->block.indptr[r + 1] - begin;
            int64_t cut[N_CUT + 1] = {0, (seed * 40503U + (uint32_t)r * 977U) % (uint32_t)(n_here + 1), 0, n_here};
            cut[2] = cut[1] + (int64_t)((seed * 7919U + (uint32_t)r * 131U) % (uint32_t)(n_here - cut[1] + 1));
            if (k > 0 && cut[k] == cut[k + 1]) {
                continue;
            }
            const size_t n_bytes = (size_t)(cut[k + 1] - cut[k]) * sizeof(uint32_t);
            memcpy(to->cols[k] + n_edge, l->block.cols + begin + cut[k], n_bytes);
            n_edge += cut[k + 1] - cut[k];
            to->rows[k][n++] = (uint32_t)r;
            to->indptr[k][n] = n_edge;
        }
        to->block[k] = (struct device_block){.n_row = n,
                                             .n_col = N_ROW,
                                             .n_edge = n_edge,
                                             .rows = to->rows[k],
                                             .indptr = to->indptr[k],
                                             .cols = to->cols[k]};
    }
}

static void check_cut(const struct cpu_kernels *kernels, const struct layer *l, enum cpu_attention_pass pass,
                      bool with_self, const struct cuts *cuts)
{
    char name[96];
    snprintf(name, sizeof name, "%s, score %d, pass %d, %lld x %lld", kernels->name, (int)l->how.score, (int)pass,
             (long long)l->how.n_head, (long long)l->how.n_column);
    const int64_t heads = N_ROW * l->how.n_head;
    struct written whole = written_open(heads, l->how.n_column), cut = written_open(heads, l->how.n_column);
    struct written *const written[] = {&whole, &cut};
    for (int way = 0; way < 2; way++) {
        struct device_attention_state state;
        struct cpu_attention a = pass_over(l, pass, with_self);
        const struct written *to = written[way];
        bool is_add = l->how.score == DEVICE_SCORE_ADD;
        state = (struct device_attention_state){to->softmax, is_add ? to->wide[1] : NULL, is_add ? to->narrow : NULL};
        a.state = pass == CPU_ATTENTION_FORWARD ? &state : NULL;
        a.out = pass == CPU_ATTENTION_FORWARD ? to->wide[0] : NULL;
        a.grad_query = pass == CPU_ATTENTION_QUERY ? to->wide[0] : NULL;
        a.grad_value = pass == CPU_ATTENTION_SOURCE ? to->wide[0] : NULL;
        a.grad_key = pass == CPU_ATTENTION_SOURCE ? (is_add ? to->narrow : to->wide[1]) : NULL;
        for (int k = 0; k < (way == 0 ? 1 : N_CUT); k++) {
            a.block = way == 0 ? &l->block : &cuts->block[k];
            a.begin = k == 0;
            a.with_self = k == 0 && with_self;
            kernels->attention_rows(&a, 0, a.block->n_row, NULL);
        }
    }
    check_alike(l, &whole, &cut, name);
    written_free(&whole);
    written_free(&cut);
}

/* Keys and queries times `range`. Of a wide range, some keys are -inf, NaN, or far below the others. */
static void widen(struct layer *l, float range)
{
    const int64_t n = N_ROW * l->how.n_head * l->how.n_column;
    for (int i = 0; i < 2; i++) {
        float *key = l->array[5 * i + 1], *query = l->array[5 * i + 2];
        for (int64_t k = 0; k < n; k++) {
            key[k] *= range;
            query[k] *= range;
        }
        for (int64_t k = 5; k < n && range > 100.0F; k += 97) {
            key[k] = k % 2 == 0 ? -INFINITY : k % 3 == 0 ? NAN : -200.0F * range;
        }
    }
}

Test(attention, a_row_has_the_same_bits_in_one_block_and_cut_anywhere)
{
    static const int64_t shapes[][2] = {{1, 16}, {4, 64}, {8, 8}, {5, 3}, {16, 8}, {11, 17}};
    static const struct {
        enum device_score_kind score;
        enum cpu_attention_pass pass;
    } passes[] = {{DEVICE_SCORE_ADD, CPU_ATTENTION_FORWARD},    {DEVICE_SCORE_ADD, CPU_ATTENTION_SOURCE},
                  {DEVICE_SCORE_MLP, CPU_ATTENTION_FORWARD},    {DEVICE_SCORE_DOT, CPU_ATTENTION_FORWARD},
                  {DEVICE_SCORE_DOT, CPU_ATTENTION_QUERY},      {DEVICE_SCORE_DOT, CPU_ATTENTION_SOURCE},
                  {DEVICE_SCORE_COSINE, CPU_ATTENTION_FORWARD}, {DEVICE_SCORE_COSINE, CPU_ATTENTION_QUERY}};
    static const float ranges[] = {1.0F, 30.0F, 1000.0F};
    const uint32_t n_shape = sizeof shapes / sizeof *shapes, n_pass = sizeof passes / sizeof *passes;
    for (uint32_t i = 0; i < n_shape * n_pass * 4; i += SANITIZED ? 5 : 1) {
        const int64_t *shape = shapes[i % n_shape];
        struct layer l = layer(shape[0], shape[1], i % 4 < 2 ? 0.25 : 0.0);
        struct cuts cuts;
        l.how.score = passes[i / n_shape % n_pass].score;
        l.how.scale = 0.5F;
        l.how.att = l.source[1].key;
        widen(&l, ranges[i / (n_shape * n_pass) % 3]);
        cuts_open(&l, i, &cuts);
        for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
            const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
            if (kernels != NULL) {
                check_cut(kernels, &l, passes[i / n_shape % n_pass].pass, i % 5 < 2, &cuts);
            }
        }
        for (int k = 0; k < N_CUT; k++) {
            free(cuts.cols[k]);
        }
        layer_free(&l);
    }
}
