#include "models/cuda/aggregate/spmm_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NAME "libcusparse.so.12" /* of CUDA 12 and 13 */
#define PLACE "/usr/local/cuda/lib64/" NAME

static void *library_open(void)
{
#ifdef CUDA_EMULATED
    return dlopen(NULL, RTLD_NOW); /* its functions are the emulator's */
#else
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? library : dlopen(PLACE, RTLD_NOW | RTLD_LOCAL);
#endif
}

static void *function_find(void *library, const char *name)
{
#ifdef CUDA_EMULATED
    (void)library;
    return emulator_cusparse(name);
#else
    return dlsym(library, name);
#endif
}

enum status spmm_library_find(struct spmm_library *out)
{
    bool is_whole = (out->library = library_open()) != NULL;
#define X(name)                                                                                                                \
    if (is_whole) {                                                                                                            \
        void *function = function_find(out->library, #name);                                                                   \
        memcpy(&out->name##_, &function, sizeof function);                                                                     \
        is_whole = function != NULL;                                                                                           \
    }
    SPMM_FUNCTION_LIST(X)
#undef X
    if (is_whole) {
        return STATUS_OK;
    }
    if (out->library != NULL) {
        dlclose(out->library);
    }
    return status_fail(STATUS_PEER, "cuSPARSE 12 is not on this machine: there is neither " NAME " in the linker's folders "
                                    "(LD_LIBRARY_PATH) nor " PLACE ", with all functions that are called");
}
