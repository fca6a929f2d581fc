#include "worker/plan/arena.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

void life_begin(struct life *life, int at)
{
    if (life->n_span == LIFE_N_SPAN) {
        life_touch(life, at);
        return;
    }
    life->span[life->n_span++] = (struct life_span){.first = at, .last = at};
}

void life_touch(struct life *life, int at)
{
    if (life->n_span == 0) {
        life_begin(life, at);
        return;
    }
    struct life_span *span = &life->span[life->n_span - 1];
    span->first = at < span->first ? at : span->first;
    span->last = at > span->last ? at : span->last;
}

static int span_compare(const void *a, const void *b)
{
    return ((const struct life_span *)a)->first - ((const struct life_span *)b)->first;
}

/* Two neighbours become one. */
static int spans_merge(struct life_span *span, int n, int i)
{
    span[i].last = span[i + 1].last > span[i].last ? span[i + 1].last : span[i].last;
    memmove(span + i + 1, span + i + 2, (size_t)(n - i - 2) * sizeof *span);
    return n - 1;
}

void life_join(struct life *a, const struct life *b)
{
    struct life_span all[2 * LIFE_N_SPAN];
    int n = a->n_span + b->n_span;
    memcpy(all, a->span, (size_t)a->n_span * sizeof *all);
    memcpy(all + a->n_span, b->span, (size_t)b->n_span * sizeof *all);
    qsort(all, (size_t)n, sizeof *all, span_compare);
    for (int i = 0; i + 1 < n;) {
        if (all[i + 1].first <= all[i].last) {
            n = spans_merge(all, n, i);
        } else {
            i++;
        }
    }
    while (n > LIFE_N_SPAN) { /* those with least between them */
        int at = 0;
        for (int i = 1; i + 1 < n; i++) {
            at = all[i + 1].first - all[i].last < all[at + 1].first - all[at].last ? i : at;
        }
        n = spans_merge(all, n, at);
    }
    memcpy(a->span, all, (size_t)n * sizeof *all);
    a->n_span = n;
}

bool life_meets(const struct life *a, const struct life *b)
{
    for (int i = 0, k = 0; i < a->n_span && k < b->n_span;) {
        if (a->span[i].last < b->span[k].first) {
            i++;
        } else if (b->span[k].last < a->span[i].first) {
            k++;
        } else {
            return true;
        }
    }
    return false;
}

static int first_compare(const void *a, const void *b)
{
    const struct life *x = *(struct life *const *)a, *y = *(struct life *const *)b;
    if (x->span[0].first != y->span[0].first) {
        return x->span[0].first < y->span[0].first ? -1 : 1;
    }
    if (x->n_bytes != y->n_bytes) {
        return x->n_bytes > y->n_bytes ? -1 : 1;
    }
    return x < y ? -1 : 1; /* of one array: the same order everywhere */
}

static int bytes_compare(const void *a, const void *b)
{
    const struct life *x = *(struct life *const *)a, *y = *(struct life *const *)b;
    if (x->n_bytes != y->n_bytes) {
        return x->n_bytes > y->n_bytes ? -1 : 1;
    }
    return first_compare(a, b);
}

/* Longest first: what stays goes to the bottom. */
static int length_compare(const void *a, const void *b)
{
    const struct life *x = *(struct life *const *)a, *y = *(struct life *const *)b;
    int64_t n[2] = {0, 0};
    for (int i = 0; i < x->n_span; i++) {
        n[0] += x->n_bytes * (x->span[i].last - x->span[i].first + 1);
    }
    for (int i = 0; i < y->n_span; i++) {
        n[1] += y->n_bytes * (y->span[i].last - y->span[i].first + 1);
    }
    return n[0] != n[1] ? (n[0] > n[1] ? -1 : 1) : bytes_compare(a, b);
}

/* One after another at the lowest address where nothing alive at the same time lies. `placed` keeps them by
 * address. */
static int64_t place_in_order(struct life **life, int n, struct life **placed)
{
    int64_t end = 0;
    for (int i = 0; i < n; i++) {
        int64_t at = 0;
        int k = 0;
        for (; k < i && placed[k]->at < at + life[i]->n_bytes; k++) {
            int64_t above = placed[k]->at + placed[k]->n_bytes;
            if (above > at && life_meets(placed[k], life[i])) {
                at = above;
            }
        }
        life[i]->at = at;
        end = at + life[i]->n_bytes > end ? at + life[i]->n_bytes : end;
        for (k = i; k > 0 && placed[k - 1]->at > at; k--) {
            placed[k] = placed[k - 1];
        }
        placed[k] = life[i];
    }
    return end;
}

/* What could not be placed lower goes first the next time. */
static void highest_first(struct life **life, int n, int64_t end)
{
    int k = 0;
    while (life[k]->at + life[k]->n_bytes < end) {
        k++;
    }
    struct life *highest = life[k];
    memmove(life + 1, life, (size_t)k * sizeof(struct life *));
    life[0] = highest;
    ASSERT(k < n);
}

/* Where lives begin, and where they are over. */
struct change {
    int time;
    int64_t n_bytes;
};

/* Of one time, what is over first. */
static int change_compare(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time ? 1 : -1) : (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* Bytes that are alive at one time, at most: no placing needs less. */
static int64_t alive_most(struct life *const *life, int n)
{
    struct change *change = memory_alloc((size_t)n * 2 * LIFE_N_SPAN, sizeof *change);
    size_t n_change = 0;
    for (int i = 0; i < n; i++) {
        for (int s = 0; s < life[i]->n_span; s++) {
            ASSERT(s == 0 || life[i]->span[s].first > life[i]->span[s - 1].last);
            change[n_change++] = (struct change){life[i]->span[s].first, life[i]->n_bytes};
            change[n_change++] = (struct change){life[i]->span[s].last + 1, -life[i]->n_bytes};
        }
    }
    qsort(change, n_change, sizeof *change, change_compare);
    int64_t most = 0, sum = 0;
    for (size_t i = 0; i < n_change; i++) {
        sum += change[i].n_bytes;
        most = sum > most ? sum : most;
    }
    free(change);
    return most;
}

/* So many orders are tried, in pairs of arrays looked at: a blink for the usual hundred arrays, and bounded for
 * thousands. */
#define PAIRS_MOST ((int64_t)2000000)
#define TRIES_MOST 200

int64_t arena_place(struct life **life, int n)
{
    static int (*const orders[])(const void *, const void *) = {bytes_compare, first_compare, length_compare};
    const int n_order = sizeof orders / sizeof *orders;
    if (n == 0) {
        return 0;
    }
    int64_t n_try = PAIRS_MOST / ((int64_t)n * n), best = INT64_MAX;
    const int64_t least = alive_most(life, n);
    n_try = n_try < TRIES_MOST ? n_try : TRIES_MOST;
    struct life **placed = memory_alloc(2 * (size_t)n, sizeof(struct life *)), **kept = placed + n;
    for (int o = 0; o < n_order && best > least; o++) {
        qsort(life, (size_t)n, sizeof(struct life *), orders[o]);
        for (int64_t t = 0; t <= n_try && best > least; t++) {
            int64_t end = place_in_order(life, n, placed);
            if (end < best) {
                best = end;
                memcpy(kept, life, (size_t)n * sizeof(struct life *));
            }
            highest_first(life, n, end);
        }
    }
    memcpy(life, kept, (size_t)n * sizeof(struct life *));
    place_in_order(life, n, placed);
    free(placed);
    return best;
}
