#include "protocol/files/job_files.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(job_files, .init = folder_make, .fini = folder_remove);

static int plain(const char *name, const char *text)
{
    folder_write(name, text);
    int file = open(folder_path(name), O_RDWR | O_APPEND);
    cr_assert_gt(file, STDERR_FILENO);
    return file;
}

static struct job_files open_all(int32_t n_rank)
{
    struct job_files files = {.most_bytes = 1 << 20};
    cr_assert_eq(job_files_open(folder, n_rank, &files), STATUS_OK, "%s", status_reason());
    return files;
}

Test(job_files, an_attempt_appends_to_the_files_of_those_before_it)
{
    char text[64];
    for (int round = 0; round < 2; round++) {
        struct job_files files = open_all(2);
        cr_assert_eq(files.n, JOB_FILE_RANK_0 + 2);
        cr_assert_eq(write(files.file[JOB_FILE_RANK_0 + 1], "line\n", 5), 5);
        job_files_close(&files);
    }
    folder_read("rank-1.log", text, sizeof text);
    cr_assert_str_eq(text, "line\nline\n");
    struct job_files files = open_all(1000);
    cr_assert_eq(files.n, JOB_FILES_MOST);
    job_files_close(&files);
}

Test(job_files, what_an_earlier_attempt_has_filled_to_the_limit_begins_anew)
{
    struct stat about;
    struct job_files files = open_all(0);
    cr_assert_eq(write(files.file[JOB_FILE_EVENTS], "kept\n", 5), 5);
    cr_assert_eq(ftruncate(files.file[JOB_FILE_LOG], 1 << 20), 0);
    job_files_close(&files);
    files = open_all(0);
    cr_assert_eq(fstat(files.file[JOB_FILE_LOG], &about), 0);
    cr_assert_eq(about.st_size, 0);
    cr_assert_eq(fstat(files.file[JOB_FILE_EVENTS], &about), 0);
    cr_assert_eq(about.st_size, 5);
}

Test(job_files, a_link_where_a_file_should_be_is_an_error_that_names_it)
{
    struct job_files files = {.most_bytes = 1 << 20};
    cr_assert_eq(symlink("/etc/passwd", folder_path("rank-0.log")), 0);
    cr_assert_eq(job_files_open(folder, 1, &files), STATUS_CREATE);
    cr_assert(strstr(status_reason(), "/rank-0.log'") && files.n == 0, "%s", status_reason());
    cr_assert_eq(job_files_open("/nowhere", 1, &files), STATUS_NO_INPUT);
}

Test(job_files, a_limit_alone_stands_for_files_that_are_opened_by_name)
{
    struct job_files read;
    cr_assert_eq(job_files_read("100", &read), STATUS_OK);
    cr_assert(read.n == 0 && read.most_bytes == 100);
}

Test(job_files, what_is_printed_is_read_again_and_is_not_passed_on)
{
    struct job_files files = {.most_bytes = INT64_C(1) << 40, .n = JOB_FILE_RANK_0 + 2}, read;
    char text[JOB_FILES_TEXT_BYTES];
    for (int i = 0; i < files.n; i++) {
        files.file[i] = plain("x", "");
    }
    job_files_print(&files, text);
    cr_assert_eq(job_files_read(text, &read), STATUS_OK, "%s", status_reason());
    cr_assert_eq(read.most_bytes, files.most_bytes);
    cr_assert_eq(read.n, files.n);
    cr_assert_eq(memcmp(read.file, files.file, sizeof read.file), 0);
    cr_assert_eq(fcntl(read.file[3], F_GETFD), FD_CLOEXEC);
}

Test(job_files, as_many_as_there_may_be_fit)
{
    struct job_files files = {.most_bytes = INT64_MAX, .n = JOB_FILES_MOST};
    char text[JOB_FILES_TEXT_BYTES];
    for (int i = 0; i < files.n; i++) {
        files.file[i] = INT_MAX;
    }
    job_files_print(&files, text);
    cr_assert_eq(strlen(text), 19 + 11 * JOB_FILES_MOST);
}

Test(job_files, what_is_no_open_plain_file_is_refused)
{
    struct job_files read;
    char text[128];
    int file = plain("x", ""), pipe_ends[2];
    cr_assert_eq(pipe(pipe_ends), 0);
    snprintf(text, sizeof text, "100,%d,%d,%d,%d,%d", file, file, file, file, pipe_ends[1]);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    cr_assert_not_null(strstr(status_reason(), "--job-files is '100,"), "%s", status_reason());
    snprintf(text, sizeof text, "0,%d,%d,%d,%d,%d", file, file, file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    snprintf(text, sizeof text, "100,%d,%d,%d,%d", file, file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE, "too few");
    snprintf(text, sizeof text, "100,%d,%d,%d,%d,%dx", file, file, file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    static const char *const bad[] = {"", ",", "x", "100,", "100,2,2,2,2,2", "100,999999,3,3,3", "100,-1,-1,-1,-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(job_files_read(bad[i], &read), STATUS_USAGE, "%s", bad[i]);
    }
}

Test(job_files, the_last_whole_line_says_where_the_last_run_is)
{
    char last[PATH_MAX], text[3 * PATH_MAX];
    static const struct {
        const char *text, *last; /* NULL: none */
    } cases[] = {{"", NULL},
                 {"/a", NULL},
                 {"/a\n", "/a"},
                 {"/a\n/b b\n", "/b b"},
                 {"/a\n/cut sho", "/a"},
                 {"/a\n" JOB_RUNS_PUBLISHED "\n", JOB_RUNS_PUBLISHED},
                 {"/a\nrelative\n", NULL},
                 {"/a\n\n", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int file = plain("runs", cases[i].text);
        cr_assert_eq(job_files_last_run(file, last), cases[i].last != NULL, "%s", cases[i].text);
        cr_assert(cases[i].last == NULL || strcmp(last, cases[i].last) == 0, "%s", last);
    }
    memset(text, 'x', sizeof text);
    text[0] = '/';
    memcpy(text + sizeof text - 2, "\n", 2);
    cr_assert_not(job_files_last_run(plain("runs", text), last), "a line too long for a path");
    int file = plain("runs", "");
    cr_assert_eq(write(file, "/a\0b\n", 5), 5);
    cr_assert_not(job_files_last_run(file, last), "a zero byte");
}
