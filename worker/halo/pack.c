/* Making payloads: rows gathered as they lie, or finished gradients. */
#include "models/device/codec.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "worker/halo/feedback.h"
#include "worker/route/sample.h"
#include "worker/route/sample_dedup.h"

/* The list of a route of deduplicated rows that is given. */
static struct dedup_list list_of(const struct halo *h, const struct halo_route *route)
{
    return (struct dedup_list){.d = halo_edges(h->pass->direction),
                               .hop = h->hop.listed,
                               .i = route->i,
                               .rank = (uint32_t)(route->k / PART_DEDUP_N_SIDE),
                               .side = (enum part_dedup_side)(route->k % PART_DEDUP_N_SIDE)};
}

uint32_t halo_arg_base(const struct halo *h, int32_t i, int32_t k)
{
    const struct part_pairs *pairs = &h->owners.own[i]->pairs[PART_DIRECTION_IN];
    const uint32_t *drawn = h->sample != NULL ? sample_drawn(h->sample)[i].before : NULL;
    uint32_t own = drawn != NULL ? drawn[pairs->own] : pairs->pair[pairs->own].col,
             end = drawn != NULL ? drawn[pairs->n_pair] : pairs->pair[pairs->n_pair].col;
    return (drawn != NULL ? drawn[k] : pairs->pair[k].col) - own + (k < pairs->own ? end : 0);
}

/* The n_kept payload rows of 4-byte numbers that are sampled, in scratch. */
static const void *numbers_sample(const struct halo *h, int64_t n_kept, const uint32_t *kept, const void *from,
                                  int64_t at)
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
    const struct part_device *part = &t->own.part[i];
    const struct memory_sample *sizes = &t->plan.payloads.sample;
    h->block = part_device_block(part, d, h->hop.blocks, k, PART_COLUMNS_PAYLOAD);
    call->pass.block = &h->block;
    call->pass.col_scale = part_device_col_scale(part, d, k);
    call->pass.col_node = part_device_col_node(part, d, k);
    if (h->sample == NULL || k == part->part->halo.pairs[d].own || sample_is_whole(h->sample)) {
        return;
    }
    const struct part_rows received = halo_owners_in(&h->owners, i, HALO_DIRECTION_IN, h->hop.travelling);
    int64_t n_kept = part_rows_at(&received, k), at = h->workspace->sample_at;
    const uint32_t *kept = sample_received(h->sample, i, k);
    const struct device_block all = h->block;
    t->ops->block_sample(t->device, &all, n_kept, kept, halo_workspace(h, at + 2 * sizes->n_number_bytes), &h->block);
    call->pass.col_scale = numbers_sample(h, n_kept, kept, call->pass.col_scale, at);
    call->pass.col_node = numbers_sample(h, n_kept, kept, call->pass.col_node, at + sizes->n_number_bytes);
    call->pass.shift = halo_shift(h);
}

/* --- low precision --- */

/* How rows in this role travel; FP32: as they lie. */
static enum device_codec codec_at(const struct halo *h, enum op_role role, const struct level *level)
{
    return level != NULL ? halo_codec(&h->trainer->program, h->op, role, level) : DEVICE_CODEC_FP32;
}

enum device_codec halo_role_codec(const struct halo *h, enum op_role role)
{
    return codec_at(h, role, h->level);
}

/* Rows of a piece, rounded by draws that say where they belong: to the node, and gradients that return also to the
 * part that made them, as several make some of one row. Rows that are fetched again are the same. */
static struct device_coding coding_of(const struct halo *h, int p, int32_t i, const uint32_t *node)
{
    static const uint16_t classes[HALO_DIRECTION_N] = {
        [HALO_DIRECTION_IN] = 0, [HALO_DIRECTION_OUT] = HALO_N_PIECE, [HALO_DIRECTION_RETURN] = 2 * HALO_N_PIECE};
    const struct trainer *t = h->trainer;
    struct device_coding how = {.codec = halo_role_codec(h, h->pass->piece[p]),
                                .f = h->width[p],
                                .factor = 1.0F,
                                .key = {.seed = (uint64_t)t->setup.job->train.seed,
                                        .op = (uint16_t)h->step->op,
                                        .stream = (uint16_t)(RANDOM_STREAM_CODEC + classes[h->pass->direction] + p)},
                                .now = t->memory.now,
                                .node = node};
    if (h->pass->direction == HALO_DIRECTION_RETURN) {
        how.key.seed ^= 0x9e3779b97f4a7c15U * ((uint64_t)t->own.number[i] + 1);
    }
    return how;
}

