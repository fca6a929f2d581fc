/* The text of a kind, or a user's: layers in a stack, or the whole model from features to logits.
 * docs/programs.md
 */
#include "models/kinds/model.h"

#include "models/vertex/emit.h"
#include "models/vertex/move.h"
#include "protocol/job/model_kinds.h"

#include <stdio.h>
#include <string.h>

struct vertex_facts model_facts(const struct model *model, int64_t f_in, int64_t f_out)
{
    struct vertex_facts facts = vertex_facts_unknown();
    facts.n_in = f_in;
    facts.n_out = f_out;
    facts.n_relation = model->input->facts.n_relation;
    facts.n_class = model->input->facts.n_class;
    facts.n_edge_feature = model->input->facts.n_edge_feature;
    if (model->input->facts.counts.n_node > 0) {
        const struct graph_counts *counts = &model->input->facts.counts;
        facts.n_node = counts->n_node;
        facts.n_edge = counts->n_edge;
        facts.mean_degree = counts->mean_degree;
        facts.mean_log_degree = counts->mean_log_degree;
    }
    return facts;
}

/* What a pass makes of the text, for --plan --program. */
static void print_pass(const struct model *model, const char *prefix, const char *pass,
                       const struct vertex_trace *trace)
{
    FILE *file = model->input->passes;
    if (file != NULL) {
        size_t n = strlen(prefix);
        fprintf(file, "%.*s%s%s\n", n > 0 ? (int)n - 1 : 0, prefix, n > 0 ? " " : "", pass);
        vertex_trace_print(trace, file);
    }
}

/* The tile programs that a layer's ops have, from `first` on: forward, backward, and of edges those of sources. */
static void print_tiles(const struct model *model, const char *prefix, int first)
{
    const struct program *program = model->program;
    for (int i = 0; i < program->n_op && model->input->passes != NULL; i++) {
        const struct op *op = &program->op[i];
        const int n = op_n_tile(op);
        for (int k = 0; k < n && op->tile >= first; k++) {
            static const char *const names[OP_N_TILE] = {"forward", "backward", "backward, of sources",
                                                         "before backward"};
            fprintf(model->input->passes, "%stile of op %d, %s\n", prefix, i, names[k]);
            tile_print(&program->tile[op->tile + k], model->input->passes);
        }
    }
}

/* Does what follows a layer read sparse rows: the features that it returns, or to which a residual adds it? */
static bool reads_sparse(const struct model *model, const struct vertex_facts *facts, int x, int out)
{
    const struct value *in = &model->program->value[x], *y = &model->program->value[out];
    const struct job_model *options = &model->job->model;
    bool adds = facts->index >= 0 && options->residual && !options->residual_linear && in->width == y->width;
    return y->is_sparse || (adds && in->is_sparse);
}

/* Trace the text for these facts and append its ops over x. The model keeps the first mistake; its program is thrown
 * away then. */
static enum status append(struct model *model, const struct vertex_facts *facts, int x, const char *prefix, int *out)
{
    struct vertex_build *build = model->build;
    struct vertex_trace text, trace;
    enum status status = vertex_trace_build(&build->tree, &build->args, facts, &text);
    if (status != STATUS_OK) {
        return status;
    }
    bool moves = true, matches = true;
    if ((status = vertex_setting(&build->tree, "move", true, &moves)) == STATUS_OK &&
        (status = vertex_setting(&build->tree, "match", true, &matches)) == STATUS_OK && !text.complete) {
        status = status_fail(STATUS_CONFIG, "%s: reads graph.types, which is not known to programs yet",
                             build->tree.source.origin);
    }
    if (status != STATUS_OK) {
        vertex_trace_release(&text);
        return status;
    }
    print_pass(model, prefix, "text: each operation once", &text);
    vertex_move(&text, moves, model_kind_of(model->job)->reads_norm, &trace);
    print_pass(model, prefix, "moved: what depends on one end alone is of nodes", &trace);
    vertex_trace_release(&text);
    struct vertex_emission emission = {.program = model->program,
                                       .source = &build->tree.source,
                                       .trace = &trace,
                                       .x = x,
                                       .kept = model->program->forward_only ? model->job->output.embeddings : "",
                                       .prefix = prefix,
                                       .is_one_hot = model_is_one_hot(model),
                                       .is_weighted = model->input->facts.weighted,
                                       .matches = matches,
                                       .transform_first = transform_first};
    const int n_tile = model->program->n_tile;
    status = vertex_emit(&emission, out);
    if (status == STATUS_OK && reads_sparse(model, facts, x, *out)) {
        emission.needs_dense = true;
        status = status_fail(STATUS_CONFIG, "the features are sparse");
    }
    if (status == STATUS_OK) {
        print_tiles(model, prefix, n_tile);
    }
    for (int32_t i = 0; i < trace.n_output; i++) {
        char name[2 * VERTEX_NAME_BYTES];
        snprintf(name, sizeof name, "%s%s", prefix, trace.output[i].name);
        layer_output(model, name, -1, emission.kept_value);
    }
    build->needs_dense = build->needs_dense || emission.needs_dense;
    vertex_trace_release(&trace);
    return status;
}

