#include "worker/route/sample.h"

#include "protocol/base/memory.h"
#include "worker/route/sample_shared.h"
#include "worker/route/sample_weights.h"

#include <stdlib.h>
#include <string.h>

/* One own part's. Lists are long enough for all rows: pair k's begins where its rows do among all. */
struct part_sample {
    struct part_halo halo;
    int64_t taken, given; /* where its lists begin among all */
};

struct sample {
    int32_t n_own;
    int64_t n_list;          /* of all lists */
    uint32_t *lists;         /* n_list, SHARED */
    uint32_t *thresholds;    /* n_list: of all rows, sampled or not; NULL: a pair's rows have the same */
    float *factors;          /* n_list, SHARED: of the sampled rows; NULL likewise */
    double *weights;         /* n_list: what thresholds are made of, where a guard may change the shares; else NULL */
    struct level weighed;    /* the level that thresholds are for */
    struct part_sample *own; /* n_own */
    struct sample_shared *shared; /* NULL: rows come for each part alone */
};

uint64_t sample_threshold(const struct trainer *t, uint32_t rank)
{
    bool near = ranks_are_near(t->setup.machine_of_rank, t->setup.rank, rank);
    return (uint64_t)((near ? t->level.sampling_local : t->level.sampling) * 4294967296.0);
}

bool sample_is_whole(const struct trainer *t, uint32_t rank)
{
    return sample_threshold(t, rank) > UINT32_MAX;
}

double sample_factor(const struct trainer *t, uint32_t rank)
{
    uint64_t threshold = sample_threshold(t, rank);
    return threshold > 0 ? 4294967296.0 / (double)threshold : 0.0;
}

bool sample_weighs(const struct trainer *t, uint32_t rank)
{
    uint64_t threshold = sample_threshold(t, rank);
    return t->sample->thresholds != NULL && threshold > 0 && threshold <= UINT32_MAX;
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

/* Where a pair's rows begin when diagonals have none: begin counts them with the diagonal's. */
static int64_t begin_of(int64_t begin, int32_t k, int32_t own, int64_t n_own)
{
    return begin - (k > own ? n_own : 0);
}

/* Where the lists of own part i's pair k begin. */
static int64_t taken_begin(const struct trainer *t, int32_t i, int32_t k)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_IN];
    return t->sample->own[i].taken + begin_of(all->pair[k].col, k, all->own, part->n_own);
}

static int64_t given_begin(const struct trainer *t, int32_t i, int32_t k)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_OUT];
    return t->sample->own[i].given + begin_of(all->pair[k].row, k, all->own, part->n_own);
}

/* --- thresholds of rows: once, and after a guard's back-offs --- */

/* Rows of each hop by themselves, so that as many of those that count at a hop travel as without weights. */
static void hops_weigh(const struct part *part, enum part_direction d, int32_t k, double p, const double *weight,
                       uint32_t *out)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    bool in = d == PART_DIRECTION_IN;
    int64_t begin = 0, n = in ? part_pair_cols(pairs, k) : part_pair_rows(pairs, k);
    const uint32_t *n_at_hop = (in ? pairs->n_col_hop : pairs->n_row_hop) + k * (int64_t)part->n_hop;
    for (int32_t hop = 0; hop <= part->n_hop; hop++) {
        int64_t end = hop < part->n_hop ? n_at_hop[hop] : n;
        sample_thresholds(end - begin, p, weight + begin, out + begin);
        begin = end;
    }
}

/* Where the lists of own part i's pair k begin, taken or given. */
static int64_t list_begin(const struct trainer *t, int32_t i, enum part_direction d, int32_t k)
{
    return d == PART_DIRECTION_IN ? taken_begin(t, i, k) : given_begin(t, i, k);
}

/* At the present level. */
static void pair_thresholds(struct trainer *t, int32_t i, enum part_direction d, int32_t k, const double *weight)
{
    const struct part *part = t->part[i].part;
    uint32_t rank = t->setup.rank_of_part[part->halo.pairs[d].pair[k].part];
    if (sample_weighs(t, rank)) {
        hops_weigh(part, d, k, 1.0 / sample_factor(t, rank), weight, t->sample->thresholds + list_begin(t, i, d, k));
    }
}

