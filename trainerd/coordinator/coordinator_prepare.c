/* What a job needs no workers for: its graph, parts and plan. */
#include "partition/files/mapped.h"
#include "partition/methods/cover_cache.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/mistakes.h"
#include "trainerd/coordinator/contents.h"
#include "trainerd/coordinator/coordinator_state.h"
#include "trainerd/coordinator/folder/report.h"
#include "trainerd/coordinator/records/weights.h"
#include "worker/plan/memory_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Rules that involve both job and data. */
static enum status rules_check(struct coordinator *c)
{
    const struct dataset *dataset = &c->dataset;
    const bool has_valid = dataset_n_in_split(dataset, DATASET_SPLIT_VALID) > 0;
    const char *const valid = dataset->of_links ? "held-out edges (valid_edges.npy, or task.valid_share above 0)"
                                                : "such a split (valid_idx.npy)";
    if (c->job.train.loss == JOB_LOSS_BCE && !dataset->facts.multi_label && !dataset->of_links) {
        return status_fail(STATUS_CONFIG,
                           "train.loss = \"bce\" is for several labels per node, dataset '%s' has one: "
                           "expected \"cross_entropy\"",
                           dataset->name);
    }
    if (c->job.train.loss == JOB_LOSS_CROSS_ENTROPY && dataset->facts.multi_label) {
        return status_fail(STATUS_CONFIG,
                           "train.loss = \"cross_entropy\" is for one label per node, dataset '%s' has %d "
                           "label columns: expected \"bce\"",
                           dataset->name, (int)dataset->facts.n_class);
    }
    if (c->job.train.label_smoothing > 0.0 && dataset->facts.multi_label) {
        return status_fail(
            STATUS_CONFIG,
            "train.label_smoothing = %g is for one label per node, dataset '%s' has %d label columns, each of which "
            "is 0 or 1: expected 0",
            c->job.train.label_smoothing, dataset->name, (int)dataset->facts.n_class);
    }
    if (c->job.train.patience > 0 && !has_valid) {
        return status_fail(
            STATUS_CONFIG,
            "train.patience = %lld waits for a better valid %s, and dataset '%s' has no validation split: "
            "expected train.patience = 0, or a data set with %s",
            (long long)c->job.train.patience,
            job_choice_text("train", "patience_monitor", c->job.train.patience_monitor), dataset->name, valid);
    }
    if (c->job.train.lr_schedule == JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU && !has_valid) {
        return status_fail(STATUS_CONFIG,
                           "train.lr_schedule = \"reduce_on_plateau\" waits for a better valid %s, and dataset '%s' "
                           "has no validation split: expected another schedule, or a data set with %s",
                           job_choice_text("train", "lr_monitor", c->job.train.lr_monitor), dataset->name, valid);
    }
    enum status status = score_metrics(&c->job, dataset->facts.multi_label, dataset->facts.n_class,
                                       &c->training.metrics);
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
                            .facts = dataset->facts,
                            .regression = dataset->regression,
                            .of_links = dataset->of_links,
                            .n_duplicate = dataset->n_duplicate};
    memcpy(sizes.name, dataset->name, sizeof sizes.name);
    memcpy(sizes.labels.n_split, dataset->labels.n_split, sizeof sizes.labels.n_split);
    sizes.labels.splits = dataset->labels.splits;
    for (int split = 0; split < LINKS_SPLIT_N; split++) {
        sizes.links.held[split].positive.n = dataset->links.held[split].positive.n;
    }
    memcpy(sizes.links.how, dataset->links.how, sizeof sizes.links.how);
    return sizes;
}

static enum status program_make(const struct coordinator *c, bool stores, FILE *passes, struct program *out)
{
    const struct program_input input = {.facts = c->dataset.facts,
                                        .is_sparse = c->sparse_features,
                                        .embedded = c->dataset.features.embedded,
                                        .stores = stores,
                                        .passes = passes};
    return program_build(&c->job, &input, out);
}

enum status coordinator_program(struct coordinator *c)
{
    return program_make(c, false, NULL, &c->program);
}

enum status coordinator_passes(const struct coordinator *c, char **out)
{
    struct program again;
    size_t n = 0;
    FILE *file = open_memstream(out, &n);
    ASSERT(file != NULL);
    enum status status = program_make(c, false, file, &again);
    fclose(file);
    if (status == STATUS_OK) {
        program_release(&again);
    }
    return status;
}

enum status coordinator_steps(struct coordinator *c, coordinator_step *const *step)
{
    enum status status = STATUS_OK;
    for (; *step != NULL && status == STATUS_OK; step++) {
        status = (*step)(c);
    }
    return status;
}

enum status coordinator_load(struct coordinator *c)
{
    enum status status = dataset_load(&c->job, &c->dataset);
    c->sparse_features = c->dataset.features.indptr != NULL;
    return status;
}

