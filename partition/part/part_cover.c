#include "partition/part/part_cover.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct matching {
    const struct part_cover_edges *edges;
    uint32_t *taker_of; /* n_giver: its partner, or NONE */
    uint32_t *giver_of; /* n_taker */
    uint32_t *depth;    /* n_giver: edges from an unmatched giver, alternating; NONE: not reached */
    uint32_t *queue;    /* n_giver; also the path of a search */
    int64_t *next;      /* n_giver: the edge that a search tries next */
    int64_t n_wanted;   /* givers with edges */
    int64_t n_pair;
};

static void match(struct matching *m, uint32_t giver, uint32_t taker)
{
    m->taker_of[giver] = taker;
    m->giver_of[taker] = giver;
}

/* Every giver in turn takes its first free partner. */
static void match_greedily(struct matching *m)
{
    const struct part_cover_edges *edges = m->edges;
    for (int64_t g = 0; g < edges->n_giver; g++) {
        for (int64_t e = edges->indptr[g]; e < edges->indptr[g + 1] && m->taker_of[g] == NONE; e++) {
            if (m->giver_of[edges->taker[e]] == NONE) {
                match(m, (uint32_t)g, edges->taker[e]);
                m->n_pair++;
            }
        }
    }
}

/* Depths from all unmatched givers. Is a free taker reached? */
static bool depths_find(struct matching *m)
{
    const struct part_cover_edges *edges = m->edges;
    int64_t n = 0;
    bool found = false;
    for (int64_t g = 0; g < edges->n_giver; g++) {
        m->depth[g] = m->taker_of[g] == NONE ? 0 : NONE;
        m->next[g] = edges->indptr[g];
        if (m->taker_of[g] == NONE) {
            m->queue[n++] = (uint32_t)g;
        }
    }
    for (int64_t at = 0; at < n; at++) {
        uint32_t g = m->queue[at];
        for (int64_t e = edges->indptr[g]; e < edges->indptr[g + 1]; e++) {
            uint32_t other = m->giver_of[edges->taker[e]];
            found = found || other == NONE;
            if (other != NONE && m->depth[other] == NONE) {
                m->depth[other] = m->depth[g] + 1;
                m->queue[n++] = other;
            }
        }
    }
    return found;
}

/* Turn the path over: every giver on it takes the taker of its last tried edge. */
static void path_turn(struct matching *m, int64_t n_path)
{
    for (int64_t i = 0; i < n_path; i++) {
        uint32_t g = m->queue[i];
        match(m, g, m->edges->taker[m->next[g] - 1]);
    }
    m->n_pair++;
}

/* Search a free taker from an unmatched giver, a step deeper each time. */
static void path_search(struct matching *m, uint32_t from)
{
    const struct part_cover_edges *edges = m->edges;
    int64_t n_path = 1;
    m->queue[0] = from;
    while (n_path > 0) {
        uint32_t g = m->queue[n_path - 1];
        if (m->next[g] == edges->indptr[g + (int64_t)1]) {
            m->depth[g] = NONE; /* a dead end for every search of this round */
            n_path--;
            continue;
        }
        uint32_t other = m->giver_of[edges->taker[m->next[g]++]];
        if (other == NONE) {
            path_turn(m, n_path);
            return;
        }
        if (m->depth[other] == m->depth[g] + 1) {
            m->queue[n_path++] = other;
        }
    }
}

static void match_fully(struct matching *m)
{
    match_greedily(m);
    while (m->n_pair < m->n_wanted && depths_find(m)) {
        for (int64_t g = 0; g < m->edges->n_giver; g++) {
            if (m->taker_of[g] == NONE) {
                path_search(m, (uint32_t)g);
            }
        }
    }
}

/* Givers that no alternating path from an unmatched one reaches, and the takers that one does. Depths are of the last
 * search, which found no free taker; with every giver matched the caller sends all of them. */
