/* Covers of what parts send to workers, counted: worker after worker, the edges into its parts from others' sorted by
 * where they come from. Over the same edges gradients travel the other way. */
#include "partition/part/part_cover.h"
#include "partition/part/part_dedup.h"
#include "partition/rows/row_pairs.h"
#include "protocol/base/memory.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* An edge from another worker's part, by the places of its ends in the partition's order. */
struct edge {
    uint32_t from, to;
};

/* Edges from part q into part p. */
struct edges {
    int32_t q, p;
    int64_t begin, end;
};

/* One thread's, of what all share. */
struct covering {
    const struct dataset *dataset;
    const struct partition *partition;
    const int32_t *rank_of_part;
    const uint32_t *hops;
    const int32_t *part_of_rank; /* n_part: worker after worker, ascending */
    const int32_t *rank_begin;   /* n_rank + 1: where a worker's begin */
    const uint32_t *place;       /* n_node: of each node in partition->order */
    struct part_dedup *out;
    int64_t n_room;      /* edges into the parts of the worker that has most of them */
    uint32_t *number;    /* n_node: of places at one end of a list's edges, from 1; 0 between two lists */
    int64_t *next;       /* n_node + 1: where the next edge from a place goes; 0 between two parts */
    struct edge *edge;   /* n_room: one worker's */
    int64_t *edge_begin; /* n_part + 1: where a part's begin */
    struct edges *list;  /* n_part: those of one list, takers' parts ascending */
    int32_t n_list;
    int64_t n_halo, n_cover;
};

static int64_t most_edges(const struct covering *c)
{
    const struct partition *partition = c->partition;
    int64_t most = 0, *n = memory_alloc(c->out->n_rank, sizeof *n);
    for (int32_t p = 0; p < partition->n_part; p++) {
        int64_t *sum = &n[c->rank_of_part[p]];
        for (int64_t at = partition->part_begin[p]; at < partition->part_begin[p + 1]; at++) {
            uint32_t v = partition->order[at];
            *sum += c->dataset->indptr[v + (int64_t)1] - c->dataset->indptr[v];
        }
        most = *sum > most ? *sum : most;
    }
    free(n);
    return most;
}

/* Count part p's in-edges from other workers' parts, in next of the place behind their source's; or put them there.
 */
static void edges_walk(const struct covering *c, int32_t p, struct edge *out)
{
    const struct partition *partition = c->partition;
    for (int64_t at = partition->part_begin[p]; at < partition->part_begin[p + 1]; at++) {
        uint32_t v = partition->order[at];
        for (int64_t e = c->dataset->indptr[v]; e < c->dataset->indptr[v + (int64_t)1]; e++) {
            uint32_t u = c->dataset->indices[e], from = c->place[u];
            if (c->rank_of_part[partition->owner[u]] == c->rank_of_part[p]) {
                continue;
            }
            if (out == NULL) {
                c->next[from + (int64_t)1]++;
            } else {
                out[c->next[from]++] = (struct edge){.from = from, .to = (uint32_t)at};
            }
        }
    }
}

/* These edges by their sources' places, part after part, since a part's places are together; those of one source by
 * their destinations'. Returns how many there are. */
static int64_t edges_gather(const struct covering *c, int32_t p, struct edge *out)
{
    const int64_t n_node = c->dataset->n_node;
    edges_walk(c, p, NULL);
    for (int64_t at = 0; at < n_node; at++) {
        c->next[at + 1] += c->next[at];
    }
    int64_t n = c->next[n_node];
    edges_walk(c, p, out);
    memset(c->next, 0, ((size_t)n_node + 1) * sizeof *c->next);
    return n;
}

