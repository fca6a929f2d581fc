#include "protocol/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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
    cr_assert_not_null(strstr(line, " level=info proc=tester rank=3 at=tests/unit/protocol/test_log.c:"), "%s", line);
    cr_assert_not_null(strstr(line, " msg=\"loss 7 of epoch\"\n"), "%s", line);
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
    cr_assert_not_null(strstr(line, "msg=\"x\\x0ats=1 level=error msg=\\\"forged\\\"\\x0d\\x1b[2J\\\\\xc3\xa9\\xff\\xc2\\x9b\"\n"), "%s", line);
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
