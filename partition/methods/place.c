/* The assignment of parts to workers: even stored edges first, then as little halo between workers as moves can
 * reach.
 *
 * A first placement grows group after group along the heaviest traffic; if that is uneven, largest part to the
 * lightest group. Moves and swaps of parts then lower the traffic within the load limit. Lower numbers win ties.
 * Parts in the order of their numbers are preferred if that is as even and sends little more. Rows that parts of a
 * worker share (part_dedup.h) are then sent once instead of twice, and METIS's parts are numbered so that neighbours
 * in number are neighbours.
 */
#include "partition/part/part.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 0.05 /* a group may have this much more than the mean */
#define SWEEPS_MOST 16
#define ORDER_SLACK 1.25 /* so many times the rows between groups */

struct place {
    int32_t n_part, n_rank;
    const struct part_sizes *sizes;
    int64_t limit; /* most edges of a group */
    int32_t *rank; /* n_part; -1: none yet */
    int64_t *load; /* n_rank: edges */
    int32_t *size; /* n_rank: parts */
    int64_t *pull; /* n_part × n_rank: rows exchanged between a part and a group's other parts */
};

static struct part_rows taken(const struct place *place, int32_t part)
{
    return part_halo_received(&place->sizes[part].halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
}

static struct part_rows given(const struct place *place, int32_t part)
{
    return part_halo_sent(&place->sizes[part].halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
}

/* Rows that travel between two parts, both ways. */
static int64_t traffic(const struct place *place, int32_t a, int32_t b)
{
    const struct part_rows to = taken(place, a), from = given(place, a);
    return part_rows_with(&to, b) + part_rows_with(&from, b);
}

static int64_t *pull_of(const struct place *place, int32_t part)
{
    return place->pull + (int64_t)part * place->n_rank;
}

/* Update the pull of the group on the others by these rows, or back. */
static void pull_add(struct place *place, const struct part_rows *rows, int32_t rank, int sign)
{
    for (int32_t k = 0; k < rows->pairs->n_pair; k++) {
        pull_of(place, rows->pairs->pair[k].part)[rank] += sign * part_rows_at(rows, k);
    }
}

static void put(struct place *place, int32_t part, int32_t rank)
{
    const struct part_rows both[2] = {taken(place, part), given(place, part)};
    int32_t old = place->rank[part];
    place->rank[part] = rank;
    for (int i = 0; i < 2; i++) {
        pull_add(place, &both[i], rank, 1);
        if (old >= 0) {
            pull_add(place, &both[i], old, -1);
        }
    }
    place->load[rank] += place->sizes[part].n_edge;
    place->size[rank]++;
    if (old >= 0) {
        place->load[old] -= place->sizes[part].n_edge;
        place->size[old]--;
    }
}

static void clear(struct place *place)
{
    for (int32_t p = 0; p < place->n_part; p++) {
        place->rank[p] = -1;
    }
    memset(place->load, 0, (size_t)place->n_rank * sizeof *place->load);
    memset(place->size, 0, (size_t)place->n_rank * sizeof *place->size);
    memset(place->pull, 0, (size_t)place->n_part * (size_t)place->n_rank * sizeof *place->pull);
}

/* The part without a group that exchanges most rows with `rank`; the heaviest one while that group is empty. */
static int32_t most_pulled(const struct place *place, int32_t rank)
{
    int32_t best = -1;
    for (int32_t p = 0; p < place->n_part; p++) {
        if (place->rank[p] >= 0) {
            continue;
        }
        bool heavier = best >= 0 && place->sizes[p].n_edge > place->sizes[best].n_edge;
        bool closer = best >= 0 && pull_of(place, p)[rank] > pull_of(place, best)[rank];
        bool as_close = best >= 0 && pull_of(place, p)[rank] == pull_of(place, best)[rank];
        if (best < 0 || closer || (as_close && heavier)) {
            best = p;
        }
    }
    return best;
}

/* Group after group up to its share of the rest, with a part left for each later group. */
static void grow(struct place *place, int64_t total)
{
    int32_t n_left = place->n_part;
    for (int32_t rank = 0; rank < place->n_rank; rank++) {
        int64_t share = total / (place->n_rank - rank);
        while (n_left > place->n_rank - rank - 1) {
            int32_t part = most_pulled(place, rank);
            bool last = rank == place->n_rank - 1;
            if (place->size[rank] > 0 && !last && place->load[rank] + place->sizes[part].n_edge / 2 > share) {
                break;
            }
            put(place, part, rank);
            n_left--;
        }
        total -= place->load[rank];
    }
}

/* Heaviest part first, each to the lightest group (the emptiest of equals, so that none stays empty). */
static void spread(struct place *place)
{
    for (int32_t i = 0; i < place->n_part; i++) {
        int32_t part = -1;
        for (int32_t p = 0; p < place->n_part; p++) {
            if (place->rank[p] < 0 && (part < 0 || place->sizes[p].n_edge > place->sizes[part].n_edge)) {
                part = p;
            }
        }
        int32_t to = 0;
        for (int32_t r = 1; r < place->n_rank; r++) {
            bool empty_first = (place->size[r] == 0) > (place->size[to] == 0);
            bool as_empty = (place->size[r] == 0) == (place->size[to] == 0);
            to = empty_first || (as_empty && place->load[r] < place->load[to]) ? r : to;
        }
        put(place, part, to);
    }
}

static int64_t heaviest(const struct place *place)
{
    int64_t most = 0;
    for (int32_t r = 0; r < place->n_rank; r++) {
        most = place->load[r] > most ? place->load[r] : most;
    }
    return most;
}

/* Move `part` to the group where it saves most rows, of those that are not full. */
static bool move(struct place *place, int32_t part)
{
    int32_t from = place->rank[part], best = from;
    const int64_t *pull = pull_of(place, part);
    if (place->size[from] == 1) {
        return false;
    }
    for (int32_t r = 0; r < place->n_rank; r++) {
        if (pull[r] > pull[best] && place->load[r] + place->sizes[part].n_edge <= place->limit) {
            best = r;
        }
    }
    if (best == from) {
        return false;
    }
    put(place, part, best);
    return true;
}

/* Swap two parts of different groups when that saves rows and overfills neither group. */
static bool swap(struct place *place, int32_t a, int32_t b)
{
    int32_t ra = place->rank[a], rb = place->rank[b];
    if (ra == rb) {
        return false;
    }
    int64_t change = place->sizes[a].n_edge - place->sizes[b].n_edge;
    if (place->load[ra] - change > place->limit || place->load[rb] + change > place->limit) {
        return false;
    }
    int64_t saved = pull_of(place, a)[rb] - pull_of(place, a)[ra] + pull_of(place, b)[ra] - pull_of(place, b)[rb] -
                    2 * traffic(place, a, b);
    if (saved <= 0) {
        return false;
    }
    put(place, a, rb);
    put(place, b, ra);
    return true;
}

/* Every step lowers the rows between groups, so this ends; the number of sweeps only bounds the time. */
static void refine(struct place *place)
{
    bool changed = true;
    for (int sweep = 0; sweep < SWEEPS_MOST && changed; sweep++) {
        changed = false;
        for (int32_t a = 0; a < place->n_part; a++) {
            changed |= move(place, a);
            for (int32_t b = a + 1; b < place->n_part; b++) {
                changed |= swap(place, a, b);
            }
        }
    }
}

/* Rows between the parts before each border and the parts after it: out n_part + 1. */
static void borders_count(const struct place *place, int64_t *out)
{
    memset(out, 0, ((size_t)place->n_part + 1) * sizeof *out);
    for (int32_t p = 0; p < place->n_part; p++) {
        const struct part_rows rows = taken(place, p);
        for (int32_t k = 0; k < rows.pairs->n_pair; k++) {
            int32_t q = rows.pairs->pair[k].part;
            out[(p < q ? p : q) + 1] += part_rows_at(&rows, k);
            out[(p < q ? q : p) + 1] -= part_rows_at(&rows, k);
        }
    }
    for (int32_t b = 0; b < place->n_part; b++) {
        out[b + 1] += out[b];
    }
}

/* The end of the group that begins at this part: of the borders near its share the one with fewest rows across. */
static int32_t border_find(const struct place *place, int32_t begin, int32_t n_left, int64_t share,
                           const int64_t *across)
{
    int64_t load = 0;
    int32_t best = begin + 1, last = place->n_part - (n_left - 1);
    bool any = false;
    for (int32_t end = begin + 1; end <= last; end++) {
        int64_t next = place->sizes[end - 1].n_edge;
        bool near = (double)(load + next) >= (1.0 - SLACK) * (double)share &&
                    (double)(load + next) <= (1.0 + SLACK) * (double)share;
        if (near ? !any || across[end] < across[best] : !any && load + next / 2 <= share) {
            best = end;
        }
        any = any || near;
        load += next;
    }
    return best;
}

/* Group after group of parts in their order, each about its share of the rest. */
static void in_order(struct place *place, int64_t total)
{
    int64_t *across = memory_alloc((size_t)place->n_part + 1, sizeof *across);
    borders_count(place, across);
    int32_t part = 0;
    for (int32_t rank = 0; rank < place->n_rank; rank++) {
        int32_t n_left = place->n_rank - rank;
        int32_t end = n_left == 1 ? place->n_part : border_find(place, part, n_left, total / n_left, across);
        while (part < end) {
            put(place, part++, rank);
        }
        total -= place->load[rank];
    }
    free(across);
}

/* Rows that parts receive from parts of other groups. */
static int64_t between(const struct place *place)
{
    int64_t n = 0;
    for (int32_t p = 0; p < place->n_part; p++) {
        const struct part_rows rows = taken(place, p);
        for (int32_t k = 0; k < rows.pairs->n_pair; k++) {
            n += place->rank[rows.pairs->pair[k].part] != place->rank[p] ? part_rows_at(&rows, k) : 0;
        }
    }
    return n;
}

/* Number the groups as they first appear among the parts: part 0 is then on rank 0. */
static void number(const struct place *place, int32_t *out_rank)
{
    int32_t *name = memory_alloc((size_t)place->n_rank, sizeof *name);
    int32_t n_named = 0;
    memset(name, 0xff, (size_t)place->n_rank * sizeof *name);
    for (int32_t p = 0; p < place->n_part; p++) {
        int32_t *mine = &name[place->rank[p]];
        if (*mine < 0) {
            *mine = n_named++;
        }
        out_rank[p] = *mine;
    }
    free(name);
}

void partition_place(int32_t n_part, const struct part_sizes *sizes, int32_t n_rank, int32_t *out_rank)
{
    ASSERT(n_rank >= 1 && n_rank <= n_part);
    if (n_rank == n_part) {
        for (int32_t p = 0; p < n_part; p++) {
            out_rank[p] = p;
        }
        return;
    }
    struct place place = {.n_part = n_part,
                          .n_rank = n_rank,
                          .sizes = sizes,
                          .rank = memory_alloc((size_t)n_part, sizeof *place.rank),
                          .load = memory_alloc((size_t)n_rank, sizeof *place.load),
                          .size = memory_alloc((size_t)n_rank, sizeof *place.size),
                          .pull = memory_alloc((size_t)n_part * (size_t)n_rank, sizeof *place.pull)};
    int64_t total = 0;
    for (int32_t p = 0; p < n_part; p++) {
        total += sizes[p].n_edge;
    }
    clear(&place);
    spread(&place);
    int64_t evenest = heaviest(&place);
    place.limit = (int64_t)((double)total * (1.0 + SLACK) / n_rank);
    place.limit = evenest > place.limit ? evenest : place.limit;
    clear(&place);
    grow(&place, total);
    if (heaviest(&place) > place.limit) {
        clear(&place);
        spread(&place);
    }
    refine(&place);
    number(&place, out_rank);
    int64_t least = between(&place);
    clear(&place);
    in_order(&place, total);
    if (heaviest(&place) <= place.limit && (double)between(&place) <= ORDER_SLACK * (double)least) {
        number(&place, out_rank);
    }
    free(place.pull);
    free(place.size);
    free(place.load);
    free(place.rank);
}