/* The first of part p's edges that comes from this place or a later one. */
static int64_t edge_from(const struct covering *c, int32_t p, int64_t place)
{
    int64_t begin = c->edge_begin[p], end = c->edge_begin[p + 1];
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (c->edge[middle].from < place) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static void list_add(struct covering *c, int32_t q, int32_t p)
{
    const int64_t *places = c->partition->part_begin;
    const struct edges edges = {
        .q = q, .p = p, .begin = edge_from(c, p, places[q]), .end = edge_from(c, p, places[q + 1])};
    if (edges.begin < edges.end) {
        c->list[c->n_list++] = edges;
    }
}

/* Number the rows that the edges come from, in the order of their places, behind `n` others; returns how many there
 * are then. */
static uint32_t sources_number(const struct covering *c, const struct edges *edges, uint32_t n)
{
    for (int64_t e = edges->begin; e < edges->end; e++) {
        uint32_t *number = &c->number[c->edge[e].from];
        *number = *number > 0 ? *number : ++n;
    }
    return n;
}

/* Likewise those that they lead to. */
static uint32_t destinations_number(const struct covering *c, const struct edges *edges, uint32_t n)
{
    const uint32_t wanted = UINT32_MAX;
    for (int64_t e = edges->begin; e < edges->end; e++) {
        uint32_t *number = &c->number[c->edge[e].to];
        *number = *number > 0 ? *number : wanted;
    }
    for (int64_t at = c->partition->part_begin[edges->p]; at < c->partition->part_begin[edges->p + 1]; at++) {
        c->number[at] = c->number[at] == wanted ? ++n : c->number[at];
    }
    return n;
}

/* A list's cover, added to what part `owner` sends. */
static void cover_count(struct covering *c, struct part_sums *made, const struct part_cover_edges *edges,
                        uint32_t *n_row_out)
{
    bool *sends = memory_alloc((size_t)edges->n_giver, sizeof *sends),
         *sums = memory_alloc((size_t)edges->n_taker, sizeof *sums);
    int64_t n_row = part_cover(edges, sends, sums), n_sum = 0, n_summed = 0;
    *n_row_out = (uint32_t)n_row;
    for (int64_t t = 0; t < edges->n_taker; t++) {
        n_sum += sums[t];
    }
    for (int64_t e = 0; e < edges->indptr[edges->n_giver]; e++) {
        n_summed += sums[edges->taker[e]];
    }
#pragma omp atomic
    made->n_row += n_sum;
#pragma omp atomic
    made->n_edge += n_summed;
    for (int64_t g = 0; g < edges->n_giver; g++) {
        c->n_halo += edges->indptr[g + 1] > edges->indptr[g];
    }
    c->n_cover += n_row;
    free(sums);
    free(sends);
}

/* Are there covers of the edges into rows of hop ≤ h; from n_hop on, of all? Over all edges of a symmetric graph the
 * same rows travel both ways. */
static bool is_covered(const struct covering *c, enum part_direction d, int32_t hop)
{
    return hop < c->out->n_hop ? (c->hops[d] >> hop & 1) != 0
                               : d == PART_DIRECTION_IN || !c->dataset->facts.symmetric;
}

/* Does it lead into a row of hop ≤ h, or are all edges counted? */
static bool is_counted(const struct covering *c, const struct edge *edge, int32_t hop)
{
    return hop >= c->out->n_hop || c->partition->hop[c->partition->order[edge->to]] <= hop;
}

/* A list as it is numbered. */
struct list {
    enum part_direction d;
    uint32_t n_giver, n_taker;
    int64_t n_edge;
    int64_t *indptr; /* n_giver + 2 */
    uint32_t *taker; /* n_edge */
};

/* Its edges by giver: their sources, or over transposed edges their destinations. In both each giver's takers ascend.
 * Returns how many. */
static int64_t edges_place(const struct covering *c, int32_t hop, const struct list *list)
{
    bool in = list->d == PART_DIRECTION_IN;
    int64_t *indptr = list->indptr; /* a giver's next edge, and behind it where all end */
    memset(indptr, 0, ((size_t)list->n_giver + 2) * sizeof *indptr);
    for (int placing = 0; placing < 2; placing++) {
        for (int32_t l = 0; l < c->n_list; l++) {
            for (int64_t e = c->list[l].begin; e < c->list[l].end; e++) {
                const struct edge *edge = &c->edge[e];
                uint32_t giver = c->number[in ? edge->from : edge->to] - 1;
                if (!is_counted(c, edge, hop)) {
                    continue;
                }
                if (placing == 0) {
                    indptr[giver + 2]++;
                } else {
                    list->taker[indptr[giver + 1]++] = c->number[in ? edge->to : edge->from] - 1;
                }
            }
        }
        for (uint32_t g = 0; placing == 0 && g < list->n_giver; g++) {
            indptr[g + 2] += indptr[g + 1];
        }
    }
    return indptr[list->n_giver];
}

/* The covers of the list, by hop: counts_out n_hop + 1. */
static void list_count(struct covering *c, enum part_direction d, int32_t owner, uint32_t *counts_out)
{
    bool in = d == PART_DIRECTION_IN;
    struct list list = {.d = d};
    for (int32_t l = 0; l < c->n_list; l++) {
        const struct edges *edges = &c->list[l];
        list.n_giver = (in ? sources_number : destinations_number)(c, edges, list.n_giver);
        list.n_taker = (in ? destinations_number : sources_number)(c, edges, list.n_taker);
        list.n_edge += edges->end - edges->begin;
    }
    list.indptr = memory_alloc((size_t)list.n_giver + 2, sizeof *list.indptr);
    list.taker = memory_alloc((size_t)list.n_edge, sizeof *list.taker);
    for (int32_t hop = 0; hop <= c->out->n_hop; hop++) {
        if (is_covered(c, d, hop) && edges_place(c, hop, &list) > 0) {
            const struct part_cover_edges edges = {
                .n_giver = list.n_giver, .n_taker = list.n_taker, .indptr = list.indptr, .taker = list.taker};
            cover_count(c, part_sums_at(c->out, d, owner, hop), &edges, &counts_out[hop]);
        }
    }
    free(list.taker);
    free(list.indptr);
    for (int32_t l = 0; l < c->n_list; l++) {
        for (int64_t e = c->list[l].begin; e < c->list[l].end; e++) {
            c->number[c->edge[e].from] = c->number[c->edge[e].to] = 0;
        }
    }
    c->n_list = 0;
}

/* What a worker's parts take of a part's rows, or what its rows are to these over transposed edges. */
static void rows_count(struct covering *c, enum part_direction d, int32_t of, int32_t rank)
{
    for (int side = 0; side < PART_DEDUP_N_SIDE; side++) {
        for (int32_t i = c->rank_begin[rank]; i < c->rank_begin[rank + 1]; i++) {
            int32_t other = c->part_of_rank[i];
            if ((int)part_dedup_side_at(of, other) == side) {
                list_add(c, d == PART_DIRECTION_IN ? of : other, d == PART_DIRECTION_IN ? other : of);
            }
        }
        list_count(c, d, of, part_dedup_at(c->out, d, of, (uint32_t)rank, (enum part_dedup_side)side));
    }
}

static void rank_count(struct covering *c, int32_t rank)
{
    int32_t n_part = c->partition->n_part;
    int64_t n = 0;
    for (int32_t p = 0; p < n_part; p++) {
        c->edge_begin[p] = n;
        n += c->rank_of_part[p] == rank ? edges_gather(c, p, c->edge + n) : 0;
    }
    c->edge_begin[n_part] = n;
    for (int32_t q = 0; q < n_part; q++) {
        if (c->rank_of_part[q] != rank) {
            rows_count(c, PART_DIRECTION_IN, q, rank);
        }
    }
    for (int32_t i = c->rank_begin[rank]; i < c->rank_begin[rank + 1] && !c->out->mirrors; i++) {
        for (int32_t other = 0; other < (int32_t)c->out->n_rank; other++) {
            if (other != rank) {
                rows_count(c, PART_DIRECTION_OUT, c->part_of_rank[i], other);
            }
        }
    }
}

static enum status covering_open(struct covering *c)
{
    size_t n_node = (size_t)c->dataset->n_node, n_part = (size_t)c->partition->n_part;
    c->edge_begin = memory_alloc(n_part + 1, sizeof *c->edge_begin);
    c->list = memory_alloc(n_part, sizeof *c->list);
    enum status status = memory_acquire(MEMORY_OTHER, n_node, sizeof *c->number, &c->number);
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, n_node + 1, sizeof *c->next, &c->next) : status;
    return status == STATUS_OK ? memory_acquire(MEMORY_OTHER, (size_t)c->n_room, sizeof *c->edge, &c->edge) : status;
}

