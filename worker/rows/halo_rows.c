#include "worker/rows/halo_rows.h"

#include "worker/rows/amounts.h"

struct part_rows halo_rows_in(const struct part_halo *own, enum halo_direction direction, int32_t hop)
{
    switch (direction) {
    case HALO_DIRECTION_IN:
        return part_halo_taken(own, PART_DIRECTION_IN, hop);
    case HALO_DIRECTION_OUT:
        return part_halo_taken(own, PART_DIRECTION_OUT, hop);
    default:
        return part_halo_given(own, PART_DIRECTION_IN, hop);
    }
}

struct part_rows halo_rows_out(const struct part_halo *own, enum halo_direction direction, int32_t hop)
{
    switch (direction) {
    case HALO_DIRECTION_IN:
        return part_halo_given(own, PART_DIRECTION_IN, hop);
    case HALO_DIRECTION_OUT:
        return part_halo_given(own, PART_DIRECTION_OUT, hop);
    default:
        return part_halo_taken(own, PART_DIRECTION_IN, hop);
    }
}

int32_t halo_list_hop(const struct part_shared *shared, const struct program *program, const struct op *op,
                      const struct halo_pass *pass)
{
    return shared != NULL && shared->covers ? program->value[op->out].hop : halo_pass_hop(program, op, pass);
}

int64_t halo_n_flag(const struct part_halo *own)
{
    return larger(own->pairs[PART_DIRECTION_IN].n_pair, own->pairs[PART_DIRECTION_OUT].n_pair);
}

int64_t halo_n_taker(const struct part_halo *own, uint32_t n_rank, const struct part_shared *shared)
{
    int64_t by_rank = shared != NULL ? (int64_t)n_rank * PART_SHARED_N_SIDE : 0;
    int64_t by_pair = n_rank > 1 && (shared == NULL || shared->spreads) ? halo_n_flag(own) : 0;
    return larger(by_rank, by_pair);
}

int64_t halo_n_taken(const struct part_halo *own)
{
    const struct part_rows taken = part_halo_taken(own, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
    return part_rows_all(&taken);
}

int64_t halo_n_given(const struct part_halo *own)
{
    const struct part_rows given = part_halo_given(own, PART_DIRECTION_IN, PROGRAM_HOP_ALL);
    return part_rows_all(&given);
}

int64_t halo_sample_bytes(const struct part_halo *own, int64_t *lists_out)
{
    int64_t n_bytes = *lists_out = (halo_n_taken(own) + halo_n_given(own)) * (int64_t)sizeof(uint32_t);
    int n_direction = own->symmetric ? 1 : PART_DIRECTION_N;
    for (int d = 0; d < n_direction; d++) {
        n_bytes += part_pairs_bytes(own->pairs[d].n_pair, own->n_hop);
    }
    return n_bytes;
}

/* Rows of pair k that go between ranks. */
static int64_t remote_rows(const struct halo_owners *owners, const struct part_rows *rows, int32_t k)
{
    return owners->rank_of_part[rows->pairs->pair[k].part] != owners->rank ? part_rows_at(rows, k) : 0;
}

/* Payloads of one way. */
struct payload_count {
    int32_t n;
    int64_t n_row, most;
};

static void payload_add(struct payload_count *count, int64_t n_row)
{
    count->n += n_row > 0;
    count->n_row += n_row;
    count->most = larger(count->most, n_row);
}

static struct halo_list list_of(const struct payload_count *fetch, const struct payload_count *serve)
{
    return (struct halo_list){.n_fetch = fetch->n,
                              .n_fetch_row = fetch->n_row,
                              .most_fetch_row = fetch->most,
                              .n_serve = serve->n,
                              .n_serve_row = serve->n_row,
                              .most_serve_row = serve->most};
}

static struct halo_list shared_list_count(const struct halo_owners *owners, enum part_direction d, int32_t hop)
{
    const struct part_shared *shared = owners->shared;
    struct payload_count fetch = {0}, serve = {0};
    for (int32_t i = 0; i < shared->n_part * PART_SHARED_N_SIDE; i++) {
        int32_t q = i / PART_SHARED_N_SIDE;
        enum part_shared_side side = i % PART_SHARED_N_SIDE == 0 ? PART_SHARED_BELOW : PART_SHARED_ABOVE;
        if (owners->rank_of_part[q] != owners->rank) {
            payload_add(&fetch, part_shared_rows(shared, d, q, owners->rank, side, hop));
            continue;
        }
        for (uint32_t rank = 0; rank < shared->n_rank; rank++) {
            payload_add(&serve, rank != owners->rank ? part_shared_rows(shared, d, q, rank, side, hop) : 0);
        }
    }
    return list_of(&fetch, &serve);
}

struct halo_list halo_list_count(const struct halo_owners *owners, enum halo_direction direction, int32_t hop)
{
    struct payload_count fetch = {0}, serve = {0};
    if (owners->shared != NULL && direction != HALO_DIRECTION_RETURN) {
        return shared_list_count(owners, halo_edges(direction), hop);
    }
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        const struct part_rows in = halo_rows_in(owners->own[i], direction, hop);
        const struct part_rows out = halo_rows_out(owners->own[i], direction, hop);
        for (int32_t k = 0; k < in.pairs->n_pair; k++) {
            payload_add(&fetch, remote_rows(owners, &in, k));
        }
        for (int32_t k = 0; k < out.pairs->n_pair; k++) {
            payload_add(&serve, remote_rows(owners, &out, k));
        }
    }
    return list_of(&fetch, &serve);
}

/* Takers with smaller numbers meet part q on their first way around the circle, the others on their second. */
static bool shared_fetch_next(const struct halo_owners *owners, enum part_direction d, int32_t hop,
                              struct halo_cursor *at, struct halo_fetch *out)
{
    const struct part_shared *shared = owners->shared;
    int32_t n_part = shared->n_part;
    for (; at->i < 2 * n_part; at->i++) {
        int32_t q = at->i % n_part;
        enum part_shared_side side = at->i < n_part ? PART_SHARED_BELOW : PART_SHARED_ABOVE;
        int64_t n_row = part_shared_rows(shared, d, q, owners->rank, side, hop);
        if (owners->rank_of_part[q] != owners->rank && n_row > 0) {
            int32_t to = owners->own[side == PART_SHARED_BELOW ? 0 : owners->n_own_part - 1]->part;
            *out = (struct halo_fetch){.to = to, .from = q, .n_row = n_row};
            at->i++;
            return true;
        }
    }
    return false;
}

bool halo_fetch_next(const struct halo_owners *owners, enum halo_direction direction, int32_t hop,
                     struct halo_cursor *at, struct halo_fetch *out)
{
    if (owners->shared != NULL && direction != HALO_DIRECTION_RETURN) {
        return shared_fetch_next(owners, halo_edges(direction), hop, at, out);
    }
    for (; at->i < owners->n_own_part; at->i++, at->s = 0) {
        const struct part_rows in = halo_rows_in(owners->own[at->i], direction, hop);
        while (++at->s < in.pairs->n_pair) {
            int32_t k = (in.pairs->own + at->s) % in.pairs->n_pair;
            int64_t n_row = remote_rows(owners, &in, k);
            if (n_row > 0) {
                *out = (struct halo_fetch){
                    .to = owners->own[at->i]->part, .from = in.pairs->pair[k].part, .n_row = n_row};
                return true;
            }
        }
    }
    return false;
}
