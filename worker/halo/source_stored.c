/* Rows of other parts that the own part makes for itself, of inputs that are stored with it: halo rows of the value,
 * behind own rows. So are the gradients that it makes of them, which add to the part's own gradients of parameters:
 * nothing travels. */
#include "worker/halo/source.h"
#include "worker/route/stored.h"

#include <string.h>

/* Own edges; where gradients are made, over the transposed blocks. */
static void diagonal_point(struct halo *h, int32_t i, struct op_call *call)
{
    const struct part_device *part = &h->trainer->own.part[i];
    enum part_direction d = h->pass->transposed ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    h->block = part_device_block(part, d, h->hop.blocks, part->part->halo.pairs[d].own, PART_COLUMNS_OWN);
    call->pass.block = &h->block;
    call->pass.col_scale = part->scale;
    call->pass.col_node = part->node;
    memcpy(call->pass.payload, call->pass.own, sizeof call->pass.payload);
}

/* The pair's rows of what the pass reads, of which `first` halo and own rows come before. */
static void rows_point(const struct halo *h, int64_t first, struct op_call *call)
{
    bool returns = h->pass->direction == HALO_DIRECTION_RETURN;
    for (int k = 0; k < (returns ? h->pass->n_ask : h->pass->n_piece); k++) {
        int64_t width = returns ? halo_ask_width(&h->trainer->program, h->op, h->pass, k) : h->width[k];
        const float *rows = call->array[returns ? h->pass->ask[k] : h->pass->piece[k]];
        call->pass.payload[k] = width > 0 ? rows + first * width : NULL;
    }
}

/* Gradients of the pair's rows: over its own edges, transposed, of own rows'. */
static void gradients_point(struct halo *h, const struct halo_pair *pair, const struct device_block *block,
                            int64_t first, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    void *scratch = halo_workspace(h, h->workspace->sample_at);
    t->ops->block_transpose(t->device, block, t->own.part[pair->i].part->n_own, scratch, &h->block);
    call->n = trainer_rows(t, h->hop.blocks, pair->i);
    call->pass.back.n_row = block->n_col;
    call->pass.back.packed = call->grad_in[0] + first * call->f;
    if (call->grad_in[1] != NULL) {
        call->pass.back.packed_key = call->grad_in[1] + first * t->program.value[h->op->in[1]].width;
    }
}

static enum status stored_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct part_device *part = &h->trainer->own.part[pair->i];
    if (pair->i == pair->j) {
        diagonal_point(h, pair->i, call);
        return STATUS_OK;
    }
    const struct device_block block = stored_block(h->trainer->routes.stored, pair->i, h->hop.blocks, pair->k);
    int64_t first = part->part->n_own + stored_rows_before(h->trainer->routes.stored, pair->i, pair->k);
    call->pass.block = &h->block;
    call->pass.col_scale = part_device_col_scale(part, PART_DIRECTION_IN, pair->k);
    call->pass.col_node = part_device_col_node(part, PART_DIRECTION_IN, pair->k);
    rows_point(h, first, call);
    h->block = block;
    if (h->pass->direction == HALO_DIRECTION_RETURN) {
        gradients_point(h, pair, &block, first, call);
    }
    return STATUS_OK;
}

const struct payload_source source_replicated = {.take = stored_take};