static void covering_close(struct covering *c)
{
    size_t n_node = (size_t)c->dataset->n_node;
    memory_release(MEMORY_OTHER, c->edge, (size_t)c->n_room, sizeof *c->edge);
    memory_release(MEMORY_OTHER, c->next, n_node + 1, sizeof *c->next);
    memory_release(MEMORY_OTHER, c->number, n_node, sizeof *c->number);
    free(c->list);
    free(c->edge_begin);
}

/* As many as there are cores and workers, with no more memory than 8 bytes for each edge of the graph. */
static int threads_of(const struct covering *c)
{
    int64_t one = c->n_room * (int64_t)sizeof *c->edge +
                  c->dataset->n_node * (int64_t)(sizeof *c->number + sizeof *c->next);
    int64_t most = c->dataset->n_edge * (int64_t)sizeof *c->edge / (one + 1), n = omp_get_max_threads();
    n = n < c->out->n_rank ? n : c->out->n_rank;
    n = n < most ? n : most;
    return n > 1 && c->dataset->n_edge > ROWS_PARALLEL_LEAST ? (int)n : 1;
}

/* Workers are counted side by side, each by one thread. */
static enum status covers_count(struct covering *c)
{
    int n_thread = threads_of(c), n_open = 0;
    enum status status = STATUS_OK;
    struct covering *all = memory_alloc((size_t)n_thread, sizeof *all);
    for (; n_open < n_thread && status == STATUS_OK; n_open++) {
        all[n_open] = *c;
        status = covering_open(&all[n_open]);
    }
#pragma omp parallel for schedule(dynamic) num_threads(n_thread)
    for (int32_t rank = 0; rank < (int32_t)c->out->n_rank; rank++) {
        if (status == STATUS_OK) {
            rank_count(&all[omp_get_thread_num()], rank);
        }
    }
    for (int t = 0; t < n_open; t++) {
        c->n_halo += all[t].n_halo;
        c->n_cover += all[t].n_cover;
        covering_close(&all[t]);
    }
    free(all);
    return status;
}

