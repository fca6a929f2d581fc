/* `trainctl web`: start the pages of the Python package, for this daemon and with this program's folder. */
#include "protocol/base/log.h"
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
#define START_S 60.0 /* of a Python, on a slow disk */

static void folder_add(FILE *to, const char *path, int n)
{
    fprintf(to, "%s%.*s", n > 0 && ftell(to) > 0 ? ":" : "", n, path);
}

/* $PYTHONPATH for the pages: the folder of the package beside these programs, in the wheel, a checkout or where they are
 * installed; then the absolute folders that the variable has. Relative ones, and empty ones, are left out: the current
 * folder may belong to another user. So may one with a sticky bit, which is passed over. */
static void python_path_set(const char *programs)
{
    static const char *const places[][2] = {
        {"../../..", ""}, {"../../..", "/python"}, {"..", "/lib/python3/dist-packages"}};
    const char *given = getenv("PYTHONPATH");
    char *path = NULL, whole[2 * PATH_MAX];
    size_t n_path = 0;
    FILE *to = open_memstream(&path, &n_path);
    ASSERT(to != NULL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct stat about;
        int n = snprintf(whole, sizeof whole, "%s/%s", programs, places[i][0]);
        if (stat(whole, &about) == 0 && (about.st_mode & S_ISVTX) == 0) {
            int n_folder = n + snprintf(whole + n, sizeof whole - (size_t)n, "%s", places[i][1]);
            strcpy(whole + n_folder, "/trainerd/web/__init__.py");
            folder_add(to, whole, access(whole, R_OK) == 0 ? n_folder : 0);
        }
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

/* The python3 to start: the first of PATH, else the system's, that finds the pages. -P: it looks for modules neither in
 * the current folder nor beside a script. */
static bool python_find(char out[PATH_MAX])
{
    char printed[16];
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            strcpy(out, "/usr/bin/python3");
        } else if (!program_in_path("python3", out)) {
            continue;
        }
        if (capture((const char *const[]){out, "-P", "-c", "import trainerd.web", NULL}, START_S, printed,
                    sizeof printed)) {
            return true;
        }
    }
    return false;
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
    char folder[PATH_MAX], python[PATH_MAX];
    const char *argv[8 + 2 * sizeof passed / sizeof *passed];
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
    python_path_set(folder);
    if (!python_find(python)) {
        return status_fail(STATUS_PEER, "no python3 finds the package 'trainerd' with its pages: " ADVICE);
    }
    argv[n++] = python;
    argv[n++] = "-P";
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
    execv(python, (char *const *)argv);
    return status_fail(STATUS_PEER, "cannot start '%s': %s", python, strerror(errno));
}
