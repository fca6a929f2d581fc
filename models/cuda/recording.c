/* Repeated work as CUDA graphs: one launch for all, since the launch of a small kernel takes longer than the
 * kernel. */
#include "models/cuda/cuda.h"

#include "protocol/base/log.h"

void cuda_record(struct device *device)
{
    cuda_check(device, cudaStreamBeginCapture(cuda_stream(device), cudaStreamCaptureModeThreadLocal), "recording");
}

void *cuda_recorded(struct device *device)
{
    struct cuda_device *cuda = cuda_device(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t recording = NULL;
    cuda_check(device, cudaStreamEndCapture(cuda_stream(device), &graph), "recording");
    if (cuda->failed == STATUS_OK) {
        cuda_check(device, cudaGraphInstantiate(&recording, graph, 0), "recording");
    }
    if (graph != NULL) {
        cuda_check(device, cudaGraphDestroy(graph), "recording");
    }
    if (cuda->failed != STATUS_OK) { /* nothing of it was run */
        log_warn("epochs are launched kernel by kernel: %s", cuda->reason);
        cuda->failed = STATUS_OK;
        return NULL;
    }
    return recording;
}

void cuda_replay(struct device *device, void *recording)
{
    cuda_check(device, cudaGraphLaunch(recording, cuda_stream(device)), "what was recorded");
    device->n_replay++;
}

void cuda_forget(struct device *device, void *recording)
{
    cuda_check(device, cudaGraphExecDestroy(recording), "a recording");
}
