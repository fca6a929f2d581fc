#include "worker/rows/halo_routes.h"

#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <stdlib.h>

struct part_rows halo_rows_in(const struct part_halo *own, enum halo_direction direction, int32_t hop)
{
    bool returns = direction == HALO_DIRECTION_RETURN;
    return (returns ? part_halo_sent : part_halo_received)(own, halo_edges(direction), hop);
}

struct part_rows halo_rows_out(const struct part_halo *own, enum halo_direction direction, int32_t hop)
{
    bool returns = direction == HALO_DIRECTION_RETURN;
    return (returns ? part_halo_received : part_halo_sent)(own, halo_edges(direction), hop);
}

int32_t halo_list_hop(const struct part_dedup *dedup, const struct program *program, const struct op *op,
                      const struct halo_pass *pass)
{
    return dedup != NULL && dedup->covers ? program->value[op->out].hop : halo_pass_hop(program, op, pass);
}

int64_t halo_n_pair(const struct part_halo *own)
{
    return larger(own->pairs[PART_DIRECTION_IN].n_pair, own->pairs[PART_DIRECTION_OUT].n_pair);
}

int64_t halo_n_received(const struct part_halo *own)
{
    const struct part_rows received = part_halo_received(own, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
    return part_rows_all(&received);
}

int64_t halo_n_sent(const struct part_halo *own)
{
    const struct part_rows sent = part_halo_sent(own, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
    return part_rows_all(&sent);
}

int64_t halo_n_drawn(const struct part_halo *own)
{
    int64_t n_in = own->pairs[PART_DIRECTION_IN].n_pair, n_out = own->pairs[PART_DIRECTION_OUT].n_pair;
    return (n_in + n_out) * (own->n_hop + 1) + n_in + 1;
}

struct part_rows halo_owners_in(const struct halo_owners *owners, int32_t i, enum halo_direction direction,
                                int32_t hop)
{
    struct part_rows rows = halo_rows_in(owners->own[i], direction, hop);
    if (owners->drawn != NULL) {
        rows.drawn = direction == HALO_DIRECTION_RETURN ? owners->drawn[i].sent : owners->drawn[i].received;
    }
    return rows;
}

struct part_rows halo_owners_out(const struct halo_owners *owners, int32_t i, enum halo_direction direction,
                                 int32_t hop)
{
    struct part_rows rows = halo_rows_out(owners->own[i], direction, hop);
    if (owners->drawn != NULL) {
        rows.drawn = direction == HALO_DIRECTION_RETURN ? owners->drawn[i].received : owners->drawn[i].sent;
    }
    return rows;
}

/* --- the memory of routes --- */

/* Pairs with parts of other ranks. */
static int64_t n_remote(const struct halo_owners *owners, enum part_direction d)
{
    int64_t n = 0;
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        const struct part_pairs *pairs = &owners->own[i]->pairs[d];
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            n += owners->rank_of_part[pairs->pair[k].part] != owners->rank;
        }
    }
    return n;
}

static int64_t routes_most(const struct halo_owners *owners)
{
    const struct part_dedup *dedup = owners->dedup;
    int64_t n_own = owners->n_own_part, pairs = 0, received = 0, sent = 0;
    if (dedup == NULL || dedup->scatters) { /* gradients that return are each pair's */
        pairs = larger(n_remote(owners, PART_DIRECTION_IN), n_remote(owners, PART_DIRECTION_OUT));
    }
    if (dedup != NULL) {
        received = PART_DEDUP_N_SIDE * (dedup->n_part - n_own);
        sent = PART_DEDUP_N_SIDE * n_own * (int64_t)(dedup->n_rank - 1);
    }
    return larger(pairs, larger(received, sent));
}

int64_t halo_routes_bytes(const struct halo_owners *owners)
{
    return 2 * routes_most(owners) * (int64_t)sizeof(struct halo_route);
}

void halo_routes_open(const struct halo_owners *owners, struct halo_routes *out)
{
    size_t n = (size_t)routes_most(owners);
    *out = (struct halo_routes){.take = memory_alloc(n, sizeof *out->take),
                                .give = memory_alloc(n, sizeof *out->give)};
}

void halo_routes_close(struct halo_routes *routes)
{
    free(routes->take);
    free(routes->give);
    *routes = (struct halo_routes){0};
}

/* --- a pass's --- */

/* One more route, unless it has no rows; to NULL: counted alone. */
static void route_add(struct halo_route *to, struct halo_route_sums *sums, const struct halo_route *route)
{
    if (route->n_row == 0) {
        return;
    }
    if (to != NULL) {
        to[sums->n] = *route;
    }
    sums->n++;
    sums->n_row += route->n_row;
    sums->most_row = larger(sums->most_row, route->n_row);
}

