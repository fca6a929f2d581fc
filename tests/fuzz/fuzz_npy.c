/* Any bytes as a .npy array: refused, or every value is readable. At an odd address, too, where values have to be copied to aligned
 * memory. */
#include "partition/files/npy.h"
#include "protocol/base/log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    for (size_t shift = 0; shift < 2; shift++) {
        char *bytes = malloc(n_bytes + shift);
        memcpy(bytes + shift, data, n_bytes);
        struct npy npy;
        if (npy_open_bytes("input", bytes + shift, n_bytes, &npy) == STATUS_OK) {
            double sum = 0;
            for (int64_t i = 0; i < npy.n_value; i++) {
                sum += npy_real(&npy, i);
            }
            ASSERT(npy.n_value == 0 || sum == sum || !npy_is_integer(&npy));
            npy_close(&npy);
        }
        free(bytes);
    }
    return 0;
}
