/* Rules that see more than one key of a job, and remarks on keys that mean nothing. */
#include "protocol/job/codecs.h"
#include "tests/support/process/expect.h"
#include "tests/unit/protocol/job/job_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(job_rules, rows_of_the_epoch_before_are_refused_with_what_they_do_not_go_with)
{
    REFUSED(GRAPH "[exchange]\nstale = 2\n", "job.toml:4:9: exchange.stale is 2", "from 0 to 1");
    REFUSED(GRAPH "[exchange]\nstale = -1\n", "exchange.stale is -1");
    REFUSED(GRAPH "[exchange]\nstale = 1\nsampling = 0.5\n", "job.toml:4:9: exchange.stale = 1",
            "exchange.sampling < 1", "another sample");
    REFUSED(GRAPH "[exchange]\nstale = 1\nplain = true\n", "exchange.stale = 1 does not go with exchange.plain");
    REFUSED(GRAPH "[exchange]\nstale = 1\n[memory]\nspill = \"/tmp\"\n",
            "exchange.stale = 1 does not go with memory.spill");
    REFUSED(GRAPH "[model]\nkind = \"sage\"\naggregator = \"max\"\n[exchange]\nstale = 1\n",
            "exchange.stale = 1 does not go with model.aggregator = \"max\"");
    struct job job;
    cr_expect_eq(
        job_case_load(
            GRAPH "[model]\nkind = \"gat\"\naggregator = \"max\"\n[exchange]\nstale = 1\ncodec = \"int8\"\n", &job),
        STATUS_OK, "%s", status_reason());
    cr_expect_eq(job.exchange.stale, 1);
}

Test(job_rules, values_of_exchange_are_checked)
{
    REFUSED(GRAPH "[exchange]\ncodec = \"int3\"\n", "job.toml:4:9: exchange.codec is \"int3\"",
            "fp32, bf16, int8, int4");
    REFUSED(GRAPH "[exchange]\ncodec_backward = \"none\"\n", "job.toml:4:18: exchange.codec_backward is \"none\"",
            "or \"same\"");
    REFUSED(GRAPH "[exchange]\nsampling = -0.5\n", "job.toml:4:12: exchange.sampling is -0.5", "from 0.0 to 1.0");
    REFUSED(GRAPH "[exchange]\nsampling = 1.5\n", "job.toml:4:12: exchange.sampling is 1.5");
}

Test(job_rules, arrays_of_a_gpu_do_not_lie_in_files)
{
    REFUSED(GRAPH "[workers]\ndevice = \"cuda\"\n[memory]\nspill = \"x\"\n",
            "job.toml:6:9: memory.spill is for workers.device = \"cpu\", and does not go with \"cuda\"",
            "memory.offload");
    REFUSED(GRAPH "[memory]\noffload = true\n", "job.toml:4:11: memory.offload",
            "expected one of auto, always, never");
}

/* Job texts of old runs and checkpoints have these keys with their defaults. */
Test(job_rules, a_withdrawn_key_is_refused_with_what_to_use_unless_it_has_its_old_default)
{
    struct job job;
    REFUSED(GRAPH "[exchange]\nsampling = 0.5\nsampling_weights = \"edges\"\n",
            "job.toml:5:1: exchange.sampling_weights was withdrawn in 2026-11; use exchange.sampling");
    REFUSED(GRAPH "[exchange]\nsampling_local = 0.5\n",
            "job.toml:4:1: exchange.sampling_local was withdrawn in 2026-11; use exchange.sampling");
    REFUSED(GRAPH "[exchange]\nstale = 1\nstale_smoothing = 0.9\n",
            "job.toml:5:1: exchange.stale_smoothing was withdrawn in 2026-11; use exchange.stale");
    REFUSED(GRAPH "[exchange]\nstale_smoothing = [1]\n", "exchange.stale_smoothing was withdrawn in 2026-11");
    cr_expect_eq(job_case_load(GRAPH "[exchange]\nsampling_weights = \"uniform\"\nsampling_local = \"same\"\n"
                                     "stale_smoothing = 0\n",
                               &job),
                 STATUS_OK, "%s", status_reason());
    const char *set[] = {"exchange.sampling_local=same", "exchange.stale_smoothing = 0.0"},
               *refused[] = {"exchange.sampling_local=0.5"};
    cr_expect_eq(job_load_text(GRAPH, strlen(GRAPH), "job.toml", set, 2, &job), STATUS_OK, "%s", status_reason());
    cr_expect_eq(job_load_text(GRAPH, strlen(GRAPH), "job.toml", refused, 1, &job), STATUS_CONFIG);
    cr_expect_not_null(
        strstr(status_reason(), "--set exchange.sampling_local: exchange.sampling_local was withdrawn"), "%s",
        status_reason());
}

