#include "models/steps/step.h"
#include "tests/support/model/lowered.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
    "kind = \"gcn\"\nlayers = 2\nhidden = 16\ndropout = 0.5",
    "kind = \"gcn\"\nlayers = 4\nhidden = 16\nresidual = true\nnorm = \"layer\"\njumping_knowledge = \"max\"",
    "kind = \"gat\"\nlayers = 3\nhidden = 4\nheads = 2\nresidual = true\ndropout = 0.5",
    "kind = \"gatv2\"\nlayers = 2\nhidden = 4\nheads = 2",
    "kind = \"transformer\"\nlayers = 2\nhidden = 4\nheads = 2\nresidual = true",
    "kind = \"gin\"\nlayers = 3\nhidden = 16\nnorm = \"batch\"\ndropout = 0.5",
    "kind = \"sage\"\nlayers = 3\nhidden = 16\naggregator = \"max\"",
    "kind = \"sage\"\nlayers = 3\nhidden = 16\nresidual = true\njumping_knowledge = \"concat\"",
    "kind = \"rgcn\"\nlayers = 2\nhidden = 16",
    "kind = \"rgcn\"\nlayers = 2\nhidden = 16\nbases = 2",
    "kind = \"gcnii\"\nlayers = 4\nhidden = 16",
    "kind = \"appnp\"\nhidden = 16",
    "kind = \"agnn\"\nhidden = 16",
    "kind = \"sgc\"",
    "kind = \"gat\"\nlayers = 2\nhidden = 4\nheads = 2\nlabel_input = true",
    "kind = \"gcn\"\nlayers = 2\nhidden = 16\nlabel_input = true\nnorm = \"batch\"",
};
#define N_MODEL (sizeof models / sizeof *models)

/* --- what every list keeps to --- */

/* Which arrays hold something: by array, index and k. */
#define N_INDEX 512
static bool written[STEP_ARRAY_N][N_INDEX][OP_N_IN];

static bool is_followed(enum step_array array)
{
    return array == STEP_ARRAY_VALUE || array == STEP_ARRAY_GRAD || array == STEP_ARRAY_SAVED ||
           array == STEP_ARRAY_FRESH || array == STEP_ARRAY_STATISTICS || array == STEP_ARRAY_SUM;
}

static bool *written_at(const struct step_operand *o)
{
    cr_assert(o->index >= -1 && o->index + 1 < N_INDEX);
    return &written[o->array][o->index + 1][o->k];
}

/* Follow one list: nothing is read before it is written, and no gradient is added to before it is made. */
static void list_follow(const char *model, const struct step_list *list, bool trains)
{
    for (int s = 0; s < list->n_step; s++) {
        const struct step *step = &list->step[s];
        for (int k = 0; k < step->n_operand; k++) {
            const struct step_operand *o = &step->operand[k];
            bool features = o->array == STEP_ARRAY_VALUE && o->index == 0;
            if (is_followed(o->array) && !features && o->access != STEP_ACCESS_WRITE) {
                cr_expect(*written_at(o), "%s: step %d (%s) reads array %d, %d, %d, which no step before it writes",
                          model, s, step_kind_name(step->kind), (int)o->array, o->index, o->k);
            }
            cr_expect(trains || (o->array != STEP_ARRAY_GRAD && o->array != STEP_ARRAY_FRESH), "%s: %d", model, s);
        }
        for (int k = 0; k < step->n_operand; k++) {
            const struct step_operand *o = &step->operand[k];
            if (is_followed(o->array) && o->access != STEP_ACCESS_READ) {
                *written_at(o) = true;
            }
        }
    }
}

Test(step, every_array_is_written_before_it_is_read)
{
    for (size_t m = 0; m < N_MODEL; m++) {
        struct lowered w;
        lowered_open(&w, models[m], 64);
        memset(written, 0, sizeof written);
        list_follow(models[m], &w.lists.phase[STEP_PHASE_STATIC], false);
        list_follow(models[m], &w.lists.phase[STEP_PHASE_TRAIN], true);
        cr_expect(written[STEP_ARRAY_VALUE][w.program.logits + 1][0]);
        for (int v = 1; v < w.program.n_value; v++) {
            cr_expect_eq(written[STEP_ARRAY_GRAD][v + 1][0], w.program.value[v].needs_grad, "%s: value %d", models[m],
                         v);
        }
        memset(written, 0, sizeof written);
        list_follow(models[m], &w.lists.phase[STEP_PHASE_STATIC], false);
        list_follow(models[m], &w.lists.phase[STEP_PHASE_EVALUATE], false);
        lowered_close(&w);
    }
}

