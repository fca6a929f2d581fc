#include "worker/plan/halo_rows.h"

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

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t halo_n_flag(const struct part_halo *own)
{
    return larger(own->pairs[PART_DIRECTION_IN].n_pair, own->pairs[PART_DIRECTION_OUT].n_pair);
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

int64_t halo_sample_bytes(const struct part_halo *own)
{
    int64_t n_bytes = (halo_n_taken(own) + halo_n_given(own)) * (int64_t)sizeof(uint32_t);
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

struct halo_list halo_list_count(const struct halo_owners *owners, enum halo_direction direction, int32_t hop)
{
    struct halo_list list = {0};
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        const struct part_rows in = halo_rows_in(owners->own[i], direction, hop);
        const struct part_rows out = halo_rows_out(owners->own[i], direction, hop);
        for (int32_t k = 0; k < in.pairs->n_pair; k++) {
            int64_t n_row = remote_rows(owners, &in, k);
            list.n_fetch += n_row > 0;
            list.n_fetch_row += n_row;
            list.most_fetch_row = larger(list.most_fetch_row, n_row);
        }
        for (int32_t k = 0; k < out.pairs->n_pair; k++) {
            int64_t n_row = remote_rows(owners, &out, k);
            list.n_serve += n_row > 0;
            list.n_serve_row += n_row;
            list.most_serve_row = larger(list.most_serve_row, n_row);
        }
    }
    return list;
}

bool halo_fetch_next(const struct halo_owners *owners, enum halo_direction direction, int32_t hop, struct halo_cursor *at,
                     struct halo_fetch *out)
{
    for (; at->i < owners->n_own_part; at->i++, at->s = 0) {
        const struct part_rows in = halo_rows_in(owners->own[at->i], direction, hop);
        while (++at->s < in.pairs->n_pair) {
            int32_t k = (in.pairs->own + at->s) % in.pairs->n_pair;
            int64_t n_row = remote_rows(owners, &in, k);
            if (n_row > 0) {
                *out = (struct halo_fetch){.to = owners->own[at->i]->part, .from = in.pairs->pair[k].part, .n_row = n_row};
                return true;
            }
        }
    }
    return false;
}
