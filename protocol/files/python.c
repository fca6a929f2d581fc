#include "protocol/files/python.h"

#include "protocol/base/log.h"
#include "protocol/base/program.h"
#include "protocol/files/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKAGE "/trainerd/web/__init__.py"
#define START_S 60.0 /* of a Python, on a slow disk */

static void folder_add(FILE *to, const char *path, int n)
{
    fprintf(to, "%s%.*s", n > 0 && ftell(to) > 0 ? ":" : "", n, path);
}

void python_path_set(const char *programs)
{
    static bool is_set;
    static const char *const places[] = {"../lib/python3/dist-packages", "../../..", "../../../python"};
    char *path = NULL, whole[2 * PATH_MAX];
    const char *given = getenv("PYTHONPATH");
    struct stat above;
    size_t n_path = 0;
    if (is_set) {
        return;
    }
    is_set = true;
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

static bool runs(const char *python, const char *program)
{
    char printed[16];
    const char *const argv[] = {python, "-P", "-c", program, NULL};
    return capture(argv, START_S, printed, sizeof printed);
}

bool python_find(const char *program, char out[PATH_MAX])
{
    return (program_in_path("python3", out) && runs(out, program)) || runs(strcpy(out, "/usr/bin/python3"), program);
}
