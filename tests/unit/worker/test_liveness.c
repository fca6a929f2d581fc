#include "worker/plan/liveness.h"
#include "worker/plan/recompute.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Plays an epoch on a picture of the arena: every cell knows which array was last written there, so that an array read after
 * another was put on top of it is seen. */
struct picture {
    const struct program *program;
    struct memory_plan plan;
    int *cell;     /* per 64 bytes: the array written last */
    int *grad_is;  /* n_value: what a gradient's cells hold; 0: it has not begun */
    int n_written; /* gradients, so far */
    int n_again;   /* ops that ran again */
};

enum what { WHAT_VALUE = 10000, WHAT_GRAD = 20000, WHAT_KEPT = 30000, WHAT_TEMP = 40000, WHAT_ROOM = 50000 };

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

static void grad_read(struct picture *p, int v)
{
    cr_assert_geq(p->plan.grad_at[v], 0, "the gradient of value %d has no place", v);
    cr_assert_neq(p->grad_is[v], 0, "the gradient of value %d is read before it is written", v);
    paint(p, p->plan.grad_at[v], value_bytes(p, v), p->grad_is[v], false);
}

/* Written or added to: those that lie beside it would see it. */
static void grad_write(struct picture *p, int v)
{
    if (p->grad_is[v] != 0) {
        grad_read(p, v);
    }
    cr_assert_geq(p->plan.grad_at[v], 0, "the gradient of value %d has no place", v);
    p->grad_is[v] = WHAT_GRAD + ++p->n_written;
    paint(p, p->plan.grad_at[v], value_bytes(p, v), p->grad_is[v], true);
}

static void kept_touch(struct picture *p, int i, int n, bool write)
{
    const struct op *op = &p->program->op[i];
    for (int k = 0; k < n; k++) {
        int64_t n_bytes = p->plan.n_row * op_kept_width(p->program, op, k) * (int64_t)sizeof(float);
        if (k == 0 && op_defs[op->kind].global != NULL) {
            n_bytes = (op_defs[op->kind].global->n_whole(p->program, op) * (int64_t)sizeof(double) + 63) / 64 * 64;
        }
        cr_assert(n_bytes == 0 || p->plan.kept_at[i][k] >= 0);
        paint(p, p->plan.kept_at[i][k], n_bytes, WHAT_KEPT + 3 * i + k, write);
    }
}

/* Written while the op runs: in the middle of it, nothing that it reads or writes may be there. */
static void room_write(struct picture *p, int i, enum memory_room_use use)
{
    const struct memory_room *room = &p->plan.room[i][use];
    cr_assert_geq(room->at, 0);
    paint(p, room->at, room->n_scratch + room->n_fetch + room->n_pack, WHAT_ROOM + 2 * i + (int)use, true);
}

static void op_plays(struct picture *p, int i)
{
    const struct op *op = &p->program->op[i];
    bool beside = op->kind == OP_KIND_AGGREGATE || !op_defs[op->kind].in_place;
    room_write(p, i, MEMORY_ROOM_FORWARD);
    for (int turn = 0; turn < (beside ? 2 : 1); turn++) { /* where it is not in place, inputs are there after the output too */
        for (int k = 0; k < OP_N_IN; k++) {
            if (op->in[k] >= 0) {
                value_touch(p, op->in[k], false);
            }
        }
        value_touch(p, op->out, turn == 0);
    }
    kept_touch(p, i, AGGREGATE_N_KEPT, true);
    value_touch(p, op->out, false);
    paint(p, p->plan.room[i][0].at, p->plan.room[i][0].n_scratch, WHAT_ROOM + 2 * i, false);
}

static void play_forward(struct picture *p, bool is_static)
{
    for (int i = 0; i < p->program->n_op; i++) {
        if (p->program->op[i].is_static == is_static) {
            op_plays(p, i);
        }
    }
    if (!is_static) {
        paint(p, p->plan.score_room.at, p->plan.score_room.n_scratch, 1, true);
        value_touch(p, p->program->logits, false);
    }
}

static void temp_touch(struct picture *p, int i, int k, bool write)
{
    cr_assert_geq(p->plan.temp_at[i][k], 0);
    paint(p, p->plan.temp_at[i][k], value_bytes(p, p->program->op[i].in[k]), WHAT_TEMP + 3 * i + k, write);
}

static bool wants_grad(const struct picture *p, const struct op *op, int k)
{
    return op->in[k] >= 0 && p->program->value[op->in[k]].needs_grad;
}

/* An aggregate's gradients are written by what begins, or by the first block, and the inputs read by the last block. */
static void aggregate_plays(struct picture *p, int i, bool begin)
{
    const struct op *op = &p->program->op[i];
    const struct aggregate_def *def = &aggregate_defs[op->aggregate];
    bool begun = def->backward_begin != NULL;
    if (!begin) {
        room_write(p, i, MEMORY_ROOM_BACKWARD);
    }
    for (int k = 0; k < OP_N_IN; k++) {
        if (!wants_grad(p, op, k) || (begin && !def->begin_grad_in[k])) {
            continue;
        }
        if (p->grad_is[op->in[k]] != 0 && (begin || !def->begin_grad_in[k])) {
            temp_touch(p, i, k, true);
        } else if (begin || !def->begin_grad_in[k]) {
            grad_write(p, op->in[k]);
        }
    }
    grad_read(p, op->out);
    kept_touch(p, i, begun && !begin ? def->n_kept_round : AGGREGATE_N_KEPT, false);
    if (op_keeps_out(p->program, op) && begin == begun) {
        value_touch(p, op->out, false);
    }
    for (int k = 0; k < OP_N_IN && !begin; k++) {
        if (op_keeps_in(p->program, op, k)) {
            value_touch(p, op->in[k], false);
        }
        if (wants_grad(p, op, k) && p->plan.temp_at[i][k] >= 0) {
            temp_touch(p, i, k, false);
            grad_write(p, op->in[k]);
        } else if (wants_grad(p, op, k)) {
            grad_read(p, op->in[k]);
        }
    }
}

