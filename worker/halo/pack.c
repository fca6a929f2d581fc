/* Making payloads: rows gathered as they lie, or finished gradients. */
#include "protocol/clock.h"
#include "worker/halo/halo_state.h"

int64_t halo_payload_bytes(const struct halo *h, uint32_t to, int32_t i)
{
    return halo_rows_given(h, i, (int32_t)to) * h->slots.n_row_bytes;
}

/* Places of a maximum in block `to` begin behind own rows and the payload rows of the parts in between. */
static uint32_t arg_base(const struct part *part, int32_t to)
{
    int64_t base = 0;
    for (int32_t q = part->part; q != to; q = (q + 1) % part->n_part) {
        base += q == part->part ? part->n_own : part->block[PART_DIRECTION_IN][q].n_col;
    }
    return (uint32_t)base;
}

/* RETURN: gradients of the rows that own part i read of part `to`. */
static int64_t gradients_make(const struct halo *h, uint32_t to, int32_t i, float *out)
{
    const struct trainer *t = h->trainer;
    struct op_call call = trainer_call(t, h->step, i);
    call.n = trainer_rows(t, h->hop, i);
    call.block = &part_device_blocks(&t->part[i], PART_DIRECTION_IN, h->hop)->block[to];
    call.arg_base = arg_base(t->part[i].part, (int32_t)to);
    call.packed = out;
    h->pass->pack(&call);
    return halo_payload_bytes(h, to, i);
}

static int64_t rows_pack(const struct halo *h, uint32_t to, int32_t i, int64_t at, int64_t n_most, float *out)
{
    const struct trainer *t = h->trainer;
    if (h->pass->direction == HALO_DIRECTION_RETURN) {
        return gradients_make(h, to, i, out);
    }
    const uint32_t *rows = part_device_view(&t->part[i], t->part[i].part->send[halo_blocks(h)][to].rows);
    int64_t n_row = halo_rows_given(h, i, (int32_t)to), n_done = 0, begin = 0;
    for (int k = 0; k < HALO_N_PIECE; k++) {
        int64_t row_bytes = h->width[k] * (int64_t)sizeof(float), end = begin + n_row * row_bytes;
        if (row_bytes > 0 && at + n_done < end) {
            int64_t row = (at + n_done - begin) / row_bytes, n = (n_most - n_done) / row_bytes;
            n = n < n_row - row ? n : n_row - row;
            t->ops->rows_gather(t->device, n, h->width[k], rows + row, halo_own_rows(h, k, i), out);
            out += n * h->width[k];
            n_done += n * row_bytes;
            if (row + n < n_row) {
                break;
            }
        }
        begin = end;
    }
    return n_done;
}

int64_t halo_pack(const struct halo *h, uint32_t to, int32_t i, int64_t at, int64_t n_most, float *out)
{
    struct trace *trace = h->trainer->trace;
    double begin_s = trace != NULL ? clock_s() : 0.0;
    int64_t n_bytes = rows_pack(h, to, i, at, n_most, out);
    if (trace != NULL) {
        trace_add(trace, TRACE_KIND_PACK, begin_s, h->trainer->own[i]);
    }
    return n_bytes;
}
