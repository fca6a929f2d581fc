#include "worker/route/sample.h"

#include "protocol/base/memory.h"
#include "worker/route/sample_dedup.h"

#include <stdlib.h>

/* Where an own part's lists begin among all: they are long enough for all rows, pair k's begins where its rows do. */
struct part_sample {
    int64_t received, sent;
};

struct sample {
    const struct own_parts *own;
    const struct row_filter *filter;
    struct row_filter_epoch epoch; /* of the last draw */
    int64_t n_list;                /* of all lists */
    uint32_t *lists;               /* n_list, SHARED */
    struct part_sample *lists_of;  /* by own part */
    struct halo_drawn *drawn;      /* by own part: of counts */
    int64_t n_count;
    uint32_t *counts;
    struct sample_dedup *dedup; /* NULL: rows come for each part alone */
};

bool sample_is_whole(const struct sample *s)
{
    return s->epoch.threshold > UINT32_MAX;
}

double sample_factor(const struct sample *s)
{
    return s->epoch.threshold > 0 ? 4294967296.0 / (double)s->epoch.threshold : 0.0;
}

/* Where the lists of own part i's pair k begin. */
static int64_t received_begin(const struct sample *s, int32_t i, int32_t k)
{
    return s->lists_of[i].received +
           part_pair_off_diagonal(&s->own->part[i].part->halo.pairs[PART_DIRECTION_IN], k).col;
}

static int64_t sent_begin(const struct sample *s, int32_t i, int32_t k)
{
    return s->lists_of[i].sent + part_pair_off_diagonal(&s->own->part[i].part->halo.pairs[PART_DIRECTION_OUT], k).row;
}

static void counts_lay_out(struct sample *s)
{
    uint32_t *at = s->counts;
    for (int32_t i = 0; i < s->own->n; i++) {
        const struct part_halo *halo = s->own->halo[i];
        int64_t n_each = halo->n_hop + 1;
        s->drawn[i].received = at;
        s->drawn[i].sent = at += halo->pairs[PART_DIRECTION_IN].n_pair * n_each;
        s->drawn[i].before = at += halo->pairs[PART_DIRECTION_OUT].n_pair * n_each;
        at += halo->pairs[PART_DIRECTION_IN].n_pair + 1;
    }
}

enum status sample_open(const struct own_parts *own, const struct job *job, const struct dedup *dedup,
                        struct sample **out)
{
    struct sample *s = *out = memory_alloc(1, sizeof *s);
    s->own = own;
    s->filter = row_filter_of(job);
    s->epoch.key = (struct random_key){.seed = (uint64_t)job->train.seed, .stream = RANDOM_STREAM_SAMPLE};
    s->lists_of = memory_alloc((size_t)own->n, sizeof *s->lists_of);
    s->drawn = memory_alloc((size_t)own->n, sizeof *s->drawn);
    for (int32_t i = 0; i < own->n; i++) {
        const struct part_halo *halo = own->halo[i];
        s->lists_of[i].received = s->n_list;
        s->lists_of[i].sent = s->n_list + halo_n_received(halo);
        s->n_list += halo_n_received(halo) + halo_n_sent(halo);
        s->n_count += halo_n_drawn(halo);
    }
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)s->n_count, sizeof *s->counts, &s->counts);
    if (status == STATUS_OK) {
        counts_lay_out(s);
        status = dedup != NULL ? sample_dedup_open(own, dedup, &s->dedup) : STATUS_OK;
    }
    return status == STATUS_OK ? own_parts_acquire(own, (size_t)s->n_list * sizeof *s->lists, &s->lists) : status;
}

