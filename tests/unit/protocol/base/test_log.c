#include "protocol/base/log.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char line[8192];

/* What `say` writes to stderr, in `line`. */
static void capture(void (*say)(void))
{
    int ends[2], before = dup(STDERR_FILENO);
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    say();
    dup2(before, STDERR_FILENO);
    close(before);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], line + n, sizeof line - 1 - n)) > 0;) {
        n += (size_t)got;
    }
    line[n] = '\0';
    close(ends[0]);
}

static void say_plain(void)
{
    log_init("tester", 3, LOG_LEVEL_INFO);
    log_info("loss %d of %s", 7, "epoch");
}

Test(log, a_line_names_time_level_process_rank_and_place)
{
    capture(say_plain);
    cr_assert_eq(strncmp(line, "ts=20", 5), 0, "%s", line);
    cr_assert_not_null(strstr(line, " level=info proc=tester rank=3 at=tests/unit/protocol/base/test_log.c:"), "%s",
                       line);
    cr_assert_not_null(strstr(line, " msg=\"loss 7 of epoch\"\n"), "%s", line);
}

static void say_a_sentence(void)
{
    log_init("worker", 2, LOG_LEVEL_WARN);
    log_info("not shown");
    log_warn("a \"file\"\nworker 3: error: forged");
}

Test(log, on_a_terminal_warnings_are_sentences_unless_information_is_told_too)
{
    char text[512] = "";
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    cr_assert_geq(other, 0);
    dup2(other, STDERR_FILENO);
    say_a_sentence();
    say_plain();
    dup2(before, STDERR_FILENO);
    for (size_t n = 0; strstr(text, "of epoch") == NULL;) {
        ssize_t got = read(terminal, text + n, sizeof text - 1 - n);
        cr_assert_gt(got, 0);
        n += (size_t)got;
    }
    const char *want = "worker 2: warning: a \"file\"\\x0aworker 3: error: forged\r\nts=";
    cr_assert_eq(strncmp(text, want, strlen(want)), 0, "%s", text);
    close(other);
    close(terminal);
    close(before);
}

static void say_to_nobody(void)
{
    log_init("tester", 3, LOG_LEVEL_INFO);
    close(STDERR_FILENO);
    errno = ENOENT;
    log_info("lost");
    cr_assert_eq(errno, ENOENT);
}

Test(log, a_line_that_cannot_be_written_leaves_errno_alone)
{
    capture(say_to_nobody);
    cr_assert_str_eq(line, "");
}

static void say_forged(void)
{
    log_init("tester", -1, LOG_LEVEL_INFO);
    log_warn("%s", "x\nts=1 level=error msg=\"forged\"\r\x1b[2J\\\xc3\xa9\xff\xc2\x9b");
}

Test(log, data_cannot_forge_a_line)
{
    capture(say_forged);
    cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1, "%s", line);
    cr_assert_null(strchr(line, '\x1b'));
    cr_assert_null(strstr(line, "rank="));
    cr_assert_not_null(
        strstr(line, "msg=\"x\\x0ats=1 level=error msg=\\\"forged\\\"\\x0d\\x1b[2J\\\\\xc3\xa9\\xff\\xc2\\x9b\"\n"),
        "%s", line);
}

static void say_quietly(void)
{
    log_init("tester", -1, LOG_LEVEL_WARN);
    log_debug("a");
    log_info("b");
    log_error("c");
}

Test(log, what_is_more_talkative_than_asked_for_is_not_printed)
{
    capture(say_quietly);
    cr_assert_null(strstr(line, "msg=\"a\""));
    cr_assert_null(strstr(line, "msg=\"b\""));
    cr_assert_not_null(strstr(line, "level=error"));
    cr_assert_eq(log_level(), LOG_LEVEL_WARN);
}

static void say_long(void)
{
    char text[5000];
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_init("tester", -1, LOG_LEVEL_INFO);
    log_info("%s", text);
}

