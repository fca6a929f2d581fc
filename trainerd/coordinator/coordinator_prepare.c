/* What a job needs no workers for: its file, its run's folder, its graph, parts and plan. */
#include "partition/methods/cover_cache.h"
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "trainerd/coordinator/contents.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/folder/report.h"
#include "trainerd/coordinator/machines/device_choice.h"
#include "trainerd/coordinator/machines/launcher.h"
#include "trainerd/coordinator/machines/room.h"
#include "worker/plan/memory_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Rules that involve both job and data. */
static enum status rules_check(struct coordinator *c)
{
    const struct dataset *dataset = &c->dataset;
    if (c->job.train.loss == JOB_LOSS_BCE && !dataset->multi_label) {
        return status_fail(STATUS_CONFIG,
                           "train.loss = \"bce\" is for several labels per node, dataset '%s' has one: "
                           "expected \"cross_entropy\"",
                           dataset->name);
    }
    if (c->job.train.loss == JOB_LOSS_CROSS_ENTROPY && dataset->multi_label) {
        return status_fail(STATUS_CONFIG,
                           "train.loss = \"cross_entropy\" is for one label per node, dataset '%s' has %d "
                           "label columns: expected \"bce\"",
                           dataset->name, (int)dataset->n_class);
    }
    if (c->job.train.label_smoothing > 0.0 && dataset->multi_label) {
        return status_fail(
            STATUS_CONFIG,
            "train.label_smoothing = %g is for one label per node, dataset '%s' has %d label columns, each of which "
            "is 0 or 1: expected 0",
            c->job.train.label_smoothing, dataset->name, (int)dataset->n_class);
    }
    if (c->job.train.patience > 0 && dataset->n_split[DATASET_SPLIT_VALID] == 0) {
        return status_fail(
            STATUS_CONFIG,
            "train.patience = %lld waits for a better valid %s, and dataset '%s' has no validation split: "
            "expected train.patience = 0, or a data set with such a split (valid_idx.npy)",
            (long long)c->job.train.patience,
            job_choice_text("train", "patience_monitor", c->job.train.patience_monitor), dataset->name);
    }
    if (c->job.train.lr_schedule == JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU && dataset->n_split[DATASET_SPLIT_VALID] == 0) {
        return status_fail(STATUS_CONFIG,
                           "train.lr_schedule = \"reduce_on_plateau\" waits for a better valid %s, and dataset '%s' "
                           "has no validation "
                           "split: expected another schedule, or a data set with such a split (valid_idx.npy)",
                           job_choice_text("train", "lr_monitor", c->job.train.lr_monitor), dataset->name);
    }
    enum status status = score_metrics(&c->job, dataset->multi_label, dataset->n_class, &c->training.metrics);
    for (int i = 0; status == STATUS_OK && i < c->training.metrics.n; i++) {
        c->progress.metric[i] = score_name(c->training.metrics.of[i]);
        c->progress.n_metric = i + 1;
    }
    return status;
}

/* All numbers, no arrays. */
static struct dataset sizes_of(const struct dataset *dataset)
{
    struct dataset sizes = {.n_node = dataset->n_node,
                            .n_edge = dataset->n_edge,
                            .n_feature = dataset->n_feature,
                            .n_class = dataset->n_class,
                            .multi_label = dataset->multi_label,
                            .regression = dataset->regression,
                            .symmetric = dataset->symmetric,
                            .n_relation = dataset->n_relation,
                            .weighted = dataset->weighted,
                            .n_edge_feature = dataset->n_edge_feature,
                            .loops = dataset->loops,
                            .n_duplicate = dataset->n_duplicate};
    memcpy(sizes.name, dataset->name, sizeof sizes.name);
    memcpy(sizes.n_split, dataset->n_split, sizeof sizes.n_split);
    sizes.splits = dataset->splits;
    return sizes;
}

