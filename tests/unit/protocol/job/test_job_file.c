#include "protocol/job/job.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRAPH "[dataset]\ngenerator = \"karate\"\n"

static char path[128];
static struct job job;

static void make_folder(void)
{
    folder_make();
    snprintf(path, sizeof path, "%s/job.toml", folder);
}

TestSuite(job_file, .init = make_folder, .fini = folder_remove, .timeout = 60);

static void refused(enum status want, const char *part)
{
    cr_assert_eq(job_load(path, NULL, 0, &job), want, "%s", status_reason());
    cr_assert_not_null(strstr(status_reason(), path), "%s", status_reason());
    cr_assert_not_null(strstr(status_reason(), part), "%s", status_reason());
}

Test(job_file, a_file_is_read_with_settings_over_it)
{
    folder_write("job.toml", GRAPH "[train]\nepochs = 3\n");
    const char *set[] = {"train.lr=0.5"};
    cr_assert_eq(job_load(path, set, 1, &job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(job.train.epochs, 3);
    cr_assert_eq(job.train.lr, 0.5);
}

Test(job_file, an_error_names_the_file_with_line_and_column)
{
    folder_write("job.toml", GRAPH "[train]\nepoch = 3\n");
    char want[256];
    snprintf(want, sizeof want, "%s:4:1: unknown key 'epoch'", path);
    refused(STATUS_CONFIG, want);
}

Test(job_file, a_file_that_is_not_there_is_a_missing_input)
{
    refused(STATUS_NO_INPUT, "No such file");
}

Test(job_file, a_folder_is_refused)
{
    cr_assert_eq(mkdir(path, 0700), 0);
    refused(STATUS_CONFIG, "is a folder");
}

Test(job_file, a_pipe_without_a_writer_is_refused_without_waiting)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    refused(STATUS_CONFIG, "is a device, pipe or socket");
    unlink(path);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    refused(STATUS_CONFIG, "is a device, pipe or socket");
}

Test(job_file, a_file_of_100_gigabytes_is_refused_by_its_size)
{
    folder_write("job.toml", GRAPH);
    cr_assert_eq(truncate(path, 100000000000), 0);
    refused(STATUS_CONFIG, "has 100000000000 bytes; expected a job file of at most 262144");
}

Test(job_file, the_longest_file_is_read_and_one_byte_more_is_not)
{
    char *text = malloc(JOB_FILE_MOST_BYTES + 2);
    memset(text, '#', JOB_FILE_MOST_BYTES + 1);
    memcpy(text, GRAPH, strlen(GRAPH));
    text[JOB_FILE_MOST_BYTES] = '\0';
    folder_write("job.toml", text);
    cr_assert_eq(job_load(path, NULL, 0, &job), STATUS_OK, "%s", status_reason());
    text[JOB_FILE_MOST_BYTES] = '#';
    text[JOB_FILE_MOST_BYTES + 1] = '\0';
    folder_write("job.toml", text);
    refused(STATUS_CONFIG, "has 262145 bytes");
    free(text);
}

Test(job_file, an_empty_file_lacks_a_graph)
{
    folder_write("job.toml", "");
    refused(STATUS_CONFIG, "neither dataset.path nor dataset.generator");
}

Test(job_file, a_file_of_more_than_1024_keys_and_settings_is_refused_before_each_is_looked_at)
{
    char *text = malloc(JOB_FILE_MOST_BYTES), *at = text + sprintf(text, GRAPH);
    static const char *const set[] = {"train.epochs=1", "train.lr=1"};
    at += sprintf(at, "[model.args]\n");
    for (int i = 0; i < 1024; i++) {
        at += sprintf(at, "k%d = 1\n", i);
    }
    cr_assert_eq(job_load_text(text, strlen(text), "job.toml", set, 2, &job), STATUS_CONFIG);
    cr_expect(strstr(status_reason(), "keys, sections and settings; expected at most 1024") != NULL, "%s",
              status_reason());
    free(text);
}
