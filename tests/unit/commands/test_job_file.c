/* Lines that are searched for in a job's files, which their owner can make arbitrarily long. */
#include "tests/support/process/folder.h"
#include "trainerd/daemon/commands/job_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uv_loop_t loop;
static struct job_file_piece *got;

static void begin(void)
{
    folder_make();
    uv_loop_init(&loop);
    got = malloc(sizeof *got);
}

static void end(void)
{
    free(got);
    cr_assert_eq(uv_loop_close(&loop), 0);
    folder_remove();
}

TestSuite(job_file, .init = begin, .fini = end, .timeout = 120);

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
    job_file_read(&loop, &ask, keep, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(got->status, STATUS_OK, "%s", got->reason);
    return got->bytes;
}

/* n bytes of other events. */
static void other_events(FILE *file, int64_t n)
{
    static const char line[] = "{\"event\":\"epoch\",\"epoch\":1,\"loss\":0.5,\"train_metric\":0.25,\"valid_metric\":0.125}\n";
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