Test(job_rules, rules_across_keys_name_the_place_of_the_key_that_breaks_them)
{
    REFUSED("", "job.toml: ", "neither dataset.path nor dataset.generator");
    REFUSED("[dataset]\npath = \"x\"\ngenerator = \"sbm\"\n", "job.toml:3:13:", "both given");
    REFUSED(GRAPH "[partition]\nmethod = \"file\"\n", "job.toml:4:10:", "needs partition.file");
    REFUSED(GRAPH "[partition]\nparts = 2\n[workers]\ncount = 3\n", "job.toml:6:9:", "workers.count = 3",
            "partition.parts = 2");
    REFUSED(GRAPH "[model]\nlayers = 2\nlinear_layers = 2\n", "job.toml:5:17:", "less than model.layers");
    REFUSED(GRAPH "[model]\nbases = 2\nblocks = 2\n", "job.toml:5:10:", "both given");
    REFUSED("[dataset]\npath = \"x\"\nself_loops = \"yes\"\n[model]\nkind = \"rgcn\"\n",
            "job.toml:3:14:", "has no relation");
    REFUSED(GRAPH "[train]\npatience = 3\neval_every = 0\n", "job.toml:4:12:", "train.patience");
    REFUSED(GRAPH "[workers]\nlisten = \"here\"\n", "job.toml:4:10:", "HOST:PORT");
    REFUSED(GRAPH "[workers]\nlisten = \"here:65536\"\n", "HOST:PORT");
    REFUSED("name = \"a/b\"\n" GRAPH, "job.toml:1:8:", "fit for a folder");
    REFUSED("name = \"..\"\n" GRAPH, "fit for a folder");
    REFUSED("name = \"\"\n" GRAPH, "fit for a folder");
    REFUSED("name = \"a\\nb\"\n" GRAPH, "fit for a folder");
    REFUSED("[dataset]\ngenerator = \"sbm\"\nclasses = 3\nlabels_per_node = 4\n",
            "job.toml:4:19:", "dataset.classes");
    SETTING_REFUSED("dataset.path=x", "job.toml:2:13:", "both given");
    SETTING_REFUSED("name=a/b", "--set name: ", "fit for a folder");
    REFUSED(GRAPH "[model]\nkind = \"rgcn\"\nblocks = 2\nembedding = false\n",
            "job.toml:6:13:", "does not go with model.blocks");
    REFUSED(
        "[model]\nkind = \"gat\"\n[dataset]\npath = \"x\"\nedge_weights = \"yes\"\n", "job.toml:5:16:",
        "expected model.kind = \"gcn\", \"sage\", \"gin\", \"appnp\", \"sgc\" or \"gcnii\", and no model.aggregator");
    REFUSED(
        "[model]\nkind = \"gcn\"\n[dataset]\npath = \"x\"\nedge_features = \"yes\"\n", "job.toml:5:17:",
        "attention that reads the features of an edge: expected model.kind = \"gat\", \"gatv2\" or \"transformer\"");
    REFUSED("[model]\nkind = \"sage\"\naggregator = \"max\"\n[dataset]\npath = \"x\"\nedge_weights = \"yes\"\n",
            "job.toml:6:16:", "dataset.edge_weights = \"yes\" is for sums of neighbours' rows",
            "no model.aggregator = \"max\"");
}

#define REMARKED(text, ...)                                                                                          \
    do {                                                                                                             \
        expect_done(job_case_load(text, &job_case_scratch));                                                         \
        cr_assert_str_eq(job_remarks(), __VA_ARGS__);                                                                \
    } while (0)

Test(job_rules, weights_and_smoothing_are_refused_where_the_loss_has_no_place_for_them)
{
    struct job job;
    cr_assert_eq(job_case_load(GRAPH "[train]\nclass_weights = \"balanced\"\nlabel_smoothing = 0.1\n", &job),
                 STATUS_OK);
    cr_assert_str_eq(job.train.class_weights, "balanced");
    cr_assert_eq(job.train.label_smoothing, 0.1);
    REFUSED(GRAPH "[train]\nlabel_smoothing = 1.5\n", "job.toml:4:", "train.label_smoothing", "from 0.0 to 1.0");
    REFUSED(GRAPH "[train]\nclass_weights = \"\"\n", "job.toml:4:", "\"none\", \"balanced\" or a .npy file");
    REFUSED(GRAPH "[train]\nloss = \"bce\"\nlabel_smoothing = 0.1\n", "job.toml:5:", "no other classes");
    REFUSED(GRAPH "[model]\nlabel_input = true\n[train]\nclass_weights = \"balanced\"\n",
            "job.toml:6:", "does not go with model.label_input");
    cr_assert_eq(job_case_load(GRAPH "[model]\nlabel_input = true\n[train]\nlabel_smoothing = 0.1\n", &job),
                 STATUS_OK);
}

#define NUMBERS "[dataset]\npath = \"x\"\n[train]\nloss = \"huber\"\n"