/* A pair's own rows, from or to another rank: own part i's pair k. */
static struct halo_route pair_route(const struct halo_owners *owners, int32_t i, int32_t k,
                                    const struct part_rows *rows, bool received)
{
    int32_t own = owners->own[i]->part, q = rows->pairs->pair[k].part;
    return (struct halo_route){.from = received ? q : own,
                               .to = received ? own : q,
                               .i = i,
                               .k = k,
                               .n_row = owners->rank_of_part[q] != owners->rank ? part_rows_at(rows, k) : 0};
}

static void pairs_list(const struct halo_owners *owners, enum halo_direction direction, int32_t hop,
                       struct halo_routes *out)
{
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        const struct part_rows in = halo_owners_in(owners, i, direction, hop),
                               of = halo_owners_out(owners, i, direction, hop);
        for (int32_t s = 1; s < in.pairs->n_pair; s++) {
            const struct halo_route route = pair_route(owners, i, (in.pairs->own + s) % in.pairs->n_pair, &in, true);
            route_add(out->take, &out->total.received, &route);
        }
        for (int32_t k = 0; k < of.pairs->n_pair; k++) {
            const struct halo_route route = pair_route(owners, i, k, &of, false);
            route_add(out->give, &out->total.sent, &route);
        }
    }
}

/* Takers with smaller numbers meet part q on their first way around the circle, the others on their second. */
static void dedup_take(const struct halo_owners *owners, enum part_direction d, int32_t hop, struct halo_routes *out)
{
    const struct part_dedup *dedup = owners->dedup;
    for (int side = 0; side < PART_DEDUP_N_SIDE; side++) {
        int32_t i = side == PART_DEDUP_BELOW ? 0 : owners->n_own_part - 1;
        for (int32_t q = 0; q < dedup->n_part; q++) {
            bool remote = owners->rank_of_part[q] != owners->rank;
            enum part_dedup_side of = (enum part_dedup_side)side;
            const struct halo_route route = {.from = q,
                                             .to = owners->own[i]->part,
                                             .i = i,
                                             .k = halo_route_taker(owners->rank, of),
                                             .is_dedup = true,
                                             .n_row = remote ? part_dedup_rows(dedup, d, q, owners->rank, of, hop)
                                                             : 0};
            route_add(out->take, &out->total.received, &route);
        }
    }
}

static void dedup_give(const struct halo_owners *owners, enum part_direction d, int32_t hop, struct halo_routes *out)
{
    const struct part_dedup *dedup = owners->dedup;
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        int32_t q = owners->own[i]->part;
        for (int32_t k = 0; k < (int32_t)dedup->n_rank * PART_DEDUP_N_SIDE; k++) {
            uint32_t rank = (uint32_t)(k / PART_DEDUP_N_SIDE);
            enum part_dedup_side side = (enum part_dedup_side)(k % PART_DEDUP_N_SIDE);
            const struct halo_route route = {
                .from = q,
                .to = -1,
                .i = i,
                .k = k,
                .is_dedup = true,
                .n_row = rank != owners->rank ? part_dedup_rows(dedup, d, q, rank, side, hop) : 0};
            route_add(out->give, &out->total.sent, &route);
        }
    }
}

void halo_routes_list(const struct halo_owners *owners, enum halo_direction direction, int32_t hop,
                      struct halo_routes *out)
{
    out->total = (struct halo_route_totals){0};
    if (owners->dedup == NULL || direction == HALO_DIRECTION_RETURN) {
        pairs_list(owners, direction, hop, out);
        return;
    }
    dedup_take(owners, halo_edges(direction), hop, out);
    dedup_give(owners, halo_edges(direction), hop, out);
}

struct halo_route_totals halo_routes_total(const struct halo_owners *owners, enum halo_direction direction,
                                           int32_t hop)
{
    struct halo_routes counted = {0};
    halo_routes_list(owners, direction, hop, &counted);
    return counted.total;
}

/* --- one of them --- */

/* Of n routes by own part, each part's from pair `first` on around the circle of n_pair. */
static struct halo_route *route_find(struct halo_route *route, int32_t n, int32_t first, int32_t n_pair, int32_t i,
                                     int32_t k)
{
    int32_t begin = 0, end = n, place = k < first ? k + n_pair : k;
    while (begin < end) {
        int32_t middle = begin + (end - begin) / 2;
        const struct halo_route *at = &route[middle];
        if (at->i < i || (at->i == i && (at->k < first ? at->k + n_pair : at->k) < place)) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < n && route[begin].i == i && route[begin].k == k ? &route[begin] : NULL;
}

struct halo_route *halo_routes_sent(const struct halo_routes *routes, int32_t i, int32_t k)
{
    return route_find(routes->give, routes->total.sent.n, 0, 0, i, k);
}

struct halo_route *halo_routes_received(const struct halo_routes *routes, const struct halo_owners *owners,
                                        enum halo_direction direction, int32_t i, int32_t k)
{
    const struct part_rows in = halo_rows_in(owners->own[i], direction, PROGRAM_HOP_ALL);
    return route_find(routes->take, routes->total.received.n, in.pairs->own, in.pairs->n_pair, i, k);
}
