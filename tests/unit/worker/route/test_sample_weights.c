/* Chances of rows by their edges: what they add up to, their bounds, and that both parts of a pair find the same. */
#include "worker/route/sample_weights.h"

#include "tests/support/graphs/tiny_graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCALE 4294967296.0

/* --- thresholds --- */

enum { N = 1000 };

static void thresholds_of(int64_t n, double p, const double *square, uint32_t *out)
{
    double weight[N] = {0};
    for (int64_t i = 0; i < n; i++) {
        weight[i] = sqrt(square[i]);
    }
    sample_thresholds(n, p, weight, out);
}

static void expect_thresholds(const char *what, int64_t n, double p, const double *square)
{
    uint32_t threshold[N];
    double sum = 0.0;
    thresholds_of(n, p, square, threshold);
    for (int64_t i = 0; i < n; i++) {
        sum += threshold[i] / SCALE;
        cr_expect_geq(threshold[i] / SCALE, 0.1 * p - 1.0 / SCALE, "%s: row %lld", what, (long long)i);
        for (int64_t k = 0; k < i; k++) {
            cr_expect(square[k] <= square[i] ? threshold[k] <= threshold[i] : threshold[k] >= threshold[i],
                      "%s: rows %lld, %lld", what, (long long)k, (long long)i);
        }
    }
    cr_expect_leq(fabs(sum - p * (double)n), 2e-9 * (double)n, "%s: %.9f rows of %lld on average, p = %g", what, sum,
                  (long long)n, p);
}

/* A few numbers that differ by much: weights as of a graph whose degrees follow a power law. */
static void squares_draw(int64_t n, double power, double *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = pow((double)(1 + (i * 7919) % n) / (double)n, -power);
    }
}

Test(sample_weights, thresholds_add_up_to_the_share_and_are_never_below_a_tenth_of_it)
{
    static const double shares[] = {0.01, 0.1, 0.5, 0.9, 0.999};
    double square[N];
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        for (int64_t n = 1; n <= N; n = n * 4 + 1) {
            squares_draw(n, 0.0, square);
            expect_thresholds("alike", n, shares[i], square);
            squares_draw(n, 1.0, square);
            expect_thresholds("degrees", n, shares[i], square);
            squares_draw(n, 6.0, square);
            expect_thresholds("few great ones", n, shares[i], square);
        }
    }
}

Test(sample_weights, rows_between_the_bounds_have_chances_as_the_roots_of_their_sums)
{
    static const double square[] = {1.0, 4.0, 9.0, 1e-6, 1e8};
    uint32_t threshold[5];
    thresholds_of(5, 0.5, square, threshold);
    cr_expect_eq(threshold[4], UINT32_MAX, "the greatest one always travels");
    cr_expect_eq(threshold[3], (uint32_t)(0.05 * SCALE), "the least one has the least chance");
    cr_expect_leq(fabs((double)threshold[1] / threshold[0] - 2.0), 1e-8);
    cr_expect_leq(fabs((double)threshold[2] / threshold[0] - 3.0), 1e-8);
}

Test(sample_weights, rows_alike_and_rows_whose_edges_count_nothing_have_the_share)
{
    static const double none[3] = {0.0, 0.0, 0.0}, alike[3] = {2.0, 2.0, 2.0}, one[1] = {3.0};
    uint32_t threshold[3];
    thresholds_of(3, 0.25, none, threshold);
    cr_expect_eq(threshold[1], 1u << 30);
    thresholds_of(3, 0.25, alike, threshold);
    cr_expect_leq(fabs(threshold[2] - 0x1p30), 1.0);
    thresholds_of(1, 0.25, one, threshold);
    cr_expect_leq(fabs(threshold[0] - 0x1p30), 1.0, "a pair with one row");
    thresholds_of(0, 0.25, none, threshold);
}

/* --- both ends of a pair --- */

enum { N_PART = 5 };

static struct part_device_setup setup_of(const struct aggregate_def *scaled)
{
    return (struct part_device_setup){.scaled = scaled};
}

