/* Graph500's recursive matrix: few nodes with very many edges, many with few. 2^scale nodes in random order.
 *
 * Features are noise. A node's label is the largest of `classes` fixed random projections of its own row plus the
 * mean of its in-neighbours' rows: the row alone does not determine it, one layer of mean aggregation can learn it.
 * source  Chakrabarti, Zhan & Faloutsos, SDM 2004; Graph500 specification (A = .57, B = C = .19)
 */
#include "partition/files/dataset_store.h"
#include "partition/generators/generator.h"
#include "partition/rows/permutation.h"

#include <inttypes.h>
#include <stdlib.h>

#define PROBABILITY_A 0.57
#define PROBABILITY_B 0.19
#define PROBABILITY_C 0.19
#define SCALE_MOST 31 /* 2^32 nodes do not fit node ids */

struct rmat {
    uint32_t scale;
    uint32_t below_a, below_b, below_c; /* quadrant thresholds, 16-bit fixed point */
    struct random_key edge_key;
    struct permutation order;
};

/* A function whose loops become vectors: compiled for each width, and the widest that the processor has is run. */
#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* Descend from the whole matrix, from[] = to[] = 0, to one entry for each edge, half a draw per level. */
WIDEST static void edges_draw(const struct rmat *rmat, int64_t first, uint32_t *from, uint32_t *to)
{
    uint32_t draw[4][PERMUTATION_EACH];
    for (uint32_t level = 0; level < rmat->scale; level++) {
        if (level % 8 == 0) {
            for (int64_t i = 0; i < PERMUTATION_EACH; i++) {
                uint32_t counter[4], key[2], out[4];
                random_counter(&rmat->edge_key, (uint64_t)(first + i), level / 8, counter, key);
                random_philox(counter, key, out);
                for (int word = 0; word < 4; word++) {
                    draw[word][i] = out[word];
                }
            }
        }
        for (int64_t i = 0; i < PERMUTATION_EACH; i++) {
            const uint32_t half = draw[level % 8 / 2][i] >> (level % 2 * 16) & 0xffff;
            from[i] = from[i] * 2 + (half >= rmat->below_b);
            to[i] = to[i] * 2 + (((half >= rmat->below_a) & (half < rmat->below_b)) | (half >= rmat->below_c));
        }
    }
    permutation_each(&rmat->order, from);
    permutation_each(&rmat->order, to);
}

static enum status edges_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    const struct rmat *rmat = self;
#pragma omp parallel for schedule(static)
    for (int64_t begin = 0; begin < n; begin += PERMUTATION_EACH) {
        uint32_t from[PERMUTATION_EACH] = {0}, to[PERMUTATION_EACH] = {0};
        edges_draw(rmat, first + begin, from, to);
        for (int64_t i = 0; i < PERMUTATION_EACH && begin + i < n; i++) {
            source[begin + i] = from[i];
            destination[begin + i] = to[i];
        }
    }
    return STATUS_OK;
}

static enum status features_fill(const struct job *job, struct dataset *out)
{
    float *rows;
    enum status status = generator_features(job, out, &rows);
    if (status != STATUS_OK) {
        return status;
    }
    struct random_key key = generator_key(job, GENERATOR_DRAW_NOISE);
    int64_t n = out->facts.n_feature;
#pragma omp parallel for schedule(static)
    for (int64_t node = 0; node < out->n_node; node++) {
        for (int64_t c = 0; c < n; c++) {
            rows[node * n + c] = generator_normal(random_u32(&key, (uint64_t)node, (uint32_t)c));
        }
    }
    if (job->dataset.normalize_features == JOB_NORMALIZE_ROW) {
        dataset_rows_normalize(rows, out->n_node, n);
    }
    return STATUS_OK;
}

/* The mean of the in-neighbours' rows plus the node's own. */
static void neighbourhood(const struct dataset *dataset, int64_t node, float *sum)
{
    int64_t n = dataset->facts.n_feature, begin = dataset->indptr[node], end = dataset->indptr[node + 1];
    for (int64_t c = 0; c < n; c++) {
        sum[c] = 0;
    }
    for (int64_t i = begin; i < end; i++) {
        const float *row = dataset->features.f32 + (int64_t)dataset->indices[i] * n;
        for (int64_t c = 0; c < n; c++) {
            sum[c] += row[c];
        }
    }
    float scale = end > begin ? 1.0f / (float)(end - begin) : 0;
    for (int64_t c = 0; c < n; c++) {
        sum[c] = sum[c] * scale + dataset->features.f32[node * n + c];
    }
}

static int32_t label_of(const float *row, const float *projection, int64_t n, int32_t n_class)
{
    int32_t best = 0;
    float most = 0;
    for (int32_t k = 0; k < n_class; k++) {
        float product = 0;
        for (int64_t c = 0; c < n; c++) {
            product += row[c] * projection[k * n + c];
        }
        if (k == 0 || product > most) {
            best = k;
            most = product;
        }
    }
    return best;
}

static enum status labels_fill(const struct job *job, struct dataset *out)
{
    float *projection;
    int64_t n = out->facts.n_feature;
    size_t n_value = (size_t)(n * out->facts.n_class);
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)out->n_node,
                                             sizeof *out->labels.classes, &out->labels.classes);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n_value, sizeof *projection, &projection);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct random_key key = generator_key(job, GENERATOR_DRAW_PROJECTION);
    for (size_t i = 0; i < n_value; i++) {
        projection[i] = generator_normal(random_u32(&key, i / (size_t)n, (uint32_t)(i % (size_t)n)));
    }
#pragma omp parallel
    {
        float *row = memory_alloc((size_t)n, sizeof *row);
#pragma omp for schedule(dynamic, 256)
        for (int64_t node = 0; node < out->n_node; node++) {
            neighbourhood(out, node, row);
            out->labels.classes[node] = label_of(row, projection, n, out->facts.n_class);
        }
        free(row);
    }
    memory_release(MEMORY_OTHER, projection, n_value, sizeof *projection);
    return STATUS_OK;
}

enum status generator_rmat(const struct job *job, struct dataset *out)
{
    struct rmat rmat = {.edge_key = generator_key(job, GENERATOR_DRAW_EDGE)};
    while (((int64_t)1 << rmat.scale) < job->dataset.nodes) {
        rmat.scale++;
    }
    if (rmat.scale > SCALE_MOST) {
        return status_fail(STATUS_CONFIG, "dataset.nodes is %" PRId64 ", rounded up to 2^%u, expected at most 2^%d",
                           job->dataset.nodes, rmat.scale, SCALE_MOST);
    }
    rmat.below_a = (uint32_t)(PROBABILITY_A * 65536);
    rmat.below_b = (uint32_t)((PROBABILITY_A + PROBABILITY_B) * 65536);
    rmat.below_c = (uint32_t)((PROBABILITY_A + PROBABILITY_B + PROBABILITY_C) * 65536);
    out->n_node = (int64_t)1 << rmat.scale;
    out->facts.n_class = (int32_t)job->dataset.classes;
    rmat.order = permutation_make(generator_key(job, GENERATOR_DRAW_PERMUTATION), out->n_node);
    struct edge_source source = {.file = "rmat", .unit = "edge", .self = &rmat, .read = edges_read};
    enum status status = generator_n_edge(job, out->n_node, &source.n_edge);
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, true, out);
    }
    if (status == STATUS_OK) {
        status = features_fill(job, out);
    }
    if (status == STATUS_OK) {
        status = labels_fill(job, out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return generator_splits(job, out);
}
