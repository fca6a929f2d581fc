#include "worker/run/round.h"

#include "protocol/fault.h"
#include "protocol/log.h"
#include "worker/run/round_state.h"
#include "worker/run/staging.h"
#include "worker/spill/hold.h"

#include <stdlib.h>
#include <string.h>

struct round_state *round_state_open(const struct trainer *t)
{
    struct round_state *r = memory_alloc(1, sizeof *r);
    r->handle = memory_alloc((size_t)t->plan.n_fetch_slot, sizeof *r->handle);
    r->payload = memory_alloc((size_t)t->plan.n_fetch_slot, sizeof *r->payload);
    r->free = memory_alloc((size_t)t->plan.n_fetch_slot, sizeof *r->free);
    r->packed = memory_alloc((size_t)t->plan.n_pack_slot, sizeof *r->packed);
    r->n_packed = memory_alloc((size_t)t->plan.n_pack_slot, sizeof *r->n_packed);
    r->given = memory_alloc((size_t)t->n_own * (size_t)t->setup.n_part, sizeof *r->given);
    return r;
}

void round_state_close(struct round_state *r)
{
    if (r != NULL) {
        free(r->handle);
        free(r->payload);
        free(r->free);
        free(r->packed);
        free(r->n_packed);
        free(r->given);
        free(r);
    }
}

/* Blocks that the round walks: in-edges, or the transposed ones. */
static int direction(const struct round_state *r)
{
    return r->what->travel == TRAVEL_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
}

static const float *value_rows(const struct trainer *t, int value, int32_t i)
{
    return value == 0 ? t->part[i].features : value > 0 ? trainer_value(t, value, i) : NULL;
}

/* Own rows of one piece. */
static const float *rows_own(const struct round_state *r, enum aggregate_rows piece, int32_t i)
{
    const struct trainer *t = r->trainer;
    switch (piece) {
    case AGGREGATE_ROWS_IN_0:
    case AGGREGATE_ROWS_IN_1:
    case AGGREGATE_ROWS_IN_2:
        return value_rows(t, r->op->in[piece - AGGREGATE_ROWS_IN_0], i);
    case AGGREGATE_ROWS_GRAD_OUT:
        return trainer_grad(t, r->op->out, i);
    case AGGREGATE_ROWS_KEPT_0:
        return trainer_kept(t, r->op_index, 0, i);
    default:
        return NULL;
    }
}

/* Places of a maximum: own rows first, then the payload rows of part+1, part+2, … */
static uint32_t arg_base(const struct part *part, int32_t q)
{
    int64_t base = 0;
    for (int32_t s = 0; (part->part + s) % part->n_part != q; s++) {
        int32_t other = (part->part + s) % part->n_part;
        base += s == 0 ? part->n_own : part->block[PART_DIRECTION_IN][other].n_col;
    }
    return (uint32_t)base;
}

/* Everything about own part i that no block changes. */
static struct aggregate_call call_begin(const struct trainer *t, int op, enum memory_room_use use, int32_t level, int32_t i)
{
    const struct program *program = &t->program;
    const struct op *what = &program->op[op];
    const struct part *part = t->part[i].part;
    struct aggregate_call call = {
        .device = t->device,
        .program = program,
        .op = what,
        .n = trainer_rows(t, level, i),
        .f = program->value[what->in[0]].width,
        .training = t->training,
        .key = {.seed = (uint64_t)t->setup.job->train.seed, .op = (uint16_t)op, .stream = RANDOM_STREAM_EDGE},
        .now = t->now,
        .out = trainer_value(t, what->out, i),
        .grad_out = trainer_grad(t, what->out, i),
        .scratch = trainer_room(t, &t->plan.room[op][use]),
        .self = part->loops == DATASET_LOOPS_IMPLICIT,
        .row_scale = t->part[i].scale,
        .row_node = part_device_view(&t->part[i], part->node)};
    for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
        call.kept[k] = trainer_kept(t, op, k, i);
    }
    for (int k = 0; k < OP_N_IN; k++) {
        call.in[k] = value_rows(t, what->in[k], i);
        if (what->in[k] >= 0 && program->value[what->in[k]].needs_grad) {
            call.grad_in[k] = t->add[op][k] ? trainer_temp(t, op, k, i) : trainer_grad(t, what->in[k], i);
        }
    }
    for (int k = 0; k < OP_N_PARAM; k++) {
        if (what->param[k] >= 0) {
            const struct parameter *param = &program->param[what->param[k]];
            call.param[k] = t->weights + param->offset;
            call.grad_param[k] = param->trains ? trainer_gradients(t, i) + param->offset : NULL;
        }
    }
    return call;
}

