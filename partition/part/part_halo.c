#include "partition/part/part_halo.h"

#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

static size_t n_hop_entry(const struct part_pairs *pairs, int32_t n_hop)
{
    return (size_t)pairs->n_pair * (size_t)n_hop;
}

enum status part_halo_acquire(struct part_halo *halo, enum part_direction d, int32_t n_pair)
{
    struct part_pairs *pairs = &halo->pairs[d];
    pairs->n_pair = n_pair;
    size_t n_hop = n_hop_entry(pairs, halo->n_hop);
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_pair + 1, sizeof *pairs->pair, &pairs->pair);
    if (status == STATUS_OK && n_hop > 0) {
        status = memory_acquire(MEMORY_STRUCTURE, n_hop, sizeof *pairs->n_row_hop, &pairs->n_row_hop);
    }
    if (status == STATUS_OK && n_hop > 0) {
        status = memory_acquire(MEMORY_STRUCTURE, n_hop, sizeof *pairs->n_col_hop, &pairs->n_col_hop);
    }
    return status;
}

void part_halo_mirror(struct part_halo *halo)
{
    if (halo->symmetric) {
        halo->pairs[PART_DIRECTION_OUT] = halo->pairs[PART_DIRECTION_IN];
    }
}

void part_halo_release(struct part_halo *halo)
{
    int n_direction = halo->symmetric ? 1 : PART_DIRECTION_N;
    for (int d = n_direction - 1; d >= 0; d--) {
        struct part_pairs *pairs = &halo->pairs[d];
        size_t n_hop = n_hop_entry(pairs, halo->n_hop);
        memory_release(MEMORY_STRUCTURE, pairs->pair, (size_t)pairs->n_pair + 1, sizeof *pairs->pair);
        memory_release(MEMORY_STRUCTURE, pairs->n_row_hop, n_hop, sizeof *pairs->n_row_hop);
        memory_release(MEMORY_STRUCTURE, pairs->n_col_hop, n_hop, sizeof *pairs->n_col_hop);
    }
    *halo = (struct part_halo){0};
}

int64_t part_pairs_bytes(int32_t n_pair, int32_t n_hop)
{
    return (n_pair + (int64_t)1) * (int64_t)sizeof(struct part_pair) +
           2 * (int64_t)n_pair * n_hop * (int64_t)sizeof(uint32_t);
}

int32_t part_pair_find(const struct part_pairs *pairs, int32_t q)
{
    int32_t n = pairs->n_pair, n_missing = pairs->pair[n - 1].part - (n - 1); /* of the parts below the last */
    int32_t begin = q > n_missing ? q - n_missing : 0, end = q < n ? q + 1 : n;
    while (begin < end) {
        int32_t middle = begin + (end - begin) / 2, part = pairs->pair[middle].part;
        if (part == q) {
            return middle;
        }
        if (part < q) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return -1;
}

struct part_rows part_halo_received(const struct part_halo *halo, enum part_direction d, int32_t hop)
{
    return (struct part_rows){.pairs = &halo->pairs[d], .cols = true, .n_hop = halo->n_hop, .hop = hop};
}

struct part_rows part_halo_sent(const struct part_halo *halo, enum part_direction d, int32_t hop)
{
    return (struct part_rows){.pairs = &halo->pairs[PART_DIRECTION_N - 1 - d], .n_hop = halo->n_hop, .hop = hop};
}

int64_t part_rows_with(const struct part_rows *rows, int32_t q)
{
    int32_t k = part_pair_find(rows->pairs, q);
    return k >= 0 ? part_rows_at(rows, k) : 0;
}

int64_t part_rows_all(const struct part_rows *rows)
{
    int64_t n = 0;
    for (int32_t k = 0; k < rows->pairs->n_pair; k++) {
        n += part_rows_at(rows, k);
    }
    return n;
}

int64_t part_rows_most(const struct part_rows *rows)
{
    int64_t most = 0;
    for (int32_t k = 0; k < rows->pairs->n_pair; k++) {
        most = larger(most, part_rows_at(rows, k));
    }
    return most;
}
