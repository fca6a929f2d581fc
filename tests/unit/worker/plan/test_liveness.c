#include "worker/plan/liveness.h"
#include "worker/plan/offload.h"
#include "worker/plan/recompute.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define N_WINDOW 2 /* of a part's rows */

/* Plays an epoch on a picture of the arena, and one of a slot of windows: every cell knows which array was last written there, so that
 * an array read after another was put on top of it is seen. Steps of a fused chain run on one window of rows after another. */
struct picture {
    const struct program *program;
    struct memory_plan plan;
    int *cell, *slot;    /* per 64 bytes: the array written last */
    int *name[N_WINDOW]; /* by slot: what the array's cells hold in these rows; 0: it has not been written */
    int n_written;       /* arrays, so far */
    int n_again;         /* ops that ran again */
};

static int n_in_windows; /* arrays there that were written */

static void paint(int *cell, int64_t at, int64_t n_bytes, int name, bool write)
{
    for (int64_t c = at / 64; at >= 0 && c < (at + n_bytes) / 64; c++) {
        if (write) {
            cell[c] = name;
        }
        cr_assert_eq(cell[c], name, "array %d was overwritten by %d before it was read", name, cell[c]);
    }
}

/* 0: it has no rows that could be cut into windows. */
static int64_t row_bytes(const struct picture *p, const struct step_operand *o)
{
    bool sparse = o->array == STEP_ARRAY_VALUE && p->program->value[o->index].is_sparse;
    return sparse ? 0 : step_operand_width(p->program, o) * (int64_t)sizeof(float);
}

static int64_t operand_bytes(const struct picture *p, const struct step_operand *o)
{
    const struct program *program = p->program;
    switch (o->array) {
    case STEP_ARRAY_VALUE:
        return p->plan.rows.n_sparse_value * (int64_t)sizeof(float);
    case STEP_ARRAY_STATISTICS: {
        const struct op *op = &program->op[o->index];
        return (op_defs[op->kind]->global->n_statistics(program, op) * (int64_t)sizeof(double) + 63) / 64 * 64;
    }
    case STEP_ARRAY_WORKSPACE:
        return memory_workspace_bytes(o->index < 0 ? &p->plan.loss_workspace : &p->plan.workspace[o->index][o->k]);
    default:
        return 0;
    }
}

/* An array's name in one window: of a gradient, which changes each time it is added to and may lie on another's, what it now is. */
static int *name_of(struct picture *p, const struct step_operand *o, int window)
{
    int slot = liveness_slot(p->program, o->array, o->index, o->k);
    return slot >= 0 ? &p->name[window][slot] : NULL;
}

static void window_paint(struct picture *p, const struct step_operand *o, int window, bool write)
{
    int64_t rows = p->plan.rows.n_row / N_WINDOW, n_bytes = rows * row_bytes(p, o);
    int64_t at = memory_plan_at(&p->plan, p->program, o->array, o->index, o->k);
    int64_t in_slot = memory_plan_window_at(&p->plan, p->program, o);
    bool whole = n_bytes == 0;
    n_bytes = whole ? operand_bytes(p, o) : n_bytes;
    cr_assert(n_bytes == 0 || (at >= 0) != (in_slot >= 0), "array %d of index %d has no place", (int)o->array,
              o->index);
    int name = *name_of(p, o, window);
    if (in_slot >= 0) {
        paint(p->slot, in_slot, n_bytes, name, write);
        n_in_windows += write;
    } else if (at >= 0) {
        paint(p->cell, at + (whole ? 0 : window * n_bytes), n_bytes, name, write);
    }
}

/* In one window, or in all of them (-1). */
static void operand_paint(struct picture *p, const struct step_operand *o, int window, bool write)
{
    if (name_of(p, o, 0) == NULL) {
        return;
    }
    bool whole = row_bytes(p, o) == 0;
    p->n_written += write;
    for (int w = 0; w < N_WINDOW; w++) {
        if (window >= 0 && w != window && !whole) {
            continue;
        }
        int *name = name_of(p, o, w);
        *name = write ? p->n_written : *name;
        cr_assert(*name != 0, "array %d of index %d is read before it is written", (int)o->array, o->index);
        window_paint(p, o, w, write);
    }
}

