#include "models/cuda/library.h"

#include <dlfcn.h>
#include <string.h>

bool cuda_library_find(const char *const *places, const char *const *names, void *(*emulated)(const char *name),
                       void *functions_out)
{
    void *handle = NULL, *function = NULL;
    bool is_whole = true;
    for (; *places != NULL && handle == NULL && emulated == NULL; places++) {
        handle = dlopen(*places, RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; names[i] != NULL && is_whole; i++) {
        function = emulated != NULL ? emulated(names[i]) : handle != NULL ? dlsym(handle, names[i]) : NULL;
        memcpy((char *)functions_out + i * sizeof function, &function, sizeof function);
        is_whole = function != NULL;
    }
    if (!is_whole && handle != NULL) {
        dlclose(handle);
    }
    return is_whole;
}