Test(log, a_long_message_is_cut_and_still_one_line)
{
    capture(say_long);
    size_t n = strlen(line);
    cr_assert(n > 1000 && n < 2300, "%zu", n);
    cr_assert_str_eq(line + n - 2, "\"\n");
    cr_assert_eq(strchr(line, '\n'), line + n - 1);
}

Test(log, a_broken_invariant_ends_the_process_as_our_bug)
{
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        ASSERT(1 + 1 == 3);
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 70);
}

static void say_of_a_job(void)
{
    log_job("7", 2);
    log_init("tester", 1, LOG_LEVEL_INFO); /* as a process that was started by one that knows */
    log_info("a");
    log_job_info(8, 3, "b");
}

Test(log, lines_name_the_job_and_attempt_they_are_of)
{
    capture(say_of_a_job);
    cr_assert_not_null(strstr(line, " proc=tester job=7 attempt=2 rank=1 at="), "%s", line);
    char *second = strchr(line, '\n') + 1;
    cr_assert_not_null(strstr(second, " proc=tester job=8 attempt=3 rank=1 at="), "%s", second);
    cr_assert_null(strstr(second, "job=7"));
}

static void say_with_forged_job(void)
{
    setenv("TRAINERD_LOG_JOB", "job=1\nts=1 level=error", 1);
    log_init("tester", -1, LOG_LEVEL_INFO);
    log_info("a");
}

Test(log, the_environment_cannot_forge_a_line)
{
    capture(say_with_forged_job);
    cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1, "%s", line);
}

/* The journal knows a stream by device and inode. */
static void say_to_journal(void)
{
    struct stat about;
    char name[64];
    fstat(STDERR_FILENO, &about);
    snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)about.st_dev, (unsigned long long)about.st_ino);
    setenv("JOURNAL_STREAM", name, 1);
    log_init("tester", -1, LOG_LEVEL_INFO);
    log_warn("a");
    log_info("b");
}

Test(log, the_journal_gets_priorities)
{
    capture(say_to_journal);
    cr_assert_eq(strncmp(line, "<4>ts=20", 8), 0, "%s", line);
    cr_assert_eq(strncmp(strchr(line, '\n') + 1, "<6>ts=20", 8), 0, "%s", line);
}

static void say_beside_the_journal(void)
{
    setenv("JOURNAL_STREAM", "1:2", 1);
    log_init("tester", -1, LOG_LEVEL_INFO);
    log_warn("a");
}

Test(log, a_stream_that_is_not_the_journals_gets_none)
{
    capture(say_beside_the_journal);
    cr_assert_eq(strncmp(line, "ts=20", 5), 0, "%s", line);
}

static enum status opened[3];

static void say_to_files(void)
{
    log_init("tester", -1, LOG_LEVEL_INFO);
    opened[0] = log_to(folder_path("log"));
    log_info("first");
    rename(folder_path("log"), folder_path("log.1"));
    log_info("second");
    opened[1] = log_to(folder_path("log"));
    log_info("third");
    opened[2] = log_to(folder_path("no/log"));
    log_info("fourth");
}

Test(log, a_file_that_was_moved_away_is_opened_again, .init = folder_make, .fini = folder_remove)
{
    capture(say_to_files);
    cr_assert_str_eq(line, "");
    cr_assert_eq(opened[0], STATUS_OK);
    cr_assert_eq(opened[1], STATUS_OK);
    cr_assert_eq(opened[2], STATUS_CREATE);
    cr_assert(strstr(status_reason(), "/no/log': No such file") != NULL, "%s", status_reason());
    folder_read("log.1", line, sizeof line);
    cr_assert(strstr(line, "first") != NULL && strstr(line, "second") != NULL && strstr(line, "third") == NULL, "%s",
              line);
    folder_read("log", line, sizeof line);
    cr_assert(strstr(line, "second") == NULL && strstr(line, "third") != NULL && strstr(line, "fourth") != NULL, "%s",
              line);
    struct stat about;
    cr_assert_eq(stat(folder_path("log"), &about), 0);
    cr_assert_eq(about.st_mode & 0137, 0);
}