/* One piece of n_row rows that has arrived: where it lies, or decoded at *to_io, which then goes on behind it. */
static const float *piece_open(const struct halo *h, enum device_codec codec, int64_t n_row, int64_t width,
                               const char *at, float **to_io)
{
    const struct trainer *t = h->trainer;
    float *to = *to_io;
    if (width == 0) {
        return NULL;
    }
    if (codec == DEVICE_CODEC_FP32) {
        return (const float *)(const void *)at;
    }
    t->ops->rows_decode(t->device, codec, n_row, width, at, to);
    *to_io = to + n_row * width;
    return to;
}

void halo_payload_open(const struct halo *h, int64_t n_row, const void *payload, float *to,
                       const float *piece_out[HALO_N_PIECE])
{
    const char *at = payload;
    for (int p = 0; p < HALO_N_PIECE; p++) {
        enum device_codec codec = p < h->pass->n_piece ? halo_role_codec(h, h->pass->piece[p]) : DEVICE_CODEC_FP32;
        float *decoded = to;
        piece_out[p] = piece_open(h, codec, n_row, h->width[p], at, &to);
        if (codec != DEVICE_CODEC_FP32 && h->trainer->routes.feedback != NULL) {
            feedback_weigh(h, n_row, h->width[p], decoded);
        }
        at += n_row * h->bytes[p];
    }
}

/* --- gradients that return --- */

/* Rows that they are made of, as they arrived. */
static void asked_open(const struct halo *h, int64_t n_row, const void *asked, const float *piece_out[HALO_N_PIECE])
{
    const char *at = asked;
    float *to = (float *)(void *)halo_workspace(h, h->workspace->asked_at);
    for (int p = 0; p < h->pass->n_ask; p++) {
        int64_t width = halo_ask_width(&h->trainer->program, h->op, h->pass, p);
        enum device_codec codec = codec_at(h, h->pass->ask[p], h->level_asked);
        piece_out[p] = piece_open(h, codec, n_row, width, at, &to);
        at += n_row * codec_row_bytes(codec, width); /* asked for are rows of attention and of maxima: floats */
    }
}

/* The gradients of n_row rows of pair k at `made`, piece after piece, as they travel. */
static void gradients_write(const struct halo *h, const struct halo_packing *what, int64_t n_row,
                            const uint32_t *node, const float *made)
{
    const struct trainer *t = h->trainer;
    char *out = what->out;
    for (int p = 0; p < h->pass->n_piece; p++) {
        struct device_coding how = coding_of(h, p, what->route.i, node);
        how.n_row = n_row;
        how.x = made;
        if (how.codec != DEVICE_CODEC_FP32 && t->routes.feedback != NULL) {
            feedback_gradients(h, p, what->route.i, what->route.k, &how);
        }
        if (how.codec != DEVICE_CODEC_FP32) {
            t->ops->rows_encode(t->device, &how, out);
        } else {
            t->ops->move(t->device, DEVICE_LANE_COMPUTE, out, made, (size_t)(n_row * h->bytes[p]));
        }
        made += n_row * h->width[p];
        out += n_row * h->bytes[p];
    }
}

/* RETURN: gradients of the rows that own part i read of pair k. */
static int64_t gradients_make(struct halo *h, const struct halo_packing *what)
{
    const struct trainer *t = h->trainer;
    const int32_t i = what->route.i, k = what->route.k;
    const struct memory_sample *sizes = &t->plan.payloads.sample;
    bool writes = h->level != NULL && program_codes(&t->program);
    struct op_call call = trainer_call(t, h->step, i);
    halo_block(h, i, PART_DIRECTION_IN, k, &call);
    const struct device_block block = h->block;
    if (h->pass->transposed) {
        int64_t at = h->workspace->sample_at + 2 * sizes->n_number_bytes + sizes->n_block_bytes;
        t->ops->block_transpose(t->device, &block, t->own.part[i].part->n_own, halo_workspace(h, at), &h->block);
    }
    call.n = trainer_rows(t, h->hop.blocks, i);
    call.pass.back.n_row = block.n_col;
    call.pass.arg_base = halo_arg_base(h, i, k);
    call.pass.back.packed = writes ? (float *)(void *)halo_workspace(h, h->workspace->packed_at) : what->out;
    asked_open(h, block.n_col, what->asked, call.pass.payload);
    h->pass->pack(&call);
    if (writes) {
        gradients_write(h, what, block.n_col, call.pass.col_node, call.pass.back.packed);
    }
    return block.n_col * h->slots.n_row_bytes;
}