Test(job_rules, a_loss_of_numbers_is_refused_with_what_is_made_of_classes)
{
    struct job job;
    expect_done(job_case_load(NUMBERS "huber_delta = 2.0\nmetric = \"rmse\"\n", &job));
    cr_assert(job_regresses(&job));
    cr_assert_eq(job.train.huber_delta, 2.0);
    REFUSED(NUMBERS "huber_delta = 0.0\n", "train.huber_delta");
    REFUSED(NUMBERS "metric = \"accuracy\"\n", "job.toml:5:", "expected \"r2\", \"rmse\" or \"mae\"");
    REFUSED(GRAPH "[train]\nmetric = \"mae\"\n",
            "job.toml:4:", "expected train.loss = \"mse\", \"mae\" or \"huber\"");
    REFUSED(GRAPH "[train]\nloss = \"mse\"\n", "job.toml:4:", "those of a generator are classes");
    REFUSED("[dataset]\npath = \"x\"\nformat = \"ogb\"\n[train]\nloss = \"mse\"\n",
            "job.toml:5:", "are classes: expected \"npy\"");
    REFUSED(NUMBERS "[model]\nlabel_input = true\n", "job.toml:6:", "model.label_input does not go with");
    REFUSED(NUMBERS "class_weights = \"balanced\"\n", "job.toml:5:", "numbers have no classes");
    REFUSED(NUMBERS "label_smoothing = 0.1\n", "job.toml:5:", "numbers have no classes");
    REFUSED(NUMBERS "[output]\nprobabilities = true\n", "job.toml:6:", "numbers have no classes");
    cr_assert_eq(job_case_load("[dataset]\npath = \"x\"\n[train]\nhuber_delta = 2.0\n", &job), STATUS_OK);
    cr_assert(!job_regresses(&job));
    cr_assert_not_null(strstr(job_remarks(), "train.huber_delta is not used"), "%s", job_remarks());
}

Test(job_rules, the_metrics_of_a_job_are_all_of_classes_or_all_of_numbers)
{
    struct job job;
    expect_done(job_case_load(NUMBERS "metrics = [\"rmse\", \"mae\"]\n", &job));
    expect_done(job_case_load(GRAPH "[train]\nmetric = \"roc_auc\"\nmetrics = [\"roc_auc\", \"accuracy\"]\n", &job));
    REFUSED(NUMBERS "metrics = [\"rmse\", \"accuracy\"]\n", "job.toml:5:11: the metric \"accuracy\" is of classes");
    REFUSED(GRAPH "[train]\nmetrics = [\"accuracy\", \"r2\"]\n", "job.toml:4:11: the metric \"r2\" is of numbers");
    REFUSED(GRAPH "[train]\nmetric = \"accuracy\"\nmetrics = [\"roc_auc\", \"accuracy\"]\n",
            "job.toml:5:11: train.metrics begins with \"roc_auc\"", "train.metric is \"accuracy\"",
            "train.metrics alone");
}

Test(job_rules, keys_of_patience_are_not_used_without_it)
{
    struct job job;
    cr_assert_eq(job_case_load(GRAPH "[train]\npatience = 3\npatience_monitor = \"loss\"\nmin_delta = 1e-4\n", &job),
                 STATUS_OK);
    cr_assert(job.train.patience_monitor == JOB_MONITOR_LOSS && job.train.min_delta == 1e-4);
    cr_assert_str_eq(job_remarks(), "");
    cr_assert_eq(job_case_load(GRAPH "[train]\npatience_monitor = \"loss\"\nmin_delta = 1e-4\n", &job), STATUS_OK);
    cr_assert_str_eq(job_remarks(), "job.toml:4:20: train.patience_monitor is not used: train.patience is 0\n"
                                    "job.toml:5:13: train.min_delta is not used: train.patience is 0\n");
    REFUSED(GRAPH "[train]\npatience = 3\nmin_delta = -0.1\n", "job.toml:5:13: train.min_delta is -0.1", "from 0.0");
    REFUSED(GRAPH "[train]\nmonitor = \"loss\"\n", "did you mean 'train.patience_monitor'?");
}

#define PLATEAU GRAPH "[train]\nlr_schedule = \"reduce_on_plateau\"\n"

Test(job_rules, a_rate_that_falls_by_evaluations_wants_some_and_room_to_fall)
{
    struct job job;
    expect_done(job_case_load(PLATEAU "lr_patience = 3\nlr_min = 1e-4\n", &job));
    cr_assert_eq(job.train.lr_schedule, JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU);
    cr_assert_eq(job.train.lr_monitor, JOB_MONITOR_LOSS);
    cr_assert_eq(job.train.lr_patience, 3);
    REFUSED(PLATEAU "eval_every = 0\n", "job.toml:4:", "asks for none");
    REFUSED(PLATEAU "lr_gamma = 1.0\n", "job.toml:5:", "between 0 and 1");
    REFUSED(PLATEAU "lr_gamma = 0.0\n", "job.toml:5:", "between 0 and 1");
    REFUSED(PLATEAU "lr = 0.1\nlr_min = 0.2\n", "job.toml:6:", "train.lr_min is more than train.lr");
    cr_assert_eq(job_case_load(GRAPH "[train]\nlr_min = 1e-4\n", &job), STATUS_OK);
    cr_assert_not_null(strstr(job_remarks(), "train.lr_min is not used: train.lr_schedule is \"constant\""), "%s",
                       job_remarks());
}

Test(job_rules, the_reference_says_of_unused_keys_what_holds)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    job_describe(file, true);
    fclose(file);
    cr_assert_not_null(strstr(
        text,
        "A key without effect beside the others (`model.alpha` with `model.kind = \"gcn\"`)\nonly draws a remark,"));
    free(text);
    REMARKED(
        GRAPH "[model]\nkind = \"gcn\"\nalpha = 0.5\n",
        "job.toml:5:9: model.alpha is not used: model.kind is \"gcn\", and it goes with \"appnp\" or \"gcnii\"\n");
}

