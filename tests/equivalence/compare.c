#include "tests/equivalence/compare.h"

#include "tests/support/device/strict.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct way compare_plain = {.prefetch = 1};

const struct device_ops *compare_narrow_cpu(void)
{
    static struct device_ops narrow;
    narrow = device_cpu;
    narrow.n_window_float = device_strict.n_window_float;
    return &narrow;
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

void compare_write(const struct task *task, const struct way *way, char out[COMPARE_TEXT])
{
    /* In memory where possible: the bits do not depend on a disk's speed. */
    const char *disk = access("/dev/shm", W_OK) == 0 ? "spill = '/dev/shm'" : "spill = '/tmp'";
    int n = snprintf(
        out, COMPARE_TEXT,
        "[dataset]\n%s\n[partition]\ncache = 'off'\n%s\n[model]\n%s\n[train]\nepochs = %d\n%s\n[exchange]\n%s\n"
        "schedule = '%s'\nprefetch = %d\n[workers]\ncount = %d\nthreads = %d\n[memory]\nrecompute = '%s'\n"
        "offload = '%s'\nlimit = %lld\n%s\n",
        task->data, or_else(task->partition, "parts = 4\nmethod = 'random'"), task->model,
        task->epochs == 0  ? COMPARE_EPOCHS
        : task->epochs < 0 ? 0
                           : task->epochs,
        or_else(task->train, "lr = 0.01"), or_else(task->exchange, ""), way->is_halo ? "halo" : "sequential",
        way->prefetch, way->workers > 0 ? way->workers : 1, way->threads > 0 ? way->threads : 1,
        or_else(way->recompute, "never"), or_else(way->offload, "auto"), (long long)way->limit,
        way->spills ? disk : "");
    cr_assert_lt(n, COMPARE_TEXT);
}

static void describe(const struct task *task, const struct way *way, char out[COMPARE_TEXT])
{
    compare_write(task, way, out);
    strncat(out, way->device == &device_strict ? "strict device" : "", COMPARE_TEXT - strlen(out) - 1);
}

void compare_run(const struct task *task, const struct way *way, struct cluster_result *out)
{
    char text[COMPARE_TEXT];
    struct way limited = *way;
    if (way->spills && way->limit == 0) {
        struct task prepared = *task;
        prepared.epochs = COMPARE_NO_EPOCH;
        limited.limit = 1 << 30;
        compare_run(&prepared, &limited, out);
        limited.limit = out->limit_least;
        cluster_release(out);
    }
    compare_write(task, &limited, text);
    cluster_device = way->device != NULL ? way->device : compare_narrow_cpu();
    cluster_run(text, out);
    cr_assert_eq(out->exit_code, 0, "exit %d of\n%s", out->exit_code, text);
}

/* Arrays of no elements have no address. */
static void expect_floats(const char *what, int64_t n, const float *first, int64_t n_other, const float *other,
                          const char *how)
{
    cr_assert_eq(n_other, n, "%s: %ld, expected %ld: %s", what, (long)n_other, (long)n, how);
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&other[i], &first[i], sizeof *first) != 0) {
            cr_expect(false, "%s: %.9g at %ld, expected %.9g: %s", what, other[i], (long)i, first[i], how);
            return;
        }
    }
}

static void expect_planned(const struct cluster_result *result, const char *how)
{
    for (int place = 0; place < MEMORY_PLACE_N; place++) {
        int last = place == MEMORY_PLACE_PINNED ? MEMORY_OTHER : MEMORY_PAYLOADS;
        for (int c = MEMORY_PARAMETERS; c <= last; c++) {
            int64_t planned = result->all_planned.bytes[place][c], measured = result->all_measured.bytes[place][c];
            cr_expect_eq(measured, planned, "%s in place %d: %ld bytes measured, %ld planned: %s",
                         memory_category_name((enum memory_category)c), place, (long)measured, (long)planned, how);
        }
    }
}

