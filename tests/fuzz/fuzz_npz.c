/* Any bytes as a .npz archive: refused, or with members that are arrays. */
#include "tests/fuzz/input_file.h"

#include "partition/files/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct npz *npz;
    if (npz_open(input_file(data, n_bytes), &npz) == STATUS_OK) {
        struct npy npy;
        if (npz_member(npz, "a", &npy) == STATUS_OK) {
            npy_close(&npy);
        }
        npz_close(npz);
    }
    return 0;
}