Test(job_rules, a_key_that_means_nothing_beside_another_is_remarked_on_with_both)
{
    REMARKED(GRAPH "[partition]\nfile = \"x\"\n",
             "job.toml:4:8: partition.file is not used: partition.method is \"metis\", and it goes with \"file\"\n");
    REMARKED(GRAPH "[partition]\nmethod = \"block\"\nseed = 1\n",
             "job.toml:5:8: partition.seed is not used: partition.method is \"block\", and it goes with \"metis\" or "
             "\"random\"\n");
    REMARKED(
        GRAPH "[model]\naggregator = \"mean\"\nalpha = 0.5\n",
        "job.toml:4:14: model.aggregator is not used: model.kind is \"gcn\", and it goes with \"sage\"\n"
        "job.toml:5:9: model.alpha is not used: model.kind is \"gcn\", and it goes with \"appnp\" or \"gcnii\"\n");
    REMARKED("[dataset]\npath = \"x\"\nnodes = 5\n",
             "job.toml:3:9: dataset.nodes is not used: dataset.generator is \"none\", and "
             "it goes with \"sbm\" or \"rmat\"\n");
    REMARKED("[dataset]\ngenerator = \"karate\"\nedge_weights = \"yes\"\n",
             "job.toml:3:16: dataset.edge_weights is not used: dataset.generator is \"karate\", and it goes with "
             "\"none\"\n");
    REMARKED(
        GRAPH "[train]\nmomentum = 0.9\nlr_step = 9\n",
        "job.toml:4:12: train.momentum is not used: train.optimizer is \"adam\", and it goes with \"sgd\"\n"
        "job.toml:5:11: train.lr_step is not used: train.lr_schedule is \"constant\", and it goes with \"step\"\n");
    cr_assert_eq(job_case_load_set(GRAPH, "model.alpha=0.5", &job_case_scratch), STATUS_OK);
    cr_assert_str_eq(job_remarks(), "--set model.alpha: model.alpha is not used: model.kind is \"gcn\", and it goes "
                                    "with \"appnp\" or \"gcnii\"\n");
    REMARKED(GRAPH "[model.args]\nt = 2\n",
             "model.args is not used: model.kind is \"gcn\", and it goes with \"program\"\n");
    REMARKED(GRAPH "[model]\nbases = 2\n",
             "job.toml:4:9: model.bases is not used: model.kind is \"gcn\", and it goes with \"rgcn\"\n");
    REMARKED(GRAPH "[model]\nsteps = 2\n", "job.toml:4:9: model.steps is not used: model.kind is \"gcn\", and it "
                                           "goes with \"appnp\", \"sgc\" or \"agnn\"\n");
    REMARKED(GRAPH "[model]\nkind = \"sgc\"\nsteps = 2\n", "");
    REMARKED(GRAPH "[workers]\ndevice = \"cpu\"\n[memory]\noffload = \"always\"\n",
             "job.toml:6:11: memory.offload is not used: workers.device has no memory of its own\n");
    REMARKED(GRAPH "[memory]\nspill = \"x\"\noffload = \"auto\"\n",
             "job.toml:5:11: memory.offload is not used: memory.spill is for workers.device = \"cpu\"\n");
    REMARKED(GRAPH "[memory]\noffload = \"always\"\n", "");
}

Test(job_rules, a_key_of_an_exchange_that_means_nothing_beside_another_is_remarked_on_with_both)
{
    REMARKED(GRAPH "[exchange]\nguard_limit = 0.5\n",
             "job.toml:4:15: exchange.guard_limit is not used: exchange.guard_every is 0\n");
    REMARKED(GRAPH "[exchange]\nplain = true\ncover = true\nstore_inputs = true\n",
             "job.toml:5:9: exchange.cover is not used: exchange.plain is true\n"
             "job.toml:6:16: exchange.store_inputs is not used: exchange.plain is true\n");
    REMARKED(GRAPH "[exchange]\ncodec = \"int8\"\nguard_every = 5\nguard_limit = 0.5\n", "");
}

Test(job_rules, sums_by_cusparse_are_refused_without_a_gpu_or_sums)
{
    struct job job;
    expect_done(job_case_load(GRAPH "[model]\nkernel = \"cusparse\"\n", &job));
    cr_assert_eq(job.model.kernel, JOB_KERNEL_CUSPARSE);
    REMARKED(GRAPH "[model]\nkernel = \"cusparse\"\n[exchange]\ncover = true\n",
             "job.toml:6:9: exchange.cover is not used: model.kernel is \"cusparse\"\n");
    REFUSED(GRAPH "[model]\nkernel = \"cusparse\"\n[workers]\ndevice = \"cpu\"\n",
            "job.toml:4:10: model.kernel = \"cusparse\" is for GPUs, and does not go with workers.device = \"cpu\"");
    REFUSED(GRAPH "[model]\nkernel = \"cusparse\"\n[workers]\ndevice = \"reference\"\n",
            "job.toml:4:10: model.kernel = \"cusparse\" is for GPUs, and does not go with workers.device = "
            "\"reference\"");
    REFUSED(GRAPH "[model]\nkernel = \"cusparse\"\n[train]\nprecision = \"bf16\"\n",
            "job.toml:6:13: train.precision = \"bf16\" does not go with model.kernel = \"cusparse\"; expected "
            "\"fp32\", or model.kernel = \"own\"");
    REMARKED(GRAPH "[exchange]\ncover = true\n[train]\nprecision = \"bf16\"\n",
             "job.toml:4:9: exchange.cover is not used: train.precision is \"bf16\"\n");
    static const char *const others[] = {"kind = \"gat\"", "kind = \"rgcn\"",
                                         "kind = \"sage\"\naggregator = \"max\""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[256];
        snprintf(text, sizeof text, GRAPH "[model]\nkernel = \"cusparse\"\n%s\n", others[i]);
        REFUSED(
            text,
            "job.toml:4:10: model.kernel = \"cusparse\" is for sums over neighbours: expected model.kind = \"gcn\", "
            "\"sage\", \"gin\", \"appnp\", \"sgc\" or \"gcnii\", and no model.aggregator = \"max\"");
    }
    cr_assert_eq(
        job_case_load(GRAPH "[model]\nkernel = \"cusparse\"\nkind = \"gat\"\n[predict]\nmodel = \"x\"\n", &job),
        STATUS_OK, "the kind is the trained model's");
}

