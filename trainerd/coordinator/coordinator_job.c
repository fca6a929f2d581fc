/* A job before its graph: its file, its model, its run's folder, its checkpoint, and what the machine has for it. */
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/machines/device_choice.h"
#include "trainerd/coordinator/machines/launcher.h"
#include "trainerd/coordinator/machines/room.h"

#include <string.h>
#include <unistd.h>

/* What the job wants that its model cannot give. */
static enum status check_model(const struct coordinator *c)
{
    bool of_links = job_predicts_links(&c->job);
    if (c->job.output.probabilities && (job_regresses(&c->job) || of_links)) {
        return status_fail(STATUS_CONFIG,
                           "output.probabilities does not go with '%s': its model gives numbers, and those have no "
                           "classes",
                           c->source.weights);
    }
    if (job_asks_links(&c->job) && !of_links) {
        return status_fail(STATUS_CONFIG,
                           "predict.%s does not go with '%s', a model of nodes: expected one that was trained with "
                           "task.kind = \"link\"",
                           c->job.predict.pairs[0] != '\0' ? "pairs" : "nodes", c->source.weights);
    }
    if (c->job.predict.relation >= 0 && !job_scores_relations(&c->job)) {
        return status_fail(STATUS_CONFIG,
                           "predict.relation does not go with '%s', whose scores know no relations: expected a model "
                           "whose task.decoder reads them, as \"distmult\" does",
                           c->source.weights);
    }
    return STATUS_OK;
}

/* The model that the job predicts with, and the job that comes of both. */
static enum status read_model(struct coordinator *c)
{
    if (!job_predicts(&c->job)) {
        return STATUS_OK;
    }
    if (c->options->resume) {
        return status_fail(STATUS_USAGE, "a prediction has no checkpoints: expected no --resume, it begins again");
    }
    enum status status = model_source_open(c->job.predict.model, &c->job, &c->source);
    if (status == STATUS_OK) {
        model_source_apply(&c->source, &c->job);
        status = check_model(c);
    }
    if (status == STATUS_OK) {
        progress_print(&c->progress, "%s: predicting with '%s', %s of %lld layers%s", c->job.job.name,
                       c->source.weights, job_choice_text("model", "kind", c->job.model.kind),
                       (long long)c->job.model.layers, c->source.foreign ? " as in the job's [model]" : "");
    }
    return status;
}

static enum status read_job(struct coordinator *c)
{
    const struct coordinator_options *options = c->options;
    enum status status;
    if (strcmp(options->config, "-") == 0) {
        status = job_load_file(STDIN_FILENO, "job.toml", options->set, options->n_set, &c->job);
        lseek(STDIN_FILENO, 0, SEEK_END); /* workers inherit it: there is nothing more to read */
    } else {
        status = job_load(options->config, options->set, options->n_set, &c->job);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return job_home(&c->job);
}

static enum status print_remarks(struct coordinator *c)
{
    for (const char *line = job_remarks(); *line != '\0'; line = strchr(line, '\n') + 1) {
        progress_print(&c->progress, "%.*s", (int)strcspn(line, "\n"), line);
    }
    return STATUS_OK;
}

/* Before anything is computed. */
static enum status find_tensorboard(struct coordinator *c)
{
    return c->job.output.tensorboard && !c->options->plan ? tensorboard_find(&c->tensorboard) : STATUS_OK;
}

static enum status settle_launcher(struct coordinator *c)
{
    return launcher_settle(!c->options->plan, &c->job);
}

static enum status init_folder(struct coordinator *c)
{
    const struct coordinator_options *options = c->options;
    if (c->run.home[0] != '\0') {
        return STATUS_OK;
    }
    enum status status = run_folder_init(&c->run, &c->job, options->folder, options->files);
    if (options->memo != NULL) { /* of a coordinator that has died */
        memcpy(c->run.dir, options->memo->dir, sizeof c->run.dir);
        memcpy(c->run.base, options->memo->base, sizeof c->run.base);
    }
    return status;
}

/* Lock output.dir, and find the run's folder, where an earlier attempt or a run to resume has one. */
static enum status find_folder(struct coordinator *c)
{
    enum status status = c->options->plan ? STATUS_OK : run_folder_lock(&c->run);
    if (status != STATUS_OK) {
        return status;
    }
    return run_folder_find(&c->run, c->options->attempt, c->options->resume);
}

static enum status check_folder(struct coordinator *c)
{
    return c->options->plan ? STATUS_OK : run_folder_check(&c->run);
}

static enum status load_checkpoint(struct coordinator *c)
{
    char folder[PATH_MAX];
    if (!c->options->resume) {
        return STATUS_OK;
    }
    enum status status = run_folder_checkpoint(&c->run, folder);
    if (status != STATUS_OK || (status = checkpoint_load(folder, INT64_MAX, &c->checkpoint)) != STATUS_OK ||
        (status = checkpoint_match(&c->checkpoint, &c->job)) != STATUS_OK) {
        return status;
    }
    if (c->checkpoint.warning[0] != '\0') {
        progress_print(&c->progress, "warning: %s; continuing from epoch %lld", c->checkpoint.warning,
                       (long long)c->checkpoint.state.n_epoch);
    }
    progress_print(&c->progress, "resuming '%s' after %s", c->checkpoint.path,
                   figure_count(c->checkpoint.state.n_epoch, "epoch").text);
    return STATUS_OK;
}

static enum status choose_device(struct coordinator *c)
{
    enum status status = device_choose(c->options->resume ? &c->checkpoint : NULL, !c->options->plan, &c->job);
    bool loads = status == STATUS_OK && c->options->roofline;
    return loads ? roofline_load(c->options->device, &c->job, &c->roofline) : status;
}

static enum status find_room(struct coordinator *c)
{
    enum status status = launcher_limit(&c->job);
    if (status == STATUS_OK && !c->options->plan && (status = room_for_tasks(&c->job)) == STATUS_OK) {
        status = room_check(&c->job);
    }
    return status;
}

enum status coordinator_open_job(struct coordinator *c)
{
    static coordinator_step *const steps[] = {read_job,        print_remarks, read_model,  find_tensorboard,
                                              settle_launcher, init_folder,   find_folder, coordinator_spare_model,
                                              check_folder,    NULL};
    return coordinator_steps(c, steps);
}

enum status coordinator_settle(struct coordinator *c)
{
    static coordinator_step *const steps[] = {load_checkpoint, choose_device, find_room, NULL};
    return coordinator_steps(c, steps);
}
