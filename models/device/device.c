/* The list of devices and their lookup by name. */
#include "models/device/device.h"

#include <string.h>

static const struct device_ops *const devices[] = {
    &device_cpu,
    &device_reference,
    &device_cuda_module,
};

enum status device_find(const char *name, const struct device_ops **out)
{
    bool automatic = strcmp(name, "auto") == 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (automatic || strcmp(name, devices[i]->name) == 0) {
            *out = devices[i];
            return STATUS_OK;
        }
    }
    return status_fail(STATUS_CONFIG, "no device '%s' in this build: expected auto, cpu, cuda or reference", name);
}
