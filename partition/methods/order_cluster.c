/* Label propagation with a cap on sizes, then a walk from cluster to cluster along the heaviest links.
 *
 * Nodes adopt the label that most of their sources have, one node after another, so a pass sees its own moves. The
 * cap keeps a label from flooding the graph, and a cluster's rows within a cache. Nested clusters take only links
 * inside of the larger ones, and each larger one is walked to its end before the next.
 */
#include "partition/methods/order.h"
#include "partition/methods/scatter.h"
#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

#define PASSES_MOST 12
#define MOVED_FEW 200     /* stop when fewer than 1 / MOVED_FEW of the nodes moved */
#define PLACED UINT32_MAX /* count of a cluster that the walk has visited */

struct clusters {
    const struct dataset *dataset;
    int64_t n_node;
    int64_t most;
    const uint32_t *outer; /* n_node: the larger cluster of each; NULL: there are none */
    uint32_t *label;       /* n_node */
    uint32_t *size;        /* n_node: nodes of each label */
    uint32_t *count;       /* n_node: links to each label while they are counted, else 0 */
    uint32_t *touched;     /* labels whose count is not 0 */
};

static bool is_link(const struct clusters *c, int64_t u, int64_t v)
{
    return u != v && (c->outer == NULL || c->outer[u] == c->outer[v]);
}

static uint32_t best_label(struct clusters *c, int64_t v, uint32_t pass)
{
    const struct dataset *d = c->dataset;
    uint32_t own = c->label[v], n_touched = 0;
    for (int64_t i = d->indptr[v]; i < d->indptr[v + 1]; i++) {
        if (i + LABELS_AHEAD < d->n_edge) { /* nodes are visited as their entries lie */
            __builtin_prefetch(&c->label[d->indices[i + LABELS_AHEAD]]);
            __builtin_prefetch(&c->count[c->label[d->indices[i + COUNTS_AHEAD]]], 1);
        }
        uint32_t label = c->label[d->indices[i]];
        if (is_link(c, d->indices[i], v) && c->count[label]++ == 0) {
            c->touched[n_touched++] = label;
        }
    }
    uint32_t best = own, best_count = c->count[own];
    for (uint32_t t = 0; t < n_touched; t++) {
        uint32_t label = c->touched[t], count = c->count[label];
        bool more = count > best_count;
        bool luckier = count == best_count && best != own && scatter(label, pass) < scatter(best, pass);
        if ((more || luckier) && c->size[label] < c->most) {
            best = label;
            best_count = count;
        }
    }
    for (uint32_t t = 0; t < n_touched; t++) {
        c->count[c->touched[t]] = 0;
    }
    return best;
}

static void propagate(struct clusters *c)
{
    for (int64_t v = 0; v < c->n_node; v++) {
        c->label[v] = (uint32_t)v;
        c->size[v] = 1;
    }
    for (uint32_t pass = 0; pass < PASSES_MOST; pass++) {
        int64_t n_moved = 0;
        for (int64_t v = 0; v < c->n_node; v++) {
            uint32_t label = best_label(c, v, pass);
            if (label != c->label[v]) {
                c->size[c->label[v]]--;
                c->size[label]++;
                c->label[v] = label;
                n_moved++;
            }
        }
        if (n_moved < c->n_node / MOVED_FEW) {
            break;
        }
    }
}

/* Labels become 0 … n_cluster-1, in their order or as they first come in a sequence of nodes, and `size` each one's
 * first place: cluster k's nodes go to member[size[k] …). */
static int64_t list_members(struct clusters *c, const uint32_t *sequence, uint32_t *member)
{
    int64_t n_cluster = 0;
    uint32_t *number = c->touched;
    for (int64_t i = 0, at = 0; i < c->n_node; i++) {
        uint32_t l = sequence != NULL ? c->label[sequence[i]] : (uint32_t)i;
        if (c->size[l] > 0) {
            number[l] = (uint32_t)n_cluster;
            c->count[n_cluster++] = (uint32_t)at;
            at += c->size[l];
            c->size[l] = 0;
        }
    }
    uint32_t *none = c->size;
    c->size = c->count;
    c->count = none;
    for (int64_t v = 0; v < c->n_node; v++) {
        c->label[v] = number[c->label[v]];
        member[c->size[c->label[v]]++] = (uint32_t)v;
    }
    /* Filling moved each first place to the next cluster's: move them back. */
    for (int64_t k = n_cluster - 1; k > 0; k--) {
        c->size[k] = c->size[k - 1];
    }
    c->size[0] = 0;
    return n_cluster;
}

