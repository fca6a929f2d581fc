/* Keys of a job file, read and printed: defaults, types, ranges, settings over the file. */
#include "protocol/job/job_keys.h"
#include "tests/support/process/expect.h"
#include "tests/unit/protocol/job/job_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(job, a_key_that_is_not_given_has_its_default)
{
    struct job job, defaults;
    job_defaults(&defaults);
    expect_done(job_case_load(GRAPH, &job));
    cr_assert_eq(job.train.epochs, 200);
    cr_assert_eq(job.train.lr, 0.01);
    cr_assert_eq(job.train.clip_norm, 0.0);
    cr_assert_str_eq(job.job.name, "job");
    cr_assert_eq(job.dataset.generator, JOB_GENERATOR_KARATE);
    job.dataset.generator = defaults.dataset.generator;
    cr_assert_eq(memcmp(&job, &defaults, sizeof job), 0);
}

Test(job, every_type_of_key_is_read)
{
    struct job job;
    expect_done(job_case_load(
        "name = \"cora gcn\"\n[dataset]\npath = \"data/cora\"\n[model]\nkind = \"gin\"\nlearn_eps = true\n"
        "[train]\nepochs = 7\nlr = 1\nweight_decay = 5e-4\n[memory]\nlimit = \"1.5GiB\"\n",
        &job));
    cr_assert_str_eq(job.job.name, "cora gcn");
    cr_assert_str_eq(job.dataset.path, "data/cora");
    cr_assert_eq(job.model.kind, JOB_KIND_GIN);
    cr_assert(job.model.learn_eps);
    cr_assert_eq(job.train.epochs, 7);
    cr_assert_eq(job.train.lr, 1.0);
    cr_assert_eq(job.train.weight_decay, 5e-4);
    cr_assert_eq(job.memory.limit, 1610612736);
}

Test(job, sizes_are_read_with_decimal_and_binary_units)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {
        {"4096", 4096}, {"\"4096\"", 4096}, {"\"20GiB\"", 21474836480}, {"\"2 MB\"", 2000000}, {"\"1kib\"", 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job;
        char text[256];
        snprintf(text, sizeof text, GRAPH "[memory]\nlimit = %s\n", cases[i].text);
        expect_done(job_case_load(text, &job));
        cr_assert_eq(job.memory.limit, cases[i].bytes, "%s", cases[i].text);
    }
    REFUSED(GRAPH "[memory]\nlimit = \"20 gigs\"\n", "job.toml:4:9: memory.limit", "20 gigs", "20GiB");
    REFUSED(GRAPH "[memory]\nlimit = \"-1GiB\"\n", "job.toml:4:9: memory.limit");
    REFUSED(GRAPH "[memory]\nlimit = \"9e99GiB\"\n", "job.toml:4:9: memory.limit");
    REFUSED(GRAPH "[memory]\nlimit = \"99999999999TiB\"\n", "job.toml:4:9: memory.limit");
    REFUSED(GRAPH "[memory]\nlimit = -5\n", "job.toml:4:9: memory.limit");
}

Test(job, a_mistaken_key_is_named_with_its_place_and_the_nearest_key)
{
    REFUSED(GRAPH "[train]\nepoch = 3\n", "job.toml:4:1:", "'epoch'", "[train]", "did you mean 'train.epochs'?");
    REFUSED(GRAPH "[train]\nLR = 3\n", "job.toml:4:1:", "did you mean 'train.lr'?");
    REFUSED(GRAPH "[train]\nwieght_decay = 3\n", "did you mean 'train.weight_decay'?");
    REFUSED(GRAPH "[model]\nepochs = 3\n", "job.toml:4:1:", "did you mean 'train.epochs'?");
    REFUSED("lr = 3\n" GRAPH, "job.toml:1:1:", "before the first section", "did you mean 'train.lr'?");
    REFUSED(GRAPH "[train]\nsed = 3\n", "did you mean 'train.seed'?"); /* not another section's seed */
    REFUSED(GRAPH "[output]\nquite_different = 3\n", "job.toml:4:1:", "expected one of dir");
}

