#include "protocol/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status program_beside(const char *name, char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    const char *slash = n > 0 ? memrchr(out, '/', (size_t)n) : NULL;
    size_t n_folder = slash == NULL ? 0 : (size_t)(slash + 1 - out);
    if (slash == NULL || n_folder + strlen(name) >= PATH_MAX) {
        return status_fail(STATUS_PEER, "cannot find this program's own path, expected to start %s from its folder", name);
    }
    strcpy(out + n_folder, name);
    return STATUS_OK;
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
