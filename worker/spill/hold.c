#include "worker/spill/hold.h"

#include "protocol/log.h"

struct hold hold_open(struct trainer *t)
{
    return (struct hold){.trainer = t, .status = STATUS_OK};
}

/* --- bytes of a use --- */

struct ranges {
    int n;
    struct spill_range *range;
    enum spill_access access;
};

static void range_add(struct ranges *out, const void *at, int64_t n, size_t size)
{
    ASSERT(out->n < HOLD_RANGES_MOST);
    out->range[out->n++] = (struct spill_range){.at = at, .n_bytes = n * (int64_t)size, .access = out->access};
}

/* The arrays of a direction's blocks lie one behind another, block after block; edges picked out in a piece of their own. */
static void blocks_add(struct ranges *out, const struct part *part, int d, const struct part_blocks *blocks)
{
    const struct part_block *first = part->block[d], *other = part->n_part > 1 ? &first[part->part == 0] : NULL;
    int64_t n_row = 0, n_indptr = 0, n_edge = 0, n_col = 0;
    for (int32_t q = 0; q < part->n_part; q++) {
        n_row += q != part->part ? first[q].n_row : 0;
        n_col += q != part->part ? first[q].n_col : 0;
        n_indptr += first[q].n_row + 1;
        n_edge += first[q].n_edge;
    }
    if (blocks->made.host != NULL) {
        range_add(out, blocks->made.host, blocks->made.n_bytes, 1);
    } else {
        range_add(out, first->indptr, n_indptr, sizeof *first->indptr);
        range_add(out, first->cols, n_edge, sizeof *first->cols);
        range_add(out, first->types, n_edge, sizeof *first->types);
        range_add(out, first->weights, n_edge, sizeof *first->weights);
    }
    if (other != NULL) {
        range_add(out, other->rows, n_row, sizeof *other->rows);
        range_add(out, other->node, n_col, sizeof *other->node);
    }
}

static void sent_add(struct ranges *out, const struct part *part, int d)
{
    int64_t n_row = 0;
    for (int32_t q = 0; q < part->n_part; q++) {
        n_row += part->send[d][q].n_row;
    }
    if (part->n_part > 1) {
        range_add(out, part->send[d][part->part == 0].rows, n_row, sizeof *part->send[d]->rows);
    }
}

static void value_add(struct ranges *out, const struct trainer *t, int value, int32_t i)
{
    const struct part *part = t->part[i].part;
    bool sparse = t->program.value[value].is_sparse;
    const float *at = value > 0 ? trainer_value(t, value, i) : sparse ? part->feature_data : t->part[i].features;
    int64_t n_sparse = part->n_feature_value + (value > 0 ? part->n_embedded : 0); /* of the features ones are not stored */
    range_add(out, at, sparse ? n_sparse : part->n_own * t->program.value[value].width, sizeof(float));
}

static void grad_add(struct ranges *out, const float *at, const struct part *part, const struct value *value)
{
    range_add(out, at, part_rows_own(part, value->level) * value->width, sizeof(float));
}

static void kept_add(struct ranges *out, const struct trainer *t, int index, int k, int32_t i)
{
    const struct op *op = &t->program.op[index];
    const struct global_def *global = op_defs[op->kind].global;
    if (global != NULL) {
        range_add(out, trainer_whole(t, index), global->n_whole(&t->program, op), sizeof(double));
    } else {
        range_add(out, trainer_kept(t, index, k, i), t->part[i].part->n_own * op_kept_width(&t->program, op, k), sizeof(float));
    }
}

static void use_add(struct ranges *out, const struct trainer *t, const struct use *use, int32_t i)
{
    const struct part *part = t->part[i].part;
    const struct value *value = t->program.value;
    out->access = use->access;
    switch (use->kind) {
    case USE_VALUE:
        value_add(out, t, use->index, i);
        return;
    case USE_GRAD:
        grad_add(out, trainer_grad(t, use->index, i), part, &value[use->index]);
        return;
    case USE_KEPT:
        kept_add(out, t, use->index, use->k, i);
        return;
    case USE_TEMP:
        grad_add(out, trainer_temp(t, use->index, use->k, i), part, &value[t->program.op[use->index].in[use->k]]);
        return;
    case USE_ROOM: {
        const struct memory_room *room = use->index < 0 ? &t->plan.score_room : &t->plan.room[use->index][use->k];
        range_add(out, trainer_room(t, room), room->n_scratch + room->n_fetch + room->n_pack, 1);
        return;
    }
    case USE_CSR:
        range_add(out, part->feature_indptr, part->n_own + 1, sizeof *part->feature_indptr);
        range_add(out, part->feature_indices, part->n_feature_value, sizeof *part->feature_indices);
        range_add(out, part->embedded_rows, part->n_embedded, sizeof *part->embedded_rows);
        range_add(out, part->embedded_columns, part->n_embedded, sizeof *part->embedded_columns);
        return;
    case USE_NODES:
        range_add(out, part->node, part->n_own, sizeof *part->node);
        return;
    case USE_LABELS:
        range_add(out, part->split, part->n_own, sizeof *part->split);
        range_add(out, part->labels, part->n_own, sizeof *part->labels);
        range_add(out, part->label_rows, part->n_own * part->n_class, sizeof *part->label_rows);
        return;
    case USE_BLOCKS:
        blocks_add(out, part, use->index,
                   part_device_blocks(&t->part[i], use->index, t->training ? use->k : PROGRAM_LEVEL_ALL));
        return;
    case USE_SENT:
        sent_add(out, part, use->index);
        return;
    }
}

static int ranges_of(const struct hold *h, int32_t i, struct spill_range range[HOLD_RANGES_MOST])
{
    struct ranges out = {.range = range};
    for (int u = 0; u < h->uses.n; u++) {
        use_add(&out, h->trainer, &h->uses.use[u], i);
    }
    return out.n;
}

/* --- the walk --- */

enum status hold_begin(struct hold *h, int32_t part)
{
    h->part = part;
    if (h->trainer->setup.spill == NULL) {
        return STATUS_OK;
    }
    h->n_range = ranges_of(h, part, h->range);
    h->status = spill_use(h->trainer->setup.spill, h->range, h->n_range);
    return h->status;
}

void hold_end(struct hold *h)
{
    spill_done(h->trainer->setup.spill, h->range, h->n_range);
    h->n_range = 0;
}

/* The k-th part of this walk. */
static int32_t part_at(const struct hold *h, int32_t k)
{
    bool descends = h->trainer->descends && !h->ascends && h->trainer->setup.spill != NULL;
    return descends ? h->trainer->n_own - 1 - k : k;
}

bool hold_next(struct hold *h)
{
    struct trainer *t = h->trainer;
    hold_end(h);
    if (h->status != STATUS_OK || h->n_begun == t->n_own) {
        /* The parts that came last are those still in memory. */
        t->descends = part_at(h, t->n_own - 1) > 0;
        return false;
    }
    if (hold_begin(h, part_at(h, h->n_begun++)) == STATUS_OK && t->setup.spill != NULL && h->n_begun < t->n_own) {
        struct spill_range next[HOLD_RANGES_MOST];
        spill_ahead(t->setup.spill, next, ranges_of(h, part_at(h, h->n_begun), next));
    }
    return h->status == STATUS_OK;
}

void hold_forget(const struct trainer *t, int time)
{
    for (int e = 0; t->setup.spill != NULL && e < t->plan.n_ending; e++) {
        if (t->plan.ending[e].time == time) {
            spill_forget(t->setup.spill, t->arena + t->plan.ending[e].at, t->plan.ending[e].n_bytes);
        }
    }
}