Test(job, a_mistaken_section_is_named_with_its_place_and_the_nearest_section)
{
    REFUSED(GRAPH "\n[trian]\nlr = 3\n", "job.toml:4:2:", "[trian]", "did you mean [train]?");
    REFUSED(GRAPH "[somewhere]\n", "job.toml:3:2:", "expected one of [dataset]", "[output]");
    REFUSED("[job]\nname = \"x\"\n", "job.toml:1:2:", "before the first section");
    REFUSED("trian.lr = 3\n", "job.toml:1:1:", "did you mean [train]?");
}

Test(job, a_value_of_the_wrong_type_is_refused_with_what_was_expected)
{
    REFUSED(GRAPH "[train]\nepochs = \"many\"\n", "job.toml:4:10: train.epochs is the text \"many\"",
            "a whole number from 0 to 100000000");
    REFUSED(GRAPH "[train]\nepochs = 2.0\n", "job.toml:4:10: train.epochs is a number");
    REFUSED(GRAPH "[train]\nlr = true\n", "job.toml:4:6: train.lr is true or false", "a number from 0.0");
    REFUSED(GRAPH "[model]\nresidual = 1\n", "job.toml:4:12: model.residual", "true or false");
    REFUSED("name = 3\n" GRAPH, "job.toml:1:8: name is a whole number", "a text");
    REFUSED("[dataset]\npath = [\"a\"]\n", "job.toml:2:8: dataset.path is an array");
    REFUSED("[dataset]\npath = 2020-01-01\n", "dataset.path is a date or time");
    REFUSED("[dataset.path]\nx = 1\n", "dataset.path is a table");
    REFUSED("[dataset.other]\nx = 1\n", "job.toml:1:10:", "unknown key 'other' in [dataset]");
    REFUSED("[[dataset]]\nx = 1\n", "job.toml:1:3:", "'dataset' is an array; expected the section [dataset]");
    REFUSED("dataset = 3\n", "job.toml:1:1:", "expected the section [dataset]");
}

Test(job, a_value_out_of_range_is_refused_with_the_range)
{
    REFUSED(GRAPH "[train]\nepochs = -1\n", "job.toml:4:10: train.epochs is -1", "from 0 to 100000000");
    REFUSED(GRAPH "[model]\nhidden = 65537\n", "model.hidden is 65537", "from 1 to 65536");
    REFUSED(GRAPH "[model]\ndropout = 1\n", "model.dropout is 1.0", "from 0.0 to 0.999");
    REFUSED(GRAPH "[train]\nlr = nan\n", "train.lr is nan");
    REFUSED(GRAPH "[train]\nlr = inf\n", "train.lr is inf");
    REFUSED(GRAPH "[train]\nlr = -inf\n", "train.lr is -inf");
    REFUSED(GRAPH "[train]\nlr = 1e999\n", "job.toml:4:");
    REFUSED(GRAPH "[train]\nepochs = 99999999999999999999\n", "job.toml:4:");
}

Test(job, a_choice_that_is_not_there_is_refused_with_the_choices_and_the_nearest)
{
    REFUSED(GRAPH "[model]\nkind = \"gnc\"\n", "job.toml:4:8: model.kind is \"gnc\"", "gcn, sage, gin",
            "did you mean \"gcn\"?");
    REFUSED(GRAPH "[model]\nkind = \"perceptron\"\n", "expected one of gcn");
}

Test(job, what_is_there_twice_is_refused_at_its_second_place)
{
    REFUSED(GRAPH "[train]\nlr = 1\nlr = 2\n", "job.toml:5:");
    REFUSED(GRAPH "[train]\n[train]\n", "job.toml:4:");
}

