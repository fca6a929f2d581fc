/* See fixture.h. */
#include "tests/unit/partition/fixture.h"
#include "protocol/base/log.h"
#include "tests/support/graphs/npy_save.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

struct job fixture_job(void)
{
    struct job job;
    job_defaults(&job);
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder);
    return job;
}

void fixture_bytes(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(folder_path(name), "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, n, file), n);
    cr_assert_eq(fclose(file), 0);
}

char *fixture_read(const char *name, size_t *n_out)
{
    FILE *file = fopen(folder_path(name), "rb");
    cr_assert_not_null(file);
    fseek(file, 0, SEEK_END);
    *n_out = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n_out + 1);
    cr_assert_eq(fread(bytes, 1, *n_out, file), *n_out);
    fclose(file);
    return bytes;
}

void fixture_remove(const char *name)
{
    cr_assert_eq(unlink(folder_path(name)), 0);
}

void fixture_i64(const char *name, int rank, const int64_t *shape, const int64_t *values)
{
    cr_assert_eq(npy_save(folder_path(name), NPY_TYPE_I64, rank, shape, values), STATUS_OK, "%s", status_reason());
}

void fixture_f32(const char *name, int rank, const int64_t *shape, const float *values)
{
    cr_assert_eq(npy_save(folder_path(name), NPY_TYPE_F32, rank, shape, values), STATUS_OK, "%s", status_reason());
}

void fixture_gz(const char *name, const char *text)
{
    gzFile file = gzopen(folder_path(name), "wb");
    cr_assert_not_null(file);
    gzwrite(file, text, (unsigned)strlen(text));
    cr_assert_eq(gzclose(file), Z_OK);
}

void fixture_header(const char *name, const char *dict, const void *bytes, size_t n)
{
    char room[1024];
    size_t n_dict = strlen(dict);
    memcpy(room, "\x93NUMPY\x01\x00", 8);
    room[8] = (char)(n_dict & 0xff);
    room[9] = (char)(n_dict >> 8);
    memcpy(room + 10, dict, n_dict);
    memcpy(room + 10 + n_dict, bytes, n);
    fixture_bytes(name, room, 10 + n_dict + n);
}

void fixture_zip(const char *name, const char *const (*members)[2], size_t n)
{
    zip_t *archive = zip_open(folder_path(name), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    cr_assert_not_null(archive);
    for (size_t i = 0; i < n; i++) {
        zip_source_t *source = zip_source_file(archive, folder_path(members[i][0]), 0, 0);
        zip_int64_t index = zip_file_add(archive, members[i][1], source, ZIP_FL_OVERWRITE);
        cr_assert_geq(index, 0);
        zip_set_file_compression(archive, (zip_uint64_t)index, i % 2 == 0 ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    cr_assert_eq(zip_close(archive), 0);
}

void fixture_small(void)
{
    const int64_t edges[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, /* sources */
                             1, 0, 2, 1, 3, 2, 4, 3, 5, 4};
    const float features[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, -18};
    const int64_t labels[] = {0, 1, 0, 1, 0, -1}, train[] = {0, 1}, valid[] = {2}, test[] = {3, 4};
    fixture_i64("edges.npy", 2, (int64_t[]){2, 10}, edges);
    fixture_f32("features.npy", 2, (int64_t[]){6, 3}, features);
    fixture_i64("labels.npy", 1, (int64_t[]){6}, labels);
    fixture_i64("train_idx.npy", 1, (int64_t[]){2}, train);
    fixture_i64("valid_idx.npy", 1, (int64_t[]){1}, valid);
    fixture_i64("test_idx.npy", 1, (int64_t[]){2}, test);
}

static struct dataset *loaded;
static size_t n_loaded;

struct dataset fixture_loaded(const struct job *job)
{
    loaded = realloc(loaded, (n_loaded + 1) * sizeof *loaded);
    cr_assert_eq(dataset_load(job, &loaded[n_loaded]), STATUS_OK, "%s", status_reason());
    return loaded[n_loaded++];
}

void fixture_end(void)
{
    while (n_loaded > 0) {
        dataset_release(&loaded[--n_loaded]);
    }
    free(loaded);
    folder_remove();
}

const char *fixture_remarks(const struct job *job)
{
    static char log[8192];
    log_init("test", -1, LOG_LEVEL_WARN);
    cr_assert_eq(log_to(folder_path("log")), STATUS_OK, "%s", status_reason());
    fixture_loaded(job);
    folder_read("log", log, sizeof log);
    fixture_remove("log");
    return log;
}

void fixture_refused(const struct job *job, enum status status, const char *where, const char *expected)
{
    struct dataset dataset = {.n_node = -7};
    cr_assert_eq(dataset_load(job, &dataset), status, "%s", status_reason());
    cr_assert_eq(dataset.n_node, -7, "a failed load must leave the dataset untouched");
    cr_assert(strstr(status_reason(), where) != NULL, "'%s' does not name '%s'", status_reason(), where);
    cr_assert(strstr(status_reason(), expected) != NULL, "'%s' does not say '%s'", status_reason(), expected);
}

bool has_edge(const struct dataset *d, uint32_t from, uint32_t to)
{
    bool any = false;
    for (int64_t i = d->indptr[to]; i < d->indptr[to + 1]; i++) {
        any = any || d->indices[i] == from;
    }
    return any;
}