/* Of the rows that own part i takes of its pair k, or gives to it. */
static enum status pair_weigh(struct trainer *t, int32_t i, enum part_direction d, int32_t k)
{
    const struct part *part = t->part[i].part;
    const struct part_block block = part_block_at(part, d, k);
    const int64_t each = sizeof(uint32_t), n_col = block.n_col, n_edge = block.n_edge;
    const struct spill_range ranges[] = {
        {block.rows, block.n_row * each, SPILL_READ},
        {block.indptr, (block.n_row + 1) * (int64_t)sizeof *block.indptr, SPILL_READ},
        {block.cols, n_edge * each, SPILL_READ},
        {block.weights, block.weights != NULL ? n_edge * each : 0, SPILL_READ},
        {block.degree, n_col * each, SPILL_READ},
        {block.strength, block.strength != NULL ? n_col * each : 0, SPILL_READ},
        {part->degree, part->n_own * each, SPILL_READ},
        {part->strength, part->strength != NULL ? part->n_own * each : 0, SPILL_READ}};
    const int n_range = sizeof ranges / sizeof *ranges;
    enum status status = spill_pin(t->setup.spill, ranges, n_range);
    if (status != STATUS_OK) {
        return status;
    }
    double *kept = t->sample->weights, *own = NULL;
    if (kept == NULL) {
        own = memory_alloc((size_t)(d == PART_DIRECTION_IN ? n_col : block.n_row), sizeof *own);
    }
    double *weight = kept != NULL ? kept + list_begin(t, i, d, k) : own;
    sample_row_weights(&t->part_setup, part, d, k, weight);
    pair_thresholds(t, i, d, k, weight);
    free(own);
    spill_unpin(t->setup.spill, ranges, n_range);
    return STATUS_OK;
}

static enum status rows_weigh(struct trainer *t)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->n_own; i++) {
        for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
            const struct part_pairs *pairs = &t->part[i].part->halo.pairs[d];
            for (int32_t k = 0; k < pairs->n_pair && status == STATUS_OK; k++) {
                uint32_t rank = t->setup.rank_of_part[pairs->pair[k].part];
                bool weighs = k != pairs->own && (t->sample->weights != NULL || sample_weighs(t, rank));
                status = weighs ? pair_weigh(t, i, d, k) : STATUS_OK;
            }
        }
    }
    t->sample->weighed = t->level;
    return status;
}

/* Where the level has other shares than before; those of an epoch that is exact need no thresholds. */
static void rows_weigh_again(struct trainer *t)
{
    struct sample *s = t->sample;
    bool same = t->level.sampling == s->weighed.sampling && t->level.sampling_local == s->weighed.sampling_local;
    if (s->weights == NULL || same || level_is_exact(&t->level)) {
        return;
    }
    for (int32_t i = 0; i < t->n_own; i++) {
        for (enum part_direction d = PART_DIRECTION_IN; d < PART_DIRECTION_N; d++) {
            const struct part_pairs *pairs = &t->part[i].part->halo.pairs[d];
            for (int32_t k = 0; k < pairs->n_pair; k++) {
                if (k != pairs->own) {
                    pair_thresholds(t, i, d, k, s->weights + list_begin(t, i, d, k));
                }
            }
        }
    }
    s->weighed = t->level;
}

static enum status lists_take(struct trainer *t)
{
    struct sample *s = t->sample;
    size_t n = (size_t)s->n_list;
    enum status status = t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, n * sizeof *s->lists,
                                         &s->lists);
    if (status == STATUS_OK && t->setup.job->exchange.sampling_weights == JOB_SAMPLING_WEIGHTS_EDGES) {
        status = t->ops->acquire(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, n * sizeof *s->factors,
                                 &s->factors);
        status = status == STATUS_OK ? memory_acquire(MEMORY_STRUCTURE, n, sizeof *s->thresholds, &s->thresholds)
                                     : status;
        bool keeps = t->setup.job->exchange.guard_every > 0;
        status = status == STATUS_OK && keeps ? memory_acquire(MEMORY_STRUCTURE, n, sizeof *s->weights, &s->weights)
                                              : status;
    }
    return status;
}

enum status sample_open(struct trainer *t)
{
    if (!t->program.samples) {
        return STATUS_OK;
    }
    struct sample *s = t->sample = memory_alloc(1, sizeof *s);
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
    status = status == STATUS_OK ? lists_take(t) : status;
    return status == STATUS_OK && s->thresholds != NULL ? rows_weigh(t) : status;
}

