#include "worker/state/pin.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

/* --- bytes of an operand --- */

struct ranges {
    int n;
    struct spill_range *range;
    enum spill_access access;
};

/* Of an array that the steps of a chain touch one after another: what the first overwrites need not be read. */
static void range_add(struct ranges *out, const void *at, int64_t n, size_t size)
{
    struct spill_range range = {.at = at, .n_bytes = n * (int64_t)size, .access = out->access};
    for (int i = 0; i < out->n; i++) {
        struct spill_range *there = &out->range[i];
        if (there->at == at) {
            there->n_bytes = there->n_bytes > range.n_bytes ? there->n_bytes : range.n_bytes;
            there->access = there->access == SPILL_READ && range.access != SPILL_READ ? SPILL_UPDATE : there->access;
            return;
        }
    }
    ASSERT(out->n < PIN_RANGES_MOST);
    out->range[out->n++] = range;
}

/* Edges of blocks with pairs [first, last): a direction's lie one behind another, block after block. */
static void edges_add(struct ranges *out, const struct part *part, int d, int32_t first, int32_t last)
{
    const struct part_arrays *all = &part->arrays[d];
    const struct part_pair *begin = &part->halo.pairs[d].pair[first], *end = &part->halo.pairs[d].pair[last];
    int64_t n_edge = end->edge - begin->edge;
    range_add(out, all->indptr + begin->row + first, end->row - begin->row + last - first, sizeof *all->indptr);
    range_add(out, all->cols + begin->edge, n_edge, sizeof *all->cols);
    range_add(out, all->types != NULL ? all->types + begin->edge : NULL, n_edge, sizeof *all->types);
    range_add(out, all->weights != NULL ? all->weights + begin->edge : NULL, n_edge, sizeof *all->weights);
}

/* Those picked out are in a piece of their own; of others those of one pair, or of all (-1). */
static void blocks_add(struct ranges *out, const struct part *part, int d, const struct part_blocks *blocks,
                       int32_t pair)
{
    const struct part_arrays *all = &part->arrays[d];
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_pair *end = &pairs->pair[pairs->n_pair];
    if (blocks->made.host != NULL) {
        range_add(out, blocks->made.host, blocks->made.n_bytes, 1);
    } else {
        edges_add(out, part, d, pair < 0 ? 0 : pair, pair < 0 ? pairs->n_pair : pair + 1);
    }
    range_add(out, part->edges.features, part->edges.n_row * part->facts.n_edge_feature,
              sizeof *part->edges.features);
    range_add(out, all->rows, end->row - part->n_own, sizeof *all->rows);
    range_add(out, all->node, end->col - part->n_own, sizeof *all->node);
}

static void sending_add(struct ranges *out, const struct part *part, int d)
{
    const struct part_pairs *pairs = &part->halo.pairs[PART_DIRECTION_N - 1 - d];
    const uint32_t *rows = part->arrays[PART_DIRECTION_N - 1 - d].rows;
    range_add(out, rows, pairs->pair[pairs->n_pair].row - part->n_own, sizeof *rows);
}

static int64_t rows_of(const struct part *part, int32_t hop)
{
    return hop == PROGRAM_HOP_HALO ? part->n_own + part->n_halo : part_rows_own(part, hop);
}

/* An array of own part i, by its width and rows. */
static void rows_add(struct ranges *out, const struct trainer *t, const struct step_operand *o, int32_t i)
{
    const struct part *part = t->own.part[i].part;
    bool sparse = o->array == STEP_ARRAY_VALUE && t->program.value[o->index].is_sparse;
    const void *at = trainer_operand(t, o, i);
    if (sparse) {
        bool features = o->index == 0; /* of the features ones are not stored */
        int64_t n = part->features.n_value + (o->hop == PROGRAM_HOP_HALO ? part->features.n_halo_value : 0);
        range_add(out, features ? part->features.data : at, n + (features ? 0 : part->features.n_embedded),
                  sizeof(float));
    } else {
        range_add(out, at, rows_of(part, o->hop) * step_operand_row_bytes(&t->program, o), 1);
    }
}

static void csr_add(struct ranges *out, const struct part *part, int32_t hop)
{
    int64_t n_value = part->features.n_value + (hop == PROGRAM_HOP_HALO ? part->features.n_halo_value : 0);
    range_add(out, part->features.indptr, rows_of(part, hop) + 1, sizeof *part->features.indptr);
    range_add(out, part->features.indices, n_value, sizeof *part->features.indices);
    range_add(out, part->features.embedded_rows, part->features.n_embedded, sizeof *part->features.embedded_rows);
    range_add(out, part->features.embedded_columns, part->features.n_embedded,
              sizeof *part->features.embedded_columns);
}

static void labels_add(struct ranges *out, const struct part *part)
{
    range_add(out, part->labels.split, part->n_own, sizeof *part->labels.split);
    range_add(out, part->labels.classes, part->n_own, sizeof *part->labels.classes);
    range_add(out, part->labels.rows, part->n_own * part->facts.n_class, sizeof *part->labels.rows);
}

