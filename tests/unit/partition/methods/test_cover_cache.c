#include "partition/methods/cover_cache.h"
#include "protocol/base/log.h"
#include "tests/support/graphs/cut_graph.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_PART = 6, N_RANK = 3 };

static const int32_t in_turn[N_PART] = {0, 1, 2, 0, 1, 2}, in_runs[N_PART] = {0, 0, 1, 1, 2, 2};
static struct job job;

static void make_all(void)
{
    folder_make();
    job_defaults(&job);
    snprintf(job.partition.cache, sizeof job.partition.cache, "%s/kept", folder);
    log_init("test", -1, LOG_LEVEL_ERROR); /* the warnings are expected */
}

TestSuite(cover_cache, .init = make_all, .fini = folder_remove);

static struct cut cut_of(bool symmetric, int32_t n_hop)
{
    const struct tiny_graph graph = {
        .n_node = 60, .n_draw = 300, .symmetric = symmetric, .features = TINY_FEATURES_NONE, .seed = 5};
    struct cut cut;
    cut_open(&graph, N_PART, JOB_METHOD_RANDOM, n_hop, &cut);
    return cut;
}

/* The only file that is kept, or that of the greatest name; "": none. */
static int stale_find(char path[PATH_MAX])
{
    DIR *kept = opendir(job.partition.cache);
    int n = 0;
    path[0] = '\0';
    for (struct dirent *entry; kept != NULL && (entry = readdir(kept)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(path, PATH_MAX, "%s/%s", job.partition.cache, entry->d_name);
            n++;
        }
    }
    if (kept != NULL) {
        closedir(kept);
    }
    return n;
}

static bool same(const struct part_dedup *a, const struct part_dedup *b)
{
    size_t n_sum = (size_t)a->n_part * ((size_t)a->n_hop + 1), n_row = n_sum * a->n_rank * PART_DEDUP_N_SIDE;
    bool all = a->covers == b->covers && a->n_hop == b->n_hop && a->mirrors == b->mirrors;
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        all = all && memcmp(a->n_row[d], b->n_row[d], n_row * sizeof *a->n_row[d]) == 0 &&
              memcmp(a->sums[d], b->sums[d], n_sum * sizeof *a->sums[d]) == 0;
    }
    return all;
}

static struct part_cover_input input_of(const struct cut *cut, const int32_t *rank_of_part)
{
    uint32_t hops = (UINT32_C(1) << cut->partition.n_hop) - 1;
    return (struct part_cover_input){.dataset = &cut->dataset,
                                     .partition = &cut->partition,
                                     .rank_of_part = rank_of_part,
                                     .n_rank = N_RANK,
                                     .hops = {hops, hops}};
}

static struct part_dedup count(const struct cut *cut, const int32_t *rank_of_part, struct part_cover_rows *rows)
{
    struct part_dedup out;
    const struct part_cover_input input = input_of(cut, rank_of_part);
    cr_assert_eq(cover_cache_count(&input, &job, &out, rows), STATUS_OK);
    return out;
}

/* Counted anew, and as the cache has it: are these the same, and which of them does it have? */
static void expect_counts(const struct cut *cut, const int32_t *rank_of_part)
{
    struct part_cover_rows rows, want_rows;
    struct part_dedup want, got = count(cut, rank_of_part, &rows);
    const struct part_cover_input input = input_of(cut, rank_of_part);
    cr_assert_eq(part_dedup_cover(&input, &want, &want_rows), STATUS_OK);
    cr_expect(same(&got, &want));
    cr_expect(rows.n_halo == want_rows.n_halo && rows.n_cover == want_rows.n_cover);
    part_dedup_release(&got);
    part_dedup_release(&want);
}

static void expect_cached(bool symmetric, int32_t n_hop)
{
    char path[PATH_MAX];
    struct cut cut = cut_of(symmetric, n_hop);
    expect_counts(&cut, in_turn);
    cr_assert_eq(stale_find(path), 1);
    expect_counts(&cut, in_turn);
    expect_counts(&cut, in_runs);
    cr_expect_eq(stale_find(path), 2, "other workers have other counts");
    cut_close(&cut);
}

Test(cover_cache, counts_that_are_kept_are_those_that_are_counted)
{
    expect_cached(true, 0);
}

Test(cover_cache, of_a_directed_graph_both_directions_are_kept)
{
    expect_cached(false, 0);
}

Test(cover_cache, covers_of_every_hop_are_kept)
{
    expect_cached(true, 2);
}

