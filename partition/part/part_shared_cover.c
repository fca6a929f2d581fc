/* Covers of all pairs of parts, counted: taker after taker, its in-edges from others sorted by where they come from. */
#include "partition/part/part_cover.h"
#include "partition/part/part_shared.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>

/* An edge from another part, by the places of its ends in the partition's order. */
struct edge {
    uint32_t from, to;
};

struct covering {
    const struct dataset *dataset;
    const struct partition *partition;
    uint32_t *place;   /* n_node: of each node in partition->order */
    uint32_t *number;  /* n_node: of places at one end of a pair's edges, from 1; 0 between two pairs */
    struct edge *edge; /* one part's */
    struct part_shared *out;
    int64_t n_halo, n_cover;
};

/* Edges into the part that has most of them. */
static int64_t most_edges(const struct dataset *dataset, const struct partition *partition)
{
    int64_t most = 0;
    for (int32_t p = 0; p < partition->n_part; p++) {
        int64_t n = 0;
        for (int64_t at = partition->part_begin[p]; at < partition->part_begin[p + 1]; at++) {
            uint32_t v = partition->order[at];
            n += dataset->indptr[v + (int64_t)1] - dataset->indptr[v];
        }
        most = n > most ? n : most;
    }
    return most;
}

static int edge_compare(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

/* Part p's in-edges from others, by their sources' places: part after part, since a part's places are together. */
static int64_t edges_gather(const struct covering *c, int32_t p)
{
    const struct partition *partition = c->partition;
    int64_t n = 0;
    for (int64_t at = partition->part_begin[p]; at < partition->part_begin[p + 1]; at++) {
        uint32_t v = partition->order[at];
        for (int64_t e = c->dataset->indptr[v]; e < c->dataset->indptr[v + (int64_t)1]; e++) {
            uint32_t u = c->dataset->indices[e];
            if (partition->owner[u] != p) {
                c->edge[n++] = (struct edge){.from = c->place[u], .to = (uint32_t)at};
            }
        }
    }
    qsort(c->edge, (size_t)n, sizeof *c->edge, edge_compare);
    return n;
}

/* A pair's cover, added to what part q sends to part p. */
static void cover_count(struct covering *c, enum part_direction d, int32_t q, int32_t p, const struct part_cover_edges *edges)
{
    bool *sends = memory_alloc((size_t)edges->n_giver, sizeof *sends),
         *sums = memory_alloc((size_t)edges->n_taker, sizeof *sums);
    struct part_sums *made = &c->out->sums[d][q];
    int64_t n_row = part_cover(edges, sends, sums);
    *part_shared_at(c->out, d, q, (uint32_t)p, part_shared_side_of(q, p)) = (uint32_t)n_row;
    for (int64_t t = 0; t < edges->n_taker; t++) {
        made->n_row += sums[t];
    }
    for (int64_t e = 0; e < edges->indptr[edges->n_giver]; e++) {
        made->n_edge += sums[edges->taker[e]];
    }
    c->n_halo += edges->n_giver;
    c->n_cover += n_row;
    free(sums);
    free(sends);
}

/* Number the rows of part p that the edges lead to, in the order of their places; returns how many. */
static int64_t takers_number(const struct covering *c, int32_t p, const struct edge *edge, int64_t n)
{
    uint32_t n_taker = 0;
    for (int64_t e = 0; e < n; e++) {
        c->number[edge[e].to] = 1;
    }
    for (int64_t at = c->partition->part_begin[p]; at < c->partition->part_begin[p + 1]; at++) {
        n_taker += c->number[at];
        c->number[at] = c->number[at] > 0 ? n_taker : 0;
    }
    return n_taker;
}

/* The n sorted edges from part q into part p; where the graph is not symmetric, gradients travel over them the other way. */
static void pair_count(struct covering *c, int32_t p, int32_t q, const struct edge *edge, int64_t n)
{
    int64_t *indptr = memory_alloc((size_t)n + 1, sizeof *indptr), *turned = memory_alloc((size_t)n + 1, sizeof *turned);
    uint32_t *taker = memory_alloc((size_t)n, sizeof *taker), *giver = memory_alloc((size_t)n, sizeof *giver);
    struct part_cover_edges in = {.n_taker = takers_number(c, p, edge, n), .indptr = indptr, .taker = taker};
    for (int64_t e = 0; e < n; e++) {
        in.n_giver += e == 0 || edge[e].from != edge[e - 1].from;
        indptr[in.n_giver] = e + 1;
        taker[e] = c->number[edge[e].to] - 1;
    }
    for (int64_t e = 0; e < n; e++) {
        c->number[edge[e].to] = 0;
    }
    cover_count(c, PART_DIRECTION_IN, q, p, &in);
    if (!c->out->symmetric) {
        const struct part_cover_edges out = {.n_giver = in.n_taker, .n_taker = in.n_giver, .indptr = turned, .taker = giver};
        part_cover_turn(&in, turned, giver, NULL);
        cover_count(c, PART_DIRECTION_OUT, p, q, &out);
    }
    free(giver);
    free(taker);
    free(turned);
    free(indptr);
}

static void covers_count(struct covering *c)
{
    const struct partition *partition = c->partition;
    for (int32_t p = 0; p < partition->n_part; p++) {
        int64_t n = edges_gather(c, p);
        for (int64_t begin = 0, end; begin < n; begin = end) {
            int32_t q = partition->owner[partition->order[c->edge[begin].from]];
            end = begin;
            while (end < n && c->edge[end].from < partition->part_begin[q + 1]) {
                end++;
            }
            pair_count(c, p, q, c->edge + begin, end - begin);
        }
    }
}

enum status part_shared_cover(const struct dataset *dataset, const struct partition *partition, struct part_shared *out,
                              int64_t *n_halo_out, int64_t *n_cover_out)
{
    struct covering c = {.dataset = dataset, .partition = partition, .out = out};
    size_t n_node = (size_t)dataset->n_node, n_room = (size_t)most_edges(dataset, partition);
    enum status status = part_shared_acquire(partition->n_part, (uint32_t)partition->n_part, 0, dataset->symmetric, out);
    status = status == STATUS_OK ? part_sums_acquire(out) : status;
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, n_node, sizeof *c.place, &c.place) : status;
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, n_node, sizeof *c.number, &c.number) : status;
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, n_room, sizeof *c.edge, &c.edge) : status;
    if (status == STATUS_OK) {
        for (size_t at = 0; at < n_node; at++) {
            c.place[partition->order[at]] = (uint32_t)at;
        }
        covers_count(&c);
    } else {
        part_shared_release(out);
    }
    *n_halo_out = c.n_halo;
    *n_cover_out = c.n_cover;
    memory_release(MEMORY_OTHER, c.edge, n_room, sizeof *c.edge);
    memory_release(MEMORY_OTHER, c.number, n_node, sizeof *c.number);
    memory_release(MEMORY_OTHER, c.place, n_node, sizeof *c.place);
    return status;
}