/* A gradient that is passed on where it lies is that of the output. */
static bool is_passed_on(struct picture *p, const struct step *step, const struct step_operand *o, int window)
{
    if (step->kind != STEP_KIND_BACKWARD || o->array != STEP_ARRAY_GRAD || o->access != STEP_ACCESS_WRITE) {
        return false;
    }
    const struct op *op = &p->program->op[step->op];
    const struct step_operand *out = step_operand(step, OP_ROLE_GRAD_OUT);
    int k = (int)o->role - OP_ROLE_GRAD_IN_0;
    bool shares = memory_plan_at(&p->plan, p->program, STEP_ARRAY_GRAD, o->index, 0) ==
                      memory_plan_at(&p->plan, p->program, STEP_ARRAY_GRAD, op->out, 0) &&
                  memory_plan_window_at(&p->plan, p->program, o) == memory_plan_window_at(&p->plan, p->program, out);
    if (shares && op_passes_grad(op, k)) {
        for (int w = 0; w < N_WINDOW; w++) {
            *name_of(p, o, w) = window < 0 || w == window ? *name_of(p, out, w) : *name_of(p, o, w);
        }
        return true;
    }
    cr_assert(!shares || (k == 0 && op_defs[op->kind]->in_place));
    return false;
}

/* May this step write to where it reads? */
static bool is_in_place(const struct picture *p, const struct step *step)
{
    bool dense = step->kind == STEP_KIND_FORWARD || step->kind == STEP_KIND_BACKWARD;
    return dense && op_defs[p->program->op[step->op].kind]->in_place;
}

/* Workspaces are written first, results then: in the middle of a step that is not in place, what it reads is still there. The memory
 * for windows is written when the chain begins and is its own until it ends. */
static void step_plays(struct picture *p, const struct step *step, int window)
{
    for (int turn = 0; turn < 3; turn++) {
        for (int k = 0; k < step->n_operand; k++) {
            const struct step_operand *o = &step->operand[k];
            bool workspace = o->array == STEP_ARRAY_WORKSPACE, reads = o->access != STEP_ACCESS_WRITE;
            if (o->role == OP_ROLE_WINDOWS) {
                continue;
            }
            if (turn == 0 && workspace) {
                operand_paint(p, o, window, true);
            } else if (turn == 1 && !workspace && reads) {
                operand_paint(p, o, window, false);
            } else if (turn == 2 && !workspace && o->access != STEP_ACCESS_READ &&
                       !is_passed_on(p, step, o, window)) {
                operand_paint(p, o, window, true);
            }
        }
    }
    for (int k = 0; k < step->n_operand; k++) {
        const struct step_operand *o = &step->operand[k];
        if (o->role != OP_ROLE_WINDOWS && (o->access != STEP_ACCESS_READ || !is_in_place(p, step))) {
            operand_paint(p, o, window, false);
        }
    }
    p->n_again += step->recomputed && window <= 0;
}

static void chain_plays(struct picture *p, const struct step *first)
{
    const struct step_operand *windows = step_operand(first, OP_ROLE_WINDOWS);
    operand_paint(p, windows, -1, true);
    for (int window = 0; window < N_WINDOW; window++) {
        for (int s = 0; s < first->n_chain; s++) {
            step_plays(p, &first[s], window);
        }
    }
    operand_paint(p, windows, -1, false);
}

static void play(struct picture *p, enum step_phase phase)
{
    const struct step_list *list = &p->plan.steps.phase[phase];
    for (int s = 0; s < list->n_step; s += step_span(&list->step[s])) {
        if (list->step[s].n_chain > 0) {
            chain_plays(p, &list->step[s]);
        } else {
            step_plays(p, &list->step[s], -1);
        }
    }
}

/* What an epoch has not made is not there in the next. */
static void names_forget(struct picture *p)
{
    for (int v = 0; v < p->program->n_value; v++) {
        for (int w = 0; w < N_WINDOW; w++) {
            p->name[w][liveness_slot(p->program, STEP_ARRAY_GRAD, v, 0)] = 0;
        }
    }
}

/* Every op has scratch, every aggregate payloads, so that theirs are seen too. */
static void workspaces_make(struct picture *p)
{
    p->plan.workspace = calloc((size_t)p->program->n_op, sizeof *p->plan.workspace);
    for (int i = 0; i < p->program->n_op; i++) {
        bool aggregate = p->program->op[i].kind == OP_KIND_AGGREGATE;
        p->plan.workspace[i][0] = p->plan.workspace[i][1] = (struct memory_workspace){
            .n_scratch = 192, .n_fetch = aggregate ? 4096 : 0, .n_pack = aggregate ? 128 : 0};
    }
    p->plan.loss_workspace.n_scratch = 64;
}

/* What is not saved on the device. */
struct saving {
    enum job_recompute recompute;
    enum job_offload offload;
};
static const struct saving none = {JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_NEVER},
                           again = {JOB_RECOMPUTE_ALWAYS, JOB_OFFLOAD_NEVER};