Test(job, a_text_too_long_for_its_place_is_refused)
{
    char text[4000] = "[dataset]\npath = \"";
    size_t n = strlen(text);
    memset(text + n, 'x', JOB_TEXT_BYTES);
    strcpy(text + n + JOB_TEXT_BYTES, "\"\n");
    REFUSED(text, "job.toml:2:8: dataset.path has 1024 bytes; expected at most 1023");
    strcpy(text + n + JOB_TEXT_BYTES - 1, "\"\n");
    struct job job;
    expect_done(job_case_load(text, &job));
    cr_assert_eq(strlen(job.dataset.path), JOB_TEXT_BYTES - 1);
}

Test(job, settings_stand_over_the_file_and_later_ones_over_earlier_ones)
{
    const char *set[] = {"train.lr=0.5",
                         "train.epochs = 3",
                         "train.epochs=4",
                         "name=run-2",
                         "dataset.generator=",
                         "dataset.generator=none",
                         "dataset.path=../data set/x",
                         "model.residual=true",
                         "memory.limit=20GiB",
                         "output.dir=\"a\\tb\"",
                         "model.kind='sage'"};
    struct job job;
    expect_done(job_load_text(GRAPH, strlen(GRAPH), "job.toml", set, 4, &job));
    expect_done(job_load_text(GRAPH, strlen(GRAPH), "job.toml", set + 5, 6, &job));
    cr_assert_str_eq(job.dataset.path, "../data set/x");
    cr_assert(job.model.residual);
    cr_assert_eq(job.memory.limit, 21474836480);
    cr_assert_str_eq(job.output.dir, "a\tb");
    cr_assert_eq(job.model.kind, JOB_KIND_SAGE);
    cr_assert_eq(job_load_text(GRAPH, strlen(GRAPH), "job.toml", set, 4, &job), STATUS_OK);
    cr_assert_eq(job.train.lr, 0.5);
    cr_assert_eq(job.train.epochs, 4);
    cr_assert_str_eq(job.job.name, "run-2");
}

Test(job, a_setting_of_a_text_is_taken_as_it_stands)
{
    static const char *const words[] = {"2024", "true", "1.0", "a = 3", "#no comment", "[x", "a\\tb", "it's"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct job job;
        char setting[64];
        snprintf(setting, sizeof setting, "output.dir=%s", words[i]);
        expect_done(job_case_load_set(GRAPH, setting, &job));
        cr_assert_str_eq(job.output.dir, words[i]);
    }
}

Test(job, a_mistaken_setting_is_named)
{
    SETTING_REFUSED("train.epochs=many", "--set train.epochs: train.epochs is the text \"many\"", "a whole number");
    SETTING_REFUSED("train.epochs=1\ntrain.lr=3", "--set train.epochs: ");
    SETTING_REFUSED("train.epochs=", "--set train.epochs: ");
    SETTING_REFUSED("train.epochs=[1]", "--set train.epochs: train.epochs is an array");
    SETTING_REFUSED("train.lr=-1", "--set train.lr: train.lr is -1.0", "from 0.0");
    SETTING_REFUSED("train.epoch=1",
                    "--set train.epoch: unknown key 'epoch' in [train]; did you mean 'train.epochs'?");
    SETTING_REFUSED("trian.lr=1", "--set trian.lr: unknown section [trian]; did you mean [train]?");
    SETTING_REFUSED("lr=1", "--set lr: unknown key 'lr'", "did you mean 'train.lr'?");
    SETTING_REFUSED("name=\"open", "--set name:");
    SETTING_REFUSED("output.dir=\xff", "--set output.dir:", "0xff is not UTF-8");
    SETTING_REFUSED("memory.offload=true", "--set memory.offload", "expected one of auto, always, never");
    job_case_refused(job_case_load_set(GRAPH, "train.lr", &job_case_scratch), STATUS_USAGE,
                     (const char *const[]){"--set train.lr", "section.key=value", NULL});
    job_case_refused(job_case_load_set(GRAPH, "=3", &job_case_scratch), STATUS_USAGE,
                     (const char *const[]){"section.key=value", NULL});
}

