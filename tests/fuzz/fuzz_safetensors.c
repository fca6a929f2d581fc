/* Any bytes as a .safetensors file, from which two tensors are read, one transposed: refused, or both are read in
 * bounds, with the shapes that the file has. */
#include "protocol/files/safetensors.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    float weight[6], bias[2];
    const struct safetensor want[] = {{.name = "w", .n_dim = 2, .shape = {2, 3}, .data = weight, .transposed = true},
                                      {.name = "b", .n_dim = 1, .shape = {2}, .data = bias}};
    struct safetensor found[] = {{.name = "w"}, {.name = "b"}};
    bool loads = safetensors_load_bytes(bytes, n_bytes, "fuzz", want, 2) == STATUS_OK;
    bool shows = safetensors_shapes_bytes(bytes, n_bytes, "fuzz", found, 2) == STATUS_OK;
    if (loads && !(shows && found[0].n_dim == 2 && found[0].shape[0] == 3 && found[1].n_dim == 1)) {
        abort();
    }
    return 0;
}
