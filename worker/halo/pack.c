/* Making payloads: rows gathered as they lie, or finished gradients. */
#include "protocol/clock.h"
#include "worker/halo/halo_state.h"

int64_t halo_payload_bytes(const struct halo *h, int32_t i, int32_t k)
{
    const struct part_rows given = halo_rows_given(h, i);
    return part_rows_at(&given, k) * h->slots.n_row_bytes;
}

uint32_t halo_arg_base(const struct halo *h, int32_t i, int32_t k)
{
    const struct part_pairs *pairs = &h->owners.own[i]->pairs[PART_DIRECTION_IN];
    const struct part_pair *own = &pairs->pair[pairs->own], *end = &pairs->pair[pairs->n_pair];
    return pairs->pair[k].col - own->col + (k < pairs->own ? end->col : 0);
}

/* RETURN: gradients of the rows that own part i read of pair k. */
static int64_t gradients_make(const struct halo *h, int32_t i, int32_t k, float *out)
{
    const struct trainer *t = h->trainer;
    const struct device_block block = part_device_block(&t->part[i], PART_DIRECTION_IN, h->hop, k, PART_COLUMNS_PAYLOAD);
    struct op_call call = trainer_call(t, h->step, i);
    call.n = trainer_rows(t, h->hop, i);
    call.block = &block;
    call.arg_base = halo_arg_base(h, i, k);
    call.packed = out;
    h->pass->pack(&call);
    return block.n_col * h->slots.n_row_bytes;
}

static int64_t rows_pack(const struct halo *h, int32_t i, int32_t k, int64_t at, int64_t n_most, float *out)
{
    const struct trainer *t = h->trainer;
    if (h->pass->direction == HALO_DIRECTION_RETURN) {
        return gradients_make(h, i, k, out);
    }
    const struct part_rows given = halo_rows_given(h, i);
    const uint32_t *rows = part_device_rows(&t->part[i], PART_DIRECTION_N - 1 - halo_blocks(h), k);
    int64_t n_row = part_rows_at(&given, k), n_done = 0, begin = 0;
    for (int p = 0; p < HALO_N_PIECE; p++) {
        int64_t row_bytes = h->width[p] * (int64_t)sizeof(float), end = begin + n_row * row_bytes;
        if (row_bytes > 0 && at + n_done < end) {
            int64_t row = (at + n_done - begin) / row_bytes, n = (n_most - n_done) / row_bytes;
            n = n < n_row - row ? n : n_row - row;
            t->ops->rows_gather(t->device, n, h->width[p], rows + row, halo_own_rows(h, p, i), out);
            out += n * h->width[p];
            n_done += n * row_bytes;
            if (row + n < n_row) {
                break;
            }
        }
        begin = end;
    }
    return n_done;
}

int64_t halo_pack(const struct halo *h, int32_t i, int32_t k, int64_t at, int64_t n_most, float *out)
{
    struct trace *trace = h->trainer->trace;
    double begin_s = trace != NULL ? clock_s() : 0.0;
    int64_t n_bytes = rows_pack(h, i, k, at, n_most, out);
    if (trace != NULL) {
        trace_add(trace, TRACE_KIND_PACK, begin_s, h->trainer->own[i]);
    }
    return n_bytes;
}
