/* Jobs on machines that have too little room for their processes: shared memory, open files. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

JOB_SUITE(room, 900,
          "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\nhidden = 8\n"
          "[train]\nepochs = 2\n[workers]\nthreads = 1\ncount = 4\n[output]\ndir = \"o\"\n");

/* A /dev/shm of the test's own, in namespaces that end with it, as a container has one. */
static void shared_memory_make(const char *size)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, size) != 0) {
        cr_skip_test("a small /dev/shm cannot be mounted");
    }
}

/* Five processes need 40 MiB as counted, and take 21 MB. */
Test(room, a_job_goes_on_in_system_v_memory_where_dev_shm_is_small)
{
    shared_memory_make("size=16m");
    job_run_expect(
        0, "/dev/shm has 16 MiB free, and 5 processes need 40 MiB of shared memory: they share System V's instead",
        "", "--set output.dir=small");
    cr_assert_eq(mount("none", "/dev/shm", "tmpfs", MS_REMOUNT, "size=40m"), 0);
    job_run("--set output.dir=enough");
    cr_assert_null(strstr(job_run_log, "/dev/shm"), "%s", job_run_log);
}

Test(room, a_job_goes_on_in_system_v_memory_where_dev_shm_may_not_be_written)
{
    shared_memory_make("size=64m");
    cr_assert_eq(mount("none", "/dev/shm", "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64m"), 0);
    job_run_expect(
        0, "/dev/shm has 0 MiB free for this user, who may not write there, and 5 processes need 40 MiB of shared",
        "", "");
}

Test(room, without_any_shared_memory_a_job_says_how_much_it_needs)
{
    shared_memory_make("size=16m");
    FILE *file = fopen("/proc/sys/kernel/shmmni", "w"); /* of this namespace */
    cr_assert(file != NULL && fprintf(file, "24") > 0 && fclose(file) == 0);
    job_run_expect(71,
                   "5 processes need 40 MiB of shared memory, which System V's has no room for either (ipcs -lmu): "
                   "docker run --shm-size=40m",
                   "", "");
    cr_assert_not(folder_has("o"), "counted before anything is made");
    file = fopen("/proc/sys/kernel/shmmni", "w");
    cr_assert(file != NULL && fprintf(file, "25") > 0 && fclose(file) == 0);
    job_run_expect(0, "they share System V's instead", "", "");
}

/* Where nothing is counted, as more workers may come to a machine: the user's own choice of transports. */
Test(room, shared_memory_that_is_not_there_is_named)
{
    shared_memory_make("size=1m");
    job_run_expect(
        69, "/dev/shm has 1.0 MiB free, and each process needs 8 MiB of it (docker run --shm-size)",
        "UCX_TLS=posix,self UCX_LOG_LEVEL=fatal LSAN_OPTIONS=detect_leaks=0", /* UCX leaks what it could not use */
        "--set workers.count=1");
}

Test(room, files_are_counted_before_the_start)
{
    job_run_expect(71, "the coordinator of 4 workers may have 20 files open, and needs 48: raise ulimit -n",
                   "ulimit -n 20;", "");
    cr_assert_not(folder_has("o"), "counted before anything is made");
    job_run_expect(0, "", "ulimit -S -n 20;", "");
    job_run_expect(0, "", "ulimit -n 48;", "--set output.dir=few");
}
