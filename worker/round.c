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
    const struct aggregate_def *def;
    int op_index;
    enum travel travel;
    int64_t width;
    size_t row_bytes;
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

static bool forward(const struct round_state *r)
{
    return r->travel == TRAVEL_FORWARD;
}

/* Blocks a linear kind reads: in-edges forward, the transposed ones backward. */
static int direction(const struct round_state *r)
{
    return r->travel == TRAVEL_BACK_LINEAR ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
}

/* Own rows of what travels. */
static const float *rows_own(const struct round_state *r, int32_t i)
{
    const struct trainer *t = r->trainer;
    if (!forward(r)) {
        return trainer_grad(t, r->op->out, i);
    }
    return r->op->in[0] == 0 ? t->part[i].features : trainer_value(t, r->op->in[0], i);
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

static struct aggregate_call call_begin(const struct round_state *r, int32_t i)
{
    const struct trainer *t = r->trainer;
    const struct part *part = t->part[i].part;
    return (struct aggregate_call){.device = t->device,
                                   .n = part->n_own,
                                   .f = r->width,
                                   .own = rows_own(r, i),
                                   .row_scale = t->part[i].scale,
                                   .self = part->loops == DATASET_LOOPS_IMPLICIT,
                                   .arg = (uint32_t *)(void *)trainer_aux(t, r->op_index, i)};
}

/* Make the payload that part `to` takes from own part i. */
static void payload_make(const struct round_state *r, uint32_t to, int32_t i, float *out)
{
    struct trainer *t = r->trainer;
    const struct part *part = t->part[i].part;
    if (r->travel != TRAVEL_BACK_OTHER) {
        const struct part_send *send = &part->send[direction(r)][to];
        t->ops->rows_gather(t->device, send->n_row, r->width, send->rows, rows_own(r, i), out);
        return;
    }
    struct aggregate_call call = call_begin(r, i);
    call.block = &t->part[i].block[PART_DIRECTION_IN][to];
    call.arg_base = arg_base(part, (int32_t)to);
    call.out = out;
    r->def->backward_pack(&call);
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
    int64_t n_row = travel_rows_out(&t->part[i].travel, (int32_t)to, r->travel);
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

/* What part q's rows add to own part i: the payload, from wherever it lies. */
static enum status block_run(struct round_state *r, int32_t i, int32_t q, struct aggregate_call *call)
{
    struct trainer *t = r->trainer;
    const struct part_device *part = &t->part[i];
    int d = direction(r);
    int32_t j = t->own_index[q];
    bool remote = j < 0;
    call->col_scale = NULL;
    if (q == part->part->part) {
        call->payload = call->own;
        call->block = &part->block[d][q];
        call->col_scale = part->scale;
        if (r->travel == TRAVEL_BACK_OTHER) {
            payload_make(r, (uint32_t)q, i, t->scratch);
            call->payload = t->scratch;
        }
    } else if (remote) {
        int32_t slot = r->n_used % r->n_credit;
        enum status status = exchange_wait(t->setup.exchange, r->handle[slot]);
        if (status != STATUS_OK) {
            return status;
        }
        call->payload = r->room[slot];
        call->block = &part->block[d][q];
        call->col_scale = part->col_scale[d] != NULL ? part->col_scale[d][q] : NULL;
    } else if (r->def->is_linear) {
        call->payload = rows_own(r, j);
        call->block = &part->direct[d][q];
        call->col_scale = t->part[j].scale;
    } else {
        payload_make(r, (uint32_t)part->part->part, j, t->scratch);
        call->payload = t->scratch;
        call->block = &part->block[d][q];
    }
    call->arg_base = r->def->is_linear ? 0 : arg_base(part->part, q);
    call->rows = q == part->part->part ? NULL : part->part->send[PART_DIRECTION_IN][q].rows;
    call->n_row = q == part->part->part ? call->n : part->part->send[PART_DIRECTION_IN][q].n_row;
    (forward(r) ? r->def->forward : r->def->backward)(call);
    if (remote) {
        r->n_used++;
        return round_ask(r);
    }
    return exchange_progress(t->setup.exchange);
}

/* All blocks of own part i, in the order that defines the bits. */
static enum status part_run(struct round_state *r, int32_t i, float *out)
{
    const struct trainer *t = r->trainer;
    int32_t n_part = t->setup.n_part, p = t->own[i];
    int32_t last = 0;
    for (int32_t step = 1; step < n_part; step++) {
        if (travel_rows_in(&t->part[i].travel, (p + step) % n_part, r->travel) > 0) {
            last = step;
        }
    }
    struct aggregate_call call = call_begin(r, i);
    call.out = out;
    call.only = last == 0;
    for (int32_t step = 0; step <= last; step++) {
        int32_t q = (p + step) % n_part;
        if (step > 0 && travel_rows_in(&t->part[i].travel, q, r->travel) == 0) {
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

static void round_begin(struct trainer *t, int op, enum travel travel, enum exchange_phase phase)
{
    struct round_state *r = t->round;
    bool halo = t->setup.job->exchange.schedule == JOB_SCHEDULE_HALO;
    r->trainer = t;
    r->op = &t->program.op[op];
    r->op_index = op;
    r->def = &aggregate_defs[r->op->aggregate];
    r->travel = travel;
    r->width = t->program.value[r->op->in[0]].width;
    r->row_bytes = (size_t)r->width * sizeof(float);
    r->list = &t->plan.travel[travel];
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

enum status round_forward(struct trainer *t, int op, enum exchange_phase phase)
{
    round_begin(t, op, TRAVEL_FORWARD, phase);
    struct round_state *r = t->round;
    enum status status = round_ask(r);
    for (int32_t i = 0; status == STATUS_OK && i < t->n_own; i++) {
        status = part_run(r, i, trainer_value(t, r->op->out, i));
    }
    return status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
}

enum status round_backward(struct trainer *t, int op, bool add)
{
    const struct op *what = &t->program.op[op];
    bool linear = aggregate_defs[what->aggregate].is_linear;
    round_begin(t, op, linear ? TRAVEL_BACK_LINEAR : TRAVEL_BACK_OTHER, EXCHANGE_PHASE_BACKWARD);
    struct round_state *r = t->round;
    enum status status = round_ask(r);
    for (int32_t i = 0; status == STATUS_OK && i < t->n_own; i++) {
        float *grad = trainer_grad(t, what->in[0], i);
        float *fresh = add ? trainer_temp(t, op, i) : grad;
        status = part_run(r, i, fresh);
        if (status == STATUS_OK && add) {
            t->ops->axpby(t->device, t->part[i].part->n_own * r->width, 1.0F, grad, 1.0F, fresh, grad);
        }
    }
    return status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
}
