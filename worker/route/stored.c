#include "worker/route/stored.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of in-edges with other parts, one behind the other. */
struct kept {
    struct part_lent made;
    const int64_t *ends;   /* indptr in the host's memory */
    const int64_t *indptr; /* one more than rows for each block */
    const uint32_t *cols;
    const float *weights; /* NULL unless weighted */
    struct part_schedule
        *schedule; /* (n_hop + 1) × pairs: the device's, of rows up to a hop that some pass walks, and of all */
};

struct stored {
    struct kept *kept; /* n_own */
};

/* What of the blocks before pair k is the diagonal's. */
static bool is_behind(const struct part_pairs *pairs, int32_t k)
{
    return k > pairs->own;
}

static const struct part_pairs *pairs_of(const struct trainer *t, int32_t i)
{
    return &t->setup.parts[t->own[i]]->halo.pairs[PART_DIRECTION_IN];
}

int64_t stored_rows_before(const struct trainer *t, int32_t i, int32_t k)
{
    const struct part_pairs *pairs = pairs_of(t, i);
    return (int64_t)pairs->pair[k].col - (is_behind(pairs, k) ? part_pair_cols(pairs, pairs->own) : 0);
}

/* Places of pair k among the blocks that are kept. */
static int64_t ptr_before(const struct part_pairs *pairs, int32_t k)
{
    return pairs->pair[k].row + k - (is_behind(pairs, k) ? part_pair_rows(pairs, pairs->own) + 1 : 0);
}

static int64_t edges_before(const struct part_pairs *pairs, int32_t k)
{
    return pairs->pair[k].edge - (is_behind(pairs, k) ? part_pair_edges(pairs, pairs->own) : 0);
}

static int32_t n_hop_of(const struct trainer *t, int32_t i)
{
    return t->setup.parts[t->own[i]]->n_hop;
}

static struct part_schedule *schedule_at(const struct trainer *t, int32_t i, int32_t hop, int32_t k)
{
    int32_t n_hop = n_hop_of(t, i);
    return &t->stored->kept[i].schedule[(hop < n_hop ? hop : n_hop) * (int64_t)pairs_of(t, i)->n_pair + k];
}

/* The block as it is kept: its first rows, up to the hop, whose edges come first, or all. */
static struct device_block kept_block(const struct trainer *t, int32_t i, int32_t hop, int32_t k)
{
    const struct kept *kept = &t->stored->kept[i];
    const struct part_pairs *pairs = pairs_of(t, i);
    int32_t n_hop = n_hop_of(t, i);
    int64_t edge = edges_before(pairs, k);
    struct device_block block = {.n_row = part_pair_rows(pairs, k),
                                 .n_col = part_pair_cols(pairs, k),
                                 .indptr = kept->indptr + ptr_before(pairs, k),
                                 .cols = kept->cols + edge,
                                 .weights = kept->weights != NULL ? kept->weights + edge : NULL,
                                 .schedule = schedule_at(t, i, hop, k)->schedule,
                                 .matrix = schedule_at(t, i, hop, k)->matrix};
    block.n_row = hop < n_hop ? pairs->n_row_hop[k * (int64_t)n_hop + hop] : block.n_row;
    block.n_edge = kept->ends[ptr_before(pairs, k) + block.n_row];
    return block;
}

/* Have the device make schedules of the blocks that passes walk. */
static enum status schedules_open(const struct trainer *t, int32_t i)
{
    const struct part_pairs *pairs = pairs_of(t, i);
    enum status status = STATUS_OK;
    for (int32_t hop = 0; hop <= n_hop_of(t, i) && status == STATUS_OK; hop++) {
        bool walks = hop == n_hop_of(t, i) || program_stores_at(&t->program, hop);
        for (int32_t k = 0; walks && k < pairs->n_pair && status == STATUS_OK; k++) {
            struct device_block block = k != pairs->own ? kept_block(t, i, hop, k) : (struct device_block){0};
            status = k != pairs->own ? t->ops->block_open(t->device, &block) : STATUS_OK;
            *schedule_at(t, i, hop,
                         k) = (struct part_schedule){.pair = k, .schedule = block.schedule, .matrix = block.matrix};
        }
    }
    return status;
}