Test(step, the_first_access_to_every_gradient_overwrites_it)
{
    for (size_t m = 0; m < N_MODEL; m++) {
        struct lowered w;
        lowered_open(&w, models[m], 64);
        bool seen[N_INDEX] = {false}, param_seen[N_INDEX] = {false};
        const struct step_list *list = &w.lists.phase[STEP_PHASE_TRAIN];
        for (int s = 0; s < list->n_step; s++) {
            for (int k = 0; k < list->step[s].n_operand; k++) {
                const struct step_operand *o = &list->step[s].operand[k];
                bool param = o->array == STEP_ARRAY_GRAD_PARAMETER && o->index >= 0;
                bool *before = param ? &param_seen[o->index] : o->array == STEP_ARRAY_GRAD ? &seen[o->index] : NULL;
                if (before != NULL && !*before) {
                    cr_expect_eq(o->access, STEP_ACCESS_WRITE, "%s: step %d, index %d", models[m], s, o->index);
                    *before = true;
                }
            }
        }
        for (int p = 0; p < w.program.n_param; p++) {
            cr_expect_eq(param_seen[p], w.program.param[p].trains, "%s: %s", models[m], w.program.param[p].name);
        }
        lowered_close(&w);
    }
}

Test(step, an_evaluations_steps_have_the_times_of_trainings)
{
    for (size_t m = 0; m < N_MODEL; m++) {
        struct lowered w;
        lowered_open(&w, models[m], 64);
        const struct step_list *train = &w.lists.phase[STEP_PHASE_TRAIN],
                               *evaluate = &w.lists.phase[STEP_PHASE_EVALUATE];
        int n_static = w.lists.phase[STEP_PHASE_STATIC].n_step;
        cr_expect_eq(w.lists.n_time, n_static + train->n_step + 1);
        for (int s = 0; s < train->n_step; s++) {
            cr_expect_eq(train->step[s].time, n_static + s);
        }
        for (int s = 0; s < evaluate->n_step; s++) {
            const struct step *one = &evaluate->step[s], *same = &train->step[one->time - n_static];
            bool end = one->kind == STEP_KIND_SCORE || one->kind == STEP_KIND_REDUCE;
            cr_expect(end ? same->kind == STEP_KIND_LOSS
                          : same->kind == one->kind && same->op == one->op && !same->backward,
                      "%s: step %d", models[m], s);
        }
        lowered_close(&w);
    }
}

Test(step, a_prediction_has_the_steps_of_an_evaluation_with_times_of_their_own_and_no_others)
{
    for (size_t m = 0; m < N_MODEL; m++) {
        struct lowered trains, predicts;
        char model[512];
        snprintf(model, sizeof model, "%s\n[predict]\nmodel = \"m\"", models[m]);
        lowered_open(&trains, models[m], 64);
        lowered_open(&predicts, model, 64);
        const struct step_list *evaluate = &predicts.lists.phase[STEP_PHASE_EVALUATE];
        int n_static = predicts.lists.phase[STEP_PHASE_STATIC].n_step;
        cr_expect_eq(predicts.lists.phase[STEP_PHASE_TRAIN].n_step, 0);
        cr_expect_eq(step_lists_timed(&predicts.lists), evaluate);
        cr_expect_eq(step_lists_timed(&trains.lists), &trains.lists.phase[STEP_PHASE_TRAIN]);
        cr_expect_eq(evaluate->n_step, trains.lists.phase[STEP_PHASE_EVALUATE].n_step, "%s", models[m]);
        cr_expect_eq(predicts.lists.n_time, n_static + evaluate->n_step + 1);
        for (int s = 0; s < evaluate->n_step; s++) {
            const struct step *same = &trains.lists.phase[STEP_PHASE_EVALUATE].step[s];
            cr_expect_eq(evaluate->step[s].time, n_static + s);
            cr_expect(evaluate->step[s].kind == same->kind && evaluate->step[s].op == same->op &&
                          evaluate->step[s].n_chain == same->n_chain,
                      "%s: step %d", models[m], s);
        }
        lowered_close(&predicts);
        lowered_close(&trains);
    }
}

