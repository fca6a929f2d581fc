#include "models/steps/chain.h"

#include "models/device/codec.h"
#include "protocol/base/log.h"

#define CHUNK_MIN 4 /* whatever memory they take, where a device shares chains at all */
#define WINDOW_ROWS_MIN 32
#define WINDOW_ROWS_SHARED 256 /* windows are not made smaller than this so that there are more of them */
#define ROW_ALIGN 16

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- which steps --- */

bool chain_takes_scratch(const struct program *program, const struct op *op)
{
    return op_is_row_local(program, op) && op_defs[op->kind]->global == NULL;
}

static bool is_taken(const struct program *program, const struct step *step)
{
    return (step->kind == STEP_KIND_FORWARD || step->kind == STEP_KIND_BACKWARD) &&
           op_is_row_local(program, &program->op[step->op]);
}

static void windows_drop(struct step *step)
{
    const struct step_operand *windows = step_operand(step, OP_ROLE_WINDOWS);
    if (windows != NULL) { /* the last one */
        step->n_operand--;
    }
}

static void windows_add(struct step *step)
{
    ASSERT(step->n_operand < STEP_N_OPERAND);
    step->operand[step->n_operand++] = (struct step_operand){.array = STEP_ARRAY_WORKSPACE,
                                                             .element = STEP_ELEMENT_BYTES,
                                                             .role = OP_ROLE_WINDOWS,
                                                             .access = STEP_ACCESS_WRITE,
                                                             .index = step->op,
                                                             .k = STEP_WORKSPACE_CHAIN,
                                                             .running = true};
}

void chains_mark(const struct program *program, struct step_list *list)
{
    int first = 0; /* of the chain at work */
    for (int s = 0; s < list->n_step; s++) {
        struct step *step = &list->step[s];
        step->n_chain = 0;
        windows_drop(step);
        if (!is_taken(program, step)) {
            first = s + 1;
            continue;
        }
        first = s - first == CHAIN_N_STEP ? s : first;
        list->step[first].n_chain = s + 1 - first;
    }
    for (int s = 0; s < list->n_step; s++) {
        if (list->step[s].n_chain > 0) {
            windows_add(&list->step[s]);
        }
    }
}

/* --- windows and chunks --- */

/* Columns of the widest dense value; `passing`: of those that pass between steps, which features and their sums do
 * not. */
static int64_t widest(const struct program *program, bool passing)
{
    int64_t width = 1;
    for (int v = 0; v < program->n_value; v++) {
        const struct value *value = &program->value[v];
        bool counts = !value->is_sparse && !(passing && value->is_static);
        width = counts && value->width > width ? value->width : width;
    }
    return width;
}

