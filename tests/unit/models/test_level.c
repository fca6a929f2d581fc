#include "models/level.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct job job_of(const char *exchange)
{
    struct job job;
    char text[512];
    snprintf(text, sizeof text, "[dataset]\ngenerator = \"karate\"\n[train]\nepochs = 100\n[exchange]\n%s\n", exchange);
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    return job;
}

static void expect_stage(const struct level_stage *stage, int64_t epoch, int64_t n_epoch, enum device_codec codec,
                         enum device_codec backward)
{
    cr_expect_eq(stage->epoch, epoch);
    cr_expect_eq(stage->n_epoch, n_epoch);
    cr_expect_eq(stage->level.codec, codec);
    cr_expect_eq(stage->level.codec_backward, backward);
}

Test(level, a_stage_ends_where_either_codec_changes)
{
    struct level_stage stage[LEVEL_STAGES_MOST];
    struct job job = job_of("codec = \"int4, int8@10, fp32@60\"\ncodec_backward = \"int8, bf16@10, fp32@30, int2@100\"");
    cr_assert_eq(level_stages(&job, stage), 4);
    expect_stage(&stage[0], 0, 10, DEVICE_CODEC_INT4, DEVICE_CODEC_INT8);
    expect_stage(&stage[1], 10, 20, DEVICE_CODEC_INT8, DEVICE_CODEC_BF16);
    expect_stage(&stage[2], 30, 30, DEVICE_CODEC_INT8, DEVICE_CODEC_FP32);
    expect_stage(&stage[3], 60, 40, DEVICE_CODEC_FP32, DEVICE_CODEC_FP32);
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        const struct level_stage *at = &stage[epoch < 10 ? 0 : epoch < 30 ? 1 : epoch < 60 ? 2 : 3];
        struct level level = level_at(&job, epoch);
        cr_expect_eq(level.codec, at->level.codec);
        cr_expect_eq(level.codec_backward, at->level.codec_backward);
    }
    job.train.epochs = 0;
    cr_assert_eq(level_stages(&job, stage), 1);
    expect_stage(&stage[0], 0, 0, DEVICE_CODEC_INT4, DEVICE_CODEC_INT8);
}

Test(level, a_job_has_the_codecs_of_all_its_epochs)
{
    struct job job = job_of("codec = \"int4, int8@10\"\ncodec_backward = \"fp32\"");
    cr_expect_eq(level_codecs(&job, false), 1U << DEVICE_CODEC_INT4 | 1U << DEVICE_CODEC_INT8);
    cr_expect_eq(level_codecs(&job, true), 1U << DEVICE_CODEC_FP32);
}

Test(level, a_codec_that_the_device_lacks_is_refused_with_those_that_it_has)
{
    struct job job = job_of("codec = \"int4, int8@10\"\ncodec_backward = \"bf16, int2@5\"");
    struct device_ops device = device_cpu;
    cr_expect_eq(level_check(&job, &device_cpu), STATUS_OK);
    cr_expect_eq(level_check(&job, &device_reference), STATUS_OK);
    device.name = "small";
    device.codecs = DEVICE_CODECS_ALL & ~(1U << DEVICE_CODEC_INT4);
    cr_expect_eq(level_check(&job, &device), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(),
                     "exchange.codec has int4, which the device \"small\" lacks; expected one of fp32, bf16, int8, int2");
    device.codecs = DEVICE_CODECS_ALL & ~(1U << DEVICE_CODEC_INT2);
    cr_expect_eq(level_check(&job, &device), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(), "exchange.codec_backward has int2, which the device \"small\" lacks; expected one of "
                                      "fp32, bf16, int8, int4");
}
