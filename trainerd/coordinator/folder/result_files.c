#include "trainerd/coordinator/folder/result_files.h"

#include "protocol/base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A single file, or a folder's files whose names begin and end so. */
static const struct kind {
    const char *name, *begin, *end;
} kinds[] = {
    {"metrics.jsonl", NULL, NULL},       {"model.safetensors", NULL, NULL},  {"best.safetensors", NULL, NULL},
    {"logits.npy", NULL, NULL},          {"logits_last.npy", NULL, NULL},    {"predictions.npy", NULL, NULL},
    {"probabilities.npy", NULL, NULL},   {"embeddings.npy", NULL, NULL},     {"scores.npy", NULL, NULL},
    {"partners.npy", NULL, NULL},        {"partner_scores.npy", NULL, NULL}, {"drawn_train_idx.npy", NULL, NULL},
    {"drawn_valid_idx.npy", NULL, NULL}, {"drawn_test_idx.npy", NULL, NULL}, {"trace.json", NULL, NULL},
    {"smoothed.npy", NULL, NULL},        {"propagated.npy", NULL, NULL},     {"tb", "events.out.tfevents.", ""},
    {"checkpoint", "epoch-", ".ckpt"},   {"result.json", NULL, NULL}};
enum { N_KIND = sizeof kinds / sizeof *kinds, KIND_TB = 17 };

static bool is_named(const struct kind *kind, const char *name)
{
    size_t n = strlen(name), n_begin = strlen(kind->begin), n_end = strlen(kind->end);
    return n > n_begin + n_end && n <= NAME_MAX && strchr(name, '/') == NULL &&
           strncmp(name, kind->begin, n_begin) == 0 && strcmp(name + n - n_end, kind->end) == 0;
}

bool result_file_is(const char *path)
{
    for (int k = 0; k < N_KIND; k++) {
        size_t n = strlen(kinds[k].name);
        if (kinds[k].begin == NULL
                ? strcmp(path, kinds[k].name) == 0
                : strncmp(path, kinds[k].name, n) == 0 && path[n] == '/' && is_named(&kinds[k], path + n + 1)) {
            return true;
        }
    }
    return false;
}

bool result_file_is_event(const char *name)
{
    return is_named(&kinds[KIND_TB], name);
}

static enum status folder_check(const struct dir *dir, const char *name)
{
    struct dir inner;
    enum status status = dir_inner(dir, name, false, &inner);
    if (status == STATUS_OK && faccessat(inner.file, ".", W_OK | X_OK, AT_EACCESS) != 0) {
        status = status_fail(STATUS_CREATE, "cannot write in folder '%s': %s", inner.path, strerror(errno));
    }
    dir_close(&inner);
    return status == STATUS_NO_INPUT ? STATUS_OK : status;
}

enum status result_files_check(const struct dir *dir)
{
    enum status status = folder_check(dir, "checkpoint.old");
    for (int k = 0; k < N_KIND && status == STATUS_OK; k++) {
        status = kinds[k].begin != NULL ? folder_check(dir, kinds[k].name) : dir_file_check(dir, kinds[k].name);
    }
    return status;
}

enum status result_file_folder(const struct dir *dir, const char *path, bool makes, struct dir *out,
                               const char **name_out)
{
    char first[RESULT_FILE_BYTES];
    const char *slash = strchr(path, '/');
    *name_out = slash != NULL ? slash + 1 : path;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(path, "/"), path);
    return dir_inner(dir, slash != NULL ? first : ".", makes && slash != NULL, out);
}

enum status result_file_share(const struct dir *from, const struct dir *to, const char *path, bool copies)
{
    struct dir inner_from, inner_to = {.file = -1};
    const char *name;
    enum status status = result_file_folder(from, path, false, &inner_from, &name);
    if (status == STATUS_OK) {
        status = result_file_folder(to, path, true, &inner_to, &name);
    }
    if (status == STATUS_OK) {
        status = dir_share(&inner_from, name, &inner_to, name, copies);
    }
    dir_close(&inner_from);
    dir_close(&inner_to);
    return status;
}

enum status result_folder_clear(const struct dir *dir, const char *name, dir_fits *asides, dir_fits *files)
{
    struct dir inner;
    enum status status = dir_inner(dir, name, false, &inner);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    dir_asides_remove(&inner, asides);
    if (files != NULL) {
        dir_files_remove(&inner, files);
    }
    dir_close(&inner);
    unlinkat(dir->file, name, AT_REMOVEDIR);
    return STATUS_OK;
}

static void add(struct result_files *files, const char *path)
{
    files->path = memory_list_grow(files->path, files->n, sizeof *files->path);
    snprintf(files->path[files->n++], RESULT_FILE_BYTES, "%s", path);
}

static enum status add_folder(struct result_files *files, int folder, const struct kind *kind)
{
    int inner = openat(folder, kind->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) {
        return STATUS_OK; /* there is no such folder */
    }
    DIR *all = fdopendir(inner);
    if (all == NULL) {
        enum status status = status_fail(STATUS_IO, "cannot read folder '%s' of a run: %s", kind->name,
                                         strerror(errno));
        close(inner);
        return status;
    }
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        if (is_named(kind, entry->d_name)) {
            char path[RESULT_FILE_BYTES];
            snprintf(path, sizeof path, "%.12s/%.*s", kind->name, NAME_MAX, entry->d_name);
            add(files, path);
        }
    }
    closedir(all);
    return STATUS_OK;
}

enum status result_files_list(int folder, struct result_files *out)
{
    enum status status = STATUS_OK;
    *out = (struct result_files){0};
    for (int k = 0; k < N_KIND && status == STATUS_OK; k++) {
        struct stat about;
        if (kinds[k].begin != NULL) {
            status = add_folder(out, folder, &kinds[k]);
        } else if (fstatat(folder, kinds[k].name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
            add(out, kinds[k].name);
        }
    }
    if (status != STATUS_OK) {
        result_files_release(out);
    }
    return status;
}

void result_files_release(struct result_files *files)
{
    free(files->path);
    *files = (struct result_files){0};
}

bool result_files_have(const struct result_files *files, const char *path)
{
    for (int i = 0; i < files->n; i++) {
        if (strcmp(files->path[i], path) == 0) {
            return true;
        }
    }
    return false;
}
