/* The cuda device in programs that are built without CUDA: its name and sizes, and the shared object with the rest.
 *
 * The shared object lies beside the program, and only workers open it: with the device, or to list GPUs. It uses the
 * program's status, memory and log (module.exports), so that both count the same bytes.
 */
#ifndef MODELS_CUDA_MODULE_H
#define MODELS_CUDA_MODULE_H

#include "models/device/device.h"

/* GPUs of one machine at most. */
#define CUDA_GPUS_MOST 64

/* A GPU that can be used. */
struct cuda_gpu {
    char name[64];
    char uuid[48];   /* "GPU-…" */
    int64_t n_bytes; /* of its memory */
    int64_t n_used;  /* of these, by any process; -1: not reported */
    int32_t ordinal; /* among the GPUs that this process sees, from 0 */
    /* among all of the machine's, as nvidia-smi counts them; the ordinal if the driver does not report it */
    int32_t number;
    int32_t major, minor; /* compute capability */
    /* Of cuda_module_gpus alone: its NUMA node (-1: not known), the nearest network interface ("": none is near), and
     * for each GPU of the list a letter: memory is read by NVLink (N), PCI Express (P), not (-); X: it is this one */
    int node;
    char network[16], links[CUDA_GPUS_MOST + 1];
};

/* What the shared object exports, as `cuda_module`. */
struct cuda_module {
    size_t n_bytes, n_ops_bytes; /* of this struct and of struct device_ops: another program's differ */
    const char *version;         /* TRAINERD_VERSION */
    enum status (*open)(uint32_t turn, uint32_t n_here, struct device **out);
    enum status (*gpus)(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out);
};

/* This process is worker number `turn`, from 0, of n_here on its machine: the device that it opens is on GPU `turn`,
 * modulo their number, and shares its memory with the other workers on that GPU. */
void cuda_module_turn(uint32_t turn, uint32_t n_here);

/* The machine's GPUs, at least one. errors  STATUS_PEER "no usable GPU: <reason>" */
enum status cuda_module_gpus(struct cuda_gpu out[CUDA_GPUS_MOST], int *n_out);

#endif