/* A foreign model's classes: the sizes of its tensors, compared with those for two other numbers of classes, which
 * model.blocks and the usual numbers of heads divide. */
static enum status foreign_classes(struct coordinator *c, int64_t *out)
{
    struct program program[2];
    const int64_t one = c->job.model.blocks > 0 ? c->job.model.blocks : 720;
    const int32_t given = c->dataset.facts.n_class;
    enum status status = STATUS_OK;
    int n = 0;
    for (; n < 2 && status == STATUS_OK; n += status == STATUS_OK) {
        c->dataset.facts.n_class = (int32_t)((n + 1) * one);
        status = program_make(c, false, NULL, &program[n]);
    }
    c->dataset.facts.n_class = given;
    if (status == STATUS_OK) {
        status = weights_classes(&program[0], one, &program[1], 2 * one, c->source.weights, &c->job.names, out);
    }
    while (n > 0) {
        program_release(&program[--n]);
    }
    return status;
}

/* Without a tensor that tells its classes, the names of all are compared later. */
static enum status fit_foreign(struct coordinator *c)
{
    int64_t n_class = 0;
    enum status status = foreign_classes(c, &n_class);
    if (status != STATUS_OK) {
        return status;
    }
    bool fits = n_class > 0 && n_class <= INT32_MAX;
    return model_source_fit(&c->source, &c->dataset,
                            fits                           ? n_class
                            : c->dataset.facts.n_class > 0 ? c->dataset.facts.n_class
                                                           : 1);
}

