#include "tests/support/model/decoders.h"

#include "tests/support/process/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_decoder_open(const char *decoder, int n_layer, int64_t width, int32_t n_relation,
                       float (*weight)(int64_t i), struct test_decoder *out)
{
    static struct job job;
    const struct program_input input = {
        .facts = {
            .n_feature = 2, .n_class = (int32_t)width, .n_relation = n_relation, .n_relation_given = n_relation}};
    job_defaults(&job);
    job.task.kind = JOB_TASK_LINK;
    job.task.decoder_layers = n_layer;
    job.task.decoder_hidden = 32;
    job.model.kind = n_relation > 0 ? JOB_KIND_RGCN : JOB_KIND_GCN;
    const bool is_text = strchr(decoder, '\n') != NULL;
    snprintf(is_text ? job.decoder : job.task.decoder, JOB_TEXT_BYTES, "%s", decoder);
    expect_done(program_build(&job, &input, &out->program));
    expect_done(decoder_open(&out->program, &out->decoder));
    for (int64_t i = 0; out->decoder.weights != NULL && i < out->program.n_weight; i++) {
        out->decoder.weights[i] = weight(i);
    }
}

void test_decoder_close(struct test_decoder *decoder)
{
    decoder_close(&decoder->decoder);
    program_release(&decoder->program);
}

const float *test_decoder_weight(const struct test_decoder *decoder, int index)
{
    return decoder->decoder.weights + decoder->program.param[decoder->program.decoder + index].offset;
}