static enum status program_make(const struct coordinator *c, bool stores, struct program *out)
{
    const struct dataset *dataset = &c->dataset;
    const struct program_input input = {.n_feature = dataset->n_feature,
                                        .n_class = dataset->n_class,
                                        .is_sparse = c->sparse_features,
                                        .is_typed = dataset->features_typed,
                                        .n_relation = dataset->n_relation,
                                        .n_edge_feature = dataset->n_edge_feature,
                                        .embedded = dataset->embedded,
                                        .stores = stores};
    return program_build(&c->job, &input, out);
}

enum status coordinator_program(struct coordinator *c)
{
    return program_make(c, false, &c->program);
}

/* A data set without labels is loaded for a model that has seen some. */
static enum status load_dataset(struct coordinator *c)
{
    enum status status = dataset_load(&c->job, &c->dataset);
    return status == STATUS_OK && job_predicts(&c->job) ? dataset_fit_model(&c->dataset, &c->source.model) : status;
}

static enum status choose_parts(struct coordinator *c)
{
    bool given = c->job.partition.parts > 0;
    enum status status = partition_parts_choose(&c->dataset, &c->job);
    if (status == STATUS_OK && !given) {
        progress_print(&c->progress, "%lld part%s%s, as partition.parts is not given",
                       (long long)c->job.partition.parts, c->job.partition.parts == 1 ? "" : "s",
                       c->job.partition.method == JOB_METHOD_FILE ? " in partition.file" : " by the graph's size");
    }
    return status;
}

/* Before any worker is started: other data than a checkpoint's are refused. */
static enum status find_contents(struct coordinator *c)
{
    if (c->options->plan || job_predicts(&c->job)) {
        return STATUS_OK;
    }
    contents_find(&c->job, &c->dataset, c->content);
    c->training.content = c->content;
    return c->options->resume ? contents_match(&c->checkpoint, &c->job, &c->dataset, c->content) : STATUS_OK;
}

static enum status load(struct coordinator *c)
{
    char text[PROGRESS_TEXT_BYTES], splits[REPORT_SPLIT_BYTES];
    enum status status = load_dataset(c);
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(LOAD);
    status = find_contents(c);
    if (status != STATUS_OK) {
        return status;
    }
    const struct dataset *dataset = &c->dataset;
    c->sparse_features = dataset->feature_indptr != NULL;
    c->facts = sizes_of(dataset);
    if (dataset->class_names != NULL) {
        c->facts.class_names = memcpy(c->class_names, dataset->class_names, strlen(dataset->class_names) + 1);
    }
    c->progress.is_of_numbers = dataset->regression;
    progress_duration(coordinator_phase_end(c, RESULT_PHASE_LOAD), text);
    progress_print(&c->progress, "%s: loaded %s: %lld nodes, %lld edges, %lld features, %d %s (%s)", c->job.job.name,
                   dataset->name, (long long)dataset->n_node, (long long)dataset->n_edge,
                   (long long)dataset->n_feature, (int)dataset->n_class, report_outputs(dataset), text);
    if (dataset->n_edge_feature > 0) {
        progress_print(&c->progress, "edges have %lld feature%s each", (long long)dataset->n_edge_feature,
                       dataset->n_edge_feature == 1 ? "" : "s");
    }
    report_split_text(&c->facts, splits);
    progress_print(&c->progress, "%s", splits);
    status = choose_parts(c);
    status = status == STATUS_OK ? rules_check(c) : status;
    status = status == STATUS_OK ? splits_keep(dataset, &c->drawn) : status;
    return status == STATUS_OK ? coordinator_program(c) : status;
}

/* Covers that save less than this share of the rows are not worth their sums. */
#define COVER_LEAST 0.05

static struct part_cover_input cover_input(const struct coordinator *c, const struct program *program,
                                           const int32_t *rank_of_part, uint32_t n_rank)
{
    struct part_cover_input out = {
        .dataset = &c->dataset, .partition = &c->partition, .rank_of_part = rank_of_part, .n_rank = n_rank};
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        out.hops[d] = memory_plan_hops(program, (enum part_direction)d, c->partition.n_hop);
    }
    return out;
}

/* Are features of halo rows stored with the parts where there are so many workers? */
static bool stores(const struct coordinator *c, uint32_t n_worker)
{
    const struct dataset *dataset = &c->dataset;
    return memory_plan_stores(&c->job, &c->program, dataset->embedded.n_run > 0, dataset->n_node, c->quality.n_halo,
                              n_worker);
}

