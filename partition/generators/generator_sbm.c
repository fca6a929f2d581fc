/* Planted communities (a stochastic block model of equal blocks), as large as memory holds.
 *
 * With L labels per node there are L layers; layer l deals the classes l, l+L, l+2L … out to all nodes in equal
 * blocks of a random order of its own, so each node has exactly one class of each layer. An edge draws a layer, a
 * node, and then with probability `homophily` another of the node's class in that layer, else one outside it.
 * Features are the sum of the centres of a node's classes plus noise. Node numbers carry no information: a range of
 * them is a random set.
 * source  Holland, Laskey & Leinhardt, Social Networks 5 (1983)
 */
#include "partition/files/dataset_store.h"
#include "partition/generators/generator.h"
#include "partition/rows/permutation.h"

#include <stdlib.h>

#define LAYER_MOST 64

struct layer {
    struct permutation order; /* place to node */
    int64_t n_class;          /* of this layer */
};

struct sbm {
    int64_t n_node;
    int64_t n_layer;
    double homophily;
    struct random_key edge_key;
    struct layer layers[LAYER_MOST];
};

/* Which of its layer's blocks a place is in, and where the block begins: both factors are small, below 2^32 and
 * 2^16. */
static int64_t block_of(const struct sbm *sbm, const struct layer *layer, int64_t place)
{
    return place * layer->n_class / sbm->n_node;
}

static int64_t block_begin(const struct sbm *sbm, const struct layer *layer, int64_t block)
{
    return (block * sbm->n_node + layer->n_class - 1) / layer->n_class;
}

/* The class of a node in a layer. */
static int64_t class_of(const struct sbm *sbm, int64_t l, int64_t node)
{
    const struct layer *layer = &sbm->layers[l];
    return block_of(sbm, layer, permutation_inverse(&layer->order, node)) * sbm->n_layer + l;
}

static void edge_draw(const struct sbm *sbm, int64_t edge, int64_t *source, int64_t *destination)
{
    uint32_t counter[4], key[2], draw[4];
    random_counter(&sbm->edge_key, (uint64_t)edge, 0, counter, key);
    random_philox(counter, key, draw);
    const struct layer *layer = &sbm->layers[generator_below(draw[0], sbm->n_layer)];
    int64_t from = generator_below(draw[1], sbm->n_node);
    int64_t block = block_of(sbm, layer, from);
    int64_t begin = block_begin(sbm, layer, block);
    int64_t size = block_begin(sbm, layer, block + 1) - begin;
    bool inside = (double)draw[2] * 0x1p-32 < sbm->homophily;
    int64_t to;
    if ((inside && size > 1) || size == sbm->n_node) {
        to = begin + generator_below(draw[3], size - 1);
        to += to >= from;
    } else {
        to = generator_below(draw[3], sbm->n_node - size);
        to += to >= begin ? size : 0;
    }
    *source = permutation_at(&layer->order, from);
    *destination = permutation_at(&layer->order, to);
}

static enum status edges_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    const struct sbm *sbm = self;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        edge_draw(sbm, first + i, &source[i], &destination[i]);
    }
    return STATUS_OK;
}

/* One row: noise first, then the centre of each class. */
static void feature_row(const struct sbm *sbm, const struct job *job, const float *centres, int64_t node, float *row)
{
    struct random_key key = generator_key(job, GENERATOR_DRAW_NOISE);
    int64_t n = job->dataset.features;
    float noise = (float)job->dataset.noise;
    for (int64_t c = 0; c < n; c += 4) {
        uint32_t counter[4], philox_key[2], draw[4];
        random_counter(&key, (uint64_t)node, (uint32_t)(c / 4), counter, philox_key);
        random_philox(counter, philox_key, draw);
        for (int64_t i = c; i < n && i < c + 4; i++) {
            row[i] = noise * generator_normal(draw[i - c]);
        }
    }
    for (int64_t l = 0; l < sbm->n_layer; l++) {
        const float *centre = centres + class_of(sbm, l, node) * n;
        for (int64_t c = 0; c < n; c++) {
            row[c] += centre[c];
        }
    }
}

