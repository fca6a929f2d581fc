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
#define PAGES "/trainerd/web/__init__.py"
#define START_S 60.0 /* of a Python, on a slow disk */
#define ARGUMENTS_MOST 128

static void folder_add(FILE *to, const char *path, int n)
{
    fprintf(to, "%s%.*s", n > 0 && ftell(to) > 0 ? ":" : "", n, path);
}

/* $PYTHONPATH for the pages: the folder of the package beside these programs, as installed, in the wheel or in a
 * checkout, then the absolute folders that the variable has. Relative and empty ones are left out: the current folder
 * may belong to another user. So may what lies in a folder with a sticky bit. */
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
        int n = snprintf(whole, sizeof whole, "%s/%s" PAGES, programs, places[i]) - (int)strlen(PAGES);
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

/* Does it find the pages? -P: it looks for modules neither in the current folder nor beside a script. */
static bool has_pages(const char *python)
{
    char printed[16];
    const char *const argv[] = {python, "-P", "-c", "import trainerd.web", NULL};
    return capture(argv, START_S, printed, sizeof printed);
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
                  {CTL_OPTION_PORT, "--port"},
                  {CTL_OPTION_BASE_URL, "--base-url"},
                  {CTL_OPTION_ALLOW_HOST, "--allow-host"}};
    char folder[PATH_MAX], python[PATH_MAX];
    const char *argv[ARGUMENTS_MOST];
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
    if (!(program_in_path("python3", python) && has_pages(python)) &&
        !has_pages(strcpy(python, "/usr/bin/python3"))) { /* the first of PATH, else the system's */
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
        const struct ctl_list *list = &arguments->list[passed[i].option];
        for (size_t j = 0; j < list->n && n + 2 < ARGUMENTS_MOST; j++) {
            argv[n++] = passed[i].name;
            argv[n++] = list->value[j];
        }
    }
    if (n + 2 >= ARGUMENTS_MOST) {
        return status_fail(STATUS_USAGE, "web takes at most %d options", ARGUMENTS_MOST / 2);
    }
    argv[n] = NULL;
    execv(python, (char *const *)argv);
    return status_fail(STATUS_PEER, "cannot start '%s': %s", python, strerror(errno));
}
