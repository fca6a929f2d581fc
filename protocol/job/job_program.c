/* A job's vertex program before there is data: its text and arguments as they are read, the check of the text, and
 * what it needs of the data. Likewise of the texts of kinds.
 */
#include "protocol/job/job.h"
#include "protocol/job/job_rules.h"
#include "protocol/job/model_kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum status job_program_take(struct job *job, enum job_key_id key, const char *where, const char *text)
{
    const struct job_key *row = &job_keys[key];
    char *name = (char *)job + row->offset, *program = job_key_program(job, key);
    size_t n = strlen(text);
    if (n > VERTEX_TEXT_MOST) {
        return status_fail(STATUS_CONFIG, "%s: %s.%s has %zu bytes; expected at most %d", where, row->section,
                           row->name, n, VERTEX_TEXT_MOST);
    }
    memset(name, 0, JOB_TEXT_BYTES);
    memset(program, 0, VERTEX_TEXT_MOST + 1);
    bool is_name = strchr(text, '\n') == NULL && n < JOB_TEXT_BYTES;
    memcpy(is_name ? name : program, text, n);
    return STATUS_OK;
}

enum status job_argument_read(struct vertex_args *args, const char *where, const struct toml_entry *entry,
                              int *number_out)
{
    struct vertex_arg arg = {.kind = VERTEX_ARG_NUMBER};
    if ((size_t)snprintf(arg.name, sizeof arg.name, "%s", entry->key) >= sizeof arg.name) {
        return status_fail(STATUS_CONFIG, "%s: the key is longer than %zu bytes", where, sizeof arg.name - 1);
    }
    switch (entry->type) {
    case TOML_TYPE_INT:
        arg.number = (double)entry->integer;
        break;
    case TOML_TYPE_REAL:
        arg.number = entry->real;
        break;
    case TOML_TYPE_BOOL:
        arg.kind = VERTEX_ARG_BOOL;
        arg.number = entry->boolean;
        break;
    case TOML_TYPE_TEXT:
        arg.kind = VERTEX_ARG_TEXT;
        break;
    default:
        return status_fail(STATUS_CONFIG, "%s: model.args.%s is %s; expected a number, a text, true or false", where,
                           arg.name, toml_type_text(entry->type));
    }
    if (arg.kind == VERTEX_ARG_TEXT && strlen(entry->text) >= sizeof arg.text) {
        return status_fail(STATUS_CONFIG, "%s: model.args.%s has %zu bytes; expected at most %zu", where, arg.name,
                           strlen(entry->text), sizeof arg.text - 1);
    }
    if (!isfinite(arg.number)) {
        return status_fail(STATUS_CONFIG, "%s: model.args.%s is no finite number", where, arg.name);
    }
    strcpy(arg.text, arg.kind == VERTEX_ARG_TEXT ? entry->text : "");
    int i = 0;
    while (i < args->n && strcmp(args->of[i].name, arg.name) != 0) {
        i++;
    }
    if (i == VERTEX_ARG_MOST) {
        return status_fail(STATUS_CONFIG, "%s: more than %d arguments in [model.args]", where, VERTEX_ARG_MOST);
    }
    args->n += i == args->n;
    args->of[i] = arg;
    *number_out = i;
    return STATUS_OK;
}

/* Is every reduction a sum or mean of sources' rows, each times a number of its edge? */
static bool sums_only(const struct vertex_trace *trace)
{
    for (int32_t i = 0; i < trace->n_op; i++) {
        const struct vertex_op *op = &trace->op[i];
        if (op->kind < VERTEX_OP_SUM) {
            continue;
        }
        const struct vertex_op *row = &trace->op[op->in[0]];
        bool times = row->kind == VERTEX_OP_MULTIPLY;
        const struct vertex_op *a = times ? &trace->op[row->in[0]] : row, *b = times ? &trace->op[row->in[1]] : row;
        bool is_source = a->kind == VERTEX_OP_SOURCE || b->kind == VERTEX_OP_SOURCE;
        const struct vertex_op *factor = a->kind == VERTEX_OP_SOURCE ? b : a;
        bool scales = !times || factor->kind == VERTEX_OP_EDGE_WEIGHT || factor->kind == VERTEX_OP_EDGE_NORM;
        if (op->kind > VERTEX_OP_MEAN || op->relation >= 0 || !is_source || !scales) {
            return false;
        }
    }
    return true;
}

