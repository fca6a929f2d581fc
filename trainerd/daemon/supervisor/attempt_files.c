/* The files of an attempt's job: opened for its coordinator, limited to daemon.max_log, cut to it at the end. */
#include "protocol/base/log.h"
#include "trainerd/daemon/store/own_files.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <stdio.h>

/* Beyond its limit a job is asked to end; one that goes on to write a quarter more is killed. */
#define KILL_SHARE 4

/* Fork the coordinator, with the files that it inherits; folder: the job's. */
static enum status spawn_with(struct supervisor *supervisor, const struct job_record *record, const char *folder,
                              struct process_options *options, struct process *out)
{
    struct command_line line = {0};
    struct job_files files = {.most_bytes = supervisor->options.n_log_most};
    bool inherits = own_files_are(folder);
    enum status status = inherits ? job_files_open(folder, record->n_worker, &files) : STATUS_OK;
    if (status == STATUS_OK) {
        status = command_line_make(supervisor->jobs, record, record->attempt + 1, &files, &line);
    }
    if (status == STATUS_OK) {
        options->argv = line.arguments.text;
        options->folder = line.folder;
        options->input = line.config;
        options->log = inherits ? NULL : options->log;
        options->out = options->err = inherits ? files.file[JOB_FILE_LOG] : -1;
        options->inherit = files.file;
        options->n_inherit = files.n;
        status = process_spawn(options, out);
    }
    job_files_close(&files);
    command_line_release(&line);
    return status;
}

enum status attempt_spawn(struct supervisor *supervisor, const struct job_record *record, uint64_t gpus,
                          struct process *out)
{
    char log[PATH_MAX + 16], folder[PATH_MAX], visible[GPUS_VISIBLE_BYTES];
    enum status status = jobs_folder_make(supervisor->jobs, record->id);
    if (status != STATUS_OK) {
        return status;
    }
    jobs_folder(supervisor->jobs, record->id, folder);
    snprintf(log, sizeof log, "%s/log", folder);
    gpus_visible(jobs_gpus(supervisor->jobs), gpus, visible);
    const struct cgroup_plan group = cgroup_of_attempt(supervisor, record);
    struct process_options options = {.made = cgroup_begin,
                                      .context = &group,
                                      .uid = record->uid,
                                      .gid = record->gid,
                                      .pass_environment = supervisor->options.pass_environment,
                                      .gpus = visible,
                                      .log = log};
    return spawn_with(supervisor, record, folder, &options, out);
}

void attempt_files_check(struct attempt *attempt)
{
    char name[NAME_MAX + 1];
    int64_t n_most = attempt->supervisor->options.n_log_most;
    int64_t n = attempt->is_gone ? 0 : own_files_largest(attempt->paths.folder, name);
    if (n <= n_most) {
        return;
    }
    if (attempt->stopping == JOB_REASON_NONE) {
        snprintf(attempt->events.spoiled, sizeof attempt->events.spoiled,
                 "'%s' in its folder has %lld bytes, more than the %lld that a job may write there (daemon.max_log)",
                 name, (long long)n, (long long)n_most);
        log_job_warn(attempt->id, attempt_number(attempt), "%s; it is stopped", attempt->events.spoiled);
        attempt_stop(attempt, JOB_REASON_LOG_LIMIT);
    }
    if (n - n_most > n_most / KILL_SHARE) {
        attempt->runner->kill(attempt);
    }
}

void attempt_files_cut(const struct attempt *attempt)
{
    if (own_files_are(attempt->paths.folder)) {
        own_files_cut(attempt->paths.folder, attempt->supervisor->options.n_log_most);
    }
}
