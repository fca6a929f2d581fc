/* What boundary-node sampling adds to a plan: scratch for a block's sample. */
#include "worker/plan/memory_plan.h"
#include "worker/rows/amounts.h"

#define WORKSPACE_ALIGN 64

/* Bytes of an edge in a block's arrays. */
static size_t edge_bytes(const struct memory_plan_input *in, const struct memory_plan_part *own)
{
    bool typed = in->program->n_relation > 0;
    return sizeof(uint32_t) + (typed ? sizeof(uint16_t) : 0) + (typed || own->weighted ? sizeof(float) : 0);
}

struct memory_sample memory_plan_sample(const struct memory_plan_input *in)
{
    struct memory_sample out = {0};
    bool samples = in->program->samples;
    for (int32_t i = 0; program_is_lossy(in->program) && i < in->n_own_part; i++) {
        const struct part_pairs *pairs = &in->own[i].halo->pairs[PART_DIRECTION_IN];
        size_t each = edge_bytes(in, &in->own[i]);
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            if (k != pairs->own) {
                int64_t n_row = part_pair_rows(pairs, k), n_col = part_pair_cols(pairs, k),
                        n_edge = part_pair_edges(pairs, k);
                int64_t block = (int64_t)DEVICE_BYTES(in->ops, BLOCK_MADE, n_row, n_col, n_edge, each);
                int64_t transposed = (int64_t)DEVICE_BYTES(in->ops, BLOCK_MADE, n_col, n_row, n_edge, each);
                int64_t numbers = samples ? n_col * (int64_t)sizeof(float) : 0;
                out.n_number_bytes = larger(out.n_number_bytes, round_up(numbers, WORKSPACE_ALIGN));
                out.n_block_bytes = larger(out.n_block_bytes, samples ? round_up(block, WORKSPACE_ALIGN) : 0);
                out.n_transposed_bytes = larger(out.n_transposed_bytes, round_up(transposed, WORKSPACE_ALIGN));
            }
        }
    }
    return out;
}