Test(job, a_list_of_choices_keeps_its_order_and_is_written_in_brackets_or_between_commas)
{
    static const char *const texts[] = {"metrics = [\"roc_auc\", \"accuracy\"]", "metrics = \"roc_auc, accuracy\"",
                                        "metrics = [\n  \"roc_auc\",  # first\n  \"accuracy\",\n]"};
    static const char *const settings[] = {"train.metrics=[\"roc_auc\", \"accuracy\"]",
                                           "train.metrics=roc_auc,accuracy", "train.metrics='roc_auc, accuracy'"};
    for (size_t i = 0; i < 3; i++) {
        struct job job;
        char text[128];
        snprintf(text, sizeof text, GRAPH "[train]\n%s\n", texts[i]);
        expect_done(job_case_load(text, &job));
        cr_assert(job.train.metrics.n == 2 && job.train.metrics.of[0] == JOB_METRIC_ROC_AUC &&
                  job.train.metrics.of[1] == JOB_METRIC_ACCURACY);
        expect_done(job_case_load_set(GRAPH "[train]\nmetrics = [\"macro_f1\"]\n", settings[i], &job));
        cr_assert(job.train.metrics.n == 2 && job.train.metrics.of[0] == JOB_METRIC_ROC_AUC &&
                  job.train.metrics.of[1] == JOB_METRIC_ACCURACY);
        char *printed = job_print(&job);
        cr_assert_not_null(strstr(printed, "\nmetrics = [\"roc_auc\", \"accuracy\"]\n"), "%s", printed);
        free(printed);
        cr_assert_eq(job_case_load_set(text, i == 0 ? "train.metrics=[]" : "train.metrics=", &job), STATUS_OK);
        cr_assert_eq(job.train.metrics.n, 0);
    }
    REFUSED(GRAPH "[train]\nmetrics = [\"acuracy\"]\n", "job.toml:4:11: train.metrics is \"acuracy\"",
            "a list of any of auto, accuracy", "did you mean \"accuracy\"?");
    REFUSED(GRAPH "[train]\nmetrics = [\"r2\", 3]\n", "job.toml:4:11: train.metrics is an array", "a list of any of");
    REFUSED(GRAPH "[train]\nmetrics = 3\n", "train.metrics is a whole number", "a list of any of");
    REFUSED(GRAPH "[train]\nmetrics = [\"accuracy\", \"roc_auc\", \"accuracy\"]\n", "a list with \"accuracy\" twice");
    REFUSED(GRAPH "[train]\nmetrics = [\"a\\u0000\"]\n", "a NUL character");
}

Test(job, printed_jobs_read_back_as_the_same_bytes)
{
    const char *set[] = {"name=\"q\\\"uo\\\\te \\u00e9\"",
                         "train.lr=0.1",
                         "train.weight_decay=1e-300",
                         "train.epsilon=1e-8",
                         "train.beta1=0.30000000000000004",
                         "model.eps=-0.0",
                         "dataset.generator=sbm",
                         "dataset.degree=3.3333333333333335",
                         "train.seed=9223372036854775807",
                         "memory.limit=3GiB",
                         "output.dir=\"tab\\tnewline\\nbell\\u0007del\\u007f\"",
                         "model.residual=true",
                         "train.metrics=macro_f1,auto",
                         "model.kind=gin"};
    struct job first, second;
    memset(&first, 0xaa, sizeof first);
    memset(&second, 0x55, sizeof second);
    expect_done(job_load_text(GRAPH, strlen(GRAPH), "a", set, sizeof set / sizeof *set, &first));
    char *text = job_print(&first);
    expect_done(job_load_text(text, strlen(text), "b", NULL, 0, &second));
    cr_assert_eq(memcmp(&first, &second, sizeof first), 0);
    cr_assert(signbit(second.model.eps));
    char *again = job_print(&second);
    cr_assert_str_eq(text, again);
    cr_assert_not_null(strstr(text, "lr = 0.1\n"));
    free(text);
    free(again);
}

