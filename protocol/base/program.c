#include "protocol/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* UCX reads ./ucx.conf while it is loaded: in another user's folder that file would choose what is loaded, and which
 * files are written. So the current folder is / until every library has begun. */
#define BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

static volatile int folder_left = -1; /* clang would run folder_return while it compiles, before folder_leave */

static BEFORE_SANITIZERS void folder_leave(void)
{
    if (syscall(SYS_faccessat, AT_FDCWD, ".", X_OK) == 0) { /* else there is no way back, and no file to be read */
        folder_left = (int)syscall(SYS_openat, AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
        syscall(SYS_chdir, folder_left >= 0 ? "/" : ".");
    }
}

/* Run before the libraries' own constructors. */
__attribute__((section(".preinit_array"), used)) static void (*const leave)(void) = folder_leave;

static __attribute__((constructor)) void folder_return(void)
{
    if (folder_left >= 0 && (fchdir(folder_left) != 0 || close(folder_left) != 0)) {
        _exit(status_exit_code(STATUS_IO)); /* there is no place for a message */
    }
}

void program_begin(void)
{
    /* open returns the lowest free number, which is `number`: all below are already open. */
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
        if (fcntl(number, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != number) {
            _exit(status_exit_code(STATUS_IO)); /* there is no place for a message */
        }
    }
    sigset_t none;
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

bool program_ignores(int signal_number)
{
    struct sigaction now;
    return signal_number == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool program_is_fault(int signal_number)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (faults[i] == signal_number) {
            return true;
        }
    }
    return false;
}

enum status program_beside(const char *name, char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    const char *slash = n > 0 ? memrchr(out, '/', (size_t)n) : NULL;
    size_t n_folder = slash == NULL ? 0 : (size_t)(slash + 1 - out);
    if (slash == NULL || n_folder + strlen(name) >= PATH_MAX) {
        return status_fail(STATUS_PEER, "cannot find this program's own path, expected to start %s from its folder",
                           name);
    }
    strcpy(out + n_folder, name);
    return STATUS_OK;
}

bool program_in_path(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    bool is_path = strchr(name, '/') != NULL, is_there = is_path && snprintf(out, PATH_MAX, "%s", name) < PATH_MAX;
    for (const char *at = path != NULL && !is_path ? path : ""; *at != '\0' && !is_there; at += *at == ':') {
        size_t n = strcspn(at, ":");
        struct stat about;
        is_there = at[0] == '/' && snprintf(out, PATH_MAX, "%.*s/%s", (int)n, at, name) < PATH_MAX &&
                   stat(out, &about) == 0 && S_ISREG(about.st_mode) && access(out, X_OK) == 0;
        at += n;
    }
    return is_there || (out[0] = '\0');
}

enum status program_module(const char *name, char out[PATH_MAX])
{
    static const char *const folders[] = {"../lib/", "../lib/trainerd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char beside[64];
        snprintf(beside, sizeof beside, "%s%s", folders[i], name);
        enum status status = program_beside(beside, out);
        if (status != STATUS_OK || access(out, R_OK) == 0) {
            return status;
        }
    }
    return status_fail(STATUS_PEER, "there is no %s beside this program", name);
}