/* Which hops' covers are counted depends on the model: another one's counts are not taken. */
Test(cover_cache, other_hops_have_other_counts)
{
    char path[PATH_MAX];
    struct cut cut = cut_of(true, 2);
    expect_counts(&cut, in_turn);
    struct part_cover_input input = input_of(&cut, in_turn);
    input.hops[PART_DIRECTION_OUT] = 1;
    struct part_cover_rows rows;
    struct part_dedup got, want;
    cr_assert_eq(cover_cache_count(&input, &job, &got, &rows), STATUS_OK);
    cr_assert_eq(part_dedup_cover(&input, &want, &rows), STATUS_OK);
    cr_expect(same(&got, &want));
    cr_expect_eq(stale_find(path), 2);
    part_dedup_release(&got);
    part_dedup_release(&want);
    cut_close(&cut);
}

/* A graph that is large enough for several threads. */
Test(cover_cache, counts_are_the_same_for_any_number_of_threads)
{
    const struct tiny_graph graph = {.n_node = 3000, .n_draw = 90000, .features = TINY_FEATURES_NONE, .seed = 5};
    struct part_dedup counts[2];
    struct part_cover_rows rows[2];
    struct cut cut;
    cut_open(&graph, N_PART, JOB_METHOD_RANDOM, 2, &cut);
    const struct part_cover_input input = input_of(&cut, in_turn);
    for (int k = 0; k < 2; k++) {
        omp_set_num_threads(1 + 3 * k);
        cr_assert_eq(part_dedup_cover(&input, &counts[k], &rows[k]), STATUS_OK);
    }
    cr_expect(same(&counts[0], &counts[1]));
    cr_expect(rows[0].n_halo == rows[1].n_halo && rows[0].n_cover == rows[1].n_cover);
    part_dedup_release(&counts[0]);
    part_dedup_release(&counts[1]);
    cut_close(&cut);
}

/* Bytes of the file's counts are turned over, checksum left as it is: what is read must not be believed. */
Test(cover_cache, a_broken_file_is_passed_over_and_written_anew)
{
    char path[PATH_MAX];
    struct cut cut = cut_of(false, 0);
    expect_counts(&cut, in_turn);
    cr_assert_eq(stale_find(path), 1);
    FILE *file = fopen(path, "r");
    fseek(file, 0, SEEK_END);
    long n_bytes = ftell(file);
    fclose(file);
    for (long at = 0; at < n_bytes; at += 3) {
        file = fopen(path, "r+");
        fseek(file, at, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
        expect_counts(&cut, in_turn);
    }
    cr_assert_eq(truncate(path, n_bytes - 1), 0);
    expect_counts(&cut, in_turn);
    cr_assert_eq(truncate(path, 0), 0);
    expect_counts(&cut, in_turn);
    cut_close(&cut);
}

/* All bytes of a file; returns how many. */
static size_t bytes_of(const char *path, char *out, size_t n_most)
{
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    size_t n = fread(out, 1, n_most, file);
    fclose(file);
    return n;
}

/* Another job's counts under this one's name and key, with a checksum that fits, are taken: so the file is what is read. */
Test(cover_cache, what_was_counted_once_is_read_the_next_time)
{
    char turns_path[PATH_MAX], runs_path[PATH_MAX], bytes[65536];
    struct cut cut = cut_of(true, 0);
    struct part_cover_rows rows;
    struct part_dedup turns = count(&cut, in_turn, &rows);
    stale_find(turns_path);
    cr_assert_eq(rename(turns_path, folder_path("aside")), 0);
    struct part_dedup runs = count(&cut, in_runs, &rows);
    stale_find(runs_path);
    cr_assert_not(same(&turns, &runs));
    size_t n_bytes = bytes_of(runs_path, bytes, sizeof bytes);
    char *key = memmem(bytes, n_bytes, strrchr(runs_path, '/') + 1, 32);
    cr_assert_not_null(key);
    memcpy(key, strrchr(turns_path, '/') + 1, 32);
    FILE *file = fopen(turns_path, "w");
    cr_assert_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    struct part_dedup again = count(&cut, in_turn, &rows);
    cr_expect(same(&again, &runs), "the file was not read");
    part_dedup_release(&turns);
    part_dedup_release(&runs);
    part_dedup_release(&again);
    cut_close(&cut);
}

Test(cover_cache, off_keeps_nothing)
{
    char path[PATH_MAX];
    struct cut cut = cut_of(true, 0);
    snprintf(job.partition.cache, sizeof job.partition.cache, "off");
    expect_counts(&cut, in_turn);
    snprintf(job.partition.cache, sizeof job.partition.cache, "%s/kept", folder);
    cr_expect_eq(stale_find(path), 0);
    cut_close(&cut);
}