#define MULTIPLIES(products, device)                                                                                 \
    GRAPH "[train]\nproducts = \"" products "\"\n[workers]\ndevice = \"" device "\"\n"

Test(job_rules, a_device_has_its_own_products)
{
    struct job job;
    REFUSED(MULTIPLIES("tf32x3", "cpu"),
            "job.toml:4:12: train.products = \"tf32x3\" does not go with workers.device = "
            "\"cpu\": expected train.products = \"fp32\" or \"bf16\"");
    REFUSED(MULTIPLIES("tf32", "reference"), "expected train.products = \"fp32\" or \"bf16\"");
    expect_done(job_case_load(MULTIPLIES("bf16", "reference"), &job));
    expect_done(job_case_load(MULTIPLIES("bf16", JOB_CUDA), &job));
    cr_expect_eq(job.train.products, JOB_PRODUCTS_BF16);
    expect_done(job_case_load(MULTIPLIES("tf32x3", JOB_CUDA), &job));
    cr_expect_eq(job.train.products, JOB_PRODUCTS_TF32X3);
    expect_done(job_case_load(MULTIPLIES("tf32", "auto"), &job));
    REFUSED(GRAPH "[train]\namp = true\n", "did you mean 'train.products'");
}

Test(job_rules, a_guard_wants_something_to_compare)
{
    struct job job;
    REFUSED(GRAPH "[exchange]\nguard_every = 5\n", "job.toml:4:15: exchange.guard_every",
            "expected exchange.sampling below 1");
    REFUSED(GRAPH "[exchange]\nguard_every = 5\ncodec = \"fp32, fp32@7\"\n", "job.toml:4:15: exchange.guard_every");
    REFUSED(GRAPH "[exchange]\nguard_every = -1\n", "job.toml:4:15: exchange.guard_every is -1");
    REFUSED(GRAPH "[exchange]\nguard_limit = -0.5\n", "job.toml:4:15: exchange.guard_limit is -0.5");
    REFUSED(GRAPH "[exchange]\nguard_limit = nan\n", "job.toml:4:15: exchange.guard_limit is nan");
    static const char *const good[] = {"sampling = 0.5", "codec = \"fp32, int8@7\"", "codec_backward = \"bf16\"",
                                       "stale = 1", "stale = 1\ncodec = \"int8, fp32@7\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[256];
        snprintf(text, sizeof text, GRAPH "[exchange]\nguard_every = 5\n%s\n", good[i]);
        cr_expect_eq(job_case_load(text, &job), STATUS_OK, "%s", status_reason());
    }
}

Test(job_rules, error_feedback_wants_something_that_is_rounded_and_used_at_once)
{
    struct job job;
    REFUSED(GRAPH "[exchange]\nerror_feedback = true\n", "job.toml:4:18: exchange.error_feedback",
            "expected an exchange.codec other than fp32");
    REFUSED(GRAPH "[exchange]\nerror_feedback = true\nsampling = 0.5\ncodec = \"fp32, fp32@7\"\n",
            "job.toml:4:18: exchange.error_feedback");
    REFUSED(GRAPH "[exchange]\nerror_feedback = true\nstale = 1\ncodec = \"int8\"\n",
            "job.toml:4:18: exchange.error_feedback", "exchange.stale = 1");
    REFUSED(GRAPH "[exchange]\nerror_feedback = 1\n", "job.toml:4:18: exchange.error_feedback is a whole number");
    static const char *const good[] = {"codec = \"fp32, int8@7\"", "codec_backward = \"bf16\"",
                                       "codec = \"int4\"\nsampling = 0.5", "codec = \"int2\"\nguard_every = 5",
                                       "codec = \"int2\"\n[memory]\nspill = \"/tmp\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[256];
        snprintf(text, sizeof text, GRAPH "[exchange]\nerror_feedback = true\n%s\n", good[i]);
        cr_expect_eq(job_case_load(text, &job), STATUS_OK, "%s", status_reason());
        cr_expect(job.exchange.error_feedback);
    }
}

/* --- codecs over epochs --- */

static enum job_codec codec_at(const char *text, bool backward, int64_t epoch)
{
    char all[512];
    struct job job;
    snprintf(all, sizeof all, GRAPH "[exchange]\n%s\n", text);
    cr_assert_eq(job_case_load(all, &job), STATUS_OK, "%s: %s", text, status_reason());
    const struct job_codecs codecs = job_codecs(&job, backward);
    return job_codecs_at(&codecs, epoch);
}

