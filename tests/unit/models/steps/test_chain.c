#include "models/steps/chain.h"
#include "protocol/base/memory.h"
#include "tests/support/device/device_case.h"
#include "tests/support/model/lowered.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "kind = \"sage\"\nlayers = 3\nhidden = 16\ndropout = 0.5",
    "kind = \"gat\"\nlayers = 3\nhidden = 4\nheads = 2\nresidual = true",
    "kind = \"gin\"\nlayers = 3\nhidden = 16\nnorm = \"batch\"",
    "kind = \"gcnii\"\nlayers = 4\nhidden = 16",
    "kind = \"gcn\"\nlayers = 2\nhidden = 16\nlabel_input = true",
};

/* --- which steps --- */

Test(chain, every_row_local_step_is_in_one_chain_and_no_chain_could_be_longer)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct lowered w;
        lowered_open(&w, models[m], 24);
        for (int phase = STEP_PHASE_TRAIN; phase < STEP_PHASE_N; phase++) {
            const struct step_list *list = &w.lists.phase[phase];
            int n_fused = 0;
            for (int s = 0; s < list->n_step; s += step_span(&list->step[s])) {
                const struct step *first = &list->step[s];
                bool dense = first->kind == STEP_KIND_FORWARD || first->kind == STEP_KIND_BACKWARD;
                cr_expect_eq(first->n_chain > 0, dense && chain_takes_op(&w.program, &w.program.op[first->op]));
                cr_expect_eq(step_operand(first, OP_ROLE_WINDOWS) != NULL, first->n_chain > 0);
                for (int k = 1; k < first->n_chain; k++) {
                    cr_expect_eq(first[k].n_chain, 0);
                    cr_expect_null(step_operand(&first[k], OP_ROLE_WINDOWS));
                }
                bool longer = s + first->n_chain < list->n_step && first[first->n_chain].n_chain > 0;
                cr_expect(first->n_chain == 0 || first->n_chain == CHAIN_N_STEP || !longer, "%s: step %d", models[m],
                          s);
                n_fused += first->n_chain > 1;
            }
            cr_expect_gt(n_fused, 0, "%s", models[m]);
        }
        lowered_close(&w);
    }
}

Test(chain, marking_a_list_again_changes_nothing)
{
    struct lowered w;
    lowered_open(&w, models[0], 24);
    struct step_list *list = &w.lists.phase[STEP_PHASE_TRAIN];
    struct step *before = calloc((size_t)list->n_step, sizeof *before);
    memcpy(before, list->step, (size_t)list->n_step * sizeof *before);
    chains_mark(&w.program, list);
    for (int s = 0; s < list->n_step; s++) {
        cr_expect_eq(list->step[s].n_chain, before[s].n_chain);
        cr_expect_eq(list->step[s].n_operand, before[s].n_operand);
    }
    free(before);
    lowered_close(&w);
}

/* --- windows and chunks --- */

Test(chain, windows_fit_the_cache_and_chunks_share_them_all)
{
    struct lowered w;
    lowered_open(&w, "kind = \"sage\"\nlayers = 3\nhidden = 256", 24);
    struct chain_rows rows = chain_rows(&w.program, &device_cpu, 100000);
    cr_expect_eq(rows.n_window * 256, device_cpu.n_window_float);
    cr_expect_eq(rows.n_chunk, 16);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, rows.n_window).n_chunk, 1);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, rows.n_window + 1).n_chunk, 2);
    cr_expect_eq(chain_rows(&w.program, &device_cpu, 0).n_chunk, 1);
    lowered_close(&w);
}

/* --- a chain runs --- */

/* y = elu(x Wᵀ + b), z = y Vᵀ, and back: dy = dz V, dV = dzᵀ y, d(pre) = elu' dy, dW, db. */
enum { N_ROW = 333, F_IN = 24, F = 16, F_OUT = 5 };

struct arrays {
    float *x, *pre, *y, *z, *grad_z, *grad_y, *grad_pre;
    float *w, *b, *v, *grad_w, *grad_b, *grad_v;
};

static float *zeros(int64_t n)
{
    return calloc((size_t)n, sizeof(float));
}

static void arrays_make(struct arrays *a)
{
    *a = (struct arrays){.x = device_random(N_ROW * F_IN, 1),
                         .pre = zeros(N_ROW * F),
                         .y = zeros(N_ROW * F),
                         .z = zeros(N_ROW * F_OUT),
                         .grad_z = device_random(N_ROW * F_OUT, 2),
                         .grad_y = zeros(N_ROW * F),
                         .grad_pre = zeros(N_ROW * F),
                         .w = device_random(F * F_IN, 3),
                         .b = device_random(F, 4),
                         .v = device_random(F_OUT * F, 5),
                         .grad_w = zeros(F * F_IN),
                         .grad_b = zeros(F),
                         .grad_v = zeros(F_OUT * F)};
}

