/* Shared by attention layers: the number of a layer's heads, their attention vectors, the joining of their
 * outputs. */
#include "models/kinds/model.h"

#include <stdio.h>

bool is_last_layer(const struct job *job, int layer)
{
    return layer == job->model.layers - 1 && job->model.jumping_knowledge == JOB_JUMPING_KNOWLEDGE_NONE;
}

int64_t attention_heads(const struct job *job, int layer)
{
    return is_last_layer(job, layer) ? job->model.out_heads : job->model.heads;
}

int head_param(struct program *program, int64_t n_head, int64_t n_column, const char *format, int layer)
{
    char name[PROGRAM_NAME_BYTES];
    snprintf(name, sizeof name, format, layer);
    const int64_t shape[] = {1, n_head, n_column};
    return program_tensor(program, name, 3, shape, glorot_bound(n_head, n_column));
}

int edge_param(struct program *program, int64_t f, double bound, int layer)
{
    return named_param(program, f, program->n_edge_feature, bound, "convs.%d.lin_edge.weight", layer);
}

int heads_join(const struct model *model, int layer, int y, int64_t n_head)
{
    return is_last_layer(model->job, layer) && n_head > 1 ? program_head_mean(model->program, y, n_head) : y;
}

int heads_end(const struct model *model, int layer, int y, int64_t n_head)
{
    struct program *program = model->program;
    y = heads_join(model, layer, y, n_head);
    return program_bias(program, y, named_param(program, 0, program->value[y].width, 0.0, "convs.%d.bias", layer));
}
