/* What makes a pair's score of its nodes' rows x and y (task.decoder), beside the dot product, which has no weights:
 *
 *     distmult   Σ_c x_c · rel_emb_rc · y_c, of relation r        Yang et al., ICLR 2015
 *     mlp        linear layers of x ∘ y with relu between them, the last one to a number
 */
#include "models/kinds/model.h"

#include <stdio.h>

static void layers_emit(const struct model *model)
{
    const struct job_task *task = &model->job->task;
    int64_t f_in = model->input->n_class, n_hidden = task->decoder_hidden > 0 ? task->decoder_hidden : f_in;
    for (int layer = 0; layer < (int)task->decoder_layers; layer++) {
        int64_t f_out = layer + 1 < (int)task->decoder_layers ? n_hidden : 1;
        named_param(model->program, f_out, f_in, linear_bound(f_in), "decoder.lins.%d.weight", layer);
        named_param(model->program, 0, f_out, linear_bound(f_in), "decoder.lins.%d.bias", layer);
        f_in = f_out;
    }
}

enum status model_decoder(struct model *model)
{
    const struct job *job = model->job;
    int64_t n_relation = model->input->n_relation_given, f = model->input->n_class;
    int first = model->program->n_param;
    if (!job_predicts_links(job) || job->task.decoder == JOB_DECODER_DOT) {
        return STATUS_OK;
    }
    if (job->task.decoder == JOB_DECODER_DISTMULT && n_relation <= 0) {
        return status_fail(
            STATUS_DATA, "task.decoder = \"distmult\" has weights for each relation, and the model reads no types of "
                         "edges: expected model.kind = \"rgcn\", or a program that reads them, and edges with types");
    }
    if (job->task.decoder == JOB_DECODER_DISTMULT) {
        program_param(model->program, "decoder.rel_emb", n_relation, f, glorot_bound(n_relation, f));
    } else {
        layers_emit(model);
    }
    model->program->decoder = first;
    return STATUS_OK;
}
