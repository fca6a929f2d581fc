#include "trainerd/coordinator/records/weights.h"

#include "protocol/base/memory.h"
#include "protocol/files/safetensors.h"
#include "trainerd/coordinator/records/weight_names.h"

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

void weights_copy_embeddings(const struct weights *weights, int64_t n, const uint32_t *column, float *rows,
                             bool to_rows)
{
    struct walk walk = {.weights = weights};
    while (walk_next(&walk)) {
        int64_t width = walk.param->embedding_width;
        for (int64_t i = 0; i < n * width; i++) {
            float *whole = &walk.tensor[parameter_embedded(walk.param, column[i / width], i % width)];
            float *row = &rows[n * walk.param->embedding_at + i];
            *(to_rows ? row : whole) = *(to_rows ? whole : row);
        }
    }
}

/* One row per parameter; the caller frees it. */
static struct safetensor *tensors(const struct program *program)
{
    struct safetensor *list = memory_alloc((size_t)program->n_param, sizeof *list);
    for (int i = 0; i < program->n_param; i++) {
        const struct parameter *param = &program->param[i];
        list[i] = (struct safetensor){.name = param->name, .n_dim = param->n_dim};
        memcpy(list[i].shape, param->shape, sizeof param->shape);
    }
    return list;
}

/* Likewise, pointing to their whole tensors. */
static struct safetensor *whole_tensors(const struct weights *weights)
{
    const struct program *program = weights->program;
    struct safetensor *list = tensors(program);
    for (int i = 0; i < program->n_param; i++) {
        list[i].data = weights->arena + program->param[i].offset;
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
    struct safetensor *list = whole_tensors(weights);
    enum status status = safetensors_save(dir, name, list, (size_t)weights->program->n_param, &note, 1);
    free(list);
    return status;
}

/* Give each row its name in the file. *out owns the names. */
static enum status stored_names(const struct program *program, const struct job_names *names, struct safetensor *list,
                                struct weight_name **out)
{
    enum status status = weight_names_find(program, names, out);
    for (int i = 0; i < program->n_param && status == STATUS_OK; i++) {
        list[i].stored = (*out)[i].text;
        list[i].transposed = (*out)[i].transposed;
    }
    return status;
}

static enum status load(const struct program *program, const char *path, const struct job_names *names,
                        struct safetensor *list)
{
    struct weight_name *stored;
    enum status status = stored_names(program, names, list, &stored);
    if (status == STATUS_OK) {
        status = safetensors_load(path, list, (size_t)program->n_param);
    }
    free(stored);
    return status;
}

enum status weights_load(struct weights *weights, const char *path, const struct job_names *names)
{
    memset(weights->arena, 0, (size_t)weights->program->n_weight * sizeof *weights->arena);
    struct safetensor *list = whole_tensors(weights);
    enum status status = load(weights->program, path, names, list);
    free(list);
    if (status == STATUS_OK) {
        shared_copy(weights, true);
    }
    return status;
}

enum status weights_check(const struct program *program, const char *path, const struct job_names *names)
{
    struct safetensor *list = tensors(program);
    enum status status = load(program, path, names, list);
    free(list);
    return status;
}

/* The classes by one tensor in the file; 0: it does not tell. */
static int64_t classes_by(const struct parameter *param, int64_t program_class, const struct parameter *other,
                          int64_t other_class, const struct safetensor *found)
{
    for (int d = 0; d < param->n_dim && found->n_dim == param->n_dim; d++) {
        int64_t size = param->shape[d], there = found->shape[found->transposed ? 1 - d : d];
        bool tells = size != other->shape[d] && size % program_class == 0 &&
                     size / program_class * other_class == other->shape[d];
        if (tells && there > 0 && there % (size / program_class) == 0) {
            return there / (size / program_class);
        }
    }
    return 0;
}

enum status weights_classes(const struct program *program, int64_t program_class, const struct program *other,
                            int64_t other_class, const char *path, const struct job_names *names, int64_t *out)
{
    struct weight_name *stored;
    struct safetensor *list = tensors(program);
    enum status status = stored_names(program, names, list, &stored);
    if (status == STATUS_OK) {
        status = safetensors_shapes(path, list, (size_t)program->n_param);
    }
    *out = 0;
    for (int i = 0; i < program->n_param && status == STATUS_OK && *out == 0; i++) {
        *out = classes_by(&program->param[i], program_class, &other->param[i], other_class, &list[i]);
    }
    free(stored);
    free(list);
    return status;
}
