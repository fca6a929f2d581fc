#include "models/cuda/aggregate/spmm_library.h"

#include "models/cuda/library.h"

#define NAME "libcusparse.so.12" /* of CUDA 12 and 13 */
#define PLACE "/usr/local/cuda/lib64/" NAME

enum status spmm_library_find(struct spmm_library *out)
{
    static const char *const places[] = {NAME, PLACE, NULL};
    static const char *const names[] = {
#define X(name) #name,
        SPMM_FUNCTION_LIST(X) NULL
#undef X
    };
    return cuda_library_find(places, names, CUDA_LIBRARY_EMULATED(emulator_cusparse), out)
               ? STATUS_OK
               : status_fail(STATUS_PEER,
                             "cuSPARSE 12 is not on this machine: there is neither " NAME " in the linker's folders "
                             "(LD_LIBRARY_PATH) nor " PLACE ", with all functions that are called");
}
