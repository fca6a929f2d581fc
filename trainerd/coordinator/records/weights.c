#include "trainerd/coordinator/records/weights.h"

#include "protocol/base/memory.h"
#include "protocol/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum status weights_open(const struct program *program, struct weights *out)
{
    struct weights weights = {.program = program};
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        weights.n_embedded += param->embedding_at >= 0 ? parameter_size(param) : 0;
    }
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)program->n_weight, sizeof *weights.arena,
                                        &weights.arena);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)weights.n_embedded, sizeof *weights.embedded,
                                &weights.embedded);
    }
    if (status != STATUS_OK) {
        weights_close(&weights);
        return status;
    }
    *out = weights;
    return STATUS_OK;
}

void weights_close(struct weights *weights)
{
    if (weights->program != NULL) {
        memory_release(MEMORY_OTHER, weights->embedded, (size_t)weights->n_embedded, sizeof *weights->embedded);
        memory_release(MEMORY_OTHER, weights->arena, (size_t)weights->program->n_weight, sizeof *weights->arena);
    }
    *weights = (struct weights){0};
}

/* A walk over tensors with embeddings. */
struct walk {
    const struct weights *weights;
    int next; /* parameter */
    const struct parameter *param;
    float *tensor;
};

static bool walk_next(struct walk *walk)
{
    const struct program *program = walk->weights->program;
    float *tensor = walk->param != NULL ? walk->tensor + parameter_size(walk->param) : walk->weights->embedded;
    while (walk->next < program->n_param && program->param[walk->next].embedding_at < 0) {
        walk->next++;
    }
    if (walk->next == program->n_param) {
        return false;
    }
    walk->param = &program->param[walk->next++];
    walk->tensor = tensor;
    return true;
}

/* Copy the arena's entries to the tensors, or back. */
static void shared_copy(const struct weights *weights, bool to_arena)
{
    const struct program *program = weights->program;
    int64_t n_shared = program_n_shared(program);
    struct walk walk = {.weights = weights};
    while (walk_next(&walk)) {
        for (int64_t c = 0; c < n_shared; c++) {
            int64_t column = embedded_column(&program->embedded, c);
            for (int64_t r = 0; r < walk.param->embedding_width; r++) {
                float *whole = &walk.tensor[parameter_embedded(walk.param, column, r)];
                float *shared = &weights->arena[walk.param->offset + r * n_shared + c];
                *(to_arena ? shared : whole) = *(to_arena ? whole : shared);
            }
        }
    }
}

void weights_take(struct weights *weights)
{
    shared_copy(weights, false);
}

void weights_take_embeddings(struct weights *weights, int64_t n, const uint32_t *column, const float *from)
{
    struct walk walk = {.weights = weights};
    while (walk_next(&walk)) {
        int64_t width = walk.param->embedding_width;
        for (int64_t i = 0; i < n * width; i++) {
            walk.tensor[parameter_embedded(walk.param, column[i / width], i % width)] =
                from[n * walk.param->embedding_at + i];
        }
    }
}

void weights_give_embeddings(const struct weights *weights, int64_t n, const uint32_t *column, float *to)
{
    struct walk walk = {.weights = weights};
    while (walk_next(&walk)) {
        int64_t width = walk.param->embedding_width;
        for (int64_t i = 0; i < n * width; i++) {
            to[n * walk.param->embedding_at + i] =
                walk.tensor[parameter_embedded(walk.param, column[i / width], i % width)];
        }
    }
}

/* One row per parameter, pointing to its whole tensor; the caller frees it. */
static struct safetensor *tensors(const struct weights *weights)
{
    const struct program *program = weights->program;
    struct safetensor *list = memory_alloc((size_t)program->n_param, sizeof *list);
    for (int i = 0; i < program->n_param; i++) {
        const struct parameter *param = &program->param[i];
        list[i] = (struct safetensor){
            .name = param->name, .n_dim = param->n_dim, .data = weights->arena + param->offset};
        memcpy(list[i].shape, param->shape, sizeof param->shape);
    }
    struct walk walk = {.weights = weights};
    while (walk_next(&walk)) {
        list[walk.param - program->param].data = walk.tensor;
    }
    return list;
}

enum status weights_save(const struct weights *weights, const struct dir *dir, const char *name)
{
    /* PyTorch's writers add this, and some readers require it. */
    const struct safetensors_note note = {.key = "format", .text = "pt"};
    struct safetensor *list = tensors(weights);
    enum status status = safetensors_save(dir, name, list, (size_t)weights->program->n_param, &note, 1);
    free(list);
    return status;
}

enum status weights_load(struct weights *weights, const char *path)
{
    memset(weights->arena, 0, (size_t)weights->program->n_weight * sizeof *weights->arena);
    struct safetensor *list = tensors(weights);
    enum status status = safetensors_load(path, list, (size_t)weights->program->n_param);
    free(list);
    if (status == STATUS_OK) {
        shared_copy(weights, true);
    }
    return status;
}
