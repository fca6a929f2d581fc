/* Different questions have a row each, in the order of their keys: those of a node stand together, and an edge visits
 * those of its two ends. Rows are counted, then filled. */
#include "partition/links/links_known.h"

#include "partition/links/links_build.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

/* What is asked: the two ends of held-out edges, each in its relation, or nodes in one relation for all. */
struct asked {
    const struct links_pairs *held; /* NULL: of no held-out edges */
    int64_t n;
    const uint32_t *node;
    int relation;
};

struct questions {
    const struct dataset *dataset;
    const struct asked *asked;
    int64_t n;
    uint64_t *key;   /* different ones, ascending */
    uint32_t *first; /* n_node + 1: the first of a node */
};

/* Question i as a number: node, 1 + relation, side. */
static uint64_t key_of(const struct questions *of, int64_t i)
{
    const struct asked *asked = of->asked;
    int relation = asked->held != NULL ? links_relation(asked->held, i / 2) : asked->relation;
    int side = asked->held == NULL ? LINKS_SIDE_ANY : i % 2 == 0 ? LINKS_SIDE_TAILS : LINKS_SIDE_HEADS;
    side = of->dataset->facts.symmetric ? LINKS_SIDE_ANY : side; /* there both sides are the same nodes */
    return (uint64_t)asked->node[i] << 20 | (uint64_t)(relation + 1) << 2 | (uint64_t)side;
}

/* Sort the keys, keep each once, and find the row of each question. */
static void rows_number(struct questions *of, uint32_t *row_out)
{
    int64_t n = 0, row = 0;
    for (int64_t i = 0; i < of->asked->n; i++) {
        of->key[i] = key_of(of, i);
    }
    qsort(of->key, (size_t)of->asked->n, sizeof *of->key, ascending_compare);
    for (int64_t i = 0; i < of->asked->n; i++) {
        if (n == 0 || of->key[n - 1] != of->key[i]) {
            of->key[n++] = of->key[i];
        }
    }
    of->n = n;
    for (int64_t i = 0; i < of->asked->n; i++) {
        uint64_t key = key_of(of, i);
        const uint64_t *at = bsearch(&key, of->key, (size_t)n, sizeof key, ascending_compare);
        row_out[i] = (uint32_t)(at - of->key);
    }
    for (int64_t v = 0; v <= of->dataset->n_node; v++) {
        while (row < n && of->key[row] >> 20 < (uint64_t)v) {
            row++;
        }
        of->first[v] = (uint32_t)row;
    }
}

/* An edge at one of its ends, whose other end is on this side; no loop. NULL node: counted only. */
static void end_visit(const struct questions *of, uint32_t end, uint32_t other, int relation, enum links_side side,
                      int64_t *next, uint32_t *node)
{
    for (uint32_t row = of->first[end]; end != other && row < of->first[end + (int64_t)1]; row++) {
        int asked = (int)(of->key[row] >> 2 & 0x3ffff) - 1, its_side = (int)(of->key[row] & 3);
        if ((asked < 0 || asked == relation) && (its_side == LINKS_SIDE_ANY || its_side == (int)side)) {
            int64_t at = next[row]++;
            if (node != NULL) {
                node[at] = other;
            }
        }
    }
}

static void edge_visit(const struct questions *of, uint32_t from, uint32_t to, int relation, int64_t *next,
                       uint32_t *node)
{
    end_visit(of, to, from, relation, LINKS_SIDE_HEADS, next, node);
    end_visit(of, from, to, relation, LINKS_SIDE_TAILS, next, node);
}

/* The graph's edges: of a symmetric graph each stands at both ends, and of relations that count the inverse ones are
 * the same edges again. */
static void graph_visit(const struct questions *of, int64_t *next, uint32_t *node)
{
    const struct dataset *dataset = of->dataset;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            int relation = links_entry_relation(dataset, i);
            if (dataset->facts.symmetric) {
                end_visit(of, (uint32_t)v, dataset->indices[i], relation, LINKS_SIDE_HEADS, next, node);
            } else if (relation < 0 || dataset->edge_type[i] == relation) {
                edge_visit(of, dataset->indices[i], (uint32_t)v, relation, next, node);
            }
        }
    }
}

