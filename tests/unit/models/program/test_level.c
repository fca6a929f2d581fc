#include "models/program/level.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct job job_of(const char *exchange)
{
    struct job job;
    char text[512];
    snprintf(text, sizeof text, "[dataset]\ngenerator = \"karate\"\n[train]\nepochs = 100\n[exchange]\n%s\n",
             exchange);
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
    struct job job = job_of(
        "codec = \"int4, int8@10, fp32@60\"\ncodec_backward = \"int8, bf16@10, fp32@30, int2@100\"");
    cr_assert_eq(level_stages(&job, stage), 4);
    expect_stage(&stage[0], 0, 10, DEVICE_CODEC_INT4, DEVICE_CODEC_INT8);
    expect_stage(&stage[1], 10, 20, DEVICE_CODEC_INT8, DEVICE_CODEC_BF16);
    expect_stage(&stage[2], 30, 30, DEVICE_CODEC_INT8, DEVICE_CODEC_FP32);
    expect_stage(&stage[3], 60, 40, DEVICE_CODEC_FP32, DEVICE_CODEC_FP32);
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        const struct level_stage *at = &stage[epoch < 10 ? 0 : epoch < 30 ? 1 : epoch < 60 ? 2 : 3];
        struct level level = level_at(&job, epoch, 0);
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
    cr_expect_str_eq(
        status_reason(),
        "exchange.codec has int4, which the device \"small\" lacks; expected one of fp32, bf16, int8, int2");
    device.codecs = DEVICE_CODECS_ALL & ~(1U << DEVICE_CODEC_INT2);
    cr_expect_eq(level_check(&job, &device), STATUS_CONFIG);
    cr_expect_str_eq(status_reason(),
                     "exchange.codec_backward has int2, which the device \"small\" lacks; expected one of "
                     "fp32, bf16, int8, int4");
}

Test(level, each_back_off_doubles_the_share_and_takes_codecs_one_step_wider)
{
    struct job job = job_of("sampling = 0.3\ncodec = \"int4, int2@10\"\ncodec_backward = \"int8\"\nguard_every = 5");
    static const struct level early[] = {{0.3, DEVICE_CODEC_INT4, DEVICE_CODEC_INT8, false},
                                         {0.6, DEVICE_CODEC_INT8, DEVICE_CODEC_BF16, false},
                                         {1.0, DEVICE_CODEC_BF16, DEVICE_CODEC_FP32, false},
                                         {1.0, DEVICE_CODEC_FP32, DEVICE_CODEC_FP32, false},
                                         {1.0, DEVICE_CODEC_FP32, DEVICE_CODEC_FP32, false}};
    for (int n = 0; n < 5; n++) {
        struct level level = level_at(&job, 9, n);
        cr_expect_float_eq(level.sampling, early[n].sampling, 0.0, "%d back-offs", n);
        cr_expect_eq(level.codec, early[n].codec, "%d back-offs", n);
        cr_expect_eq(level.codec_backward, early[n].codec_backward, "%d back-offs", n);
        cr_expect_eq(level_is_exact(&level), n > 2);
        cr_expect_eq(level_at(&job, 10, n).codec,
                     n > 3 ? DEVICE_CODEC_FP32 : (enum device_codec)(DEVICE_CODEC_INT2 - n));
    }
    struct job none = job_of("sampling = 0.0\nguard_every = 5");
    cr_expect_eq(level_at(&none, 0, 0).sampling, 0.0);
    cr_expect_eq(level_at(&none, 0, 1).sampling, 0.01);
    cr_expect_eq(level_at(&none, 0, 2).sampling, 0.02);
    cr_expect_eq(level_at(&none, 0, 8).sampling, 1.0);
    struct job least = job_of("sampling = 4.9e-324\nguard_every = 5");
    struct level level = level_at(&least, 0, LEVEL_BACK_OFFS_MOST);
    cr_expect(level_is_exact(&level));
}

Test(level, a_stale_job_has_exact_epochs_after_one_back_off_and_before_epoch_1)
{
    struct job job = job_of("stale = 1\nguard_every = 1");
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        const struct level level = level_at(&job, epoch, 0), backed_off = level_at(&job, epoch, 1);
        cr_expect_eq(level.stale, epoch > 0);
        cr_expect_eq(level_is_exact(&level), epoch == 0);
        cr_expect(level_is_exact(&backed_off));
    }
    struct level_stage stage[LEVEL_STAGES_MOST];
    cr_expect_eq(level_stages(&job, stage), 1);
    cr_expect_eq(stage[0].n_guard, job.train.epochs - 1, "epoch 0 has nothing to compare");
    job.exchange.guard_every = 10;
    level_stages(&job, stage);
    cr_expect_eq(stage[0].n_guard, job.train.epochs / 10);
}

/* What an epoch keeps is as it lost it; an epoch that compares keeps its exact rows. */
Test(level, a_stale_epoch_finds_what_the_one_before_kept)
{
    struct job job = job_of("stale = 1\ncodec = \"int4, int8@3\"\nguard_every = 5");
    static const enum device_codec kept[] = {DEVICE_CODEC_INT4, DEVICE_CODEC_INT4, DEVICE_CODEC_INT4,
                                             DEVICE_CODEC_INT8, DEVICE_CODEC_FP32, DEVICE_CODEC_INT8};
    for (uint32_t epoch = 1; epoch <= sizeof kept / sizeof *kept; epoch++) {
        cr_expect_eq(level_before(&job, epoch).codec, kept[epoch - 1], "epoch %u", epoch);
        cr_expect_eq(level_before(&job, epoch).codec_backward, kept[epoch - 1], "epoch %u", epoch);
    }
}

Test(level, a_guarded_job_has_all_wider_codecs_too)
{
    struct job job = job_of("codec = \"int4\"\ncodec_backward = \"bf16, fp32@9\"\nguard_every = 5");
    cr_expect_eq(level_codecs(&job, false), 1U << DEVICE_CODEC_INT4 | 1U << DEVICE_CODEC_INT8 |
                                                1U << DEVICE_CODEC_BF16 | 1U << DEVICE_CODEC_FP32);
    cr_expect_eq(level_codecs(&job, true), 1U << DEVICE_CODEC_BF16 | 1U << DEVICE_CODEC_FP32);
}

Test(level, every_nth_epoch_compares_where_something_is_lost)
{
    struct level_stage stage[LEVEL_STAGES_MOST];
    struct job job = job_of("codec = \"int4, int8@10, fp32@60\"\nguard_every = 7"), none = job_of("codec = \"int4\"");
    int n[3] = {0};
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        cr_expect_eq(level_guards(&job, epoch), epoch % 7 == 6, "epoch %u", epoch);
        cr_expect_not(level_guards(&none, epoch));
        n[epoch < 10 ? 0 : epoch < 60 ? 1 : 2] += level_guards(&job, epoch);
    }
    cr_assert_eq(level_stages(&job, stage), 3);
    cr_expect(stage[0].n_guard == n[0] && stage[1].n_guard == n[1], "%d %d", n[0], n[1]);
    cr_expect(n[2] > 0 && stage[2].n_guard == 0, "nothing is lost there");
    cr_assert_eq(level_stages(&none, stage), 1);
    cr_expect_eq(stage[0].n_guard, 0);
}