static void operand_add(struct ranges *out, const struct trainer *t, const struct step_operand *o, int32_t i,
                        int32_t pair)
{
    static const enum spill_access accesses[] = {
        [STEP_ACCESS_READ] = SPILL_READ, [STEP_ACCESS_WRITE] = SPILL_WRITE, [STEP_ACCESS_UPDATE] = SPILL_UPDATE};
    const struct part *part = t->own.part[i].part;
    out->access = accesses[o->access];
    switch (o->array) {
    case STEP_ARRAY_VALUE:
    case STEP_ARRAY_GRAD:
    case STEP_ARRAY_FRESH:
    case STEP_ARRAY_SAVED:
        rows_add(out, t, o, i);
        return;
    case STEP_ARRAY_STATISTICS: {
        const struct op *op = &t->program.op[o->index];
        range_add(out, trainer_operand(t, o, i), op_defs[op->kind]->global->n_statistics(&t->program, op),
                  sizeof(double));
        return;
    }
    case STEP_ARRAY_WORKSPACE:
        range_add(out, trainer_operand(t, o, i),
                  memory_workspace_bytes(o->index < 0 ? &t->plan.loss_workspace : &t->plan.workspace[o->index][o->k]),
                  1);
        return;
    case STEP_ARRAY_CSR:
        csr_add(out, part, o->hop);
        return;
    case STEP_ARRAY_NODE:
        range_add(out, part->node, part->n_own + (o->hop == PROGRAM_HOP_HALO ? part->n_halo : 0), sizeof *part->node);
        return;
    case STEP_ARRAY_LABELS:
        labels_add(out, part);
        return;
    case STEP_ARRAY_BLOCKS:
        blocks_add(out, part, o->index,
                   part_device_blocks(&t->own.part[i], o->index, t->run.training ? o->hop : PROGRAM_HOP_ALL), pair);
        return;
    case STEP_ARRAY_SENDING:
        sending_add(out, part, o->index);
        return;
    default:
        return; /* never in a file */
    }
}

static bool is_used(const struct step_operand *o, enum pin_use use)
{
    switch (use) {
    case PIN_USE_RUNNING:
        return o->running;
    case PIN_USE_PACKING:
        return o->packing;
    case PIN_USE_TAKING:
        return o->running && !o->packing && o->array != STEP_ARRAY_BLOCKS;
    case PIN_USE_BLOCK:
        return o->array == STEP_ARRAY_BLOCKS;
    default:
        return !o->running && !o->packing;
    }
}

static int ranges_of(const struct pin *p, int32_t i, struct spill_range range[PIN_RANGES_MOST])
{
    struct ranges out = {.range = range};
    int n_step = step_span(p->step);
    for (int s = 0; s < n_step; s++) {
        const struct step *step = &p->step[s];
        for (int k = 0; k < step->n_operand; k++) {
            if (is_used(&step->operand[k], p->use)) {
                operand_add(&out, p->trainer, &step->operand[k], i, p->use == PIN_USE_BLOCK ? p->pair : -1);
            }
        }
    }
    return out.n;
}

/* --- the walk --- */

struct pin pin_open(struct trainer *t, const struct step *step, enum pin_use use)
{
    return (struct pin){.trainer = t, .step = step, .use = use, .status = STATUS_OK};
}

enum status pin_begin(struct pin *p, int32_t part)
{
    p->part = part;
    if (p->trainer->setup.spill == NULL) {
        return STATUS_OK;
    }
    struct spill_range range[PIN_RANGES_MOST];
    p->is_pinned = true;
    p->status = spill_pin(p->trainer->setup.spill, range, ranges_of(p, part, range));
    return p->status;
}

void pin_end(struct pin *p)
{
    struct spill_range range[PIN_RANGES_MOST];
    if (p->is_pinned) {
        spill_unpin(p->trainer->setup.spill, range, ranges_of(p, p->part, range));
    }
    p->is_pinned = false;
}

void pin_prefetch(const struct pin *p, int32_t part)
{
    struct spill_range range[PIN_RANGES_MOST];
    spill_prefetch(p->trainer->setup.spill, range, ranges_of(p, part, range));
}

void pin_leave(const struct pin *p, int32_t part)
{
    struct spill_range range[PIN_RANGES_MOST];
    spill_leave(p->trainer->setup.spill, range, ranges_of(p, part, range));
}

int64_t pin_bytes(const struct pin *p, int32_t part)
{
    struct spill_range range[PIN_RANGES_MOST];
    return spill_touched(p->trainer->setup.spill, range, ranges_of(p, part, range));
}

/* The k-th part of this walk. */
static int32_t part_at(const struct pin *p, int32_t k)
{
    bool descends = p->trainer->descends && !p->ascends && p->trainer->setup.spill != NULL;
    return descends ? p->trainer->own.n - 1 - k : k;
}

/* The part at work, if there is one, is done; the next one begins with its pins. */
static void part_trace(struct pin *p)
{
    if (p->n_begun > 0 && p->use == PIN_USE_RUNNING && p->status == STATUS_OK) {
        trace_add(p->trainer->records.trace, TRACE_KIND_PART, p->begin_s, p->trainer->own.number[p->part]);
    }
}

bool pin_next(struct pin *p)
{
    struct trainer *t = p->trainer;
    if (t->records.trace != NULL) {
        part_trace(p);
    }
    pin_end(p);
    if (p->status != STATUS_OK || p->n_begun == t->own.n) {
        /* The parts that came last are those still in memory. */
        t->descends = part_at(p, t->own.n - 1) > 0;
        return false;
    }
    if (pin_begin(p, part_at(p, p->n_begun++)) == STATUS_OK && t->setup.spill != NULL && p->n_begun < t->own.n) {
        pin_prefetch(p, part_at(p, p->n_begun));
    }
    p->begin_s = t->records.trace != NULL ? clock_s() : 0.0;
    return p->status == STATUS_OK;
}

void pin_pass(struct pin *p, int32_t n)
{
    ASSERT(n == 0 || p->trainer->setup.spill == NULL);
    p->n_begun += n;
}

void pin_discard(const struct trainer *t, int time)
{
    if (t->setup.spill == NULL) {
        return;
    }
    for (int e = 0; e < t->plan.arena.n_ending; e++) {
        if (t->plan.arena.ending[e].time == time) {
            spill_discard(t->setup.spill, t->memory.arena + t->plan.arena.ending[e].at,
                          t->plan.arena.ending[e].n_bytes);
        }
    }
}
