#include "partition/generators/generator.h"
#include "partition/graph/dataset.h"
#include "partition/rows/permutation.h"
#include "protocol/base/memory.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/expect.h"
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

TestSuite(generator, .fini = fixture_end);

static struct job job_of(enum job_generator generator, int64_t nodes)
{
    struct job job;
    job_defaults(&job);
    job.dataset.generator = generator;
    job.dataset.nodes = nodes;
    return job;
}

/* Share of edges whose ends have the same label. */
static double homophily(const struct dataset *dataset)
{
    int64_t same = 0;
    for (int64_t node = 0; node < dataset->n_node; node++) {
        for (int64_t i = dataset->indptr[node]; i < dataset->indptr[node + 1]; i++) {
            same += dataset->labels.classes[node] == dataset->labels.classes[dataset->indices[i]];
        }
    }
    return (double)same / (double)dataset->n_edge;
}

Test(generator, the_karate_club_is_the_published_one)
{
    struct job job = job_of(JOB_GENERATOR_KARATE, 1);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.n_node == 34 && dataset.n_edge == 156 && dataset.facts.n_class == 2 && dataset.facts.symmetric);
    static const int64_t degrees[34] = {16, 9, 10, 6, 3, 4, 4, 4, 5, 2, 3, 1, 2, 5, 2, 2,  2,
                                        2,  2, 3,  2, 2, 2, 5, 3, 3, 2, 4, 3, 4, 4, 6, 12, 17};
    int64_t n_triangle = 0; /* each six times */
    for (uint32_t a = 0; a < 34; a++) {
        cr_assert_eq(dataset.indptr[a + 1] - dataset.indptr[a], degrees[a], "member %u", a);
        for (int64_t i = dataset.indptr[a]; i < dataset.indptr[a + 1]; i++) {
            for (int64_t j = dataset.indptr[a]; j < dataset.indptr[a + 1]; j++) {
                n_triangle += tiny_edge(&dataset, dataset.indices[i], dataset.indices[j]) >= 0;
            }
        }
    }
    cr_assert_eq(n_triangle, 6 * 45);
    cr_assert_eq(dataset.n_duplicate, 0);
    int64_t officers = 0;
    for (int i = 0; i < 34; i++) {
        officers += dataset.labels.classes[i];
    }
    cr_assert(officers == 17 && dataset.labels.classes[0] == 0 && dataset.labels.classes[33] == 1 &&
              dataset.labels.classes[9] == 1);
    cr_assert(dataset.labels.n_split[0] == 0 && dataset.labels.n_split[1] == 4);
    cr_assert(dataset.labels.split[0] == 1 && dataset.labels.split[1] == 1 && dataset.labels.split[32] == 1 &&
              dataset.labels.split[33] == 1);
    float rows[2 * 34];
    dataset_feature_rows(&dataset, (uint32_t[]){0, 33}, 2, rows);
    cr_assert(rows[0] == 1 && rows[33] == 0 && rows[34] == 0 && rows[67] == 1);
}

Test(generator, the_same_seed_gives_the_same_bits_for_any_number_of_threads)
{
    static const enum job_generator kinds[] = {JOB_GENERATOR_SBM, JOB_GENERATOR_RMAT};
    for (int k = 0; k < 2; k++) {
        struct job job = job_of(kinds[k], 3000);
        omp_set_num_threads(1);
        struct dataset one = fixture_loaded(&job);
        omp_set_num_threads(3);
        struct dataset three = fixture_loaded(&job);
        job.dataset.seed = 2;
        struct dataset other = fixture_loaded(&job);
        char prints[3][33];
        dataset_fingerprint(&one, true, prints[0]);
        dataset_fingerprint(&three, true, prints[1]);
        dataset_fingerprint(&other, true, prints[2]);
        cr_assert_str_eq(prints[0], prints[1]);
        cr_assert_str_neq(prints[0], prints[2]);
        size_t n_node = (size_t)one.n_node;
        cr_assert_arr_eq(one.features.f32, three.features.f32, n_node * 32 * sizeof(float));
        cr_assert_arr_eq(one.labels.classes, three.labels.classes, n_node * sizeof(int32_t));
        cr_assert_arr_eq(one.labels.split, three.labels.split, n_node);
    }
}

Test(generator, planted_communities_have_the_homophily_and_degree_asked_for)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 20000);
    job.dataset.homophily = 0.7;
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_float_eq(homophily(&dataset), 0.7, 0.01);
    cr_assert_float_eq((double)dataset.n_edge / 20000, 32, 0.5);
    cr_assert(dataset.facts.symmetric && dataset.facts.n_class == 8 && dataset.facts.n_feature == 32);
    cr_assert_float_eq((double)dataset.labels.n_split[DATASET_SPLIT_TRAIN] / 20000, 0.6, 0.02);
    cr_assert_float_eq((double)dataset.labels.n_split[DATASET_SPLIT_VALID] / 20000, 0.2, 0.02);
    int64_t first_half[8] = {0}, n_class[8] = {0};
    for (int64_t node = 0; node < 20000; node++) {
        n_class[dataset.labels.classes[node]]++;
        first_half[dataset.labels.classes[node]] += node < 10000;
    }
    for (int c = 0; c < 8; c++) {
        cr_assert_eq(n_class[c], 2500);
        cr_assert_float_eq((double)first_half[c], 1250, 150, "node numbers must not tell the class");
    }
}

