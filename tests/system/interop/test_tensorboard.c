/* Event files as TensorBoard's own reader finds them: every epoch once, also after a job went on, went back or was killed. */
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where scripts/install-deps --test puts the packages. */
#define PYTHON "PYTHONPATH=python:build/python PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python /usr/bin/python3 "
#define JOB                                                                                                          \
    "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[workers]\nthreads = "              \
    "1\nheartbeat_timeout = 300\n"                                                                                   \
    "[output]\ndir = \"o\"\n"
#define WITH JOB "tensorboard = true\n"
#define BACK /* eight times to its begin, and in its fourth epoch once more */                                       \
    "[model]\nkind = \"sage\"\nlayers = 4\n[train]\noptimizer = \"sgd\"\nlr = 1e6\non_nan = \"rollback\"\n"          \
    "max_rollbacks = 40\n"

static char program[PATH_MAX];

static void make_all(void)
{
    if (system(PYTHON "-c 'import tensorboard, tensorboardX, google.protobuf' 2>/dev/null") != 0) {
        cr_skip_test("tensorboard or tensorboardX is not there: scripts/install-deps --test");
    }
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    char path[PATH_MAX + 3] = ".:";
    cr_assert_not_null(realpath("build/python", path + 2));
    setenv("PYTHONPATH", path, 1);
    folder_write("trainerd.py", "open('planted', 'w')\n"); /* in the jobs' current folder, and must not run */
    folder_write(
        "read.py",
        "import json, logging, sys; from numpy import float32; logging.disable()\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as Reader\n"
        "from tensorboard.plugins.hparams import metadata as of\n"
        "reader = Reader(sys.argv[1] + '/tb', size_guidance={'scalars': 0}).Reload()\n"
        "epochs = [json.loads(line) for line in open(sys.argv[1] + '/metrics.jsonl')]\n"
        "keys = {'loss/train': 'loss', 'metric/valid': 'valid_metric', 'lr': 'lr', 'bytes/received': "
        "'bytes_received',\n"
        "        'seconds/wait': 'wait_s', 'macro_f1/test': 'test_macro_f1'}\n"
        "for tag in ('loss/train', *sys.argv[3:]):\n"
        "    wanted = [(e['epoch'], float32(e[keys[tag]])) for e in epochs if e[keys[tag]] is not None]\n"
        "    assert [(e.step, e.value) for e in reader.Scalars(tag)] == wanted, tag\n"
        "info = reader.PluginTagToContent('hparams')\n"
        "start = of.parse_session_start_info_plugin_data(info[of.SESSION_START_INFO_TAG])\n"
        "end = of.parse_session_end_info_plugin_data(info[of.SESSION_END_INFO_TAG])\n"
        "assert len(epochs) == int(sys.argv[2]) and 0 < start.start_time_secs <= end.end_time_secs and end.status == "
        "1\n"
        "for key, value in {'model.label_rate': 0.5, 'dataset.generator': 'karate', 'exchange.cover': "
        "True}.items():\n"
        "    found = getattr(start.hparams[key], start.hparams[key].WhichOneof('kind'))\n"
        "    assert found == value and type(found) is type(value), key\n"
        "assert not any(key.split('.')[0] in ('name', 'workers', 'memory', 'output') for key in start.hparams)\n");
}

TestSuite(tensorboard, .init = make_all, .fini = folder_remove, .timeout = 900);

static void run_to(int wanted, const char *words, const char *epochs, const char *resume)
{
    struct process process = {0};
    process_start(&process, NULL, folder, NULL,
                  (const char *const[]){program, "--config", "job.toml", "--set", epochs, resume, NULL});
    int code = process_finish(&process); /* after all processes that write to its standard error */
    cr_assert(code == wanted && strstr(process.words, words) != NULL && !folder_has("planted"), "exit %d: %s", code,
              process.words);
}

/* In the folder o the reader finds what metrics.jsonl has of so many epochs, and the job's settings. */
static void expect_read(const char *arguments)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, PYTHON "%s %s %s", folder_path("read.py"), folder_path("o"), arguments);
    cr_assert_eq(system(command), 0, "%s", arguments);
}

Test(tensorboard, its_reader_finds_every_epoch_once_after_a_job_went_on)
{
    folder_write("job.toml", WITH "[train]\ncheckpoint_every = 4\nmetrics = [\"accuracy\", \"macro_f1\"]\n");
    run_to(0, "", "train.epochs=6", NULL);
    run_to(0, "", "train.epochs=9", "--resume");
    expect_read("9 metric/valid macro_f1/test lr seconds/wait bytes/received");
    run_to(0, "", "train.epochs=3", NULL);
    expect_read("3");
}

Test(tensorboard, its_reader_drops_the_epochs_that_a_job_went_back_over)
{
    folder_write("job.toml", WITH BACK);
    run_to(0, "; back to ", "train.epochs=12", NULL);
    expect_read("12 lr");
}

Test(tensorboard, its_process_ends_with_a_killed_job_and_a_job_goes_on_without_it)
{
    folder_write("job.toml", WITH "[train]\ncheckpoint_every = 4\n");
    setenv("TRAINERD_FAULTS", "coordinator.epoch=kill@7", 1);
    run_to(1000 + SIGKILL, "", "train.epochs=9", NULL);
    unsetenv("TRAINERD_FAULTS");
    run_to(0, "", "train.epochs=9", "--resume");
    expect_read("9");
    folder_write("python3", "#!/bin/sh\n[ $2 = -m ] && kill -9 $$\nexec /usr/bin/python3 \"$@\"\n");
    cr_assert_eq(chmod(folder_path("python3"), 0755), 0);
    setenv("PATH", folder, 1);
    run_to(0, "/python3', which writes tb/, was killed by signal 9: ", "train.epochs=3", NULL);
    cr_assert(folder_has("o/result.json") && !folder_has("o/tb"));
}

Test(tensorboard, a_job_without_the_package_ends_before_it_trains)
{
    folder_write("job.toml", WITH);
    folder_write("tensorboardX.py", "raise ImportError\n");
    setenv("PYTHONPATH", folder, 1);
    run_to(66, "needs the Python package tensorboardX", "train.epochs=2", NULL);
    cr_assert_not(folder_has("o"));
}

Test(tensorboard, its_command_writes_a_run_that_goes_back_meanwhile_and_follows_no_link)
{
    char command[2 * PATH_MAX];
    struct process job = {0};
    folder_write("job.toml", JOB BACK "epochs = 12\n");
    setenv("TRAINERD_FAULTS", "coordinator.epoch=stop@20", 1);
    process_start(&job, NULL, folder, NULL, (const char *const[]){program, "--config", "job.toml", NULL});
    snprintf(command, sizeof command,
             "o=%s; p=%d; t() { " PYTHON
             "-m trainerd tensorboard $o $1; }; wait_for() { until eval $1; do sleep 0.05; done; }\n"
             "wait_for 'grep -q State:.T /proc/$p/status'; [ $(cat $o/.run-*/metrics.jsonl | wc -l) = 3 ] || exit 1\n"
             "t --follow & wait_for '[ -s $o/.run-*/tb/ev* ]'; kill -CONT $p; wait $!",
             folder_path("o"), (int)job.pid);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(process_finish(&job), 0, "%s", job.words);
    expect_read("12 lr");
    snprintf(command, sizeof command, "cd %s/o && mv tb to && ln -s to tb", folder);
    cr_assert_eq(system(command), 0);
    snprintf(command, sizeof command, PYTHON "-m trainerd tensorboard %s/o 2> /dev/null; [ $? = 74 ]", folder);
    cr_assert_eq(system(command), 0, "a link was followed");
}