Test(job_rules, a_codec_holds_from_its_epoch_on)
{
    static const char text[] = "codec = \" int4 ,int8@50,  fp32@150\"";
    static const struct {
        int64_t epoch;
        enum job_codec codec;
    } want[] = {{0, JOB_CODEC_INT4},   {49, JOB_CODEC_INT4},  {50, JOB_CODEC_INT8},
                {149, JOB_CODEC_INT8}, {150, JOB_CODEC_FP32}, {100000000, JOB_CODEC_FP32}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        cr_expect_eq(codec_at(text, false, want[i].epoch), want[i].codec, "epoch %ld", (long)want[i].epoch);
        cr_expect_eq(codec_at(text, true, want[i].epoch), want[i].codec, "gradients, epoch %ld", (long)want[i].epoch);
    }
    cr_expect_eq(codec_at("codec = \"bf16\"", true, 7), JOB_CODEC_BF16);
    cr_expect_eq(codec_at("codec = \"int4\"\ncodec_backward = \"int8, bf16@3\"", true, 2), JOB_CODEC_INT8);
    cr_expect_eq(codec_at("codec = \"int4\"\ncodec_backward = \"int8, bf16@3\"", true, 3), JOB_CODEC_BF16);
    cr_expect_eq(codec_at("codec = \"int4\"\ncodec_backward = \"int8, bf16@3\"", false, 3), JOB_CODEC_INT4);
}

Test(job_rules, codecs_that_make_no_schedule_are_refused_with_what_was_expected)
{
#define CODEC_REFUSED(text, ...)                                                                                     \
    REFUSED(GRAPH "[exchange]\ncodec = \"" text "\"\n", "job.toml:4:9: exchange.codec " __VA_ARGS__)
    CODEC_REFUSED("int4, int8@50, fp32@50", "has \"fp32@50\" behind epoch 50", "epochs that ascend");
    CODEC_REFUSED("int4, int8@50, fp32@20", "has \"fp32@20\" behind epoch 50", "epochs that ascend");
    CODEC_REFUSED("int4, int8@0", "has \"int8@0\" behind epoch 0", "epochs that ascend");
    CODEC_REFUSED("int4@10, int8@50", "has \"int4@10\" first", "without @, as \"fp32, int8@50\"");
    CODEC_REFUSED("int4, int8", "has \"int8\" behind another", "int8@50");
    CODEC_REFUSED("int4, int8@", "has \"int8@\"", "first epoch");
    CODEC_REFUSED("int4, int8@-5", "has \"int8@-5\"", "first epoch");
    CODEC_REFUSED("int4, int8@5.5", "has \"int8@5.5\"", "first epoch");
    CODEC_REFUSED("int4, int8@100000001", "has \"int8@100000001\"", "at most 100000000");
    CODEC_REFUSED("int4, int8@99999999999999999999", "has ", "first epoch");
    CODEC_REFUSED("int4, int3@5", "has \"int3@5\"", "fp32, bf16, int8, int4, int2");
    CODEC_REFUSED("int4,, int8@5", "has an empty entry", "fp32, bf16");
    CODEC_REFUSED("int4,", "has an empty entry");
    CODEC_REFUSED(",int4", "has an empty entry");
    CODEC_REFUSED("int4, int8 @5", "has \"int8 @5\"");
    CODEC_REFUSED("int4@0", "is \"int4@0\" first");
    CODEC_REFUSED("", "is \"\"");
    CODEC_REFUSED("same", "is \"same\"");
#undef CODEC_REFUSED
    REFUSED(GRAPH "[exchange]\ncodec_backward = \"int8, same@5\"\n",
            "job.toml:4:18: exchange.codec_backward has \"same@5\"", "or \"same\" alone");
    REFUSED(GRAPH "[exchange]\ncodec_backward = \"same, int8@5\"\n", "exchange.codec_backward has \"same\"",
            "or \"same\" alone");
    REFUSED(GRAPH "[exchange]\ncodec_backward = \" same\"\n", "exchange.codec_backward is \" same\"",
            "or \"same\" alone");
    REFUSED(GRAPH "[exchange]\ncodec = 8\n", "job.toml:4:9: exchange.codec is a whole number");
    char text[1024] = GRAPH "[exchange]\ncodec = \"int2";
    for (int k = 1; k <= JOB_CODECS_MOST; k++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), ", int4@%d", k);
    }
    strcat(text, "\"\n");
    REFUSED(text, "job.toml:4:9:", "exchange.codec has more than 32 codecs");
}

#define LINKS GRAPH "[task]\nkind = \"link\"\n"

