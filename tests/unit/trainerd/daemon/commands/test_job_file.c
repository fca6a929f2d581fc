/* Lines that are searched for in a job's files, which their owner can make arbitrarily long. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/commands/job_file.h"

#include <criterion/criterion.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static uv_loop_t loop;
static struct readers readers;
static struct job_file_piece *got;

static void begin(void)
{
    folder_make();
    uv_loop_init(&loop);
    readers_init(&loop, &readers);
    got = malloc(sizeof *got);
}

static void end(void)
{
    free(got);
    cr_assert_eq(uv_loop_close(&loop), 0);
    folder_remove();
}

TestSuite(job_file, .init = begin, .fini = end, .timeout = 900);

static void keep(void *context, const struct job_file_piece *piece)
{
    (void)context;
    *got = *piece;
}

/* The last line with "workers" in it. */
static const char *find(void)
{
    struct job_file_ask ask = {.owner = geteuid(), .n_tail = -1, .match = "\"workers\""};
    snprintf(ask.path, sizeof ask.path, "%s", folder_path("events.jsonl"));
    job_file_read(&readers, &ask, keep, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(got->status, STATUS_OK, "%s", got->reason);
    return got->bytes;
}

/* n bytes of other events. */
static void other_events(FILE *file, int64_t n)
{
    static const char line[] =
        "{\"event\":\"epoch\",\"epoch\":1,\"loss\":0.5,\"train_metric\":0.25,\"valid_metric\":0.125}\n";
    for (int64_t at = 0; at < n; at += (int64_t)sizeof line - 1) {
        fputs(line, file);
    }
}

#define WORKERS(n) "{\"event\":\"workers\",\"n\":" #n "}"

Test(job_file, the_last_line_of_a_kind_is_found_at_the_end_else_at_the_beginning)
{
    FILE *file = fopen(folder_path("events.jsonl"), "w");
    fputs(WORKERS(1) "\n" WORKERS(2) "\n", file);
    other_events(file, 3 * (int64_t)JOB_FILE_PIECE_BYTES);
    fflush(file);
    cr_assert_str_eq(find(), WORKERS(2));
    other_events(file, JOB_FILE_SEARCH_BYTES);
    fflush(file);
    cr_assert_str_eq(find(), WORKERS(2));
    fputs(WORKERS(3) "\n", file);
    other_events(file, 2 * (int64_t)JOB_FILE_PIECE_BYTES);
    fputs(WORKERS(4), file); /* not whole yet */
    fclose(file);
    cr_assert_str_eq(find(), WORKERS(3));
}

Test(job_file, a_long_hole_is_not_searched)
{
    struct rusage before, after;
    folder_write("events.jsonl", WORKERS(1) "\n");
    cr_assert_eq(truncate(folder_path("events.jsonl"), (off_t)400 << 30), 0);
    getrusage(RUSAGE_SELF, &before);
    cr_assert_str_eq(find(), "");
    getrusage(RUSAGE_SELF, &after);
    cr_assert_lt(after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec - before.ru_stime.tv_sec, 10);
}

/* --- with the owner's rights: root's daemon, another user's job --- */

#define OWNER 12345

/* A folder that the owner may enter, and a file in it that says "text". */
static void begin_as_root(void)
{
    need_root();
    cr_assert_eq(chmod(folder, 0755), 0);
}

static void put(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    folder_write(name, "text");
    cr_assert_eq(chown(folder_path(name), uid, gid), 0);
    cr_assert_eq(chmod(folder_path(name), mode), 0);
}

static enum status read_as(uid_t owner, const char *name)
{
    struct job_file_ask ask = {.owner = owner, .group = owner, .n_tail = -1};
    snprintf(ask.path, sizeof ask.path, "%s", folder_path(name));
    job_file_read(&readers, &ask, keep, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return got->status;
}

static void expect_read(uid_t owner, const char *name)
{
    cr_assert_eq(read_as(owner, name), STATUS_OK, "%s", got->reason);
    cr_assert_str_eq(got->bytes, "text");
}

static void expect_denied(const char *name)
{
    cr_assert_eq(read_as(OWNER, name), STATUS_IO, "%s: '%s'", name, got->reason);
    expect_words(got->reason, "Permission denied");
}

Test(job_file, a_link_in_the_way_to_an_output_folder_leads_no_further_than_its_owner_may_go)
{
    begin_as_root();
    cr_assert_eq(mkdir(folder_path("root"), 0700), 0);
    put("root/result.json", 0, 0, 0644);
    cr_assert_eq(mkdir(folder_path("home"), 0755), 0);
    cr_assert_eq(symlink(folder_path("root"), folder_path("home/run")), 0);
    expect_denied("home/run/result.json");
    cr_assert_eq(chown(folder_path("root"), OWNER, OWNER), 0);
    expect_read(OWNER, "home/run/result.json");
}

Test(job_file, a_file_of_roots_group_is_not_its_owners_and_one_of_its_own_group_is)
{
    begin_as_root();
    put("roots", 0, 0, 0640);
    expect_denied("roots");
    put("groups", 0, OWNER, 0640);
    expect_read(OWNER, "groups");
    put("private", OWNER + 1, OWNER + 1, 0600);
    expect_denied("private");
}

Test(job_file, the_groups_of_the_daemon_do_not_count)
{
    begin_as_root();
    const gid_t groups[] = {0, 4242};
    cr_assert_eq(setgroups(2, groups), 0);
    put("adm", 0, 4242, 0640);
    expect_denied("adm");
}

Test(job_file, a_thread_that_has_read_for_a_user_has_its_own_rights_again)
{
    begin_as_root();
    put("roots", 0, 0, 0600);
    put("own", OWNER, OWNER, 0600);
    for (int i = 0; i < 4 * READERS_N; i++) { /* on each thread of the pool */
        expect_read(OWNER, "own");
        expect_denied("roots");
        expect_read(0, "roots");
    }
}
