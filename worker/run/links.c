#include "worker/run/links.h"

#include "worker/pairs/pairs_ends.h"
#include "worker/run/link_decoder.h"
#include "worker/run/link_pass.h"

#include <stdlib.h>

const struct pairs_draw *links_open(const struct own_parts *own, const struct job *job, struct trainer_links *out)
{
    const struct part *part = own_part(own, 0);
    if (!job_predicts_links(job) || own->setup.program->forward_only) {
        return NULL;
    }
    pairs_draw_open(&(struct pairs_draw_input){.n_part = part->n_part,
                                               .rows = part->links.rows,
                                               .ends = part->links.ends,
                                               .n_link = part->links.n,
                                               .n_joined = part->links.n_joined,
                                               .negatives = job->task.negatives,
                                               .of_ends = job_samples_ends(job)},
                    &out->draw);
    return &out->draw;
}

/* Own parts' lists have as many pairs with each part as their blocks say. */
static enum status between_count(const struct own_parts *own, const struct memory_plan_input *in,
                                 struct trainer_links *links)
{
    links->between = memory_alloc((size_t)own->n * (size_t)own->n_part, sizeof *links->between);
    for (int64_t k = 0; k < (int64_t)own->n * own->n_part; k++) {
        int32_t i = (int32_t)(k / own->n_part), q = (int32_t)(k % own->n_part);
        links->between[k] = pairs_ends_listed(&links->draw, own_part(own, i), q);
        if (links->between[k] != memory_plan_between(in, i, q)) {
            return status_fail(
                STATUS_DATA, "part %d lists %lld pairs with part %d, expected %lld, as many as edges between them",
                own->number[i], (long long)links->between[k], q, (long long)memory_plan_between(in, i, q));
        }
    }
    return STATUS_OK;
}

enum status links_count(const struct own_parts *own, const struct memory_plan_input *in,
                        const struct memory_links *plan, struct trainer_links *links)
{
    const struct part_device_setup *setup = &own->setup;
    links->slot = memory_alloc((size_t)plan->n_slot, sizeof *links->slot);
    links->n_given = pairs_n_sent(setup->rank_of_part, own->n_part, setup->rank, own->n_rank);
    if (in->links == NULL || plan->n_item == 0) {
        return STATUS_OK;
    }
    int64_t n_score = 0;
    links->n_before = memory_alloc((size_t)own->n, sizeof *links->n_before);
    for (int32_t i = 0; i < own->n; i++) {
        int64_t n_here = links->draw.n_end[own->number[i]] * (1 + links->draw.negatives);
        links->n_before[i] = n_score;
        n_score += n_here;
        if (links->draw.of_ends && n_here > UINT32_MAX) {
            return status_fail(STATUS_CONFIG,
                               "part %d has %lld pairs with and without an edge, expected fewer than 2^32: more "
                               "partition.parts, or fewer task.negatives",
                               own->number[i], (long long)n_here);
        }
    }
    return between_count(own, in, links);
}

void links_close(struct trainer_links *links)
{
    pairs_draw_close(&links->draw);
    free(links->slot);
    free(links->between);
    free(links->n_before);
}

bool link_is_received(const struct link_pass *p, int32_t place)
{
    int32_t q = link_part_at(p, place);
    return p->trainer->own.index[q] < 0 && pairs_receives(&p->ends, q, place / p->n_part);
}

bool link_comes_to(const struct link_pass *p, int32_t i, int32_t place)
{
    int32_t number = p->trainer->own.number[i];
    return number <= place && place < number + p->n_part;
}

/* What a walk does with a block. */
enum walk { WALK_UNIFORM, WALK_SCORES, WALK_GRADIENTS };

static enum status block_run(struct link_pass *p, enum walk walk, struct link_place at, const float *x)
{
    int32_t q = link_part_at(p, at.place);
    enum status status = walk == WALK_UNIFORM  ? link_block_uniform(p, at.i, q, x)
                         : walk == WALK_SCORES ? link_block_scores(p, at.i, q, x)
                                               : link_block_gradients(p, at, x);
    if (status != STATUS_OK) {
        return status;
    }
    return exchange_progress(p->trainer->setup.exchange);
}

/* All own parts whose way around the circle comes to this place. */
static enum status place_run(struct link_pass *p, enum walk walk, int32_t place)
{
    const struct own_parts *own = &p->trainer->own;
    int32_t q = link_part_at(p, place);
    const float *x = own->index[q] >= 0 ? link_own_rows(p, own->index[q]) : NULL;
    enum status status = STATUS_OK;
    if (x == NULL) {
        status = link_rows_take(p, &x);
    }
    for (int32_t i = 0; i < own->n && status == STATUS_OK; i++) {
        if (link_comes_to(p, i, place)) {
            status = block_run(p, walk, (struct link_place){place, i}, x);
        }
    }
    if (status != STATUS_OK || own->index[q] >= 0) {
        return status;
    }
    return link_rows_end(p);
}

/* Once around the circle for each own part. */
static enum status walk_run(struct trainer *t, const struct step *step, enum walk walk)
{
    struct link_pass p = {.trainer = t,
                          .step = step,
                          .ends = pairs_span_make(t->setup.rank_of_part, t->setup.n_part, t->setup.rank),
                          .key = {.epoch = trainer_key_epoch(t),
                                  .phase = walk == WALK_GRADIENTS ? EXCHANGE_PHASE_LINKS_2 : EXCHANGE_PHASE_LINKS,
                                  .op = (uint16_t)program_last_layer(&t->program)},
                          .drawn = {.seed = (uint64_t)t->setup.job->train.seed, .epoch = t->run.epoch},
                          .n_part = t->setup.n_part,
                          .width = (int32_t)t->program.value[t->program.logits].width,
                          .sends_pairs = walk == WALK_GRADIENTS};
    enum status status = walk == WALK_SCORES ? link_groups_begin(&p) : STATUS_OK;
    if (status == STATUS_OK) {
        status = link_rows_begin(&p);
    }
    if (status == STATUS_OK && p.sends_pairs) {
        status = link_sent_ahead(&p);
    }
    for (int32_t place = 0; place < 2 * p.n_part && status == STATUS_OK; place++) {
        if (t->own.index[link_part_at(&p, place)] >= 0 || link_is_received(&p, place)) {
            status = place_run(&p, walk, place);
        }
    }
    if (status == STATUS_OK && walk == WALK_SCORES) {
        status = link_groups_slopes(&p);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return exchange_settle(t->setup.exchange);
}

enum status links_run(struct trainer *t, const struct step *step)
{
    const struct step_operand *grad = step_operand(step, OP_ROLE_GRAD_IN_0);
    const int64_t row_bytes = step_operand_row_bytes(&t->program, grad);
    for (int32_t i = 0; i < t->own.n; i++) {
        t->ops->fill_zero(t->device, trainer_operand(t, grad, i), (size_t)(own_part(&t->own, i)->n_own * row_bytes));
        t->ops->fill_zero(t->device, trainer_sums(t, i), sizeof(struct device_score));
        link_decoder_begin(t, i);
    }
    enum status status = walk_run(t, step, t->links.draw.of_ends ? WALK_SCORES : WALK_UNIFORM);
    if (status == STATUS_OK && t->links.draw.of_ends) {
        status = walk_run(t, step, WALK_GRADIENTS);
    }
    for (int32_t i = 0; i < t->own.n && status == STATUS_OK; i++) {
        link_decoder_end(t, i);
    }
    return status;
}
