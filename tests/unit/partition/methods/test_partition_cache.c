#include "partition/methods/partition_cache.h"
#include "protocol/base/log.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dataset dataset;
static struct job job;

static void make_all(void)
{
    folder_make();
    struct tiny_graph tiny = {.n_node = 50, .n_draw = 200, .features = TINY_FEATURES_NONE};
    dataset = tiny_build(&tiny);
    job_defaults(&job);
    job.partition.parts = 4;
    snprintf(job.partition.cache, sizeof job.partition.cache, "%s/kept/here", folder);
    log_init("test", -1, LOG_LEVEL_ERROR); /* the warnings are expected */
}

static void remove_all(void)
{
    tiny_release(&dataset);
    folder_remove();
}

TestSuite(partition_cache, .init = make_all, .fini = remove_all);

static struct partition build(void)
{
    struct partition partition;
    cr_assert_eq(partition_build(&dataset, &job, &partition), STATUS_OK, "%s", status_reason());
    return partition;
}

static bool same(const struct partition *a, const struct partition *b)
{
    return memcmp(a->owner, b->owner, (size_t)a->n_node * sizeof *a->owner) == 0 &&
           memcmp(a->order, b->order, (size_t)a->n_node * sizeof *a->order) == 0 &&
           memcmp(a->part_begin, b->part_begin, ((size_t)a->n_part + 1) * sizeof *a->part_begin) == 0;
}

