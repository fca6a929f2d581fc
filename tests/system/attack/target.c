#include "tests/system/attack/target.h"

#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/processes.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_LOG = 1 << 16 };

static pid_t pid;
static bool may_die;
static int http_port;
static off_t log_before; /* bytes of the log that earlier daemons wrote */

static off_t log_bytes(void)
{
    struct stat about;
    return stat(folder_path("daemon.log"), &about) == 0 ? about.st_size : 0;
}

/* The last bytes of this daemon's log. */
static const char *log_read(void)
{
    static char text[N_LOG];
    off_t end = log_bytes(), from = end - log_before >= N_LOG ? end - N_LOG + 1 : log_before;
    int file = open(folder_path("daemon.log"), O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? pread(file, text, N_LOG - 1, from) : 0;
    close(file);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void run(const char *faults)
{
    char program[PATH_MAX], address[128];
    program_find("trainerd", program, sizeof program);
    snprintf(address, sizeof address, "unix:%s/socket", folder);
    int log = open(folder_path("daemon.log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    dup2(log, STDOUT_FILENO);
    close(log);
    if (faults != NULL) {
        setenv("TRAINERD_FAULTS", faults, 1);
    }
    /* The leak sanitizer looks from a child process of its own. Killed as if it were a worker, it leaves its parent waiting for ever. */
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    if (chdir(folder) == 0) {
        const char *arguments[] = {program,
                                   "--listen",
                                   address,
                                   "--state",
                                   "state",
                                   "--set",
                                   "metrics=127.0.0.1:0",
                                   "--set",
                                   "slots=4",
                                   "--set",
                                   "memory=64GiB",
                                   "--set",
                                   "pass_environment=TRAINERD_FAULTS ASAN_OPTIONS LSAN_OPTIONS",
                                   "--set",
                                   "backoff_s=0.05",
                                   "--set",
                                   "backoff_most_s=0.2",
                                   "--set",
                                   "kill_s=20",
                                   "--set",
                                   "max_queued_per_user=40",
                                   "--set",
                                   "max_log=2MiB",
                                   "--set",
                                   "reserve=16MiB",
                                   NULL};
        execv(program, (char *const *)arguments);
    }
    _exit(127);
}

void target_start(const char *faults)
{
    static const char mark[] = "metrics at http://127.0.0.1:";
    log_before = log_bytes();
    pid_t parent = getpid();
    fflush(NULL);
    pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        die_with(parent);
        run(faults);
    }
    processes_watch(pid);
    may_die = faults != NULL && strstr(faults, "daemon.") != NULL && strstr(faults, "=kill") != NULL;
    double since_s = clock_s();
    const char *at = NULL;
    int status;
    while ((at = strstr(log_read(), mark)) == NULL) { /* the line after the one that says it listens */
        HOLDS(!processes_ended(&status), "the daemon does not start: %s", log_read());
        HOLDS(patience_left(since_s), "the daemon does not listen: %s", log_read());
    }
    http_port = atoi(at + strlen(mark));
}

pid_t target_pid(void)
{
    return pid;
}

int target_http_port(void)
{
    return http_port;
}

bool target_is_dead(void)
{
    int status;
    if (pid == 0) {
        return true;
    }
    if (!processes_ended(&status)) {
        return false;
    }
    HOLDS(may_die && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the daemon has ended: state %x: %s",
          (unsigned)status, log_read());
    pid = 0;
    return true;
}

static int await_end(void)
{
    int status;
    double since_s = clock_s();
    while (!processes_ended(&status)) {
        HOLDS(patience_left(since_s), "the daemon does not end: %s", log_read());
    }
    pid = 0;
    return status;
}

void target_kill(void)
{
    if (target_is_dead()) {
        return;
    }
    kill(pid, SIGKILL);
    int status = await_end();
    HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the daemon has ended: state %x: %s", (unsigned)status,
          log_read());
}

void target_end(void)
{
    if (target_is_dead()) {
        return;
    }
    kill(pid, SIGTERM);
    int status = await_end();
    HOLDS(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : may_die && WTERMSIG(status) == SIGKILL,
          "the daemon has ended: state %x: %s", (unsigned)status, log_read());
}

void target_expect_no_bug(void)
{
    const char *log = log_read(), *at = strstr(log, "internal error");
    HOLDS(at == NULL && strstr(log, "ERROR: AddressSanitizer") == NULL && strstr(log, "runtime error:") == NULL, "%s",
          log);
}
