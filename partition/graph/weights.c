/* See weights.h. */
#include "partition/graph/weights.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/job/model_kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum status weights_choose(const struct job *job, const char *file, bool there, bool *use_out)
{
    int asked = job->dataset.edge_weights;
    bool takes = job_takes_edge_weights(job);
    *use_out = there && takes &&
               (asked == JOB_SWITCH_YES || (asked == JOB_SWITCH_AUTO && model_kind_of(job)->weighs));
    if (asked == JOB_SWITCH_YES && !there) {
        return status_fail(STATUS_NO_INPUT,
                           "%s: no such file, expected the weights of the edges for dataset.edge_weights = \"yes\"",
                           file);
    }
    if (asked == JOB_SWITCH_AUTO && there && !*use_out) {
        const char *kind = job_choice_text("model", "kind", job->model.kind);
        if (takes) {
            log_warn(
                "%s is not used: model.kind = \"%s\" takes weights of edges only with dataset.edge_weights = \"yes\"",
                file, kind);
        } else if (model_kind_of(job)->is_sum) {
            log_warn("%s is not used: model.kind = \"%s\" takes no weights of edges with model.aggregator = \"max\"",
                     file, kind);
        } else {
            log_warn("%s is not used: model.kind = \"%s\" takes no weights of edges", file, kind);
        }
    }
    return STATUS_OK;
}

static enum status array_read(void *self, int64_t first, int64_t n, double *out)
{
    const struct npy *weights = self;
    for (int64_t i = 0; i < n; i++) {
        out[i] = npy_real(weights, first + i);
    }
    return STATUS_OK;
}

enum status weights_attach(const struct npy *weights, struct edge_source *source)
{
    if (weights->rank == 1 && weights->n_value != source->n_edge) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " entries, expected %" PRId64 ", the edges of %s",
                           weights->name, weights->n_value, source->n_edge, source->file);
    }
    source->weight_read = array_read;
    source->weight_self = (void *)(uintptr_t)weights;
    source->weight_file = weights->name;
    source->weight_unit = "entry";
    return npy_expect(weights, NPY_KIND_NUMBER, 1, source->n_edge, 0);
}

enum status weights_read(const struct edge_source *source, int64_t first, int64_t n, float *out)
{
    double *value = memory_alloc((size_t)n, sizeof *value);
    enum status status = source->weight_read(source->weight_self, first, n, value);
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        out[i] = (float)value[i] + 0.0f; /* -0 would not sort as 0 */
        if (!isfinite(out[i]) || out[i] < 0.0f) {
            status = status_fail(STATUS_DATA,
                                 "%s: %s %" PRId64 ": weight %g, expected a finite float32 that is not "
                                 "negative",
                                 source->weight_file, source->weight_unit, first + i, value[i]);
        }
    }
    free(value);
    return status;
}

static uint64_t edge_hash(int64_t from, int64_t to, float weight)
{
    uint32_t key[3] = {(uint32_t)from, (uint32_t)to, 0};
    memcpy(&key[2], &weight, sizeof weight);
    return XXH3_64bits(key, sizeof key);
}

void weights_mirror_add(struct weights_mirror *mirror, int64_t from, int64_t to, float weight)
{
    if (from != to) {
        mirror->n++;
        mirror->apart += edge_hash(from, to, weight) - edge_hash(to, from, weight);
    }
}

void weights_mirror_remark(const struct weights_mirror *mirror, const struct edge_source *source)
{
    if (mirror->n > 0 && mirror->apart == 0) {
        log_warn("%s: edges have the same weights in both directions, and the added reverse edges double them: "
                 "dataset.undirected = \"no\" leaves them as they are",
                 source->weight_file);
    }
}

int64_t weights_rows_unique(int64_t n_node, int64_t *indptr, uint32_t *indices, float *weights)
{
    int64_t to = 0, n_loop = 0, begin = 0;
    for (int64_t v = 0; v < n_node; v++) {
        int64_t end = indptr[v + 1];
        indptr[v] = to;
        while (begin < end) {
            uint32_t from = indices[begin];
            double sum = 0.0;
            for (; begin < end && indices[begin] == from; begin++) {
                sum += weights[begin];
            }
            n_loop += from == v;
            indices[to] = from;
            weights[to++] = (float)sum;
        }
    }
    indptr[n_node] = to;
    return n_loop;
}

enum status weights_strength(const char *file, int64_t n_node, const int64_t *indptr, const float *weights,
                             float *strength)
{
    for (int64_t v = 0; v < n_node; v++) {
        double sum = 0.0;
        for (int64_t i = indptr[v]; i < indptr[v + 1]; i++) {
            sum += weights[i];
        }
        strength[v] = (float)sum;
        if (!isfinite(strength[v])) {
            return status_fail(STATUS_DATA,
                               "%s: the weights of the edges into node %" PRId64 " add up to more than a "
                               "float32 holds, expected a finite sum",
                               file, v);
        }
    }
    return STATUS_OK;
}
