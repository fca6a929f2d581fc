#include "worker/travel.h"

#include "protocol/memory.h"

#include <stdlib.h>

static void counts_alloc(int32_t n_part, int32_t part, struct travel_part *out)
{
    out->part = part;
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out->take[d] = memory_alloc((size_t)n_part, sizeof(int64_t));
        out->give[d] = memory_alloc((size_t)n_part, sizeof(int64_t));
    }
}

void travel_part_from_part(const struct part *part, struct travel_part *out)
{
    counts_alloc(part->n_part, part->part, out);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t q = 0; q < part->n_part; q++) {
            if (q != part->part) {
                out->take[d][q] = part->block[d][q].n_col;
                out->give[d][q] = part->send[d][q].n_row;
            }
        }
    }
}

void travel_part_from_sizes(const struct part_sizes *sizes, int32_t n_part, int32_t part, struct travel_part *out)
{
    counts_alloc(n_part, part, out);
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        for (int32_t q = 0; q < n_part; q++) {
            if (q != part) {
                out->take[d][q] = sizes[part].n_payload[d][q];
                out->give[d][q] = sizes[q].n_payload[d][part];
            }
        }
    }
}

void travel_part_release(struct travel_part *part)
{
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        free(part->take[d]);
        free(part->give[d]);
    }
    *part = (struct travel_part){0};
}

int64_t travel_rows_in(const struct travel_part *own, int32_t other, enum travel travel)
{
    switch (travel) {
    case TRAVEL_IN:
        return own->take[PART_DIRECTION_IN][other];
    case TRAVEL_OUT:
        return own->take[PART_DIRECTION_OUT][other];
    default:
        return own->give[PART_DIRECTION_IN][other];
    }
}

int64_t travel_rows_out(const struct travel_part *own, int32_t other, enum travel travel)
{
    switch (travel) {
    case TRAVEL_IN:
        return own->give[PART_DIRECTION_IN][other];
    case TRAVEL_OUT:
        return own->give[PART_DIRECTION_OUT][other];
    default:
        return own->take[PART_DIRECTION_IN][other];
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void travel_list_build(const struct travel_part *own, int32_t n_own_part, int32_t n_part, const uint32_t *rank_of_part,
                       uint32_t rank, enum travel travel, struct travel_list *out)
{
    *out = (struct travel_list){0};
    out->fetch = memory_alloc((size_t)n_own_part * (size_t)n_part, sizeof *out->fetch);
    for (int32_t i = 0; i < n_own_part; i++) {
        int32_t to = own[i].part;
        for (int32_t step = 1; step < n_part; step++) {
            int32_t other = (to + step) % n_part;
            if (rank_of_part[other] == rank) {
                continue;
            }
            int64_t in = travel_rows_in(&own[i], other, travel);
            int64_t give = travel_rows_out(&own[i], other, travel);
            if (in > 0) {
                out->fetch[out->n_fetch++] = (struct travel_fetch){.to = to, .from = other, .n_row = in};
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

void travel_list_release(struct travel_list *list)
{
    free(list->fetch);
    *list = (struct travel_list){0};
}