static void cover_read(const struct matching *m, bool *sends_out, bool *sums_out)
{
    const struct part_cover_edges *edges = m->edges;
    for (int64_t g = 0; g < edges->n_giver; g++) {
        sends_out[g] = m->depth[g] == NONE;
    }
    for (int64_t t = 0; t < edges->n_taker; t++) {
        sums_out[t] = m->giver_of[t] != NONE && m->depth[m->giver_of[t]] != NONE;
    }
}

/* Has a taker, or a giver, whose row backward takes as many, too many edges for one sum? */
static bool has_hub(const struct part_cover_edges *edges, uint32_t *count)
{
    bool any = false;
    for (int64_t g = 0; g < edges->n_giver; g++) {
        any = any || edges->indptr[g + 1] - edges->indptr[g] > PART_COVER_EDGES_MOST;
    }
    for (int64_t e = 0; e < edges->indptr[edges->n_giver] && !any; e++) {
        any = ++count[edges->taker[e]] > PART_COVER_EDGES_MOST;
    }
    return any;
}

void part_cover_turn(const struct part_cover_edges *edges, int64_t *indptr_out, uint32_t *giver_out,
                     int64_t *from_out)
{
    const int64_t n_edge = edges->indptr[edges->n_giver];
    memset(indptr_out, 0, ((size_t)edges->n_taker + 1) * sizeof *indptr_out);
    for (int64_t e = 0; e < n_edge; e++) {
        indptr_out[edges->taker[e] + (int64_t)1]++;
    }
    for (int64_t t = 0; t < edges->n_taker; t++) {
        indptr_out[t + 1] += indptr_out[t];
    }
    for (int64_t g = edges->n_giver - 1; g >= 0; g--) { /* backwards, so that every place counts down to its first */
        for (int64_t e = edges->indptr[g + 1] - 1; e >= edges->indptr[g]; e--) {
            int64_t at = --indptr_out[edges->taker[e] + (int64_t)1];
            giver_out[at] = (uint32_t)g;
            if (from_out != NULL) {
                from_out[at] = e;
            }
        }
    }
    memmove(indptr_out, indptr_out + 1, (size_t)edges->n_taker * sizeof *indptr_out);
    indptr_out[edges->n_taker] = n_edge;
}

int64_t part_cover(const struct part_cover_edges *edges, bool *sends_out, bool *sums_out)
{
    size_t n_giver = (size_t)edges->n_giver, n_taker = (size_t)edges->n_taker;
    struct matching m = {.edges = edges,
                         .taker_of = memory_alloc(n_giver, sizeof *m.taker_of),
                         .giver_of = memory_alloc(n_taker, sizeof *m.giver_of),
                         .depth = memory_alloc(n_giver, sizeof *m.depth),
                         .queue = memory_alloc(n_giver, sizeof *m.queue),
                         .next = memory_alloc(n_giver, sizeof *m.next)};
    bool hub = has_hub(edges, m.giver_of);
    for (int64_t g = 0; g < edges->n_giver; g++) {
        m.n_wanted += edges->indptr[g + 1] > edges->indptr[g];
    }
    memset(m.taker_of, 0xff, n_giver * sizeof *m.taker_of);
    memset(m.giver_of, 0xff, n_taker * sizeof *m.giver_of);
    memset(m.depth, 0xff, n_giver * sizeof *m.depth);
    if (!hub) {
        match_fully(&m);
    }
    if (hub || m.n_pair == m.n_wanted) {
        for (int64_t g = 0; g < edges->n_giver; g++) {
            sends_out[g] = edges->indptr[g + 1] > edges->indptr[g];
        }
        memset(sums_out, false, n_taker);
        m.n_pair = m.n_wanted;
    } else {
        cover_read(&m, sends_out, sums_out);
    }
    free(m.next);
    free(m.queue);
    free(m.depth);
    free(m.giver_of);
    free(m.taker_of);
    return m.n_pair;
}
