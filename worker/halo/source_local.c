/* Rows of parts in the same process: read in place, or packed in scratch where the aggregate wants payload rows. */
#include "worker/halo/source.h"

/* Own rows on the diagonal; else the other part's rows where they lie, through blocks whose columns are those rows. */
static enum status in_place_take(struct halo *h, int32_t i, int32_t q, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    int32_t j = t->own_index[q];
    const struct part_blocks *blocks = part_device_blocks(&t->part[i], halo_blocks(h), h->hop);
    call->block = i == j ? &blocks->block[q] : &blocks->direct[q];
    call->col_scale = t->part[j].scale;
    call->col_node = t->part[j].node;
    for (int k = 0; k < HALO_N_PIECE; k++) {
        call->payload[k] = halo_own_rows(h, k, j);
    }
    return STATUS_OK;
}

const struct payload_source source_in_place = {.take = in_place_take};

static enum status packed_take(struct halo *h, int32_t i, int32_t q, struct op_call *call)
{
    float *scratch = (float *)(void *)halo_workspace(h, 0);
    int32_t j = h->trainer->own_index[q];
    halo_pack(h, (uint32_t)h->trainer->own[i], j, 0, INT64_MAX, scratch);
    source_point(h, i, q, scratch, call);
    return STATUS_OK;
}

const struct payload_source source_packed = {.take = packed_take};

void source_point(const struct halo *h, int32_t i, int32_t q, const float *payload, struct op_call *call)
{
    const struct part_device *part = &h->trainer->part[i];
    const struct part_send *send = &part->part->send[PART_DIRECTION_IN][q];
    enum part_direction d = halo_blocks(h);
    bool own = q == part->part->part;
    int64_t n_row = own ? call->n : halo_rows_taken(h, i, q);
    call->block = &part_device_blocks(part, d, h->hop)->block[q];
    call->col_scale = part->col_scale[d] != NULL ? part->col_scale[d][q] : NULL;
    call->col_node = part_device_view(part, part->part->block[d][q].node);
    call->rows = own ? NULL : part_device_view(part, send->rows); /* RETURN: whose gradients these are */
    call->n_row = n_row;
    for (int k = 0; k < HALO_N_PIECE; k++) {
        call->payload[k] = h->width[k] > 0 ? payload : NULL;
        payload += n_row * h->width[k];
    }
}
