/* See partition_coarsen.h. Multilevel: cluster, contract, partition the coarsest graph, project, refine. */
#include "partition/methods/partition_coarsen.h"
#include "partition/methods/scatter.h"
#include "protocol/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COARSEN_LEAST 0.9 /* a graph is not coarsened if more nodes than this share would be left */
#define CLUSTER_PASSES 4
#define REFINE_PASSES 20
#define MOVED_FEW 5000 /* stop when fewer than 1 / MOVED_FEW of the nodes moved */
#define IMBALANCE 1.03

/* Weights of groups of nodes, clusters or parts, and how heavy one may become. */
struct groups {
    const struct weighted_graph *graph;
    int32_t *of;     /* n_node: its group */
    int64_t *weight; /* groups × n_constraint */
    int64_t most[COARSEN_N_CONSTRAINT];
    int32_t *link;    /* weights of a node's edges to each group while they are counted, else 0 */
    int32_t *touched; /* groups with any */
};

/* The heaviest allowed for n groups of equal weight, times `slack`. */
static void groups_limit(struct groups *g, double n, double slack)
{
    const struct weighted_graph *graph = g->graph;
    for (int c = 0; c < graph->n_constraint; c++) {
        int64_t sum = 0;
        for (int64_t v = 0; v < graph->n_node; v++) {
            sum += graph->node_weight[v * graph->n_constraint + c];
        }
        g->most[c] = (int64_t)(slack * (double)sum / n) + 1;
    }
}

static void groups_add(struct groups *g, int32_t group, int64_t node, int sign)
{
    int n = g->graph->n_constraint;
    for (int c = 0; c < n; c++) {
        g->weight[(int64_t)group * n + c] += sign * (int64_t)g->graph->node_weight[node * n + c];
    }
}

/* Would the group, with this node or (node -1) as it is, be light enough? */
static bool groups_fit(const struct groups *g, int32_t group, int64_t node)
{
    int n = g->graph->n_constraint;
    for (int c = 0; c < n; c++) {
        int64_t more = node < 0 ? 0 : g->graph->node_weight[node * n + c];
        if (g->weight[(int64_t)group * n + c] + more > g->most[c]) {
            return false;
        }
    }
    return true;
}

/* Count the node's links to groups; returns how many it has links to. */
static int32_t links_count(struct groups *g, int64_t v)
{
    const struct weighted_graph *graph = g->graph;
    int32_t n = 0, n_entry = graph->indptr[graph->n_node];
    for (int32_t e = graph->indptr[v]; e < graph->indptr[v + 1]; e++) {
        if (e < n_entry - LABELS_AHEAD) { /* nodes are visited as their entries lie */
            __builtin_prefetch(&g->of[graph->indices[e + LABELS_AHEAD]]);
            __builtin_prefetch(&g->link[g->of[graph->indices[e + COUNTS_AHEAD]]], 1);
        }
        int32_t group = g->of[graph->indices[e]];
        if (g->link[group] == 0) {
            g->touched[n++] = group;
        }
        g->link[group] += graph->edge_weight != NULL ? graph->edge_weight[e] : 1;
    }
    return n;
}

/* The group within its limit that the node has most links to; the current one unless another has more. leave: not the
 * current one. */
static int32_t best_group(struct groups *g, int64_t v, bool leave)
{
    int32_t own = g->of[v], best = own, n = links_count(g, v);
    int64_t most = leave ? -1 : g->link[own];
    for (int32_t t = 0; t < n; t++) {
        int32_t group = g->touched[t];
        int64_t link = g->link[group];
        bool better = link > most || (link == most && best != own &&
                                      scatter((uint32_t)group, (uint32_t)v) < scatter((uint32_t)best, (uint32_t)v));
        if (group != own && better && groups_fit(g, group, v)) {
            best = group;
            most = link;
        }
    }
    for (int32_t t = 0; t < n; t++) {
        g->link[g->touched[t]] = 0;
    }
    return best;
}

/* Passes over the nodes, each seeing the moves before it, until few move. balances: groups that are too heavy give up
 * nodes whatever links that costs. */
static void groups_passes(struct groups *g, int n_pass, bool balances)
{
    for (int64_t pass = 0, n_moved = INT64_MAX; pass < n_pass && n_moved > g->graph->n_node / MOVED_FEW; pass++) {
        n_moved = 0;
        for (int64_t v = 0; v < g->graph->n_node; v++) {
            int32_t own = g->of[v], best = best_group(g, v, balances && !groups_fit(g, own, -1));
            if (best != own) {
                groups_add(g, own, v, -1);
                groups_add(g, best, v, 1);
                g->of[v] = best;
                n_moved++;
            }
        }
    }
}

static struct groups groups_open(const struct weighted_graph *graph, int32_t *of, int32_t n_group)
{
    struct groups g = {.graph = graph, .of = of};
    g.weight = memory_alloc((size_t)n_group * (size_t)graph->n_constraint, sizeof *g.weight);
    g.link = memory_alloc((size_t)n_group, sizeof *g.link);
    g.touched = memory_alloc((size_t)n_group, sizeof *g.touched);
    for (int64_t v = 0; v < graph->n_node; v++) {
        groups_add(&g, of[v], v, 1);
    }
    return g;
}

static void groups_close(struct groups *g)
{
    free(g->weight);
    free(g->link);
    free(g->touched);
}

/* --- coarsening --- */

