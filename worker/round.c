#include "worker/round.h"

#include "protocol/log.h"

#include <stdlib.h>

struct pack_slot {
    bool used;
    uint32_t to, from;
};

/* What one round works on; the arrays are made once and used again. */
struct round_state {
    struct trainer *trainer;
    const struct op *op;
    const struct aggregate_round *what;
    int op_index;
    int64_t width[AGGREGATE_N_PIECE]; /* columns of each piece; 0: none */
    size_t row_bytes;                 /* of all pieces */
    struct exchange_key key;

    const struct travel_list *list;
    int32_t n_credit;
    int32_t n_asked;          /* fetches begun */
    int32_t n_used;           /* fetches consumed */
    int64_t n_asked_row;      /* their rows: places of halo payloads */
    int *handle;              /* n_fetch_slot */
    const float **room;       /* n_fetch_slot */
    struct pack_slot *pack;   /* n_pack_slot */
    int64_t n_packed_row;
};

struct round_state *round_state_open(const struct trainer *t)
{
    struct round_state *r = memory_alloc(1, sizeof *r);
    r->handle = memory_alloc((size_t)t->plan.n_fetch_slot, sizeof *r->handle);
    r->room = memory_alloc((size_t)t->plan.n_fetch_slot, sizeof *r->room);
    r->pack = memory_alloc((size_t)t->plan.n_pack_slot, sizeof *r->pack);
    return r;
}

