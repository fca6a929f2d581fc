#include "tests/support/graphs/tiny_graph.h"

#include "protocol/base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_FEATURE 3

float test_number(uint64_t seed, uint64_t row, uint32_t column)
{
    struct random_key key = {.seed = seed, .stream = RANDOM_STREAM_GENERATOR};
    return 2.0f * random_unit(&key, row, column) - 1.0f;
}

static void *zeroed(int64_t n, size_t size)
{
    return calloc(n > 0 ? (size_t)n : 1, size);
}

/* From an n × n table of marks, row = destination; bit r for relation r. */
static void fill_edges(struct dataset *d, const uint8_t *mark)
{
    int n_relation = d->facts.n_relation > 0 ? d->facts.n_relation : 1;
    int64_t n_most = d->n_node * d->n_node * n_relation;
    d->indptr = zeroed(d->n_node + 1, sizeof *d->indptr);
    d->indices = zeroed(n_most, sizeof *d->indices);
    d->edge_type = d->facts.n_relation > 0 ? zeroed(n_most, sizeof *d->edge_type) : NULL;
    for (int64_t v = 0; v < d->n_node; v++) {
        for (int64_t i = 0; i < d->n_node * n_relation; i++) {
            int64_t type = i / d->n_node, u = i % d->n_node;
            if (mark[v * d->n_node + u] >> type & 1) {
                if (d->edge_type != NULL) {
                    d->edge_type[d->n_edge] = (uint16_t)type;
                }
                d->indices[d->n_edge++] = (uint32_t)u;
            }
        }
        d->indptr[v + 1] = d->n_edge;
    }
}

static void fill_weights(struct dataset *d, uint64_t seed)
{
    d->edge_weight = zeroed(d->n_edge, sizeof *d->edge_weight);
    d->strength = zeroed(d->n_node, sizeof *d->strength);
    const struct random_key key = {.seed = seed, .epoch = 1, .stream = RANDOM_STREAM_GENERATOR};
    for (uint32_t v = 0; v < d->n_node; v++) {
        for (int64_t i = d->indptr[v]; i < d->indptr[v + 1]; i++) {
            uint32_t u = d->indices[i];
            bool is_reverse = d->facts.symmetric && u > v;
            d->edge_weight[i] = u == v ? 1.0f : 1.0f - random_unit(&key, is_reverse ? v : u, is_reverse ? u : v);
            d->strength[v] += d->edge_weight[i];
        }
    }
}

/* Edges of a symmetric graph share their reverse's row. */
static void fill_edge_features(struct dataset *d, int64_t n_column)
{
    float *rows = zeroed(d->n_edge * n_column, sizeof *rows);
    uint32_t *row_of = zeroed(d->n_node * d->n_node, sizeof *row_of);
    d->edges.row = zeroed(d->n_edge, sizeof *d->edges.row);
    d->edges.loop_features = zeroed(d->n_node * n_column, sizeof *d->edges.loop_features);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t v = 0; v < d->n_node; v++) {
            for (int64_t i = d->indptr[v]; i < d->indptr[v + 1]; i++) {
                int64_t u = d->indices[i], first = d->facts.symmetric && u > v ? v : u, second = first == u ? v : u;
                int64_t pair = first * d->n_node + second;
                if (pass == 0 && u != v && row_of[pair] == 0) {
                    row_of[pair] = (uint32_t)++d->edges.n_row;
                }
                d->edges.row[i] = u == v ? (uint32_t)(d->edges.n_row + v) : row_of[pair] - 1;
                for (int64_t c = 0; pass == 1 && c < n_column; c++) {
                    float *to = u == v ? d->edges.loop_features + v * n_column : rows + d->edges.row[i] * n_column;
                    to[c] = (float)pair + (float)c / 4.0f;
                }
            }
        }
    }
    free(row_of);
    d->facts.n_edge_feature = n_column;
    d->edges.features = rows;
    d->facts.symmetric = false;
}

