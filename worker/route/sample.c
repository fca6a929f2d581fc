#include "worker/route/sample.h"

#include "protocol/base/memory.h"
#include "worker/route/sample_shared.h"

#include <stdlib.h>
#include <string.h>

/* Where an own part's lists begin among all: they are long enough for all rows, pair k's begins where its rows do. */
struct part_sample {
    int64_t taken, given;
};

struct sample {
    const struct row_filter *filter;
    int32_t n_own;
    int64_t n_list;           /* of all lists */
    uint32_t *lists;          /* n_list, SHARED */
    struct part_sample *own;  /* n_own */
    struct halo_drawn *drawn; /* n_own: of counts */
    int64_t n_count;
    uint32_t *counts;
    struct sample_shared *shared; /* NULL: rows come for each part alone */
};

/* Of the epoch's level. */
static uint64_t threshold_of(const struct trainer *t)
{
    return (uint64_t)(t->run.level.sampling * 4294967296.0);
}

bool sample_is_whole(const struct trainer *t)
{
    return threshold_of(t) > UINT32_MAX;
}

double sample_factor(const struct trainer *t)
{
    uint64_t threshold = threshold_of(t);
    return threshold > 0 ? 4294967296.0 / (double)threshold : 0.0;
}

/* Where the lists of own part i's pair k begin. */
static int64_t taken_begin(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->own[i].taken +
           part_pair_off_diagonal(&t->part[i].part->halo.pairs[PART_DIRECTION_IN], k).col;
}

static int64_t given_begin(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->own[i].given +
           part_pair_off_diagonal(&t->part[i].part->halo.pairs[PART_DIRECTION_OUT], k).row;
}

static void counts_lay_out(const struct trainer *t, const struct sample *s)
{
    uint32_t *at = s->counts;
    for (int32_t i = 0; i < t->n_own; i++) {
        const struct part_halo *halo = &t->part[i].part->halo;
        int64_t n_each = halo->n_hop + 1;
        s->drawn[i].taken = at;
        s->drawn[i].given = at += halo->pairs[PART_DIRECTION_IN].n_pair * n_each;
        s->drawn[i].before = at += halo->pairs[PART_DIRECTION_OUT].n_pair * n_each;
        at += halo->pairs[PART_DIRECTION_IN].n_pair + 1;
    }
}

enum status sample_open(struct trainer *t)
{
    if (!t->program.samples) {
        return STATUS_OK;
    }
    struct sample *s = t->routes.sample = memory_alloc(1, sizeof *s);
    s->filter = row_filter_of(t->setup.job);
    s->n_own = t->n_own;
    s->own = memory_alloc((size_t)t->n_own, sizeof *s->own);
    s->drawn = memory_alloc((size_t)t->n_own, sizeof *s->drawn);
    for (int32_t i = 0; i < t->n_own; i++) {
        const struct part_halo *halo = &t->part[i].part->halo;
        s->own[i].taken = s->n_list;
        s->own[i].given = s->n_list + halo_n_taken(halo);
        s->n_list += halo_n_taken(halo) + halo_n_given(halo);
        s->n_count += halo_n_drawn(halo);
    }
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)s->n_count, sizeof *s->counts, &s->counts);
    if (status == STATUS_OK) {
        counts_lay_out(t, s);
        status = sample_shared_open(t, &s->shared);
    }
    return status == STATUS_OK ? t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE,
                                                 (size_t)s->n_list * sizeof *s->lists, &s->lists)
                               : status;
}

void sample_close(struct trainer *t)
{
    struct sample *s = t->routes.sample;
    if (s == NULL) {
        return;
    }
    size_t n = (size_t)s->n_list;
    sample_shared_close(t, s->shared);
    memory_release(MEMORY_STRUCTURE, s->counts, (size_t)s->n_count, sizeof *s->counts);
    if (s->lists != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, s->lists, n * sizeof *s->lists);
    }
    free(s->drawn);
    free(s->own);
    free(s);
    t->routes.sample = NULL;
}

/* --- one epoch's --- */