Test(job_rules, links_are_refused_with_keys_about_labels_and_with_what_they_cannot_do_yet)
{
    REFUSED(LINKS "[train]\nloss = \"mse\"\n", "job.toml:6:8: train.loss does not go with task.kind = \"link\"",
            "expected \"auto\", \"bce\", \"margin\"");
    REFUSED(LINKS "[train]\nloss = \"huber\"\n", "job.toml:6:8: train.loss does not go with");
    REFUSED(LINKS "[train]\nclass_weights = \"balanced\"\n", "job.toml:6:17: train.class_weights does not go with");
    REFUSED(LINKS "[train]\nlabel_smoothing = 0.1\n", "job.toml:6:19: train.label_smoothing does not go with");
    REFUSED(LINKS "[model]\nlabel_input = true\n", "job.toml:6:15: model.label_input does not go with");
    REFUSED(LINKS "[output]\nprobabilities = true\n", "job.toml:6:17: output.probabilities does not go with");
    REFUSED(LINKS "[memory]\nspill = \"x\"\n", "job.toml:6:9: memory.spill does not go with", "yet");
    REFUSED(LINKS "[train]\nprune = \"always\"\n", "job.toml:6:9: train.prune = \"always\" does not go with", "yet");
    REFUSED("[dataset]\npath = \"x\"\nsplit = 1\n[task]\nkind = \"link\"\n",
            "job.toml:3:9: dataset.split does not go");
    REFUSED(LINKS "valid_share = 0.6\ntest_share = 0.4\n",
            "job.toml:6:14: task.valid_share and task.test_share are 1 or more together");
}

Test(job_rules, decoders_losses_and_pairs_of_links_go_together)
{
    struct job job;
    REFUSED(GRAPH "[train]\nloss = \"margin\"\n", "job.toml:4:8: train.loss = \"margin\" is of links");
    REFUSED(LINKS "sampling = \"uniform\"\ndecoder = \"distmult\"\n",
            "job.toml:5:12: task.sampling = \"uniform\" does not go with a task.decoder that reads relations");
    REFUSED(LINKS "sampling = \"uniform\"\n[train]\nloss = \"margin\"\n",
            "job.toml:5:12: task.sampling = \"uniform\"", "expected \"ends\" or \"auto\"");
    expect_done(job_case_load(LINKS "margin = 1.0\n", &job));
    cr_expect_str_eq(job_remarks(), "job.toml:5:10: task.margin is not used: train.loss is not \"margin\"\n");
    expect_done(job_case_load(
        LINKS "[train]\nmetrics = [\"roc_auc\", \"average_precision\", \"mrr\", \"hits@1\", \"hits@3\", "
              "\"hits@10\", \"hits@20\", \"hits@50\", \"hits@100\"]\n",
        &job));
    cr_expect_eq(job.train.metrics.n, 9);
    REFUSED(LINKS "decoder = \"trans\"\n",
            "expected one of dot, complex, distmult, mlp, rotate, transe, or a file; did you mean transe?");
    cr_expect_eq(job_case_load(LINKS "margin = 2.0\n[train]\nloss = \"margin\"\n", &job), STATUS_OK, "%s",
                 status_reason());
    cr_expect(job_samples_ends(&job));
    cr_expect_eq(job_case_load(LINKS "decoder = \"mlp\"\ndecoder_layers = 3\n", &job), STATUS_OK, "%s",
                 status_reason());
    cr_expect_not(job_samples_ends(&job));
    cr_expect_eq(job_case_load(LINKS "decoder_layers = 3\n", &job), STATUS_OK, "%s", status_reason());
    cr_expect_not_null(strstr(job_remarks(), "task.decoder_layers is not used"), "%s", job_remarks());
}

Test(job_rules, links_go_with_approximate_exchanges_and_no_edges_held_out)
{
    struct job job;
    cr_expect_eq(job_case_load(LINKS "valid_share = 0\ntest_share = 0\n[train]\nloss = \"bce\"\nprune = \"never\"\n"
                                     "[exchange]\nsampling = 0.5\ncodec = \"int8\"\n",
                               &job),
                 STATUS_OK, "%s", status_reason());
    cr_expect_eq(job_case_load(LINKS "[exchange]\nstale = 1\n", &job), STATUS_OK, "%s", status_reason());
    cr_expect_eq(job_case_load(GRAPH "[task]\nvalid_share = 0.6\ntest_share = 0.6\n", &job), STATUS_OK,
                 "shares mean nothing for nodes: %s", status_reason());
    cr_expect_not_null(strstr(job_remarks(), "task.valid_share is not used"), "%s", job_remarks());
}

Test(job_rules, only_a_trained_model_is_asked_about_pairs_and_nodes)
{
    struct job job;
    REFUSED(GRAPH "[predict]\npairs = \"p.npy\"\n", "job.toml:4:9: predict.pairs asks a trained model", "--predict");
    REFUSED(LINKS "[predict]\nnodes = \"n.npy\"\n", "job.toml:6:9: predict.nodes asks a trained model", "--predict");
    REFUSED(GRAPH "[predict]\nmodel = \"m\"\nnodes = \"n.npy\"\nbest = 0\n", "predict.best", "1 to 1000000");
    cr_expect_eq(job_case_load(GRAPH "[predict]\nmodel = \"m\"\npairs = \"p\"\nbest = 3\nknown = true\n", &job),
                 STATUS_OK, "the model may be one of links: %s", status_reason());
    cr_expect_str_eq(job_remarks(), "job.toml:6:8: predict.best is not used: predict.nodes is empty\n"
                                    "job.toml:7:9: predict.known is not used: predict.nodes is empty\n");
    cr_expect_eq(job_case_load("[dataset]\npath = \"x\"\nsplit = 1\n[task]\nkind = \"link\"\n[memory]\n"
                               "spill = \"s\"\n[predict]\nmodel = \"m\"\n",
                               &job),
                 STATUS_OK, "what only trainings of links cannot do: %s", status_reason());
}