Test(generator, features_lie_around_their_classes_centre)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 4000);
    job.dataset.noise = 0;
    struct dataset exact = fixture_loaded(&job);
    job.dataset.noise = 2;
    struct dataset noisy = fixture_loaded(&job);
    double square = 0, sum = 0, together = 0, before = 0;
    for (int64_t i = 0; i < 4000 * 32; i++) {
        double noise = (double)(noisy.features.f32[i] - exact.features.f32[i]);
        square += noise * noise;
        together += noise * before;
        before = noise;
        sum += noise;
    }
    cr_assert_float_eq(sqrt(square / (4000 * 32)), 2, 0.02);
    cr_assert_float_eq(together / (4000 * 32), 0, 0.06, "neighbouring columns are drawn apart");
    cr_assert_float_eq(sum / (4000 * 32), 0, 0.03);
    int64_t other = -1;
    for (int64_t node = 1; node < 4000; node++) {
        bool same = memcmp(exact.features.f32, exact.features.f32 + node * 32, 32 * sizeof(float)) == 0;
        cr_assert_eq(same, exact.labels.classes[node] == exact.labels.classes[0]);
        other = same ? other : node;
    }
    cr_assert_geq(other, 0);
}

Test(generator, several_labels_per_node_are_rows_that_the_edges_follow)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 5000);
    job.dataset.labels_per_node = 3;
    job.dataset.homophily = 1;
    struct dataset dataset = fixture_loaded(&job);
    cr_assert(dataset.facts.multi_label && dataset.facts.n_class == 8 && dataset.labels.classes == NULL);
    double n_both = 0;
    for (int64_t node = 0; node < 5000; node++) {
        float n_label = 0;
        n_both += (double)(dataset.labels.rows[node * 8] * dataset.labels.rows[node * 8 + 1]);
        for (int c = 0; c < 8; c++) {
            n_label += dataset.labels.rows[node * 8 + c];
        }
        cr_assert_eq(n_label, 3);
        for (int64_t i = dataset.indptr[node]; i < dataset.indptr[node + 1]; i++) {
            float shared = 0;
            for (int c = 0; c < 8; c++) {
                shared += dataset.labels.rows[node * 8 + c] *
                          dataset.labels.rows[(int64_t)dataset.indices[i] * 8 + c];
            }
            cr_assert_geq(shared, 1);
        }
    }
    cr_assert_float_eq(n_both, 5000.0 / 9, 100, "a label of one layer tells nothing of those of others");
    job.dataset.labels_per_node = 9;
    struct dataset none;
    expect_fails(dataset_load(&job, &none), STATUS_CONFIG,
                 "dataset.labels_per_node is 9, expected at most dataset.classes, 8");
}

Test(generator, rmat_has_few_nodes_of_very_high_degree)
{
    struct job job = job_of(JOB_GENERATOR_RMAT, 3000);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_eq(dataset.n_node, 4096);
    int64_t most = 0, n_lonely = 0;
    for (int64_t node = 0; node < 4096; node++) {
        int64_t degree = dataset.indptr[node + 1] - dataset.indptr[node];
        most = degree > most ? degree : most;
        n_lonely += degree == 0;
    }
    cr_assert_gt(most, 20 * dataset.n_edge / 4096);
    cr_assert_gt(n_lonely, 100);
    cr_assert_gt(dataset.n_duplicate, 0);
    int64_t n_label[8] = {0};
    for (int64_t node = 0; node < 4096; node++) {
        n_label[dataset.labels.classes[node]]++;
    }
    for (int c = 0; c < 8; c++) {
        cr_assert_gt(n_label[c], 0, "class %d has no node", c);
    }
}

/* 0.57, 0.19, 0.19 of 65 536 */
Test(generator, rmat_has_the_edges_that_halves_of_draws_choose_level_by_level)
{
    struct job job = job_of(JOB_GENERATOR_RMAT, 3000);
    job.dataset.undirected = JOB_SWITCH_NO;
    struct dataset dataset = fixture_loaded(&job);
    const struct random_key key = generator_key(&job, GENERATOR_DRAW_EDGE);
    const struct permutation order = permutation_make(generator_key(&job, GENERATOR_DRAW_PERMUTATION), 4096);
    const int64_t n_edge = (int64_t)(4096 * job.dataset.degree);
    for (int64_t edge = 0; edge < n_edge; edge += edge < 40 || edge > n_edge - 40 ? 1 : 7) {
        int64_t source = 0, destination = 0;
        for (uint32_t level = 0; level < 12; level++) {
            uint32_t half = random_u32(&key, (uint64_t)edge, level / 2) >> (level % 2 * 16) & 0xffff;
            source = 2 * source + (half >= 49807);
            destination = 2 * destination + ((half >= 37355 && half < 49807) || half >= 62259);
        }
        source = permutation_at(&order, source);
        destination = permutation_at(&order, destination);
        cr_assert(source == destination || has_edge(&dataset, (uint32_t)source, (uint32_t)destination), "edge %lld",
                  (long long)edge);
    }
}

