#include "protocol/base/version.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/coordinator/contents.h"
#include "trainerd/coordinator/folder/checkpoint.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define N_WEIGHT 21
#define N_KEPT 5

TestSuite(checkpoint, .init = folder_make, .fini = folder_remove);

static const char *path_of(int64_t n_epoch)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/epoch-%lld.ckpt", folder, (long long)n_epoch);
    return path;
}

static struct job job_of(const char *text)
{
    struct job job;
    expect_done(job_load_text(text, strlen(text), "job", NULL, 0, &job));
    return job;
}

#define KARATE "[dataset]\ngenerator = \"karate\"\n"

#define JOB_OF_TEST                                                                                                  \
    "[dataset]\ngenerator = \"karate\"\n[model]\nhidden = 16\n[partition]\nparts = 2\n[workers]\ncount = "           \
    "2\n[train]\nepochs "                                                                                            \
    "= 50\n"

static struct checkpoint_state state_of(int64_t n_epoch)
{
    return (struct checkpoint_state){.n_epoch = n_epoch,
                                     .best_epoch = n_epoch - 1,
                                     .n_stale = 3,
                                     .best = {0.5, 0.6, {{0.9, 0.8, 0.7}, {0.3, 0.2, 0.1}}},
                                     .last = {0.4, NAN, {{0.9, NAN, NAN}}},
                                     .n_metrics_bytes = 1234,
                                     .n_guard = 3,
                                     .plateau_lr = 0.125,
                                     .plateau_best = -2.5,
                                     .plateau_n_bad = 2,
                                     .patience_best = 0.8,
                                     .n_back_off = 2,
                                     .guard_epoch = n_epoch - 2,
                                     .guard_error = 0.75,
                                     .dataset = "fingerprint"};
}

/* Weights, one moment and the best weights: an optimiser without a second moment. */
static void save(int64_t n_epoch)
{
    static float weights[N_WEIGHT], moment[N_WEIGHT], best[N_WEIGHT], kept[N_KEPT];
    for (int i = 0; i < N_WEIGHT; i++) {
        weights[i] = (float)(n_epoch * 100 + i);
        moment[i] = -weights[i];
        best[i] = 0.5f * weights[i];
    }
    for (int i = 0; i < N_KEPT; i++) {
        kept[i] = (float)(n_epoch + i);
    }
    struct job job = job_of(JOB_OF_TEST);
    char *text = job_print(&job);
    struct checkpoint checkpoint = {
        .job = text, .n_job = strlen(text), .n_float = {N_WEIGHT, N_WEIGHT, 0, N_WEIGHT, N_KEPT}};
    checkpoint.state = state_of(n_epoch);
    checkpoint.array[CHECKPOINT_ARRAY_WEIGHTS] = weights;
    checkpoint.array[CHECKPOINT_ARRAY_MOMENT_1] = moment;
    checkpoint.array[CHECKPOINT_ARRAY_BEST] = best;
    checkpoint.array[CHECKPOINT_ARRAY_BUFFERS] = kept;
    checkpoint.libraries = (struct library_ranges){.of = {{120103, 120103}, {120602, 120603}}};
    struct dir dir;
    cr_assert_eq(dir_open(folder, DIR_LAST_NO_LINK, &dir), STATUS_OK);
    expect_done(checkpoint_save(&dir, &checkpoint, -1));
    dir_close(&dir);
    free(text);
}

/* The file of checkpoint 7, in 64-byte aligned memory of its own size. */
static char *bytes_of_checkpoint(size_t *n_out)
{
    save(7);
    FILE *file = fopen(path_of(7), "rb");
    cr_assert_not_null(file);
    struct stat stat_of;
    cr_assert_eq(fstat(fileno(file), &stat_of), 0);
    *n_out = (size_t)stat_of.st_size;
    char *bytes = malloc(*n_out);
    cr_assert_eq(fread(bytes, 1, *n_out, file), *n_out);
    fclose(file);
    return bytes;
}

