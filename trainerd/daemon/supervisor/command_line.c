/* Arguments of coordinators: the job's own settings, then the daemon's, which override them. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_OWN_MOST 20 /* arguments that are not the owner's settings */

static void add(struct command_line *line, size_t *n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(struct command_line *line, size_t *n, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int error = vasprintf(&line->argv[(*n)++], format, arguments);
    va_end(arguments);
    ASSERT(error >= 0);
}

/* What planning and training share: the text that was admitted, which no file of its owner replaces, and settings. */
static enum status begin(const struct jobs *jobs, const struct job_record *record, struct command_line *out,
                         size_t *n)
{
    struct store_submission submission;
    enum status status = store_submission_get(jobs_store(jobs), record->id, &submission);
    if (status != STATUS_OK) {
        return status;
    }
    *out = (struct command_line){.argv = memory_alloc(2 * submission.n_set + N_OWN_MOST, sizeof *out->argv),
                                 .folder = strdup(submission.folder),
                                 .config = strdup(submission.config)};
    ASSERT(out->folder != NULL && out->config != NULL);
    add(out, n, "trainer-coordinator");
    add(out, n, "--config");
    add(out, n, "-");
    for (size_t i = 0; i < submission.n_set; i++) {
        add(out, n, "--set");
        add(out, n, "%s", submission.set[i]);
    }
    add(out, n, "--set");
    add(out, n, "workers.count=%d", (int)record->n_worker);
    if (jobs_are_in_slurm(jobs)) {
        add(out, n, "--set");
        add(out, n, "workers.launcher=slurm");
    }
    if (record->plan.n_part > 0) {
        add(out, n, "--set");
        add(out, n, "partition.parts=%d", (int)record->plan.n_part);
    }
    store_submission_release(&submission);
    return STATUS_OK;
}

enum status command_line_make(const struct jobs *jobs, const struct job_record *record, int32_t attempt,
                              const struct job_files *files, struct command_line *out)
{
    size_t n = 0;
    enum status status = begin(jobs, record, out, &n);
    if (status == STATUS_OK) {
        char folder[PATH_MAX];
        jobs_folder(jobs, record->id, folder);
        add(out, &n, "--job-folder");
        add(out, &n, "%s", folder);
        add(out, &n, "--attempt");
        add(out, &n, "%d", (int)attempt);
        char text[JOB_FILES_TEXT_BYTES];
        job_files_print(files, text);
        add(out, &n, "--job-files");
        add(out, &n, "%s", text);
        if (record->run.checkpointed) {
            add(out, &n, "--resume");
        }
        if (jobs_are_in_slurm(jobs)) { /* the attempt before may still compute on a node that Slurm has lost */
            add(out, &n, "--wait");
        }
    }
    return status;
}

enum status command_line_plan(const struct jobs *jobs, const struct job_record *record, int64_t n_most,
                              struct command_line *out)
{
    size_t n = 0;
    enum status status = begin(jobs, record, out, &n);
    if (status == STATUS_OK) {
        add(out, &n, "--plan");
        add(out, &n, "--json");
        add(out, &n, "--plan-most");
        add(out, &n, "%lld", (long long)n_most);
        add(out, &n, "--parent");
        add(out, &n, "%d", (int)getpid());
    }
    return status;
}

void command_line_release(struct command_line *line)
{
    if (line->argv != NULL) {
        for (size_t i = 0; line->argv[i] != NULL; i++) {
            free(line->argv[i]);
        }
    }
    free(line->argv);
    free(line->folder);
    free(line->config);
    *line = (struct command_line){0};
}