static enum status features_fill(const struct sbm *sbm, const struct job *job, struct dataset *out)
{
    float *rows, *centres;
    size_t n_centre = (size_t)(job->dataset.classes * job->dataset.features);
    enum status status = generator_features(job, out, &rows);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n_centre, sizeof *centres, &centres);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct random_key key = generator_key(job, GENERATOR_DRAW_CENTRE);
    for (size_t i = 0; i < n_centre; i++) {
        centres[i] = generator_normal(
            random_u32(&key, i / (size_t)out->facts.n_feature, (uint32_t)(i % (size_t)out->facts.n_feature)));
    }
#pragma omp parallel for schedule(static)
    for (int64_t node = 0; node < out->n_node; node++) {
        feature_row(sbm, job, centres, node, rows + node * out->facts.n_feature);
    }
    memory_release(MEMORY_OTHER, centres, n_centre, sizeof *centres);
    if (job->dataset.normalize_features == JOB_NORMALIZE_ROW) {
        dataset_rows_normalize(rows, out->n_node, out->facts.n_feature);
    }
    return STATUS_OK;
}

static enum status labels_fill(const struct sbm *sbm, struct dataset *out)
{
    size_t n_node = (size_t)out->n_node;
    out->facts.multi_label = sbm->n_layer > 1;
    enum status status = out->facts.multi_label
                             ? dataset_store_block(out->store, MEMORY_OTHER, n_node * (size_t)out->facts.n_class,
                                                   sizeof(float), &out->labels.rows)
                             : dataset_store_block(out->store, MEMORY_OTHER, n_node, sizeof(int32_t),
                                                   &out->labels.classes);
    if (status != STATUS_OK) {
        return status;
    }
#pragma omp parallel for schedule(static)
    for (int64_t node = 0; node < out->n_node; node++) {
        for (int64_t l = 0; l < sbm->n_layer; l++) {
            int64_t class_number = class_of(sbm, l, node);
            if (out->facts.multi_label) {
                out->labels.rows[node * out->facts.n_class + class_number] = 1.0f;
            } else {
                out->labels.classes[node] = (int32_t)class_number;
            }
        }
    }
    return STATUS_OK;
}

static void sbm_init(const struct job *job, struct sbm *out)
{
    out->n_node = job->dataset.nodes;
    out->n_layer = job->dataset.labels_per_node;
    out->homophily = job->dataset.homophily;
    out->edge_key = generator_key(job, GENERATOR_DRAW_EDGE);
    for (int64_t l = 0; l < out->n_layer; l++) {
        out->layers[l].order = permutation_make(generator_key(job, GENERATOR_DRAW_PERMUTATION + (int)l), out->n_node);
        out->layers[l].n_class = (job->dataset.classes - l + out->n_layer - 1) / out->n_layer;
    }
}

enum status generator_sbm(const struct job *job, struct dataset *out)
{
    if (job->dataset.labels_per_node > job->dataset.classes) {
        return status_fail(STATUS_CONFIG, "dataset.labels_per_node is %lld, expected at most dataset.classes, %lld",
                           (long long)job->dataset.labels_per_node, (long long)job->dataset.classes);
    }
    struct sbm *sbm = memory_alloc(1, sizeof *sbm);
    sbm_init(job, sbm);
    struct edge_source source = {.file = "sbm", .unit = "edge", .self = sbm, .read = edges_read};
    out->n_node = job->dataset.nodes;
    out->facts.n_class = (int32_t)job->dataset.classes;
    enum status status = generator_n_edge(job, out->n_node, &source.n_edge);
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, true, out);
    }
    if (status == STATUS_OK) {
        status = features_fill(sbm, job, out);
    }
    if (status == STATUS_OK) {
        status = labels_fill(sbm, out);
    }
    if (status == STATUS_OK) {
        status = generator_splits(job, out);
    }
    free(sbm);
    return status;
}