/* As many rows as fit the cache, but windows for all chunks where they are not too small for a product. */
static int64_t window_rows(const struct program *program, const struct device_ops *ops, int64_t n_own)
{
    int64_t rows = ops->n_window_float / widest(program, true) / ROW_ALIGN * ROW_ALIGN;
    int64_t share = (n_own + ops->n_chunk - 1) / ops->n_chunk;
    share = larger((share + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN, WINDOW_ROWS_SHARED);
    return smaller(larger(rows, WINDOW_ROWS_MIN), share);
}

struct chain_rows chain_rows(const struct program *program, const struct device_ops *ops, int64_t n_own)
{
    int64_t rows = window_rows(program, ops, n_own), n_window = (n_own + rows - 1) / rows;
    /* The chunks' gradients and windows take at most half an array of the part, except for the least number of
     * chunks. */
    int64_t n_most = n_own * widest(program, false) / 2 / (program->n_weight + rows * widest(program, true));
    int64_t n_chunk = smaller(smaller(n_window, ops->n_chunk), larger(n_most, CHUNK_MIN));
    return (struct chain_rows){.n_window = rows, .n_chunk = (int)larger(n_chunk, 1)};
}

/* Floats of a gradient of a parameter; 0: the operand is another array. */
static int64_t sum_floats(const struct program *program, const struct step_operand *operand)
{
    return operand->array == STEP_ARRAY_GRAD_PARAMETER ? program->param[operand->index].n_shared : 0;
}

/* A gradient's chunks lie one behind another; the first of them begins on a cache line. */
static int64_t sum_place(int64_t n_float)
{
    return (n_float + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
}

static int64_t chain_sum_floats(const struct program *program, const struct step *first)
{
    int64_t n = 0;
    for (int s = 0; s < first->n_chain; s++) {
        for (int k = 0; k < first[s].n_operand; k++) {
            n += sum_place(sum_floats(program, &first[s].operand[k]));
        }
    }
    return n;
}

int64_t chain_windows_bytes(const struct program *program, const struct step *first, int n_chunk,
                            int64_t n_slot_bytes)
{
    int64_t sums = n_chunk > 1 ? chain_sum_floats(program, first) * (int64_t)sizeof(float) : 0;
    return n_chunk * (n_slot_bytes + sums);
}

/* --- stages --- */

static int64_t stage_bytes(int64_t n_row, int64_t width)
{
    return sum_place(n_row * width) * (int64_t)sizeof(float);
}

/* The array's stage, which comes at *end_io where it is new. */
static int stage_of(struct chain *chain, const struct step_operand *array, int64_t width, int64_t n_window,
                    int64_t *end_io)
{
    int k = 0;
    while (k < chain->n_stage && !step_operand_is_same(chain->stage[k].array, array)) {
        k++;
    }
    if (k == chain->n_stage) {
        ASSERT(k < CHAIN_N_STAGE);
        chain->stage[chain->n_stage++] = (struct chain_stage){.array = array, .width = width, .at = *end_io};
        *end_io += stage_bytes(n_window, width);
    }
    return k;
}

static bool touches(const struct step *step, const struct step_operand *array)
{
    bool any = false;
    for (int k = 0; k < step->n_operand; k++) {
        any = any || step_operand_is_same(&step->operand[k], array);
    }
    return any;
}

void chain_stages(struct chain *chain, int64_t n_window, int64_t begin)
{
    int64_t end = begin;
    chain->n_stage = 0;
    for (int i = 0; i < chain->n_link; i++) {
        struct chain_link *link = &chain->link[i];
        for (int role = 0; role < OP_ROLE_N; role++) {
            link->stage[role] = -1;
        }
        for (int k = 0; k < link->step->n_operand; k++) {
            const struct step_operand *o = &link->step->operand[k];
            if (link->is_bf16[o->role] && link->window_at[o->role] < 0) {
                link->stage[o->role] = stage_of(chain, o, link->width[o->role], n_window, &end);
            }
        }
    }
}

int64_t chain_stages_bytes(const struct program *program, const struct step *first, int64_t n_window)
{
    int64_t n = 0;
    for (int s = 0; s < first->n_chain; s++) {
        for (int k = 0; k < first[s].n_operand; k++) {
            const struct step_operand *o = &first[s].operand[k];
            bool counted = !step_operand_is_bf16(program, o);
            for (int before = 0; before < s && !counted; before++) {
                counted = touches(&first[before], o);
            }
            n += counted ? 0 : stage_bytes(n_window, step_operand_width(program, o));
        }
    }
    return n;
}

/* --- a window --- */

struct window {
    int64_t first, n; /* rows of the part */
    int chunk, slot;
    bool begins; /* the chunk's first */
};

/* Where this link's first gradient lies among the chunks' sums, and each chunk's own floats of it. */
static float *sum_of(const struct chain *chain, int64_t at, int64_t n, int chunk)
{
    char *sums = (char *)chain->link[0].call.windows + chain->rows.n_chunk * chain->n_slot_bytes;
    return (float *)(void *)sums + at * chain->rows.n_chunk + chunk * n;
}

/* The call's gradients of parameters become those of the chunk; *at: floats of the links before. */
static bool sums_point(const struct chain *chain, const struct chain_link *link, int chunk, int64_t *at,
                       struct op_call *call)
{
    bool any = false;
    for (int k = 0; k < link->step->n_operand; k++) {
        const struct step_operand *o = &link->step->operand[k];
        int64_t n = sum_floats(link->call.program, o);
        if (n > 0 && chain->rows.n_chunk > 1) {
            call->array[o->role] = sum_of(chain, *at, n, chunk);
        }
        any = any || n > 0;
        *at += sum_place(n);
    }
    return any;
}

/* Rows of the window among the first n of the part. */
static int64_t rows_within(const struct window *w, int64_t n)
{
    return n > w->first ? smaller(n - w->first, w->n) : 0;
}

static int64_t row_bytes(const struct chain_link *link, int role)
{
    return codec_stored_bytes(link->is_bf16[role], link->width[role]);
}

/* The window's first row of an array that has all rows. */
static void *row_at(const struct chain_link *link, const struct window *w, int role)
{
    return (char *)link->call.array[role] + w->first * row_bytes(link, role);
}

static void rows_point(const struct chain *chain, const struct chain_link *link, const struct window *w,
                       struct op_call *call)
{
    char *slot = (char *)chain->link[0].call.windows + w->slot * chain->n_slot_bytes;
    for (int role = 0; role < OP_ROLE_N; role++) {
        if (link->window_at[role] >= 0) {
            call->array[role] = slot + link->window_at[role];
        } else if (link->stage[role] >= 0) {
            call->array[role] = slot + chain->stage[link->stage[role]].at;
        } else if (link->width[role] > 0 && call->array[role] != NULL) {
            call->array[role] = row_at(link, w, role);
        }
    }
}

/* Widen the rows that the step reads and no step before has made floats. n_row: of each stage. */
static void stages_read(const struct chain_link *link, const struct window *w, const struct op_call *call,
                        int64_t *n_row)
{
    const struct device_ops *ops = call->device->ops;
    for (int k = 0; k < link->step->n_operand; k++) {
        const struct step_operand *o = &link->step->operand[k];
        int stage = link->stage[o->role];
        int64_t n = stage >= 0 && o->access != STEP_ACCESS_WRITE ? call->n - n_row[stage] : 0;
        if (n > 0) {
            const char *from = (const char *)row_at(link, w, o->role) + n_row[stage] * row_bytes(link, o->role);
            float *to = (float *)call->array[o->role] + n_row[stage] * link->width[o->role];
            ops->rows_decode(call->device, DEVICE_CODEC_BF16, n, link->width[o->role], from, to);
            n_row[stage] += n;
        }
    }
}

/* Round what the step has written. */
static void stages_write(const struct chain_link *link, const struct window *w, const struct op_call *call,
                         int64_t *n_row)
{
    for (int k = 0; k < link->step->n_operand; k++) {
        const struct step_operand *o = &link->step->operand[k];
        int stage = link->stage[o->role];
        if (!link->is_bf16[o->role] || o->access == STEP_ACCESS_READ || call->n == 0) {
            continue;
        }
        call->device->ops->rows_round(call->device, call->n, link->width[o->role], call->array[o->role],
                                      stage >= 0 ? row_at(link, w, o->role) : NULL);
        if (stage >= 0) {
            n_row[stage] = larger(n_row[stage], call->n);
        }
    }
}

/* Rows of gradients behind those that the step has made become 0. */
static void grads_end(const struct chain_link *link, const struct window *w, const struct op_call *call,
                      int64_t *n_row)
{
    const struct device_ops *ops = call->device->ops;
    for (int k = 0; k < OP_N_IN; k++) {
        int role = OP_ROLE_GRAD_IN_0 + k, stage = link->stage[role];
        int64_t n = rows_within(w, link->n_grad_row[k]), n_bytes = link->width[role] * (int64_t)sizeof(float);
        if (n <= call->n) {
            continue;
        }
        ops->fill_zero(call->device, (char *)call->array[role] + call->n * n_bytes,
                       (size_t)((n - call->n) * n_bytes));
        if (stage >= 0) {
            ops->fill_zero(call->device, (char *)row_at(link, w, role) + call->n * row_bytes(link, role),
                           (size_t)((n - call->n) * row_bytes(link, role)));
            n_row[stage] = larger(n_row[stage], n);
        }
    }
}

static void window_run(const struct chain *chain, const struct window *w)
{
    int64_t sum_at = 0, n_row[CHAIN_N_STAGE] = {0};
    for (int i = 0; i < chain->n_link; i++) {
        const struct chain_link *link = &chain->link[i];
        const struct op_def *def = op_defs[link->call.op->kind];
        struct op_call call = link->call;
        call.n = rows_within(w, link->call.n);
        call.add_param = !w->begins || (chain->rows.n_chunk == 1 && link->call.add_param);
        bool sums = sums_point(chain, link, w->chunk, &sum_at, &call);
        rows_point(chain, link, w, &call);
        stages_read(link, w, &call, n_row);
        if (call.n > 0 || (sums && !call.add_param)) { /* sums over no rows are 0 */
            (link->step->backward ? def->backward : def->forward)(&call);
        }
        stages_write(link, w, &call, n_row);
        grads_end(link, w, &call, n_row);
    }
}

static void chunk_run(void *context, int chunk, int slot)
{
    const struct chain *chain = context;
    int64_t rows = chain->rows.n_window, first = chunk * rows;
    struct window w = {
        .first = first, .n = smaller(rows, chain->n_row - first), .chunk = chunk, .slot = slot, .begins = true};
    do {
        window_run(chain, &w);
        w.first += chain->rows.n_chunk * rows;
        w.n = smaller(rows, chain->n_row - w.first);
        w.begins = false;
    } while (w.n > 0);
}

/* Each parameter's gradient: the chunks' in their order, after the share of earlier ops. */
static void sums_combine(const struct chain *chain)
{
    int64_t at = 0;
    for (int i = 0; i < chain->n_link; i++) {
        const struct chain_link *link = &chain->link[i];
        for (int k = 0; k < link->step->n_operand; k++) {
            const struct step_operand *o = &link->step->operand[k];
            int64_t n = sum_floats(link->call.program, o);
            if (n > 0) {
                const struct device_ops *ops = link->call.device->ops;
                float *sum = sum_of(chain, at, n, 0), *grad = link->call.array[o->role];
                ops->chunks_add(link->call.device, n, chain->rows.n_chunk, sum, link->call.add_param ? sum : grad);
                if (link->call.add_param) {
                    ops->axpby(link->call.device, n, 1.0F, NULL, grad, 1.0F, sum, grad);
                }
            }
            at += sum_place(n);
        }
    }
}

void chain_run(struct chain *chain)
{
    struct device *device = chain->link[0].call.device;
    device->ops->chunks_run(device, chain->rows.n_chunk, chunk_run, chain);
    if (chain->rows.n_chunk > 1) {
        sums_combine(chain);
    }
}