void sample_close(struct trainer *t)
{
    struct sample *s = t->sample;
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
    if (s->factors != NULL) {
        t->ops->release(t->device, DEVICE_PLACE_SHARED, MEMORY_STRUCTURE, s->factors, n * sizeof *s->factors);
    }
    memory_release(MEMORY_STRUCTURE, s->thresholds, n, sizeof *s->thresholds);
    memory_release(MEMORY_STRUCTURE, s->weights, n, sizeof *s->weights);
    free(s->own);
    free(s);
    t->sample = NULL;
}

/* --- one epoch's --- */

/* Rows of one pair: of n listed ones, whose nodes are node[i] (or node[rows[i]]), those that are drawn, and where each has a threshold of
 * its own what they count; how many up to each hop. */
struct pair_rows {
    int64_t n;
    const uint32_t *rows; /* NULL: rows are their places */
    const uint32_t *node;
    uint64_t threshold;         /* of each … */
    const uint32_t *thresholds; /* … or n, of one each; NULL */
    uint32_t *out;              /* the drawn ones */
    float *factors_out;         /* what they count, with thresholds */
    const uint32_t *n_at_hop;   /* n_hop: NULL without hops */
    uint32_t *n_drawn_at_hop;   /* likewise */
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
        uint64_t threshold = from->thresholds != NULL ? from->thresholds[i] : from->threshold;
        if (random_u32(key, from->node[row], 0) >= threshold) {
            continue;
        }
        if (from->thresholds != NULL) {
            from->factors_out[n] = (float)(4294967296.0 / (double)threshold);
        }
        from->out[n++] = row;
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

/* How rows that own parts and part q exchange are drawn, whose lists begin at `begin`. */
static struct pair_rows pair_rows_of(const struct trainer *t, int32_t q, int64_t begin)
{
    const struct sample *s = t->sample;
    uint32_t rank = t->setup.rank_of_part[q];
    bool own = sample_weighs(t, rank);
    return (struct pair_rows){.threshold = sample_threshold(t, rank),
                              .thresholds = own ? s->thresholds + begin : NULL,
                              .out = s->lists + begin,
                              .factors_out = own ? s->factors + begin : NULL};
}

static void taken_draw(struct trainer *t, const struct random_key *key, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct part_pairs *all = &part->halo.pairs[PART_DIRECTION_IN];
    struct part_pairs *pairs = &t->sample->own[i].halo.pairs[PART_DIRECTION_IN];
    uint32_t n_col = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t n = part->n_own;
        pairs->pair[k].col = n_col;
        if (k != all->own) {
            struct pair_rows from = pair_rows_of(t, all->pair[k].part, taken_begin(t, i, k));
            from.n = part_pair_cols(all, k);
            from.node = part->arrays[PART_DIRECTION_IN].node + begin_of(all->pair[k].col, k, all->own, part->n_own);
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
    struct part_pairs *pairs = &t->sample->own[i].halo.pairs[PART_DIRECTION_OUT];
    int64_t n_row = 0;
    for (int32_t k = 0; k < all->n_pair; k++) {
        int64_t n = part_pair_rows(all, k);
        pairs->pair[k].row = n_row;
        if (k != all->own) {
            struct pair_rows from = pair_rows_of(t, all->pair[k].part, given_begin(t, i, k));
            from.n = n;
            from.rows = part->arrays[PART_DIRECTION_OUT].rows + begin_of(all->pair[k].row, k, all->own, part->n_own);
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
        .seed = (uint64_t)t->setup.job->train.seed, .epoch = t->epoch, .stream = RANDOM_STREAM_SAMPLE};
    struct sample *s = t->sample;
    enum status status = STATUS_OK;
    rows_weigh_again(t);
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
    return t->sample->lists + taken_begin(t, i, k);
}

const uint32_t *sample_given(const struct trainer *t, int32_t i, int32_t k)
{
    return t->sample->lists + given_begin(t, i, k);
}

/* Does own part i's pair k have rows with thresholds of their own? */
static bool pair_weighs(const struct trainer *t, int32_t i, enum part_direction d, int32_t k)
{
    return sample_weighs(t, t->setup.rank_of_part[t->part[i].part->halo.pairs[d].pair[k].part]);
}

const float *sample_taken_factors(const struct trainer *t, int32_t i, int32_t k)
{
    return pair_weighs(t, i, PART_DIRECTION_IN, k) ? t->sample->factors + taken_begin(t, i, k) : NULL;
}

const float *sample_given_factors(const struct trainer *t, int32_t i, int32_t k)
{
    return pair_weighs(t, i, PART_DIRECTION_OUT, k) ? t->sample->factors + given_begin(t, i, k) : NULL;
}
