#include "worker/plan/halo_rows.h"

#include "protocol/memory.h"

#include <stdlib.h>

static void counts_alloc(int32_t n_part, int32_t part, int32_t n_hop, struct halo_counts *out)
{
    *out = (struct halo_counts){.part = part, .n_part = n_part, .n_hop = n_hop};
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out->take[d] = memory_alloc((size_t)n_part * (1 + (size_t)n_hop), sizeof(int64_t));
        out->give[d] = memory_alloc((size_t)n_part * (1 + (size_t)n_hop), sizeof(int64_t));
    }
}

void halo_counts_from_part(const struct part *part, struct halo_counts *out)
{
    int32_t n_part = part->n_part;
    counts_alloc(n_part, part->part, part->n_hop, out);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t q = 0; q < n_part; q++) {
            if (q == part->part) {
                continue;
            }
            out->take[d][q] = part->block[d][q].n_col;
            out->give[d][q] = part->send[d][q].n_row;
            for (int32_t l = 0; l < part->n_hop; l++) {
                out->take[d][(l + 1) * (int64_t)n_part + q] = part_rows_taken(part, (enum part_direction)d, q, l);
                out->give[d][(l + 1) * (int64_t)n_part + q] = part_rows_given(part, (enum part_direction)d, q, l);
            }
        }
    }
}

void halo_counts_from_sizes(const struct part_sizes *sizes, int32_t n_part, int32_t part, struct halo_counts *out)
{
    counts_alloc(n_part, part, sizes[part].n_hop, out);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t q = 0; q < n_part; q++) {
            if (q == part) {
                continue;
            }
            out->take[d][q] = sizes[part].n_payload[d][q];
            out->give[d][q] = sizes[q].n_payload[d][part];
            for (int64_t l = 0; l < out->n_hop; l++) {
                out->take[d][(l + 1) * n_part + q] = sizes[part].n_payload_hop[d][l * n_part + q];
                out->give[d][(l + 1) * n_part + q] = sizes[q].n_payload_hop[d][l * n_part + part];
            }
        }
    }
}

void halo_counts_release(struct halo_counts *part)
{
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        free(part->take[d]);
        free(part->give[d]);
    }
    *part = (struct halo_counts){0};
}

/* Where part `other` stands in the counts of a hop. */
static int64_t place(const struct halo_counts *own, int32_t other, int32_t hop)
{
    return hop < own->n_hop ? (hop + 1) * (int64_t)own->n_part + other : other;
}

int64_t halo_rows_in(const struct halo_counts *own, int32_t other, enum halo_direction direction, int32_t hop)
{
    int64_t at = place(own, other, hop);
    switch (direction) {
    case HALO_DIRECTION_IN:
        return own->take[PART_DIRECTION_IN][at];
    case HALO_DIRECTION_OUT:
        return own->take[PART_DIRECTION_OUT][at];
    default:
        return own->give[PART_DIRECTION_IN][at];
    }
}

int64_t halo_rows_out(const struct halo_counts *own, int32_t other, enum halo_direction direction, int32_t hop)
{
    int64_t at = place(own, other, hop);
    switch (direction) {
    case HALO_DIRECTION_IN:
        return own->give[PART_DIRECTION_IN][at];
    case HALO_DIRECTION_OUT:
        return own->give[PART_DIRECTION_OUT][at];
    default:
        return own->take[PART_DIRECTION_IN][at];
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void halo_list_build(const struct halo_owners *owners, enum halo_direction direction, int32_t hop, struct halo_list *out)
{
    const struct halo_counts *own = owners->own;
    int32_t n_part = owners->n_part;
    *out = (struct halo_list){0};
    out->fetch = memory_alloc((size_t)owners->n_own_part * (size_t)n_part, sizeof *out->fetch);
    for (int32_t i = 0; i < owners->n_own_part; i++) {
        int32_t to = own[i].part;
        for (int32_t step = 1; step < n_part; step++) {
            int32_t other = (to + step) % n_part;
            if (owners->rank_of_part[other] == owners->rank) {
                continue;
            }
            int64_t in = halo_rows_in(&own[i], other, direction, hop);
            int64_t give = halo_rows_out(&own[i], other, direction, hop);
            if (in > 0) {
                out->fetch[out->n_fetch++] = (struct halo_fetch){.to = to, .from = other, .n_row = in};
                out->n_fetch_row += in;
                out->most_fetch_row = larger(out->most_fetch_row, in);
            }
            if (give > 0) {
                out->n_serve++;
                out->n_serve_row += give;
                out->most_serve_row = larger(out->most_serve_row, give);
            }
        }
    }
}

void halo_list_release(struct halo_list *list)
{
    free(list->fetch);
    *list = (struct halo_list){0};
}