/* Cover the pairs of parts of a program where that sends fewer rows, were each part on a worker of its own.
 * *share_out: of the rows that travel without. */
static enum status cover_program(struct coordinator *c, const struct program *program, double *share_out)
{
    struct part_cover_rows rows;
    int32_t *own_rank = memory_alloc((size_t)c->partition.n_part, sizeof *own_rank);
    for (int32_t p = 0; p < c->partition.n_part; p++) {
        own_rank[p] = p;
    }
    const struct part_cover_input input = cover_input(c, program, own_rank, (uint32_t)c->partition.n_part);
    enum status status = cover_cache_count(&input, &c->job, &c->shared, &rows);
    *share_out = status == STATUS_OK && rows.n_halo > 0 ? (double)rows.n_cover / (double)rows.n_halo : 1.0;
    free(own_rank);
    c->partition.covered = *share_out <= 1.0 - COVER_LEAST;
    return status;
}

/* Decide on covers by the program of several workers, however many there are: covers change bits, and inputs that one worker does not
 * store are stored where there are others. */
static enum status cover(struct coordinator *c, double *share_out)
{
    struct program several;
    enum status status = program_make(c, stores(c, 2), &several);
    *share_out = 1.0;
    if (status == STATUS_OK) {
        bool may = memory_plan_covers(&c->job, &several) && c->dataset.n_relation == 0 && c->partition.n_part > 1;
        status = may ? cover_program(c, &several, share_out) : STATUS_OK;
        program_release(&several);
    }
    return status;
}

/* Store features of halo rows with the parts, where the first layer then sends nothing. */
static void store(struct coordinator *c)
{
    c->partition.stores = stores(c, (uint32_t)c->job.workers.count);
    if (c->partition.stores) {
        program_store(&c->program);
    }
}

/* Assign parts to workers, and count what the parts of each take together. */
static enum status place(struct coordinator *c)
{
    uint32_t n_worker = (uint32_t)c->job.workers.count;
    bool shares = memory_plan_shares(&c->job, &c->program, c->partition.n_part, n_worker, c->partition.covered);
    c->rank_of_part = memory_alloc((size_t)c->partition.n_part, sizeof *c->rank_of_part);
    partition_place(c->partition.n_part, c->sizes, (int32_t)n_worker, c->rank_of_part);
    if (c->shared.n_part > 0 && !(shares && c->partition.covered && (uint32_t)c->partition.n_part == n_worker)) {
        part_shared_release(&c->shared); /* counted to see what it would save */
    }
    if (!shares || c->shared.n_part > 0) {
        return STATUS_OK;
    }
    struct part_cover_rows rows;
    const struct part_cover_input input = cover_input(c, &c->program, c->rank_of_part, n_worker);
    enum status status = c->partition.covered
                             ? cover_cache_count(&input, &c->job, &c->shared, &rows)
                             : part_shared_build(&c->dataset, &c->partition, c->rank_of_part, n_worker, &c->shared);
    c->shared.spreads = memory_plan_spreads(&c->program);
    return status;
}

enum status coordinator_count(struct coordinator *c, double *cover_share_out)
{
    enum status status = prune_build(&c->job, &c->dataset, &c->program, &c->partition, &c->prune);
    if (status == STATUS_OK) {
        store(c);
    }
    status = status == STATUS_OK ? part_sizes_build(&c->dataset, &c->partition, &c->sizes) : status;
    status = status == STATUS_OK ? cover(c, cover_share_out) : status;
    return status == STATUS_OK ? place(c) : status;
}

/* A daemon gives planning so much: where more is needed it hears how much, and starts it again when there is as much. */
static enum status check_planning(const struct coordinator *c)
{
    int64_t most = c->options->plan_most, own = memory_resident_own();
    int64_t need = own + partition_metis_bytes(&c->dataset, &c->job);
    if (most == 0 || need <= most || (own <= most && partition_is_kept(&c->dataset, &c->job))) {
        return STATUS_OK;
    }
    need += need / 16; /* so that what differs from one start to the next does not make it too little again */
    printf("{\"planning_bytes\":%lld}\n", (long long)need);
    fflush(stdout);
    return status_fail(
        STATUS_NOMEM, "planning it takes %lld bytes, cutting its graph included, more than the %lld that it may take",
        (long long)need, (long long)most);
}