/* Nodes without edges share clusters: no link would ever bring them together. */
static void isolated_join(struct groups *g)
{
    int32_t at = -1;
    for (int32_t v = 0; v < g->graph->n_node; v++) {
        if (g->graph->indptr[v + 1] > g->graph->indptr[v]) {
            continue;
        }
        if (at >= 0 && groups_fit(g, at, v)) {
            groups_add(g, v, v, -1);
            groups_add(g, at, v, 1);
            g->of[v] = at;
        } else {
            at = v;
        }
    }
}

/* Number the clusters in the order of their first nodes; returns how many there are. */
static int32_t clusters_number(const struct weighted_graph *graph, int32_t *of, int32_t *number)
{
    int32_t n = 0;
    memset(number, -1, (size_t)graph->n_node * sizeof *number);
    for (int64_t v = 0; v < graph->n_node; v++) {
        number[of[v]] = number[of[v]] < 0 ? n++ : number[of[v]];
        of[v] = number[of[v]];
    }
    return n;
}

/* Clusters as nodes: of, clusters; node: scratch of n_node. What is behind the last entry is never touched. */
static struct weighted_graph clusters_graph(const struct weighted_graph *graph, const int32_t *of, int32_t n,
                                            int32_t *node)
{
    int n_constraint = graph->n_constraint;
    struct weighted_graph out = {.n_node = n, .n_constraint = n_constraint};
    size_t n_entry = (size_t)graph->indptr[graph->n_node];
    out.indptr = memory_alloc((size_t)n + 1, sizeof *out.indptr);
    out.indices = memory_alloc(n_entry, sizeof *out.indices);
    out.edge_weight = memory_alloc(n_entry, sizeof *out.edge_weight);
    out.node_weight = memory_alloc((size_t)n * (size_t)n_constraint, sizeof *out.node_weight);
    int32_t *place = memory_alloc((size_t)n, sizeof *place); /* of the entry for a cluster, + 1 */
    for (int64_t v = 0; v < graph->n_node; v++) {
        out.indptr[of[v] + 1]++;
    }
    for (int32_t k = 0; k < n; k++) {
        out.indptr[k + 1] += out.indptr[k];
    }
    for (int32_t v = graph->n_node - 1; v >= 0; v--) {
        node[--out.indptr[of[v] + 1]] = v;
    } /* indptr[k + 1] is now where cluster k's nodes begin */
    int32_t at = 0;
    for (int32_t k = 0, first = 0; k < n; k++) {
        int32_t end = k + 1 < n ? out.indptr[k + 2] : graph->n_node, begins = at;
        for (; first < end; first++) {
            int64_t v = node[first];
            for (int c = 0; c < n_constraint; c++) {
                out.node_weight[(int64_t)k * n_constraint + c] += graph->node_weight[v * n_constraint + c];
            }
            for (int32_t e = graph->indptr[v]; e < graph->indptr[v + 1]; e++) {
                int32_t other = of[graph->indices[e]];
                if (other == k) {
                    continue;
                }
                if (place[other] <= begins) {
                    out.indices[at++] = other;
                    place[other] = at;
                }
                out.edge_weight[place[other] - 1] += graph->edge_weight != NULL ? graph->edge_weight[e] : 1;
            }
        }
        out.indptr[k + 1] = at;
    }
    free(place);
    return out;
}

/* of: filled with a cluster for each node. */
static struct weighted_graph coarsen(const struct weighted_graph *graph, int32_t n_part, int32_t *of)
{
    for (int32_t v = 0; v < graph->n_node; v++) {
        of[v] = v;
    }
    struct groups g = groups_open(graph, of, graph->n_node);
    groups_limit(&g, (double)n_part * COARSEN_CLUSTERS_A_PART, 1.0);
    isolated_join(&g);
    groups_passes(&g, CLUSTER_PASSES, false);
    int32_t n = clusters_number(graph, of, g.touched);
    struct weighted_graph out = {0};
    if (n < COARSEN_LEAST * graph->n_node) {
        out = clusters_graph(graph, of, n, g.touched);
    }
    groups_close(&g);
    return out;
}

static void weighted_graph_free(struct weighted_graph *graph)
{
    free(graph->indptr);
    free(graph->indices);
    free(graph->edge_weight);
    free(graph->node_weight);
}

/* --- refinement --- */

static void refine(const struct weighted_graph *graph, int32_t n_part, int32_t *owner)
{
    struct groups g = groups_open(graph, owner, n_part);
    groups_limit(&g, n_part, IMBALANCE);
    groups_passes(&g, REFINE_PASSES, true);
    groups_close(&g);
}

int coarsen_parts(const struct weighted_graph *graph, int32_t n_entry_few, int32_t n_part, coarsest_method *method,
                  const void *context, int32_t *owner)
{
    int32_t *of = memory_alloc((size_t)graph->n_node, sizeof *of);
    struct weighted_graph smaller = {0};
    if (graph->indptr[graph->n_node] >= n_entry_few) {
        smaller = coarsen(graph, n_part, of);
    }
    int code;
    if (smaller.n_node == 0) {
        code = method(context, graph, owner);
    } else {
        int32_t *part = memory_alloc((size_t)smaller.n_node, sizeof *part);
        code = coarsen_parts(&smaller, n_entry_few, n_part, method, context, part);
        for (int64_t v = 0; v < graph->n_node; v++) {
            owner[v] = part[of[v]];
        }
        free(part);
        if (code == 0) {
            refine(graph, n_part, owner);
        }
        weighted_graph_free(&smaller);
    }
    free(of);
    return code;
}
