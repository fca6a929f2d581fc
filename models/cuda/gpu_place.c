/* Where GPUs are: which read each other's memory; by /sys, NUMA nodes and nearest network interfaces. */
#include "models/cuda/cuda.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CUDA_SYS
#define CUDA_SYS "/sys"
#endif

/* A device's folder, which names the bridges that it is behind, and its NUMA node (-1: not known); false: no such. */
static bool place_find(const char *kind, const char *name, const char *rest, char folder[PATH_MAX], int *node)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s%s/numa_node", CUDA_SYS, kind, name, rest);
    FILE *file = fopen(path, "r");
    *node = -1;
    if (file != NULL) {
        *node = fscanf(file, "%d", node) == 1 ? *node : -1;
        fclose(file);
    }
    path[strlen(path) - strlen("/numa_node")] = '\0';
    return realpath(path, folder) != NULL;
}

/* The interface with most bridges in common, the root among them, else one of the NUMA node. */
static void network_find(const char *of, int node, char out[16])
{
    char path[512], folder[PATH_MAX];
    const char *root = strstr(of, "/pci");
    struct dirent **all = NULL;
    int its, most = 0;
    snprintf(path, sizeof path, "%s/class/net", CUDA_SYS);
    for (int i = 0, n = scandir(path, &all, NULL, alphasort); i < n; free(all[i++])) {
        bool is_device = place_find("class/net", all[i]->d_name, "/device", folder, &its);
        int near = is_device && node >= 0 && its == node;
        for (size_t at = 0; is_device && root != NULL && of[at] != '\0' && of[at] == folder[at]; at++) {
            near += of + at > root && of[at + 1] == '/' && folder[at + 1] == '/' ? 2 : 0;
        }
        if (near > most) {
            most = near;
            snprintf(out, 16, "%.15s", all[i]->d_name);
        }
    }
    free(all);
}

/* The letter of how one reads the other's memory. PCI Express has no atomics. */
static char link_of(const struct cuda_gpu *gpu, const struct cuda_gpu *other)
{
    int has[2] = {0};
    for (int k = 0; k < 2 && gpu != other; k++) {
        enum cudaDeviceP2PAttr what = k == 0 ? cudaDevP2PAttrAccessSupported : cudaDevP2PAttrNativeAtomicSupported;
        bool known = cudaDeviceGetP2PAttribute(&has[k], what, gpu->ordinal, other->ordinal) == cudaSuccess;
        has[k] = known ? has[k] : 0;
    }
    return gpu == other ? 'X' : has[0] == 0 ? '-' : has[1] != 0 ? 'N' : 'P';
}

enum status cuda_gpus_placed(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out)
{
    enum status status = cuda_gpus(out, n_out);
    for (int i = 0; i < *n_out && status == STATUS_OK; i++) {
        char bus_id[32] = "", folder[PATH_MAX];
        bool known = cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, out[i].ordinal) == cudaSuccess;
        for (char *c = bus_id; *c != '\0'; c++) {
            *c = (char)tolower((unsigned char)*c);
        }
        if (known && place_find("bus/pci/devices", bus_id, "", folder, &out[i].node)) {
            network_find(folder, out[i].node, out[i].network);
        }
        for (int j = 0; j < *n_out; j++) {
            out[i].links[j] = link_of(&out[i], &out[j]);
        }
    }
    return status;
}
