#include "tests/equivalence/compare.h"

#include "tests/support/device/strict.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1024 };

const struct device_ops *compare_narrow_cpu(void)
{
    static struct device_ops narrow;
    narrow = device_cpu;
    narrow.n_window_float = device_strict.n_window_float;
    return &narrow;
}

bool compare_skips(size_t way, size_t n, bool on_strict)
{
    static size_t turn; /* of the ways on the strict device; one further with each job */
    turn += (way == 0) + on_strict;
    return ways_skip(way, n) ||
           (!SANITIZED && on_strict && (ways_first() + turn) % 3 != 0 && getenv("TEST_THOROUGH") == NULL);
}

/* Arrays of none have no address. */
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

void compare_expect_same(const struct cluster_result *first, const struct cluster_result *other, const char *format,
                         ...)
{
    char how[MOST_WORDS];
    va_list values;
    va_start(values, format);
    vsnprintf(how, sizeof how, format, values);
    va_end(values);
    expect_floats("weights", first->n_weight, first->weights, other->n_weight, other->weights, how);
    expect_floats("embeddings", first->n_embedding, first->embeddings, other->n_embedding, other->embeddings, how);
    expect_floats("logits", first->n_logit, first->logits, other->n_logit, other->logits, how);
    cr_expect_arr_eq(other->loss, first->loss, sizeof first->loss, "losses: %s", how);
    cr_expect_arr_eq(other->score, first->score, sizeof first->score, "scores: %s", how);
    cr_expect_arr_eq(other->error, first->error, sizeof first->error, "errors of the gradient: %s", how);
    cr_expect_eq(other->n_back_off, first->n_back_off, "back-offs: %s", how);
    cr_expect_eq(other->n_call, 0, "%ld allocations in epochs: %s", (long)other->n_call, how);
}

void compare_expect_planned(const struct cluster_result *result, const char *format, ...)
{
    char how[MOST_WORDS];
    va_list values;
    va_start(values, format);
    vsnprintf(how, sizeof how, format, values);
    va_end(values);
    for (int place = 0; place < MEMORY_PLACE_N; place++) {
        int last = place == MEMORY_PLACE_PINNED ? MEMORY_OTHER : MEMORY_PAYLOADS;
        for (int c = MEMORY_PARAMETERS; c <= last; c++) {
            int64_t planned = result->all_planned.bytes[place][c], measured = result->all_measured.bytes[place][c];
            cr_expect_eq(measured, planned, "%s in place %d: %ld bytes measured, %ld planned: %s",
                         memory_category_name((enum memory_category)c), place, (long)measured, (long)planned, how);
        }
    }
}