static void begin_plays(struct picture *p, int i)
{
    aggregate_plays(p, i, true);
}

static void dense_plays(struct picture *p, int i)
{
    const struct op *op = &p->program->op[i];
    room_write(p, i, MEMORY_ROOM_BACKWARD);
    grad_read(p, op->out);
    for (int k = OP_N_IN - 1; k >= 0; k--) {
        int in = op->in[k];
        if (!wants_grad(p, op, k)) {
            continue;
        }
        bool shares = p->plan.grad_at[in] == p->plan.grad_at[op->out] && p->grad_is[in] == 0;
        if (shares && op_passes_grad(op, k)) {
            p->grad_is[in] = p->grad_is[op->out];
        } else {
            cr_assert(!shares || (k == 0 && op_defs[op->kind].in_place));
            grad_read(p, op->out);
            grad_write(p, in);
        }
    }
    for (int k = 0; k < OP_N_IN; k++) {
        if (op_keeps_in(p->program, op, k)) {
            value_touch(p, op->in[k], false);
        }
    }
    if (op_keeps_out(p->program, op)) {
        value_touch(p, op->out, false);
    }
    kept_touch(p, i, 1, false);
    paint(p, p->plan.room[i][1].at, p->plan.room[i][1].n_scratch, WHAT_ROOM + 2 * i + 1, false);
}

static void op_backward_plays(struct picture *p, int i)
{
    p->program->op[i].kind == OP_KIND_AGGREGATE ? aggregate_plays(p, i, false) : dense_plays(p, i);
}

static void play_backward(struct picture *p)
{
    memset(p->grad_is, 0, (size_t)p->program->n_value * sizeof *p->grad_is);
    grad_write(p, p->program->logits);
    for (int s = 0; s < p->plan.n_step; s++) {
        static void (*const plays[])(struct picture *, int) = {
            [MEMORY_STEP_AGAIN] = op_plays, [MEMORY_STEP_BEGIN] = begin_plays, [MEMORY_STEP_OP] = op_backward_plays};
        plays[p->plan.step[s].kind](p, p->plan.step[s].op);
        p->n_again += p->plan.step[s].kind == MEMORY_STEP_AGAIN;
    }
}

/* Every op has scratch, every aggregate payloads, so that theirs are seen too. */
static void rooms_make(struct picture *p)
{
    p->plan.room = calloc((size_t)p->program->n_op, sizeof *p->plan.room);
    for (int i = 0; i < p->program->n_op; i++) {
        bool aggregate = p->program->op[i].kind == OP_KIND_AGGREGATE;
        p->plan.room[i][0] = p->plan.room[i][1] = (struct memory_room){
            .n_scratch = 192, .n_fetch = aggregate ? 4096 : 0, .n_pack = aggregate ? 128 : 0};
    }
    p->plan.score_room.n_scratch = 64;
}

/* Returns the arena's bytes. */
static int64_t play_epochs(const char *model, bool is_sparse, enum job_recompute how, int *n_again_out)
{
    char text[512];
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
    struct picture p = {.program = &program, .plan = {.n_row = 32, .n_sparse_value = 64}};
    rooms_make(&p);
    recompute_plan(&program, how, 0, &p.plan);
    p.cell = calloc((size_t)p.plan.n_arena_bytes / 64 + 1, sizeof *p.cell);
    p.grad_is = calloc((size_t)program.n_value, sizeof *p.grad_is);
    play_forward(&p, true);
    for (int epoch = 0; epoch < 2; epoch++) {
        play_forward(&p, false);
        play_backward(&p);
        play_forward(&p, false);
        value_touch(&p, program.logits, false);
    }
    int64_t n_bytes = p.plan.n_arena_bytes;
    *n_again_out = p.n_again;
    free(p.grad_is);
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
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int n_again;
        play_epochs(models[m], false, JOB_RECOMPUTE_NEVER, &n_again);
        cr_expect_eq(n_again, 0);
        play_epochs(models[m], true, JOB_RECOMPUTE_NEVER, &n_again);
    }
}

Test(liveness, what_is_made_again_is_there_when_backward_reads_it)
{
    int n_smaller = 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
            int n_again;
            int64_t never = play_epochs(models[m], is_sparse, JOB_RECOMPUTE_NEVER, &n_again);
            int64_t always = play_epochs(models[m], is_sparse, JOB_RECOMPUTE_ALWAYS, &n_again);
            cr_expect(n_again > 0 ? always < never : always == never, "%s: %ld and %ld bytes, %d ops again", models[m],
                      (long)never, (long)always, n_again);
            n_smaller += always < never;
        }
    }
    cr_expect_geq(n_smaller, (int)(sizeof models / sizeof *models));
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
    plan.room = calloc((size_t)program.n_op, sizeof *plan.room);
    recompute_plan(&program, JOB_RECOMPUTE_NEVER, 0, &plan);
    int64_t layer = plan.n_row * 64 * (int64_t)sizeof(float);
    /* Kept: each layer's input, and the first layer's aggregate; besides, at the peak, two gradients and a result. */
    cr_expect_leq(plan.n_arena_bytes, (8 + 4) * layer, "%ld bytes are %.1f arrays", (long)plan.n_arena_bytes,
                  (double)plan.n_arena_bytes / (double)layer);
    memory_plan_release(&plan);
    program_release(&program);
}
