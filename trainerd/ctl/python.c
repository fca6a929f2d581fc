/* `trainctl web` and `plot`: start those of the Python package, for this daemon and with this program's folder. */
#include "protocol/files/python.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* value  NULL: the option takes none */
static char *option_text(const char *name, const char *value)
{
    return text_format("--%s%s%s", name, value != NULL ? "=" : "", value != NULL ? value : "");
}

/* Become the package's command of this name, with the same options and operands; they are checked there. */
static enum status become(const char *python, const char *programs, const struct ctl_arguments *arguments)
{
    const char *begin[] = {python,       "-P",    "-m", "trainerd", ctl_commands[arguments->command].name,
                           "--programs", programs};
    size_t n_begin = sizeof begin / sizeof *begin, n = n_begin, n_most = n_begin + (size_t)arguments->n_operand + 2;
    for (int i = 0; i < CTL_OPTION_N; i++) {
        n_most += arguments->list[i].n;
    }
    char **argv = memory_alloc(n_most, sizeof *argv);
    memcpy(argv, begin, sizeof begin);
    for (int i = 0; i < CTL_OPTION_N; i++) {
        for (size_t j = 0; j < arguments->list[i].n; j++) {
            argv[n++] = option_text(ctl_options[i].name, arguments->list[i].value[j]);
        }
    }
    size_t n_option = n;
    if (arguments->n_operand > 0) {
        argv[n++] = "--";
        memcpy(&argv[n], arguments->operand, (size_t)arguments->n_operand * sizeof *argv);
    }
    execv(python, argv);
    enum status status = status_fail(STATUS_PEER, "cannot start '%s': %s", python, strerror(errno));
    for (size_t i = n_begin; i < n_option; i++) {
        free(argv[i]);
    }
    free(argv);
    return status;
}

/* programs: a Python that runs the first is better, one that runs the second will do (NULL: will not) */
static enum status start(const struct ctl_arguments *arguments, const char *const programs[2])
{
    char folder[PATH_MAX], python[PATH_MAX];
    enum status status = program_beside("trainerd", folder);
    if (status != STATUS_OK) {
        return status;
    }
    *strrchr(folder, '/') = '\0';
    python_path_set(folder);
    return python_find(programs[0], python) || (programs[1] != NULL && python_find(programs[1], python))
               ? become(python, folder, arguments)
               : status_fail(STATUS_PEER,
                             "no python3 finds the package 'trainerd' with its command '%s': " PYTHON_ADVICE,
                             ctl_commands[arguments->command].name);
}

enum status run_web(const struct ctl_arguments *arguments)
{
    long long port;
    if (ctl_given(arguments, CTL_OPTION_JSON)) {
        return status_fail(STATUS_USAGE, "web prints an address, and has no --json");
    }
    enum status status = ctl_int(arguments, CTL_OPTION_PORT, 0, 65535, 0, &port);
    if (status == STATUS_OK) {
        status = start(arguments, (const char *const[2]){"import trainerd.web", NULL});
    }
    return status;
}

/* Where no Python has matplotlib, the package says what to install. */
enum status run_plot(const struct ctl_arguments *arguments)
{
    static const char *const programs[2] = {
        "import importlib.util as u, trainerd.plot; raise SystemExit(u.find_spec('matplotlib') is None)",
        "import trainerd.plot"};
    return start(arguments, programs);
}