/* --- rows as they lie --- */

/* Some own rows, and what they are multiplied by on their way. */
struct rows {
    int64_t n;
    const uint32_t *rows; /* n */
    float factor;
};

/* Own part i's rows of piece p, or of what a RETURN pass asks for, as they travel. FP32: gathered as they lie, in
 * rows_words elements. */
static struct device_coding rows_coding(const struct halo *h, int p, int32_t i, const struct rows *rows)
{
    const struct trainer *t = h->trainer;
    bool returns = h->pass->direction == HALO_DIRECTION_RETURN;
    const struct step_operand *from = step_operand(h->step, returns ? h->pass->ask[p] : h->pass->piece[p]);
    struct device_coding how = coding_of(h, p, i, t->own.part[i].node);
    how.codec = halo_role_codec(h, from->role);
    how.n_row = rows->n;
    how.f = returns ? halo_ask_width(&t->program, h->op, h->pass, p) : h->width[p];
    how.rows = rows->rows;
    how.factor = rows->factor;
    how.x = trainer_operand(t, from, i);
    how.is_bf16 = halo_role_is_bf16(&t->program, h->op, from->role);
    if (returns) { /* rounded as when they came first */
        how.key.seed = (uint64_t)t->setup.job->train.seed;
        how.key.stream = (uint16_t)(RANDOM_STREAM_CODEC + p);
    }
    if (how.codec != DEVICE_CODEC_FP32 && t->routes.feedback != NULL) {
        feedback_rows(h, returns ? HALO_DIRECTION_IN : h->pass->direction, p, i, &how);
    }
    if (how.is_bf16 && how.codec == DEVICE_CODEC_FP32 && how.factor != 1.0F) {
        how.codec = DEVICE_CODEC_BF16; /* products are rounded */
    }
    return how;
}

static int64_t rows_words(const struct device_coding *how)
{
    return how->is_bf16 ? codec_row_bytes(DEVICE_CODEC_BF16, how->f) / (int64_t)sizeof(float) : how->f;
}

static void rows_write(const struct halo *h, int p, int32_t i, const struct rows *rows, void *out)
{
    const struct trainer *t = h->trainer;
    const struct device_coding how = rows_coding(h, p, i, rows);
    if (how.codec != DEVICE_CODEC_FP32) {
        t->ops->rows_encode(t->device, &how, out);
        return;
    }
    t->ops->rows_gather(t->device, how.n_row, rows_words(&how), how.rows, how.factor, how.x, out);
}

/* Own part i's rows that its pair k takes in this pass, or asks for. */
static const uint32_t *rows_sent(const struct halo *h, int32_t i, int32_t k)
{
    return h->sample != NULL
               ? sample_sent(h->sample, i, k)
               : part_device_rows(&h->trainer->own.part[i], PART_DIRECTION_N - 1 - halo_edges(h->pass->direction), k);
}

/* n rows of a payload from `first` on, with what they count in a sample. */
static struct rows rows_to(const struct halo *h, const struct halo_packing *what, int64_t first, int64_t n)
{
    const struct trainer *t = h->trainer;
    const struct halo_route *route = &what->route;
    const struct dedup_list to = list_of(h, route);
    const uint32_t *rows = !route->is_dedup    ? rows_sent(h, route->i, route->k)
                           : h->sample != NULL ? sample_dedup_sent(sample_get_dedup(h->sample), &to)
                                               : dedup_sent(t->routes.dedup, &to);
    return (struct rows){.n = n, .rows = rows + first, .factor = halo_factor(h)};
}

/* Sums that own part i makes for taker k, from `first` on: what its rows would add to the taker's alone. */
static void sums_write(const struct halo *h, const struct dedup_list *to, int64_t first, int64_t n, float *out)
{
    struct op_call call = halo_call_begin(h, to->i);
    const struct device_block block = dedup_sum_block(h->trainer->routes.dedup, to, first, n);
    call.pass.self = false;
    call.pass.order.first = true;
    call.pass.block = &block;
    call.pass.payload[0] = call.pass.own[0];
    call.pass.payload_bf16 = call.pass.own_bf16;
    call.pass.col_scale = call.scale;
    call.pass.to = out;
    h->pass->run(&call);
}