static int n_kept(void)
{
    DIR *kept = opendir(job.partition.cache);
    int n = 0;
    for (struct dirent *entry; kept != NULL && (entry = readdir(kept)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    if (kept != NULL) {
        closedir(kept);
    }
    return n;
}

/* Put another valid partition in the place of this job's: all nodes in reverse order. */
static void plant_reversed(void)
{
    struct partition_cache cache;
    struct partition partition = build();
    for (int64_t a = 0, b = partition.n_node - 1; a < b; a++, b--) {
        uint32_t swap = partition.order[a];
        partition.order[a] = partition.order[b];
        partition.order[b] = swap;
    }
    partition_cache_find(&dataset, &job, (int32_t)job.partition.parts, NULL, &cache);
    partition_cache_save(&cache, &partition);
    partition_release(&partition);
}

Test(partition_cache, what_was_cut_once_is_read_the_next_time)
{
    struct partition first = build();
    cr_assert_eq(n_kept(), 1);
    struct partition second = build();
    cr_assert(same(&first, &second));
    plant_reversed();
    struct partition third = build();
    cr_assert_not(same(&first, &third), "the file was not read");
    cr_assert_eq(third.order[0], first.order[first.n_node - 1]);
    cr_assert_eq(third.owner[third.order[0]], 0);
    partition_release(&first);
    partition_release(&second);
    partition_release(&third);
}

Test(partition_cache, a_broken_file_is_passed_over_and_written_anew)
{
    struct partition_cache cache;
    struct partition first = build();
    partition_cache_find(&dataset, &job, 4, NULL, &cache);
    const long at[] = {0, 8, 12, 16, 30, 60, 64, 70, 100, 110, 200, -1};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        plant_reversed();
        FILE *file = fopen(cache.path, "r+");
        cr_assert_not_null(file);
        fseek(file, at[i], at[i] < 0 ? SEEK_END : SEEK_SET);
        int byte = fgetc(file);
        fseek(file, at[i], at[i] < 0 ? SEEK_END : SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
        struct partition again = build();
        cr_assert(same(&first, &again), "byte %ld", at[i]);
        struct partition read = build();
        cr_assert(same(&first, &read));
        partition_release(&again);
        partition_release(&read);
    }
    cr_assert_eq(truncate(cache.path, 40), 0);
    struct partition again = build();
    cr_assert(same(&first, &again));
    partition_release(&again);
    partition_release(&first);
}

Test(partition_cache, a_partition_that_is_none_is_passed_over_though_its_checksum_fits)
{
    struct partition_cache cache;
    struct partition good = build(), bad = build(), read = build();
    partition_cache_find(&dataset, &job, 4, NULL, &cache);
    bad.order[3] = bad.order[4];
    partition_cache_save(&cache, &bad);
    cr_assert_not(partition_cache_load(&cache, &read));
    bad.order[3] = 50;
    partition_cache_save(&cache, &bad);
    cr_assert_not(partition_cache_load(&cache, &read));
    memcpy(bad.order, good.order, 50 * sizeof *bad.order);
    bad.part_begin[1] = bad.part_begin[2];
    partition_cache_save(&cache, &bad);
    cr_assert_not(partition_cache_load(&cache, &read));
    bad.part_begin[1] = INT64_MAX;
    partition_cache_save(&cache, &bad);
    cr_assert_not(partition_cache_load(&cache, &read));
    partition_cache_save(&cache, &good);
    cr_assert(partition_cache_load(&cache, &read));
    partition_release(&good);
    partition_release(&bad);
    partition_release(&read);
}

Test(partition_cache, all_that_changes_the_partition_changes_the_key)
{
    struct partition_cache base_key, other;
    partition_cache_find(&dataset, &job, 4, NULL, &base_key);
    partition_cache_find(&dataset, &job, 5, NULL, &other);
    cr_assert_str_neq(base_key.key, other.key);
    struct job changed[4] = {job, job, job, job};
    changed[0].partition.method = JOB_METHOD_BLOCK;
    changed[1].partition.objective = JOB_OBJECTIVE_VOLUME;
    changed[2].partition.balance = JOB_BALANCE_NODES;
    changed[3].partition.seed = 7;
    for (int i = 0; i < 4; i++) {
        partition_cache_find(&dataset, &changed[i], 4, NULL, &other);
        cr_assert_str_neq(base_key.key, other.key, "change %d", i);
    }
    int32_t owner[50] = {0};
    struct partition_cache zeros;
    partition_cache_find(&dataset, &job, 4, owner, &zeros);
    owner[49] = 1;
    partition_cache_find(&dataset, &job, 4, owner, &other);
    cr_assert_str_neq(zeros.key, other.key);
    dataset.indices[0] = (dataset.indices[0] + 1) % 50;
    partition_cache_find(&dataset, &job, 4, NULL, &other);
    cr_assert_str_neq(base_key.key, other.key);
}

Test(partition_cache, auto_is_the_users_cache_folder_for_graphs_worth_it)
{
    struct partition_cache cache;
    snprintf(job.partition.cache, sizeof job.partition.cache, "auto");
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    setenv("HOME", "/home/x", 1);
    partition_cache_find(&dataset, &job, 4, NULL, &cache);
    cr_assert_str_eq(cache.folder, "");

    uint32_t *edges = calloc(PARTITION_CACHE_EDGES_LEAST, sizeof *edges);
    int64_t indptr[2] = {0, PARTITION_CACHE_EDGES_LEAST};
    struct dataset large = {.n_node = 1, .n_edge = PARTITION_CACHE_EDGES_LEAST, .indptr = indptr, .indices = edges};
    partition_cache_find(&large, &job, 4, NULL, &cache);
    cr_assert_str_eq(cache.folder, "/x/cache/trainerd");
    unsetenv("XDG_CACHE_HOME");
    partition_cache_find(&large, &job, 4, NULL, &cache);
    cr_assert_str_eq(cache.folder, "/home/x/.cache/trainerd");
    unsetenv("HOME");
    partition_cache_find(&large, &job, 4, NULL, &cache);
    cr_assert_str_eq(cache.folder, "");
    free(edges);
}

Test(partition_cache, off_keeps_nothing_and_a_folder_that_takes_nothing_stops_no_job)
{
    snprintf(job.partition.cache, sizeof job.partition.cache, "off");
    struct partition without = build();
    snprintf(job.partition.cache, sizeof job.partition.cache, "/dev/null/kept");
    struct partition nowhere = build();
    cr_assert(same(&without, &nowhere));
    cr_assert_neq(access("off", F_OK), 0);
    partition_release(&without);
    partition_release(&nowhere);
}

Test(partition_cache, a_partition_file_is_read_even_where_its_order_is_kept)
{
    char path[96];
    snprintf(path, sizeof path, "%s/parts", folder);
    job.partition.method = JOB_METHOD_FILE;
    job.partition.parts = 2;
    snprintf(job.partition.file, sizeof job.partition.file, "%s", path);
    for (int turn = 0; turn < 3; turn++) {
        FILE *file = fopen(path, "w");
        for (int v = 0; v < 50; v++) {
            fprintf(file, "%d\n", (v + turn / 2) % 2);
        }
        fclose(file);
        struct partition partition = build();
        for (int v = 0; v < 50; v++) {
            cr_assert_eq(partition.owner[v], (v + turn / 2) % 2);
        }
        cr_assert_eq(n_kept(), 1 + turn / 2);
        partition_release(&partition);
    }
}
