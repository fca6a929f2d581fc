/* Numbers of METIS's parts: the graph of parts is halved again and again, so that parts with near numbers are near in
 * the graph. */
#include "partition/methods/partition_metis.h"
#include "protocol/base/memory.h"

#include <metis.h>
#include <stdlib.h>
#include <string.h>

/* Parts as nodes, edges between them as weights. */
struct quotient {
    int32_t n_part;
    idx_t *indptr, *indices, *weight;
};

/* Workspace for counting one part's edges. */
struct counting {
    const struct undirected *graph;
    const int32_t *owner;
    const int64_t *node, *begin; /* nodes part after part */
    idx_t *count;                /* n_part: edge entries to each other part; 0 between two parts */
    int32_t *touched;            /* n_part: those with any */
};

/* Count part p's edge entries with others; returns the number of these others. */
static int32_t part_touch(const struct counting *c, int32_t p)
{
    int32_t n = 0;
    for (int64_t i = c->begin[p]; i < c->begin[p + 1]; i++) {
        int64_t v = c->node[i];
        for (int32_t e = c->graph->indptr[v]; e < c->graph->indptr[v + 1]; e++) {
            int32_t q = c->owner[c->graph->indices[e]];
            if (q != p && c->count[q]++ == 0) {
                c->touched[n++] = q;
            }
        }
    }
    return n;
}

/* Nodes part after part; begin: n_part + 1. */
static int64_t *nodes_by_part(const struct undirected *graph, int32_t n_part, const int32_t *owner, int64_t *begin)
{
    int64_t *node = memory_alloc((size_t)graph->n_node, sizeof *node);
    for (int64_t v = 0; v < graph->n_node; v++) {
        begin[owner[v] + 1]++;
    }
    for (int32_t p = 0; p < n_part; p++) {
        begin[p + 1] += begin[p];
    }
    for (int64_t v = graph->n_node - 1; v >= 0; v--) {
        node[--begin[owner[v] + 1]] = v;
    }
    for (int32_t p = 0; p < n_part; p++) {
        begin[p] = begin[p + 1];
    }
    begin[n_part] = graph->n_node;
    return node;
}

static struct quotient quotient_build(const struct undirected *graph, int32_t n_part, const int32_t *owner)
{
    struct quotient out = {.n_part = n_part, .indptr = memory_alloc((size_t)n_part + 1, sizeof *out.indptr)};
    int64_t *begin = memory_alloc((size_t)n_part + 1, sizeof *begin),
            *node = nodes_by_part(graph, n_part, owner, begin);
    struct counting c = {.graph = graph,
                         .owner = owner,
                         .node = node,
                         .begin = begin,
                         .count = memory_alloc((size_t)n_part, sizeof *c.count),
                         .touched = memory_alloc((size_t)n_part, sizeof *c.touched)};
    for (int write = 0; write < 2; write++) {
        idx_t n = 0;
        for (int32_t p = 0; p < n_part; p++) {
            int32_t n_touched = part_touch(&c, p);
            for (int32_t i = 0; i < n_touched; i++, n++) {
                if (write) {
                    out.indices[n] = c.touched[i];
                    out.weight[n] = c.count[c.touched[i]];
                }
                c.count[c.touched[i]] = 0;
            }
            out.indptr[p + 1] = n;
        }
        if (!write) {
            out.indices = memory_alloc((size_t)n, sizeof *out.indices);
            out.weight = memory_alloc((size_t)n, sizeof *out.weight);
        }
    }
    free(c.touched);
    free(c.count);
    free(node);
    free(begin);
    return out;
}

static void quotient_release(struct quotient *quotient)
{
    free(quotient->indptr);
    free(quotient->indices);
    free(quotient->weight);
}

