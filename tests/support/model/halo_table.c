#include "tests/support/model/halo_table.h"

#include "protocol/base/log.h"

static bool is_listed(int32_t n_part, const int64_t *in, const int64_t *out, int32_t p, int32_t q)
{
    int32_t to = p * n_part + q, from = q * n_part + p;
    return q == p || in[to] + in[from] + out[to] + out[from] > 0;
}

/* Part p's rows in its block with part q of this direction: own ones that q takes in the other one, and rows of q. */
static void pair_add(int32_t n_part, const int64_t *received, const int64_t *sent, int32_t p, int32_t q,
                     struct part_pair *at)
{
    bool own = q == p;
    at->part = q;
    at[1] = (struct part_pair){.row = at->row + (own ? 0 : sent[q * n_part + p]),
                               .col = at->col + (uint32_t)(own ? 0 : received[p * n_part + q])};
}

void halo_table(int32_t n_part, const int64_t *in, const int64_t *out, int32_t p, struct part_halo *halo)
{
    int32_t n_pair = 0;
    *halo = (struct part_halo){.part = p, .n_part = n_part};
    for (int32_t q = 0; q < n_part; q++) {
        n_pair += is_listed(n_part, in, out, p, q);
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        struct part_pairs *pairs = &halo->pairs[d];
        int32_t k = 0;
        ASSERT(part_halo_acquire(halo, (enum part_direction)d, n_pair) == STATUS_OK);
        for (int32_t q = 0; q < n_part; q++) {
            if (is_listed(n_part, in, out, p, q)) {
                pairs->own = q == p ? k : pairs->own;
                pair_add(n_part, d == PART_DIRECTION_IN ? in : out, d == PART_DIRECTION_IN ? out : in, p, q,
                         &pairs->pair[k++]);
            }
        }
    }
}