static void pairs_copy(const struct part *part, int64_t *indptr, uint32_t *cols, float *weights)
{
    const struct part_pairs *pairs = &part->halo.pairs[PART_DIRECTION_IN];
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const struct part_block block = part_block_at(part, PART_DIRECTION_IN, k);
        int64_t edge = edges_before(pairs, k);
        if (k == pairs->own) {
            continue;
        }
        memcpy(indptr + ptr_before(pairs, k), block.indptr, ((size_t)block.n_row + 1) * sizeof *indptr);
        memcpy(cols + edge, block.cols, (size_t)block.n_edge * sizeof *cols);
        if (weights != NULL) {
            memcpy(weights + edge, block.weights, (size_t)block.n_edge * sizeof *weights);
        }
    }
}

static enum status kept_open(const struct trainer *t, int32_t i, struct kept *out)
{
    const struct part *part = t->setup.parts[t->own[i]];
    const struct part_pairs *pairs = pairs_of(t, i);
    int64_t n_bytes = memory_kept_block_bytes(pairs, part->n_own, part->weighted);
    int64_t n_ptr = pairs->pair[pairs->n_pair].row - part->n_own + pairs->n_pair - 1;
    int64_t n_edge = pairs->pair[pairs->n_pair].edge - part_pair_edges(pairs, pairs->own);
    ASSERT(!part->turned); /* there is no way back to the blocks as they were */
    char *made;
    out->schedule = memory_alloc((size_t)(part->n_hop + 1) * (size_t)pairs->n_pair, sizeof *out->schedule);
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    if (status != STATUS_OK) {
        return status;
    }
    int64_t *indptr = (int64_t *)(void *)made;
    uint32_t *cols = (uint32_t *)(void *)(indptr + n_ptr);
    float *weights = part->weighted ? (float *)(void *)(cols + n_edge) : NULL;
    pairs_copy(part, indptr, cols, weights);
    out->ends = indptr;
    status = part_lend(&t->part_setup, made, n_bytes, &out->made);
    out->indptr = part_lent_view(&out->made, indptr);
    out->cols = part_lent_view(&out->made, cols);
    out->weights = part_lent_view(&out->made, weights);
    return status == STATUS_OK ? schedules_open(t, i) : status;
}

enum status stored_open(struct trainer *t)
{
    bool covered = t->setup.parts[t->own[0]]->covered;
    bool shares = memory_plan_shares(t->setup.job, &t->program, t->setup.n_part, t->setup.n_rank, covered);
    if (!memory_plan_keeps_blocks(t->setup.job, &t->program, t->n_own, shares)) {
        return STATUS_OK;
    }
    t->stored = memory_alloc(1, sizeof *t->stored);
    t->stored->kept = memory_alloc((size_t)t->n_own, sizeof *t->stored->kept);
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < t->n_own && status == STATUS_OK; i++) {
        status = kept_open(t, i, &t->stored->kept[i]);
    }
    return status;
}

void stored_close(struct trainer *t)
{
    if (t->stored == NULL) {
        return;
    }
    for (int32_t i = 0; i < t->n_own; i++) {
        struct kept *kept = &t->stored->kept[i];
        int32_t n = (n_hop_of(t, i) + 1) * pairs_of(t, i)->n_pair;
        for (int32_t k = 0; kept->schedule != NULL && k < n; k++) {
            struct device_block block = {.schedule = kept->schedule[k].schedule, .matrix = kept->schedule[k].matrix};
            t->ops->block_close(t->device, &block);
        }
        free(kept->schedule);
        part_lent_end(&t->part_setup, &kept->made);
        memory_release(MEMORY_STRUCTURE, (void *)(uintptr_t)kept->made.host, (size_t)kept->made.n_bytes, 1);
    }
    free(t->stored->kept);
    free(t->stored);
    t->stored = NULL;
}

struct device_block stored_block(const struct trainer *t, int32_t i, int32_t hop, int32_t k)
{
    const struct part_device *own = &t->part[i];
    struct device_block block = t->stored != NULL
                                    ? kept_block(t, i, hop, k)
                                    : part_device_block(own, PART_DIRECTION_IN, hop, k, PART_COLUMNS_PAYLOAD);
    block.rows = part_device_rows(own, PART_DIRECTION_IN, k);
    block.n_col = part_pair_cols(pairs_of(t, i), k);
    return block;
}