static enum memory_room_use room_use(const struct round_state *r)
{
    return r->what == &aggregate_defs[r->op->aggregate].forward ? MEMORY_ROOM_FORWARD : MEMORY_ROOM_BACKWARD;
}

static char *room_at(const struct round_state *r, int64_t offset)
{
    return (char *)trainer_room(r->trainer, r->room) + offset;
}

void round_payload_make(const struct round_state *r, uint32_t to, int32_t i, float *out)
{
    struct trainer *t = r->trainer;
    struct aggregate_call call = call_begin(t, r->op_index, room_use(r), r->level, i);
    call.block = &part_device_blocks(&t->part[i], PART_DIRECTION_IN, r->level)->block[to];
    call.arg_base = arg_base(t->part[i].part, (int32_t)to);
    call.packed = out;
    r->what->pack(&call);
}

int64_t round_rows_pack(const struct round_state *r, uint32_t to, int32_t i, int64_t at, int64_t n_most, float *out)
{
    struct trainer *t = r->trainer;
    const uint32_t *rows = part_device_view(&t->part[i], t->part[i].part->send[direction(r)][to].rows);
    int64_t n_row = travel_rows_out(&t->part[i].travel, (int32_t)to, r->what->travel, r->level_travel);
    int64_t n_done = 0, begin = 0;
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        int64_t row_bytes = r->width[k] * (int64_t)sizeof(float), end = begin + n_row * row_bytes;
        if (row_bytes > 0 && at + n_done < end) {
            int64_t row = (at + n_done - begin) / row_bytes, n = (n_most - n_done) / row_bytes;
            n = n < n_row - row ? n : n_row - row;
            t->ops->rows_gather(t->device, n, r->width[k], rows + row, rows_own(r, r->what->piece[k], i), out);
            out += n * r->width[k];
            n_done += n * row_bytes;
            if (row + n < n_row) {
                break;
            }
        }
        begin = end;
    }
    return n_done;
}

/* A free place on the way out, of how many bytes; NULL when all are taken. */
static char *pack_slot(struct round_state *r, int64_t n_left, int64_t *n_most_out)
{
    int64_t packs = r->room->n_scratch + r->room->n_fetch, slot_bytes = r->slots.n_pack_slot_bytes;
    for (int32_t s = 0; s < r->slots.n_pack_slot; s++) {
        if (r->packed[s] != NULL) {
            continue;
        }
        int64_t begin = packs + (slot_bytes > 0 ? s * slot_bytes : r->n_packed_bytes);
        char *at = staging_place(r->trainer, begin - r->room->n_scratch, room_at(r, begin));
        *n_most_out = slot_bytes > 0 ? slot_bytes : n_left;
        r->packed[s] = at;
        r->n_packed_bytes += n_left;
        return at;
    }
    return NULL;
}

/* Bytes of the payload for part `to` from own part i, from `at` on. */
static bool payload_pack(struct round_state *r, uint32_t to, int32_t i, size_t at, struct exchange_piece *out)
{
    struct trainer *t = r->trainer;
    int64_t total = travel_rows_out(&t->part[i].travel, (int32_t)to, r->what->travel, r->level_travel) * r->slots.n_row_bytes;
    int64_t n_most, n_bytes = total;
    char *slot = pack_slot(r, total - (int64_t)at, &n_most);
    if (slot == NULL) {
        return false;
    }
    if (r->what->travel == TRAVEL_RETURN) {
        round_payload_make(r, to, i, (float *)(void *)slot);
    } else {
        n_bytes = round_rows_pack(r, to, i, (int64_t)at, n_most, (float *)(void *)slot);
    }
    enum status status = staging_ready(t);
    if (status != STATUS_OK) {
        exchange_fail(t->setup.exchange, status);
        return false;
    }
    *out = (struct exchange_piece){.bytes = slot, .n_bytes = (size_t)n_bytes, .total = (size_t)total};
    return true;
}