/* The next cluster: the one that the last one's nodes have most links to, per node; -1 without links. */
static int64_t next_cluster(struct clusters *c, const uint32_t *node, int64_t n, int64_t n_cluster)
{
    const struct dataset *d = c->dataset;
    uint32_t n_touched = 0;
    for (int64_t m = 0; m < n; m++) {
        for (int64_t i = d->indptr[node[m]]; i < d->indptr[node[m] + (int64_t)1]; i++) {
            uint32_t label = c->label[d->indices[i]];
            if (is_link(c, d->indices[i], node[m]) && c->count[label] != PLACED && c->count[label]++ == 0) {
                c->touched[n_touched++] = label;
            }
        }
    }
    int64_t best = -1;
    double best_pull = 0.0;
    for (uint32_t t = 0; t < n_touched; t++) {
        uint32_t label = c->touched[t];
        int64_t end = label + 1 < n_cluster ? c->size[label + 1] : c->n_node;
        double pull = (double)c->count[label] / (double)(end - c->size[label]);
        if (pull > best_pull || (pull == best_pull && label < best)) {
            best = label;
            best_pull = pull;
        }
        c->count[label] = 0;
    }
    return best;
}

static void walk(struct clusters *c, const uint32_t *member, int64_t n_cluster, uint64_t *key, uint32_t *sequence)
{
    int64_t n_out = 0, restart = 0, cluster = 0;
    while (n_out < c->n_node) {
        int64_t first = c->size[cluster], end = cluster + 1 < n_cluster ? c->size[cluster + 1] : c->n_node;
        for (int64_t m = first; m < end; m++) {
            uint64_t degree = (uint64_t)(c->dataset->indptr[member[m] + (int64_t)1] - c->dataset->indptr[member[m]]);
            key[m - first] = (UINT32_MAX - degree) << 32 | member[m]; /* hubs come first, then in order of numbers */
        }
        qsort(key, (size_t)(end - first), sizeof *key, ascending_compare);
        for (int64_t m = first; m < end; m++) {
            sequence[n_out++] = (uint32_t)key[m - first];
        }
        c->count[cluster] = PLACED;
        cluster = next_cluster(c, sequence + n_out - (end - first), end - first, n_cluster);
        while (cluster < 0 && restart < n_cluster) {
            cluster = c->count[restart] != PLACED ? restart : -1;
            restart += cluster < 0;
        }
    }
}

/* Of clusters inside of `outer`, whose nodes lie together in the sequence; NULL: of clusters in all of the graph. */
static enum status cluster(const struct dataset *dataset, int64_t most, const uint32_t *outer, uint32_t *sequence,
                           uint32_t *label)
{
    int64_t n = dataset->n_node;
    uint32_t *block;
    uint64_t *key;
    enum status status = memory_acquire(MEMORY_OTHER, 4 * (size_t)n, sizeof *block, &block);
    if (status != STATUS_OK) {
        return status;
    }
    status = memory_acquire(MEMORY_OTHER, (size_t)most, sizeof *key, &key);
    if (status == STATUS_OK) {
        struct clusters c = {.dataset = dataset,
                             .n_node = n,
                             .most = most,
                             .outer = outer,
                             .label = label,
                             .size = block,
                             .count = block + n,
                             .touched = block + 2 * n};
        uint32_t *member = block + 3 * n;
        propagate(&c);
        int64_t n_cluster = list_members(&c, outer != NULL ? sequence : NULL, member);
        walk(&c, member, n_cluster, key, sequence);
        memory_release(MEMORY_OTHER, key, (size_t)most, sizeof *key);
    }
    memory_release(MEMORY_OTHER, block, 4 * (size_t)n, sizeof *block);
    return status;
}

enum status order_cluster(const struct dataset *dataset, int64_t most, int64_t outer_most, uint32_t *sequence)
{
    size_t n = (size_t)dataset->n_node;
    uint32_t *label;
    enum status status = memory_acquire(MEMORY_OTHER, 2 * n, sizeof *label, &label);
    if (status == STATUS_OK) {
        status = cluster(dataset, outer_most, NULL, sequence, label + n);
    }
    if (status == STATUS_OK) {
        status = cluster(dataset, most, label + n, sequence, label);
    }
    memory_release(MEMORY_OTHER, label, 2 * n, sizeof *label);
    return status;
}
