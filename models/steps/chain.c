#include "models/steps/chain.h"

#include "models/device/codec.h"
#include "protocol/base/amounts.h"
#include "protocol/base/log.h"

#define CHUNK_MIN 4 /* whatever memory they take, where a device shares chains at all */
#define WINDOW_ROWS_MIN 32
#define WINDOW_ROWS_SHARED 256 /* windows are not made smaller than this so that there are more of them */
#define ROW_ALIGN 16
#define TASKS_FLOATS ((int64_t)1 << 18) /* so many take next to nothing, however small the parts are */

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

/* Floats of parameters that row-local ops have. */
static int64_t shared_weights(const struct program *program)
{
    int64_t n = 0;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        for (int k = 0; k < OP_N_PARAM && op_is_row_local(program, op); k++) {
            n += op->param[k] >= 0 ? program->param[op->param[k]].n_shared : 0;
        }
    }
    return n;
}

int chain_tasks(const struct program *program, const struct device_ops *ops, int64_t n_row, int64_t n_chunk,
                const struct chain_rows *most)
{
    int64_t one = shared_weights(program) + most->n_window * widest(program, true);
    int64_t n_most = larger(larger(n_row * widest(program, false) / 2, TASKS_FLOATS) / one,
                            larger(most->n_chunk, CHUNK_MIN));
    return (int)smaller(smaller(n_chunk, n_most), smaller(ops->n_chunk, CHAIN_N_TASK));
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

int64_t chain_windows_bytes(const struct program *program, const struct step *first, int n_task, int n_chunk,
                            int64_t n_slot_bytes)
{
    int64_t sums = n_chunk > 1 ? chain_sum_floats(program, first) * (int64_t)sizeof(float) : 0;
    return n_task * (n_slot_bytes + sums);
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

bool chain_takes_bf16(const struct program *program, const struct step *step)
{
    const struct op *op = &program->op[step->op];
    return op_defs[op->kind]->takes_bf16 && op->in[0] != op->in[1]; /* of one input twice: rounded twice */
}

/* Does the device take all BF16 rows as they are? */
static bool is_direct(const struct chain *chain)
{
    bool all = chain->device->ops->takes_bf16 && chain->device->products == DEVICE_PRODUCTS_BF16;
    for (int i = 0; i < chain->n_link; i++) {
        const struct chain_link *link = &chain->link[i];
        bool takes = chain_takes_bf16(chain->program, link->step);
        for (int role = 0; role < OP_ROLE_N; role++) {
            all = all && (takes || !link->is_bf16[role]);
        }
    }
    return all;
}

void chain_stages(struct chain *chain, int64_t n_window, int64_t begin)
{
    int64_t end = begin;
    chain->n_stage = 0;
    chain->is_direct = is_direct(chain);
    for (int i = 0; i < chain->n_link; i++) {
        struct chain_link *link = &chain->link[i];
        for (int role = 0; role < OP_ROLE_N; role++) {
            link->stage[role] = -1;
        }
        for (int k = 0; k < link->step->n_operand; k++) {
            const struct step_operand *o = &link->step->operand[k];
            if (!chain->is_direct && link->is_bf16[o->role] && link->window_at[o->role] < 0) {
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

/* A chunk of a part, and its steps. */
struct task {
    const struct chain *chain;
    const struct chain_part *part;
    int chunk, slot;
    struct chain_call call[CHAIN_N_STEP];
};

struct window {
    int64_t first, n; /* rows of the part */
    bool begins;      /* the chunk's first */
};

/* The part's chunks' sums: where a link's first gradient lies, and each chunk's own floats of it. */
static float *sum_of(const struct chain *chain, const struct chain_part *part, int64_t at, int64_t n, int chunk)
{
    const struct chain_part *last = &chain->part[chain->n_part - 1];
    char *sums = chain->windows + (last->first + last->rows.n_chunk) * chain->n_slot_bytes;
    int64_t begin = part->first * chain_sum_floats(chain->program, chain->link[0].step);
    return (float *)(void *)sums + begin + at * part->rows.n_chunk + chunk * n;
}

/* The call's gradients of parameters become those of the chunk; *at: floats of the links before. Is one of them begun
 * here? */
static bool sums_point(const struct task *task, const struct step *step, bool begins, int64_t *at,
                       struct op_call *call)
{
    const struct chain *chain = task->chain;
    bool any = false;
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        int64_t n = sum_floats(chain->program, o);
        if (n > 0) {
            bool *add = &call->add_param[o->role - OP_ROLE_GRAD_PARAM_0];
            *add = !begins || (task->part->rows.n_chunk == 1 && *add);
            any = any || !*add;
        }
        if (n > 0 && task->part->rows.n_chunk > 1) {
            call->array[o->role] = sum_of(chain, task->part, *at, n, task->chunk);
        }
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

/* The window's first row of an array that has all rows of the part. */
static void *row_at(const struct task *task, int i, const struct window *w, int role)
{
    return (char *)task->call[i].op.array[role] + w->first * row_bytes(&task->chain->link[i], role);
}

static void rows_point(const struct task *task, int i, const struct window *w, struct op_call *call)
{
    const struct chain *chain = task->chain;
    const struct chain_link *link = &chain->link[i];
    char *slot = chain->windows + task->slot * chain->n_slot_bytes;
    for (int role = 0; role < OP_ROLE_N; role++) {
        if (link->window_at[role] >= 0) {
            call->array[role] = slot + link->window_at[role];
        } else if (link->stage[role] >= 0) {
            call->array[role] = slot + chain->stage[link->stage[role]].at;
        } else if (link->width[role] > 0 && call->array[role] != NULL) {
            call->array[role] = row_at(task, i, w, role);
        }
    }
}

/* Run step i, after the device is told which of its arrays are BF16. */
static void op_run(const struct task *task, int i, const struct op_call *call)
{
    const struct chain_link *link = &task->chain->link[i];
    const struct op_def *def = op_defs[call->op->kind];
    struct device_bf16 *bf16 = &call->device->bf16;
    for (int role = 0; task->chain->is_direct && role < OP_ROLE_N; role++) {
        if (link->is_bf16[role] && call->array[role] != NULL) {
            ASSERT(bf16->n < DEVICE_BF16_MOST);
            bf16->rows[bf16->n].at = call->array[role];
            bf16->rows[bf16->n++].f = link->width[role];
        }
    }
    (link->step->backward ? def->backward : def->forward)(call);
    if (task->chain->is_direct) { /* else several chunks may run at this time */
        bf16->n = 0;
    }
}

/* Widen the rows that step i reads and no step before has made floats. n_row: of each stage. */
static void stages_read(const struct task *task, int i, const struct window *w, const struct op_call *call,
                        int64_t *n_row)
{
    const struct device_ops *ops = call->device->ops;
    const struct chain_link *link = &task->chain->link[i];
    for (int k = 0; k < link->step->n_operand; k++) {
        const struct step_operand *o = &link->step->operand[k];
        int stage = link->stage[o->role];
        int64_t n = stage >= 0 && o->access != STEP_ACCESS_WRITE ? call->n - n_row[stage] : 0;
        if (n > 0) {
            const char *from = (const char *)row_at(task, i, w, o->role) + n_row[stage] * row_bytes(link, o->role);
            float *to = (float *)call->array[o->role] + n_row[stage] * link->width[o->role];
            ops->rows_decode(call->device, DEVICE_CODEC_BF16, n, link->width[o->role], from, to);
            n_row[stage] += n;
        }
    }
}

/* Round what step i has written. */
static void stages_write(const struct task *task, int i, const struct window *w, const struct op_call *call,
                         int64_t *n_row)
{
    const struct chain_link *link = &task->chain->link[i];
    for (int k = 0; k < link->step->n_operand; k++) {
        const struct step_operand *o = &link->step->operand[k];
        int stage = link->stage[o->role];
        if (task->chain->is_direct || !link->is_bf16[o->role] || o->access == STEP_ACCESS_READ || call->n == 0) {
            continue;
        }
        call->device->ops->rows_round(call->device, call->n, link->width[o->role], call->array[o->role],
                                      stage >= 0 ? row_at(task, i, w, o->role) : NULL);
        if (stage >= 0) {
            n_row[stage] = larger(n_row[stage], call->n);
        }
    }
}

/* Rows of gradients behind those that step i has made become 0. */
static void grads_end(const struct task *task, int i, const struct window *w, const struct op_call *call,
                      int64_t *n_row)
{
    const struct device_ops *ops = call->device->ops;
    const struct chain_link *link = &task->chain->link[i];
    for (int k = 0; k < OP_N_IN; k++) {
        int role = OP_ROLE_GRAD_IN_0 + k, stage = link->stage[role];
        int64_t n = rows_within(w, task->call[i].n_grad_row[k]);
        int64_t n_bytes = codec_stored_bytes(task->chain->is_direct && link->is_bf16[role], link->width[role]);
        if (n <= call->n) {
            continue;
        }
        ops->fill_zero(call->device, (char *)call->array[role] + call->n * n_bytes,
                       (size_t)((n - call->n) * n_bytes));
        if (stage >= 0) {
            ops->fill_zero(call->device, (char *)row_at(task, i, w, role) + call->n * row_bytes(link, role),
                           (size_t)((n - call->n) * row_bytes(link, role)));
            n_row[stage] = larger(n_row[stage], n);
        }
    }
}

static void window_run(const struct task *task, const struct window *w)
{
    int64_t sum_at = 0, n_row[CHAIN_N_STAGE] = {0};
    for (int i = 0; i < task->chain->n_link; i++) {
        const struct step *step = task->chain->link[i].step;
        const struct op_call *on_part = &task->call[i].op;
        struct op_call call = *on_part;
        call.n = rows_within(w, on_part->n);
        bool begins = sums_point(task, step, w->begins, &sum_at, &call);
        rows_point(task, i, w, &call);
        stages_read(task, i, w, &call, n_row);
        if (call.n > 0 || begins) { /* sums over no rows are 0 */
            op_run(task, i, &call);
        }
        stages_write(task, i, w, &call, n_row);
        grads_end(task, i, w, &call, n_row);
    }
}

/* --- chunks of all parts --- */

static void task_run(void *context, int number, int slot)
{
    const struct chain *chain = context;
    struct task task = {.chain = chain, .part = chain->part, .slot = slot};
    while (number >= task.part->first + task.part->rows.n_chunk) {
        task.part++;
    }
    task.chunk = number - task.part->first;
    for (int i = 0; i < chain->n_link; i++) {
        chain->call(chain->context, chain->link[i].step, task.part->part, &task.call[i]);
    }
    int64_t rows = task.part->rows.n_window, n_row = task.part->n_row, first = task.chunk * rows;
    struct window w = {.first = first, .n = smaller(rows, n_row - first), .begins = true};
    do {
        window_run(&task, &w);
        w.first += task.part->rows.n_chunk * rows;
        w.n = smaller(rows, n_row - w.first);
        w.begins = false;
    } while (w.n > 0);
}

/* Each parameter's gradient: the chunks' in their order, after the share of earlier ops. */
static void sums_combine(void *context, int number, int slot)
{
    const struct chain *chain = context;
    const struct chain_part *part = &chain->part[number];
    const struct device_ops *ops = chain->device->ops;
    int64_t at = 0;
    (void)slot;
    for (int i = 0; i < chain->n_link && part->rows.n_chunk > 1; i++) {
        const struct step *step = chain->link[i].step;
        struct chain_call call;
        chain->call(chain->context, step, part->part, &call);
        for (int k = 0; k < step->n_operand; k++) {
            int64_t n = sum_floats(chain->program, &step->operand[k]);
            if (n > 0) {
                const enum op_role role = step->operand[k].role;
                float *sum = sum_of(chain, part, at, n, 0), *grad = call.op.array[role];
                const bool add = call.op.add_param[role - OP_ROLE_GRAD_PARAM_0];
                ops->chunks_add(chain->device, n, part->rows.n_chunk, sum, add ? sum : grad);
                if (add) {
                    ops->axpby(chain->device, n, 1.0F, NULL, grad, 1.0F, sum, grad);
                }
            }
            at += sum_place(n);
        }
    }
}

void chain_run(struct chain *chain)
{
    const struct device_ops *ops = chain->device->ops;
    int n_task = 0;
    for (int p = 0; p < chain->n_part; p++) {
        chain->part[p].first = n_task;
        n_task += chain->part[p].rows.n_chunk;
    }
    ops->chunks_run(chain->device, n_task, task_run, chain);
    if (n_task > chain->n_part && chain_sum_floats(chain->program, chain->link[0].step) > 0) {
        ops->chunks_run(chain->device, chain->n_part, sums_combine, chain);
    }
}
