/* A plan as text for people and as JSON for programs. */
#include "trainerd/coordinator/plan/plan.h"

#include "protocol/base/log.h"
#include "trainerd/base/figure.h"
#include "trainerd/coordinator/epochs/guard.h"
#include "trainerd/coordinator/folder/report.h"
#include "trainerd/coordinator/plan/plan_steps.h"
#include "trainerd/coordinator/plan/plan_traffic.h"
#include "trainerd/coordinator/plan/roofline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows that a part takes from others, per layer. */
static int64_t halo_rows(const struct plan_input *in, int32_t part)
{
    const struct part_rows received = part_halo_received(&in->sizes[part].halo, PART_DIRECTION_IN, PART_N_HOP_MOST);
    return part_rows_all(&received);
}

static void print_parts(const struct plan_input *in, FILE *file)
{
    fprintf(file, "\n%6s %7s %12s %14s %12s %7s %10s\n", "part", "worker", "nodes", "edges", "halo rows", "halo",
            "size");
    for (int32_t part = 0; part < in->n_part; part++) {
        const struct part_sizes *sizes = &in->sizes[part];
        int64_t halo = halo_rows(in, part);
        fprintf(file, "%6" PRId32 " %7" PRId32 " %12" PRId64 " %14" PRId64 " %12" PRId64 " %7.3f %10s\n", part,
                in->rank_of_part[part], sizes->n_own, sizes->n_edge, halo,
                sizes->n_own > 0 ? (double)halo / (double)sizes->n_own : 0.0, figure_bytes(sizes->n_bytes).text);
    }
}

/* memory.spill is for the host, the context for devices with memory of their own. */
static bool has_column(const struct plan *plan, int category)
{
    return category != (plan->apart ? MEMORY_SPILL : MEMORY_CONTEXT);
}

static void print_workers(const struct plan *plan, FILE *file)
{
    fprintf(file, "\n%6s", "worker");
    for (int i = 0; i <= MEMORY_N; i++) {
        if (has_column(plan, i)) {
            fprintf(file, " %11s", memory_category_name((enum memory_category)i));
        }
    }
    fprintf(file, " %13s\n", "wire/epoch");
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        const struct plan_worker *worker = &plan->worker[rank];
        fprintf(file, "%6" PRId32, rank);
        for (int i = 0; i <= MEMORY_N; i++) {
            if (has_column(plan, i)) {
                fprintf(file, " %11s", figure_bytes(i < MEMORY_N ? worker->bytes[i] : worker->total).text);
            }
        }
        fprintf(file, " %13s\n", figure_bytes(worker->n_wire).text);
    }
}

/* Where these bytes are a GPU's: those of the host besides. */
static void print_host(const struct plan *plan, FILE *file)
{
    if (!plan->apart) {
        return;
    }
    fputs("       of GPU memory; context (CUDA itself) is an estimate until the GPU is opened\n", file);
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        fprintf(file, "%6" PRId32 " and of host memory %s pinned, %s other\n", rank,
                figure_bytes(memory_sum(plan->worker[rank].pinned)).text,
                figure_bytes(memory_sum(plan->worker[rank].host)).text);
    }
}

/* Where codecs change over the epochs. */
static void print_stages(const struct plan *plan, FILE *file)
{
    for (int s = 0; plan->n_stage > 1 && s < plan->n_stage; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        fprintf(file, "           %s in each of epochs %" PRId64 " to %" PRId64 " (%s)\n",
                figure_bytes(stage->n_wire).text, stage->of.epoch, stage->of.epoch + stage->of.n_epoch - 1,
                guard_codecs(&stage->of.level).text);
    }
}

static void print_guard(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    if (in->job->exchange.guard_every > 0) {
        fprintf(file, "           %s more in one epoch of %" PRId64 ", which also computes the exact gradient\n",
                figure_bytes(plan->n_wire_guard).text, in->job->exchange.guard_every);
    }
}

static void print_again(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    bool may_be_more = plan->apart && in->job->memory.recompute == JOB_RECOMPUTE_AUTO;
    fprintf(file, "\nrecomputed in backward (memory.recompute = \"%s\"%s)\n",
            job_choice_text("memory", "recompute", in->job->memory.recompute),
            may_be_more ? "; more where the GPU is too small" : "");
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        bool any = false;
        fprintf(file, "%6" PRId32 "  ", rank);
        for (int i = 0; i < in->program->n_op; i++) {
            if (plan->worker[rank].again[i]) {
                fprintf(file, "%s%d", any ? ", " : "ops ", i);
                any = true;
            }
        }
        fputs(any ? "\n" : "nothing\n", file);
    }
}