Test(job_rules, metrics_of_links_and_of_nodes_are_not_mixed_up)
{
    struct job job;
    cr_expect_eq(job_case_load(LINKS "[train]\nmetrics = [\"mrr\", \"hits@1\", \"hits@100\", \"roc_auc\", "
                                     "\"average_precision\"]\n",
                               &job),
                 STATUS_OK, "%s", status_reason());
    REFUSED(LINKS "[train]\nmetric = \"accuracy\"\n",
            "job.toml:6:10: the metric \"accuracy\" is of nodes, and task.kind = \"link\"", "expected \"roc_auc\"");
    REFUSED(LINKS "[train]\nmetrics = [\"mrr\", \"r2\"]\n", "job.toml:6:11: the metric \"r2\" is of nodes");
    REFUSED(
        LINKS "candidates = \"all\"\n[train]\nmetrics = [\"mrr\", \"roc_auc\"]\n",
        "job.toml:7:11: the metric \"roc_auc\" is of edges among pairs without one, and task.candidates = \"all\"",
        "expected \"mrr\" or \"hits@10\"");
    REFUSED(LINKS "candidates = \"all\"\n[train]\nmetric = \"average_precision\"\n",
            "\"average_precision\" is of edges");
    cr_expect_eq(job_case_load(LINKS "candidates = \"all\"\n[train]\nmetrics = [\"auto\", \"hits@3\"]\n", &job),
                 STATUS_OK, "%s", status_reason());
    REFUSED(GRAPH "[train]\nmetric = \"mrr\"\n", "job.toml:4:10: the metric \"mrr\" is of links",
            "expected task.kind = \"link\"");
    REFUSED("[dataset]\npath = \"x\"\n[train]\nloss = \"mse\"\nmetrics = [\"hits@10\"]\n", "\"hits@10\" is of links");
}

#define WHOLE                                                                                                        \
    "[model]\nkind = \"program\"\nprogram = '''\ndef model(v, classes):\n    return linear(\"a\", v.x, "             \
    "classes)\n'''\n"
#define LAYER                                                                                                        \
    "[model]\nkind = \"program\"\nprogram = '''\ndef layer(v, out):\n    return linear(\"a\", v.x, out)\n'''\n"
Test(job_rules, keys_of_a_stack_are_refused_beside_a_program_that_is_the_whole_model)
{
    static const char *const lines[] = {"layers = 2",          "hidden = 16",    "dropout = 0.5",
                                        "activation = 'relu'", "norm = 'layer'", "residual = true"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char whole[512], layer[512], want[64];
        snprintf(whole, sizeof whole, GRAPH WHOLE "%s\n", lines[i]);
        snprintf(layer, sizeof layer, GRAPH LAYER "%s\n", lines[i]);
        snprintf(want, sizeof want, "model.%.*s is of a stack", (int)strcspn(lines[i], " "), lines[i]);
        REFUSED(whole, "job.toml:9:", want, "[model.args]");
        expect_done(job_case_load(layer, &job_case_scratch));
    }
    expect_done(job_case_load(GRAPH WHOLE, &job_case_scratch));
    char *text = job_print(&job_case_scratch); /* a checkpoint's job is read again */
    expect_done(job_case_load(text, &job_case_scratch));
    free(text);
}

/* 200 layers of 10 100 steps each: one layer may take as many, all of them not. The daemon leaves them to others. */
Test(job_rules, the_layers_of_a_program_share_one_budget_which_loading_without_traces_does_not_touch)
{
    static const char text[] = GRAPH
        "[model]\nkind = \"program\"\nlayers = %d\nprogram = '''\ndef layer(v, out):\n    for i in "
        "range(100):\n        for j in range(100):\n            s = 1\n    return linear(\"a\", v.x, out)\n'''\n";
    char few[512], many[512];
    struct job job;
    snprintf(few, sizeof few, text, 2);
    snprintf(many, sizeof many, text, 200);
    expect_done(job_case_load(few, &job));
    REFUSED(many, "model.program:", "more than 1000000 steps before training, in all its layers");
    expect_done(job_load_untraced(many, strlen(many), "job.toml", NULL, 0, &job));
    cr_expect(job.program.kind.is_stack && job.model.layers == 200);
}

#define HEAD "[model]\nkind = \"program\"\nprogram = '''\n"
Test(job_rules, a_function_may_name_its_edge_and_a_text_its_values_of_nodes_as_they_like)
{
    expect_done(job_case_load(GRAPH HEAD
                              "def message(q):\n    return q.weight * q.src.x\ndef layer(v, out):\n    return "
                              "linear(\"a\", sum(message(e) for e in v.in_edges), out)\n'''\n",
                              &job_case_scratch));
    cr_expect(job_case_scratch.program.reads_weights && job_case_scratch.program.line.weight == 2);
    expect_done(job_case_load(GRAPH HEAD
                              "def twice(u):\n    return u.relation * 2\ndef layer(v, out):\n    v.relation = "
                              "linear(\"a\", v.x, out)\n    return twice(v)\n'''\n",
                              &job_case_scratch));
    cr_expect_not(job_case_scratch.program.kind.needs_types);
}