void round_state_close(struct round_state *r)
{
    if (r != NULL) {
        free(r->handle);
        free(r->room);
        free(r->pack);
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
static struct aggregate_call call_begin(const struct trainer *t, int op, int32_t i)
{
    const struct program *program = &t->program;
    const struct op *what = &program->op[op];
    const struct part *part = t->part[i].part;
    struct aggregate_call call = {.device = t->device,
                                  .program = program,
                                  .op = what,
                                  .n = part->n_own,
                                  .f = program->value[what->in[0]].width,
                                  .training = t->training,
                                  .key = {.seed = (uint64_t)t->setup.job->train.seed,
                                          .epoch = t->epoch,
                                          .op = (uint16_t)op,
                                          .stream = RANDOM_STREAM_EDGE},
                                  .out = trainer_value(t, what->out, i),
                                  .grad_out = trainer_grad(t, what->out, i),
                                  .scratch = t->scratch,
                                  .self = part->loops == DATASET_LOOPS_IMPLICIT,
                                  .row_scale = t->part[i].scale,
                                  .row_node = part->node};
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

/* Make the payload that part `to` takes from own part i: its pieces, one after another. */
static void payload_make(const struct round_state *r, uint32_t to, int32_t i, float *out)
{
    struct trainer *t = r->trainer;
    const struct part *part = t->part[i].part;
    if (r->what->travel == TRAVEL_RETURN) {
        struct aggregate_call call = call_begin(t, r->op_index, i);
        call.block = &t->part[i].block[PART_DIRECTION_IN][to];
        call.arg_base = arg_base(part, (int32_t)to);
        call.packed = out;
        r->what->pack(&call);
        return;
    }
    const struct part_send *send = &part->send[direction(r)][to];
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        if (r->width[k] > 0) {
            t->ops->rows_gather(t->device, send->n_row, r->width[k], send->rows, rows_own(r, r->what->piece[k], i), out);
            out += send->n_row * r->width[k];
        }
    }
}

/* A free place for a payload on its way out; NULL when all are taken. */
static float *pack_room(struct round_state *r, uint32_t to, uint32_t from, int64_t n_row)
{
    const struct memory_plan *plan = &r->trainer->plan;
    for (int32_t s = 0; s < plan->n_pack_slot; s++) {
        if (r->pack[s].used) {
            continue;
        }
        r->pack[s] = (struct pack_slot){.used = true, .to = to, .from = from};
        if (plan->n_pack_slot_bytes > 0) {
            return (float *)(void *)(r->trainer->pack_room + s * plan->n_pack_slot_bytes);
        }
        char *at = r->trainer->pack_room + r->n_packed_row * (int64_t)r->row_bytes;
        r->n_packed_row += n_row;
        return (float *)(void *)at;
    }
    return NULL;
}

static const void *round_pack(void *arg, uint32_t to, uint32_t from, size_t *n_bytes_out)
{
    struct round_state *r = arg;
    struct trainer *t = r->trainer;
    if (to >= (uint32_t)t->setup.n_part || from >= (uint32_t)t->setup.n_part || t->own_index[from] < 0) {
        return NULL;
    }
    int32_t i = t->own_index[from];
    int64_t n_row = travel_rows_out(&t->part[i].travel, (int32_t)to, r->what->travel);
    float *room = pack_room(r, to, from, n_row);
    if (room == NULL) {
        return NULL;
    }
    payload_make(r, to, i, room);
    *n_bytes_out = (size_t)n_row * r->row_bytes;
    return room;
}

static void round_sent(void *arg, uint32_t to, uint32_t from)
{
    struct round_state *r = arg;
    bool reuse = r->trainer->plan.n_pack_slot_bytes > 0;
    for (int32_t s = 0; reuse && s < r->trainer->plan.n_pack_slot; s++) {
        if (r->pack[s].used && r->pack[s].to == to && r->pack[s].from == from) {
            r->pack[s].used = false;
            return;
        }
    }
}

/* Ask for payloads until the credit is used up. */
static enum status round_ask(struct round_state *r)
{
    struct trainer *t = r->trainer;
    const struct memory_plan *plan = &t->plan;
    while (r->n_asked < r->list->n_fetch && r->n_asked < r->n_used + r->n_credit) {
        const struct travel_fetch *fetch = &r->list->fetch[r->n_asked];
        int32_t slot = r->n_asked % r->n_credit;
        char *room = t->fetch_room + (plan->n_fetch_slot_bytes > 0 ? slot * plan->n_fetch_slot_bytes
                                                                   : r->n_asked_row * (int64_t)r->row_bytes);
        struct exchange_key key = r->key;
        key.to = (uint32_t)fetch->to;
        key.from = (uint32_t)fetch->from;
        r->room[slot] = (const float *)(const void *)room;
        enum status status = exchange_fetch(t->setup.exchange, t->setup.rank_of_part[fetch->from], &key, room,
                                            (size_t)fetch->n_row * r->row_bytes, &r->handle[slot]);
        if (status != STATUS_OK) {
            return status;
        }
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
    int d = direction(r);
    /* Places of a maximum count payload rows, so such a kind gets payloads everywhere. */
    bool as_payload = aggregate_returns(r->op->aggregate) && (i != j || r->what->travel == TRAVEL_RETURN);
    call->block = i == j || as_payload ? &part->block[d][q] : &part->direct[d][q];
    call->col_scale = t->part[j].scale;
    call->col_node = t->part[j].part->node;
    if (as_payload) {
        payload_make(r, (uint32_t)part->part->part, j, t->scratch);
        call->payload[0] = t->scratch;
        return;
    }
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        call->payload[k] = i == j ? call->own[k] : rows_own(r, r->what->piece[k], j);
    }
}

/* What part q's rows add to own part i: the payload, from wherever it lies. */
static enum status block_run(struct round_state *r, int32_t i, int32_t q, struct aggregate_call *call)
{
    struct trainer *t = r->trainer;
    const struct part_device *part = &t->part[i];
    int d = direction(r);
    int32_t j = t->own_index[q];
    const struct part_send *send = &part->part->send[PART_DIRECTION_IN][q];
    call->rows = i == j ? NULL : send->rows;
    call->n_row = i == j ? call->n : send->n_row;
    call->arg_base = arg_base(part->part, q);
    if (j >= 0) {
        local_point(r, i, q, j, call);
        r->what->run(call);
        return exchange_progress(t->setup.exchange);
    }
    int32_t slot = r->n_used % r->n_credit;
    enum status status = exchange_wait(t->setup.exchange, r->handle[slot]);
    if (status != STATUS_OK) {
        return status;
    }
    call->block = &part->block[d][q];
    call->col_scale = part->col_scale[d] != NULL ? part->col_scale[d][q] : NULL;
    call->col_node = part->part->block[d][q].node;
    pieces_point(r, r->room[slot], travel_rows_in(&part->travel, q, r->what->travel), call);
    r->what->run(call);
    r->n_used++;
    return round_ask(r);
}

/* All blocks of own part i, in the order that defines the bits. */
static enum status part_run(struct round_state *r, int32_t i, float *to)
{
    const struct trainer *t = r->trainer;
    int32_t n_part = t->setup.n_part, p = t->own[i];
    int32_t last = 0;
    for (int32_t step = 1; step < n_part; step++) {
        if (travel_rows_in(&t->part[i].travel, (p + step) % n_part, r->what->travel) > 0) {
            last = step;
        }
    }
    struct aggregate_call call = call_begin(t, r->op_index, i);
    call.to = to;
    call.only = last == 0;
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        call.own[k] = rows_own(r, r->what->piece[k], i);
    }
    for (int32_t step = 0; step <= last; step++) {
        int32_t q = (p + step) % n_part;
        if (step > 0 && travel_rows_in(&t->part[i].travel, q, r->what->travel) == 0) {
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

static void round_begin(struct trainer *t, int op, const struct aggregate_round *what, enum exchange_phase phase)
{
    struct round_state *r = t->round;
    bool halo = t->setup.job->exchange.schedule == JOB_SCHEDULE_HALO;
    r->trainer = t;
    r->op = &t->program.op[op];
    r->op_index = op;
    r->what = what;
    r->row_bytes = (size_t)aggregate_payload_width(&t->program, r->op, what) * sizeof(float);
    for (int k = 0; k < AGGREGATE_N_PIECE; k++) {
        r->width[k] = aggregate_piece_width(&t->program, r->op, what->piece[k]);
    }
    if (what->travel == TRAVEL_RETURN) {
        r->width[0] = t->program.value[r->op->in[0]].width;
    }
    r->list = &t->plan.travel[what->travel];
    int64_t credit = halo ? r->list->n_fetch : t->setup.job->exchange.prefetch + 1;
    r->n_credit = credit < t->plan.n_fetch_slot ? (int32_t)credit : t->plan.n_fetch_slot;
    r->n_asked = r->n_used = 0;
    r->n_asked_row = r->n_packed_row = 0;
    for (int32_t s = 0; s < t->plan.n_pack_slot; s++) {
        r->pack[s].used = false;
    }
    r->key = (struct exchange_key){.epoch = t->epoch, .phase = (uint32_t)phase, .op = (uint16_t)op};
    struct exchange_offer offer = {.arg = r, .pack = round_pack, .sent = round_sent};
    exchange_serve(t->setup.exchange, &r->key, &offer, r->list->n_serve);
}

static enum status round_run(struct trainer *t, int op, const struct aggregate_round *what, enum exchange_phase phase)
{
    round_begin(t, op, what, phase);
    struct round_state *r = t->round;
    bool forward = what == &aggregate_defs[r->op->aggregate].forward;
    enum status status = round_ask(r);
    for (int32_t i = 0; status == STATUS_OK && i < t->n_own; i++) {
        float *to = forward ? trainer_value(t, r->op->out, i)
                    : t->add[op][0] ? trainer_temp(t, op, 0, i) : trainer_grad(t, r->op->in[0], i);
        status = part_run(r, i, to);
    }
    return status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
}

enum status round_forward(struct trainer *t, int op, enum exchange_phase phase)
{
    return round_run(t, op, &aggregate_defs[t->program.op[op].aggregate].forward, phase);
}

/* Gradients that could not be written in place join what is there. */
static void temps_add(struct trainer *t, int op)
{
    const struct op *what = &t->program.op[op];
    for (int k = 0; k < OP_N_IN; k++) {
        for (int32_t i = 0; t->add[op][k] && t->program.value[what->in[k]].needs_grad && i < t->n_own; i++) {
            float *grad = trainer_grad(t, what->in[k], i);
            int64_t n_value = t->part[i].part->n_own * t->program.value[what->in[k]].width;
            t->ops->axpby(t->device, n_value, 1.0F, grad, 1.0F, trainer_temp(t, op, k, i), grad);
        }
    }
}

enum status round_backward(struct trainer *t, int op)
{
    const struct aggregate_def *def = &aggregate_defs[t->program.op[op].aggregate];
    for (int32_t i = 0; def->backward_begin != NULL && i < t->n_own; i++) {
        struct aggregate_call call = call_begin(t, op, i);
        def->backward_begin(&call);
    }
    for (int k = 0; k < AGGREGATE_N_BACKWARD && def->backward[k].run != NULL; k++) {
        static const enum exchange_phase phases[] = {EXCHANGE_PHASE_BACKWARD, EXCHANGE_PHASE_BACKWARD_2};
        enum status status = round_run(t, op, &def->backward[k], phases[k]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    temps_add(t, op);
    return STATUS_OK;
}
