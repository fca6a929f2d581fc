/* Event files as TensorBoard's own reader finds them: every epoch once, also after a job went on or went back. */
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Where scripts/install-deps --test puts the package. */
#define PYTHON "PYTHONPATH=build/python PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python /usr/bin/python3 "

static char program[PATH_MAX];

static void make_all(void)
{
    if (system(PYTHON "-c 'import tensorboard, google.protobuf' 2>/dev/null") != 0) {
        cr_skip_test("the tensorboard package is not there: scripts/install-deps --test");
    }
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    folder_write("read.py",
                 "import sys\n"
                 "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as Reader\n"
                 "reader = Reader(sys.argv[1], size_guidance={'scalars': 0})\n"
                 "reader.Reload()\n"
                 "for event in reader.Scalars(sys.argv[2]):\n"
                 "    print(event.step, repr(event.value))\n");
}

TestSuite(tensorboard, .init = make_all, .fini = folder_remove, .timeout = 900);

static void run(const char *epochs, const char *resume)
{
    struct process process = {0};
    process_start(&process, NULL, folder, NULL,
                  (const char *const[]){program, "--config", "job.toml", "--set", epochs, resume, NULL});
    int code = process_finish(&process);
    cr_assert_eq(code, 0, "exit %d: %s", code, process.words);
}

/* What the reader finds under a tag is what metrics.jsonl has under a key, of each epoch. */
static void expect_read(const char *tag, const char *key, size_t n_epoch)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, PYTHON "%s %s %s 2>/dev/null", folder_path("read.py"), folder_path("o/tb"),
             tag);
    json_t *metrics = results_metrics(folder_path("o"), true);
    cr_assert_eq(json_array_size(metrics), n_epoch);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    char line[512];
    for (size_t i = 0; i < n_epoch; i++) {
        size_t step = 0;
        double value = 0;
        cr_assert_not_null(fgets(line, sizeof line, pipe), "%s: nothing of epoch %zu", tag, i);
        cr_assert_eq(sscanf(line, "%zu %lf", &step, &value), 2, "%s", line);
        cr_assert_eq(step, i, "%s: step %zu in place of %zu", tag, step, i);
        double wanted = json_number_value(json_object_get(json_array_get(metrics, i), key));
        cr_assert_eq((float)value, (float)wanted, "%s of epoch %zu", tag, i);
    }
    cr_assert_null(fgets(line, sizeof line, pipe), "%s", line);
    cr_assert_eq(pclose(pipe), 0);
    json_decref(metrics);
}

/* The plugin's own parser, on the metadata that the reader finds. */
Test(tensorboard, its_table_of_hyperparameters_has_the_jobs_settings)
{
    folder_write("hparams.py",
                 "import sys\n"
                 "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as Reader\n"
                 "from tensorboard.plugins.hparams import metadata\n"
                 "reader = Reader(sys.argv[1])\n"
                 "reader.Reload()\n"
                 "content = reader.PluginTagToContent('hparams')\n"
                 "start = metadata.parse_session_start_info_plugin_data(content[metadata.SESSION_START_INFO_TAG])\n"
                 "end = metadata.parse_session_end_info_plugin_data(content[metadata.SESSION_END_INFO_TAG])\n"
                 "values = start.hparams\n"
                 "assert values['train.lr'].number_value == 0.25 and values['model.hidden'].number_value == 8\n"
                 "assert values['model.kind'].string_value == 'sage' and values['dataset.generator'].string_value == "
                 "'karate'\n"
                 "assert values['model.residual'].WhichOneof('kind') == 'bool_value' and not "
                 "values['model.residual'].bool_value\n"
                 "assert not any(key.split('.')[0] in ('name', 'workers', 'memory', 'output') for key in values)\n"
                 "assert 0 < start.start_time_secs <= end.end_time_secs and end.status == 1\n");
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nkind = "
                 "\"sage\"\nhidden = 8\n[train]\nlr = 0.25\n[workers]\nthreads = 1\n[output]\ndir = \"o\"\n"
                 "tensorboard = true\n");
    run("train.epochs=2", NULL);
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, PYTHON "%s %s", folder_path("hparams.py"), folder_path("o/tb"));
    cr_assert_eq(system(command), 0);
}

Test(tensorboard, its_reader_finds_every_epoch_once_after_a_job_went_on)
{
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nhidden = 8\n[train]\n"
        "checkpoint_every = 4\n[workers]\nthreads = 1\n[output]\ndir = \"o\"\ntensorboard = true\n");
    run("train.epochs=6", NULL);
    run("train.epochs=9", "--resume");
    expect_read("loss/train", "loss", 9);
    expect_read("metric/valid", "valid_metric", 9);
    run("train.epochs=3", NULL);
    expect_read("loss/train", "loss", 3);
}

Test(tensorboard, its_reader_drops_the_epochs_that_a_job_went_back_over)
{
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\nkind = \"sage\"\n"
        "layers = 4\nhidden = 8\n[train]\noptimizer = \"sgd\"\nlr = 1e6\non_nan = \"rollback\"\n"
        "max_rollbacks = 40\n[workers]\nthreads = 1\n[output]\ndir = \"o\"\ntensorboard = true\n");
    run("train.epochs=12", NULL);
    expect_read("loss/train", "loss", 12);
    expect_read("lr", "lr", 12);
}
