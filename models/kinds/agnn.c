/* AGNN: h = an MLP's last hidden layer, then `steps` times h_i ← Σ_j α_ij h_j, α_i the softmax of β cos(h_i, h_j) over
 * j → i and i itself, then the MLP's output layer. The first step's β stays 1.
 * Thekumparampil, Wang, Oh & Li, arXiv 1803.03735, eq. 5-6
 */
#include "models/kinds/layers.h"

#include <inttypes.h>

enum status agnn_check(const struct job *job, const struct program_input *input)
{
    (void)input;
    if (job->model.layers < 2) {
        return status_fail(STATUS_CONFIG,
                           "model.layers = %" PRId64 " does not go with model.kind = \"agnn\", which propagates between two "
                           "linear layers, expected at least 2",
                           job->model.layers);
    }
    return STATUS_OK;
}

int agnn_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    (void)job;
    return plain_layer(program, layer, x, f_out);
}

/* A source's key is β / ‖h_j‖, one number beside its row; queries are h_i / ‖h_i‖ and travel in backward alone. */
int agnn_propagate(struct program *program, const struct job *job, int x)
{
    for (int step = 0; step < (int)job->model.steps; step++) {
        int beta = named_param(program, 0, 1, 0.0, "convs.%d.beta", step);
        program->param[beta].fill = 1.0F;
        program->param[beta].trains = step > 0;
        int inverse = program_inverse_norm(program, x);
        struct op op = {.aggregate = AGGREGATE_KIND_COSINE,
                        .in = {x, program_head_dot(program, inverse, beta), program_row_scale(program, x, inverse)},
                        .param = {-1, -1},
                        .n_head = 1,
                        .dropout = job->model.attention_dropout};
        x = program_attention(program, &op);
    }
    return x;
}