static void fill_labels(struct dataset *d)
{
    d->facts.n_class = 4;
    d->labels.split = zeroed(d->n_node, 1);
    d->labels.classes = d->facts.multi_label ? NULL : zeroed(d->n_node, sizeof *d->labels.classes);
    d->labels.rows = d->facts.multi_label ? zeroed(d->n_node * d->facts.n_class, sizeof *d->labels.rows) : NULL;
    for (int64_t v = 0; v < d->n_node; v++) {
        d->labels.split[v] = (uint8_t)(v % 4);
        d->labels.n_split[v % 4]++;
        if (d->facts.multi_label) {
            d->labels.rows[v * d->facts.n_class + v % d->facts.n_class] = 1.0f;
            d->labels.rows[v * d->facts.n_class + (v + 1) % d->facts.n_class] = v % 5 == 0 ? NAN : 0.0f;
        } else {
            d->labels.classes[v] = (int32_t)(v % (d->facts.n_class + 1)) - 1;
        }
    }
}

/* Whole and quarter numbers below 2048 are exact as IEEE halves: sign 0, so exponent and ten bits of the fraction. */
static uint16_t half_of(float value)
{
    if (value == 0.0f) {
        return 0;
    }
    int exponent;
    float fraction = frexpf(value, &exponent); /* value = fraction × 2^exponent, fraction in [1/2, 1) */
    return (uint16_t)((exponent - 1 + 15) << 10 | ((int)(fraction * 2048.0f) & 0x3ff));
}

static void fill_typed_features(struct dataset *d)
{
    int64_t n_own = (d->n_node + 1) / 3;
    struct embedded_run *run = zeroed(1, sizeof *run);
    *run = (struct embedded_run){1, 1 + n_own};
    d->features.embedded = (struct embedded){.n_run = n_own > 0, .run = run};
    d->facts.features_typed = true;
    d->facts.n_feature = n_own + 2;
    d->features.indptr = zeroed(d->n_node + 1, sizeof *d->features.indptr);
    d->features.indices = zeroed(d->n_node, sizeof *d->features.indices);
    d->features.data = zeroed(d->n_node, sizeof *d->features.data);
    for (int64_t v = 0; v < d->n_node; v++) {
        const int64_t column[] = {0, 1 + v / 3, 1 + n_own};
        d->features.indptr[v + 1] = v + 1;
        d->features.indices[v] = (uint32_t)column[v % 3];
        d->features.data[v] = v % 3 == 1 ? 1.0f : (float)v + 1.0f;
    }
}

static void fill_features(struct dataset *d, enum tiny_features kind)
{
    if (kind == TINY_FEATURES_NONE) {
        return;
    }
    if (kind == TINY_FEATURES_TYPED) {
        fill_typed_features(d);
        return;
    }
    d->facts.n_feature = N_FEATURE;
    int64_t n = d->n_node * N_FEATURE;
    float *dense = zeroed(n, sizeof *dense);
    uint16_t *half = zeroed(n, sizeof *half);
    d->features.indptr = kind == TINY_FEATURES_SPARSE ? zeroed(d->n_node + 1, sizeof *d->features.indptr) : NULL;
    d->features.indices = kind == TINY_FEATURES_SPARSE ? zeroed(n, sizeof *d->features.indices) : NULL;
    d->features.data = kind == TINY_FEATURES_SPARSE ? zeroed(n, sizeof *d->features.data) : NULL;
    int64_t n_value = 0;
    for (int64_t i = 0; i < n; i++) {
        dense[i] = (float)(i / N_FEATURE) + (float)(i % N_FEATURE) / 4.0f;
        half[i] = half_of(dense[i]);
        if (kind == TINY_FEATURES_SPARSE && i % 2 == 0) {
            d->features.indices[n_value] = (uint32_t)(i % N_FEATURE);
            d->features.data[n_value++] = dense[i];
        }
        if (kind == TINY_FEATURES_SPARSE) {
            d->features.indptr[i / N_FEATURE + 1] = n_value;
        }
    }
    d->features.f32 = kind == TINY_FEATURES_F32 ? dense : NULL;
    d->features.f16 = kind == TINY_FEATURES_F16 ? half : NULL;
    if (kind != TINY_FEATURES_F32) {
        free(dense);
    }
    if (kind != TINY_FEATURES_F16) {
        free(half);
    }
}

