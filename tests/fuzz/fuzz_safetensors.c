/* Any bytes as a .safetensors file, from which two tensors are read: refused, or both are read in bounds. */
#include "protocol/files/safetensors.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    float weight[6], bias[2];
    const struct safetensor want[] = {{"w", 2, {2, 3}, weight}, {"b", 1, {2}, bias}};
    safetensors_load_bytes(bytes, n_bytes, "fuzz", want, 2);
    return 0;
}
