#include "worker/pairs/pairs_ends.h"

#include "partition/rows/permutation.h"
#include "protocol/base/amounts.h"

#include <math.h>

/* Pairs that a thread draws at a time. */
#define CHUNK 4096

/* Columns of draws: a node, of a row for each pair; the epoch's rounding, of row 0. */
enum { COLUMN_NODE, COLUMN_ROUNDING };

static struct random_key key_of(const struct random_key *key, enum random_stream stream, int32_t p)
{
    struct random_key out = *key;
    out.op = (uint16_t)p;
    out.stream = (uint16_t)stream;
    return out;
}

/* Pairs of part p that are drawn from the parts before q: rounded by the epoch's number u in [0, 1). */
static int64_t drawn_before(const struct pairs_draw *draw, int32_t p, int32_t q, double u)
{
    double n = (double)(draw->n_end[p] * draw->negatives), n_node = (double)draw->begin[draw->n_part];
    return (int64_t)floor(n * ((double)draw->begin[q] / n_node) + u);
}

static double rounding_of(const struct random_key *key, int32_t p)
{
    const struct random_key of = key_of(key, RANDOM_STREAM_END, p);
    return (double)random_unit(&of, 0, COLUMN_ROUNDING);
}

int64_t pairs_ends_count(const struct pairs_draw *draw, const struct random_key *key, int32_t p, int32_t q)
{
    double u = rounding_of(key, p);
    return drawn_before(draw, p, q + 1, u) - drawn_before(draw, p, q, u);
}

int64_t pairs_ends_most(const struct pairs_draw *draw, int32_t p, int32_t q)
{
    double n = (double)(draw->n_end[p] * draw->negatives), n_node = (double)draw->begin[draw->n_part];
    return (int64_t)(n * ((double)pairs_part_rows(draw, q) / n_node)) + 2;
}

static int64_t pair_edges(const struct part_halo *halo, enum part_direction d, int32_t q)
{
    int32_t k = part_pair_find(&halo->pairs[d], q);
    return k >= 0 ? part_pair_edges(&halo->pairs[d], k) : 0;
}

/* Of another part's. */
static int64_t between_others(const struct part_halo *halo, bool inverse, int32_t q)
{
    bool both = !halo->symmetric && !inverse;
    return pair_edges(halo, PART_DIRECTION_IN, q) + (both ? pair_edges(halo, PART_DIRECTION_OUT, q) : 0);
}

int64_t pairs_ends_between(const struct pairs_draw *draw, const struct part_halo *halo, bool inverse, int32_t q)
{
    if (q != halo->part) {
        return between_others(halo, inverse, q);
    }
    int64_t n = draw->n_end[q];
    for (int32_t other = 0; other < halo->n_part; other++) {
        n -= other != q ? between_others(halo, inverse, other) : 0;
    }
    return n;
}

/* The entries of a row of the part's list whose other ends are in part q. */
static int64_t entries_of(const struct pairs_draw *draw, const struct part *part, int64_t row, int32_t q,
                          int64_t *begin_out)
{
    int64_t end = part->links.indptr[row + 1],
            begin = ascending_find(part->links.places, part->links.indptr[row], end, (uint32_t)draw->begin[q]);
    *begin_out = begin;
    return ascending_find(part->links.places, begin, end, (uint32_t)draw->begin[q + 1]) - begin;
}

int64_t pairs_ends_listed(const struct pairs_draw *draw, const struct part *part, int32_t q)
{
    int64_t n = 0, begin;
    for (int64_t r = 0; r < part->n_own; r++) {
        n += entries_of(draw, part, r, q, &begin);
    }
    return n;
}

static uint32_t type_of(const struct part *part, int64_t entry)
{
    return part->links.types != NULL ? part->links.types[entry] : 0;
}

