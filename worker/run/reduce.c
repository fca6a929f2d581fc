#include "worker/run/reduce.h"

#include "protocol/base/fault.h"
#include "worker/state/staging.h"

struct reduction {
    struct trainer *trainer;
    struct exchange_key key;
    char *node; /* of own part 0, on the device; the next is `stride` bytes further */
    int64_t stride;
    size_t n_bytes;          /* of one node */
    char *branch;            /* another rank's, on the device */
    device_mark branch_free; /* when the staging block may be written */
    void (*merge)(const struct reduction *r, void *left, const void *right);
    const struct op *op; /* of a global op's sums */
    const struct global_pass *pass;
    device_mark
        *complete; /* n_part: when the part's branch is where it is sent from; INCOMPLETE: it is not made yet */
    device_mark total_made; /* likewise the total */
};

#define INCOMPLETE UINT64_MAX

static char *node(const struct reduction *r, int32_t i)
{
    return r->node + i * r->stride;
}

/* Own part i's node on its way to or from a rank; i = n_own: that rank's branch. */
static struct staged staged(const struct reduction *r, int32_t i, uint32_t peer)
{
    const struct trainer *t = r->trainer;
    return (struct staged){.peer = peer,
                           .at = i * (int64_t)r->n_bytes,
                           .device = i < t->own.n ? node(r, i) : r->branch,
                           .n_bytes = (int64_t)r->n_bytes,
                           .free = r->branch_free};
}

/* Fetch it, and wait for it. */
static enum status staged_take(struct reduction *r, struct staged *what, const struct exchange_key *key)
{
    const struct trainer *t = r->trainer;
    int handle;
    what->unread = t->ops->mark(t->device, DEVICE_LANE_COMPUTE);
    enum status status = staging_fetch(t, what, key, &handle);
    status = status == STATUS_OK ? exchange_wait(t->setup.exchange, handle) : status;
    staging_in(t, what);
    r->branch_free = what->free;
    return status;
}

static void sums_merge(const struct reduction *r, void *left, const void *right)
{
    r->trainer->ops->doubles_merge(r->trainer->device, false, MEMORY_PLAN_N_SUM, right, left);
}

/* Floats, then doubles. */
static void gradients_merge(const struct reduction *r, void *left, const void *right)
{
    const struct trainer *t = r->trainer;
    float *to = left;
    const float *from = right;
    int64_t n = t->program.n_weight;
    t->ops->axpby(t->device, n, 1.0F, NULL, to, 1.0F, from, to);
    sums_merge(r, to + n, from + n);
}

static void global_merge(const struct reduction *r, void *left, const void *right)
{
    r->pass->merge(r->trainer->device, &r->trainer->program, r->op, left, right);
}

/* It is sent when it is made. */
static bool staged_pack(const struct reduction *r, const struct staged *what, device_mark made,
                        struct exchange_piece *out)
{
    const struct trainer *t = r->trainer;
    *out = (struct exchange_piece){.bytes = staging_place(t, what), .n_bytes = r->n_bytes, .total = r->n_bytes};
    return staging_is_made(t, made);
}

static bool branch_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    (void)to;
    (void)at;
    struct reduction *r = arg;
    const struct trainer *t = r->trainer;
    if (from >= (uint32_t)t->setup.n_part || t->own.index[from] < 0 || r->complete[from] == INCOMPLETE) {
        return false;
    }
    const struct staged branch = staged(r, t->own.index[from], t->setup.rank_of_part[from & (from - 1)]);
    return staged_pack(r, &branch, r->complete[from], out);
}

/* Parts of this rank whose branch another rank takes: every part but 0 hangs below part - lowest bit. */
static int branches_given(const struct trainer *t)
{
    int n = 0;
    for (int32_t i = 0; i < t->own.n; i++) {
        int32_t part = t->own.number[i];
        n += part > 0 && t->own.index[part & (part - 1)] < 0;
    }
    return n;
}

static enum status branch_take(struct reduction *r, int32_t part, int32_t child)
{
    struct trainer *t = r->trainer;
    struct exchange_key key = r->key;
    key.to = (uint32_t)part;
    key.from = (uint32_t)child;
    struct staged branch = staged(r, t->own.n, t->setup.rank_of_part[child]);
    return staged_take(r, &branch, &key);
}

/* The node of own part i is as it will be, and where another rank takes it on its way to where it is sent from. */
static void branch_complete(struct reduction *r, int32_t i)
{
    const struct trainer *t = r->trainer;
    int32_t part = t->own.number[i];
    int32_t parent = part & (part - 1);
    const struct staged branch = staged(r, i, t->setup.rank_of_part[parent]);
    r->complete[part] = part > 0 && t->own.index[parent] < 0 ? staging_out(t, &branch) : 0;
}

