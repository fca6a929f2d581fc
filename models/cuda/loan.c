/* Memory that other workers of the machine read: one cudaIpc handle a block. A GPU that does not reach the other one
 * refuses a handle, and so may a driver: the run time keeps that failure until it is asked for. */
#include "models/cuda/cuda.h"

#include <string.h>

static enum status refused(cudaError_t code, const char *what)
{
    cudaError_t kept = cudaGetLastError();
    return status_fail(STATUS_PEER, "%s: %s", what, cudaGetErrorString(kept != cudaSuccess ? kept : code));
}

enum status cuda_lend(struct device *device, void *block, size_t n_bytes, struct device_loan *out)
{
    (void)device;
    cudaIpcMemHandle_t name;
    cudaError_t code = cudaIpcGetMemHandle(&name, block);
    _Static_assert(sizeof name == sizeof out->name, "a loan's name is a handle");
    if (code != cudaSuccess) {
        return refused(code, "the GPU's memory cannot be lent");
    }
    memcpy(out->name, &name, sizeof name);
    out->n_bytes = n_bytes;
    return STATUS_OK;
}

enum status cuda_reach(struct device *device, const struct device_loan *loan, void *out)
{
    (void)device;
    cudaIpcMemHandle_t name;
    memcpy(&name, loan->name, sizeof name);
    cudaError_t code = cudaIpcOpenMemHandle(out, name, cudaIpcMemLazyEnablePeerAccess);
    return code == cudaSuccess ? STATUS_OK : refused(code, "the other GPU's memory is not reached");
}

void cuda_leave(struct device *device, void *reached)
{
    cuda_check(device, cudaIpcCloseMemHandle(reached), "leaving another GPU's memory");
}
