#include "worker/reduce.h"

#include <string.h>

struct reduction {
    struct trainer *trainer;
    enum reduce_what what;
    struct exchange_key key;
    bool *complete; /* n_part: the part's branch is whole and may be taken */
};

static char *node(const struct reduction *r, int32_t i)
{
    char *gradients = r->trainer->gradients + i * r->trainer->plan.n_gradient_bytes;
    return r->what == REDUCE_GRADIENTS ? gradients : (char *)trainer_sums(r->trainer, i);
}

static size_t node_bytes(const struct reduction *r)
{
    return r->what == REDUCE_GRADIENTS ? (size_t)r->trainer->plan.n_gradient_bytes : MEMORY_PLAN_N_SUM * sizeof(double);
}

/* left += right, floats then doubles. */
static void node_add(const struct reduction *r, char *left, const char *right)
{
    const struct trainer *t = r->trainer;
    if (r->what == REDUCE_GRADIENTS) {
        int64_t n = t->program.n_weight;
        t->ops->axpby(t->device, n, 1.0F, (const float *)(const void *)left, 1.0F, (const float *)(const void *)right,
                      (float *)(void *)left);
        left += n * (int64_t)sizeof(float);
        right += n * (int64_t)sizeof(float);
    }
    double *to = (double *)(void *)left;
    const double *from = (const double *)(const void *)right;
    for (int s = 0; s < MEMORY_PLAN_N_SUM; s++) {
        to[s] += from[s];
    }
}

static const void *branch_pack(void *arg, uint32_t to, uint32_t from, size_t *n_bytes_out)
{
    (void)to;
    struct reduction *r = arg;
    const struct trainer *t = r->trainer;
    if (from >= (uint32_t)t->setup.n_part || t->own_index[from] < 0 || !r->complete[from]) {
        return NULL;
    }
    *n_bytes_out = node_bytes(r);
    return node(r, t->own_index[from]);
}

/* Parts of this rank whose branch another rank takes: every part but 0 hangs below part - lowest bit. */
static int branches_given(const struct trainer *t)
{
    int n = 0;
    for (int32_t i = 0; i < t->n_own; i++) {
        int32_t part = t->own[i];
        n += part > 0 && t->own_index[part & (part - 1)] < 0;
    }
    return n;
}

static enum status branch_take(struct reduction *r, int32_t part, int32_t child)
{
    struct trainer *t = r->trainer;
    struct exchange_key key = r->key;
    key.to = (uint32_t)part;
    key.from = (uint32_t)child;
    int handle;
    enum status status = exchange_fetch(t->setup.exchange, t->setup.rank_of_part[child], &key, t->branch, node_bytes(r),
                                        &handle);
    return status == STATUS_OK ? exchange_wait(t->setup.exchange, handle) : status;
}

/* Climb level by level, so that a branch is given away only when its own levels are done. */
static enum status climb(struct reduction *r)
{
    struct trainer *t = r->trainer;
    int32_t n_part = t->setup.n_part;
    for (int32_t i = 0; i < t->n_own; i++) {
        r->complete[t->own[i]] = t->own[i] & 1;
    }
    for (int32_t stride = 1; stride < n_part; stride *= 2) {
        for (int32_t i = 0; i < t->n_own; i++) {
            int32_t part = t->own[i], child = part + stride;
            if (part % (2 * stride) != 0) {
                continue;
            }
            if (child < n_part) {
                int32_t j = t->own_index[child];
                enum status status = j < 0 ? branch_take(r, part, child) : STATUS_OK;
                if (status != STATUS_OK) {
                    return status;
                }
                node_add(r, node(r, i), j < 0 ? t->branch : node(r, j));
            }
            r->complete[part] = (part & (2 * stride)) != 0;
        }
    }
    return exchange_settle(t->setup.exchange);
}

static const void *total_pack(void *arg, uint32_t to, uint32_t from, size_t *n_bytes_out)
{
    (void)to;
    (void)from;
    struct reduction *r = arg;
    *n_bytes_out = node_bytes(r);
    return node(r, 0);
}

/* Rank r hears from r without its lowest bit, then tells r + 2^b for every b below that bit. */
static enum status spread_down(struct reduction *r)
{
    struct trainer *t = r->trainer;
    uint32_t rank = t->setup.rank, n_rank = t->setup.n_rank;
    uint32_t low = rank == 0 ? n_rank : rank & (~rank + 1);
    enum status status = STATUS_OK;
    struct exchange_key key = r->key;
    key.phase = EXCHANGE_PHASE_SPREAD;
    if (rank != 0) {
        int handle;
        key.to = rank;
        key.from = rank & (rank - 1);
        status = exchange_fetch(t->setup.exchange, key.from, &key, node(r, 0), node_bytes(r), &handle);
        status = status == STATUS_OK ? exchange_wait(t->setup.exchange, handle) : status;
    }
    int n_child = 0;
    for (uint32_t bit = 1; bit < low && rank + bit < n_rank; bit *= 2) {
        n_child++;
    }
    struct exchange_offer offer = {.arg = r, .pack = total_pack};
    exchange_serve(t->setup.exchange, &key, &offer, n_child);
    return status == STATUS_OK ? exchange_settle(t->setup.exchange) : status;
}

enum status reduce_run(struct trainer *t, enum reduce_what what, bool spread)
{
    struct reduction r = {
        .trainer = t,
        .what = what,
        .key = {.epoch = t->epoch, .phase = EXCHANGE_PHASE_REDUCE, .op = (uint16_t)what},
        .complete = t->complete,
    };
    struct exchange_offer offer = {.arg = &r, .pack = branch_pack};
    exchange_serve(t->setup.exchange, &r.key, &offer, branches_given(t));
    enum status status = climb(&r);
    return status == STATUS_OK && spread && t->setup.n_rank > 1 ? spread_down(&r) : status;
}