/* Level by level of the tree, so that a branch is sent only when its own levels are done. */
static enum status reduce_up(struct reduction *r)
{
    struct trainer *t = r->trainer;
    int32_t n_part = t->setup.n_part;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->own.n; i++) {
        r->complete[t->own.number[i]] = INCOMPLETE;
        if (t->own.number[i] & 1) {
            branch_complete(r, i);
        }
    }
    for (int32_t stride = 1; stride < n_part; stride *= 2) {
        for (int32_t i = 0; i < t->own.n && status == STATUS_OK; i++) {
            int32_t part = t->own.number[i], child = part + stride;
            if (part % (2 * stride) != 0) {
                continue;
            }
            if (child < n_part) {
                int32_t j = t->own.index[child];
                status = j < 0 ? branch_take(r, part, child) : STATUS_OK;
                if (status != STATUS_OK) {
                    return status;
                }
                r->merge(r, node(r, i), j < 0 ? r->branch : node(r, j));
            }
            if ((part & (2 * stride)) != 0) {
                branch_complete(r, i);
            }
        }
    }
    return status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
}

static bool total_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    (void)from;
    (void)at;
    struct reduction *r = arg;
    const struct staged total = staged(r, 0, to);
    return staged_pack(r, &total, r->total_made, out);
}

/* Rank r receives from r without its lowest bit, then sends to r + 2^b for every b below that bit. */
static enum status broadcast(struct reduction *r)
{
    struct trainer *t = r->trainer;
    uint32_t rank = t->setup.rank, n_rank = t->setup.n_rank;
    uint32_t low = rank == 0 ? n_rank : rank & (~rank + 1);
    enum status status = STATUS_OK;
    struct exchange_key key = r->key;
    key.phase = EXCHANGE_PHASE_BROADCAST;
    key.to = rank;
    key.from = rank & (rank - 1);
    struct staged total = staged(r, 0, rank != 0 ? key.from : PEERS_ALL);
    if (rank != 0) {
        status = staged_take(r, &total, &key);
        r->total_made = r->branch_free; /* where it came by way of the block, it is there for others, too */
    }
    if (rank == 0 || peers_near(t->routes.peers, key.from)) {
        total.peer = PEERS_ALL;
        r->total_made = staging_out(t, &total);
    }
    int n_child = 0;
    for (uint32_t bit = 1; bit < low && rank + bit < n_rank; bit *= 2) {
        n_child++;
    }
    struct exchange_offer offer = {.arg = r, .pack = total_pack};
    exchange_serve(t->setup.exchange, &key, &offer, n_child);
    status = status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
    return status == STATUS_OK ? t->ops->wait(t->device, r->branch_free) : status;
}

static enum status run(struct reduction *r, bool broadcasts)
{
    struct trainer *t = r->trainer;
    r->complete = t->parameters.complete;
    r->branch_free = t->ops->mark(t->device, DEVICE_LANE_IN);
    struct exchange_offer offer = {.arg = r, .pack = branch_pack};
    exchange_serve(t->setup.exchange, &r->key, &offer, branches_given(t));
    FAULT(REDUCE);
    enum status status = reduce_up(r);
    return status == STATUS_OK && broadcasts && t->setup.n_rank > 1 ? broadcast(r) : status;
}

enum status reduce_run(struct trainer *t, enum reduce_what what, bool broadcasts)
{
    bool all = what == REDUCE_GRADIENTS;
    struct reduction r = {
        .trainer = t,
        .key = {.epoch = trainer_key_epoch(t), .phase = EXCHANGE_PHASE_REDUCE, .op = (uint16_t)what},
        .node = all ? t->parameters.gradients : (char *)trainer_sums(t, 0),
        .stride = t->plan.reduced.n_gradient_bytes,
        .n_bytes = all ? (size_t)t->plan.reduced.n_gradient_bytes : MEMORY_PLAN_N_SUM * sizeof(double),
        .branch = t->parameters.branch,
        .merge = all ? gradients_merge : sums_merge,
    };
    return run(&r, broadcasts);
}

enum status reduce_global(struct trainer *t, int op, bool backward)
{
    const struct op *what = &t->program.op[op];
    const struct global_def *global = op_defs[what->kind]->global;
    struct reduction r = {
        .trainer = t,
        .key = {.epoch = trainer_key_epoch(t),
                .phase = EXCHANGE_PHASE_REDUCE,
                .op = (uint16_t)(REDUCE_N + 2 * op + backward)},
        .node = (char *)trainer_global(t, 0),
        .stride = t->plan.reduced.n_global_bytes,
        .n_bytes = (size_t)global->n_sum(&t->program, what) * sizeof(double),
        .branch = (char *)trainer_global(t, t->own.n),
        .merge = global_merge,
        .op = what,
        .pass = backward ? &global->backward : &global->forward,
    };
    return run(&r, true);
}