Test(generator, a_graph_of_one_node_trains_on_it)
{
    static const enum job_generator kinds[] = {JOB_GENERATOR_SBM, JOB_GENERATOR_RMAT};
    for (int k = 0; k < 2; k++) {
        struct job job = job_of(kinds[k], 1);
        struct dataset dataset = fixture_loaded(&job);
        cr_assert(dataset.n_node == 1 && dataset.n_edge == 0 && dataset.labels.n_split[DATASET_SPLIT_TRAIN] == 1);
    }
}

Test(generator, too_many_edges_are_refused_at_once)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 4294967294);
    job.dataset.degree = 1e6;
    struct dataset dataset;
    expect_fails(dataset_load(&job, &dataset), STATUS_CONFIG, "dataset.degree: 4294967294 nodes");
    job = job_of(JOB_GENERATOR_RMAT, 4294967294);
    expect_fails(dataset_load(&job, &dataset), STATUS_CONFIG, "rounded up to 2^32, expected at most 2^31");
}

Test(generator, a_permutation_hits_every_number_once_and_goes_back)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 1);
    static const int64_t sizes[] = {1, 2, 3, 5, 64, 65, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct permutation permutation = permutation_make(generator_key(&job, GENERATOR_DRAW_PERMUTATION), sizes[i]);
        bool seen[1000] = {false};
        for (int64_t x = 0; x < sizes[i]; x++) {
            int64_t y = permutation_at(&permutation, x);
            cr_assert(y >= 0 && y < sizes[i] && !seen[y]);
            seen[y] = true;
            cr_assert_eq(permutation_inverse(&permutation, y), x);
        }
    }
}

Test(generator, numbers_side_by_side_are_permuted_as_one_by_one)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 1);
    static const int64_t sizes[] = {1, 2, 3, 17, 65, 1000, 1 << 20, 4294967295, 4294967296};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct permutation permutation = permutation_make(generator_key(&job, GENERATOR_DRAW_PERMUTATION), sizes[i]);
        uint32_t x[PERMUTATION_EACH], y[PERMUTATION_EACH];
        for (int64_t k = 0; k < PERMUTATION_EACH; k++) {
            x[k] = y[k] = (uint32_t)(k * 2654435761 % sizes[i]);
        }
        permutation_each(&permutation, y);
        for (int64_t k = 0; k < PERMUTATION_EACH; k++) {
            cr_assert_eq(y[k], permutation_at(&permutation, x[k]), "%u of %lld", x[k], (long long)sizes[i]);
        }
    }
}

Test(generator, loading_takes_little_more_memory_than_what_stays)
{
    struct job job = job_of(JOB_GENERATOR_SBM, 50000);
    int64_t before = memory_now(MEMORY_N);
    struct dataset dataset;
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
    int64_t stays = memory_now(MEMORY_N) - before;
    cr_assert_geq(stays, 4 * dataset.n_edge + 8 * 50000 + 4 * 32 * 50000);
    cr_assert_lt((double)(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before), 1.3 * (double)stays);
    dataset_release(&dataset);
    cr_assert_eq(memory_now(MEMORY_N), before);
}

Test(generator, a_graph_that_fits_nowhere_is_refused_before_it_is_drawn, .timeout = 60)
{
    static const enum job_generator kinds[] = {JOB_GENERATOR_SBM, JOB_GENERATOR_RMAT};
    for (int i = 0; i < 2; i++) {
        struct dataset dataset;
        struct job job = job_of(kinds[i], (int64_t)1 << 31);
        job.dataset.degree = 60;
        job.dataset.features = 1 << 20;
        cr_assert_eq(dataset_load(&job, &dataset), STATUS_NOMEM);
        cr_assert_not_null(strstr(status_reason(),
                                  "dataset.generator: 2147483648 nodes with 128849018880 edges and 1048576 "
                                  "features take 9008255816695808 bytes, more than "),
                           "%s", status_reason());
        expect_reason(memory_machine_name());
        job = job_of(kinds[i], 1 << 16);
        job.dataset.features = 15;
        job.workers.count = 4;
        job.memory.limit = (1 << 20) - 1;
        expect_fails(dataset_load(&job, &dataset), STATUS_NOMEM,
                     "features and labels of 65536 nodes take 4194304 bytes, shared by "
                     "workers.count = 4 more than memory.limit = 1048575");
    }
}
