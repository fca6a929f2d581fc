#include "worker/pairs/pairs_draw.h"

#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pairs that a thread draws at a time. */
#define CHUNK 4096

/* Shares of pairs with an edge above this one count as this: then fewer pairs than wanted remain. */
#define SHARE_MOST 0.75

void pairs_draw_open(const struct pairs_draw_input *in, struct pairs_draw *out)
{
    const int32_t n_part = in->n_part;
    *out = (struct pairs_draw){.n_part = n_part,
                               .negatives = in->negatives,
                               .of_ends = in->of_ends,
                               .begin = memory_alloc((size_t)n_part + 1, sizeof *out->begin),
                               .n_end = memory_alloc((size_t)n_part, sizeof *out->n_end),
                               .before = memory_alloc((size_t)n_part + 1, sizeof *out->before)};
    for (int32_t a = 0; a < n_part; a++) {
        out->begin[a + 1] = out->begin[a] + in->rows[a];
        out->n_end[a] = in->ends[a];
    }
    for (int32_t a = 0; a < n_part; a++) {
        int64_t n_row = in->rows[a], n_later = out->begin[n_part] - out->begin[a + 1];
        out->before[a + 1] = out->before[a] + n_row * (n_row - 1) / 2 + n_row * n_later;
    }
    double all = (double)out->before[n_part], share = all > 0.0 ? (double)in->n_link / all : 0.0;
    out->n = (int64_t)ceil((double)in->n_link * (double)in->negatives / (1.0 - fmin(share, SHARE_MOST)));
    out->n_kept = in->n_joined >= 0 && all > 0.0 ? (double)out->n * (1.0 - (double)in->n_joined / all) : 0.0;
}

void pairs_draw_close(struct pairs_draw *draw)
{
    free(draw->begin);
    free(draw->n_end);
    free(draw->before);
    *draw = (struct pairs_draw){0};
}

/* Pairs of nodes between parts a ≤ b, and of all before these two. */
static int64_t nodes_pairs(const struct pairs_draw *draw, int32_t a, int32_t b, int64_t *before_out)
{
    int64_t n_row = pairs_part_rows(draw, a), within = n_row * (n_row - 1) / 2;
    *before_out = draw->before[a];
    if (a == b) {
        return within;
    }
    *before_out += within + n_row * (draw->begin[b] - draw->begin[a + 1]);
    return n_row * pairs_part_rows(draw, b);
}

/* Pairs that are drawn of the first so many pairs of nodes: rounded by the epoch's number u in [0, 1). */
static int64_t drawn_before(const struct pairs_draw *draw, int64_t n_pair, double u)
{
    int64_t all = draw->before[draw->n_part];
    return all > 0 ? (int64_t)floor((double)n_pair / (double)all * (double)draw->n + u) : 0;
}

/* A key of ends, or of the epoch's rounding. */
enum { OP_ENDS, OP_ROUNDING };

static struct random_key key_of(const struct random_key *key, uint16_t op)
{
    struct random_key out = *key;
    out.op = op;
    out.stream = RANDOM_STREAM_PAIR;
    return out;
}

int64_t pairs_draw_count(const struct pairs_draw *draw, const struct random_key *key, int32_t a, int32_t b)
{
    const struct random_key rounding = key_of(key, OP_ROUNDING);
    int64_t before, n_pair = nodes_pairs(draw, a, b, &before);
    double u = (double)random_unit(&rounding, 0, 0);
    return drawn_before(draw, before + n_pair, u) - drawn_before(draw, before, u);
}

int64_t pairs_draw_most(const struct pairs_draw *draw, int32_t a, int32_t b)
{
    int64_t before, n_pair = nodes_pairs(draw, a, b, &before);
    return n_pair > 0 ? drawn_before(draw, n_pair, 0.0) + 2 : 0;
}

/* Bytes of a block's three arrays: ends of rows, places, and both ends of each pair as they are drawn. */
static size_t block_bytes(int64_t n_row, int64_t n_pair, bool within)
{
    return (size_t)(n_row + 1) * sizeof(int64_t) + (size_t)n_pair * (within ? 4 : 3) * sizeof(uint32_t);
}

size_t pairs_draw_bytes(const struct pairs_draw *draw, int32_t n_own, const int32_t *own)
{
    size_t most = 0;
    for (int32_t i = 0; i < n_own; i++) {
        for (int32_t q = 0; q < draw->n_part; q++) {
            int32_t a = own[i] < q ? own[i] : q, b = own[i] < q ? q : own[i];
            size_t n_bytes = block_bytes(pairs_part_rows(draw, own[i]), pairs_draw_most(draw, a, b), a == b);
            most = n_bytes > most ? n_bytes : most;
        }
    }
    return most;
}

/* Drawing at work. */
struct drawing {
    const struct pairs_draw *draw;
    const struct random_key *key;
    const struct part *own;
    int32_t a, b; /* the two parts, a ≤ b */
    int64_t n_pair;
    uint32_t *end; /* n_pair × 2: rows of a and of b */
};