/* A layer's value; where the text has a mistake, one of its width that lets the stack go on. */
static int append_layer(struct model *model, const struct vertex_facts *facts, int x, const char *prefix)
{
    int out = x;
    if (model->build->status == STATUS_OK) {
        model->build->status = append(model, facts, x, prefix, &out);
    }
    if (model->build->status == STATUS_OK) {
        return out;
    }
    int64_t f_in = model->program->value[x].width;
    return program_linear(model->program, x, named_param(model->program, facts->n_out, f_in, 0.0, "failed"), -1);
}

/* Does this layer make the logits? Not under jumping knowledge, whose own linear map does. */
static bool is_last_layer(const struct job *job, int layer)
{
    return layer == job->model.layers - 1 && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_NONE;
}

static int vertex_layer(struct model *model, int layer, int x, int64_t f_out)
{
    char prefix[32];
    struct vertex_facts facts = model_facts(model, model->program->value[x].width, f_out);
    facts.index = layer;
    facts.is_last = is_last_layer(model->job, layer);
    snprintf(prefix, sizeof prefix, "convs.%d.", layer);
    return append_layer(model, &facts, x, prefix);
}

/* Weights of the first layer: the n_first of embeddings, and from there on up to the first matrix whose name begins
 * otherwise than the first one's, up to its number. The map of a residual is of its layer. */
static int n_first_of(const struct program *program, int n_first)
{
    const char *name = n_first < program->n_param ? program->param[n_first].name : "";
    size_t n = strcspn(name, "0123456789");
    n += strspn(name + n, "0123456789");
    while (n_first < program->n_param &&
           (program->param[n_first].n_dim == 1 || strncmp(program->param[n_first].name, name, n) == 0 ||
            strncmp(program->param[n_first].name, "residuals.0.", strlen("residuals.0.")) == 0)) {
        n_first++;
    }
    return n_first;
}

/* The last value. One that no op of an epoch makes, since no weight and no draw is in it, is copied. */
static void logits_put(struct model *model, int x)
{
    struct program *program = model->program;
    if (program->value[x].is_static) {
        x = program_activate(program, x, DEVICE_ACTIVATION_NONE, 0.0);
        program->value[x].is_static = program->op[program->n_op - 1].is_static = false;
    }
    program->logits = x;
}

static void build_all(struct model *model)
{
    if (model_kind_of(model->job)->is_stack) {
        model_stack(model, vertex_layer);
        logits_put(model, model->program->logits);
        return;
    }
    int x = model_features(model), n_before = model->program->n_param;
    struct vertex_facts facts = model_facts(model, model->program->value[x].width, model->input->facts.n_class);
    logits_put(model, append_layer(model, &facts, x, ""));
    model->n_first = n_first_of(model->program, n_before);
}

/* Do sparse features have to be made dense? Building over sparse ones tells. */
static bool wants_dense(const struct model *model)
{
    struct program trial;
    struct model scratch = *model;
    struct program_input input = *model->input;
    input.passes = NULL;
    scratch.input = &input;
    program_init(model->input, &trial);
    trial.forward_only = model->program->forward_only;
    trial.plain_width = model->program->plain_width;
    trial.precision = model->program->precision;
    scratch.program = &trial;
    build_all(&scratch);
    program_release(&trial);
    bool wants = model->build->needs_dense;
    model->build->status = STATUS_OK;
    model->build->needs_dense = false;
    return wants;
}

enum status model_program(struct model *model)
{
    const struct job *job = model->job;
    struct vertex_build build = {.status = STATUS_OK};
    char origin[JOB_TEXT_BYTES] = "model.program";
    if (job->model.kind != JOB_KIND_PROGRAM) {
        snprintf(origin, sizeof origin, "model.kind = \"%s\"", job_choice_text("model", "kind", job->model.kind));
    } else if (job->model.program[0] != '\0') {
        snprintf(origin, sizeof origin, "%s", job->model.program);
    }
    const char *text = model_text(job);
    enum status status = vertex_tree_parse(text, strlen(text), origin, &build.tree);
    if (status != STATUS_OK) {
        return status;
    }
    model_args(job, &build.tree, &build.args);
    model->build = &build;
    bool dense = model->program->value[0].is_sparse && wants_dense(model);
    if (dense && job->model.kind == JOB_KIND_PROGRAM && model_is_one_hot(model)) {
        build.status = status_fail(
            STATUS_CONFIG,
            "dataset.features = \"one_hot\" does not go with %s, which does more with a node's own "
            "row than to multiply it: expected dataset.features = \"learned\"",
            origin);
    } else {
        if (dense) {
            model_features_dense(model);
        }
        build_all(model);
    }
    model->build = NULL;
    vertex_tree_release(&build.tree);
    return build.status;
}
