#include "worker/route/sample.h"

#include "protocol/base/memory.h"
#include "worker/route/sample_shared.h"

#include <stdlib.h>
#include <string.h>

/* One own part's. Lists are long enough for all rows: pair k's begins where its rows do among all. */
struct part_sample {
    struct part_halo halo;
    int64_t taken, given; /* where its lists begin among all */
};

struct sample {
    int32_t n_own;
    int64_t n_list;               /* of all lists */
    uint32_t *lists;              /* n_list, SHARED */
    struct part_sample *own;      /* n_own */
    struct sample_shared *shared; /* NULL: rows come for each part alone */
};

uint64_t sample_threshold(const struct trainer *t)
{
    return (uint64_t)(t->run.level.sampling * 4294967296.0);
}

bool sample_is_whole(const struct trainer *t)
{
    return sample_threshold(t) > UINT32_MAX;
}

double sample_factor(const struct trainer *t)
{
    uint64_t threshold = sample_threshold(t);
    return threshold > 0 ? 4294967296.0 / (double)threshold : 0.0;
}

static void pairs_copy(const struct part_pairs *from, int32_t n_hop, struct part_pairs *to)
{
    size_t n_count = (size_t)from->n_pair * (size_t)n_hop;
    to->own = from->own;
    memcpy(to->pair, from->pair, ((size_t)from->n_pair + 1) * sizeof *to->pair);
    if (n_count > 0) {
        memcpy(to->n_row_hop, from->n_row_hop, n_count * sizeof *to->n_row_hop);
        memcpy(to->n_col_hop, from->n_col_hop, n_count * sizeof *to->n_col_hop);
    }
}

static enum status halo_copy(const struct part_halo *from, struct part_halo *to)
{
    enum status status = STATUS_OK;
    *to = (struct part_halo){
        .part = from->part, .n_part = from->n_part, .n_hop = from->n_hop, .symmetric = from->symmetric};
    int n_direction = from->symmetric ? 1 : PART_DIRECTION_N;
    for (int d = 0; d < n_direction && status == STATUS_OK; d++) {
        const struct part_pairs *pairs = &from->pairs[d];
        status = part_halo_acquire(to, (enum part_direction)d, pairs->n_pair);
        if (status == STATUS_OK) {
            pairs_copy(pairs, from->n_hop, &to->pairs[d]);
        }
    }
    if (status == STATUS_OK && from->symmetric) {
        part_halo_mirror(to);
    }
    return status;
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

enum status sample_open(struct trainer *t)
{
    if (!t->program.samples) {
        return STATUS_OK;
    }
    struct sample *s = t->routes.sample = memory_alloc(1, sizeof *s);
    s->n_own = t->n_own;
    s->own = memory_alloc((size_t)t->n_own, sizeof *s->own);
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->n_own; i++) {
        const struct part_halo *halo = &t->part[i].part->halo;
        s->own[i].taken = s->n_list;
        s->own[i].given = s->n_list + halo_n_taken(halo);
        s->n_list += halo_n_taken(halo) + halo_n_given(halo);
        status = status == STATUS_OK ? halo_copy(halo, &s->own[i].halo) : status;
    }
    status = status == STATUS_OK ? sample_shared_open(t, &s->shared) : status;
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
    for (int32_t i = 0; i < s->n_own; i++) {
        part_halo_release(&s->own[i].halo);
    }
    if (s->lists != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, s->lists, n * sizeof *s->lists);
    }
    free(s->own);
    free(s);
    t->routes.sample = NULL;
}

/* --- one epoch's --- */

/* Rows of one pair: of n listed ones, whose nodes are node[i] (or node[rows[i]]), those that are drawn; how many up to each hop. */
struct pair_rows {
    int64_t n;
    const uint32_t *rows; /* NULL: rows are their places */
    const uint32_t *node;
    uint64_t threshold;
    uint32_t *out;            /* the drawn ones */
    const uint32_t *n_at_hop; /* n_hop: NULL without hops */
    uint32_t *n_drawn_at_hop; /* likewise */
    int32_t n_hop;
};

