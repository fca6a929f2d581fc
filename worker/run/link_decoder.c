#include "worker/run/link_decoder.h"

#include "models/steps/scorer.h"

/* plan.links.n_decoder_bytes of the loss's workspace. */
static struct scorer scorer_of(const struct trainer *t, const struct link_pairs *pairs)
{
    char *workspace = trainer_operand(t, step_operand(pairs->step, OP_ROLE_WORKSPACE), pairs->i);
    return (struct scorer){.device = t->device,
                           .ops = t->ops,
                           .program = &t->program,
                           .weights = t->parameters.weights,
                           .memory = workspace + t->plan.loss_workspace.n_scratch - t->plan.links.n_decoder_bytes};
}

static float *gradients_of(const struct trainer *t, const struct link_pairs *pairs)
{
    return trainer_operand(t, step_operand(pairs->step, OP_ROLE_GRAD_IN_0), pairs->i);
}

static struct device_pairs dots_of(const struct trainer *t, const struct link_pairs *pairs)
{
    const struct pairs_list *list = pairs->list;
    return (struct device_pairs){.n = list->n,
                                 .f = t->program.value[t->program.logits].width,
                                 .rows = list->rows,
                                 .places = list->places,
                                 .numbers = pairs->numbered ? list->numbers : NULL,
                                 .own = pairs->own,
                                 .x = pairs->x};
}

/* The pairs whose own rows are heads, or tails; *first_out: the list's first of them. */
static struct scorer_pairs pairs_at(const struct link_pairs *pairs, enum scorer_end own, int64_t *first_out)
{
    const struct pairs_list *list = pairs->list;
    const int64_t first = own == SCORER_HEAD ? 0 : list->n_head;
    const enum scorer_end other = own == SCORER_HEAD ? SCORER_TAIL : SCORER_HEAD;
    struct scorer_pairs out = {.n = own == SCORER_HEAD ? list->n_head : list->n - list->n_head,
                               .relations = list->relations + first,
                               .numbers = pairs->numbered ? list->numbers + first : NULL};
    out.rows[own] = pairs->own;
    out.list[own] = list->rows + first;
    out.rows[other] = pairs->x;
    out.list[other] = list->places + first;
    *first_out = first;
    return out;
}

void link_decoder_scores(const struct trainer *t, const struct link_pairs *pairs, float *score)
{
    if (t->program.scorer == NULL) {
        const struct device_pairs dots = dots_of(t, pairs);
        t->ops->pair_scores(t->device, &dots, score);
        return;
    }
    const struct scorer scorer = scorer_of(t, pairs);
    for (int end = 0; end < SCORER_N_END; end++) {
        int64_t first;
        const struct scorer_pairs here = pairs_at(pairs, (enum scorer_end)end, &first);
        scorer_scores(&scorer, &here, score + (pairs->numbered ? 0 : first));
    }
}

/* From slopes, or losses. */
static void gradients_run(const struct trainer *t, const struct link_pairs *pairs, const float *slope,
                          const struct device_pair_losses *losses)
{
    const struct scorer scorer = scorer_of(t, pairs);
    for (int end = 0; end < SCORER_N_END; end++) {
        int64_t first;
        const struct scorer_pairs here = pairs_at(pairs, (enum scorer_end)end, &first);
        const struct scorer_gradients wanted = {
            .end = (enum scorer_end)end,
            .slope = slope != NULL && !pairs->numbered ? slope + first : slope,
            .losses = losses,
            .loss = trainer_sums(t, pairs->i),
            .rows = gradients_of(t, pairs),
            .weights = trainer_gradients(t, pairs->i),
        };
        scorer_gradients(&scorer, &here, &wanted);
    }
}

void link_decoder_gradients(const struct trainer *t, const struct link_pairs *pairs, const float *slope)
{
    if (t->program.scorer == NULL) {
        const struct device_pairs dots = dots_of(t, pairs);
        t->ops->pair_gradients(t->device, &dots, slope, gradients_of(t, pairs));
        return;
    }
    gradients_run(t, pairs, slope, NULL);
}

void link_decoder_train(const struct trainer *t, const struct link_pairs *pairs,
                        const struct device_pair_losses *losses)
{
    gradients_run(t, pairs, NULL, losses);
}

static float *weights_of(const struct trainer *t, int param, int32_t i)
{
    return trainer_gradients(t, i) + t->program.param[param].offset;
}

void link_decoder_begin(const struct trainer *t, int32_t i)
{
    for (int p = t->program.decoder; p >= 0 && p < t->program.n_param; p++) {
        t->ops->fill_zero(t->device, weights_of(t, p, i), (size_t)t->program.param[p].n_shared * sizeof(float));
    }
}

void link_decoder_end(const struct trainer *t, int32_t i)
{
    for (int p = t->program.decoder; p >= 0 && p < t->program.n_param; p++) {
        float *grad = weights_of(t, p, i);
        t->ops->axpby(t->device, t->program.param[p].n_shared, 0.5f, NULL, grad, 0.0f, NULL, grad);
    }
}
