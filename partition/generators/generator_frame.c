/* Shared by all built-in graphs: keys of draws, checked sizes, feature rows, splits. */
#include "partition/generators/generator.h"

#include "partition/files/dataset_store.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct random_key generator_key(const struct job *job, int draw)
{
    return (struct random_key){
        .seed = (uint64_t)job->dataset.seed, .op = (uint16_t)draw, .stream = RANDOM_STREAM_GENERATOR};
}

/* Drawing a graph that does not fit takes minutes before it fails, so its size is compared with the memory first.
 * Workers store each distinct edge once, and the number of distinct edges is not known yet. They store all rows of
 * nodes. */
static enum status memory_check(const struct job *job, int64_t n_node, int64_t n_edge)
{
    bool one_way = job->dataset.undirected == JOB_SWITCH_NO;
    int64_t n_label = job->dataset.labels_per_node > 1 ? job->dataset.classes : 1;
    int64_t rows = n_node * (int64_t)sizeof(float) * (job->dataset.features + n_label);
    int64_t graph = n_node * (int64_t)sizeof(int64_t) + n_edge * (int64_t)sizeof(uint32_t) * (one_way ? 1 : 2);
    int64_t machine = memory_machine(), limit = job->memory.limit;
    if (rows + graph > machine) {
        return status_fail(STATUS_NOMEM,
                           "dataset.generator: %" PRId64 " nodes with %" PRId64 " edges and %" PRId64
                           " features take %" PRId64 " bytes, more than %s of %" PRId64,
                           n_node, n_edge, job->dataset.features, rows + graph, memory_machine_name(), machine);
    }
    if (limit > 0 && rows / job->workers.count > limit) {
        return status_fail(STATUS_NOMEM,
                           "dataset.generator: features and labels of %" PRId64 " nodes take %" PRId64
                           " bytes, shared by workers.count = %" PRId64 " more than memory.limit = %" PRId64,
                           n_node, rows, (int64_t)job->workers.count, limit);
    }
    return STATUS_OK;
}

enum status generator_n_edge(const struct job *job, int64_t n_node, int64_t *out)
{
    double n_edge = round((double)n_node * job->dataset.degree);
    if (n_edge > (double)GENERATOR_EDGE_MOST) {
        return status_fail(STATUS_CONFIG,
                           "dataset.degree: %" PRId64 " nodes of degree %g are %.0f edges, expected at most %" PRId64,
                           n_node, job->dataset.degree, n_edge, GENERATOR_EDGE_MOST);
    }
    *out = n_node > 1 ? (int64_t)n_edge : 0;
    return memory_check(job, n_node, *out);
}

enum status generator_features(const struct job *job, struct dataset *out, float **rows_out)
{
    out->facts.n_feature = job->dataset.features;
    enum status status = dataset_store_block(
        out->store, MEMORY_FEATURES, (size_t)(out->n_node * out->facts.n_feature), sizeof **rows_out, rows_out);
    if (status == STATUS_OK) {
        out->features.f32 = *rows_out;
    }
    return status;
}

enum status generator_splits(const struct job *job, struct dataset *out)
{
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, (size_t)out->n_node, sizeof *out->labels.split,
                                             &out->labels.split);
    if (status != STATUS_OK) {
        return status;
    }
    out->labels.splits = (struct dataset_splits){.origin = DATASET_ORIGIN_DRAWN, .n = 1, .seed = job->dataset.seed};
    snprintf(out->labels.splits.how, sizeof out->labels.splits.how,
             "a share of %g for training, half of the rest for validation", job->dataset.train_share);
    struct random_key key = generator_key(job, GENERATOR_DRAW_SPLIT);
    double share = job->dataset.train_share;
    float train_end = (float)share, valid_end = (float)((1.0 + share) / 2.0);
    bool train = false;
    for (int64_t node = 0; node < out->n_node; node++) {
        float draw = random_unit(&key, (uint64_t)node, 0);
        out->labels.split[node] = draw < train_end   ? DATASET_SPLIT_TRAIN
                                  : draw < valid_end ? DATASET_SPLIT_VALID
                                                     : DATASET_SPLIT_TEST;
        train = train || out->labels.split[node] == DATASET_SPLIT_TRAIN;
    }
    if (!train) {
        out->labels.split[0] = DATASET_SPLIT_TRAIN;
    }
    return dataset_split_finish(out);
}