/* A data set without labels is loaded for a model that has seen some. */
static enum status fit_model(struct coordinator *c)
{
    if (!job_predicts(&c->job)) {
        return STATUS_OK;
    }
    if (c->source.foreign) {
        enum status status = fit_foreign(c);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return dataset_fit_model(&c->dataset, &c->source.model);
}

static enum status read_asked(struct coordinator *c)
{
    return mapped_check(links_asked_read(&c->job, &c->dataset, &c->asked));
}

/* Before any worker is started. */
static enum status check_foreign(struct coordinator *c)
{
    if (!c->source.foreign) {
        return STATUS_OK;
    }
    enum status status = weights_check(&c->program, c->source.weights, &c->job.names);
    if (status != STATUS_DATA) {
        return status;
    }
    struct mistakes mistakes = {0};
    mistakes_take(&mistakes, status);
    mistakes_take(&mistakes,
                  status_fail(status, "expected the tensors of the job's [model], with the names in the file "
                                      "by [model.names] (docs/predict.md)"));
    return mistakes_end(&mistakes);
}

static enum status choose_parts(struct coordinator *c)
{
    bool given = c->job.partition.parts > 0;
    enum status status = partition_parts_choose(&c->dataset, &c->job);
    if (status == STATUS_OK && !given) {
        progress_print(&c->progress, "%s%s (partition.parts is not given)",
                       figure_count(c->job.partition.parts, "part").text,
                       c->job.partition.method == JOB_METHOD_FILE ? " in partition.file" : " by the graph's size");
    }
    return status;
}

static enum status count_graph(struct coordinator *c)
{
    const bool has_text = c->job.model.kind == JOB_KIND_PROGRAM || c->job.decoder[0] != '\0';
    if (has_text && job_predicts(&c->job) && !c->source.foreign) {
        c->dataset.facts.counts = c->source.model.counts;
    } else if (has_text) {
        dataset_count(&c->dataset, &c->dataset.facts.counts);
    }
    return STATUS_OK;
}

/* Before any worker is started: other data than a checkpoint's are refused. */
static enum status find_contents(struct coordinator *c)
{
    FAULT(LOAD);
    if (c->options->plan || job_predicts(&c->job)) {
        return STATUS_OK;
    }
    contents_find(&c->job, &c->dataset, c->content);
    c->training.content = c->content;
    return c->options->resume ? contents_match(&c->checkpoint, &c->job, &c->dataset, c->content) : STATUS_OK;
}

static enum status keep_facts(struct coordinator *c)
{
    const struct dataset *dataset = &c->dataset;
    c->sizes = sizes_of(dataset);
    if (dataset->labels.class_names != NULL) {
        c->sizes.labels.class_names = memcpy(c->class_names, dataset->labels.class_names,
                                             strlen(dataset->labels.class_names) + 1);
    }
    c->progress.is_of_numbers = dataset->regression;
    progress_print(&c->progress, "%s: loaded %s: %lld nodes, %lld edges, %lld features, %d %s (%s)", c->job.job.name,
                   dataset->name, (long long)dataset->n_node, (long long)dataset->n_edge,
                   (long long)dataset->facts.n_feature, (int)dataset->facts.n_class, report_outputs(dataset),
                   figure_seconds(coordinator_phase_end(c, RESULT_PHASE_LOAD)).text);
    if (dataset->facts.n_edge_feature > 0) {
        progress_print(&c->progress, "edges have %s each",
                       figure_count(dataset->facts.n_edge_feature, "feature").text);
    }
    progress_print(&c->progress, "%s", report_splits(&c->sizes).text);
    return STATUS_OK;
}

static enum status keep_splits(struct coordinator *c)
{
    return splits_keep(&c->dataset, &c->drawn);
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
    return memory_plan_stores(&c->job, &c->program, dataset->features.embedded.n_run > 0, dataset->n_node,
                              c->parts.quality.n_halo, n_worker);
}

/* Cover the pairs of parts of a program where that sends fewer rows, were each part on a worker of its own. */
static enum status cover_program(struct coordinator *c, const struct program *program)
{
    struct part_cover_rows rows;
    int32_t *own_rank = memory_alloc((size_t)c->partition.n_part, sizeof *own_rank);
    for (int32_t p = 0; p < c->partition.n_part; p++) {
        own_rank[p] = p;
    }
    const struct part_cover_input input = cover_input(c, program, own_rank, (uint32_t)c->partition.n_part);
    enum status status = cover_cache_count(&input, &c->job, &c->parts.dedup, &rows);
    bool counted = status == STATUS_OK && rows.n_halo > 0;
    c->parts.cover_share = counted ? (double)rows.n_cover / (double)rows.n_halo : 1.0;
    free(own_rank);
    c->partition.covered = c->parts.cover_share <= 1.0 - COVER_LEAST;
    return status;
}

/* Decide on covers by the program of several workers, however many there are: covers change bits, and inputs that one
 * worker does not store are stored where there are others. */
static enum status cover(struct coordinator *c)
{
    struct program several;
    enum status status = program_make(c, stores(c, 2), NULL, &several);
    c->parts.cover_share = 1.0;
    if (status == STATUS_OK) {
        bool may = memory_plan_covers(&c->job, &several) && c->dataset.facts.n_relation == 0 &&
                   c->partition.n_part > 1;
        status = may ? cover_program(c, &several) : STATUS_OK;
        program_release(&several);
    }
    return status;
}

/* Store features of halo rows with the parts, where the first layer then sends nothing. */
static enum status store(struct coordinator *c)
{
    c->partition.stores = stores(c, (uint32_t)c->job.workers.count);
    if (c->partition.stores) {
        program_store(&c->program);
    }
    return STATUS_OK;
}

static enum status prune(struct coordinator *c)
{
    return prune_build(&c->job, &c->dataset, &c->program, &c->partition, &c->parts.prune);
}

static enum status count_sizes(struct coordinator *c)
{
    return part_sizes_build(&c->dataset, &c->partition, &c->parts.sizes);
}

/* Assign parts to workers, and count what the parts of each take together. */
static enum status place(struct coordinator *c)
{
    uint32_t n_worker = (uint32_t)c->job.workers.count;
    bool shares = memory_plan_dedups(&c->job, &c->program, c->partition.n_part, n_worker, c->partition.covered);
    c->parts.rank_of_part = memory_alloc((size_t)c->partition.n_part, sizeof *c->parts.rank_of_part);
    partition_place(c->partition.n_part, c->parts.sizes, (int32_t)n_worker, c->parts.rank_of_part);
    if (c->parts.dedup.n_part > 0 && !(shares && c->partition.covered && (uint32_t)c->partition.n_part == n_worker)) {
        part_dedup_release(&c->parts.dedup); /* counted to see what it would save */
    }
    if (!shares || c->parts.dedup.n_part > 0) {
        return STATUS_OK;
    }
    struct part_cover_rows rows;
    const struct part_cover_input input = cover_input(c, &c->program, c->parts.rank_of_part, n_worker);
    enum status status = c->partition.covered ? cover_cache_count(&input, &c->job, &c->parts.dedup, &rows)
                                              : part_dedup_build(&c->dataset, &c->partition, c->parts.rank_of_part,
                                                                 n_worker, &c->parts.dedup);
    c->parts.dedup.scatters = memory_plan_scatters(&c->program);
    return status;
}

enum status coordinator_count(struct coordinator *c)
{
    static coordinator_step *const steps[] = {prune, store, count_sizes, cover, place, NULL};
    return coordinator_steps(c, steps);
}

/* The daemon limits what planning may take. Print the need where it is more: the daemon starts the plan again. */
static enum status check_planning(struct coordinator *c)
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

/* The parts, and their quality. */
static enum status cut(struct coordinator *c)
{
    enum status status = partition_build(&c->dataset, &c->job, &c->partition);
    c->parts.n_bytes = peak_bytes();
    FAULT(PARTITION);
    if (status != STATUS_OK) {
        return status;
    }
    return partition_measure(&c->dataset, &c->partition, &c->parts.quality);
}

static enum status report_parts(struct coordinator *c)
{
    const struct partition_quality *quality = &c->parts.quality;
    progress_print(&c->progress, "%s: %lld edges cut, halo ratio %.3f, imbalance %.3f nodes, %.3f edges (%s)",
                   figure_count(c->partition.n_part, "part").text, (long long)quality->n_cut, quality->halo_ratio,
                   quality->imbalance_node, quality->imbalance_edge,
                   figure_seconds(coordinator_phase_end(c, RESULT_PHASE_PARTITION)).text);
    if (c->partition.stores) {
        progress_print(&c->progress, "inputs: each part has a copy of the features that it reads%s",
                       c->job.workers.count > 1 ? ", so the first layer sends nothing"
                                                : "; one worker saves no bytes by it (exchange.store_inputs)");
    }
    if (c->parts.dedup.sums[PART_DIRECTION_IN] != NULL) {
        progress_print(&c->progress, "covers: %.0f %% of the halo rows are sent, as rows or as sums",
                       100.0 * c->parts.cover_share);
    }
    return STATUS_OK;
}

struct plan_input coordinator_plan_input(const struct coordinator *c)
{
    return (struct plan_input){.job = &c->job,
                               .dataset = &c->sizes,
                               .sparse_features = c->sparse_features,
                               .n_part = c->partition.n_part,
                               .quality = &c->parts.quality,
                               .sizes = c->parts.sizes,
                               .program = &c->program,
                               .prune = &c->parts.prune,
                               .rank_of_part = c->parts.rank_of_part,
                               .dedup = c->parts.dedup.n_part > 0 ? &c->parts.dedup : NULL,
                               .partition_bytes = c->parts.n_bytes,
                               .steps = c->options->steps,
                               .roofline = c->options->roofline ? &c->roofline : NULL};
}

static int64_t memory_planned(const struct plan *plan)
{
    int64_t all = 0;
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        all += plan->worker[rank].total;
    }
    return all;
}

