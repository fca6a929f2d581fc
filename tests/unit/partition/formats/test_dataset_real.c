/* The real graphs beside the repository: what is loaded agrees with each folder's meta.json. Skipped where they are not. */
#include "protocol/base/memory.h"
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *shared(void)
{
    const char *path = getenv("TRAINERD_SHARED");
    return path != NULL ? path : "../shared";
}

static struct job job_of(const char *name)
{
    struct job job;
    job_defaults(&job);
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s/datasets/%s", shared(), name);
    if (access(job.dataset.path, F_OK) != 0) {
        cr_skip_test("no %s", job.dataset.path);
    }
    return job;
}

TestSuite(dataset_real, .fini = fixture_end);

static int64_t meta_integer(const json_t *meta, const char *key)
{
    return json_integer_value(json_object_get(meta, key));
}

static void agrees(const char *name)
{
    struct job job = job_of(name);
    char path[JOB_TEXT_BYTES + 16];
    snprintf(path, sizeof path, "%s/meta.json", job.dataset.path);
    json_t *meta = json_load_file(path, 0, NULL);
    cr_assert_not_null(meta);
    struct dataset dataset = fixture_loaded(&job);
    cr_assert_str_eq(dataset.name, name);
    cr_assert_eq(dataset.n_node, meta_integer(meta, "nodes"));
    cr_assert_eq(dataset.n_edge, meta_integer(meta, "edges_stored"));
    cr_assert_eq(dataset.facts.n_feature, meta_integer(meta, "features"));
    cr_assert_eq(dataset.facts.n_class, meta_integer(meta, "classes"));
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_TRAIN], meta_integer(meta, "train"));
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_VALID], meta_integer(meta, "valid"));
    cr_assert_eq(dataset.labels.n_split[DATASET_SPLIT_TEST], meta_integer(meta, "test"));
    cr_assert_eq(dataset.n_duplicate, 0);
    cr_assert(dataset.facts.symmetric);
    cr_assert_eq(dataset.facts.loops, GRAPH_LOOPS_IMPLICIT);

    double sum_of_squares = 0;
    float *row = malloc((size_t)dataset.facts.n_feature * sizeof *row);
    for (uint32_t node = 0; node < dataset.n_node; node++) {
        dataset_feature_rows(&dataset, &node, 1, row);
        for (int64_t c = 0; c < dataset.facts.n_feature; c++) {
            sum_of_squares += (double)row[c] * (double)row[c];
        }
    }
    double expected = json_number_value(json_object_get(meta, "feature_sumsq"));
    cr_assert_float_eq(sum_of_squares, expected, 1e-6 * expected);
    free(row);
    json_decref(meta);
}

Test(dataset_real, cora_agrees_with_its_meta)
{
    agrees("cora");
}
Test(dataset_real, citeseer_agrees_with_its_meta)
{
    agrees("citeseer");
}
Test(dataset_real, amazon_photo_agrees_with_its_meta)
{
    agrees("amazon_photo");
}
Test(dataset_real, coauthor_cs_agrees_with_its_meta)
{
    agrees("coauthor_cs");
}
Test(dataset_real, coauthor_physics_agrees_with_its_meta)
{
    agrees("coauthor_physics");
}
Test(dataset_real, tolokers_agrees_with_its_meta)
{
    agrees("tolokers");
}
Test(dataset_real, minesweeper_agrees_with_its_meta)
{
    agrees("minesweeper");
}
Test(dataset_real, acm_psp_agrees_with_its_meta)
{
    agrees("acm_psp");
}

static void raw_equals_folder(const char *name)
{
    char raw[128];
    snprintf(raw, sizeof raw, "%s/raw/%s.npz", name, name);
    struct job job = job_of(name), raw_job = job_of(raw);
    struct dataset stored = fixture_loaded(&job), archive = fixture_loaded(&raw_job);
    size_t n_node = (size_t)stored.n_node;
    cr_assert_str_eq(stored.name, archive.name);
    cr_assert(stored.n_node == archive.n_node && stored.n_edge == archive.n_edge &&
              stored.facts.n_class == archive.facts.n_class);
    cr_assert_arr_eq(stored.indptr, archive.indptr, (n_node + 1) * sizeof *stored.indptr);
    cr_assert_arr_eq(stored.indices, archive.indices, (size_t)stored.n_edge * sizeof *stored.indices);
    cr_assert_arr_eq(stored.features.indptr, archive.features.indptr, (n_node + 1) * sizeof *stored.features.indptr);
    size_t n_value = (size_t)stored.features.indptr[n_node];
    cr_assert_arr_eq(stored.features.indices, archive.features.indices, n_value * sizeof *stored.features.indices);
    cr_assert_arr_eq(stored.features.data, archive.features.data, n_value * sizeof *stored.features.data);
    cr_assert_arr_eq(stored.labels.classes, archive.labels.classes, n_node * sizeof *stored.labels.classes);
    cr_assert_arr_eq(stored.labels.split, archive.labels.split, n_node);
}

Test(dataset_real, amazon_photo_loads_from_its_archive_as_from_its_folder)
{
    raw_equals_folder("amazon_photo");
}
Test(dataset_real, coauthor_cs_loads_from_its_archive_as_from_its_folder)
{
    raw_equals_folder("coauthor_cs");
}

Test(dataset_real, loading_takes_little_more_memory_than_what_stays)
{
    struct job job = job_of("tolokers");
    int64_t before = memory_now(MEMORY_N);
    struct dataset dataset;
    cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
    int64_t stays = memory_now(MEMORY_N) - before;
    cr_assert_lt((double)(memory_peak(MEMORY_PLACE_HOST, MEMORY_N) - before), 1.3 * (double)stays);
    dataset_release(&dataset);
    cr_assert_eq(memory_now(MEMORY_N), before);
}

/* The typed graphs: relations with their inverses, and a column for each feature of each node type. */
static void typed_agrees(const char *name, int64_t n_relation, int64_t n_edge, int64_t n_feature)
{
    struct job job = job_of(name);
    job.model.kind = JOB_KIND_RGCN;
    for (int undirected = 0; undirected < 2; undirected++) {
        job.dataset.undirected = undirected ? JOB_SWITCH_YES : JOB_SWITCH_AUTO;
        struct dataset dataset = fixture_loaded(&job);
        cr_assert_eq(dataset.facts.n_relation, n_relation << undirected);
        cr_assert_eq(dataset.n_edge, n_edge << undirected);
        cr_assert_eq(dataset.n_duplicate, 0);
        cr_assert_eq(dataset.facts.n_feature, n_feature);
    }
}

Test(dataset_real, aifb_has_relations_and_no_features)
{
    typed_agrees("aifb", 45, 29043, 8285);
}
Test(dataset_real, hgb_acm_has_features_by_type)
{
    typed_agrees("hgb_acm", 8, 547872, 3 * 1902 + 1902);
}
Test(dataset_real, hgb_imdb_has_features_by_type)
{
    typed_agrees("hgb_imdb", 6, 86642, 3489 + 2 * 3341 + 7971);
}
