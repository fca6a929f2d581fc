#include "worker/plan/offload.h"

#include "protocol/base/amounts.h"
#include "worker/plan/liveness.h"
#include "worker/plan/peak.h"

#include <stdlib.h>

#define HOME_ALIGN 64

/* --- arrays that wait between forward and backward --- */

/* As the kinds of steps from STEP_KIND_STORE on. */
enum move { STORE, STORED, FETCH, FETCHED, N_MOVE };

/* Numbers of steps are those of the list before the rewrite: what is inserted comes before the step of that
 * number. */
struct waiting {
    struct step_operand array;
    int last, first; /* the last step of forward that reads it, the first one of backward */
    int64_t n_bytes;
    bool chosen;
    int at[N_MOVE]; /* by enum move */
};

struct offload {
    const struct program *program;
    struct memory_plan *plan;
    struct step_list before; /* the training list as it was */
    int loss;                /* its loss */
    int *chain_first;        /* n_step: of the chain that the step is in, or the step itself */
    int *chain_last;
    int n;
    struct waiting *waiting; /* n: by what they free, most first */
    int64_t unit;            /* the peak when nothing is stored */
    struct peak peak;
};

static void chains_find(struct offload *o)
{
    int n;
    for (int s = 0; s < o->before.n_step; s += n) {
        n = step_span(&o->before.step[s]);
        for (int k = s; k < s + n; k++) {
            o->chain_first[k] = s;
            o->chain_last[k] = s + n - 1;
        }
        o->loss = o->before.step[s].kind == STEP_KIND_LOSS ? s : o->loss;
    }
}

/* Does it lie in the arena, and is it made in each epoch? */
static bool may_wait(const struct offload *o, const struct step_operand *array)
{
    const struct program *program = o->program;
    if (array->array == STEP_ARRAY_VALUE) {
        bool stays = array->index == 0 || array->index == program->logits || program->value[array->index].is_static;
        return !stays && memory_plan_at(o->plan, program, array->array, array->index, 0) >= 0;
    }
    return array->array == STEP_ARRAY_SAVED &&
           memory_plan_at(o->plan, program, array->array, array->index, array->k) >= 0;
}

static struct waiting *waiting_of(struct offload *o, const struct step_operand *array)
{
    for (int i = 0; i < o->n; i++) {
        if (step_operand_is_same(&o->waiting[i].array, array)) {
            return &o->waiting[i];
        }
    }
    struct waiting *new = &o->waiting[o->n++];
    *new = (struct waiting){.array = *array, .last = -1, .first = -1};
    new->n_bytes = liveness_bytes(o->program, o->plan, array->array, array->index, array->k);
    return new;
}

/* What backward makes again before it reads it is not there in between. */
static void operand_note(struct offload *o, int s, const struct step_operand *operand)
{
    struct waiting *w = waiting_of(o, operand);
    if (s <= o->loss) {
        w->last = s;
    } else if (w->first < 0) {
        w->first = operand->access == STEP_ACCESS_WRITE ? o->before.n_step : s;
    }
}

/* Where it would be stored and fetched. `beside`: a halo pass runs meanwhile. */
static void steps_find(const struct offload *o, bool beside, struct waiting *w)
{
    const struct step *step = o->before.step;
    w->at[STORE] = w->at[STORED] = o->chain_last[w->last] + 1;
    w->at[FETCH] = w->at[FETCHED] = o->chain_first[w->first];
    for (int s = w->at[STORE]; beside && s < w->at[FETCHED] && w->at[STORED] == w->at[STORE]; s++) {
        w->at[STORED] = step[s].kind == STEP_KIND_HALO || step[s].kind == STEP_KIND_LOSS ? s + 1 : w->at[STORED];
    }
    for (int s = w->at[FETCHED] - 1; beside && s >= w->at[STORED] && w->at[FETCH] == w->at[FETCHED]; s--) {
        w->at[FETCH] = step[s].kind == STEP_KIND_HALO ? s : w->at[FETCH];
    }
}

/* Of two arrays the one that is more bytes away for more steps, then the one made first. */
static int compare(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    double frees_x = (double)x->n_bytes * (x->at[FETCH] - x->at[STORED]),
           frees_y = (double)y->n_bytes * (y->at[FETCH] - y->at[STORED]);
    int order = x->last != y->last ? x->last - y->last : (int)x->array.array - (int)y->array.array;
    order = order != 0                         ? order
            : x->array.index != y->array.index ? x->array.index - y->array.index
                                               : x->array.k - y->array.k;
    return frees_x != frees_y ? (frees_x < frees_y ? 1 : -1) : order;
}