/* What a checkpoint has of each part, where epochs keep payloads, or what was lost of them. */
static void kept_count(struct coordinator *c)
{
    struct step_lists lists;
    struct stale_list stale;
    struct feedback_list feedback;
    step_lists_lower(&c->program, &lists);
    stale_list_build(&c->program, &lists.phase[STEP_PHASE_TRAIN], &stale);
    feedback_list_build(&c->program, &lists.phase[STEP_PHASE_TRAIN], &feedback);
    bool any = stale.n + feedback.n > 0;
    c->parts.n_buffer = any ? memory_alloc((size_t)c->partition.n_part, sizeof *c->parts.n_buffer) : NULL;
    for (int32_t part = 0; any && part < c->partition.n_part; part++) {
        const struct part_halo *own = &c->parts.sizes[part].halo;
        c->parts.n_buffer[part] = stale_list_floats(&stale, own) + feedback_list_floats(&feedback, own);
    }
    c->training.floats.n_buffer = c->parts.n_buffer;
    stale_list_release(&stale);
    feedback_list_release(&feedback);
    step_lists_release(&lists);
}

static enum status count_floats(struct coordinator *c)
{
    enum status status = embeddings_build(&c->dataset, &c->partition, c->parts.sizes, &c->program, &c->embeddings);
    c->training.floats.n_embedding = c->embeddings.n_float;
    kept_count(c);
    return status;
}

static enum status make_plan(struct coordinator *c)
{
    const struct plan_input input = coordinator_plan_input(c);
    enum status status = plan_build(&input, &c->plan);
    if (status == STATUS_OK) {
        events_plan(c->events, memory_planned(&c->plan), c->plan.n_worker);
    }
    return status;
}

enum status coordinator_prepare(struct coordinator *c)
{
    static coordinator_step *const steps[] = {
        coordinator_settle, coordinator_load,    count_graph,   fit_model,      read_asked,
        find_contents,      keep_facts,          choose_parts,  rules_check,    coordinator_check_post,
        keep_splits,        coordinator_program, check_foreign, check_planning, cut,
        coordinator_count,  report_parts,        count_floats,  make_plan,      NULL};
    enum status status = coordinator_open_job(c);
    return status != STATUS_OK || c->run.is_done ? status : coordinator_steps(c, steps);
}

enum status coordinator_plan(struct coordinator *c)
{
    static coordinator_step *const steps[] = {coordinator_program, cut,       coordinator_count,
                                              count_floats,        make_plan, NULL};
    c->sizes = sizes_of(&c->dataset);
    return coordinator_steps(c, steps);
}
