/* `trainctl web`: start the pages of the Python package, for this daemon and with this program's folder. */
#include "protocol/base/program.h"
#include "trainerd/ctl/base/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ADVICE                                                                                                       \
    "install Python 3.11 or newer and trainerd's Python package (Debian's package trainerd has it for "              \
    "/usr/bin/python3; from a checkout: pip install ./python)"

/* The python3 to start: the first of PATH, else the system's, that finds the pages. */
static const char *python_find(void)
{
    static const char *const pythons[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (freopen("/dev/null", "w", stderr) != NULL) {
                execlp(pythons[i], pythons[i], "-c", "import trainerd.web", (char *)NULL);
            }
            _exit(127);
        }
        int how = -1;
        while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) {
        }
        if (child > 0 && WIFEXITED(how) && WEXITSTATUS(how) == 0) {
            return pythons[i];
        }
    }
    return NULL;
}

enum status run_web(const struct ctl_arguments *arguments, int *exit_code_out)
{
    static const struct {
        enum ctl_option option;
        const char *name;
    } passed[] = {{CTL_OPTION_TO, "--to"},
                  {CTL_OPTION_SECRET_FILE, "--secret-file"},
                  {CTL_OPTION_FINGERPRINT, "--fingerprint"},
                  {CTL_OPTION_USER, "--user"},
                  {CTL_OPTION_PORT, "--port"}};
    char folder[PATH_MAX];
    const char *argv[8 + 2 * sizeof passed / sizeof *passed], *python;
    size_t n = 0;
    long long port;
    (void)exit_code_out;
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        return status_fail(STATUS_USAGE, "web prints an address, and has no --json");
    }
    enum status status = ctl_int(arguments, CTL_OPTION_PORT, 0, 65535, 0, &port);
    if (status == STATUS_OK) {
        status = program_beside("trainerd", folder);
    }
    if (status != STATUS_OK) {
        return status;
    }
    *strrchr(folder, '/') = '\0';
    python = python_find();
    if (python == NULL) {
        return status_fail(STATUS_PEER, "no python3 finds the package 'trainerd' with its pages: " ADVICE);
    }
    argv[n++] = python;
    argv[n++] = "-m";
    argv[n++] = "trainerd";
    argv[n++] = "web";
    argv[n++] = "--programs";
    argv[n++] = folder;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (ctl_given(arguments, passed[i].option)) {
            argv[n++] = passed[i].name;
            argv[n++] = arguments->value[passed[i].option];
        }
    }
    argv[n] = NULL;
    execvp(python, (char *const *)argv);
    return status_fail(STATUS_PEER, "cannot start '%s': %s", python, strerror(errno));
}
