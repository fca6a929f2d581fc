#include "tests/support/model/trained.h"
#include "tests/support/graphs/cut_graph.h"

#include "protocol/base/memory.h"
#include "worker/state/trainer_state.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(status) cr_assert_eq(status, STATUS_OK, "%s", status_reason())

static void job_fill(const struct trained_setup *setup, int n_part, struct job *job)
{
    static const int losses[] = {[DEVICE_LOSS_CROSS_ENTROPY] = JOB_LOSS_CROSS_ENTROPY,
                                 [DEVICE_LOSS_BCE] = JOB_LOSS_BCE,
                                 [DEVICE_LOSS_MSE] = JOB_LOSS_MSE,
                                 [DEVICE_LOSS_MAE] = JOB_LOSS_MAE,
                                 [DEVICE_LOSS_HUBER] = JOB_LOSS_HUBER};
    const struct objective *o = setup->objective;
    job_defaults(job);
    job->partition.parts = n_part;
    job->partition.method = JOB_METHOD_RANDOM;
    job->exchange.sampling = setup->program->lossy.samples ? setup->sampling : 1.0;
    job->train.seed = setup->seed;
    job->train.optimizer = JOB_OPTIMIZER_SGD;
    if (o != NULL) {
        job->task.kind = o->negatives > 0 ? JOB_TASK_LINK : JOB_TASK_NODE;
        job->task.negatives = o->negatives > 0 ? o->negatives : 1;
        snprintf(job->task.decoder, sizeof job->task.decoder, "%s", o->decoder != NULL ? o->decoder : "dot");
        job->task.margin = o->margin;
        job->task.sampling = o->ends ? JOB_SAMPLING_ENDS : JOB_SAMPLING_UNIFORM;
        job->train.loss = o->negatives > 0 ? o->link_loss : losses[o->loss];
        job->train.label_smoothing = o->smoothing;
        job->train.huber_delta = o->delta;
        snprintf(job->train.class_weights, sizeof job->train.class_weights, o->weights != NULL ? "balanced" : "none");
    }
}

void trained_open(const struct trained_setup *setup, int n_part, struct trained *out)
{
    *out = (struct trained){.setup = *setup,
                            .opened = memory_alloc((size_t)n_part, sizeof *out->opened),
                            .parts = memory_alloc((size_t)n_part, sizeof(struct part *)),
                            .rank_of_part = memory_alloc((size_t)n_part, sizeof *out->rank_of_part)};
    job_fill(setup, n_part, &out->job);
    OK(partition_build(setup->dataset, &out->job, &out->partition));
    out->partition.stores = program_stores(setup->program);
}

void trained_close(struct trained *t)
{
    partition_release(&t->partition);
    free(t->opened);
    free(t->parts);
    free(t->rank_of_part);
}

struct arrays {
    float *shared, *embeddings; /* of the whole graph, of one part */
};

/* Where element i of a tensor is: among the shared weights, or at one node of a part that has its column; NULL: at no
 * node of it. */
static float *element(const struct program *program, const struct parameter *param, const struct part *part,
                      struct arrays to, int64_t i)
{
    if (param->embedding_at < 0) {
        return to.shared + param->offset + i;
    }
    int64_t f = param->embedding_row, n_column = program->value[0].width, column = i / f % n_column;
    int64_t row = i / f / n_column * f + i % f;
    if (!embedded_has(&program->embedded, column)) {
        return to.shared + param->offset + row * program_n_shared(program) +
               embedded_shared(&program->embedded, column);
    }
    for (int64_t k = 0; k < part->features.n_embedded; k++) {
        if (part->features.embedded_columns[k] == column) {
            return to.embeddings + part->features.n_embedded * param->embedding_at + k * param->embedding_width + row;
        }
    }
    return NULL;
}

static struct arrays arrays_make(const struct trained *t, const struct part *part)
{
    const struct program *program = t->setup.program;
    return (struct arrays){
        memory_alloc((size_t)program->n_weight + 1, sizeof(float)),
        memory_alloc((size_t)(part->features.n_embedded * program->n_embedding) + 1, sizeof(float))};
}