static void held_visit(const struct questions *of, int64_t *next, uint32_t *node)
{
    bool both_ways = of->dataset->both_ways && of->dataset->links.n_relation == 0;
    for (int s = 0; s < LINKS_SPLIT_N; s++) {
        const struct links_held *held = &of->dataset->links.held[s];
        const struct links_pairs *pairs = &held->positive;
        for (int64_t k = 0; k < pairs->n; k++) {
            uint32_t head = pairs->end[2 * k], tail = pairs->end[2 * k + 1];
            edge_visit(of, head, tail, links_relation(pairs, k), next, node);
            if (both_ways || held->is_mutual[k]) {
                edge_visit(of, tail, head, links_relation(pairs, k), next, node);
            }
        }
    }
}

static int node_order(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

/* Count into begin[row + 1], add up, fill: begin then has each row's end, which is moved to its beginning. */
static enum status known_fill(const struct questions *of, struct links_known *out)
{
    int64_t *at = out->begin;
    graph_visit(of, at + 1, NULL);
    held_visit(of, at + 1, NULL);
    for (int64_t row = 0; row < out->n_row; row++) {
        at[row + 1] += at[row];
    }
    int64_t n_known = at[out->n_row];
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n_known, sizeof *out->node, &out->node);
    if (status != STATUS_OK) {
        return status;
    }
    out->n_known = n_known;
    graph_visit(of, at, out->node);
    held_visit(of, at, out->node);
    for (int64_t row = out->n_row; row > 0; row--) {
        at[row] = at[row - 1];
    }
    at[0] = 0;
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t row = 0; row < out->n_row; row++) {
        qsort(out->node + at[row], (size_t)(at[row + 1] - at[row]), sizeof *out->node, node_order);
    }
    row_pairs_unique(out->n_row, at, (struct row_pairs){.source = out->node});
    return STATUS_OK;
}

static enum status known_open(const struct dataset *dataset, const struct asked *asked, struct links_known *out)
{
    struct questions of = {.dataset = dataset, .asked = asked};
    size_t n = (size_t)asked->n, n_first = (size_t)dataset->n_node + 1;
    *out = (struct links_known){.n = asked->n};
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *of.key, &of.key);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n_first, sizeof *of.first, &of.first);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n, sizeof *out->row, &out->row);
    }
    if (status == STATUS_OK) {
        rows_number(&of, out->row);
        out->n_row = of.n;
        status = memory_acquire(MEMORY_OTHER, (size_t)of.n + 1, sizeof *out->begin, &out->begin);
    }
    if (status == STATUS_OK) {
        status = known_fill(&of, out);
    }
    memory_release(MEMORY_OTHER, of.first, n_first, sizeof *of.first);
    memory_release(MEMORY_OTHER, of.key, n, sizeof *of.key);
    return status;
}

enum status links_known_nodes(const struct dataset *dataset, int64_t n, const uint32_t *node, int relation,
                              struct links_known *out)
{
    const struct asked asked = {.n = n, .node = node, .relation = relation};
    return known_open(dataset, &asked, out);
}

enum status links_known_held(const struct dataset *dataset, enum links_split split, struct links_known *out)
{
    const struct links_pairs *held = &dataset->links.held[split].positive;
    const struct asked asked = {.held = held, .n = 2 * held->n, .node = held->end};
    return known_open(dataset, &asked, out);
}

void links_known_release(struct links_known *known)
{
    memory_release(MEMORY_OTHER, known->node, (size_t)known->n_known, sizeof *known->node);
    memory_release(MEMORY_OTHER, known->begin, (size_t)known->n_row + 1, sizeof *known->begin);
    memory_release(MEMORY_OTHER, known->row, (size_t)known->n, sizeof *known->row);
    *known = (struct links_known){0};
}

bool links_known_has(const struct links_known *known, int64_t i, uint32_t node)
{
    if (known->n_known == 0) {
        return false;
    }
    int64_t end = known->begin[known->row[i] + (int64_t)1];
    int64_t at = ascending_find(known->node, known->begin[known->row[i]], end, node);
    return at < end && known->node[at] == node;
}