/* Rooms, and how many payloads are served, count on every payload being asked for once, by a part that reads its rows. */
static bool round_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    struct round_state *r = arg;
    const struct trainer *t = r->trainer;
    uint32_t n_part = (uint32_t)t->setup.n_part;
    int32_t i = from < n_part ? t->own_index[from] : -1;
    if (i < 0 || to >= n_part || t->own_index[to] >= 0 ||
        travel_rows_out(&t->part[i].travel, (int32_t)to, r->what->travel, r->level_travel) == 0) {
        exchange_fail(t->setup.exchange, status_fail(STATUS_PEER,
                                                     "rows of part %u are asked for part %u, which takes none of "
                                                     "them from worker %u",
                                                     from, to, t->setup.rank));
        return false;
    }
    bool *given = &r->given[(size_t)i * n_part + to];
    if (at == 0 && *given) {
        exchange_fail(t->setup.exchange, status_fail(STATUS_PEER,
                                                     "rows of part %u are asked for part %u twice, expected once "
                                                     "a round",
                                                     from, to));
        return false;
    }
    bool packed = t->payloads != NULL ? round_spill_send(r, to, i, at, out) : payload_pack(r, to, i, at, out);
    *given = *given || packed;
    return packed;
}

static void round_sent(void *arg, const void *bytes)
{
    struct round_state *r = arg;
    if (r->trainer->payloads != NULL) {
        round_spill_sent(r, bytes);
    }
    for (int32_t s = 0; r->slots.n_pack_slot_bytes > 0 && s < r->slots.n_pack_slot; s++) {
        r->packed[s] = r->packed[s] == bytes ? NULL : r->packed[s];
    }
}

/* Where the transport writes a payload for that place of the room. */
static void *staged(const struct round_state *r, float *payload)
{
    return staging_place(r->trainer, (char *)payload - room_at(r, r->room->n_scratch), payload);
}

/* Ask for payloads until the credit is used up. */
static enum status round_ask(struct round_state *r)
{
    struct trainer *t = r->trainer;
    int64_t slot_bytes = r->slots.n_fetch_slot_bytes;
    while (r->n_asked < r->list->n_fetch && r->n_asked < r->n_used + r->n_credit) {
        const struct travel_fetch *fetch = &r->list->fetch[r->n_asked];
        int32_t slot = r->n_asked % r->n_credit;
        int64_t begin = slot_bytes > 0 ? slot * slot_bytes : r->n_asked_row * r->slots.n_row_bytes;
        char *payload = room_at(r, r->room->n_scratch + begin);
        struct exchange_key key = r->key;
        key.to = (uint32_t)fetch->to;
        key.from = (uint32_t)fetch->from;
        r->payload[slot] = (float *)(void *)payload;
        enum status status = t->ops->wait(t->device, r->free[slot]);
        status = status == STATUS_OK
                     ? exchange_fetch(t->setup.exchange, t->setup.rank_of_part[fetch->from], &key, staged(r, r->payload[slot]),
                                      (size_t)(fetch->n_row * r->slots.n_row_bytes), &r->handle[slot])
                     : status;
        if (status != STATUS_OK) {
            return status;
        }
        FAULT(EXCHANGE);
        r->n_asked++;
        r->n_asked_row += fetch->n_row;
    }
    return STATUS_OK;
}

/* Where the pieces of a payload of n rows begin. */
static void pieces_point(const struct round_state *r, const float *payload, int64_t n, struct aggregate_call *call)
{
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        call->payload[k] = r->width[k] > 0 ? payload : NULL;
        payload += n * r->width[k];
    }
}

/* Part q is of this rank: its rows are read where they lie, or their gradients are made in scratch. */
static void local_point(const struct round_state *r, int32_t i, int32_t q, int32_t j, struct aggregate_call *call)
{
    struct trainer *t = r->trainer;
    const struct part_device *part = &t->part[i];
    const struct part_blocks *blocks = part_device_blocks(part, direction(r), r->level);
    /* Places of a maximum count payload rows, so such a kind gets payloads everywhere. */
    bool as_payload = aggregate_returns(r->op->aggregate) && (i != j || r->what->travel == TRAVEL_RETURN);
    call->block = i == j || as_payload ? &blocks->block[q] : &blocks->direct[q];
    call->col_scale = t->part[j].scale;
    call->col_node = part_device_view(&t->part[j], t->part[j].part->node);
    if (as_payload) {
        float *scratch = trainer_room(t, r->room);
        if (r->what->travel == TRAVEL_RETURN) {
            round_payload_make(r, (uint32_t)part->part->part, j, scratch);
        } else {
            round_rows_pack(r, (uint32_t)part->part->part, j, 0, INT64_MAX, scratch);
        }
        call->payload[0] = scratch;
        return;
    }
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        call->payload[k] = i == j ? call->own[k] : rows_own(r, r->what->piece[k], j);
    }
}