void sample_close(struct sample *s)
{
    if (s == NULL) {
        return;
    }
    sample_dedup_close(s->dedup);
    memory_release(MEMORY_STRUCTURE, s->counts, (size_t)s->n_count, sizeof *s->counts);
    own_parts_release(s->own, s->lists, (size_t)s->n_list * sizeof *s->lists);
    free(s->drawn);
    free(s->lists_of);
    free(s);
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

void sample_draw_rows(const struct sample *s, const struct sample_rows *from)
{
    sample_filter(s->filter, &s->epoch, from);
}

static void received_draw(const struct sample *s, int32_t i)
{
    const struct part *part = s->own->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_IN];
    const struct halo_drawn *drawn = &s->drawn[i];
    uint32_t n_col = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t at = k * (int64_t)part->n_hop;
        const struct sample_rows from = {.n = part_pair_cols(all, k),
                                         .node = part->arrays[PART_DIRECTION_IN].node +
                                                 part_pair_off_diagonal(all, k).col,
                                         .n_hop = part->n_hop,
                                         .n_at_hop = part->n_hop > 0 ? all->n_col_hop + at : NULL,
                                         .out = s->lists + received_begin(s, i, k),
                                         .n_drawn = drawn->received + at + k};
        drawn->before[k] = n_col;
        if (k != all->own) {
            sample_draw_rows(s, &from);
        }
        n_col += k != all->own ? from.n_drawn[part->n_hop] : (uint32_t)part->n_own;
    }
    drawn->before[all->n_pair] = n_col;
}

static void sent_draw(const struct sample *s, int32_t i)
{
    const struct part *part = s->own->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_OUT];
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t at = k * (int64_t)part->n_hop;
        const struct sample_rows from = {.n = part_pair_rows(all, k),
                                         .rows = part->arrays[PART_DIRECTION_OUT].rows +
                                                 part_pair_off_diagonal(all, k).row,
                                         .node = part->node,
                                         .n_hop = part->n_hop,
                                         .n_at_hop = part->n_hop > 0 ? all->n_row_hop + at : NULL,
                                         .out = s->lists + sent_begin(s, i, k),
                                         .n_drawn = s->drawn[i].sent + at + k};
        if (k != all->own) {
            sample_draw_rows(s, &from);
        }
    }
}

/* Node ids and lists are read where a spilled part has them. */
static enum status part_draw(struct sample *s, int32_t i)
{
    const struct part *part = s->own->part[i].part;
    const uint32_t *received = part->arrays[PART_DIRECTION_IN].node, *sent = part->arrays[PART_DIRECTION_OUT].rows;
    const int64_t each = sizeof(uint32_t);
    const struct spill_range ranges[] = {{received, halo_n_received(&part->halo) * each, SPILL_READ},
                                         {sent, halo_n_sent(&part->halo) * each, SPILL_READ},
                                         {part->node, part->n_own * each, SPILL_READ}};
    const int n_range = sizeof ranges / sizeof *ranges;
    enum status status = spill_pin(s->own->setup.spill, ranges, n_range);
    if (status == STATUS_OK) {
        received_draw(s, i);
        sent_draw(s, i);
        spill_unpin(s->own->setup.spill, ranges, n_range);
    }
    return status;
}

enum status sample_draw(struct sample *s, uint32_t epoch, const struct level *level)
{
    enum status status = STATUS_OK;
    s->epoch.key.epoch = epoch;
    s->epoch.threshold = (uint64_t)(level->sampling * 4294967296.0);
    for (int32_t i = 0; i < s->own->n && status == STATUS_OK; i++) {
        status = part_draw(s, i);
    }
    if (status == STATUS_OK && s->dedup != NULL) {
        sample_dedup_draw(s->dedup, s);
    }
    return status;
}

struct sample_dedup *sample_get_dedup(const struct sample *s)
{
    return s->dedup;
}

const struct halo_drawn *sample_drawn(const struct sample *s)
{
    return s->drawn;
}

const uint32_t *sample_received(const struct sample *s, int32_t i, int32_t k)
{
    return s->lists + received_begin(s, i, k);
}

const uint32_t *sample_sent(const struct sample *s, int32_t i, int32_t k)
{
    return s->lists + sent_begin(s, i, k);
}
