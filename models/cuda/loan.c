/* Memory that other workers of the machine read: one cudaIpc handle a block. A GPU that does not reach the other one
 * refuses a handle, and so may a driver: the run time keeps that failure until it is asked for. */
#include "models/cuda/cuda.h"

#include <stdint.h>
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

typedef int address_range(unsigned long long *begin, size_t *n_bytes, unsigned long long at);

/* Bytes of the block that begins here, by the driver; SIZE_MAX: it does not tell. */
static size_t block_bytes(const void *block)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
    cudaError_t code = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, 12000, cudaEnableDefault,
                                                        &result);
    if (code != cudaSuccess || found == NULL) {
        code = cudaGetLastError(); /* the run time keeps it until it is asked for */
        return SIZE_MAX;
    }
    address_range *range;
    unsigned long long begin;
    size_t n_bytes;
    memcpy(&range, &found, sizeof range);
    return range(&begin, &n_bytes, (unsigned long long)(uintptr_t)block) == 0 ? n_bytes : SIZE_MAX;
}

enum status cuda_reach(struct device *device, const struct device_loan *loan, void *out)
{
    void *block;
    cudaIpcMemHandle_t name;
    memcpy(&name, loan->name, sizeof name);
    cudaError_t code = cudaIpcOpenMemHandle(&block, name, cudaIpcMemLazyEnablePeerAccess);
    if (code != cudaSuccess) {
        return refused(code, "the other GPU's memory is not reached");
    }
    size_t n_bytes = block_bytes(block);
    if (n_bytes < loan->n_bytes) {
        cuda_leave(device, block);
        return status_fail(STATUS_PEER, "the other GPU's memory is %zu bytes, of %llu that were named", n_bytes,
                           (unsigned long long)loan->n_bytes);
    }
    memcpy(out, &block, sizeof block);
    return STATUS_OK;
}

void cuda_leave(struct device *device, void *reached)
{
    cuda_check(device, cudaIpcCloseMemHandle(reached), "leaving another GPU's memory");
}