/* What lies in host memory between forward and backward. */
static void print_offload(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    if (!plan->apart) {
        return;
    }
    fprintf(file, "\nin host memory between forward and backward (memory.offload = \"%s\"%s)\n",
            job_choice_text("memory", "offload", in->job->memory.offload),
            in->job->memory.offload == JOB_OFFLOAD_AUTO ? "; more where the GPU is too small" : "");
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        const struct plan_worker *worker = &plan->worker[rank];
        fprintf(file, "%6" PRId32 "  %s, %s, copied twice an epoch\n", rank,
                figure_count(worker->n_home, "array").text, figure_bytes(worker->n_home_bytes).text);
    }
}

static void print_spill(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    for (int32_t rank = 0; rank < plan->n_worker && in->job->memory.spill[0] != '\0'; rank++) {
        const struct plan_worker *worker = &plan->worker[rank];
        fprintf(file, "spill      worker %" PRId32 ": %s in %s, %s of it in memory; %s would suffice\n", rank,
                figure_bytes(worker->n_spill).text, in->job->memory.spill,
                figure_bytes(worker->bytes[MEMORY_SPILL]).text, figure_bytes(worker->n_spill_least).text);
    }
}

/* What epochs move, and what they leave out. */
static void print_training(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    fprintf(file, "traffic    %s per epoch%s, %s more per evaluation\n", figure_bytes(plan->n_wire).text,
            in->program->lossy.samples || plan->n_stage > 1 || in->job->exchange.guard_every > 0 ? " on average" : "",
            figure_bytes(plan->n_wire_evaluate).text);
    print_stages(plan, file);
    print_guard(in, plan, file);
    fprintf(file, "left out   %.1f %% of an epoch's work (train.prune = \"%s\")\n", 100.0 * plan->left_out,
            job_choice_text("train", "prune", in->job->train.prune));
}

/* How few workers memory.limit allows. */
static void print_fewest(const struct plan_input *in, FILE *file)
{
    if (in->fewest != NULL && in->fewest->n_byte_below > 0) {
        fprintf(file, "workers    at least %" PRId32 ", by memory.limit: with fewer, one worker would need %s\n",
                in->fewest->n_worker, figure_bytes(in->fewest->n_byte_below).text);
    }
}

static enum status flushed(FILE *file)
{
    return fflush(file) == 0 && !ferror(file) ? STATUS_OK : status_fail(STATUS_IO, "cannot write the plan");
}

enum status plan_print(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    const struct dataset *dataset = in->dataset;
    bool predicts = in->program->forward_only;
    fprintf(file, "dataset    %s: %" PRId64 " nodes, %" PRId64 " edges, %" PRId64 " features, %" PRId32 " %s\n",
            dataset->name, dataset->n_node, dataset->n_edge, dataset->facts.n_feature, dataset->facts.n_class,
            report_outputs(dataset));
    fprintf(file, "           %s\n", report_splits(dataset).text);
    fprintf(file,
            "partition  %" PRId32 " parts by %s: %" PRId64 " edges cut, halo ratio %.3f, imbalance %.3f nodes, %.3f "
            "edges, %.3f halo\n",
            in->n_part, job_choice_text("partition", "method", in->job->partition.method), in->quality->n_cut,
            in->quality->halo_ratio, in->quality->imbalance_node, in->quality->imbalance_edge,
            in->quality->imbalance_halo);
    fprintf(file, "model      %s: %" PRId64 " weights, %.4g floating-point operations %s\n",
            job_choice_text("model", "kind", in->job->model.kind), program_n_weight(in->program), plan->n_flop,
            predicts ? "in all" : "per epoch");
    if (predicts) {
        fprintf(file, "traffic    %s, of one evaluation\n", figure_bytes(plan->n_wire_evaluate).text);
    } else {
        print_training(in, plan, file);
    }
    print_spill(in, plan, file);
    print_fewest(in, file);
    print_parts(in, file);
    print_workers(plan, file);
    print_host(plan, file);
    plan_traffic_print(in, plan, file);
    if (in->exact != NULL && plan->n_worker > 1) {
        plan_exact_print(in, plan, file);
    }
    if (!predicts) {
        print_again(in, plan, file);
        print_offload(in, plan, file);
    }
    if (in->passes != NULL) {
        fprintf(file, "\npasses\n%s", in->passes);
    }
    fputs("\nprogram\n", file);
    program_print(in->program, file);
    if (in->steps) {
        plan_steps_print(plan, file);
    }
    if (in->roofline != NULL) {
        roofline_print(in, plan, file);
    }
    return flushed(file);
}

static json_t *parts_json(const struct plan_input *in)
{
    json_t *all = json_array();
    for (int32_t part = 0; part < in->n_part; part++) {
        const struct part_sizes *sizes = &in->sizes[part];
        json_array_append_new(all, json_pack("{s:i, s:i, s:I, s:I, s:I, s:I}", "part", (int)part, "worker",
                                             (int)in->rank_of_part[part], "nodes", (json_int_t)sizes->n_own, "edges",
                                             (json_int_t)sizes->n_edge, "halo_rows", (json_int_t)halo_rows(in, part),
                                             "bytes", (json_int_t)sizes->n_bytes));
    }
    return all;
}

