#include "trainerd/coordinator/folder/run_folder.h"

#include "protocol/files/file.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/folder/publish.h"
#include "trainerd/coordinator/folder/result_files.h"
#include "trainerd/coordinator/folder/run_folder_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define N_SAME_ID_MOST 10000 /* runs of one id: -2, -3, … */

/* --- paths and links --- */

static enum status path_print(char out[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
static enum status path_print(char out[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(out, PATH_MAX, format, arguments);
    va_end(arguments);
    return n < PATH_MAX ? STATUS_OK
                        : status_fail(STATUS_CREATE, "output folder '%.200s…': its path is too long", out);
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool run_folder_has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* When the newest checkpoint of a run was written, in nanoseconds; -1: it has no checkpoint. */
static int64_t checkpoint_ns(const char *dir)
{
    char path[PATH_MAX];
    struct stat about;
    if (snprintf(path, sizeof path, "%s/checkpoint", dir) >= PATH_MAX || !checkpoint_exists(path) ||
        stat(path, &about) != 0) {
        return -1;
    }
    return (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
}

/* The target of a link; false where that is no link. */
static bool link_read(const char *path, char out[PATH_MAX])
{
    ssize_t n = readlink(path, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static enum status link_lead(const char *folder, const char *name, const char *target)
{
    struct dir dir;
    enum status status = dir_open(folder[0] != '\0' ? folder : ".", DIR_LAST_FOLLOWED, &dir);
    if (status == STATUS_OK) {
        status = dir_link_replace(&dir, name, target);
        dir_close(&dir);
    }
    return status;
}

/* --- names of runs --- */

/* Runs are <parent>/<prefix><id>. */
struct place {
    char parent[PATH_MAX];
    const char *prefix; /* then a hyphen */
    size_t n_prefix;
};

static struct place place_of(const struct run_folder *run)
{
    if (!run->has_link) {
        struct place in_home = {.prefix = ".run", .n_prefix = 4};
        memcpy(in_home.parent, run->home, sizeof in_home.parent);
        return in_home;
    }
    struct place place = {.prefix = basename(run->home)};
    place.n_prefix = strlen(place.prefix);
    size_t n = (size_t)(place.prefix - run->home);
    memcpy(place.parent, run->home, n);
    place.parent[n > 1 ? n - 1 : n] = '\0'; /* without its slash, unless that is all */
    return place;
}

/* A name that begins as those of the place's runs do. */
static bool is_ours(const struct place *place, const char *name)
{
    return strchr(name, '/') == NULL && strncmp(name, place->prefix, place->n_prefix) == 0 &&
           name[place->n_prefix] == '-';
}

/* And ends in a number or a time: beside runs/a may lie runs of a job a-b. */
static bool is_run(const struct run_folder *run, const struct place *place, const char *name)
{
    if (!is_ours(place, name)) {
        return false;
    }
    const char *id = name + place->n_prefix + 1;
    return !run->has_link || (*id >= '0' && *id <= '9' && id[strspn(id, "0123456789-")] == '\0');
}

static void id_make(const struct run_folder *run, char out[NAME_MAX + 1])
{
    time_t now = time(NULL);
    struct tm local;
    if (run->job_folder != NULL) {
        snprintf(out, NAME_MAX + 1, "%.200s", basename(run->job_folder));
    } else {
        localtime_r(&now, &local);
        strftime(out, NAME_MAX + 1, "%Y%m%d-%H%M%S", &local);
    }
}

enum status run_folder_init(struct run_folder *run, const struct job *job, const char *job_folder,
                            const struct job_files *job_files)
{
    *run = (struct run_folder){
        .job_folder = job_folder, .job_files = job_files, .has_link = job->output.dir[0] == '\0', .lock.file = -1};
    char name[JOB_RUN_BYTES];
    job_run_name(job, name);
    return output_dir(job->output.dir, name, run->home);
}

/* --- finding --- */

static void use(struct run_folder *run, const char *dir)
{
    snprintf(run->dir, sizeof run->dir, "%s", dir);
    run->is_found = true;
}

/* Resume that run: an unfinished one goes on where it is, a finished one, or what has the link's place, stays as it
 * is. A whole one that is not yet published is no more than an unfinished one. */
static void choose(struct run_folder *run, const char *dir)
{
    if (strcmp(dir, run->home) == 0 || (run->has_link && run_folder_has(dir, "result.json"))) {
        snprintf(run->base, sizeof run->base, "%s", dir);
    } else {
        use(run, dir);
    }
}

/* The folder of an earlier attempt. Taking the lock has completed a publication that it began. */
static void find_own(struct run_folder *run)
{
    char dir[PATH_MAX];
    if (!run_job_last(run, dir)) {
        return;
    }
    if (dir[0] == '/' && is_folder(dir)) {
        use(run, dir);
        run->is_done = run_folder_has(dir, "result.json");
    } else {
        run->is_done = run_job_has_result(run);
        memcpy(run->base, dir, sizeof run->base); /* there is nothing else to resume */
    }
}

/* Of the runs in the place, and of home if that is no link, the one with the newest checkpoint. */
static void find_newest(struct run_folder *run, const struct place *place)
{
    char dir[PATH_MAX], newest[PATH_MAX] = "", target[PATH_MAX];
    bool is_led = run->has_link && link_read(run->home, target);
    int64_t newest_ns = is_led ? -1 : checkpoint_ns(run->home);
    if (newest_ns >= 0) {
        snprintf(newest, sizeof newest, "%s", run->home);
    }
    DIR *folder = opendir(place->parent[0] != '\0' ? place->parent : ".");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (!is_run(run, place, entry->d_name) ||
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

/* What a job without a folder resumes: the newest run, or what an older version has left. */
static enum status find_other(struct run_folder *run)
{
    const struct place place = place_of(run);
    char target[PATH_MAX], dir[PATH_MAX];
    bool is_led = run->has_link && link_read(run->home, target);
    if (run->job_folder != NULL) {
        snprintf(run->base, sizeof run->base, "%s", run->home);
        return is_led
                   ? status_fail(STATUS_NO_INPUT,
                                 "nothing to resume: the job has no folder, and '%s' leads to another run", run->home)
                   : STATUS_OK;
    }
    if (is_led && is_ours(&place, target)) {
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

enum status run_folder_find(struct run_folder *run, uint32_t attempt, bool resume)
{
    if (run->dir[0] != '\0') { /* a restart in the foreground */
        run->is_found = is_folder(run->dir);
        return STATUS_OK;
    }
    if (attempt > 1) {
        find_own(run);
    } else {
        run_job_forget(run);
    }
    bool is_known = run->is_found || run->is_done || run->base[0] != '\0';
    return resume && !is_known ? find_other(run) : STATUS_OK;
}

enum status run_folder_checkpoint(const struct run_folder *run, char out[PATH_MAX])
{
    bool has_own = run->is_found && (run->base[0] == '\0' || checkpoint_ns(run->dir) >= 0);
    return path_print(out, "%s/checkpoint", has_own ? run->dir : run->base[0] != '\0' ? run->base : run->home);
}

/* --- making --- */

enum status run_folder_lock(struct run_folder *run)
{
    if (run->has_link || run->lock.file >= 0) {
        return STATUS_OK;
    }
    enum status status = dir_open(run->home, DIR_LAST_OWN_LINK, &run->lock);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    status = output_lock(&run->lock);
    return status == STATUS_OK ? publish_finish(&run->lock) : status;
}

enum status run_folder_check(const struct run_folder *run)
{
    const struct place place = place_of(run);
    struct dir dir;
    if (!run->is_found) {
        return output_check(place.parent);
    }
    enum status status = dir_open(run->dir, DIR_LAST_NO_LINK, &dir);
    if (status == STATUS_OK) {
        status = result_files_check(&dir);
        dir_close(&dir);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return output_check(run->dir);
}

/* Make the run's folder: in output.dir as it was locked, wherever its path leads by now. */
static int make_folder(const struct run_folder *run)
{
    return run->lock.file >= 0 ? mkdirat(run->lock.file, basename(run->dir), 0777) : mkdir(run->dir, 0777);
}

/* Is the run's folder one of output.dir, which is locked? */
static bool is_in_lock(const struct run_folder *run)
{
    return run->lock.file >= 0 && faccessat(run->lock.file, basename(run->dir), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Make the first of <prefix>-<id>, <prefix>-<id>-2, … that is not there yet. */
static enum status make_new(struct run_folder *run)
{
    const struct place place = place_of(run);
    char id[NAME_MAX + 1];
    id_make(run, id);
    enum status status = file_folder_make(place.parent, &run->n_made_from);
    if (status == STATUS_OK) {
        status = run_folder_lock(run);
    }
    for (int k = 1; status == STATUS_OK && k <= N_SAME_ID_MOST; k++) {
        char number[16] = "";
        if (k > 1) {
            snprintf(number, sizeof number, "-%d", k);
        }
        status = path_print(run->dir, "%s/%s-%s%s", place.parent, place.prefix, id, number);
        if (status == STATUS_OK && make_folder(run) == 0) {
            run->n_made_from = run->n_made_from == 0 ? strlen(run->dir) : run->n_made_from;
            return STATUS_OK;
        }
        if (status == STATUS_OK && errno != EEXIST) {
            status = status_fail(STATUS_CREATE, "cannot make output folder '%s': %s", run->dir, strerror(errno));
        }
    }
    return status != STATUS_OK
               ? status
               : status_fail(STATUS_CREATE, "cannot make output folder '%s': so many are there", run->dir);
}

enum status run_folder_open(struct run_folder *run, struct output *output)
{
    enum status status = run->is_found ? STATUS_OK : make_new(run);
    if (status == STATUS_OK) {
        status = is_in_lock(run) ? output_open(&run->lock, basename(run->dir), output)
                                 : output_open(NULL, run->dir, output);
    }
    if (status != STATUS_OK) {
        return status;
    }
    run->is_found = true;
    return run_job_lead(run);
}

/* --- a finished run goes on in a folder of its own --- */

static enum status share_all(const struct dir *from, const struct dir *to)
{
    struct result_files files;
    enum status status = result_files_list(from->file, &files);
    /* In this order: a folder with a checkpoint has all that belongs to it. */
    for (int i = 0; i < files.n && status == STATUS_OK; i++) {
        if (strchr(files.path[i], '/') != NULL || strcmp(files.path[i], "metrics.jsonl") == 0) {
            status = result_file_share(from, to, files.path[i], strcmp(files.path[i], "metrics.jsonl") == 0);
        }
    }
    result_files_release(&files);
    return status;
}

enum status run_folder_continue(const struct run_folder *run)
{
    char own[PATH_MAX];
    struct dir from, to = {.file = -1};
    enum status status = path_print(own, "%s/checkpoint", run->dir);
    if (status != STATUS_OK || run->base[0] == '\0' || checkpoint_exists(own)) {
        return status;
    }
    status = dir_open(run->base, DIR_LAST_OWN_LINK, &from);
    if (status == STATUS_OK && (status = dir_open(run->dir, DIR_LAST_NO_LINK, &to)) == STATUS_OK) {
        status = share_all(&from, &to);
    }
    dir_close(&from);
    dir_close(&to);
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
    bool leads = exists && strcmp(target, basename(run->dir)) == 0;
    if (!leads) {
        snprintf(run->before, sizeof run->before, "%s", exists ? target : "");
    }
    run->has_led = leads || link_lead(place.parent, basename(run->home), basename(run->dir)) == STATUS_OK;
    if (!run->has_led) {
        snprintf(remark, capacity, "%s: this run is in '%s'", status_reason(), run->dir);
    }
}

/* --- the end --- */

enum status run_folder_publish(struct run_folder *run)
{
    if (run->has_link || !is_folder(run->dir)) {
        return STATUS_OK;
    }
    enum status status = run_job_keep(run);
    if (status == STATUS_OK) {
        status = publish_begin(&run->lock, basename(run->dir));
    }
    /* From here on the next start would complete it. */
    if (status != STATUS_OK || (status = run_job_lead_to_results(run)) != STATUS_OK) {
        return status;
    }
    return publish_finish(&run->lock);
}

const char *run_folder_results(const struct run_folder *run)
{
    return run->has_link ? run->dir : run->home;
}

/* Home, which leads to a run that is gone, leads again to where it led before. */
static void lead_back(const struct run_folder *run)
{
    const struct place place = place_of(run);
    char target[PATH_MAX];
    struct dir parent;
    if (!run->has_led || !link_read(run->home, target) || strcmp(target, basename(run->dir)) != 0) {
        return;
    }
    if (run->before[0] != '\0') {
        link_lead(place.parent, basename(run->home), run->before);
    } else if (dir_open(place.parent, DIR_LAST_FOLLOWED, &parent) == STATUS_OK) {
        dir_link_remove(&parent, basename(run->home), target);
        dir_close(&parent);
    }
}

void run_folder_close(struct run_folder *run, bool keep)
{
    char dir[PATH_MAX];
    if (run->home[0] == '\0') {
        return;
    }
    dir_close(&run->lock);
    memcpy(dir, run->dir, sizeof dir);
    if (!keep && run->n_made_from != 0 && rmdir(dir) == 0) {
        lead_back(run);
        /* Outwards; a folder that is not empty stays, and so do those above it. */
        for (char *slash; (slash = strrchr(dir, '/')) != NULL && slash >= dir + run->n_made_from;) {
            *slash = '\0';
            rmdir(dir);
        }
        run->n_made_from = 0;
    }
    run->has_led = false;
}