/* Returns the arena's bytes. */
static int64_t play_epochs(const char *model, bool is_sparse, struct saving how, int *n_again_out)
{
    char text[640];
    bool predicts = strstr(model, "[predict]") != NULL;
    snprintf(text, sizeof text, "[dataset]\npath = \"x\"\n[model]\n%s\n", model);
    static struct job job;
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    struct program program;
    struct program_input input = {.n_feature = 48,
                                  .n_class = 5,
                                  .is_sparse = is_sparse,
                                  .n_relation = 4,
                                  .is_typed = is_sparse && job.model.kind == JOB_KIND_RGCN};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    struct picture p = {
        .program = &program,
        .plan = {.rows = {.n_row = 32, .n_sparse_value = 64}, .arena = {.chain = {32 / N_WINDOW, 1}}}};
    workspaces_make(&p);
    recompute_plan(&program, how.recompute, 0, &p.plan);
    offload_plan(&program, how.offload, 0, &p.plan);
    p.cell = calloc((size_t)p.plan.arena.n_bytes / 64 + 1, sizeof *p.cell);
    p.slot = calloc((size_t)p.plan.arena.n_slot_bytes / 64 + 1, sizeof *p.slot);
    for (int w = 0; w < N_WINDOW; w++) {
        p.name[w] = calloc((size_t)liveness_slot(&program, STEP_ARRAY_WORKSPACE, -1, 0) + 1, sizeof *p.name[w]);
    }
    play(&p, STEP_PHASE_STATIC);
    for (int epoch = 0; epoch < 2; epoch++) {
        names_forget(&p);
        if (!predicts) {
            play(&p, STEP_PHASE_TRAIN);
        }
        play(&p, STEP_PHASE_EVALUATE);
        const struct step_operand logits = {.array = STEP_ARRAY_VALUE, .index = program.logits};
        operand_paint(&p, &logits, -1, false);
        const struct step_operand kept = {.array = STEP_ARRAY_VALUE, .index = program.kept};
        if (program.kept >= 0) {
            cr_assert_geq(memory_plan_at(&p.plan, &program, STEP_ARRAY_VALUE, program.kept, 0), 0, "%s: no place",
                          model);
            operand_paint(&p, &kept, -1, false);
        }
    }
    int64_t n_bytes = p.plan.arena.n_bytes;
    *n_again_out = p.n_again;
    for (int w = 0; w < N_WINDOW; w++) {
        free(p.name[w]);
    }
    free(p.slot);
    free(p.cell);
    memory_plan_release(&p.plan);
    program_release(&program);
    return n_bytes;
}

static const char *const models[] = {
    "kind = \"gcn\"\ndropout = 0.5\ninput_dropout = 0.5",
    "kind = \"gcn\"\nlayers = 5\nnorm = \"layer\"\nresidual = true\ndropout = 0.3\nactivation = \"gelu\"",
    "kind = \"sage\"\nlayers = 3\nresidual = true\nnorm = \"layer\"\ndropout = 0.5",
    "kind = \"sage\"\naggregator = \"max\"\nlayers = 3\ndropout = 0.5\nhidden = 16",
    "kind = \"gin\"\nlayers = 3\nlearn_eps = true\ndropout = 0.5\nactivation = \"elu\"",
    "kind = \"appnp\"\nsteps = 10\ndropout = 0.5",
    "kind = \"gin\"\nlayers = 3\nnorm = \"batch\"\nhidden = 17\ndropout = 0.5",
    "kind = \"sage\"\nlayers = 3\nnorm = \"batch\"\nresidual = true\nactivation = \"none\"",
    "kind = \"gcn\"\nlayers = 5\njumping_knowledge = \"concat\"\nactivation = \"gelu\"\ndropout = 0.5",
    "kind = \"sage\"\nlayers = 4\njumping_knowledge = \"max\"\nresidual = true\nhidden = 16",
    "kind = \"gcn\"\nlabel_input = true\ninput_dropout = 0.5\nlayers = 3",
    "kind = \"sgc\"\nlayers = 1\nsteps = 4",
    "kind = \"gat\"\nheads = 2\nout_heads = 2\nlayers = 3\nresidual = true\ndropout = 0.5\nactivation = \"elu\"",
    "kind = \"gatv2\"\nheads = 2\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.5",
    "kind = \"transformer\"\nheads = 2\nlayers = 3\nnorm = \"layer\"\nactivation = \"gelu\"",
    "kind = \"agnn\"\nsteps = 4\nlayers = 3\ndropout = 0.5\nattention_dropout = 0.5",
    "kind = \"gcn\"\nlayers = 4\nlinear_layers = 2",
    "kind = \"rgcn\"\nlayers = 3\ndropout = 0.5\nresidual = true",
    "kind = \"rgcn\"\nlayers = 3\nbases = 2\nnorm = \"layer\"",
};

