#include "worker/liveness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Plays an epoch on a picture of the arena: every cell knows which array was last written there, so that an array read after
 * another was put on top of it is seen. */
struct picture {
    const struct program *program;
    struct memory_plan plan;
    int *cell; /* per 64 bytes: the array written last */
};

enum what { WHAT_VALUE = 1000, WHAT_GRAD = 2000, WHAT_KEPT = 3000, WHAT_TEMP = 4000 };

static void paint(struct picture *p, int64_t at, int64_t n_bytes, int name, bool write)
{
    for (int64_t c = at / 64; at >= 0 && c < (at + n_bytes) / 64; c++) {
        if (write) {
            p->cell[c] = name;
        }
        cr_assert_eq(p->cell[c], name, "array %d was overwritten by %d before it was read", name, p->cell[c]);
    }
}

static int64_t value_bytes(const struct picture *p, int v)
{
    const struct value *value = &p->program->value[v];
    return (value->is_sparse ? p->plan.n_sparse_value : p->plan.n_row * value->width) * (int64_t)sizeof(float);
}

static void value_touch(struct picture *p, int v, bool write)
{
    if (v > 0) {
        cr_assert_geq(p->plan.value_at[v], 0, "value %d has no place", v);
        paint(p, p->plan.value_at[v], value_bytes(p, v), WHAT_VALUE + v, write);
    }
}

static void grad_touch(struct picture *p, int v, bool write)
{
    cr_assert_geq(p->plan.grad_at[v], 0, "the gradient of value %d has no place", v);
    paint(p, p->plan.grad_at[v], value_bytes(p, v), WHAT_GRAD + v, write);
}

static void kept_touch(struct picture *p, int i, bool write)
{
    const struct op *op = &p->program->op[i];
    for (int k = 0; k < AGGREGATE_N_KEPT; k++) {
        int64_t n_bytes = p->plan.n_row * op_kept_width(p->program, op, k) * (int64_t)sizeof(float);
        if (k == 0 && op_defs[op->kind].global != NULL) {
            n_bytes = (op_defs[op->kind].global->n_whole(p->program, op) * (int64_t)sizeof(double) + 63) / 64 * 64;
        }
        cr_assert(n_bytes == 0 || p->plan.kept_at[i][k] >= 0);
        paint(p, p->plan.kept_at[i][k], n_bytes, WHAT_KEPT + 3 * i + k, write);
    }
}

static void play_forward(struct picture *p, bool is_static)
{
    for (int i = 0; i < p->program->n_op; i++) {
        const struct op *op = &p->program->op[i];
        if (op->is_static != is_static) {
            continue;
        }
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                value_touch(p, op->in[k], false);
            }
        }
        value_touch(p, op->out, true);
        kept_touch(p, i, true);
    }
}

static void play_backward_op(struct picture *p, int i, bool *written)
{
    const struct op *op = &p->program->op[i];
    grad_touch(p, op->out, false);
    for (int k = 0; k < OP_N_IN; k++) {
        if (op_keeps_in(p->program, op, k)) {
            value_touch(p, op->in[k], false);
        }
    }
    if (op_keeps_out(p->program, op)) {
        value_touch(p, op->out, false);
    }
    kept_touch(p, i, false);
    for (int k = 0; k < OP_N_IN; k++) {
        int in = op->in[k];
        if (in < 0 || !p->program->value[in].needs_grad) {
            continue;
        }
        if (written[in]) {
            grad_touch(p, in, false);
            if (op->kind == OP_KIND_AGGREGATE) {
                cr_assert_geq(p->plan.temp_at[i][k], 0);
                paint(p, p->plan.temp_at[i][k], value_bytes(p, in), WHAT_TEMP + 3 * i + k, true);
                grad_touch(p, in, false);
                grad_touch(p, op->out, false);
            }
        }
        grad_touch(p, in, true);
        written[in] = true;
    }
}

static void play_epochs(const char *model, bool is_sparse)
{
    char text[512];
    snprintf(text, sizeof text, "[dataset]\npath = \"x\"\n[model]\n%s\n", model);
    static struct job job;
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    struct program program;
    struct program_input input = {.n_feature = 48, .n_class = 5, .is_sparse = is_sparse, .n_relation = 4,
                                  .is_typed = is_sparse && job.model.kind == JOB_KIND_RGCN};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    struct picture p = {.program = &program, .plan = {.n_row = 32, .n_sparse_value = 64}};
    liveness_place(&program, &p.plan);
    p.cell = calloc((size_t)p.plan.n_arena_bytes / 64 + 1, sizeof *p.cell);
    play_forward(&p, true);
    for (int epoch = 0; epoch < 2; epoch++) {
        play_forward(&p, false);
        value_touch(&p, program.logits, false);
        grad_touch(&p, program.logits, true);
        bool *written = calloc((size_t)program.n_value, sizeof *written);
        for (int i = program.n_op - 1; i >= 0; i--) {
            if (program.value[program.op[i].out].needs_grad) {
                play_backward_op(&p, i, written);
            }
        }
        free(written);
        play_forward(&p, false);
        value_touch(&p, program.logits, false);
    }
    free(p.cell);
    memory_plan_release(&p.plan);
    program_release(&program);
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
    "kind = \"gcn\"\nlayers = 4\nlinear_layers = 2",
    "kind = \"rgcn\"\nlayers = 3\ndropout = 0.5\nresidual = true",
    "kind = \"rgcn\"\nlayers = 3\nbases = 2\nnorm = \"layer\"",
};

Test(liveness, no_array_is_overwritten_while_an_epoch_still_reads_it)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        play_epochs(models[m], false);
        play_epochs(models[m], true);
    }
}

Test(liveness, a_deep_model_takes_less_than_all_its_arrays_together)
{
    static struct job job;
    const char *text = "[dataset]\npath = \"x\"\n[model]\nkind = \"gcn\"\nlayers = 8\nhidden = 64\n";
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK);
    struct program program;
    struct program_input input = {.n_feature = 64, .n_class = 64};
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK);
    struct memory_plan plan = {.n_row = 16};
    liveness_place(&program, &plan);
    int64_t layer = plan.n_row * 64 * (int64_t)sizeof(float);
    /* Kept: each layer's input, and the first layer's aggregate; besides, at the peak, two gradients and a result. */
    cr_expect_leq(plan.n_arena_bytes, (8 + 4) * layer, "%ld bytes are %.1f arrays", (long)plan.n_arena_bytes,
                  (double)plan.n_arena_bytes / (double)layer);
    memory_plan_release(&plan);
    program_release(&program);
}