/* The payload of part q's rows for own part i lies at `payload`. */
static void payload_run(const struct round_state *r, int32_t i, int32_t q, const float *payload, struct aggregate_call *call)
{
    const struct part_device *part = &r->trainer->part[i];
    int d = direction(r);
    call->block = &part_device_blocks(part, d, r->level)->block[q];
    call->col_scale = part->col_scale[d] != NULL ? part->col_scale[d][q] : NULL;
    call->col_node = part_device_view(part, part->part->block[d][q].node);
    pieces_point(r, payload, travel_rows_in(&part->travel, q, r->what->travel, r->level_travel), call);
    r->what->run(call);
}

/* It came from another rank, or will have. */
static enum status fetched_run(struct round_state *r, int32_t i, int32_t q, struct aggregate_call *call)
{
    int32_t slot = r->n_used % r->n_credit;
    enum status status = exchange_wait(r->trainer->setup.exchange, r->handle[slot]);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t n_row = travel_rows_in(&r->trainer->part[i].travel, q, r->what->travel, r->level_travel);
    float *payload = r->payload[slot];
    r->free[slot] = staging_in(r->trainer, (char *)payload - room_at(r, r->room->n_scratch), payload,
                               n_row * r->slots.n_row_bytes);
    payload_run(r, i, q, payload, call);
    r->n_used++;
    return round_ask(r);
}

/* It is of own part j and lies in the spill. */
static enum status spilled_run(struct round_state *r, int32_t i, int32_t q, int32_t j, struct aggregate_call *call)
{
    struct spill *spill = r->trainer->setup.spill;
    const struct spill_range payload = round_spilled(r, j, r->trainer->own[i], SPILL_READ);
    enum status status = spill_use(spill, &payload, 1);
    if (status != STATUS_OK) {
        return status;
    }
    round_spill_ahead(r, i, q);
    payload_run(r, i, q, payload.at, call);
    spill_done(spill, &payload, 1);
    spill_forget(spill, payload.at, payload.n_bytes);
    return exchange_progress(r->trainer->setup.exchange);
}

/* What part q's rows add to own part i: the payload, from wherever it lies. */
static enum status block_run(struct round_state *r, int32_t i, int32_t q, struct aggregate_call *call)
{
    struct trainer *t = r->trainer;
    const struct part *part = t->part[i].part;
    int32_t j = t->own_index[q];
    const struct part_send *send = &part->send[PART_DIRECTION_IN][q];
    call->rows = i == j ? NULL : part_device_view(&t->part[i], send->rows);
    call->n_row = i == j ? call->n : travel_rows_in(&t->part[i].travel, q, TRAVEL_RETURN, r->level_travel);
    call->arg_base = arg_base(part, q);
    if (j < 0) {
        return fetched_run(r, i, q, call);
    }
    if (i != j && t->payloads != NULL) {
        return spilled_run(r, i, q, j, call);
    }
    local_point(r, i, q, j, call);
    r->what->run(call);
    return exchange_progress(t->setup.exchange);
}

/* Are implied loops among the edges of the blocks? Then no row is added to itself beside them. */
static bool loops_picked(const struct round_state *r)
{
    return r->what->travel == TRAVEL_OUT && r->level < r->trainer->part[0].part->n_level;
}

