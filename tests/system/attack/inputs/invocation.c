#include "tests/system/attack/inputs/invocation.h"

#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/sanitized.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

char invocation_said[1 << 16];
static int n_refused;

static void run(const char *const arguments[])
{
    char program[PATH_MAX];
    uid_t uid = user_uid(USER_FIRST);
    program_find(arguments[0], program, sizeof program);
    int said = open(folder_path("said"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600),
        none = open("/dev/null", O_RDWR);
    dup2(said, STDERR_FILENO);
    dup2(none, STDOUT_FILENO);
    dup2(none, STDIN_FILENO);
    if (!SANITIZED) { /* which reserves terabytes of addresses */
        setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)16 << 30, (rlim_t)16 << 30});
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (chdir(folder_path(user_home(USER_FIRST))) == 0 && setgroups(0, NULL) == 0 && setgid((gid_t)uid) == 0 &&
        setuid(uid) == 0) {
        execv(program, (char *const *)arguments);
    }
    _exit(127);
}

static void read_said(void)
{
    folder_read("said", invocation_said, sizeof invocation_said);
}

int invocation_run(const char *const arguments[], const char *ready)
{
    double since_s = clock_s();
    int status = 0;
    fflush(NULL);
    folder_write("said", "");
    pid_t parent = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        die_with(parent);
        run(arguments);
    }
    while (waitpid(pid, &status, WNOHANG) != pid) {
        read_said();
        if (ready != NULL && strstr(invocation_said, ready) != NULL) {
            kill(pid, SIGTERM);
            ready = NULL;
        }
        if (!patience_left(since_s)) {
            kill(pid, SIGKILL);
            HOLDS(false, "%s does not end: %s", arguments[0], invocation_said);
        }
    }
    read_said();
    return WIFEXITED(status) ? WEXITSTATUS(status) : INVOCATION_ENDED_BY + WTERMSIG(status);
}

static const char *last_line(void)
{
    size_t n = strlen(invocation_said);
    while (n > 0 && invocation_said[n - 1] == '\n') {
        invocation_said[--n] = '\0';
    }
    const char *at = strrchr(invocation_said, '\n');
    return at != NULL ? at + 1 : invocation_said;
}

/* No control character, and no byte that is not of UTF-8. */
static bool is_printable(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        int n_more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc2 ? 1 : 0;
        if (*at < 0x20 || *at == 0x7f || (*at >= 0x80 && n_more == 0) || *at > 0xf4) {
            return false;
        }
        for (; n_more > 0; n_more--) {
            if ((*++at & 0xc0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

static bool has_one_of(const char *text, const char *where)
{
    char one[64];
    for (const char *at = where; *at != '\0'; at += strcspn(at, "|"), at += *at == '|') {
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "|"), at);
        if (strstr(text, one) != NULL) {
            return true;
        }
    }
    return false;
}

int invocation_n_refused(void)
{
    return n_refused;
}

void invocation_expect(int code, const int allowed[], const char *where)
{
    bool is_allowed = false;
    for (size_t i = 0; allowed[i] >= 0; i++) {
        is_allowed = is_allowed || allowed[i] == code;
    }
    HOLDS(is_allowed, "exit %d: %.2000s", code, invocation_said);
    n_refused += code != 0;
    const char *line = last_line();
    HOLDS(code == 0 || (strncmp(line, "train", 5) == 0 && strstr(line, ": ") != NULL),
          "exit %d without a reason: %.2000s", code, invocation_said);
    HOLDS(code == 0 || is_printable(line), "exit %d with a message that a terminal cannot show: %.2000s", code, line);
    HOLDS(code == 0 || has_one_of(line, where), "exit %d, and it names none of %s: %.2000s", code, where, line);
}