/* The listed parts, and the edges between them; place: n_part, each part's place in the list or -1. */
static struct quotient quotient_among(const struct quotient *all, const int32_t *part, int32_t n,
                                      const int32_t *place)
{
    struct quotient out = {.n_part = n, .indptr = memory_alloc((size_t)n + 1, sizeof *out.indptr)};
    idx_t most = 0, at = 0;
    for (int32_t i = 0; i < n; i++) {
        most += all->indptr[part[i] + 1] - all->indptr[part[i]];
    }
    out.indices = memory_alloc((size_t)most, sizeof *out.indices);
    out.weight = memory_alloc((size_t)most, sizeof *out.weight);
    for (int32_t i = 0; i < n; i++) {
        for (idx_t e = all->indptr[part[i]]; e < all->indptr[part[i] + 1]; e++) {
            if (place[all->indices[e]] >= 0) {
                out.indices[at] = place[all->indices[e]];
                out.weight[at++] = all->weight[e];
            }
        }
        out.indptr[i + 1] = at;
    }
    return out;
}

/* A part's edges to the other side, minus those to its own. */
static int64_t gain(const struct quotient *half, const idx_t *side, int32_t i)
{
    int64_t n = 0;
    for (idx_t e = half->indptr[i]; e < half->indptr[i + 1]; e++) {
        n += side[half->indices[e]] != side[i] ? half->weight[e] : -(int64_t)half->weight[e];
    }
    return n;
}

/* Move parts to the smaller side until the sides are as even as possible. */
static void even_out(const struct quotient *half, idx_t *side)
{
    int32_t n[2] = {0};
    for (int32_t i = 0; i < half->n_part; i++) {
        n[side[i]]++;
    }
    while (abs(n[0] - n[1]) > 1) {
        idx_t from = n[0] > n[1] ? 0 : 1;
        int32_t best = -1;
        for (int32_t i = 0; i < half->n_part; i++) {
            if (side[i] == from && (best < 0 || gain(half, side, i) > gain(half, side, best))) {
                best = i;
            }
        }
        side[best] = 1 - from;
        n[from]--;
        n[1 - from]++;
    }
}

/* Cut n listed parts in two halves with few edges between them, the first half in front. Returns its length. */
static int32_t halve(int32_t seed, const struct quotient *all, int32_t *part, int32_t n, int32_t *place)
{
    for (int32_t i = 0; i < n; i++) {
        place[part[i]] = i;
    }
    struct quotient half = quotient_among(all, part, n, place);
    idx_t options[METIS_NOPTIONS], n_node = n, n_constraint = 1, two = 2, cut = 0;
    idx_t *side = memory_alloc((size_t)n, sizeof *side);
    int32_t *second = memory_alloc((size_t)n, sizeof *second);
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = seed;
    int code = METIS_PartGraphRecursive(&n_node, &n_constraint, half.indptr, half.indices, NULL, NULL, half.weight,
                                        &two, NULL, NULL, options, &cut, side);
    metis_obey(code);
    for (int32_t i = 0; i < n && code != METIS_OK; i++) {
        side[i] = i < n / 2 ? 0 : 1;
    }
    even_out(&half, side);
    int32_t n_first = 0, n_second = 0;
    for (int32_t i = 0; i < n; i++) {
        place[part[i]] = -1;
        if (side[i] == side[0]) {
            part[n_first++] = part[i];
        } else {
            second[n_second++] = part[i];
        }
    }
    memcpy(part + n_first, second, (size_t)n_second * sizeof *part);
    free(second);
    free(side);
    quotient_release(&half);
    return n_first;
}

/* Halve again and again: near in the list means near in the graph. */
static void parts_order(int32_t seed, const struct quotient *all, int32_t *part, int32_t n, int32_t *place)
{
    while (n > 2) {
        int32_t n_first = halve(seed, all, part, n, place);
        parts_order(seed, all, part, n_first, place);
        part += n_first;
        n -= n_first;
    }
}

void metis_parts_number(const struct undirected *graph, int32_t n_part, int32_t seed, int32_t *owner)
{
    struct quotient all = quotient_build(graph, n_part, owner);
    int32_t *part = memory_alloc((size_t)n_part, sizeof *part), *place = memory_alloc((size_t)n_part, sizeof *place);
    for (int32_t p = 0; p < n_part; p++) {
        part[p] = p;
        place[p] = -1;
    }
    parts_order(seed, &all, part, n_part, place);
    for (int32_t i = 0; i < n_part; i++) {
        place[part[i]] = i;
    }
    for (int64_t v = 0; v < graph->n_node; v++) {
        owner[v] = place[owner[v]];
    }
    free(place);
    free(part);
    quotient_release(&all);
}
