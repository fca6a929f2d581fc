/* Rows of parts in the same process: read in place, or packed in scratch where the aggregate wants payload rows. */
#include "worker/halo/source.h"
#include "worker/route/dedup.h"
#include "worker/route/sample.h"

/* Own rows on the diagonal; else the other part's rows where they lie, through blocks whose columns are those
 * rows. */
static enum status in_place_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    const struct part_device *other = &t->own.part[pair->j];
    enum part_direction d = h->pass->transposed ? PART_DIRECTION_OUT : halo_edges(h->pass->direction);
    h->block = part_device_block(&t->own.part[pair->i], d, h->hop.blocks, pair->k, PART_COLUMNS_OWN);
    if (pair->i != pair->j) {
        h->block.n_col = other->part->n_own;
    }
    call->pass.block = &h->block;
    call->pass.col_scale = other->scale;
    call->pass.col_node = other->node;
    call->pass.payload_bf16 = call->pass.own_bf16;
    for (int p = 0; p < HALO_N_PIECE; p++) {
        call->pass.payload[p] = halo_own_rows(h, p, pair->j);
    }
    return STATUS_OK;
}

const struct payload_source source_in_place = {.take = in_place_take};

int64_t source_packed_at(const struct halo *h)
{
    return h->level != NULL ? h->workspace->wire_at : h->workspace->packed_at;
}

static enum status packed_take(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct level *level = h->level;
    if (pair->i == pair->j) { /* own rows to themselves lose nothing */
        halo_level(h, NULL);
        h->level_asked = NULL;
    }
    void *payload = halo_workspace(h, source_packed_at(h));
    void *asked = halo_workspace(h, h->workspace->asked_wire_at);
    int32_t k = part_pair_find(halo_rows_sent(h, pair->j).pairs, h->trainer->own.number[pair->i]);
    if (h->pass->n_ask > 0) {
        halo_pack_asked(h, pair->i, pair->k, asked);
    }
    const struct halo_packing what = {
        .route = halo_route_at(h, pair->j, k), .n_most = INT64_MAX, .asked = asked, .out = payload};
    halo_pack(h, &what);
    source_point(h, pair, payload, call);
    if (pair->i == pair->j) {
        halo_level(h, level);
        h->level_asked = level;
    }
    return STATUS_OK;
}

const struct payload_source source_packed = {.take = packed_take};

/* The block's columns count the rows that own parts share. Returns how many there are. */
static int64_t shared_block(struct halo *h, const struct halo_pair *pair, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    enum part_direction d = halo_edges(h->pass->direction);
    enum part_dedup_side side = part_dedup_side_at(pair->q, t->own.number[pair->i]);
    h->block = part_device_block(&t->own.part[pair->i], d, h->hop.blocks, pair->k, PART_COLUMNS_OWN);
    h->block.n_col = h->routes.take[h->fetch.n_used].n_row;
    call->pass.block = &h->block;
    call->pass.col_scale = dedup_scale(t->routes.dedup, d, h->hop.listed, pair->q, side);
    call->pass.col_node = dedup_node(t->routes.dedup, d, h->hop.listed, pair->q, side);
    return h->block.n_col;
}

void source_point(struct halo *h, const struct halo_pair *pair, const void *payload, struct op_call *call)
{
    const struct part_device *part = &h->trainer->own.part[pair->i];
    const struct part_rows received = halo_rows_received(h, pair->i);
    enum part_direction d = halo_edges(h->pass->direction);
    int64_t n_row = pair->i == pair->j ? call->n : part_rows_at(&received, pair->k);
    if (h->pass->direction == HALO_DIRECTION_RETURN) { /* whose gradients these are */
        call->pass.back.rows = h->sample != NULL && pair->i != pair->j
                                   ? sample_sent(h->sample, pair->i, pair->k)
                                   : part_device_rows(part, PART_DIRECTION_OUT, pair->k);
    } else if (h->dedup != NULL && !h->dedup->scatters && pair->j < 0) {
        n_row = shared_block(h, pair, call);
    } else {
        halo_block(h, pair->i, d, pair->k, call);
    }
    call->pass.back.n_row = n_row;
    call->pass.payload_bf16 = call->pass.own_bf16 && halo_role_codec(h, h->pass->piece[0]) == DEVICE_CODEC_FP32;
    halo_payload_open(h, n_row, payload, (float *)(void *)halo_workspace(h, h->workspace->packed_at),
                      call->pass.payload);
}
