/* `trainctl web` and `plot`: start those of the Python package, for this daemon and with this program's folder. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"
#include "trainerd/ctl/base/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADVICE                                                                                                       \
    "install Python 3.11 or newer and trainerd's Python package (Debian's package trainerd has it for "              \
    "/usr/bin/python3; from a checkout: pip install ./python)"
#define PACKAGE "/trainerd/web/__init__.py"
#define START_S 60.0 /* of a Python, on a slow disk */

static void folder_add(FILE *to, const char *path, int n)
{
    fprintf(to, "%s%.*s", n > 0 && ftell(to) > 0 ? ":" : "", n, path);
}

/* $PYTHONPATH: the folder of the package beside these programs, as installed, in the wheel or in a checkout, then the
 * absolute folders that the variable has. Relative and empty ones are left out: the current folder may belong to
 * another user. So may what lies in a folder with a sticky bit. */
static void python_path_set(const char *programs)
{
    static const char *const places[] = {"../lib/python3/dist-packages", "../../..", "../../../python"};
    char *path = NULL, whole[2 * PATH_MAX];
    const char *given = getenv("PYTHONPATH");
    struct stat above;
    size_t n_path = 0;
    FILE *to = open_memstream(&path, &n_path);
    ASSERT(to != NULL);
    snprintf(whole, sizeof whole, "%s/%s", programs, places[1]);
    size_t n_place = stat(whole, &above) == 0 && (above.st_mode & S_ISVTX) == 0 ? sizeof places / sizeof *places : 1;
    for (size_t i = 0; i < n_place; i++) {
        int n = snprintf(whole, sizeof whole, "%s/%s" PACKAGE, programs, places[i]) - (int)strlen(PACKAGE);
        folder_add(to, whole, access(whole, R_OK) == 0 ? n : 0);
    }
    for (const char *at = given != NULL ? given : ""; *at != '\0'; at += *at == ':') {
        int n = (int)strcspn(at, ":");
        folder_add(to, at, at[0] == '/' ? n : 0);
        at += n;
    }
    fclose(to);
    setenv("PYTHONPATH", path, 1);
    free(path);
}

/* Does this Python run the program? -P: it looks for modules neither in the current folder nor beside a script. */
static bool runs(const char *python, const char *program)
{
    char printed[16];
    const char *const argv[] = {python, "-P", "-c", program, NULL};
    return capture(argv, START_S, printed, sizeof printed);
}

/* A Python that runs it: the first of PATH, else the system's. */
static bool find_python(const char *program, char out[PATH_MAX])
{
    return (program_in_path("python3", out) && runs(out, program)) || runs(strcpy(out, "/usr/bin/python3"), program);
}

/* value  NULL: the option takes none */
static char *option_text(const char *name, const char *value)
{
    char *text = NULL;
    int n = asprintf(&text, "--%s%s%s", name, value != NULL ? "=" : "", value != NULL ? value : "");
    ASSERT(n > 0);
    return text;
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
    return find_python(programs[0], python) || (programs[1] != NULL && find_python(programs[1], python))
               ? become(python, folder, arguments)
               : status_fail(STATUS_PEER, "no python3 finds the package 'trainerd' with its command '%s': " ADVICE,
                             ctl_commands[arguments->command].name);
}

enum status run_web(const struct ctl_arguments *arguments, int *exit_code_out)
{
    long long port;
    (void)exit_code_out;
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
enum status run_plot(const struct ctl_arguments *arguments, int *exit_code_out)
{
    static const char *const programs[2] = {
        "import importlib.util as u, trainerd.plot; raise SystemExit(u.find_spec('matplotlib') is None)",
        "import trainerd.plot"};
    (void)exit_code_out;
    return start(arguments, programs);
}