void sample_filter(const struct row_filter *filter, const struct row_filter_epoch *epoch,
                   const struct sample_rows *from)
{
    bool whole = epoch->threshold > UINT32_MAX;
    uint32_t n = 0;
    int32_t hop = 0;
    for (int64_t i = 0; i < from->n; i++) {
        for (; hop < from->n_hop && i == from->n_at_hop[hop]; hop++) {
            from->n_drawn[hop] = n;
        }
        uint32_t row = from->rows != NULL ? from->rows[i] : (uint32_t)i;
        if (whole || filter->keeps(epoch, from->node[row])) {
            from->out[n++] = row;
        }
    }
    for (; hop <= from->n_hop; hop++) {
        from->n_drawn[hop] = n;
    }
}

static void taken_draw(const struct trainer *t, const struct row_filter_epoch *epoch, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_IN];
    const struct halo_drawn *drawn = &t->routes.sample->drawn[i];
    uint32_t n_col = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t at = k * (int64_t)part->n_hop;
        const struct sample_rows from = {.n = part_pair_cols(all, k),
                                         .node = part->arrays[PART_DIRECTION_IN].node +
                                                 part_pair_off_diagonal(all, k).col,
                                         .n_hop = part->n_hop,
                                         .n_at_hop = part->n_hop > 0 ? all->n_col_hop + at : NULL,
                                         .out = t->routes.sample->lists + taken_begin(t, i, k),
                                         .n_drawn = drawn->taken + at + k};
        drawn->before[k] = n_col;
        if (k != all->own) {
            sample_filter(t->routes.sample->filter, epoch, &from);
        }
        n_col += k != all->own ? from.n_drawn[part->n_hop] : (uint32_t)part->n_own;
    }
    drawn->before[all->n_pair] = n_col;
}

static void given_draw(const struct trainer *t, const struct row_filter_epoch *epoch, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_OUT];
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t at = k * (int64_t)part->n_hop;
        const struct sample_rows from = {.n = part_pair_rows(all, k),
                                         .rows = part->arrays[PART_DIRECTION_OUT].rows +
                                                 part_pair_off_diagonal(all, k).row,
                                         .node = part->node,
                                         .n_hop = part->n_hop,
                                         .n_at_hop = part->n_hop > 0 ? all->n_row_hop + at : NULL,
                                         .out = t->routes.sample->lists + given_begin(t, i, k),
                                         .n_drawn = t->routes.sample->drawn[i].given + at + k};
        if (k != all->own) {
            sample_filter(t->routes.sample->filter, epoch, &from);
        }
    }
}

/* Node ids and lists are read where a spilled part has them. */
static enum status part_draw(struct trainer *t, const struct row_filter_epoch *epoch, int32_t i)
{
    const struct part *part = t->part[i].part;
    const uint32_t *taken = part->arrays[PART_DIRECTION_IN].node, *given = part->arrays[PART_DIRECTION_OUT].rows;
    const int64_t each = sizeof(uint32_t);
    const struct spill_range ranges[] = {{taken, halo_n_taken(&part->halo) * each, SPILL_READ},
                                         {given, halo_n_given(&part->halo) * each, SPILL_READ},
                                         {part->node, part->n_own * each, SPILL_READ}};
    const int n_range = sizeof ranges / sizeof *ranges;
    enum status status = spill_pin(t->setup.spill, ranges, n_range);
    if (status == STATUS_OK) {
        taken_draw(t, epoch, i);
        given_draw(t, epoch, i);
        spill_unpin(t->setup.spill, ranges, n_range);
    }
    return status;
}

enum status sample_draw(struct trainer *t)
{
    const struct row_filter_epoch epoch = {.key = {.seed = (uint64_t)t->setup.job->train.seed,
                                                   .epoch = t->run.epoch,
                                                   .stream = RANDOM_STREAM_SAMPLE},
                                           .threshold = threshold_of(t)};
    struct sample *s = t->routes.sample;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->n_own && status == STATUS_OK; i++) {
        status = part_draw(t, &epoch, i);
    }
    if (status == STATUS_OK && s->shared != NULL) {
        sample_shared_draw(t, s->shared, s->filter, &epoch);
    }
    return status;
}

struct sample_shared *sample_shared_of(const struct sample *s)
{
    return s->shared;
}

const struct halo_drawn *sample_drawn(const struct sample *s)
{
    return s->drawn;
}

const uint32_t *sample_taken(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->lists + taken_begin(t, i, k);
}

const uint32_t *sample_given(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->lists + given_begin(t, i, k);
}
