#include "protocol/files/job_files.h"
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

static struct job_files open_all(int32_t n_rank)
{
    struct job_files files = {.most_bytes = 1 << 20};
    expect_done(job_files_open(job, n_rank, &files));
    return files;
}

Test(own_files, a_folder_of_another_user_has_none)
{
    cr_assert(own_files_are(folder_path("not there yet")));
    cr_assert(own_files_are(job));
    if (geteuid() == 0) {
        cr_assert_eq(chown(job, 12345, 100), 0);
        cr_assert_not(own_files_are(job), "its owner could put anything into it");
    }
}

Test(own_files, the_largest_is_that_with_most_bytes_or_most_of_the_disk_and_a_cut_takes_both_away)
{
    struct stat about;
    char name[NAME_MAX + 1];
    struct job_files files = open_all(1);
    int log = files.file[JOB_FILE_LOG];
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
    job_files_close(&files);
}