/* Of this process, without files that it has mapped, or of METIS's, which has the graph, too. */
static int64_t peak_bytes(void)
{
    struct rusage children;
    int64_t own = memory_resident_peak() - (memory_resident() - memory_resident_own());
    int64_t metis = getrusage(RUSAGE_CHILDREN, &children) == 0 ? 1024 * (int64_t)children.ru_maxrss : 0;
    return own > metis ? own : metis;
}

static enum status cut(struct coordinator *c)
{
    enum status status = check_planning(c);
    status = status == STATUS_OK ? partition_build(&c->dataset, &c->job, &c->partition) : status;
    c->partition_bytes = peak_bytes();
    FAULT(PARTITION);
    double share;
    status = status == STATUS_OK ? partition_measure(&c->dataset, &c->partition, &c->quality) : status;
    status = status == STATUS_OK ? coordinator_count(c, &share) : status;
    if (status == STATUS_OK) {
        char text[PROGRESS_TEXT_BYTES];
        progress_duration(coordinator_phase_end(c, RESULT_PHASE_PARTITION), text);
        progress_print(&c->progress,
                       "%d part%s: %lld edges cut, halo ratio %.3f, imbalance %.3f nodes, %.3f edges (%s)",
                       (int)c->partition.n_part, c->partition.n_part == 1 ? "" : "s", (long long)c->quality.n_cut,
                       c->quality.halo_ratio, c->quality.imbalance_node, c->quality.imbalance_edge, text);
        if (c->partition.stores) {
            progress_print(&c->progress,
                           "inputs: features of the halo rows are stored with each part, their layer sends nothing");
        }
        if (c->shared.sums[PART_DIRECTION_IN] != NULL) {
            progress_print(&c->progress, "covers: %.0f %% of the halo rows travel, as rows or as sums",
                           100.0 * share);
        }
    }
    return status;
}

struct plan_input coordinator_plan_input(const struct coordinator *c)
{
    return (struct plan_input){.job = &c->job,
                               .dataset = &c->facts,
                               .sparse_features = c->sparse_features,
                               .n_part = c->partition.n_part,
                               .quality = &c->quality,
                               .sizes = c->sizes,
                               .program = &c->program,
                               .prune = &c->prune,
                               .rank_of_part = c->rank_of_part,
                               .shared = c->shared.n_part > 0 ? &c->shared : NULL,
                               .partition_bytes = c->partition_bytes,
                               .steps = c->options->steps};
}

static int64_t memory_planned(const struct plan *plan)
{
    int64_t all = 0;
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        all += plan->worker[rank].total;
    }
    return all;
}