static void waiting_find(struct offload *o, bool beside)
{
    o->n = 0;
    for (int s = 0; s < o->before.n_step; s++) {
        for (int k = 0; k < o->before.step[s].n_operand; k++) {
            const struct step_operand *operand = &o->before.step[s].operand[k];
            if (may_wait(o, operand)) {
                operand_note(o, s, operand);
            }
        }
    }
    int n = 0;
    for (int i = 0; i < o->n; i++) {
        struct waiting *w = &o->waiting[i];
        if (w->last < 0 || w->first < 0 || w->first == o->before.n_step) {
            continue;
        }
        steps_find(o, beside, w);
        if (w->at[STORED] < w->at[FETCH]) {
            o->waiting[n++] = *w;
        }
    }
    o->n = n;
    qsort(o->waiting, (size_t)n, sizeof *o->waiting, compare);
}

/* --- the rewritten list --- */

/* Before step s: arrays leave before others come, and what leaves at once has begun to. */
static void steps_insert(const struct offload *o, int s, struct step_list *out)
{
    for (int move = STORE; move < N_MOVE; move++) {
        for (int i = 0; i < o->n; i++) {
            const struct waiting *w = &o->waiting[i];
            if (w->chosen && w->at[move] == s) {
                struct step step;
                step_offload(o->program, (enum step_kind)(STEP_KIND_STORE + move), &w->array, &step);
                step_append(out, &step);
            }
        }
    }
}

/* The training list with what is chosen. */
static void list_write(struct offload *o)
{
    struct step_list out = {0}, *train = &o->plan->steps.phase[STEP_PHASE_TRAIN];
    for (int s = 0; s < o->before.n_step; s++) {
        steps_insert(o, s, &out);
        step_append(&out, &o->before.step[s]);
    }
    free(train->step);
    *train = out;
    step_lists_finish(o->program, &o->plan->steps);
}

/* --- choice --- */

static void offload_open(const struct program *program, struct memory_plan *plan, struct offload *o)
{
    *o = (struct offload){.program = program, .plan = plan};
    const struct step_list *train = &plan->steps.phase[STEP_PHASE_TRAIN];
    for (int s = 0; s < train->n_step; s++) {
        step_append(&o->before, &train->step[s]);
    }
    o->chain_first = memory_alloc((size_t)(2 * train->n_step), sizeof *o->chain_first);
    o->chain_last = o->chain_first + train->n_step;
    o->waiting = memory_alloc((size_t)(program->n_value + program->n_op * OP_N_SAVED), sizeof *o->waiting);
    o->unit = peak_find(program, plan, 0).n_bytes;
    chains_find(o);
}

static void offload_close(struct offload *o)
{
    free(o->before.step);
    free(o->chain_first);
    free(o->waiting);
}

/* Store array after array while the peak falls, until the arena fits. */
static bool arrays_choose(struct offload *o, bool beside, int64_t n_arena_most)
{
    waiting_find(o, beside);
    list_write(o); /* nothing */
    o->peak = peak_find(o->program, o->plan, o->unit);
    bool any = true;
    while (any) {
        any = false;
        for (int i = 0; i < o->n; i++) {
            struct waiting *w = &o->waiting[i];
            if (w->chosen) {
                continue;
            }
            w->chosen = true;
            list_write(o);
            struct peak peak = peak_find(o->program, o->plan, o->unit);
            w->chosen = peak.weight < (1.0 - PEAK_GAIN_LEAST) * o->peak.weight;
            if (w->chosen) {
                any = true;
                o->peak = peak;
                if (peak_fits(o->program, o->plan, &o->peak, n_arena_most)) {
                    return true;
                }
            }
        }
    }
    list_write(o);
    liveness_place(o->program, o->plan);
    return false;
}

static void homes_fill(const struct offload *o)
{
    struct memory_plan *plan = o->plan;
    plan->homes.home = memory_alloc((size_t)o->n + 1, sizeof *plan->homes.home);
    for (int i = 0; i < o->n; i++) {
        const struct waiting *w = &o->waiting[i];
        if (w->chosen) {
            plan->homes.home[plan->homes.n++] = (struct memory_home){
                .array = w->array, .begin = plan->homes.n_bytes, .n_bytes = w->n_bytes};
            plan->homes.n_bytes += round_up(w->n_bytes, HOME_ALIGN);
        }
    }
}

void offload_plan(const struct program *program, enum job_offload how, int64_t n_arena_most, struct memory_plan *plan)
{
    if (how == JOB_OFFLOAD_NEVER || (how == JOB_OFFLOAD_AUTO && plan->arena.n_bytes <= n_arena_most)) {
        return;
    }
    struct offload o;
    int64_t saved = plan->arena.n_bytes;
    offload_open(program, plan, &o);
    if (!arrays_choose(&o, true, how == JOB_OFFLOAD_AUTO ? n_arena_most : -1) && how == JOB_OFFLOAD_AUTO) {
        arrays_choose(&o, false, n_arena_most);
    }
    if (plan->arena.n_bytes >= saved) { /* gaps took what was gained */
        o.n = 0;
        list_write(&o);
        liveness_place(program, plan);
    }
    homes_fill(&o);
    offload_close(&o);
}