static void put_file(int64_t n_epoch, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path_of(n_epoch), "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

Test(checkpoint, what_was_saved_is_loaded_bit_for_bit)
{
    save(12);
    struct checkpoint read;
    expect_done(checkpoint_load(folder, INT64_MAX, &read));
    const struct checkpoint_state state = state_of(12);
    cr_assert_eq(memcmp(&read.state, &state, sizeof state), 0);
    cr_assert_eq(read.n_float[CHECKPOINT_ARRAY_WEIGHTS], N_WEIGHT);
    for (int i = 0; i < N_WEIGHT; i++) {
        cr_assert_eq(read.array[CHECKPOINT_ARRAY_WEIGHTS][i], 1200.0f + (float)i);
        cr_assert_eq(read.array[CHECKPOINT_ARRAY_MOMENT_1][i], -1200.0f - (float)i);
        cr_assert_eq(read.array[CHECKPOINT_ARRAY_BEST][i], 600.0f + 0.5f * (float)i);
    }
    cr_assert_null(read.array[CHECKPOINT_ARRAY_MOMENT_2]);
    cr_assert_eq(read.libraries.of[LIBRARY_BLAS].least, 120103);
    cr_assert_eq(read.libraries.of[LIBRARY_BLAS].most, 120103);
    cr_assert_eq(read.libraries.of[LIBRARY_SPARSE].least, 120602);
    cr_assert_eq(read.libraries.of[LIBRARY_SPARSE].most, 120603);
    cr_assert_eq(read.n_float[CHECKPOINT_ARRAY_BUFFERS], N_KEPT);
    for (int i = 0; i < N_KEPT; i++) {
        cr_assert_eq(read.array[CHECKPOINT_ARRAY_BUFFERS][i], 12.0f + (float)i);
    }
    cr_assert_str_eq(read.warning, "");
    struct job job = job_of(JOB_OF_TEST);
    expect_done(checkpoint_match(&read, &job));
    checkpoint_release(&read);
}

static bool differs(const struct checkpoint *checkpoint, uint32_t least, uint32_t most, char *said, size_t n)
{
    return checkpoint_library_differs(checkpoint, LIBRARY_BLAS, (struct library_range){least, most}, said, n);
}

Test(checkpoint, another_cublas_or_none_is_told_where_both_are_known)
{
    struct checkpoint read = {.libraries = {{{120103, 120103}}}, .path = "x.ckpt"};
    char said[PATH_MAX + 256] = "";
    cr_assert(differs(&read, 1, 1, said, sizeof said));
    cr_assert_str_eq(
        said,
        "checkpoint 'x.ckpt' was computed with cuBLAS 12.1.3, it is none here: results have other bits than without "
        "a stop");
    cr_assert(differs(&read, 130002, 130002, said, sizeof said));
    cr_assert_not_null(strstr(said, "it is 13.0.2 here"), "%s", said);
    cr_assert_not(differs(&read, 120103, 120103, said, sizeof said));
    cr_assert_not(differs(&read, 0, 0, said, sizeof said));
    read.libraries.of[LIBRARY_BLAS] = (struct library_range){0, 0};
    cr_assert_not(differs(&read, 120103, 120103, said, sizeof said));
}

Test(checkpoint, workers_that_differ_in_a_library_differ_from_those_that_do_not)
{
    struct checkpoint read = {.libraries = {{{1, 120103}}}, .path = "x.ckpt"};
    char said[PATH_MAX + 256] = "";
    cr_assert(differs(&read, 120103, 120103, said, sizeof said));
    cr_assert_not_null(strstr(said, "with cuBLAS none to 12.1.3, it is 12.1.3 here"), "%s", said);
    cr_assert_not(differs(&read, 1, 120103, said, sizeof said));
    read.libraries.of[LIBRARY_BLAS] = (struct library_range){120103, 120103};
    cr_assert(differs(&read, 1, 120103, said, sizeof said));
}

Test(checkpoint, the_last_two_are_kept_and_half_written_ones_removed)
{
    char aside[160], other[160];
    snprintf(aside, sizeof aside, "%s.01234abc.tmp", path_of(3));
    snprintf(other, sizeof other, "%s/notes.01234abc.tmp", folder);
    folder_write("notes.01234abc.tmp", "mine");
    put_file(3, "", 0);
    cr_assert_eq(rename(path_of(3), aside), 0);
    save(9);
    save(10);
    save(100);
    cr_assert_neq(access(path_of(9), F_OK), 0);
    cr_assert_eq(access(path_of(10), F_OK), 0);
    cr_assert_eq(access(path_of(100), F_OK), 0);
    cr_assert_neq(access(aside, F_OK), 0);
    cr_assert_eq(access(other, F_OK), 0, "it is no checkpoint");
    /* Going on from 10 by another way gives 100 up. */
    save(11);
    cr_assert_neq(access(path_of(100), F_OK), 0);
    cr_assert_eq(access(path_of(10), F_OK), 0);
}

Test(checkpoint, one_more_is_kept_when_asked_for)
{
    for (int64_t n_epoch = 4; n_epoch < 10; n_epoch++) {
        put_file(n_epoch, "", 0);
    }
    struct dir dir;
    cr_assert_eq(dir_open(folder, DIR_LAST_NO_LINK, &dir), STATUS_OK);
    checkpoint_prune(&dir, 8, 5);
    dir_close(&dir);
    for (int64_t n_epoch = 4; n_epoch < 10; n_epoch++) {
        bool is_kept = n_epoch == 5 || n_epoch == 7 || n_epoch == 8;
        cr_assert_eq(access(path_of(n_epoch), F_OK) == 0, is_kept, "%d", (int)n_epoch);
    }
}

Test(checkpoint, the_newest_of_at_most_so_many_epochs_is_found)
{
    save(7);
    save(8);
    struct checkpoint read;
    expect_done(checkpoint_load(folder, 7, &read));
    cr_assert_eq(read.state.n_epoch, 7);
    checkpoint_release(&read);
    expect_fails(checkpoint_load(folder, 6, &read), STATUS_NO_INPUT, "holds no checkpoint of at most 6 epochs");
}

Test(checkpoint, a_broken_newest_one_is_passed_over_with_a_warning)
{
    save(5);
    save(6);
    cr_assert_eq(truncate(path_of(6), 200), 0);
    struct checkpoint read;
    cr_assert_eq(checkpoint_load(folder, INT64_MAX, &read), STATUS_OK);
    cr_assert_eq(read.state.n_epoch, 5);
    cr_assert(strstr(read.warning, "epoch-6.ckpt' is damaged"), "%s", read.warning);
    checkpoint_release(&read);
}

Test(checkpoint, no_checkpoint_and_only_broken_ones_are_told_apart)
{
    struct checkpoint read;
    expect_fails(checkpoint_load(folder, INT64_MAX, &read), STATUS_NO_INPUT, folder);
    cr_assert_eq(checkpoint_load("/tmp/no/such/folder", INT64_MAX, &read), STATUS_NO_INPUT);
    put_file(4, "hello", 5);
    expect_fails(checkpoint_load(folder, INT64_MAX, &read), STATUS_DATA, "epoch-4.ckpt");
    cr_assert_eq(mkdir(path_of(8), 0777), 0);
    expect_fails(checkpoint_load(folder, INT64_MAX, &read), STATUS_DATA, "epoch-8.ckpt': not a plain file");
}

Test(checkpoint, a_pipe_in_its_place_is_passed_over, .timeout = 60)
{
    save(10);
    cr_assert_eq(mkfifo(path_of(20), 0600), 0);
    struct checkpoint checkpoint;
    expect_done(checkpoint_load(folder, INT64_MAX, &checkpoint));
    cr_assert_eq(checkpoint.state.n_epoch, 10);
    cr_assert_not_null(strstr(checkpoint.warning, "epoch-20.ckpt': not a plain file"), "%s", checkpoint.warning);
    checkpoint_release(&checkpoint);
}

Test(checkpoint, a_file_cut_anywhere_is_refused)
{
    size_t n;
    char *bytes = bytes_of_checkpoint(&n);
    struct checkpoint read;
    cr_assert_eq(checkpoint_decode(bytes, n, "it", &read), STATUS_OK);
    /* Every length: all section borders, and one byte to each side of them. */
    for (size_t cut = 0; cut < n; cut++) {
        char *copy = malloc(cut > 0 ? cut : 1);
        memcpy(copy, bytes, cut);
        cr_assert_eq(checkpoint_decode(copy, cut, "it", &read), STATUS_DATA, "%zu bytes", cut);
        free(copy);
    }
    char *longer = calloc(n + 64, 1);
    memcpy(longer, bytes, n);
    cr_assert_eq(checkpoint_decode(longer, n + 64, "it", &read), STATUS_DATA);
    free(longer);
    free(bytes);
}

Test(checkpoint, every_single_flipped_bit_is_noticed)
{
    size_t n;
    char *bytes = bytes_of_checkpoint(&n);
    struct checkpoint read;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        cr_assert_eq(checkpoint_decode(bytes, n, "it", &read), STATUS_DATA, "bit %zu", bit);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    cr_assert_eq(checkpoint_decode(bytes, n, "it", &read), STATUS_OK);
    free(bytes);
}

/* A file of version 5 has the same sections, and eight metrics at most: of[8] of best and of last is missing. */
static char *bytes_of_version_5(size_t *n_io)
{
    enum {
        HEAD = 192,
        BEST_AT = 24,
        SCORE = 16 + 8 * 24,
        EXTRA = 24,
        STATE = 672,
        STORED = 704,
        SIZE_AT = 16,
        HASH_AT = 184
    };
    struct checkpoint_state now;
    char *bytes = bytes_of_checkpoint(n_io), *from = memcpy(&now, bytes + HEAD, sizeof now);
    const size_t stored = (sizeof now + 63) / 64 * 64;
    char *state = bytes + HEAD;
    memcpy(state + BEST_AT + SCORE, from + BEST_AT + SCORE + EXTRA, SCORE);
    memcpy(state + BEST_AT + 2 * SCORE, from + BEST_AT + 2 * (SCORE + EXTRA), STATE - BEST_AT - 2 * SCORE);
    memset(state + STATE, 0, STORED - STATE);
    memmove(state + STORED, state + stored, *n_io - HEAD - stored);
    *n_io -= stored - STORED;
    uint64_t size = STATE, hash = XXH3_64bits(state, STATE);
    bytes[8] = 5;
    memcpy(bytes + SIZE_AT, &size, sizeof size);
    memcpy(bytes + SIZE_AT + 8, &hash, sizeof hash);
    hash = XXH3_64bits(bytes, HASH_AT);
    memcpy(bytes + HASH_AT, &hash, sizeof hash);
    return bytes;
}

Test(checkpoint, of_a_version_with_fewer_metrics_is_read)
{
    size_t n, n_now;
    char *bytes = bytes_of_version_5(&n), *now = bytes_of_checkpoint(&n_now);
    struct checkpoint read, want;
    struct job job = job_of(JOB_OF_TEST);
    expect_done(checkpoint_decode(bytes, n, "the/file", &read));
    expect_done(checkpoint_decode(now, n_now, "the/file", &want));
    cr_assert(isnan(read.state.best.of[8].valid) && isnan(read.state.last.of[8].test));
    for (int s = 0; s < 2; s++) { /* the ninth metric is not compared */
        struct checkpoint_score *score = s == 0 ? &want.state.best : &want.state.last;
        score->of[8] = (s == 0 ? &read.state.best : &read.state.last)->of[8];
    }
    cr_assert_arr_eq(&read.state, &want.state, sizeof want.state);
    cr_assert(read.n_float[CHECKPOINT_ARRAY_WEIGHTS] == N_WEIGHT && read.n_float[CHECKPOINT_ARRAY_BUFFERS] == N_KEPT);
    expect_done(checkpoint_match(&read, &job));
    free(bytes);
    free(now);
}

Test(checkpoint, contents_that_differ_are_named_by_their_file)
{
    static const char *const words[] = {"'data/labels.npy' has other labels than checkpoint 'x.ckpt' was made with",
                                        "'the/folder' has other features",
                                        "'the/folder' has other training nodes",
                                        "'the/folder' has other validation nodes",
                                        "'the/folder' has other test nodes",
                                        "'the/folder' has other class weights",
                                        "'first.safetensors' has other weights"};
    static struct dataset dataset = {.file = {[DATASET_CONTENT_LABELS] = "data/labels.npy"}};
    struct job job = job_of("[dataset]\npath = \"the/folder\"\n[model]\ninit = \"first.safetensors\"\n");
    for (int i = 0; i < CHECKPOINT_N_CONTENT; i++) {
        struct checkpoint then = {.state = {.content = {1, 2, 3, 4, 5, 6, 7}}, .path = "x.ckpt"};
        uint64_t now[CHECKPOINT_N_CONTENT] = {1, 2, 3, 4, 5, 6, 7};
        cr_assert_eq(contents_match(&then, &job, &dataset, now), STATUS_OK);
        now[i] = 9;
        cr_assert_eq(contents_match(&then, &job, &dataset, now), STATUS_DATA);
        cr_assert(strstr(status_reason(), words[i]) != NULL, "'%s' is not in: %s", words[i], status_reason());
        now[i] = 0;
        bool needs = i != CHECKPOINT_CONTENT_INIT;
        cr_assert_eq(contents_match(&then, &job, &dataset, now) != STATUS_OK, needs,
                     "%d: a resume reads no first weights", i);
    }
}

Test(checkpoint, damage_is_named_by_file_and_section)
{
    size_t n;
    char *bytes = bytes_of_checkpoint(&n);
    struct checkpoint read;
    bytes[n - 64] ^= 1;
    cr_assert_eq(checkpoint_decode(bytes, n, "the/file", &read), STATUS_DATA);
    cr_assert(strstr(status_reason(), "'the/file'") && strstr(status_reason(), "stale buffers") &&
                  strstr(status_reason(), "checksum"),
              "%s", status_reason());
    bytes[8] = 9;
    expect_fails(checkpoint_decode(bytes, n, "the/file", &read), STATUS_DATA,
                 "version 9, expected 6, that of trainerd " TRAINERD_VERSION
                 ": resume it with the trainerd that wrote it");
    free(bytes);
}

/* The state of checkpoint 7 with one number changed and its checksums made anew. */
static void expect_damaged(size_t at, uint64_t bits, const char *reason)
{
    size_t n;
    char *bytes = bytes_of_checkpoint(&n);
    struct checkpoint read;
    memcpy(bytes + 192 + at, &bits, sizeof bits);
    uint64_t hash = XXH3_64bits(bytes + 192, sizeof(struct checkpoint_state));
    memcpy(bytes + 24, &hash, sizeof hash);
    hash = XXH3_64bits(bytes, 184);
    memcpy(bytes + 184, &hash, sizeof hash);
    cr_assert_eq(checkpoint_decode(bytes, n, "it", &read), STATUS_DATA, "%s", reason);
    expect_reason(reason);
    free(bytes);
}

#define EXPECT_DAMAGED(field, bits, is)                                                                              \
    expect_damaged(offsetof(struct checkpoint_state, field), bits, "state: " #field " is " is)

Test(checkpoint, a_number_that_no_job_has_is_named_by_its_field)
{
    const uint64_t infinite = 0x7ff0000000000000u, undefined = 0x7ff8000000000000u;
    EXPECT_DAMAGED(plateau_lr, infinite, "inf, expected a finite number from 0 on");
    EXPECT_DAMAGED(plateau_lr, undefined, "nan, expected a finite number");
    EXPECT_DAMAGED(train_s, infinite, "inf, expected a finite number");
    EXPECT_DAMAGED(n_epoch, UINT64_MAX, "-1, expected 0 to 4294967295");
    EXPECT_DAMAGED(best_epoch, 7, "7, expected -1 to 6");
    EXPECT_DAMAGED(n_stale, 8, "8, expected 0 to 7");
    EXPECT_DAMAGED(n_sent, INT64_MAX, "9223372036854775807, expected 0 to 4611686018427387903");
    EXPECT_DAMAGED(n_rollback, 1001, "1001, expected 0 to 1000");
    EXPECT_DAMAGED(n_back_off, 4, "4, expected 0 to 3");
    EXPECT_DAMAGED(plateau_n_bad, 8, "8, expected 0 to 7");
}

Test(checkpoint, a_rate_that_is_not_the_jobs_times_at_most_1_is_named_by_its_fields)
{
    struct job job = job_of(
        KARATE "[partition]\nparts = 2\n[train]\nepochs = 50\nlr = 0.25\nlr_schedule = \"reduce_on_plateau\"\n");
    char *text = job_print(&job);
    struct checkpoint checkpoint = {
        .job = text, .n_job = strlen(text), .state = {.n_epoch = 20, .plateau_lr = 0.25}, .path = "it"};
    expect_done(checkpoint_match(&checkpoint, &job));
    checkpoint.state.plateau_lr = 1e308; /* the factor is infinite */
    expect_fails(checkpoint_match(&checkpoint, &job), STATUS_DATA,
                 "checkpoint 'it' is damaged: state: plateau_lr is 1e+308");
    checkpoint.state.plateau_lr = 1e-300;
    checkpoint.state.n_rollback = 1000;
    expect_fails(checkpoint_match(&checkpoint, &job), STATUS_DATA, "n_rollback 1000");
    free(text);
}

static void expect_match(const char *text, enum status wanted, const char *word)
{
    save(20);
    struct checkpoint read;
    cr_assert_eq(checkpoint_load(folder, INT64_MAX, &read), STATUS_OK);
    struct job job = job_of(text);
    cr_assert_eq(checkpoint_match(&read, &job), wanted, "%s: %s", text, status_reason());
    cr_assert(wanted == STATUS_OK || strstr(status_reason(), word), "%s in: %s", word, status_reason());
    checkpoint_release(&read);
}

Test(checkpoint, another_job_is_refused_with_the_key_and_both_values)
{
    expect_match(KARATE "[model]\nhidden = 32\n[workers]\ncount = 2\n", STATUS_CONFIG, "model.hidden is 32");
    expect_match(KARATE "[model]\nhidden = 32\n[workers]\ncount = 2\n", STATUS_CONFIG, "it is 16");
    expect_match(KARATE "[model]\nhidden = 16\n[workers]\ncount = 2\n[train]\nlr = 0.5\n", STATUS_CONFIG,
                 "train.lr is 0.5");
    expect_match(KARATE "[model]\nhidden = 16\n[workers]\ncount = 2\n[train]\nseed = 2\n", STATUS_CONFIG,
                 "train.seed");
    expect_match("[dataset]\npath = \"x\"\n[model]\nhidden = 16\n[workers]\ncount = 2\n", STATUS_CONFIG, "dataset.");
    expect_match(KARATE "[model]\nhidden = 16\n[partition]\nparts = 4\n", STATUS_CONFIG, "partition.parts is 4");
}

Test(checkpoint, a_job_without_parts_goes_on_with_the_checkpoints)
{
    save(20);
    struct checkpoint read;
    cr_assert_eq(checkpoint_load(folder, INT64_MAX, &read), STATUS_OK);
    struct job job = job_of(KARATE "[model]\nhidden = 16\n[workers]\ncount = 2\n");
    expect_done(checkpoint_match(&read, &job));
    cr_assert_eq(job.partition.parts, 2);
    checkpoint_release(&read);
    expect_match(KARATE "[model]\nhidden = 16\n[workers]\ncount = 4\n", STATUS_CONFIG,
                 "workers.count = 4 is more than the 2 parts of checkpoint");
}

Test(checkpoint, workers_exchange_output_and_more_epochs_may_change)
{
    expect_match("name = \"other\"\n" KARATE
                 "[model]\nhidden = 16\n[partition]\nparts = 2\n[workers]\ncount = 1\nthreads = 3\n"
                 "[exchange]\nschedule = \"halo\"\n[output]\ndir = \"elsewhere\"\n[train]\nepochs = "
                 "90\ncheckpoint_every = 7\n",
                 STATUS_OK, NULL);
}

Test(checkpoint, fewer_epochs_than_are_done_are_refused)
{
    expect_match(KARATE "[model]\nhidden = 16\n[workers]\ncount = 2\n[train]\nepochs = 19\n", STATUS_CONFIG,
                 "20 epochs done");
    expect_match(KARATE "[model]\nhidden = 16\n[workers]\ncount = 2\n[train]\nepochs = 20\n", STATUS_OK, NULL);
}

Test(checkpoint, a_rate_that_stretches_to_the_last_epoch_fixes_their_number)
{
    struct job then = job_of(KARATE "[partition]\nparts = 2\n[train]\nepochs = 50\nlr_schedule = \"cosine\"\n");
    char *text = job_print(&then);
    struct checkpoint checkpoint = {.job = text, .n_job = strlen(text), .state.n_epoch = 20, .path = "it"};
    cr_assert_eq(checkpoint_match(&checkpoint, &then), STATUS_OK);
    struct job now = then;
    now.train.epochs = 60;
    expect_fails(checkpoint_match(&checkpoint, &now), STATUS_CONFIG, "train.epochs is 60");
    free(text);
}

Test(checkpoint, held_out_edges_that_differ_are_named_by_their_file)
{
    static struct dataset dataset = {.file = {[DATASET_CONTENT_VALID] = "the/folder/valid_edges.npy"}};
    const struct job job = job_of("[dataset]\npath = \"the/folder\"\n[task]\nkind = \"link\"\n");
    const struct checkpoint then = {.state = {.content = {1, 2, 3, 4, 5, 6, 7}}, .path = "x.ckpt"};
    expect_fails(contents_match(&then, &job, &dataset, (uint64_t[]){1, 2, 3, 9, 5, 6, 7}), STATUS_DATA,
                 "'the/folder/valid_edges.npy' has other validation edges than checkpoint");
    expect_fails(contents_match(&then, &job, &dataset, (uint64_t[]){1, 2, 3, 4, 9, 6, 7}), STATUS_DATA,
                 "'the/folder' has other test edges than checkpoint");
}
