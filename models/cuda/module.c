#include "models/cuda/module.h"

#include "models/cuda/sizes.h"
#include "protocol/base/program.h"
#include "protocol/base/version.h"

#include <dlfcn.h>
#include <string.h>

static const struct cuda_module *module; /* NULL: not open. It stays open, since the driver has threads in it */
static uint32_t module_turn, module_n_here = 1;

static enum status module_open(void)
{
    char path[PATH_MAX];
    if (module != NULL) {
        return STATUS_OK;
    }
    if (program_module(PROGRAM_CUDA, path) != STATUS_OK) {
        return status_fail(STATUS_PEER,
                           "no usable GPU: " PROGRAM_CUDA " is not there: trainerd was built without nvcc");
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct cuda_module *found = library != NULL ? dlsym(library, "cuda_module") : NULL;
    enum status status = STATUS_OK;
    if (found == NULL) {
        status = status_fail(STATUS_PEER, "no usable GPU: cannot open " PROGRAM_CUDA ": %s", dlerror());
    } else if (found->n_bytes != sizeof *found || found->n_ops_bytes != sizeof(struct device_ops) ||
               strcmp(found->version, TRAINERD_VERSION) != 0) {
        status = status_fail(STATUS_PEER,
                             "no usable GPU: '%s' is of another build, expected trainerd " TRAINERD_VERSION, path);
    }
    if (status == STATUS_OK) {
        module = found;
    } else if (library != NULL) {
        dlclose(library);
    }
    return status;
}

void cuda_module_turn(uint32_t turn, uint32_t n_here)
{
    module_turn = turn;
    module_n_here = n_here;
}

enum status cuda_module_gpus(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out)
{
    enum status status = module_open();
    if (status != STATUS_OK) {
        return status;
    }
    return module->gpus(out, n_out);
}

/* The device that it opens uses the shared object's table. */
static enum status open_inside(int n_thread, struct device **out)
{
    (void)n_thread;
    enum status status = module_open();
    if (status != STATUS_OK) {
        return status;
    }
    return module->open(module_turn, module_n_here, out);
}

const struct device_ops device_cuda_module = {CUDA_SIZES, .open = open_inside, .sums_buffer = cuda_sums_buffer_most,
                                              .sums_bytes = cuda_sums_bytes, .bytes = cuda_bytes};
