#include "worker/state/payloads.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* Rows for each part first, then where each own part's begin among them. */
static void lay_out(struct payloads *p, const struct part_halo *const *own, enum halo_direction t)
{
    int32_t n_part = own[0]->n_part;
    int64_t *next = memory_alloc((size_t)n_part + 1, sizeof *next);
    for (int32_t i = 0; i < p->n_own; i++) {
        const struct part_rows out = halo_rows_out(own[i], t, PROGRAM_HOP_ALL);
        for (int32_t k = 0; k < out.pairs->n_pair; k++) {
            next[out.pairs->pair[k].part + 1] += part_rows_at(&out, k);
        }
    }
    for (int32_t to = 0; to < n_part; to++) {
        next[to + 1] += next[to];
    }
    for (int32_t i = 0; i < p->n_own; i++) {
        const struct part_rows out = halo_rows_out(own[i], t, PROGRAM_HOP_ALL);
        for (int32_t k = 0; k < out.pairs->n_pair; k++) {
            p->begin[t][p->n_before[i] + k] = next[out.pairs->pair[k].part];
            next[out.pairs->pair[k].part] += part_rows_at(&out, k);
        }
    }
    free(next);
}

enum status payloads_open(struct spill *spill, int64_t n_bytes, int64_t n_asked, const struct part_halo *const *own,
                          int32_t n_own, struct payloads **out)
{
    struct payloads *p = memory_alloc(1, sizeof *p);
    *p = (struct payloads){.spill = spill, .n_own = n_own};
    p->made = memory_alloc((size_t)n_own, sizeof *p->made);
    p->asked_made = memory_alloc((size_t)n_own, sizeof *p->asked_made);
    p->n_before = memory_alloc((size_t)n_own + 1, sizeof *p->n_before);
    for (int32_t i = 0; i < n_own; i++) {
        p->n_before[i + 1] = p->n_before[i] + halo_n_pair(own[i]);
    }
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        p->begin[t] = memory_alloc((size_t)p->n_before[n_own], sizeof *p->begin[t]);
        memory_count(MEMORY_STRUCTURE, p->n_before[n_own] * (int64_t)sizeof *p->begin[t]);
        lay_out(p, own, (enum halo_direction)t);
    }
    *out = p;
    enum status status = spill_take(spill, n_bytes, &p->at);
    return status == STATUS_OK && n_asked > 0 ? spill_take(spill, n_asked, &p->asked_at) : status;
}

void payloads_close(struct payloads *p)
{
    if (p == NULL) {
        return;
    }
    for (int t = 0; t < HALO_DIRECTION_N; t++) {
        memory_count(MEMORY_STRUCTURE, -p->n_before[p->n_own] * (int64_t)sizeof *p->begin[t]);
        free(p->begin[t]);
    }
    free(p->n_before);
    free(p->made);
    free(p->asked_made);
    free(p);
}

struct spill_range payloads_range(const struct payloads *p, enum halo_direction direction, int32_t i, int32_t k,
                                  int64_t n_bytes, int64_t row_bytes, enum spill_access access)
{
    int64_t begin = p->begin[direction][p->n_before[i] + k];
    return (struct spill_range){.at = p->at + begin * row_bytes, .n_bytes = n_bytes, .access = access};
}

struct spill_range payloads_asked_range(const struct payloads *p, int32_t i, int32_t k, int64_t n_bytes,
                                        int64_t row_bytes, enum spill_access access)
{
    int64_t begin = p->begin[HALO_DIRECTION_IN][p->n_before[i] + k];
    return (struct spill_range){.at = p->asked_at + begin * row_bytes, .n_bytes = n_bytes, .access = access};
}

void payloads_reset(struct payloads *p)
{
    for (int32_t i = 0; i < p->n_own; i++) {
        p->made[i] = p->asked_made[i] = false;
    }
}