/* The model that the job predicts with, and the job that comes of both. */
static enum status read_model(struct coordinator *c)
{
    if (c->options->resume) {
        return status_fail(STATUS_USAGE, "a prediction has no checkpoints: expected no --resume, it begins again");
    }
    enum status status = model_source_open(c->job.predict.model, &c->source);
    if (status == STATUS_OK) {
        model_source_apply(&c->source, &c->job);
        progress_print(&c->progress, "%s: predicting with '%s', %s of %lld layers", c->job.job.name,
                       c->source.weights, job_choice_text("model", "kind", c->job.model.kind),
                       (long long)c->job.model.layers);
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
    status = status == STATUS_OK ? job_home(&c->job) : status;
    if (status != STATUS_OK) {
        return status;
    }
    for (const char *line = job_remarks(); *line != '\0'; line = strchr(line, '\n') + 1) {
        progress_print(&c->progress, "%.*s", (int)strcspn(line, "\n"), line);
    }
    status = job_predicts(&c->job) ? read_model(c) : STATUS_OK;
    status = status == STATUS_OK ? launcher_settle(!options->plan, &c->job) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (c->run.home[0] != '\0') {
        return STATUS_OK;
    }
    status = run_folder_init(&c->run, &c->job, options->folder, options->files);
    if (options->memo != NULL) { /* of a coordinator that has died */
        memcpy(c->run.dir, options->memo->dir, sizeof c->run.dir);
        memcpy(c->run.base, options->memo->base, sizeof c->run.base);
    }
    return status;
}

/* What a checkpoint has of each part, where epochs keep payloads, or what was lost of them. */
static void kept_count(struct coordinator *c)
{
    struct step_lists lists;
    struct kept_list kept;
    struct feedback_list feedback;
    step_lists_lower(&c->program, &lists);
    kept_list_build(&c->program, &lists.phase[STEP_PHASE_TRAIN], &kept);
    feedback_list_build(&c->program, &lists.phase[STEP_PHASE_TRAIN], &feedback);
    bool any = kept.n + feedback.n > 0;
    c->n_kept = any ? memory_alloc((size_t)c->partition.n_part, sizeof *c->n_kept) : NULL;
    for (int32_t part = 0; any && part < c->partition.n_part; part++) {
        const struct part_halo *own = &c->sizes[part].halo;
        c->n_kept[part] = kept_list_floats(&kept, own) + feedback_list_floats(&feedback, own);
    }
    c->training.n_kept = c->n_kept;
    kept_list_release(&kept);
    feedback_list_release(&feedback);
    step_lists_release(&lists);
}

/* The run's folder, where an earlier attempt or a run to resume has one. */
static enum status find_folder(struct coordinator *c)
{
    const struct coordinator_options *options = c->options;
    enum status status = options->plan ? STATUS_OK : run_folder_lock(&c->run);
    status = status == STATUS_OK ? run_folder_find(&c->run, options->attempt, options->resume) : status;
    status = status == STATUS_OK && job_predicts(&c->job) ? coordinator_spare_model(c) : status;
    return status == STATUS_OK && !options->plan ? run_folder_check(&c->run) : status;
}

static enum status load_checkpoint(struct coordinator *c)
{
    char folder[PATH_MAX];
    enum status status = run_folder_checkpoint(&c->run, folder);
    status = status == STATUS_OK ? checkpoint_load(folder, INT64_MAX, &c->checkpoint) : status;
    status = status == STATUS_OK ? checkpoint_match(&c->checkpoint, &c->job) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (c->checkpoint.warning[0] != '\0') {
        progress_print(&c->progress, "warning: %s; continuing from epoch %lld", c->checkpoint.warning,
                       (long long)c->checkpoint.state.n_epoch);
    }
    progress_print(&c->progress, "resuming '%s' after %lld epoch%s", c->checkpoint.path,
                   (long long)c->checkpoint.state.n_epoch, c->checkpoint.state.n_epoch == 1 ? "" : "s");
    return STATUS_OK;
}

enum status coordinator_prepare(struct coordinator *c)
{
    const struct coordinator_options *options = c->options;
    enum status status = read_job(c);
    status = status == STATUS_OK ? find_folder(c) : status;
    if (status != STATUS_OK || c->run.is_done) {
        return status;
    }
    status = options->resume ? load_checkpoint(c) : status;
    status = status == STATUS_OK ? device_choose(options->resume ? &c->checkpoint : NULL, !options->plan, &c->job)
                                 : status;
    status = status == STATUS_OK ? launcher_limit(&c->job) : status;
    status = status == STATUS_OK && !options->plan ? room_check(&c->job) : status;
    status = status == STATUS_OK ? load(c) : status;
    status = status == STATUS_OK ? cut(c) : status;
    if (status == STATUS_OK) {
        status = embeddings_build(&c->dataset, &c->partition, c->sizes, &c->program, &c->embeddings);
        c->training.n_embedding = c->embeddings.n_float;
        kept_count(c);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct plan_input input = coordinator_plan_input(c);
    status = plan_build(&input, &c->plan);
    if (status == STATUS_OK) {
        events_plan(c->events, memory_planned(&c->plan), c->plan.n_worker);
    }
    return status;
}
