/* Entries to rows against the C library's sort: few rows and many, hubs, one row with everything; and rows of all
 * lengths as a data set has them. */
#include "partition/rows/row_build.h"
#include "protocol/base/memory.h"
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(row_build, .init = folder_make, .fini = fixture_end);

struct entry {
    int64_t row;
    uint64_t key;
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->row != y->row ? (x->row < y->row ? -1 : 1) : (x->key > y->key) - (x->key < y->key);
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

/* Half of the entries are in a tenth of the rows, and the last row has some. */
static struct entry *entries_drawn(int64_t n_row, int64_t n, uint64_t key_mask, uint64_t seed)
{
    struct entry *out = memory_alloc((size_t)n, sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        uint64_t range = (uint64_t)(i % 2 == 0 ? n_row : n_row / 10 + 1);
        out[i].row = i % 50 == 0 ? n_row - 1 : (int64_t)(draw(&seed) % range);
        out[i].key = draw(&seed) & key_mask;
    }
    return out;
}

enum kind { PLAIN, TYPED, WEIGHTED, FEATURED, KIND_N };

static void agrees(int64_t n_row, int64_t n, enum kind kind)
{
    static const uint64_t mask[KIND_N] = {0xffffffff, 0xffffffffffff, 0xffffffff7fffff, 0xffffffffffffff};
    struct entry *entry = entries_drawn(n_row, n, mask[kind], (uint64_t)(n_row + n));
    size_t size = (size_t)n;
    struct row_pairs out = {.source = memory_alloc(size, sizeof *out.source),
                            .type = kind == TYPED ? memory_alloc(size, sizeof *out.type) : NULL,
                            .weight = kind == WEIGHTED ? memory_alloc(size, sizeof *out.weight) : NULL,
                            .row = kind == FEATURED ? memory_alloc(size, sizeof *out.row) : NULL};
    int64_t *indptr = memory_alloc((size_t)n_row + 1, sizeof *indptr);
    struct row_build build;
    cr_assert_eq(row_build_open(n_row, &build), STATUS_OK);
    for (int64_t i = 0; i < n; i++) {
        row_build_count(&build, entry[i].row);
    }
    row_build_counted(&build);
    cr_assert_eq(build.n_entry, n);
    cr_assert_eq(row_build_into(&build, out), STATUS_OK);
    for (int64_t i = 0; i < n; i++) {
        cr_assert(i + 1 < n || !row_build_finish(&build, indptr), "an entry is missing");
        cr_assert(row_build_add(&build, entry[i].row, entry[i].key));
    }
    cr_assert(!row_build_add(&build, n_row - 1, 0), "one more than counted");
    cr_assert(row_build_finish(&build, indptr));
    row_build_close(&build);
    row_pairs_sort(n_row, indptr, out);
    qsort(entry, size, sizeof *entry, compare);
    for (int64_t v = 0, i = 0; v < n_row; v++) {
        cr_assert_eq(indptr[v], i);
        for (; i < n && entry[i].row == v; i++) {
            cr_assert_eq(row_pairs_key(out, i), entry[i].key, "entry %lld of %lld", (long long)i, (long long)n);
        }
        cr_assert_eq(indptr[v + 1], i);
    }
    free(indptr);
    free(out.row);
    free(out.weight);
    free(out.type);
    free(out.source);
    free(entry);
}

Test(row_build, rows_have_the_entries_that_were_added_in_any_order)
{
    static const int64_t n_row[] = {1, 2, 255, 511, 512, 513, 1025, 40001, 131073, 300000};
    for (size_t i = 0; i < sizeof n_row / sizeof *n_row; i++) {
        for (enum kind kind = PLAIN; kind < KIND_N; kind++) {
            agrees(n_row[i], 20011 + 400000 * (i == 9), kind);
        }
    }
    agrees(700, 0, PLAIN);
}

/* Node v of the first ones has v² + 20 · v in-edges, some of them twice. */
Test(row_build, rows_of_a_data_set_ascend_without_repeats_however_long_they_are)
{
    enum { NODES = 70000, ROWS = 80 };
    static uint8_t is_there[ROWS][NODES];
    static int64_t labels[NODES];
    int64_t n = 0, at = 0;
    uint64_t state = 7;
    for (int64_t v = 0; v < ROWS; v++) {
        n += v * v + 20 * v;
    }
    int64_t *edges = memory_alloc(2 * (size_t)n, sizeof *edges);
    for (int64_t k = 0; k < 7 * n; k += 7, at++) { /* edges in an order of their own */
        int64_t v = 0, i = k % n;
        while (i >= v * v + 20 * v) {
            i -= v * v + 20 * v;
            v++;
        }
        edges[at] = (int64_t)(draw(&state) % NODES) & (i % 3 == 0 ? 0xff00 : -1);
        edges[n + at] = v;
        is_there[v][edges[at]] = edges[at] != v;
    }
    fixture_i64("labels.npy", 1, (int64_t[]){NODES}, labels);
    fixture_i64("train_idx.npy", 1, (int64_t[]){1}, (int64_t[]){0});
    fixture_i64("edges.npy", 2, (int64_t[]){2, n}, edges);
    struct job job = fixture_job();
    job.dataset.features = JOB_WORD(JOB_FEATURES_DEGREE);
    job.dataset.undirected = JOB_SWITCH_NO;
    struct dataset d = fixture_loaded(&job);
    for (int64_t v = 0; v < ROWS; v++) {
        int64_t i = d.indptr[v];
        for (uint32_t u = 0; u < NODES; u++) {
            cr_assert(!is_there[v][u] || (i < d.indptr[v + 1] && d.indices[i++] == u), "row %lld", (long long)v);
        }
        cr_assert_eq(i, d.indptr[v + 1]);
    }
    free(edges);
}
