#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/store/own_files.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char job[PATH_MAX];

static void make_all(void)
{
    folder_make();
    cr_assert_eq(mkdir(folder_path("7"), 0700), 0);
    snprintf(job, sizeof job, "%s", folder_path("7"));
}

TestSuite(own_files, .init = make_all, .fini = folder_remove);

static void open_all(int32_t n_rank, struct job_files *files, int *log)
{
    expect_done(own_files_open(job, n_rank, 1 << 20, files, log));
}

Test(own_files, an_attempt_appends_to_the_files_of_those_before_it)
{
    struct job_files files;
    int log;
    char text[64];
    for (int round = 0; round < 2; round++) {
        open_all(2, &files, &log);
        cr_assert_eq(files.n, JOB_FILE_RANK_0 + 2);
        cr_assert_eq(write(files.file[JOB_FILE_RANK_0 + 1], "line\n", 5), 5);
        cr_assert_eq(write(log, "said\n", 5), 5);
        own_files_close(&files, log);
    }
    folder_read("7/rank-1.log", text, sizeof text);
    cr_assert_str_eq(text, "line\nline\n");
    folder_read("7/log", text, sizeof text);
    cr_assert_str_eq(text, "said\nsaid\n");
    open_all(1000, &files, &log);
    cr_assert_eq(files.n, JOB_FILES_MOST);
    own_files_close(&files, log);
}

Test(own_files, what_an_earlier_attempt_has_filled_to_the_limit_begins_anew)
{
    struct job_files files;
    struct stat about;
    int log;
    open_all(1, &files, &log);
    cr_assert_eq(write(files.file[JOB_FILE_EVENTS], "kept\n", 5), 5);
    cr_assert_eq(ftruncate(log, 1 << 20), 0);
    own_files_close(&files, log);
    open_all(1, &files, &log);
    cr_assert_eq(fstat(log, &about), 0);
    cr_assert_eq(about.st_size, 0);
    cr_assert_eq(fstat(files.file[JOB_FILE_EVENTS], &about), 0);
    cr_assert_eq(about.st_size, 5);
    own_files_close(&files, log);
}

Test(own_files, a_link_where_a_file_should_be_is_an_error_that_names_it)
{
    struct job_files files;
    int log;
    cr_assert_eq(symlink("/etc/passwd", folder_path("7/rank-0.log")), 0);
    expect_fails(own_files_open(job, 1, 1 << 20, &files, &log), STATUS_CREATE, "/7/rank-0.log'");
    cr_assert_eq(files.n, 0);
}

Test(own_files, a_folder_with_events_and_no_runs_is_an_older_daemons)
{
    struct job_files files;
    int log;
    cr_assert(own_files_are(folder_path("not there yet")));
    cr_assert(own_files_are(job));
    folder_write("7/events.jsonl", "");
    cr_assert_not(own_files_are(job));
    cr_assert_eq(unlink(folder_path("7/events.jsonl")), 0);
    open_all(1, &files, &log);
    own_files_close(&files, log);
    cr_assert(own_files_are(job));
    if (geteuid() == 0) {
        cr_assert_eq(chown(job, 12345, 100), 0);
        cr_assert_not(own_files_are(job), "its owner could put anything into it");
    }
}

Test(own_files, the_largest_is_that_with_most_bytes_or_most_of_the_disk_and_a_cut_takes_both_away)
{
    struct job_files files;
    struct stat about;
    int log;
    char name[NAME_MAX + 1];
    open_all(1, &files, &log);
    cr_assert_eq(own_files_largest(job, name), 0);
    cr_assert_eq(ftruncate(log, 1 << 20), 0); /* a hole */
    cr_assert_eq(own_files_largest(job, name), 1 << 20);
    cr_assert_str_eq(name, "log");
    if (fallocate(files.file[JOB_FILE_EVENTS], FALLOC_FL_KEEP_SIZE, 0, 4 << 20) == 0) {
        cr_assert_geq(own_files_largest(job, name), 4 << 20, "behind its end");
        cr_assert_str_eq(name, "events.jsonl");
    }
    own_files_cut(job, 1 << 16);
    cr_assert_leq(own_files_largest(job, name), 1 << 16);
    cr_assert_eq(fstat(log, &about), 0);
    cr_assert_eq(about.st_size, 1 << 16);
    own_files_close(&files, log);
}

Test(own_files, in_an_owners_folder_events_have_no_limit)
{
    char name[NAME_MAX + 1];
    folder_write("7/events.jsonl", "{\"event\":\"begin\"}\n");
    folder_write("7/log", "x");
    cr_assert_eq(truncate(folder_path("7/events.jsonl"), 8 << 20), 0);
    cr_assert_eq(truncate(folder_path("7/log"), 1 << 20), 0);
    cr_assert_not(own_files_are(job));
    cr_assert_eq(own_files_largest(job, name), 1 << 20);
    cr_assert_str_eq(name, "log");
}
