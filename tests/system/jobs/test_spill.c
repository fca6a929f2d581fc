/* Whole jobs that spill: what they leave behind, and what becomes of them where the folder is no good. */
#include "tests/support/process/command.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_all(void)
{
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 6000\ndegree = 3\n[partition]\nparts = 16\nmethod = \"block\"\n"
        "cache = \"off\"\n[model]\nhidden = 128\nlayers = 3\ndropout = 0.5\n[train]\nepochs = 3\n"
        "[memory]\nlimit = \"8MiB\"\n[workers]\ncount = 2\nthreads = 1\n");
    cr_assert_eq(mkdir(folder_path("spill"), 0700), 0);
}

TestSuite(spill, .init = make_all, .fini = folder_remove, .timeout = 900);

#define SPILL "--set memory.spill=spill "

static int entries(const char *name)
{
    DIR *dir = opendir(folder_path(name));
    cr_assert_not_null(dir);
    int n = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

static json_t *result_memory(json_t *result, const char *what)
{
    return json_object_get(json_array_get(json_object_get(result, "memory"), 0), what);
}

Test(spill, a_job_leaves_the_same_files_as_in_memory_and_nothing_in_the_folder)
{
    job_run("--set output.dir=plain --set memory.limit=0");
    job_run(SPILL "--set output.dir=spilled");
    results_expect_same(folder_path("plain"), folder_path("spilled"), false); /* spilled parts share no rows */
    cr_expect_eq(entries("spill"), 0);
    json_t *result = results_of("spilled");
    json_int_t spilled = json_integer_value(result_memory(result, "spilled"));
    json_int_t least = json_integer_value(result_memory(result, "spill_least"));
    json_int_t window = json_integer_value(json_object_get(result_memory(result, "planned"), "spill"));
    json_int_t measured = json_integer_value(json_object_get(result_memory(result, "measured"), "spill"));
    cr_expect(0 < least && least <= window && window <= spilled, "%lld %lld %lld", least, window, spilled);
    cr_expect(measured <= window && 10 * measured >= 9 * window, "planned %lld, measured %lld", window, measured);
    cr_expect_leq(json_integer_value(json_object_get(result_memory(result, "planned"), "all")), 8 << 20);
    json_decref(result);
}

Test(spill, a_plan_says_how_much_is_spilled_and_a_limit_below_what_must_stay_is_refused_with_the_number)
{
    json_t *plan = job_run_plan(SPILL), *worker = json_array_get(json_object_get(plan, "workers"), 0);
    json_int_t spilled = json_integer_value(json_object_get(worker, "spilled"));
    json_int_t least = json_integer_value(json_object_get(worker, "spill_least"));
    cr_expect(0 < least && least < spilled);
    json_decref(plan);
    char limit[64], number[32];
    snprintf(limit, sizeof limit, SPILL "--set memory.limit=%lld", (long long)least);
    snprintf(number, sizeof number, "is %lld", (long long)least);
    job_run_expect(71, "in memory with all else in memory.spill, memory.limit ", "", limit);
    cr_expect_not_null(strstr(job_run_log, number), "%s", job_run_log);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* By the kernel's count, libraries and all. */
Test(spill, a_worker_takes_no_more_than_the_limit)
{
    job_run(SPILL "--set output.dir=o --set dataset.nodes=20000 --set model.hidden=256 --set workers.count=1 "
                  "--set memory.recompute=never --set memory.limit=64MiB");
    json_t *result = results_of("o");
    json_int_t resident = json_integer_value(result_memory(result, "resident_peak")),
               window = json_integer_value(json_object_get(result_memory(result, "planned"), "spill"));
    cr_expect_gt(json_integer_value(result_memory(result, "spilled")), 2 * window);
    cr_expect(resident > (48 << 20) && 100 * resident <= 108 * (INT64_C(64) << 20), "%lld bytes", resident);
    json_decref(result);
}
#endif

/* The path of an open file of this process that lies in the folder, as the system names it; false: there is none. */
static bool spills(pid_t pid)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL && !found; entry = readdir(dir)) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strstr(target, "/spill/") != NULL && strstr(target, "(deleted)") != NULL;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

Test(spill, a_killed_worker_leaves_nothing_in_the_folder)
{
    pid_t pids[2],
        pid = command_start("trainer-coordinator",
                            (const char *const[]){"--config", "job.toml", "--set", "memory.spill=spill", "--set",
                                                  "train.epochs=1000000", "--set", "output.dir=o", NULL});
    while (fleet_workers(pid, pids, 2) < 2 || !spills(pids[0])) {
        cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0, "it ended too soon");
        sched_yield();
    }
    cr_expect_eq(entries("spill"), 0);
    cr_assert_eq(kill(pids[0], SIGKILL), 0);
    cr_expect_eq(command_finish(pid), 69, "%s", output);
    cr_expect_eq(entries("spill"), 0);
}

static void mount_small(const char *options, unsigned long flags)
{
    /* In a mount namespace of this test's own: nothing stays mounted, however the test ends. */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder_path("spill"), "tmpfs", flags, options) != 0) {
        cr_skip_test("a small file system cannot be mounted: %s", strerror(errno));
    }
}

/* The job ends with 74 and these words, and what another left in the output folder is as it was. */
static void expect_refused(const char *words_1, const char *words_2)
{
    job_run("--set output.dir=o --set memory.limit=0");
    job_run("--set output.dir=before --set memory.limit=0");
    job_run_expect(74, words_1, "", SPILL "--set output.dir=o --set train.epochs=7");
    cr_expect_not_null(strstr(job_run_log, words_2), "%s", job_run_log);
    results_expect_same(folder_path("before"), folder_path("o"), true);
    cr_expect_eq(entries("spill"), 0);
}

Test(spill, a_full_disk_ends_the_job_with_74_before_it_trains)
{
    mount_small("size=256k", 0);
    expect_refused("memory.spill = \"spill\", ", "more than are there: No space left on device");
    cr_assert_eq(umount(folder_path("spill")), 0);
}

Test(spill, a_folder_that_is_read_only_ends_the_job_with_74)
{
    mount_small("size=1m", MS_RDONLY);
    expect_refused("cannot make a file in memory.spill = \"spill\": Read-only file system; ", "expected a folder");
    cr_assert_eq(umount(folder_path("spill")), 0);
}

Test(spill, a_folder_that_is_missing_ends_the_job_with_74)
{
    job_run_expect(74,
                   "cannot make a file in memory.spill = \"nowhere\": No such file or directory; expected a folder",
                   "", "--set memory.spill=nowhere");
    cr_expect_not(folder_has("nowhere"));
}