void compare_same(const struct task *task, const struct way *way, const struct cluster_result *first,
                  const struct cluster_result *other)
{
    char how[COMPARE_TEXT];
    describe(task, way, how);
    expect_floats("weights", first->n_weight, first->weights, other->n_weight, other->weights, how);
    expect_floats("embeddings", first->n_embedding, first->embeddings, other->n_embedding, other->embeddings, how);
    expect_floats("logits", first->n_logit, first->logits, other->n_logit, other->logits, how);
    for (size_t e = 0; e < sizeof first->loss / sizeof *first->loss; e++) {
        cr_expect(isfinite(first->loss[e]), "the loss of epoch %zu is no number: %s", e, how);
    }
    cr_expect_arr_eq(other->loss, first->loss, sizeof first->loss, "losses: %s", how);
    cr_expect_arr_eq(other->score, first->score, sizeof first->score, "scores: %s", how);
    cr_expect_arr_eq(other->error, first->error, sizeof first->error, "errors of the gradient: %s", how);
    cr_expect_eq(other->n_back_off, first->n_back_off, "back-offs: %s", how);
    cr_expect_eq(other->n_call, 0, "%ld allocations in epochs: %s", (long)other->n_call, how);
    if (way->spills) {
        cr_expect_leq(other->measured[MEMORY_SPILL], other->planned[MEMORY_SPILL], "%s", how);
    } else {
        expect_planned(other, how);
    }
}

/* Is one of n ways left out of a test that is not thorough? */
static bool skips(size_t way, size_t n, bool on_strict)
{
    static size_t turn; /* of the ways on the strict device; one further with each job */
    turn += (way == 0) + on_strict;
    return ways_skip(way, n) ||
           (!SANITIZED && on_strict && (ways_first() + turn) % 3 != 0 && getenv("TEST_THOROUGH") == NULL);
}

void compare_ways(const struct task *task, const struct way *first, const struct way *ways, size_t n)
{
    bool stays = (task->exchange != NULL && strstr(task->exchange, "stale = 1") != NULL) ||
                 (task->train != NULL && strstr(task->train, "[task]\nkind = 'link'") != NULL);
    struct cluster_result want, got;
    compare_run(task, first, &want);
    compare_same(task, first, &want, &want);
    for (size_t w = 0; w < n; w++) {
        if (skips(w, n, ways[w].device == &device_strict) || (ways[w].spills && stays)) {
            continue;
        }
        compare_run(task, &ways[w], &got);
        compare_same(task, &ways[w], &want, &got);
        cluster_release(&got);
    }
    cluster_release(&want);
}

void compare_all_ways(const struct task *task)
{
    static const struct way ways[] = {
        {.threads = 2, .prefetch = 1, .is_halo = true},
        {.workers = 2, .threads = 2, .prefetch = 3, .recompute = "always"},
        {.device = &device_strict},
        {.workers = 4, .prefetch = 1, .is_halo = true, .recompute = "always"},
        {.workers = 2, .prefetch = 1, .is_halo = true, .recompute = "always", .spills = true},
        {.workers = 2},
        {.workers = 3, .prefetch = 1, .recompute = "auto"},
        {.prefetch = 1, .spills = true},
        {.workers = 3, .threads = 2, .device = &device_strict},
        {.workers = 4, .prefetch = 1, .is_halo = true, .recompute = "always", .device = &device_strict},
    };
    compare_ways(task, &compare_plain, ways, sizeof ways / sizeof *ways);
}

void compare_reference(const struct task *task)
{
    static const struct way one = {.device = &device_reference}, three = {.workers = 3, .device = &device_reference};
    compare_ways(task, &one, &three, 1);
}

void compare_differ(const struct task *a, const struct task *b)
{
    struct cluster_result one, two;
    compare_run(a, &compare_plain, &one);
    compare_run(b, &compare_plain, &two);
    cr_expect_arr_neq(one.logits, two.logits, (size_t)one.n_logit * sizeof(float), "%s, %s, %s", a->model, a->train,
                      b->train);
    cluster_release(&one);
    cluster_release(&two);
}

double compare_distance(int64_t n, const float *a, const float *b)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(apart / size);
}

void compare_losses(const struct task *task, int epochs, const struct cluster_result *found,
                    const struct cluster_result *expected)
{
    for (int e = 0; e < epochs; e++) {
        cr_expect_leq(fabs(found->loss[e] - expected->loss[e]), TOLERANCE_LOSS * expected->loss[e],
                      "%s: epoch %d: %.9g, expected %.9g", task->model, e, found->loss[e], expected->loss[e]);
    }
}