struct dataset tiny_build(const struct tiny_graph *graph)
{
    struct dataset d = {.name = "tiny",
                        .n_node = graph->n_node,
                        .facts = {.multi_label = graph->multi_label,
                                  .symmetric = graph->symmetric,
                                  .n_relation = graph->n_relation,
                                  .n_relation_given = graph->n_relation,
                                  .weighted = graph->weighted,
                                  .loops = graph->loops || graph->no_loops || graph->weighted ? GRAPH_LOOPS_STORED
                                                                                              : GRAPH_LOOPS_IMPLICIT},
                        .of_links = graph->of_links,
                        .links.n_relation = graph->of_links ? graph->n_relation : 0};
    bool adds_loops = graph->weighted && !graph->loops && !graph->no_loops;
    uint8_t *mark = zeroed(d.n_node * d.n_node, 1);
    const struct random_key key = {.seed = graph->seed, .stream = RANDOM_STREAM_GENERATOR};
    for (int64_t i = 0; i < graph->n_draw; i++) {
        int64_t u = (int64_t)(random_u32(&key, (uint64_t)i, 0) % (uint64_t)d.n_node);
        int64_t v = (int64_t)(random_u32(&key, (uint64_t)i, 1) % (uint64_t)d.n_node);
        bool keep = u != v || graph->loops;
        int type = graph->n_relation > 0 ? (int)(random_u32(&key, (uint64_t)i, 2) % (uint32_t)graph->n_relation) : 0;
        mark[v * d.n_node + u] |= (uint8_t)(keep << type);
        mark[u * d.n_node + v] |= keep && graph->symmetric;
    }
    for (int64_t u = 1; u < d.n_node && graph->hub; u++) {
        mark[u] = 1;
    }
    for (int64_t v = 0; v < d.n_node && adds_loops; v++) {
        mark[v * d.n_node + v] = 1;
    }
    fill_edges(&d, mark);
    free(mark);
    if (d.facts.weighted) {
        fill_weights(&d, graph->seed);
    }
    if (graph->n_edge_feature > 0) {
        fill_edge_features(&d, graph->n_edge_feature);
    }
    fill_labels(&d);
    fill_features(&d, graph->features);
    return d;
}

struct dataset tiny_from_edges(int64_t n_node, int64_t n_pair, const uint32_t (*pair)[2], bool symmetric)
{
    struct dataset d = {
        .name = "tiny", .n_node = n_node, .facts = {.symmetric = symmetric, .loops = GRAPH_LOOPS_STORED}};
    uint8_t *mark = zeroed(n_node * n_node, 1);
    for (int64_t i = 0; i < n_pair; i++) {
        mark[pair[i][1] * n_node + pair[i][0]] = 1;
        mark[pair[i][0] * n_node + pair[i][1]] |= symmetric;
    }
    fill_edges(&d, mark);
    free(mark);
    fill_labels(&d);
    return d;
}

void tiny_release(struct dataset *d)
{
    free(d->indptr);
    free(d->indices);
    free(d->edge_type);
    free(d->edge_weight);
    free(d->strength);
    free(d->edges.row);
    free((void *)(uintptr_t)d->edges.features);
    free(d->edges.loop_features);
    free((void *)(uintptr_t)d->features.f32);
    free((void *)(uintptr_t)d->features.f16);
    free(d->features.indptr);
    free(d->features.indices);
    free(d->features.data);
    free((void *)(uintptr_t)d->features.embedded.run);
    free(d->labels.classes);
    free(d->labels.rows);
    free(d->labels.split);
    *d = (struct dataset){0};
}

int64_t tiny_edge(const struct dataset *d, uint32_t source, uint32_t destination)
{
    for (int64_t i = d->indptr[destination]; i < d->indptr[destination + 1]; i++) {
        if (d->indices[i] == source) {
            return i;
        }
    }
    return -1;
}

int64_t tiny_typed_edge(const struct dataset *d, uint32_t source, uint32_t destination, uint16_t type)
{
    for (int64_t i = d->indptr[destination]; i < d->indptr[destination + 1]; i++) {
        if (d->indices[i] == source && d->edge_type[i] == type) {
            return i;
        }
    }
    return -1;
}