/* By the definition: Σ over the dataset's edges from a node into a part. */
static double square_of(const struct dataset *dataset, const struct partition *partition,
                        const struct aggregate_def *def, uint32_t from, int32_t taker)
{
    double sum = 0.0;
    int self = dataset->loops == DATASET_LOOPS_IMPLICIT;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        for (int64_t e = dataset->indptr[v]; e < dataset->indptr[v + 1]; e++) {
            if (partition->owner[v] != taker || dataset->indices[e] != from) {
                continue;
            }
            double to_degree = 0.0, from_degree = 0.0, weight = dataset->weighted ? dataset->edge_weight[e] : 1.0;
            for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
                to_degree += dataset->weighted && !def->scale_counts ? dataset->edge_weight[i] : 1.0;
            }
            for (int64_t i = dataset->indptr[from]; i < dataset->indptr[from + 1]; i++) {
                from_degree += dataset->weighted ? dataset->edge_weight[i] : 1.0;
            }
            double a = weight * (def->scale != NULL ? def->scale(to_degree, self) : 1.0F);
            a *= def->scales_sources ? def->scale(from_degree, self) : 1.0F;
            sum += a * a;
        }
    }
    return sum;
}

static void expect_both_ends_agree(const struct tiny_graph *graph, const struct aggregate_def *def)
{
    struct dataset dataset = tiny_build(graph);
    struct job job;
    static const char text[] = "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 5\nmethod = \"random\"\n";
    struct partition partition;
    struct part part[N_PART];
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK);
    for (int32_t p = 0; p < N_PART; p++) {
        void *bytes;
        size_t n_bytes;
        cr_assert_eq(part_encode(&dataset, &partition, p, &bytes, &n_bytes), STATUS_OK);
        cr_assert_eq(part_open(bytes, n_bytes, &part[p]), STATUS_OK, "%s", status_reason());
    }
    const struct part_device_setup setup = setup_of(def->scale != NULL ? def : NULL);
    int n_pair = 0;
    for (int32_t taker = 0; taker < N_PART; taker++) {
        const struct part_pairs *pairs = &part[taker].halo.pairs[PART_DIRECTION_IN];
        for (int32_t k = 0; k < pairs->n_pair; k++) {
            const struct part *giver = &part[pairs->pair[k].part];
            int64_t n = part_pair_cols(pairs, k);
            if (k == pairs->own || n == 0) {
                continue;
            }
            double *taken = calloc((size_t)n, sizeof *taken), *given = calloc((size_t)n, sizeof *given);
            int32_t back = part_pair_find(&giver->halo.pairs[PART_DIRECTION_OUT], taker);
            cr_assert_eq(part_pair_rows(&giver->halo.pairs[PART_DIRECTION_OUT], back), n);
            sample_row_weights(&setup, &part[taker], PART_DIRECTION_IN, k, taken);
            sample_row_weights(&setup, giver, PART_DIRECTION_OUT, back, given);
            cr_expect_arr_eq(taken, given, (size_t)n * sizeof *taken, "%s: parts %d and %d", def->name, giver->part,
                             taker);
            const struct part_block block = part_block_at(&part[taker], PART_DIRECTION_IN, k);
            for (int64_t c = 0; c < n; c++) {
                double want = sqrt(square_of(&dataset, &partition, def, block.node[c], taker));
                cr_expect_leq(fabs(taken[c] - want), 1e-5 * want, "%s: %g, expected %g", def->name, taken[c], want);
            }
            free(given);
            free(taken);
            n_pair++;
        }
    }
    cr_expect_geq(n_pair, N_PART);
    for (int32_t p = 0; p < N_PART; p++) {
        memory_release(MEMORY_OTHER, (void *)(uintptr_t)part[p].bytes, (size_t)part[p].n_bytes, 1);
        part_release(&part[p]);
    }
    partition_release(&partition);
    tiny_release(&dataset);
}

Test(sample_weights, both_parts_of_a_pair_add_up_the_same_numbers_in_the_same_order)
{
    static const enum aggregate_kind kinds[] = {AGGREGATE_KIND_SUM, AGGREGATE_KIND_MEAN, AGGREGATE_KIND_GCN};
    for (int k = 0; k < 3; k++) {
        const struct aggregate_def *def = aggregate_defs[kinds[k]];
        expect_both_ends_agree(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .symmetric = true, .seed = 5}, def);
        expect_both_ends_agree(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .seed = 6}, def);
        expect_both_ends_agree(&(struct tiny_graph){.n_node = 60, .n_draw = 300, .weighted = true, .seed = 7}, def);
        expect_both_ends_agree(
            &(struct tiny_graph){.n_node = 60, .n_draw = 300, .symmetric = true, .weighted = true, .seed = 8}, def);
    }
}