/* Each layer of the stack, or the model. */
static enum status check_layers(const struct job *job, const struct vertex_tree *tree, bool is_model, bool *sums_out)
{
    struct vertex_facts facts = vertex_facts_unknown();
    struct vertex_budget budget = {VERTEX_STEPS_MOST, VERTEX_STRINGS_MOST};
    struct vertex_args args;
    model_args(job, tree, &args);
    facts.budget = &budget;
    const int64_t n_conv = is_model ? 1 : job->model.layers - job->model.linear_layers;
    bool jumps = job->model.jumping_knowledge != JOB_JUMPING_KNOWLEDGE_NONE;
    enum status status = STATUS_OK;
    *sums_out = true;
    for (int64_t layer = 0; layer < n_conv && status == STATUS_OK; layer++) {
        struct vertex_trace trace;
        if (!is_model) {
            facts.index = (int)layer;
            facts.is_last = layer == job->model.layers - 1 && !jumps;
            facts.n_out = facts.is_last ? VERTEX_UNKNOWN : job->model.hidden;
        }
        status = vertex_trace_build(tree, &args, &facts, &trace);
        if (status == STATUS_OK) {
            const struct vertex_op *out = trace.out >= 0 ? &trace.op[trace.out] : NULL;
            facts.n_in = out != NULL ? out->shape.dim[out->shape.n_dim - 1] : VERTEX_UNKNOWN;
            *sums_out = *sums_out && trace.complete && sums_only(&trace);
            vertex_trace_release(&trace);
        }
    }
    return status;
}

/* Options of every stack of layers. */
static bool is_of_stacks(enum job_key_id key)
{
    switch (key) {
    case JOB_KEY_model_layers:
    case JOB_KEY_model_hidden:
    case JOB_KEY_model_dropout:
    case JOB_KEY_model_activation:
    case JOB_KEY_model_norm:
    case JOB_KEY_model_residual:
    case JOB_KEY_model_residual_linear:
        return true;
    default:
        return false;
    }
}

/* The options of [model] that are parameters of the text; a node's embedding is one of every text with relations. */
static uint64_t keys_of(const struct vertex_tree *tree, bool relates)
{
    uint64_t keys = relates ? MODEL_KEY(embedding) : 0;
    for (int key = JOB_KEY_model_kind; key < JOB_KEY_train_epochs; key++) {
        bool takes = !is_of_stacks((enum job_key_id)key) && vertex_takes(tree, job_keys[key].name);
        keys |= (uint64_t)takes << (key - JOB_KEY_model_kind);
    }
    return keys;
}

enum status job_program_check(struct job *job, const char *origin, bool traces)
{
    struct vertex_tree tree;
    bool is_model = false, loops = false, weighs = true, sums = !traces;
    const char *text = model_text(job);
    enum status status = vertex_tree_parse(text, strlen(text), origin, &tree);
    if (status != STATUS_OK) {
        return status;
    }
    status = vertex_entry(&tree, &is_model);
    if (status == STATUS_OK) {
        status = vertex_setting(&tree, "self_loops", false, &loops);
    }
    if (status == STATUS_OK) {
        status = vertex_setting(&tree, "edge_weights", true, &weighs);
    }
    if (status == STATUS_OK && traces) {
        status = check_layers(job, &tree, is_model, &sums);
    }
    const int weight = vertex_reads(&tree, "weight"), norm = vertex_reads(&tree, "norm");
    bool reads_weights = weight > 0 || norm > 0;
    job->program.reads_weights = reads_weights;
    job->program.line.weight = weight == 0 || (norm > 0 && norm < weight) ? norm : weight;
    job->program.line.feature = vertex_reads(&tree, "feature");
    job->program.line.relation = vertex_reads(&tree, "relation");
    job->program.kind = (struct model_kind){.weighs = weighs && reads_weights,
                                            .needs_types = job->program.line.relation > 0,
                                            .adds_loops = loops,
                                            .is_stack = !is_model,
                                            .is_sum = sums,
                                            .takes_edge_features = job->program.line.feature > 0,
                                            .reads_norm = norm > 0,
                                            .keys = keys_of(&tree, job->program.line.relation > 0)};
    vertex_tree_release(&tree);
    return status;
}

enum status job_decoder_check(const struct job *job, const char *origin, bool traces)
{
    struct vertex_tree tree;
    struct vertex_trace trace;
    struct vertex_facts facts = vertex_facts_unknown();
    struct vertex_args args;
    const char *text = decoder_text(job);
    enum status status = vertex_tree_parse(text, strlen(text), origin, &tree);
    if (status != STATUS_OK) {
        return status;
    }
    status = vertex_score(&tree);
    if (status == STATUS_OK && traces) {
        decoder_args(job, &tree, &args);
        facts.of_pairs = true;
        facts.n_in = job->task.channels > 0 ? job->task.channels : VERTEX_UNKNOWN;
        status = vertex_trace_build(&tree, &args, &facts, &trace);
        if (status == STATUS_OK) {
            vertex_trace_release(&trace);
        }
    }
    vertex_tree_release(&tree);
    return status;
}

bool job_program_takes(const struct job *job, enum job_key_id key)
{
    return job->model.kind != JOB_KIND_PROGRAM || job->program.kind.is_stack || !is_of_stacks(key);
}

void job_check_program(const struct job *job, const struct check *check)
{
    for (int i = 0; i < JOB_KEY_N; i++) {
        enum job_key_id key = (enum job_key_id)i;
        if (!job_program_takes(job, key) && job_is_given(check->places, key)) {
            rule_broken(
                check, key,
                "model.%s is of a stack of layers, and the program's model(v, …) is the whole model: expected "
                "a parameter of model with a value in [model.args], or no model.%s",
                job_keys[key].name, job_keys[key].name);
        }
    }
}