static int64_t pair_draw(const struct random_key *key, const struct pair_rows *from)
{
    int64_t n = 0;
    int32_t hop = 0;
    for (int64_t i = 0; i < from->n; i++) {
        for (; hop < from->n_hop && i == from->n_at_hop[hop]; hop++) {
            from->n_drawn_at_hop[hop] = (uint32_t)n;
        }
        uint32_t row = from->rows != NULL ? from->rows[i] : (uint32_t)i;
        if (random_u32(key, from->node[row], 0) < from->threshold) {
            from->out[n++] = row;
        }
    }
    for (; hop < from->n_hop; hop++) {
        from->n_drawn_at_hop[hop] = (uint32_t)n;
    }
    return n;
}

/* Counts up to each hop of pair k in one of a direction's tables; NULL without hops. */
static uint32_t *hops_of(uint32_t *table, int32_t k, int32_t n_hop)
{
    return n_hop > 0 ? table + k * (int64_t)n_hop : NULL;
}

static void taken_draw(struct trainer *t, const struct random_key *key, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_IN];
    struct part_pairs *pairs = &t->routes.sample->own[i].halo.pairs[PART_DIRECTION_IN];
    uint32_t n_col = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t n = part->n_own;
        pairs->pair[k].col = n_col;
        if (k != all->own) {
            struct pair_rows from = {.threshold = sample_threshold(t),
                                     .out = t->routes.sample->lists + taken_begin(t, i, k)};
            from.n = part_pair_cols(all, k);
            from.node = part->arrays[PART_DIRECTION_IN].node + part_pair_off_diagonal(all, k).col;
            from.n_at_hop = hops_of(all->n_col_hop, k, part->n_hop);
            from.n_drawn_at_hop = hops_of(pairs->n_col_hop, k, part->n_hop);
            from.n_hop = part->n_hop;
            n = pair_draw(key, &from);
        }
        n_col += (uint32_t)n;
    }
    pairs->pair[all->n_pair].col = n_col;
}

static void given_draw(struct trainer *t, const struct random_key *key, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_OUT];
    struct part_pairs *pairs = &t->routes.sample->own[i].halo.pairs[PART_DIRECTION_OUT];
    int64_t n_row = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t n = part_pair_rows(all, k);
        pairs->pair[k].row = n_row;
        if (k != all->own) {
            struct pair_rows from = {.threshold = sample_threshold(t),
                                     .out = t->routes.sample->lists + given_begin(t, i, k)};
            from.n = n;
            from.rows = part->arrays[PART_DIRECTION_OUT].rows + part_pair_off_diagonal(all, k).row;
            from.node = part->node;
            from.n_at_hop = hops_of(all->n_row_hop, k, part->n_hop);
            from.n_drawn_at_hop = hops_of(pairs->n_row_hop, k, part->n_hop);
            from.n_hop = part->n_hop;
            n = pair_draw(key, &from);
        }
        n_row += n;
    }
    pairs->pair[all->n_pair].row = n_row;
}

/* Node ids and lists are read where a spilled part has them. */
static enum status part_draw(struct trainer *t, const struct random_key *key, int32_t i)
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
        taken_draw(t, key, i);
        given_draw(t, key, i);
        spill_unpin(t->setup.spill, ranges, n_range);
    }
    return status;
}

enum status sample_draw(struct trainer *t)
{
    const struct random_key key = {
        .seed = (uint64_t)t->setup.job->train.seed, .epoch = t->run.epoch, .stream = RANDOM_STREAM_SAMPLE};
    struct sample *s = t->routes.sample;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->n_own && status == STATUS_OK; i++) {
        status = part_draw(t, &key, i);
    }
    if (status == STATUS_OK && s->shared != NULL) {
        sample_shared_draw(t, s->shared, &key);
    }
    return status;
}

struct sample_shared *sample_shared_of(const struct sample *s)
{
    return s->shared;
}

const struct part_halo *sample_halo(const struct sample *s, int32_t i)
{
    return &s->own[i].halo;
}

const uint32_t *sample_taken(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->lists + taken_begin(t, i, k);
}

const uint32_t *sample_given(const struct trainer *t, int32_t i, int32_t k)
{
    return t->routes.sample->lists + given_begin(t, i, k);
}
