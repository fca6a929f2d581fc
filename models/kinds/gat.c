/* GATConv: y_i = Σ_j α_ij W x_j + b per head, α_i the softmax of leaky(⟨a_s, W x_j⟩ + ⟨a_d, W x_i⟩) over j → i and i
 * itself; of edges with features f with ⟨a_e, W_e f_ij⟩ in it.
 * Veličković et al., ICLR 2018, eq. 1-6
 */
#include "models/kinds/model.h"

#define SLOPE 0.2F

static int gat_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width, n_head = attention_heads(model->job, layer);
    int weight = named_param(program, n_head * f_out, f_in, glorot_bound(n_head * f_out, f_in), "convs.%d.lin.weight",
                             layer);
    int source = head_param(program, n_head, f_out, "convs.%d.att_src", layer);
    int target = head_param(program, n_head, f_out, "convs.%d.att_dst", layer);
    struct op op = {.aggregate = AGGREGATE_KIND_GAT,
                    .param = {-1, -1},
                    .n_head = n_head,
                    .dropout = model->job->model.attention_dropout,
                    .a = SLOPE};
    if (program->n_edge_feature > 0) {
        op.aggregate = AGGREGATE_KIND_GAT_EDGES;
        op.param[0] = edge_param(program, n_head * f_out, glorot_bound(n_head * f_out, program->n_edge_feature),
                                 layer);
        op.param[1] = head_param(program, n_head, f_out, "convs.%d.att_edge", layer);
    }
    int z = program_linear(program, x, weight, -1);
    int key = program_head_dot(program, z, source), query = program_head_dot(program, z, target);
    op.in[0] = z;
    op.in[1] = key;
    op.in[2] = query;
    return heads_end(model, layer, program_attention(program, &op), n_head);
}

enum status gat_model(struct model *model)
{
    return model_stack(model, gat_layer);
}
