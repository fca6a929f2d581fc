/* Layers whose output a prediction writes (output.embeddings), by the names of PyTorch Geometric's modules. */
#include "models/program/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct job job;
static struct program program;
static const struct program_input input = {.facts = {.n_feature = 12, .n_class = 5}};

static void begin(void)
{
    job_defaults(&job);
    job.model.hidden = 16;
    job.model.steps = 2;
    snprintf(job.predict.model, sizeof job.predict.model, "m");
}

static void end(void)
{
    program_release(&program);
}

TestSuite(layer_output, .init = begin, .fini = end);

static int64_t kept_width(int kind, const char *layer)
{
    program_release(&program);
    job.model.kind = kind;
    snprintf(job.output.embeddings, sizeof job.output.embeddings, "%s", layer);
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    cr_assert_geq(program.kept, 0, "%s", layer);
    return program.value[program.kept].width;
}

Test(layer_output, is_asked_for_by_the_name_of_its_module)
{
    cr_assert_eq(kept_width(JOB_KIND_GCN, "convs.0"), 16);
    cr_assert_neq(program.kept, program.logits);
    cr_assert_eq(kept_width(JOB_KIND_GCN, "convs.1"), 5);
    cr_assert_eq(program.kept, program.logits);
    cr_assert_eq(kept_width(JOB_KIND_APPNP, "lins.0"), 16);
    cr_assert_eq(kept_width(JOB_KIND_GCNII, "convs.1"), 16);
    cr_assert_eq(kept_width(JOB_KIND_AGNN, "convs.1"), 16);
    cr_assert_eq(kept_width(JOB_KIND_SGC, "convs.0"), 5);
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_CONCAT;
    cr_assert_eq(kept_width(JOB_KIND_SAGE, "lin"), 5);
    job.model.jumping_knowledge = JOB_JUMPING_KNOWLEDGE_NONE;
    job.model.heads = 3;
    cr_assert_eq(kept_width(JOB_KIND_GAT, "convs.0"), 48);
}

Test(layer_output, is_that_of_norm_and_activation_too)
{
    job.model.layers = 3;
    job.model.norm = JOB_NORM_LAYER;
    job.model.residual = true;
    static const int kinds[] = {JOB_KIND_GCN, JOB_KIND_SAGE,  JOB_KIND_GIN,
                                JOB_KIND_GAT, JOB_KIND_APPNP, JOB_KIND_GCNII};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        cr_expect_eq(kept_width(kinds[i], "norms.1"), 16, "%zu", i);
        int norm = program.kept;
        cr_expect_eq(kept_width(kinds[i], "acts.1"), 16, "%zu", i);
        cr_expect_gt(program.kept, norm, "%zu", i);
    }
    job.model.activation = JOB_ACTIVATION_NONE;
    cr_expect_eq(kept_width(JOB_KIND_GCN, "acts.1"), 16, "what the layer hands on");
}

Test(layer_output, that_no_layer_has_is_refused_with_the_names_there_are)
{
    snprintf(job.output.embeddings, sizeof job.output.embeddings, "convs.2");
    job.model.kind = JOB_KIND_GCN;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(),
                     "output.embeddings = \"convs.2\": the model has no layer of that name, expected one of "
                     "convs.0, acts.0, convs.1");
    job.model.norm = JOB_NORM_BATCH;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "expected one of convs.0, norms.0, acts.0, convs.1"), "%s", status_reason());
}

Test(layer_output, is_kept_by_predictions_alone)
{
    job.predict.model[0] = '\0';
    snprintf(job.output.embeddings, sizeof job.output.embeddings, "convs.0");
    job.model.kind = JOB_KIND_GCN;
    cr_assert_eq(program_build(&job, &input, &program), STATUS_OK, "%s", status_reason());
    cr_assert_eq(program.kept, -1);
}
