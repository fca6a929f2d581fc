#include "worker/route/sample_dedup.h"

#include "protocol/base/memory.h"
#include "worker/route/dedup_state.h"

#include <stdlib.h>
#include <string.h>

struct sample_dedup {
    const struct own_parts *own;
    const struct dedup *rows;
    struct part_dedup counts;
    uint32_t *sent;    /* n_sent_in, as dedup.sent, whose lists are as long at most; SHARED */
    uint32_t *scatter; /* n_scatter_in, likewise as dedup.scatter */
    uint32_t *place;   /* n_place: of a list's rows, 1 + the place among those that are drawn; 0: not drawn */
    size_t n_place;
};

/* Rows of the longest list that is taken. */
static uint32_t longest_received(const struct sample_dedup *s)
{
    const struct part_dedup *all = &s->rows->counts;
    uint32_t most = 0;
    for (int32_t q = 0; q < s->own->n_part; q++) {
        for (int side = 0; side < PART_DEDUP_N_SIDE && s->own->index[q] < 0; side++) {
            uint32_t n = part_dedup_at(all, PART_DIRECTION_IN, q, s->own->setup.rank,
                                       (enum part_dedup_side)side)[all->n_hop];
            most = n > most ? n : most;
        }
    }
    return most;
}

enum status sample_dedup_open(const struct own_parts *own, const struct dedup *rows, struct sample_dedup **out)
{
    struct sample_dedup *s = *out = memory_alloc(1, sizeof *s);
    const struct part_dedup *all = &rows->counts;
    s->own = own;
    s->rows = rows;
    s->n_place = longest_received(s);
    enum status status = part_dedup_acquire(all->n_part, all->n_rank, all->n_hop, true, &s->counts);
    s->counts.scatters = true;
    status = status == STATUS_OK ? memory_acquire(MEMORY_STRUCTURE, s->n_place, sizeof *s->place, &s->place) : status;
    if (status == STATUS_OK) {
        status = own_parts_acquire(own, (size_t)rows->n_sent_in * sizeof *s->sent, &s->sent);
    }
    return status == STATUS_OK ? own_parts_acquire(own, (size_t)rows->n_scatter_in * sizeof *s->scatter, &s->scatter)
                               : status;
}

void sample_dedup_close(struct sample_dedup *s)
{
    if (s == NULL) {
        return;
    }
    own_parts_release(s->own, s->scatter, (size_t)s->rows->n_scatter_in * sizeof *s->scatter);
    own_parts_release(s->own, s->sent, (size_t)s->rows->n_sent_in * sizeof *s->sent);
    memory_release(MEMORY_STRUCTURE, s->place, s->n_place, sizeof *s->place);
    part_dedup_release(&s->counts);
    free(s);
}

/* --- one epoch's --- */

/* Of own part i's rows that are listed for a side of another rank, those that are drawn. */
static void sent_draw(const struct sample_dedup *s, const struct sample *sample, const struct dedup_list *list)
{
    const struct part_dedup *all = &s->rows->counts;
    int32_t q = s->own->number[list->i];
    const uint32_t *n_up_to = part_dedup_at(all, PART_DIRECTION_IN, q, list->rank, list->side),
                   *rows = dedup_sent_here(s->rows, list);
    const struct sample_rows from = {
        .n = n_up_to[all->n_hop],
        .rows = rows,
        .node = own_part(s->own, list->i)->node,
        .n_hop = all->n_hop,
        .n_at_hop = n_up_to,
        .out = s->sent + (rows - s->rows->sent),
        .n_drawn = part_dedup_at(&s->counts, PART_DIRECTION_IN, q, list->rank, list->side)};
    sample_draw_rows(sample, &from);
}

/* The rows that an own part has drawn of another part. */
struct drawn {
    int64_t n;
    const uint32_t *row;     /* n: places among all rows that it takes of that part */
    const uint32_t *scatter; /* places of all these in the list */
};

/* Of own part i, of part q's rows; none where it is on the other side of it. */
static struct drawn drawn_of(const struct sample_dedup *s, const struct sample *sample, int32_t i, int32_t q,
                             enum part_dedup_side side)
{
    const struct part *part = own_part(s->own, i);
    bool is_here = part_dedup_side_at(q, part->part) == side;
    int32_t k = is_here ? part_pair_find(&part->halo.pairs[PART_DIRECTION_IN], q) : -1;
    return k < 0 ? (struct drawn){0}
                 : (struct drawn){.n = sample_drawn(sample)[i].received[k * (part->n_hop + 1) + part->n_hop],
                                  .row = sample_received(sample, i, k),
                                  .scatter = dedup_scatter(s->rows, PART_DIRECTION_IN, i, k)};
}

/* What own parts on one side of part q take of it: a row is drawn where one of them has drawn it. */
static void received_draw(const struct sample_dedup *s, const struct sample *sample, int32_t q,
                          enum part_dedup_side side)
{
    const struct part_dedup *all = &s->rows->counts;
    const uint32_t *n_up_to = part_dedup_at(all, PART_DIRECTION_IN, q, s->own->setup.rank, side);
    uint32_t *n_drawn_up_to = part_dedup_at(&s->counts, PART_DIRECTION_IN, q, s->own->setup.rank, side), n = 0;
    memset(s->place, 0, n_up_to[all->n_hop] * sizeof *s->place);
    for (int32_t i = 0; i < s->own->n; i++) {
        const struct drawn drawn = drawn_of(s, sample, i, q, side);
        for (int64_t r = 0; r < drawn.n; r++) {
            s->place[drawn.scatter[drawn.row[r]]] = 1;
        }
    }
    for (int32_t hop = 0; hop <= all->n_hop; hop++) {
        for (uint32_t at = hop > 0 ? n_up_to[hop - 1] : 0; at < n_up_to[hop]; at++) {
            s->place[at] = s->place[at] > 0 ? ++n : 0;
        }
        n_drawn_up_to[hop] = n;
    }
    for (int32_t i = 0; i < s->own->n; i++) {
        const struct drawn drawn = drawn_of(s, sample, i, q, side);
        uint32_t *out = drawn.n > 0 ? s->scatter + (drawn.scatter - s->rows->scatter) : NULL;
        for (int64_t r = 0; r < drawn.n; r++) {
            out[r] = s->place[drawn.scatter[drawn.row[r]]] - 1;
        }
    }
}

void sample_dedup_draw(struct sample_dedup *s, const struct sample *sample)
{
    for (int side = 0; side < PART_DEDUP_N_SIDE; side++) {
        struct dedup_list list = {.d = PART_DIRECTION_IN, .side = (enum part_dedup_side)side};
        for (list.i = 0; list.i < s->own->n; list.i++) {
            for (list.rank = 0; list.rank < s->own->n_rank; list.rank++) {
                if (list.rank != s->own->setup.rank) {
                    sent_draw(s, sample, &list);
                }
            }
        }
        for (int32_t q = 0; q < s->own->n_part; q++) {
            if (s->own->index[q] < 0) {
                received_draw(s, sample, q, list.side);
            }
        }
    }
}

const struct part_dedup *sample_dedup_counts(const struct sample_dedup *s)
{
    return &s->counts;
}

const uint32_t *sample_dedup_sent(const struct sample_dedup *s, const struct dedup_list *list)
{
    return s->sent + (dedup_sent_here(s->rows, list) - s->rows->sent);
}

const uint32_t *sample_dedup_scatter(const struct sample_dedup *s, int32_t i, int32_t k)
{
    return s->scatter + (dedup_scatter(s->rows, PART_DIRECTION_IN, i, k) - s->rows->scatter);
}