static const struct step *score_of(const struct lowered *w)
{
    const struct step_list *list = &w->lists.phase[STEP_PHASE_EVALUATE];
    for (int s = 0; s < list->n_step; s++) {
        if (list->step[s].kind == STEP_KIND_SCORE) {
            return &list->step[s];
        }
    }
    return NULL;
}

Test(step, the_layer_that_a_prediction_writes_is_there_until_the_scores)
{
    struct lowered w;
    lowered_open(
        &w, "kind = \"gcn\"\nlayers = 3\nhidden = 16\n[output]\nembeddings = \"convs.1\"\n[predict]\nmodel = \"m\"",
        64);
    const struct step_operand *kept = step_operand(score_of(&w), OP_ROLE_IN_1);
    cr_assert_not_null(kept);
    cr_expect_eq(kept->index, w.program.kept);
    cr_expect_eq(w.program.value[kept->index].width, 16);
    lowered_close(&w);
    lowered_open(&w, "kind = \"gcn\"\nlayers = 3\nhidden = 16\n[output]\nembeddings = \"convs.1\"", 64);
    cr_expect_eq(w.program.kept, -1, "a training keeps none");
    cr_expect_null(step_operand(score_of(&w), OP_ROLE_IN_1));
    lowered_close(&w);
}

Test(step, a_list_depends_on_the_program_alone_and_not_on_its_sizes)
{
    for (size_t m = 0; m < N_MODEL; m++) {
        struct lowered w, again;
        lowered_open(&w, models[m], 64);
        lowered_open(&again, models[m], 96);
        for (int phase = 0; phase < STEP_PHASE_N; phase++) {
            const struct step_list *a = &w.lists.phase[phase], *b = &again.lists.phase[phase];
            cr_assert_eq(a->n_step, b->n_step, "%s", models[m]);
            for (int s = 0; s < a->n_step; s++) {
                const struct step *x = &a->step[s], *y = &b->step[s];
                cr_expect(x->kind == y->kind && x->op == y->op && x->pass == y->pass && x->n_operand == y->n_operand,
                          "%s: %d", models[m], s);
            }
        }
        lowered_close(&w);
        lowered_close(&again);
    }
}

/* --- words --- */

static bool has_text(const struct lowered *w, const char *text)
{
    bool found = false;
    for (int phase = 0; phase < STEP_PHASE_N; phase++) {
        for (int s = 0; s < w->lists.phase[phase].n_step; s++) {
            char line[STEP_TEXT_BYTES];
            step_text(&w->program, &w->lists.phase[phase].step[s], line, sizeof line);
            cr_expect(strchr(line, '\n') == NULL && line[0] != '\0');
            found = found || strcmp(line, text) == 0;
        }
    }
    return found;
}

Test(step, a_step_is_printed_with_the_modules_of_pytorch_geometric)
{
    struct lowered w;
    lowered_open(&w, "kind = \"gat\"\nlayers = 2\nhidden = 4\nheads = 2\ndropout = 0.5", 64);
    cr_expect(has_text(&w, "forward  Linear  convs.0.lin"));
    cr_expect(has_text(&w, "forward  attention scores  convs.0.att_src"));
    cr_expect(has_text(&w, "halo forward  GATConv attention  convs.1"));
    cr_expect(has_text(&w, "halo backward  GATConv attention  convs.0"));
    cr_expect(has_text(&w, "forward  ELU + Dropout") || has_text(&w, "forward  ReLU + Dropout"));
    cr_expect(has_text(&w, "loss"));
    cr_expect(has_text(&w, "optimizer step"));
    char little[8];
    step_text(&w.program, &w.lists.phase[STEP_PHASE_TRAIN].step[0], little, sizeof little);
    cr_expect(strlen(little) < sizeof little);
    lowered_close(&w);
}
