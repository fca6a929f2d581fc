#include "worker/halo/payloads.h"

#include "protocol/memory.h"

#include <stdlib.h>

static void lay_out(struct payloads *p, const struct halo_counts *const *own)
{
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        int64_t n_row = 0;
        p->begin[t] = memory_alloc((size_t)p->n_own * (size_t)p->n_part, sizeof *p->begin[t]);
        for (int32_t to = 0; to < p->n_part; to++) {
            for (int32_t i = 0; i < p->n_own; i++) {
                p->begin[t][i * (int64_t)p->n_part + to] = n_row;
                n_row += own[i]->part != to ? halo_rows_out(own[i], to, (enum halo_direction)t, PROGRAM_HOP_ALL) : 0;
            }
        }
    }
}

enum status payloads_open(struct spill *spill, int64_t n_bytes, const struct halo_counts *const *own, int32_t n_own,
                          int32_t n_part, struct payloads **out)
{
    struct payloads *p = memory_alloc(1, sizeof *p);
    *p = (struct payloads){.spill = spill, .n_own = n_own, .n_part = n_part};
    p->made = memory_alloc((size_t)n_own, sizeof *p->made);
    lay_out(p, own);
    *out = p;
    return spill_take(spill, n_bytes, &p->at);
}

void payloads_close(struct payloads *p)
{
    if (p == NULL) {
        return;
    }
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        free(p->begin[t]);
    }
    free(p->made);
    free(p);
}

struct spill_range payloads_range(const struct payloads *p, enum halo_direction direction, int32_t i, int32_t to, int64_t n_row,
                                  int64_t row_bytes)
{
    int64_t begin = p->begin[direction][i * (int64_t)p->n_part + to];
    return (struct spill_range){.at = p->at + begin * row_bytes, .n_bytes = n_row * row_bytes};
}

void payloads_reset(struct payloads *p)
{
    for (int32_t i = 0; i < p->n_own; i++) {
        p->made[i] = false;
    }
}
