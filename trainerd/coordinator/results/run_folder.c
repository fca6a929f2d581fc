#include "trainerd/coordinator/results/run_folder.h"

#include "protocol/file.h"
#include "trainerd/coordinator/results/checkpoint.h"
#include "trainerd/coordinator/results/result_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define N_SAME_ID_MOST 10000 /* runs of one id: -2, -3, … */

/* --- paths --- */

static enum status path_print(char out[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
static enum status path_print(char out[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(out, PATH_MAX, format, arguments);
    va_end(arguments);
    return n < PATH_MAX ? STATUS_OK : status_fail(STATUS_CREATE, "output folder '%.200s…': its path is too long", out);
}

/* The target of a link; false where that is no link. */
static bool link_read(const char *path, char out[PATH_MAX])
{
    ssize_t n = readlink(path, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Make a link, or let an existing one lead elsewhere: readers see the old target or the new. Returns 0 or errno. */
static int link_replace(const char *path, const char *target)
{
    char aside[PATH_MAX];
    if (snprintf(aside, sizeof aside, "%s.%ld.tmp", path, (long)getpid()) >= PATH_MAX) {
        return ENAMETOOLONG;
    }
    unlink(aside);
    if (symlink(target, aside) != 0) {
        return errno;
    }
    int error = rename(aside, path) == 0 ? 0 : errno;
    if (error != 0) {
        unlink(aside);
    }
    return error;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* When the newest checkpoint of a run was written, in nanoseconds; -1: it has none. */
static int64_t checkpoint_ns(const char *dir)
{
    char path[PATH_MAX];
    struct stat about;
    if (snprintf(path, sizeof path, "%s/checkpoint", dir) >= PATH_MAX || !checkpoint_exists(path) || stat(path, &about) != 0) {
        return -1;
    }
    return (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
}

/* --- names of runs --- */

/* Runs are <parent>/<prefix><id>. */
struct place {
    char parent[PATH_MAX];
    const char *prefix; /* with n_prefix bytes, then a hyphen */
    size_t n_prefix;
};

static struct place place_of(const struct run_folder *run)
{
    struct place place = {.prefix = last_name(run->home)};
    place.n_prefix = strlen(place.prefix);
    size_t n = (size_t)(place.prefix - run->home);
    memcpy(place.parent, run->home, n);
    place.parent[n > 1 ? n - 1 : n] = '\0'; /* without its slash, unless that is all */
    return place;
}

/* The id in the name of a run: a number or a time, perhaps with a number; NULL where it is another name. */
static const char *id_in(const struct place *place, const char *name)
{
    if (strncmp(name, place->prefix, place->n_prefix) != 0 || name[place->n_prefix] != '-') {
        return NULL;
    }
    const char *id = name + place->n_prefix + 1;
    return *id >= '0' && *id <= '9' && id[strspn(id, "0123456789-")] == '\0' ? id : NULL;
}

/* A name beside the link. */
static bool is_ours(const struct place *place, const char *target)
{
    return strchr(target, '/') == NULL && strncmp(target, place->prefix, place->n_prefix) == 0 &&
           target[place->n_prefix] == '-';
}

static void id_make(const struct run_folder *run, char out[NAME_MAX + 1])
{
    time_t now = time(NULL);
    struct tm local;
    if (run->job_folder != NULL) {
        snprintf(out, NAME_MAX + 1, "%.200s", last_name(run->job_folder));
    } else {
        localtime_r(&now, &local);
        strftime(out, NAME_MAX + 1, "%Y%m%d-%H%M%S", &local);
    }
}

enum status run_folder_init(struct run_folder *run, const struct job *job, const char *job_folder)
{
    *run = (struct run_folder){.job_folder = job_folder, .has_link = job->output.dir[0] == '\0'};
    enum status status = output_dir(job->output.dir, job->job.name, run->home);
    if (status == STATUS_OK && !run->has_link) {
        memcpy(run->dir, run->home, sizeof run->dir);
    }
    return status;
}

/* --- finding --- */

/* This path of the job's folder. false: no daemon, or the path is too long */
static bool job_path(const struct run_folder *run, const char *name, char out[PATH_MAX])
{
    return run->job_folder != NULL && snprintf(out, PATH_MAX, "%s/%s", run->job_folder, name) < PATH_MAX;
}

static void use(struct run_folder *run, const char *dir)
{
    snprintf(run->dir, sizeof run->dir, "%s", dir);
    run->is_found = true;
}

/* Resume that run: an unfinished one goes on where it is, a finished one, or what has the link's place, stays as it is. */
static void choose(struct run_folder *run, const char *dir)
{
    if (strcmp(dir, run->home) == 0 || has_file(dir, "result.json")) {
        snprintf(run->base, sizeof run->base, "%s", dir);
    } else {
        use(run, dir);
    }
}

/* The folder that an earlier attempt of the job made. */
static void find_own(struct run_folder *run)
{
    char path[PATH_MAX], dir[PATH_MAX];
    if (!job_path(run, "run", path) || !link_read(path, dir)) {
        return;
    }
    if (is_folder(dir)) {
        use(run, dir);
        run->is_done = has_file(dir, "result.json");
    }
}

/* Of the runs in the place, and of home if that is no link, the one with the newest checkpoint. */
static void find_newest(struct run_folder *run, const struct place *place)
{
    char dir[PATH_MAX], newest[PATH_MAX] = "", target[PATH_MAX];
    int64_t newest_ns = link_read(run->home, target) ? -1 : checkpoint_ns(run->home);
    if (newest_ns >= 0) {
        snprintf(newest, sizeof newest, "%s", run->home);
    }
    DIR *folder = opendir(place->parent[0] != '\0' ? place->parent : ".");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (id_in(place, entry->d_name) == NULL ||
            snprintf(dir, sizeof dir, "%s/%s", place->parent, entry->d_name) >= PATH_MAX) {
            continue;
        }
        int64_t ns = checkpoint_ns(dir);
        if (ns > newest_ns) {
            newest_ns = ns;
            memcpy(newest, dir, sizeof newest);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    if (newest[0] != '\0') {
        choose(run, newest);
    }
}

enum status run_folder_find(struct run_folder *run, uint32_t attempt, bool resume)
{
    char path[PATH_MAX];
    if (!run->has_link) {
        run->is_found = true;
        return STATUS_OK;
    }
    if (run->dir[0] != '\0') { /* a restart in the foreground */
        run->is_found = is_folder(run->dir);
        return STATUS_OK;
    }
    if (attempt > 1) {
        find_own(run);
    } else if (job_path(run, "run", path)) {
        unlink(path); /* nothing is left of a job before its first attempt */
    }
    const struct place place = place_of(run);
    if (!resume || run->is_found) {
        return STATUS_OK;
    }
    char target[PATH_MAX], dir[PATH_MAX];
    if (link_read(run->home, target) && is_ours(&place, target)) {
        enum status status = path_print(dir, "%s/%s", place.parent, target);
        if (status != STATUS_OK) {
            return status;
        }
        if (checkpoint_ns(dir) >= 0) {
            choose(run, dir);
            return STATUS_OK;
        }
    }
    find_newest(run, &place);
    return STATUS_OK;
}

enum status run_folder_checkpoint(const struct run_folder *run, char out[PATH_MAX])
{
    bool has_own = run->is_found && (run->base[0] == '\0' || checkpoint_ns(run->dir) >= 0);
    return path_print(out, "%s/checkpoint", has_own ? run->dir : run->base[0] != '\0' ? run->base : run->home);
}

/* --- making --- */

enum status run_folder_check(const struct run_folder *run)
{
    const struct place place = place_of(run);
    return output_check(run->is_found ? run->dir : place.parent);
}

/* Make the first of <prefix>-<id>, <prefix>-<id>-2, … that is not there yet. */
static enum status make_new(struct run_folder *run, struct output *output)
{
    const struct place place = place_of(run);
    char id[NAME_MAX + 1];
    id_make(run, id);
    snprintf(output->dir, sizeof output->dir, "%s", place.parent);
    enum status status = output_folders_make(output->dir, &output->n_made_from);
    for (int k = 1; status == STATUS_OK && k <= N_SAME_ID_MOST; k++) {
        char number[16] = "";
        if (k > 1) {
            snprintf(number, sizeof number, "-%d", k);
        }
        status = path_print(run->dir, "%s/%.*s-%s%s", place.parent, (int)place.n_prefix, place.prefix, id, number);
        if (status == STATUS_OK && mkdir(run->dir, 0777) == 0) {
            memcpy(output->dir, run->dir, sizeof output->dir);
            output->n_made_from = output->n_made_from == 0 ? strlen(run->dir) : output->n_made_from;
            return STATUS_OK;
        }
        if (status == STATUS_OK && errno != EEXIST) {
            status = status_fail(STATUS_CREATE, "cannot make output folder '%s': %s", run->dir, strerror(errno));
        }
    }
    return status != STATUS_OK ? status
                               : status_fail(STATUS_CREATE, "cannot make output folder '%s': so many are there", run->dir);
}

/* The job's folder leads to the run. */
static enum status note_for_job(const struct run_folder *run)
{
    char path[PATH_MAX], *whole;
    if (!job_path(run, "run", path)) {
        return STATUS_OK;
    }
    whole = realpath(run->dir, NULL);
    int error = whole != NULL ? link_replace(path, whole) : errno;
    free(whole);
    return error == 0 ? STATUS_OK : status_fail(STATUS_CREATE, "cannot make the link '%s': %s", path, strerror(error));
}

enum status run_folder_open(struct run_folder *run, struct output *output)
{
    struct output made = {.folder = -1, .metrics = -1};
    enum status status = STATUS_OK;
    if (!run->is_found) {
        status = make_new(run, &made);
    }
    status = status == STATUS_OK ? output_open(run->dir, output) : status;
    if (status != STATUS_OK) {
        output_close(&made, false);
        return status;
    }
    output->n_made_from = made.n_made_from != 0 ? made.n_made_from : output->n_made_from;
    run->n_made_from = output->n_made_from;
    run->is_found = true;
    return note_for_job(run);
}

/* --- a finished run goes on in a folder of its own --- */

static enum status copy_fail(const char *from, const char *to, int error)
{
    return status_fail(STATUS_IO, "cannot copy '%s' to '%s': %s", from, to, strerror(error));
}

/* Copy a plain file, up to its present end. */
static enum status file_copy(const char *from, const char *to)
{
    char bytes[1 << 16];
    int in, out;
    ssize_t n;
    enum status status = file_open(from, &in);
    if (status != STATUS_OK) {
        return status;
    }
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = out < 0 ? errno : 0;
    while (error == 0 && (n = read(in, bytes, sizeof bytes)) != 0) {
        error = n > 0 ? file_write(out, bytes, (size_t)n) : errno == EINTR ? 0 : errno;
    }
    error = error == 0 && fsync(out) != 0 ? errno : error;
    if (out >= 0 && close(out) != 0 && error == 0) {
        error = errno;
    }
    close(in);
    return error == 0 ? STATUS_OK : copy_fail(from, to, error);
}

/* Checkpoints and event files are never changed, so that a second name is enough where the file system has such. */
static enum status file_share(const char *from, const char *to)
{
    return link(from, to) == 0 ? STATUS_OK : file_copy(from, to);
}

static enum status share(const struct run_folder *run, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX];
    enum status status = path_print(from, "%s/%s", run->base, name);
    status = status == STATUS_OK ? path_print(to, "%s/%s", run->dir, name) : status;
    char *slash = status == STATUS_OK ? strrchr(to + strlen(run->dir) + 1, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        status = file_folder_make(to);
        *slash = '/';
    }
    if (status != STATUS_OK || strcmp(name, "metrics.jsonl") == 0) { /* which grows */
        return status == STATUS_OK ? file_copy(from, to) : status;
    }
    return file_share(from, to);
}

enum status run_folder_continue(const struct run_folder *run)
{
    char own[PATH_MAX];
    enum status status = path_print(own, "%s/checkpoint", run->dir);
    if (status != STATUS_OK || run->base[0] == '\0' || checkpoint_exists(own)) {
        return status;
    }
    int folder = open(run->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return status_fail(STATUS_IO, "cannot open '%s': %s", run->base, strerror(errno));
    }
    struct result_files files;
    status = result_files_list(folder, &files);
    /* In this order: a folder with a checkpoint has all that belongs to it. */
    for (int i = 0; i < files.n && status == STATUS_OK; i++) {
        bool goes_on = strcmp(files.path[i], "metrics.jsonl") == 0 || strchr(files.path[i], '/') != NULL;
        status = goes_on ? share(run, files.path[i]) : STATUS_OK;
    }
    result_files_release(&files);
    close(folder);
    return status;
}

/* --- the link to the newest run --- */

void run_folder_lead(struct run_folder *run, char *remark, size_t capacity)
{
    struct stat about;
    remark[0] = '\0';
    if (!run->has_link) {
        return;
    }
    const struct place place = place_of(run);
    bool exists = lstat(run->home, &about) == 0;
    char target[PATH_MAX];
    bool is_link = exists && S_ISLNK(about.st_mode) && link_read(run->home, target);
    if (exists && !(is_link && is_ours(&place, target))) {
        snprintf(remark, capacity, "'%s' is %s, and stays as it is: this run is in '%s'", run->home,
                 is_link                  ? "a link to elsewhere"
                 : S_ISDIR(about.st_mode) ? "a folder, no link"
                                          : "a file, no link",
                 run->dir);
        return;
    }
    bool leads = exists && strcmp(target, last_name(run->dir)) == 0;
    if (!leads) {
        snprintf(run->before, sizeof run->before, "%s", exists ? target : "");
    }
    int error = leads ? 0 : link_replace(run->home, last_name(run->dir));
    run->has_led = error == 0;
    if (error != 0) {
        snprintf(remark, capacity, "cannot make the link '%s': %s: this run is in '%s'", run->home, strerror(error), run->dir);
    }
}

void run_folder_close(struct run_folder *run)
{
    char target[PATH_MAX];
    bool is_gone = run->has_led && !is_folder(run->dir) && link_read(run->home, target) &&
                   strcmp(target, last_name(run->dir)) == 0;
    if (is_gone && run->before[0] != '\0') {
        link_replace(run->home, run->before);
    } else if (is_gone) {
        const struct place place = place_of(run);
        unlink(run->home);
        if (run->n_made_from != 0 && run->n_made_from <= strlen(place.parent)) {
            rmdir(place.parent);
        }
    }
    run->has_led = false;
}
