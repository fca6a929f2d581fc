/* Arguments of coordinators: the job's own settings, then the daemon's, which override them. */
#include "protocol/base/log.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What planning and training share: the text that was admitted, which no file of its owner replaces, and settings. */
static enum status begin(const struct jobs *jobs, const struct job_record *record, struct command_line *out)
{
    struct store_submission submission;
    enum status status = store_submission_get(jobs_store(jobs), record->id, &submission);
    if (status != STATUS_OK) {
        return status;
    }
    *out = (struct command_line){.folder = strdup(submission.folder), .config = strdup(submission.config)};
    ASSERT(out->folder != NULL && out->config != NULL);
    texts_add(&out->arguments, "trainer-coordinator");
    texts_add(&out->arguments, "--config");
    texts_add(&out->arguments, "-");
    for (size_t i = 0; i < submission.n_set; i++) {
        texts_add(&out->arguments, "--set");
        texts_add(&out->arguments, "%s", submission.set[i]);
    }
    texts_add(&out->arguments, "--set");
    texts_add(&out->arguments, "workers.count=%d", (int)record->n_worker);
    if (jobs_are_in_slurm(jobs)) {
        texts_add(&out->arguments, "--set");
        texts_add(&out->arguments, "workers.launcher=slurm");
    }
    if (record->plan.n_part > 0) {
        texts_add(&out->arguments, "--set");
        texts_add(&out->arguments, "partition.parts=%d", (int)record->plan.n_part);
    }
    store_submission_release(&submission);
    return STATUS_OK;
}

enum status command_line_make(const struct jobs *jobs, const struct job_record *record, int32_t attempt,
                              const struct job_files *files, struct command_line *out)
{
    enum status status = begin(jobs, record, out);
    if (status == STATUS_OK) {
        char folder[PATH_MAX];
        jobs_folder(jobs, record->id, folder);
        texts_add(&out->arguments, "--job-folder");
        texts_add(&out->arguments, "%s", folder);
        texts_add(&out->arguments, "--attempt");
        texts_add(&out->arguments, "%d", (int)attempt);
        char text[JOB_FILES_TEXT_BYTES];
        job_files_print(files, text);
        texts_add(&out->arguments, "--job-files");
        texts_add(&out->arguments, "%s", text);
        if (record->run.checkpointed) {
            texts_add(&out->arguments, "--resume");
        }
        if (jobs_are_in_slurm(jobs)) { /* the attempt before may still compute on a node that Slurm has lost */
            texts_add(&out->arguments, "--wait");
        }
    }
    return status;
}

enum status command_line_plan(const struct jobs *jobs, const struct job_record *record, int64_t n_most,
                              struct command_line *out)
{
    enum status status = begin(jobs, record, out);
    if (status == STATUS_OK) {
        texts_add(&out->arguments, "--plan");
        texts_add(&out->arguments, "--json");
        texts_add(&out->arguments, "--plan-most");
        texts_add(&out->arguments, "%lld", (long long)n_most);
        texts_add(&out->arguments, "--parent");
        texts_add(&out->arguments, "%d", (int)getpid());
    }
    return status;
}

void command_line_release(struct command_line *line)
{
    texts_free(line->arguments.text);
    free(line->folder);
    free(line->config);
    *line = (struct command_line){0};
}