static void weights_put(const struct trained *t, struct trainer *trainer, const float *weights)
{
    const struct program *program = t->setup.program;
    for (int p = 0; p < t->partition.n_part; p++) {
        const struct part *part = t->parts[p];
        struct arrays to = arrays_make(t, part);
        for (int k = 0; k < program->n_param; k++) {
            const float *from = weights + t->setup.plain->param[k].offset;
            for (int64_t i = 0; i < parameter_size(&program->param[k]); i++) {
                float *at = element(program, &program->param[k], part, to, i);
                if (at != NULL) {
                    *at = from[i];
                }
            }
        }
        OK(trainer_set(trainer, WORKER_STATE_WEIGHTS, 0, to.shared));
        if (program->n_embedding > 0) {
            OK(trainer_set(trainer, WORKER_STATE_EMBEDDINGS, p, to.embeddings));
        }
        free(to.shared);
        free(to.embeddings);
    }
}

/* Of shared weights the sums of all parts, of embeddings each part's. */
static void gradients_get(const struct trained *t, struct trainer *trainer, float *out)
{
    const struct program *program = t->setup.program;
    memset(out, 0, (size_t)t->setup.plain->n_weight * sizeof *out);
    for (int p = 0; p < t->partition.n_part; p++) {
        const struct part *part = t->parts[p];
        struct arrays from = arrays_make(t, part);
        int64_t n_embedding = part->features.n_embedded * program->n_embedding;
        trainer->ops->copy(trainer->device, from.shared, trainer_gradients(trainer, 0),
                           (size_t)program->n_weight * sizeof(float));
        if (n_embedding > 0) {
            trainer->ops->copy(trainer->device, from.embeddings,
                               trainer->parameters.embeddings.gradients + trainer->plan.rows.begin[p].embedding,
                               (size_t)n_embedding * sizeof(float));
        }
        OK(device_sync(trainer->device));
        for (int k = 0; k < program->n_param; k++) {
            float *to = out + t->setup.plain->param[k].offset;
            for (int64_t i = 0; i < parameter_size(&program->param[k]); i++) {
                const float *at = element(program, &program->param[k], part, from, i);
                to[i] = at != NULL && program->param[k].trains ? *at : to[i];
            }
        }
        free(from.shared);
        free(from.embeddings);
    }
}

static void logits_get(const struct trained *t, struct trainer *trainer, float *out)
{
    size_t n_class = (size_t)t->setup.dataset->facts.n_class;
    for (int p = 0; p < t->partition.n_part; p++) {
        const struct part *part = t->parts[p];
        float *rows = memory_alloc((size_t)part->n_own * n_class + 1, sizeof *rows);
        OK(trainer_get(trainer, WORKER_STATE_LOGITS, p, rows));
        for (int64_t r = 0; r < part->n_own; r++) {
            memcpy(out + part->node[r] * n_class, rows + (size_t)r * n_class, n_class * sizeof *rows);
        }
        free(rows);
    }
}

double trained_run(const struct trained *t, const struct device_ops *ops, const float *weights, float *logits_out,
                   float *grad_out)
{
    struct job job = t->job;
    struct trainer_setup setup = {.job = &job,
                                  .program = t->setup.program,
                                  .ops = ops,
                                  .n_thread = 1,
                                  .n_rank = 1,
                                  .n_part = t->partition.n_part,
                                  .rank_of_part = t->rank_of_part,
                                  .parts = t->parts};
    struct trainer *trainer;
    struct trainer_report report;
    job.memory.recompute = t->partition.n_part % 2 == 0 ? JOB_RECOMPUTE_ALWAYS : JOB_RECOMPUTE_NEVER;
    job.memory.offload = !ops->unified && t->partition.n_part > 1 ? JOB_OFFLOAD_ALWAYS : JOB_OFFLOAD_NEVER;
    for (int p = 0; p < t->partition.n_part; p++) { /* a part serves one trainer */
        t->opened[p] = cut_part(t->setup.dataset, &t->partition, p);
        t->parts[p] = &t->opened[p];
    }
    setup.exchange = exchange_open(1, 1);
    OK(trainer_open(&setup, &trainer));
    weights_put(t, trainer, weights);
    OK(trainer_epoch(trainer, t->setup.epoch, false, true, &report));
    logits_get(t, trainer, logits_out);
    OK(trainer_epoch(trainer, t->setup.epoch, true, false, &report));
    gradients_get(t, trainer, grad_out);
    trainer_close(trainer);
    exchange_close(setup.exchange);
    for (int p = 0; p < t->partition.n_part; p++) {
        cut_part_close(&t->opened[p]);
    }
    return report.loss;
}
