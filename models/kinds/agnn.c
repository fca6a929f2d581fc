/* AGNN: h = an MLP's last hidden layer, then `steps` times h_i ← Σ_j α_ij h_j, α_i the softmax of β cos(h_i, h_j)
 * over j → i and i itself, then the MLP's output layer. The first step's β stays 1.
 * Thekumparampil, Wang, Oh & Li, arXiv 1803.03735, eq. 5-6
 */
#include "models/kinds/model.h"

#include <inttypes.h>

/* A source's key is β / ‖h_j‖, one number beside its row; queries are h_i / ‖h_i‖ and are sent only in backward. */
static int propagate(struct model *model, int x)
{
    struct program *program = model->program;
    const struct job *job = model->job;
    for (int step = 0; step < (int)job->model.steps; step++) {
        int beta = named_param(program, 0, 1, 0.0, "convs.%d.beta", step);
        program->param[beta].fill = 1.0F;
        program->param[beta].trains = step > 0;
        int inverse = program_inverse_norm(program, x);
        int key = program_head_dot(program, inverse, beta), query = program_row_scale(program, x, inverse);
        struct op op = {.aggregate = AGGREGATE_KIND_COSINE,
                        .in = {x, key, query},
                        .param = {-1, -1},
                        .n_head = 1,
                        .dropout = job->model.attention_dropout};
        x = layer_output(model, "convs", step, program_attention(program, &op));
    }
    return x;
}

enum status agnn_model(struct model *model)
{
    const struct job_model *options = &model->job->model;
    int last = (int)options->layers - 1;
    if (last < 1) {
        return status_fail(STATUS_CONFIG,
                           "model.layers = %" PRId64
                           " does not go with model.kind = \"agnn\", which propagates between two "
                           "linear layers, expected at least 2",
                           options->layers);
    }
    const struct stack stack = {.n_linear = last + 1};
    int x = stack_features(model, &stack);
    for (int layer = 0; layer < last; layer++) {
        layer_begin(model, layer);
        int y = plain_layer(model, layer, x, options->hidden);
        x = layer_end(model, layer, x, y, layer < last - 1 ? options->dropout : 0.0);
    }
    x = model_dropout(model, propagate(model, x), options->dropout);
    layer_begin(model, last);
    plain_layer(model, last, x, model->input->n_class);
    return STATUS_OK;
}
