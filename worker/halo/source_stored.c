/* Rows of other parts that the own part makes for itself, of inputs that are stored with it: halo rows of the value, behind own rows. So are
 * the gradients that it makes of them, which add to the part's own gradients of parameters: nothing travels. */
#include "worker/halo/source.h"
#include "worker/run/stored.h"

/* Own edges; backward over the transposed blocks. */
static void diagonal_point(struct halo *h, int32_t i, struct op_call *call)
{
    const struct part_device *part = &h->trainer->part[i];
    enum part_direction d = h->pass->transposed ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    h->block = part_device_block(part, d, h->hop, part->part->halo.pairs[d].own, PART_COLUMNS_OWN);
    call->block = &h->block;
    call->col_scale = part->scale;
    call->col_node = part->node;
    call->payload[0] = call->own[0];
}

/* Gradients of the pair's rows: over its own edges, transposed, of own rows'. */
static void gradients_point(struct halo *h, const struct halo_pair *pair, const struct device_block *block, float *rows,
                            struct op_call *call)
{
    const struct trainer *t = h->trainer;
    void *scratch = halo_workspace(h, h->workspace->sample_at);
    t->ops->block_transpose(t->device, block, t->part[pair->i].part->n_own, scratch, &h->block);
    call->n = trainer_rows(t, h->hop, pair->i);
    call->n_row = block->n_col;
    call->packed = rows;
}

static enum status stored_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct part_device *part = &h->trainer->part[pair->i];
    if (pair->i == pair->j) {
        diagonal_point(h, pair->i, call);
        return STATUS_OK;
    }
    const struct device_block block = stored_block(h->trainer, pair->i, h->hop, pair->k);
    int64_t first = (part->part->n_own + stored_rows_before(h->trainer, pair->i, pair->k)) * call->f;
    call->block = &h->block;
    call->col_scale = part_device_col_scale(part, PART_DIRECTION_IN, pair->k);
    call->col_node = part_device_col_node(part, PART_DIRECTION_IN, pair->k);
    if (h->step->backward) {
        gradients_point(h, pair, &block, call->grad_in[0] + first, call);
    } else {
        h->block = block;
        call->payload[0] = call->own[0] + first;
    }
    return STATUS_OK;
}

const struct payload_source source_stored = {.take = stored_take};