Test(job, choices_have_texts)
{
    cr_assert_str_eq(job_choice_text("model", "kind", JOB_KIND_GCN), "gcn");
    cr_assert_str_eq(job_choice_text("train", "lr_schedule", JOB_LR_SCHEDULE_COSINE), "cosine");
    cr_assert_str_eq(job_choice_text("model", "kind", 99), "unknown");
    cr_assert_str_eq(job_choice_text("train", "lr", 0), "unknown");
}

Test(job, a_failed_reading_leaves_the_job_untouched)
{
    struct job job, before;
    memset(&job, 0x5a, sizeof job);
    before = job;
    cr_assert_eq(job_case_load(GRAPH "[train]\nlr = -1\n", &job), STATUS_CONFIG);
    cr_assert_eq(memcmp(&job, &before, sizeof job), 0);
}

Test(job, names_from_elsewhere_suggest_the_keys_that_they_mean)
{
    REFUSED(GRAPH "[train]\nlearning_rate = 0.01\n", "job.toml:4:1:", "'learning_rate'", "did you mean 'train.lr'?");
    REFUSED(GRAPH "[model]\nhidden_channels = 64\n", "did you mean 'model.hidden'?");
    REFUSED(GRAPH "[model]\nNum_Layers = 3\n", "did you mean 'model.layers'?");
    REFUSED(GRAPH "[model]\nlearning_rate = 0.01\n", "did you mean 'train.lr'?"); /* whatever the section */
    REFUSED("batch_size = 3\n" GRAPH, "job.toml:1:1:", "one step over the whole graph");
    static const struct {
        const char *section, *key;
    } aliases[] = {
#define JOB_ALIAS(name, section, key) {#section, #key},
#include "protocol/job/job_aliases.def"
    };
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        cr_expect_not_null(job_key_find(aliases[i].section, aliases[i].key), "%s.%s", aliases[i].section,
                           aliases[i].key);
    }
}

Test(job, names_of_keys_of_other_tools_suggest_ours_whatever_their_section)
{
    REFUSED("seed = 3\n" GRAPH, "job.toml:1:1:", "did you mean 'train.seed'?");
    REFUSED(GRAPH "[workers]\ngpus = 2\n", "job.toml:4:1:", "a worker has one GPU: did you mean 'workers.count'");
    REFUSED(GRAPH "[train]\ngradient_clip = 1.0\n", "did you mean 'train.clip_norm'?");
    REFUSED(GRAPH "[model]\ntype = \"gcn\"\n", "did you mean 'model.kind'?");
    REFUSED("task = \"regression\"\n" GRAPH, "expected the section [task], and whole numbers as labels are classes");
    REFUSED(GRAPH "[output]\ncount = 3\n", "did you mean 'workers.count'?");
    REFUSED(GRAPH "[output]\nrun_name = \"x\"\n", "did you mean 'name' above all sections?");
    REFUSED(GRAPH "[output]\nabc = 3\n", "expected one of dir");
}

Test(job, sections_of_other_tools_suggest_ours)
{
    REFUSED("[data]\npath = \"x\"\n", "job.toml:1:2: unknown section [data]; did you mean [dataset]?");
    REFUSED(GRAPH "[optimizer]\nlr = 0.1\n", "job.toml:3:2: unknown section [optimizer]; did you mean [train]?");
    REFUSED(GRAPH "[nowhere]\nlr = 0.1\n", "job.toml:3:2: unknown section [nowhere]; expected one of [dataset]",
            "job.toml:4:1: unknown key 'lr' in [nowhere]; did you mean 'train.lr'?");
    SETTING_REFUSED("nowhere.lr=1", "--set nowhere.lr: unknown section [nowhere]; did you mean 'train.lr'?");
    SETTING_REFUSED("nowhere.xyz=1", "--set nowhere.xyz: unknown section [nowhere]; expected one of [dataset]");
}