/* Numbers of the ops that run again. */
static json_t *again_json(const struct plan_input *in, const struct plan_worker *worker)
{
    json_t *all = json_array();
    for (int i = 0; i < in->program->n_op; i++) {
        if (worker->again[i]) {
            json_array_append_new(all, json_integer(i));
        }
    }
    return all;
}

static json_t *workers_json(const struct plan_input *in, const struct plan *plan)
{
    json_t *all = json_array();
    for (int32_t rank = 0; rank < plan->n_worker; rank++) {
        const struct plan_worker *worker = &plan->worker[rank];
        json_t *one = json_pack("{s:i, s:i, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I}", "worker", (int)rank, "parts",
                                (int)worker->n_part, "nodes", (json_int_t)worker->n_node, "edges",
                                (json_int_t)worker->n_edge, "memory", report_memory(worker->bytes), "recomputed",
                                again_json(in, worker), "bytes_per_epoch", (json_int_t)worker->n_wire,
                                "bytes_per_evaluation", (json_int_t)worker->n_wire_evaluate, "spilled",
                                (json_int_t)worker->n_spill, "spill_least", (json_int_t)worker->n_spill_least);
        if (plan->apart) {
            json_object_set_new(one, "pinned", report_memory(worker->pinned));
            json_object_set_new(one, "host", report_memory(worker->host));
            json_object_set_new(one, "context", json_string("estimate"));
            json_object_set_new(one, "offloaded", json_integer(worker->n_home));
            json_object_set_new(one, "offloaded_bytes", json_integer((json_int_t)worker->n_home_bytes));
        }
        if (in->steps) {
            json_object_set_new(one, "arena", json_integer((json_int_t)worker->n_arena));
            json_object_set_new(one, "steps", plan_steps_json(worker));
        }
        json_array_append_new(all, one);
    }
    return all;
}

/* By the epochs that have the same codecs. */
static json_t *stages_json(const struct plan *plan)
{
    json_t *all = json_array();
    for (int s = 0; s < plan->n_stage; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        json_array_append_new(all, json_pack("{s:I, s:I, s:s, s:s, s:I}", "epoch", (json_int_t)stage->of.epoch,
                                             "epochs", (json_int_t)stage->of.n_epoch, "codec",
                                             level_codec_text(stage->of.level.codec), "codec_backward",
                                             level_codec_text(stage->of.level.codec_backward), "bytes_per_epoch",
                                             (json_int_t)stage->n_wire));
    }
    return all;
}

/* A text's lines as an array. */
static json_t *lines_json(const char *text)
{
    json_t *all = json_array();
    for (size_t n; *text != '\0'; text += n + 1) {
        n = strcspn(text, "\n");
        json_array_append_new(all, json_stringn(text, n));
    }
    return all;
}

static json_t *program_json(const struct program *program)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    program_print(program, file);
    fclose(file);
    json_t *all = lines_json(text);
    free(text);
    return all;
}

enum status plan_print_json(const struct plan_input *in, const struct plan *plan, FILE *file)
{
    json_t *all = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:f, s:f, s:I, s:o}", "name", in->job->job.name, "dataset",
        report_dataset(in->dataset), "partition", report_partition(in->job, in->quality), "parts", parts_json(in),
        "workers", workers_json(in, plan), "bytes_per_epoch", (json_int_t)plan->n_wire, "bytes_per_evaluation",
        (json_int_t)plan->n_wire_evaluate, "flops_per_epoch", plan->n_flop, "left_out", plan->left_out, "weights",
        (json_int_t)program_n_weight(in->program), "program", program_json(in->program));
    if (in->passes != NULL) {
        json_object_set_new(all, "passes", lines_json(in->passes));
    }
    if (in->roofline != NULL) {
        json_object_set_new(all, "roofline", roofline_json(in, plan));
    }
    json_object_set_new(all, "traffic", plan_traffic_json(in->program, plan));
    json_object_set_new(all, "exact", in->exact != NULL ? plan_exact_json(in->exact) : json_null());
    json_object_set_new(all, "machines", json_integer(plan->n_machine));
    json_object_set_new(all, "machine_bytes", json_integer((json_int_t)plan_machine_bytes(plan, in->job)));
    json_object_set_new(all, "partition_bytes", json_integer((json_int_t)in->partition_bytes));
    json_object_set_new(all, "workers_least", in->fewest != NULL ? json_integer(in->fewest->n_worker) : json_null());
    json_object_set_new(all, "bytes_on_fewer",
                        in->fewest != NULL ? json_integer(in->fewest->n_byte_below) : json_null());
    json_object_set_new(all, "stages", stages_json(plan));
    json_object_set_new(all, "bytes_per_comparison", json_integer((json_int_t)plan->n_wire_guard));
    int failed = json_dumpf(all, file, JSON_COMPACT);
    json_decref(all);
    fputc('\n', file);
    return failed ? status_fail(STATUS_IO, "cannot write the plan") : flushed(file);
}
