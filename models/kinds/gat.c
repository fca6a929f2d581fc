/* GATConv: y_i = Σ_j α_ij W x_j + b per head, α_i the softmax of leaky(⟨a_s, W x_j⟩ + ⟨a_d, W x_i⟩) over j → i and i itself.
 * Veličković et al., ICLR 2018, eq. 1-6
 */
#include "models/kinds/layers.h"

#include <math.h>

#define SLOPE 0.2F

int gat_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    int64_t f_in = program->value[x].width, n_head = attention_heads(job, layer);
    double glorot = sqrt(6.0 / (double)(f_in + n_head * f_out));
    int weight = named_param(program, n_head * f_out, f_in, glorot, "convs.%d.lin.weight", layer);
    int source = head_param(program, n_head, f_out, "convs.%d.att_src", layer);
    int target = head_param(program, n_head, f_out, "convs.%d.att_dst", layer);
    int z = program_linear(program, x, weight, -1);
    struct op op = {.aggregate = AGGREGATE_KIND_GAT,
                    .in = {z, program_head_dot(program, z, source), program_head_dot(program, z, target)},
                    .param = {-1, -1},
                    .n_head = n_head,
                    .dropout = job->model.attention_dropout,
                    .a = SLOPE};
    return heads_end(program, job, layer, program_attention(program, &op), n_head);
}
