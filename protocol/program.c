#include "protocol/program.h"

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
