/* Pairs and nodes that a prediction is asked about, from their files. */
#include "partition/links/links_asked.h"

#include "partition/graph/dataset_edges.h"
#include "partition/links/links_build.h"
#include "protocol/base/memory.h"

#include <inttypes.h>

/* Where relations count, a row of them follows those of heads and tails. */
static enum status pairs_expect(const struct npy *npy, bool typed)
{
    struct edge_source source;
    if (!typed) {
        return edge_source_list(npy, &source);
    }
    enum status status = npy_expect(npy, NPY_KIND_INTEGER, 2, 3, -1);
    return status == STATUS_OK ? STATUS_OK
                               : status_fail(status,
                                             "%s: heads, tails and relations, as the model's task.decoder "
                                             "reads these",
                                             status_reason());
}

static enum status relations_take(const struct npy *npy, const struct dataset *dataset, struct links_pairs *pairs)
{
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)pairs->n, sizeof *pairs->relation, &pairs->relation);
    for (int64_t i = 0; i < pairs->n && status == STATUS_OK; i++) {
        int64_t relation = npy_int(npy, 2 * pairs->n + i);
        status = links_relation_check(npy->name, "column", i, relation, dataset->links.n_relation);
        pairs->relation[i] = (uint16_t)relation;
    }
    return status;
}

static enum status pairs_take(const struct npy *npy, const struct dataset *dataset, struct links_asked *out)
{
    struct links_pairs *pairs = &out->pairs;
    bool typed = dataset->links.n_relation > 0;
    enum status status = pairs_expect(npy, typed);
    if (status == STATUS_OK) {
        pairs->n = npy->shape[1];
        status = memory_acquire(MEMORY_OTHER, 2 * (size_t)pairs->n, sizeof *pairs->end, &pairs->end);
    }
    if (status == STATUS_OK) {
        status = links_pairs_copy(npy, false, pairs, dataset);
    }
    return status == STATUS_OK && typed ? relations_take(npy, dataset, pairs) : status;
}

static enum status nodes_take(const struct npy *npy, const struct dataset *dataset, struct links_asked *out)
{
    enum status status = npy_expect(npy, NPY_KIND_INTEGER, 1, -1, 0);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)npy->n_value, sizeof *out->node, &out->node);
    }
    if (status != STATUS_OK) {
        return status;
    }
    out->n = npy->n_value;
    for (int64_t i = 0; i < out->n && status == STATUS_OK; i++) {
        int64_t node = npy_int(npy, i);
        status = links_node_check(npy->name, "position", i, "node", node, dataset);
        out->node[i] = (uint32_t)node;
    }
    return status;
}

static enum status file_read(const char *key, const char *path,
                             enum status (*take)(const struct npy *, const struct dataset *, struct links_asked *),
                             const struct dataset *dataset, struct links_asked *out)
{
    struct npy npy;
    if (path[0] == '\0') {
        return STATUS_OK;
    }
    enum status status = npy_open(path, &npy);
    if (status == STATUS_OK) {
        status = take(&npy, dataset, out);
        npy_close(&npy);
    }
    if (status != STATUS_OK) {
        return status_fail(status, "%s: %s", key, status_reason());
    }
    return STATUS_OK;
}

static enum status relation_check(int relation, int32_t n_relation)
{
    if (relation >= 0 && relation < n_relation) {
        return STATUS_OK;
    }
    return status_fail(STATUS_DATA,
                       "predict.relation = %d: expected 0 to %" PRId32 ", the relations of the edges without inverse "
                       "ones: the model's task.decoder scores the partners of predict.nodes by relation",
                       relation, n_relation - 1);
}

enum status links_asked_read(const struct job *job, const struct dataset *dataset, struct links_asked *out)
{
    *out = (struct links_asked){.relation = -1};
    enum status status = file_read("predict.pairs", job->predict.pairs, pairs_take, dataset, out);
    if (status == STATUS_OK) {
        status = file_read("predict.nodes", job->predict.nodes, nodes_take, dataset, out);
    }
    if (status == STATUS_OK && out->node != NULL && dataset->links.n_relation > 0) {
        out->relation = (int)job->predict.relation;
        status = relation_check(out->relation, dataset->links.n_relation);
    }
    if (status != STATUS_OK || job->predict.known || out->node == NULL) {
        return status;
    }
    return links_known_nodes(dataset, out->n, out->node, out->relation, &out->known);
}

void links_asked_release(struct links_asked *asked)
{
    memory_release(MEMORY_OTHER, asked->pairs.end, 2 * (size_t)asked->pairs.n, sizeof *asked->pairs.end);
    memory_release(MEMORY_OTHER, asked->pairs.relation, asked->pairs.relation != NULL ? (size_t)asked->pairs.n : 0,
                   sizeof *asked->pairs.relation);
    memory_release(MEMORY_OTHER, asked->node, (size_t)asked->n, sizeof *asked->node);
    links_known_release(&asked->known);
    *asked = (struct links_asked){0};
}