/* Does the own part's list have the pair of its row and this place? */
static bool is_edge(const struct part *own, int64_t row, uint32_t place)
{
    int64_t end = own->links.indptr[row + 1],
            at = ascending_find(own->links.places, own->links.indptr[row], end, place);
    return at < end && own->links.places[at] == place;
}

static uint32_t scaled(uint32_t draw, int64_t n)
{
    return (uint32_t)((uint64_t)draw * (uint64_t)n >> 32);
}

#define LEFT_OUT UINT32_MAX

/* Pair number t: a row of a and one of b, each alike; within one part different ones. */
static void pair_draw(const struct drawing *d, int64_t t)
{
    const struct pairs_draw *draw = d->draw;
    const uint64_t parts = (uint64_t)d->a * (uint64_t)draw->n_part + (uint64_t)d->b;
    const struct random_key key = key_of(d->key, OP_ENDS);
    const bool within = d->a == d->b, is_first = d->own->part == d->a;
    uint32_t counter[4], words[2], out[4], *end = d->end + 2 * t;
    random_counter(&key, parts, (uint32_t)t, counter, words);
    random_philox(counter, words, out);
    end[0] = scaled(out[0], pairs_part_rows(draw, d->a));
    end[1] = scaled(out[1], pairs_part_rows(draw, d->b) - within);
    end[1] += within && end[1] >= end[0];
    int64_t place = draw->begin[is_first ? d->b : d->a] + end[is_first ? 1 : 0];
    if (is_edge(d->own, end[is_first ? 0 : 1], (uint32_t)place)) {
        end[0] = LEFT_OUT;
    }
}

static void chunk_draw(void *context, int chunk, int slot)
{
    const struct drawing *d = context;
    (void)slot;
    for (int64_t t = chunk * (int64_t)CHUNK; t < smaller((chunk + 1) * (int64_t)CHUNK, d->n_pair); t++) {
        pair_draw(d, t);
    }
}

/* Rows of pairs at an end: `at` of each is counted, or with places has the other end put in its row. */
static void ends_sort(const struct drawing *d, int at, int64_t *indptr, uint32_t *places)
{
    for (int64_t t = 0; t < d->n_pair; t++) {
        uint32_t row = d->end[2 * t + at];
        if (d->end[2 * t] == LEFT_OUT) {
            continue;
        }
        if (places == NULL) {
            indptr[row + (int64_t)1]++;
        } else {
            places[indptr[row]++] = d->end[2 * t + 1 - at];
        }
    }
}

static void both_sort(const struct drawing *d, int64_t *indptr, uint32_t *places)
{
    if (d->own->part == d->a) {
        ends_sort(d, 0, indptr, places);
    }
    if (d->own->part == d->b) {
        ends_sort(d, 1, indptr, places);
    }
}

struct pairs_block pairs_draw_block(const struct pairs_draw *draw, const struct random_key *key,
                                    const struct part *own, int32_t q, struct device *device, void *memory)
{
    struct drawing d = {
        .draw = draw, .key = key, .own = own, .a = own->part < q ? own->part : q, .b = own->part < q ? q : own->part};
    d.n_pair = pairs_draw_count(draw, key, d.a, d.b);
    struct pairs_block out = {.indptr = memory};
    out.places = (uint32_t *)(void *)(out.indptr + own->n_own + 1);
    d.end = out.places + d.n_pair * (d.a == d.b ? 2 : 1);
    device->ops->chunks_run(device, (int)((d.n_pair + CHUNK - 1) / CHUNK), chunk_draw, &d);
    memset(out.indptr, 0, (size_t)(own->n_own + 1) * sizeof *out.indptr);
    both_sort(&d, out.indptr, NULL);
    for (int64_t r = 0; r < own->n_own; r++) {
        out.indptr[r + 1] += out.indptr[r];
    }
    both_sort(&d, out.indptr, out.places);
    for (int64_t r = own->n_own; r > 0; r--) { /* each row's begin has come to its end */
        out.indptr[r] = out.indptr[r - 1];
    }
    out.indptr[0] = 0;
    return out;
}

/* By the places of both ends: of pairs with an even sum the earlier one. */
static bool is_head(uint32_t place, uint32_t other)
{
    return (place < other) == ((place ^ other) % 2 == 0);
}

int64_t pairs_draw_items(const struct pairs_draw *draw, const struct pairs_block *block, const struct part *own,
                         int32_t q, struct pairs_item *out)
{
    const uint32_t first_own = (uint32_t)draw->begin[own->part], first = (uint32_t)draw->begin[q];
    for (int64_t r = 0; r < own->n_own; r++) {
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
            out[e] = (struct pairs_item){.row = (uint32_t)r, .other = block->places[e]};
            out[e].type = !is_head(first_own + (uint32_t)r, first + block->places[e]);
        }
    }
    return block->indptr[own->n_own];
}