/* Parts worker after worker, and the places of nodes. */
static void shared_fill(struct covering *c, int32_t *part_of_rank, int32_t *rank_begin, uint32_t *place)
{
    int32_t n = 0;
    for (int32_t rank = 0; rank < (int32_t)c->out->n_rank; rank++) {
        for (int32_t p = 0; p < c->partition->n_part; p++) {
            if (c->rank_of_part[p] == rank) {
                part_of_rank[n++] = p;
            }
        }
        rank_begin[rank + 1] = n;
    }
    for (int64_t at = 0; at < c->dataset->n_node; at++) {
        place[c->partition->order[at]] = (uint32_t)at;
    }
    c->part_of_rank = part_of_rank;
    c->rank_begin = rank_begin;
    c->place = place;
}

enum status part_dedup_cover(const struct part_cover_input *in, struct part_dedup *out,
                             struct part_cover_rows *rows_out)
{
    const struct dataset *dataset = in->dataset;
    const struct partition *partition = in->partition;
    struct covering c = {
        .dataset = dataset, .partition = partition, .rank_of_part = in->rank_of_part, .hops = in->hops, .out = out};
    bool mirrors = part_dedup_mirrors(dataset->facts.symmetric, true, partition->n_hop);
    enum status status = part_dedup_acquire(partition->n_part, in->n_rank, partition->n_hop, mirrors, out);
    size_t n_node = (size_t)dataset->n_node;
    uint32_t *place = NULL;
    int32_t *part_of_rank = memory_alloc((size_t)partition->n_part, sizeof *part_of_rank),
            *rank_begin = memory_alloc((size_t)in->n_rank + 1, sizeof *rank_begin);
    out->covers = true;
    status = status == STATUS_OK ? part_sums_acquire(out) : status;
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, n_node, sizeof *place, &place) : status;
    if (status == STATUS_OK) {
        shared_fill(&c, part_of_rank, rank_begin, place);
        c.n_room = most_edges(&c);
        status = covers_count(&c);
    }
    if (status != STATUS_OK) {
        part_dedup_release(out);
    } else if (dataset->facts.symmetric && !mirrors) {
        part_dedup_mirror(out);
    }
    *rows_out = (struct part_cover_rows){.n_halo = c.n_halo, .n_cover = c.n_cover};
    memory_release(MEMORY_OTHER, place, n_node, sizeof *place);
    free(rank_begin);
    free(part_of_rank);
    return status;
}