/* All blocks of own part i, in the order that defines the bits. */
static enum status part_run(struct round_state *r, int32_t i, float *to)
{
    const struct trainer *t = r->trainer;
    int32_t n_part = t->setup.n_part, p = t->own[i];
    int32_t last = 0;
    for (int32_t step = 1; step < n_part; step++) {
        if (travel_rows_in(&t->part[i].travel, (p + step) % n_part, r->what->travel, r->level_travel) > 0) {
            last = step;
        }
    }
    struct aggregate_call call = call_begin(t, r->op_index, room_use(r), r->level_rows, i);
    call.to = to;
    call.self = call.self && !loops_picked(r);
    call.only = last == 0;
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        call.own[k] = rows_own(r, r->what->piece[k], i);
    }
    for (int32_t step = 0; step <= last; step++) {
        int32_t q = (p + step) % n_part;
        if (step > 0 && travel_rows_in(&t->part[i].travel, q, r->what->travel, r->level_travel) == 0) {
            continue;
        }
        call.first = step == 0;
        call.last = step == last;
        enum status status = block_run(r, i, q, &call);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* Rows are destinations of in-edges, or sources. */
static void levels_find(struct round_state *r)
{
    const struct trainer *t = r->trainer;
    r->level = r->level_rows = r->level_travel = PROGRAM_LEVEL_ALL;
    if (t->training) {
        r->level = t->program.value[r->op->out].level;
        r->level_rows = r->what->travel == TRAVEL_IN ? r->level : program_level_before(r->level);
        r->level_travel = aggregate_travel_level(&t->program, r->op, r->what);
    }
}

static void round_begin(struct trainer *t, int op, const struct aggregate_round *what, enum exchange_phase phase)
{
    struct round_state *r = t->round;
    r->trainer = t;
    r->op = &t->program.op[op];
    r->op_index = op;
    r->what = what;
    r->room = &t->plan.room[op][room_use(r)];
    levels_find(r);
    r->slots = memory_plan_round(&t->plan, t->setup.job, &t->program, r->op, what, r->level_travel);
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        r->width[k] = aggregate_piece_width(&t->program, r->op, what->piece[k]);
    }
    if (what->travel == TRAVEL_RETURN) {
        r->width[0] = t->program.value[r->op->in[0]].width;
    }
    r->list = memory_plan_travel(&t->plan, what->travel, r->level_travel);
    r->n_credit = r->slots.n_fetch_slot;
    r->n_asked = r->n_used = 0;
    r->n_asked_row = r->n_packed_bytes = 0;
    for (int32_t s = 0; s < r->slots.n_pack_slot; s++) {
        r->packed[s] = NULL;
    }
    for (int32_t s = 0; s < r->n_credit; s++) {
        r->free[s] = t->ops->mark(t->device, DEVICE_LANE_IN);
    }
    memset(r->given, 0, (size_t)t->n_own * (size_t)t->setup.n_part * sizeof *r->given);
    for (int32_t i = 0; t->payloads != NULL && i < t->n_own; i++) {
        t->payloads->made[i] = false;
    }
    r->key = (struct exchange_key){.epoch = t->epoch, .phase = (uint32_t)phase, .op = (uint16_t)op};
    struct exchange_offer offer = {.arg = r, .pack = round_pack, .sent = round_sent};
    exchange_serve(t->setup.exchange, &r->key, &offer, r->list->n_serve);
}

/* All own parts' blocks. */
static enum status blocks_run(struct round_state *r)
{
    struct trainer *t = r->trainer;
    bool forward = room_use(r) == MEMORY_ROOM_FORWARD;
    struct hold hold = hold_open(t);
    hold.ascends = true; /* as payloads are asked for */
    uses_round(&t->program, &t->plan, r->op_index, r->what, &hold.uses);
    while (hold_next(&hold)) {
        int32_t i = hold.part;
        float *to = forward                  ? trainer_value(t, r->op->out, i)
                    : t->add[r->op_index][0] ? trainer_temp(t, r->op_index, 0, i)
                                             : trainer_grad(t, r->op->in[0], i);
        hold.status = part_run(r, i, to);
        if (!forward) {
            round_grads_end(t, r->op_index, i);
        }
    }
    return hold.status;
}

static enum status round_run(struct trainer *t, int op, const struct aggregate_round *what, enum exchange_phase phase)
{
    round_begin(t, op, what, phase);
    struct round_state *r = t->round;
    struct hold room = hold_open(t);
    uses_room(op, room_use(r), &room.uses);
    enum status status = hold_begin(&room, 0);
    status = status == STATUS_OK ? round_ask(r) : status;
    status = status == STATUS_OK ? round_spill_payloads(r) : status;
    status = status == STATUS_OK ? blocks_run(r) : status;
    status = status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
    hold_end(&room);
    return status;
}

enum status round_forward(struct trainer *t, int op, enum exchange_phase phase)
{
    return round_run(t, op, &aggregate_defs[t->program.op[op].aggregate].forward, phase);
}

enum status round_backward_begin(struct trainer *t, int op)
{
    struct hold hold = hold_open(t);
    uses_begin(&t->program, &t->plan, op, &hold.uses);
    while (hold_next(&hold)) {
        struct aggregate_call call = call_begin(t, op, MEMORY_ROOM_BACKWARD, t->program.value[t->program.op[op].out].level,
                                                hold.part);
        aggregate_defs[t->program.op[op].aggregate].backward_begin(&call);
    }
    return hold.status;
}

enum status round_backward(struct trainer *t, int op)
{
    const struct aggregate_def *def = &aggregate_defs[t->program.op[op].aggregate];
    for (int k = 0; k < AGGREGATE_N_BACKWARD && def->backward[k].run != NULL; k++) {
        static const enum exchange_phase phases[] = {EXCHANGE_PHASE_BACKWARD, EXCHANGE_PHASE_BACKWARD_2};
        enum status status = round_run(t, op, &def->backward[k], phases[k]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return round_grads_add(t, op);
}