Test(job, choices_of_other_tools_suggest_ours)
{
    REFUSED(GRAPH "[workers]\ndevice = \"gpu\"\n", "workers.device is \"gpu\"; expected one of auto, cpu",
            "(did you mean \"cuda\"?)");
    REFUSED(GRAPH "[model]\nkind = \"GraphSAGE\"\n", "(did you mean \"sage\"?)");
    REFUSED(GRAPH "[model]\nkind = \"Graph-Sage\"\n", "(did you mean \"sage\"?)");
    REFUSED(GRAPH "[model]\nkind = \"GCN\"\n", "(did you mean \"gcn\"?)");
    REFUSED(GRAPH "[train]\nmetric = \"auc\"\n", "(did you mean \"roc_auc\"?)");
    REFUSED(GRAPH "[dataset.undirected]\n", "dataset.undirected is a table");
    SETTING_REFUSED("dataset.undirected=true", "expected one of auto, yes, no", "(did you mean \"yes\"?)");
    REFUSED("[dataset]\ngenerator = \"karate\"\nundirected = true\n", "dataset.undirected is \"true\"",
            "(did you mean \"yes\"?)");
}

Test(job, a_short_name_that_is_far_off_suggests_nothing)
{
    REFUSED(GRAPH "[model]\nkind = \"hgt\"\n", "expected one of gcn, sage, gin",
            "\"rgcn\" is the kind that takes types");
    cr_expect_null(strstr(status_reason(), "did you mean"), "%s", status_reason());
    REFUSED(GRAPH "[model]\nkind = \"abc\"\n", "expected one of gcn, sage, gin");
    cr_expect_null(strstr(status_reason(), "did you mean"), "%s", status_reason());
}

/* The reason has as many lines. */
static size_t lines(void)
{
    size_t n = 1;
    for (const char *at = status_reason(); *at != '\0'; at++) {
        n += *at == '\n';
    }
    return n;
}

Test(job, all_mistakes_are_told_at_once_a_line_each)
{
    REFUSED("seed = 1\n" GRAPH
            "[model]\nkind = \"gnc\"\nhidden = 0\n[train]\nlr = fast\nepoch = 3\n[workers]\nlisten = \"here\"\n",
            "job.toml:1:1: unknown key 'seed'", "\njob.toml:5:8: model.kind is \"gnc\"",
            "\njob.toml:6:10: model.hidden is 0", "\njob.toml:8:6: train.lr is fast; expected a number from 0.0",
            "\njob.toml:9:1: unknown key 'epoch' in [train]; did you mean 'train.epochs'?",
            "\njob.toml:11:10: workers.listen must be HOST:PORT");
    cr_expect_eq(lines(), 6, "%s", status_reason());
    REFUSED(
        GRAPH
        "[partition]\nmethod = \"file\"\n[train]\npatience = 3\neval_every = 0\nmetric = \"mae\"\n[model]\nbases = "
        "1\nblocks = 1\n",
        "needs partition.file", "train.patience counts", "the metric \"mae\" is of numbers",
        "model.bases and model.blocks");
    cr_expect_eq(lines(), 4, "%s", status_reason());
    const char *set[] = {"train.lr=-1", "train.epoch=2", "name"};
    cr_assert_eq(job_load_text(GRAPH, strlen(GRAPH), "job.toml", set, 3, &job_case_scratch), STATUS_CONFIG);
    cr_expect_eq(lines(), 3, "%s", status_reason());
}

Test(job, a_mistake_does_not_make_others)
{
    static const char *const texts[] = {
        "[dataset]\npth = \"x\"\n", /* no "neither path nor generator" */
        "[data]\npath = \"x\"\n",
        "path = \"x\"\n",
        "[dataset]\npath = \"x\n",
        "[dataset]\npath = \"x\"\nedge_features = \"yes\"\n[model]\nkind = \"gatt\"\n", /* not that gcn takes none */
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_assert_eq(job_case_load(texts[i], &job_case_scratch), STATUS_CONFIG);
        cr_expect_eq(lines(), 1, "%s", status_reason());
    }
}

