/* Making payloads: rows gathered as they lie, or finished gradients. */
#include "protocol/clock.h"
#include "worker/halo/halo_state.h"
#include "worker/run/sample.h"

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

/* The n_kept payload rows of 4-byte numbers that are sampled, in scratch. */
static const void *numbers_sample(const struct halo *h, int64_t n_kept, const uint32_t *kept, const void *from, int64_t at)
{
    const struct trainer *t = h->trainer;
    float *out = (float *)(void *)halo_workspace(h, at);
    if (from != NULL) {
        t->ops->rows_gather(t->device, n_kept, 1, kept, 1.0F, from, out);
    }
    return from != NULL ? out : NULL;
}

void halo_block(struct halo *h, int32_t i, enum part_direction d, int32_t k, struct op_call *call)
{
    const struct trainer *t = h->trainer;
    const struct part_device *part = &t->part[i];
    const struct memory_sample *sizes = &t->plan.sample;
    h->block = part_device_block(part, d, h->hop, k, PART_COLUMNS_PAYLOAD);
    call->block = &h->block;
    call->col_scale = part_device_col_scale(part, d, k);
    call->col_node = part_device_col_node(part, d, k);
    if (!h->sampled || k == part->part->halo.pairs[d].own) {
        return;
    }
    const struct part_rows taken = part_halo_taken(h->owners.own[i], PART_DIRECTION_IN, h->hop_travelling);
    int64_t n_kept = part_rows_at(&taken, k), at = h->workspace->sample_at;
    const uint32_t *kept = sample_taken(t, i, k);
    const struct device_block all = h->block;
    t->ops->block_sample(t->device, &all, n_kept, kept, halo_workspace(h, at + 2 * sizes->n_number_bytes), &h->block);
    call->col_scale = numbers_sample(h, n_kept, kept, call->col_scale, at);
    call->col_node = numbers_sample(h, n_kept, kept, call->col_node, at + sizes->n_number_bytes);
    call->shift = aggregate_defs[h->op->aggregate]->sampled == AGGREGATE_SAMPLED_SHIFTED ? h->shift : 0.0F;
}

/* RETURN: gradients of the rows that own part i read of pair k. */
static int64_t gradients_make(struct halo *h, int32_t i, int32_t k, const float *asked, float *out)
{
    const struct trainer *t = h->trainer;
    const struct memory_sample *sizes = &t->plan.sample;
    struct op_call call = trainer_call(t, h->step, i);
    halo_block(h, i, PART_DIRECTION_IN, k, &call);
    const struct device_block block = h->block;
    if (h->pass->transposed) {
        int64_t at = h->workspace->sample_at + 2 * sizes->n_number_bytes + sizes->n_block_bytes;
        t->ops->block_transpose(t->device, &block, t->part[i].part->n_own, halo_workspace(h, at), &h->block);
    }
    call.n = trainer_rows(t, h->hop, i);
    call.n_row = block.n_col;
    call.arg_base = halo_arg_base(h, i, k);
    call.packed = out;
    for (int p = 0; p < h->pass->n_ask; p++) {
        call.payload[p] = asked;
        asked += block.n_col * halo_ask_width(&t->program, h->op, h->pass, p);
    }
    h->pass->pack(&call);
    return block.n_col * h->slots.n_row_bytes;
}

/* Gather some rows of an own array. */
static void rows_gather(const struct halo *h, int64_t n, int64_t width, const uint32_t *rows, const float *from, float *out)
{
    const struct trainer *t = h->trainer;
    bool returns = h->pass->direction == HALO_DIRECTION_RETURN;
    t->ops->rows_gather(t->device, n, width, rows, returns ? 1.0F : h->factor, from, out);
}

/* Own part i's rows that its pair k takes in this pass, or asks for. */
static const uint32_t *rows_given(const struct halo *h, int32_t i, int32_t k)
{
    return h->sampled ? sample_given(h->trainer, i, k)
                      : part_device_rows(&h->trainer->part[i], PART_DIRECTION_N - 1 - halo_blocks(h), k);
}

static int64_t rows_pack(struct halo *h, int32_t i, int32_t k, int64_t at, int64_t n_most, float *out)
{
    const struct part_rows given = halo_rows_given(h, i);
    const uint32_t *rows = rows_given(h, i, k);
    int64_t n_row = part_rows_at(&given, k), n_done = 0, begin = 0;
    for (int p = 0; p < HALO_N_PIECE; p++) {
        int64_t row_bytes = h->width[p] * (int64_t)sizeof(float), end = begin + n_row * row_bytes;
        if (row_bytes > 0 && at + n_done < end) {
            int64_t row = (at + n_done - begin) / row_bytes, n = (n_most - n_done) / row_bytes;
            n = n < n_row - row ? n : n_row - row;
            rows_gather(h, n, h->width[p], rows + row, halo_own_rows(h, p, i), out);
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

void halo_pack_asked(const struct halo *h, int32_t i, int32_t k, float *out)
{
    const struct part_rows asked = halo_rows_taken(h, i);
    int64_t n_row = part_rows_at(&asked, k);
    for (int p = 0; p < h->pass->n_ask; p++) {
        const struct step_operand *rows = step_operand(h->step, h->pass->ask[p]);
        if (rows != NULL) {
            int64_t width = halo_ask_width(&h->trainer->program, h->op, h->pass, p);
            rows_gather(h, n_row, width, rows_given(h, i, k), trainer_operand(h->trainer, rows, i), out);
            out += n_row * width;
        }
    }
}

int64_t halo_pack(struct halo *h, int32_t i, int32_t k, int64_t at, int64_t n_most, const float *asked, float *out)
{
    struct trace *trace = h->trainer->trace;
    double begin_s = trace != NULL ? clock_s() : 0.0;
    bool returns = h->pass->direction == HALO_DIRECTION_RETURN;
    int64_t n_bytes = returns ? gradients_make(h, i, k, asked, out) : rows_pack(h, i, k, at, n_most, out);
    if (trace != NULL) {
        trace_add(trace, TRACE_KIND_PACK, begin_s, h->trainer->own[i]);
    }
    return n_bytes;
}