static void arrays_free(struct arrays *a)
{
    float *all[] = {a->x, a->pre, a->y, a->z,      a->grad_z, a->grad_y, a->grad_pre,
                    a->w, a->b,   a->v, a->grad_w, a->grad_b, a->grad_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void *array_of(const struct arrays *a, const struct step_operand *o)
{
    float *values[] = {a->x, a->pre, a->y, a->z}, *grads[] = {NULL, a->grad_pre, a->grad_y, a->grad_z};
    float *params[] = {a->w, a->b, a->v}, *grad_params[] = {a->grad_w, a->grad_b, a->grad_v};
    return o->array == STEP_ARRAY_VALUE            ? values[o->index]
           : o->array == STEP_ARRAY_GRAD           ? grads[o->index]
           : o->array == STEP_ARRAY_PARAMETER      ? params[o->index]
           : o->array == STEP_ARRAY_GRAD_PARAMETER ? grad_params[o->index]
                                                   : NULL;
}

/* Run the chain that begins with a step, in windows; the value before the activation and its gradient lie in the
 * windows alone. */
static void chain_play(struct device *device, const struct device_ops *ops, const struct program *program,
                       const struct step *first, const struct arrays *a)
{
    static struct chain chain;
    int64_t slot_bytes = N_ROW * F * 4 + N_ROW * F * 4 + (1 << 16);
    chain = (struct chain){.rows = chain_rows(program, ops, N_ROW),
                           .n_row = N_ROW,
                           .n_slot_bytes = slot_bytes,
                           .n_link = first->n_chain};
    char *windows = malloc((size_t)chain_windows_bytes(program, first, chain.rows.n_chunk, slot_bytes));
    memset(windows, 0xff, (size_t)chain_windows_bytes(program, first, chain.rows.n_chunk, slot_bytes));
    for (int s = 0; s < first->n_chain; s++) {
        struct chain_link *link = &chain.link[s];
        const struct op *op = &program->op[first[s].op];
        *link = (struct chain_link){
            .step = &first[s],
            .call = {.device = device, .program = program, .op = op, .n = N_ROW, .training = true}};
        for (int role = 0; role < OP_ROLE_N; role++) {
            link->window_at[role] = -1;
        }
        for (int k = 0; k < first[s].n_operand; k++) {
            const struct step_operand *o = &first[s].operand[k];
            bool inside = o->index == 1 && (o->array == STEP_ARRAY_VALUE || o->array == STEP_ARRAY_GRAD);
            link->call.array[o->role] = array_of(a, o);
            link->row_bytes[o->role] = step_operand_width(program, o) * 4;
            link->window_at[o->role] = inside ? N_ROW * F * 4
                                       : o->array == STEP_ARRAY_WORKSPACE && o->k < STEP_WORKSPACE_CHAIN
                                           ? 2 * N_ROW * F * 4
                                           : -1;
            if (o->role == OP_ROLE_WINDOWS) {
                link->call.windows = windows;
            }
        }
    }
    chain_run(&chain);
    free(windows);
}

static void program_make(struct program *program)
{
    const struct program_input input = {.n_feature = F_IN, .n_class = F_OUT};
    program_init(&input, program);
    int w = program_param(program, "w", F, F_IN, 0.1), b = program_param(program, "b", 0, F, 0.1);
    int v = program_param(program, "v", F_OUT, F, 0.1);
    int y = program_activate(program, program_linear(program, 0, w, b), DEVICE_ACTIVATION_ELU, 0.0);
    program->logits = program_linear(program, y, v, -1);
    program_hops(program);
}

static const struct step *chain_find(const struct step_list *list, enum step_kind kind)
{
    for (int s = 0; s < list->n_step; s++) {
        if (list->step[s].kind == kind && list->step[s].n_chain > 0) {
            return &list->step[s];
        }
    }
    return NULL;
}

static void epoch_play(const struct device_ops *ops, struct arrays *out)
{
    struct program program;
    struct step_lists lists;
    struct device *device;
    program_make(&program);
    step_lists_lower(&program, &lists);
    const struct step *forward = chain_find(&lists.phase[STEP_PHASE_TRAIN], STEP_KIND_FORWARD);
    const struct step *backward = chain_find(&lists.phase[STEP_PHASE_TRAIN], STEP_KIND_BACKWARD);
    cr_assert_eq(forward->n_chain, 3);
    cr_assert_eq(backward->n_chain, 3);
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    arrays_make(out);
    chain_play(device, ops, &program, forward, out);
    chain_play(device, ops, &program, backward, out);
    cr_assert_eq(device_sync(device), STATUS_OK);
    ops->close(device);
    step_lists_release(&lists);
    program_release(&program);
}

static void expect_near(const char *what, int64_t n, const float *x, const float *expected)
{
    double most = 0.0, off = 0.0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)expected[i]));
        off = fmax(off, fabs((double)x[i] - expected[i]));
        cr_assert(isfinite(x[i]), "%s[%ld]", what, (long)i);
    }
    cr_expect(most > 0.0 && off <= TOLERANCE_SUM * most, "%s: off by %.3g of %.3g", what, off, most);
}

Test(chain, windows_give_the_values_and_gradients_of_all_rows_at_once)
{
    struct device_ops whole = device_reference, narrow = device_cpu;
    whole.n_window_float = INT64_MAX / 2;
    narrow.n_window_float = 32 * F_IN; /* 11 windows, the last with 13 rows, in 4 chunks */
    struct arrays expected, got;
    epoch_play(&whole, &expected);
    epoch_play(&narrow, &got);
    expect_near("z", N_ROW * F_OUT, got.z, expected.z);
    expect_near("grad_w", F * F_IN, got.grad_w, expected.grad_w);
    expect_near("grad_b", F, got.grad_b, expected.grad_b);
    expect_near("grad_v", F_OUT * F, got.grad_v, expected.grad_v);
    for (int64_t i = 0; i < N_ROW * F; i++) {
        cr_assert(got.pre[i] == 0.0f && got.grad_pre[i] == 0.0f, "what passes between steps is in the windows alone");
    }
    arrays_free(&expected);
    arrays_free(&got);
}
