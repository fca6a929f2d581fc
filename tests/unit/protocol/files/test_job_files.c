#include "protocol/files/job_files.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(job_files, .init = folder_make, .fini = folder_remove);

static int plain(const char *name, const char *text)
{
    folder_write(name, text);
    int file = open(folder_path(name), O_RDWR | O_APPEND);
    cr_assert_gt(file, STDERR_FILENO);
    return file;
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
    snprintf(text, sizeof text, "100,%d,%d,%d,%d", file, file, file, pipe_ends[1]);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    cr_assert_not_null(strstr(status_reason(), "--job-files is '100,"), "%s", status_reason());
    snprintf(text, sizeof text, "0,%d,%d,%d,%d", file, file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    snprintf(text, sizeof text, "100,%d,%d,%d", file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE, "too few");
    snprintf(text, sizeof text, "100,%d,%d,%d,%dx", file, file, file, file);
    cr_assert_eq(job_files_read(text, &read), STATUS_USAGE);
    static const char *const bad[] = {
        "", ",", "x", "100", "100,", "100,2,2,2,2", "100,999999,3,3,3", "100,-1,-1,-1,-1"};
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
