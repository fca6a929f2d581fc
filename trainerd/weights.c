#include "trainerd/weights.h"

#include "protocol/memory.h"
#include "protocol/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* One row per parameter, pointing into the arena; the caller frees it. */
static struct safetensor *tensors(const struct program *program, float *arena)
{
    struct safetensor *list = memory_alloc((size_t)program->n_param, sizeof *list);
    for (int i = 0; i < program->n_param; i++) {
        const struct parameter *param = &program->param[i];
        list[i] = (struct safetensor){.name = param->name, .n_dim = param->n_dim, .data = arena + param->offset};
        memcpy(list[i].shape, param->shape, sizeof param->shape);
    }
    return list;
}

enum status weights_save(const struct program *program, const float *arena, const char *path)
{
    /* What PyTorch's own writers say, and some readers ask for. */
    const struct safetensors_note note = {.key = "format", .text = "pt"};
    struct safetensor *list = tensors(program, (float *)(uintptr_t)arena);
    enum status status = safetensors_save(path, list, (size_t)program->n_param, &note, 1);
    free(list);
    return status;
}

enum status weights_load(const struct program *program, const char *path, float *arena)
{
    memset(arena, 0, (size_t)program->n_weight * sizeof *arena);
    struct safetensor *list = tensors(program, arena);
    enum status status = safetensors_load(path, list, (size_t)program->n_param);
    free(list);
    return status;
}