/* n rows of piece p from `row` on; behind the rows that travel come sums, which have one piece. */
static void piece_write(const struct halo *h, int p, const struct halo_packing *what, int64_t row, int64_t n,
                        char *out)
{
    const struct halo_route *route = &what->route;
    const struct dedup_list to = list_of(h, route);
    int64_t n_sum = route->is_dedup ? dedup_sums(h->trainer->routes.dedup, &to) : 0, n_sent = route->n_row - n_sum;
    int64_t n_left = row < n_sent ? n_sent - row : 0, n_gathered = n < n_left ? n : n_left;
    ASSERT(p == 0 || n_sum == 0);
    if (n_gathered > 0) {
        const struct rows rows = rows_to(h, what, row, n_gathered);
        rows_write(h, p, route->i, &rows, out);
    }
    if (n_gathered < n) {
        sums_write(h, &to, row + n_gathered - n_sent, n - n_gathered,
                   (float *)(void *)(out + n_gathered * h->bytes[p]));
    }
}

bool halo_rows_lend(const struct halo *h, const struct halo_route *route, int64_t at, struct exchange_piece *out)
{
    const struct dedup_list to = list_of(h, route);
    const struct halo_packing what = {.route = *route};
    int64_t n_sum = route->is_dedup ? dedup_sums(h->trainer->routes.dedup, &to) : 0, begin = 0;
    int p = 0;
    while (p < h->pass->n_piece - 1 && at >= begin + route->n_row * h->bytes[p]) {
        begin += route->n_row * h->bytes[p++];
    }
    int64_t first = h->bytes[p] > 0 ? (at - begin) / h->bytes[p] : 0, n = route->n_row - n_sum - first;
    bool made = h->pass->direction == HALO_DIRECTION_RETURN ||
                halo_role_codec(h, h->pass->piece[p]) != DEVICE_CODEC_FP32;
    if (n <= 0 || h->bytes[p] == 0 || made) {
        return false;
    }
    const struct rows rows = rows_to(h, &what, first, n);
    const struct device_coding how = rows_coding(h, p, route->i, &rows);
    *out = (struct exchange_piece){.bytes = how.x,
                                   .n_bytes = (size_t)(n * h->bytes[p]),
                                   .total = (size_t)(route->n_row * h->slots.n_row_bytes),
                                   .rows = how.rows,
                                   .n_word = (uint32_t)rows_words(&how),
                                   .factor = how.factor};
    const struct peers *peers = h->trainer->routes.peers;
    return how.codec == DEVICE_CODEC_FP32 && peers_lends(peers, how.x) && peers_lends(peers, how.rows);
}

static int64_t rows_pack(const struct halo *h, const struct halo_packing *what)
{
    int64_t n_row = what->route.n_row, n_done = 0, begin = 0;
    for (int p = 0; p < h->pass->n_piece; p++) {
        int64_t row_bytes = h->bytes[p], end = begin + n_row * row_bytes;
        if (row_bytes > 0 && what->at + n_done < end) {
            int64_t row = (what->at + n_done - begin) / row_bytes, n = (what->n_most - n_done) / row_bytes;
            n = n < n_row - row ? n : n_row - row;
            piece_write(h, p, what, row, n, (char *)what->out + n_done);
            n_done += n * row_bytes;
            if (row + n < n_row) {
                break;
            }
        }
        begin = end;
    }
    return n_done;
}

/* A payload of own part i's was made since then. */
static void packed(const struct halo *h, int32_t i, double begin_s)
{
    exchange_packed(h->trainer->setup.exchange, begin_s);
    if (h->trainer->records.trace != NULL) {
        trace_add(h->trainer->records.trace, TRACE_KIND_PACK, begin_s, h->trainer->own.number[i]);
    }
}

void halo_pack_asked(const struct halo *h, int32_t i, int32_t k, void *out)
{
    const struct trainer *t = h->trainer;
    const struct part_rows asked = halo_rows_received(h, i);
    double begin_s = clock_s();
    int64_t n_row = part_rows_at(&asked, k), at = 0;
    const struct rows rows = {.n = n_row, .rows = rows_sent(h, i, k), .factor = 1.0F};
    for (int p = 0; p < h->pass->n_ask; p++) {
        int64_t width = halo_ask_width(&t->program, h->op, h->pass, p);
        if (width > 0) {
            rows_write(h, p, i, &rows, (char *)out + at);
        }
        at += n_row * codec_row_bytes(halo_role_codec(h, h->pass->ask[p]), width);
    }
    packed(h, i, begin_s);
}

int64_t halo_pack(struct halo *h, const struct halo_packing *what)
{
    double begin_s = clock_s();
    bool returns = h->pass->direction == HALO_DIRECTION_RETURN;
    int64_t n_bytes = returns ? gradients_make(h, what) : rows_pack(h, what);
    packed(h, what->route.i, begin_s);
    return n_bytes;
}