Test(job, a_value_without_quotes_is_told_by_what_its_key_takes)
{
    REFUSED(GRAPH "[train]\nlr = fast # or so\n", "job.toml:4:6: train.lr is fast; expected a number from 0.0 to");
    REFUSED(GRAPH "[train]\nepochs = many\n", "job.toml:4:10: train.epochs is many; expected a whole number from 0");
    REFUSED(GRAPH "[train]\nlr = .5\n", "train.lr is .5; expected it written as 0.5");
    REFUSED(GRAPH "[train]\nepochs = # later\nlr =\n",
            "job.toml:4:10: train.epochs has no value; expected a whole number",
            "\njob.toml:5:5: train.lr has no value; expected a number");
    REFUSED(GRAPH "[train]\nepochs = 99999999999999999999\n",
            "train.epochs is 99999999999999999999; expected a whole number");
    REFUSED(GRAPH "[model]\nkind = gat\n", "job.toml:4:8: model.kind is gat without quotes; expected \"gat\"");
    REFUSED(GRAPH "[model]\nkind = gatt\n", "model.kind is \"gatt\"; expected one of", "did you mean \"gat\"?");
    REFUSED(GRAPH "[model]\nresidual = True\n", "model.residual is True; expected true or false");
    REFUSED("[dataset]\npath = data/cora\n", "dataset.path is data/cora without quotes; expected \"data/cora\"");
    REFUSED(GRAPH "[memory]\nlimit = 20GiB\n", "memory.limit is 20GiB without quotes; expected \"20GiB\"");
    REFUSED("train.lr = fast\n" GRAPH, "job.toml:1:12: train.lr is fast");
}

Test(job, more_mistakes_than_there_is_room_for_are_counted)
{
    char text[12000] = GRAPH "[train]\n";
    for (int i = 0; i < 300; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "no_such_%d = 1\n", i);
    }
    REFUSED(text, "'no_such_0'", " more mistakes");
    cr_assert_lt(strlen(status_reason()), STATUS_REASON_BYTES);
}

Test(job, features_are_a_number_or_a_word)
{
    struct job job, again;
    expect_done(job_case_load("[dataset]\npath = \"x\"\nfeatures = \"one_hot\"\n", &job));
    cr_expect(job_makes_features(&job) && job.dataset.features == JOB_WORD(JOB_FEATURES_ONE_HOT));
    cr_expect_str_eq(job_remarks(), "");
    char *text = job_print(&job);
    cr_expect_not_null(strstr(text, "features = \"one_hot\"\n"), "%s", text);
    expect_done(job_case_load(text, &again));
    cr_expect_eq(memcmp(&job, &again, sizeof job), 0);
    free(text);
    expect_done(job_case_load_set(GRAPH, "dataset.features=degree", &job));
    cr_expect_eq(job.dataset.features, JOB_WORD(JOB_FEATURES_DEGREE));
    expect_done(job_case_load("[dataset]\ngenerator = \"sbm\"\nfeatures = 5\n", &job));
    cr_expect(job.dataset.features == 5 && !job_makes_features(&job));
    REFUSED("[dataset]\npath = \"x\"\nfeatures = \"degrees\"\n", "job.toml:3:12: dataset.features is \"degrees\"",
            "a whole number from 1 to 1048576, or one of degree, one_hot, learned", "did you mean \"degree\"?");
    REFUSED("[dataset]\npath = \"x\"\nfeatures = 0\n", "dataset.features is 0");
    REFUSED("[dataset]\npath = \"x\"\nfeatures = -1\n", "dataset.features is -1");
    REFUSED("[dataset]\npath = \"x\"\nfeatures = learned\n", "dataset.features is learned without quotes");
    REFUSED("[dataset]\npath = \"x\"\nfeatures = \"learned\"\n[model]\nkind = \"rgcn\"\nembedding = false\n",
            "job.toml:6:13: model.embedding = false does not go with dataset.features = \"learned\"");
    REFUSED("[dataset]\npath = \"x\"\nfeatures = \"one_hot\"\n[model]\nkind = \"rgcn\"\nblocks = 2\n",
            "job.toml:3:12: dataset.features = \"one_hot\" does not go with model.blocks");
}