int64_t pairs_ends_edges(const struct pairs_draw *draw, const struct part *own, int32_t q, struct pairs_item *out)
{
    int64_t n = 0, begin;
    for (int64_t r = 0; r < own->n_own; r++) {
        int64_t n_here = entries_of(draw, own, r, q, &begin);
        for (int64_t e = begin; e < begin + n_here; e++) {
            out[n++] = (struct pairs_item){.row = (uint32_t)r,
                                           .other = own->links.places[e] - (uint32_t)draw->begin[q],
                                           .type = type_of(own, e),
                                           .number = (uint32_t)(e * (1 + draw->negatives))};
        }
    }
    return n;
}

/* Drawing at work. */
struct drawing {
    const struct pairs_draw *draw;
    const struct part *own;
    int32_t q;
    struct random_key key;
    struct permutation order; /* of the part's pairs */
    int64_t first, n;         /* in that order */
    struct pairs_item *out;
};

/* The row whose list has this entry. */
static int64_t row_of(const struct part *part, int64_t entry)
{
    int64_t begin = 0, end = part->n_own;
    while (end - begin > 1) {
        int64_t middle = begin + (end - begin) / 2;
        if (part->links.indptr[middle] <= entry) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* Does an edge of this entry's relation join its row with a place, in either direction? */
static bool is_edge(const struct part *part, int64_t row, int64_t entry, uint32_t place)
{
    const uint32_t relation = pairs_relation(type_of(part, entry));
    int64_t end = part->links.indptr[row + 1],
            at = ascending_find(part->links.places, part->links.indptr[row], end, place);
    while (at < end && part->links.places[at] == place && pairs_relation(type_of(part, at)) < relation) {
        at++;
    }
    return at < end && part->links.places[at] == place && pairs_relation(type_of(part, at)) == relation;
}

static void pair_draw(const struct drawing *d, int64_t i)
{
    const int64_t pair = permutation_at(&d->order, d->first + i), entry = pair / d->draw->negatives;
    const int64_t row = row_of(d->own, entry);
    const uint32_t drawn = random_u32(&d->key, (uint64_t)(d->first + i), COLUMN_NODE),
                   other = (uint32_t)((uint64_t)drawn * (uint64_t)pairs_part_rows(d->draw, d->q) >> 32),
                   place = (uint32_t)d->draw->begin[d->q] + other;
    bool is_itself = d->q == d->own->part && other == row;
    d->out[i] = (struct pairs_item){
        .row = (uint32_t)row,
        .other = is_itself || is_edge(d->own, row, entry, place) ? PAIRS_LEFT_OUT : other,
        .type = type_of(d->own, entry),
        .number = (uint32_t)(entry * (1 + d->draw->negatives) + 1 + pair % d->draw->negatives)};
}

static void chunk_draw(void *context, int chunk, int slot)
{
    const struct drawing *d = context;
    (void)slot;
    for (int64_t i = chunk * (int64_t)CHUNK; i < smaller((chunk + 1) * (int64_t)CHUNK, d->n); i++) {
        pair_draw(d, i);
    }
}

int64_t pairs_ends_block(const struct pairs_draw *draw, const struct random_key *key, const struct part *own,
                         int32_t q, struct device *device, struct pairs_item *out)
{
    const int64_t n_edge = pairs_ends_edges(draw, own, q, out);
    struct drawing d = {.draw = draw,
                        .own = own,
                        .q = q,
                        .key = key_of(key, RANDOM_STREAM_END, own->part),
                        .order = permutation_make(key_of(key, RANDOM_STREAM_END_ORDER, own->part),
                                                  draw->n_end[own->part] * draw->negatives),
                        .first = drawn_before(draw, own->part, q, rounding_of(key, own->part)),
                        .n = pairs_ends_count(draw, key, own->part, q),
                        .out = out + n_edge};
    device->ops->chunks_run(device, (int)((d.n + CHUNK - 1) / CHUNK), chunk_draw, &d);
    return n_edge + d.n;
}