Test(liveness, no_array_is_overwritten_while_an_epoch_still_reads_it)
{
    int n_fused = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int n_again, before = n_in_windows;
        play_epochs(models[m], false, none, &n_again);
        cr_expect_eq(n_again, 0);
        n_fused += n_in_windows > before;
        play_epochs(models[m], true, none, &n_again);
    }
    cr_expect_geq(n_fused, (int)(sizeof models / sizeof *models) - 1, "%d models have arrays in windows alone",
                  n_fused);
}

Test(liveness, what_is_made_again_is_there_when_backward_reads_it)
{
    int n_smaller = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
            int n_again;
            int64_t never = play_epochs(models[m], is_sparse, none, &n_again);
            int64_t always = play_epochs(models[m], is_sparse, again, &n_again);
            cr_expect(n_again > 0 ? always < never : always == never, "%s: %ld and %ld bytes, %d ops again",
                      models[m], (long)never, (long)always, n_again);
            n_smaller += always < never;
        }
    }
    cr_expect_geq(n_smaller, (int)(sizeof models / sizeof *models));
}

/* While an array leaves it is still read, and while it comes back its memory is its own. auto: at once, as nothing fits 0 bytes. */
Test(liveness, what_is_stored_in_host_memory_is_there_when_backward_reads_it)
{
    int n_smaller = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
            int n_again;
            int64_t stays = play_epochs(models[m], is_sparse, none, &n_again);
            int64_t leaves = play_epochs(models[m], is_sparse,
                                         (struct saving){JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_ALWAYS}, &n_again);
            int64_t at_once = play_epochs(models[m], is_sparse,
                                          (struct saving){JOB_RECOMPUTE_NEVER, JOB_OFFLOAD_AUTO}, &n_again);
            play_epochs(models[m], is_sparse, (struct saving){JOB_RECOMPUTE_ALWAYS, JOB_OFFLOAD_ALWAYS}, &n_again);
            cr_expect(leaves <= stays && at_once <= stays, "%s: %ld, %ld, %ld bytes", models[m], (long)stays,
                      (long)leaves, (long)at_once);
            n_smaller += leaves < stays && at_once < stays;
        }
    }
    cr_expect_geq(n_smaller, (int)(sizeof models / sizeof *models));
}

Test(liveness, a_prediction_overwrites_nothing_that_it_still_reads_and_takes_less_than_training)
{
    int n_smaller = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
            char model[512];
            int n_again;
            bool convs = strstr(models[m], "appnp") == NULL;
            int64_t trained = play_epochs(models[m], is_sparse, none, &n_again);
            snprintf(model, sizeof model, "%s\n[predict]\nmodel = \"m\"\n", models[m]);
            int64_t without = play_epochs(model, is_sparse, again, &n_again);
            cr_expect_leq(without, trained, "%s", models[m]);
            n_smaller += without < trained;
            cr_expect_eq(n_again, 0, "%s: a prediction makes nothing again", models[m]);
            snprintf(model, sizeof model, "%s\n[output]\nembeddings = \"%s.0\"\n[predict]\nmodel = \"m\"\n",
                     models[m], convs ? "convs" : "lins");
            int64_t with = play_epochs(model, is_sparse, none, &n_again);
            cr_expect_geq(with, without, "%s", models[m]);
        }
    }
    cr_expect_geq(n_smaller, 2 * (int)(sizeof models / sizeof *models) - 2, "%d are smaller",
                  n_smaller); /* sgc has one layer */
}

Test(liveness, a_deep_model_takes_less_than_all_its_arrays_together)
{
    static struct job job;
    const char *text = "[dataset]\npath = \"x\"\n[model]\nkind = \"gcn\"\nlayers = 8\nhidden = 64\n";
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK);
    struct program program;
    struct program_input input = {.n_feature = 64, .n_class = 64};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK);
    struct memory_plan plan = {.rows = {.n_row = 16}};
    plan.workspace = calloc((size_t)program.n_op, sizeof *plan.workspace);
    recompute_plan(&program, JOB_RECOMPUTE_NEVER, 0, &plan);
    int64_t layer = plan.rows.n_row * 64 * (int64_t)sizeof(float);
    /* Kept: each layer's input, and the first layer's aggregate; besides, at the peak, two gradients and a result. */
    cr_expect_leq(plan.arena.n_bytes, (8 + 4) * layer, "%ld bytes are %.1f arrays", (long)plan.arena.n_bytes,
                  (double)plan.arena.n_bytes / (double)layer);
    memory_plan_release(&plan);
    program_release(&program);
}
