/* What makes a pair's score of its nodes' rows (task.decoder), beside the dot product, which has no weights: a text,
 * configs/decoders/<decoder>.gnn, which is a program of its own over pairs.
 */
#include "models/kinds/model.h"

#include "models/vertex/emit.h"
#include "protocol/base/memory.h"
#include "protocol/job/model_kinds.h"

#include <string.h>

static enum status scorer_emit(const struct model *model, const struct vertex_tree *tree, struct program *scorer)
{
    const int64_t width = model->input->facts.n_class;
    struct vertex_args args;
    struct vertex_trace trace;
    decoder_args(model->job, tree, &args);
    struct vertex_facts facts = model_facts(model, width, 1);
    facts.of_pairs = true;
    facts.n_relation = model->program->n_scored;
    program_init_pairs(width, scorer);
    enum status status = vertex_trace_build(tree, &args, &facts, &trace);
    if (status != STATUS_OK) {
        return status;
    }
    struct vertex_emission emission = {.program = scorer,
                                       .source = &tree->source,
                                       .trace = &trace,
                                       .kept = "",
                                       .prefix = "decoder.",
                                       .matches = true,
                                       .transform_first = transform_first};
    status = trace.complete ? vertex_emit(&emission, &scorer->logits)
                            : status_fail(STATUS_CONFIG, "%s: reads graph.types, which is not known to programs yet",
                                          tree->source.origin);
    vertex_trace_release(&trace);
    return status;
}

enum status decoder_append(const struct model *model, const char *text, const char *origin)
{
    struct program *program = model->program;
    struct vertex_tree tree;
    enum status status = vertex_tree_parse(text, strlen(text), origin, &tree);
    if (status != STATUS_OK) {
        return status;
    }
    program->decoder = program->n_param;
    program->scorer = memory_alloc(1, sizeof *program->scorer);
    status = scorer_emit(model, &tree, program->scorer);
    for (int p = 0; p < program->scorer->n_param && status == STATUS_OK; p++) {
        const struct parameter *from = &program->scorer->param[p];
        const int at = program_tensor(program, from->name, from->n_dim, from->shape, from->bound);
        program->param[at].trains = from->trains;
        program->param[at].fill = from->fill;
    }
    vertex_tree_release(&tree);
    return status;
}

enum status model_decoder(struct model *model)
{
    const struct job *job = model->job;
    const char *text = decoder_text(job);
    if (!job_predicts_links(job) || text == NULL) {
        return STATUS_OK;
    }
    if (job_scores_relations(job)) {
        model->program->n_scored = model->input->facts.n_relation_given;
    }
    if (job_scores_relations(job) && model->program->n_scored <= 0) {
        return status_fail(
            STATUS_DATA, "task.decoder reads the relation of a pair, and the model reads no types of edges: expected "
                         "model.kind = \"rgcn\", or a program that reads them, and edges with types");
    }
    const bool is_file = job->decoder[0] != '\0' && job->task.decoder[0] != '\0';
    return decoder_append(model, text, is_file ? job->task.decoder : "task.decoder");
}
