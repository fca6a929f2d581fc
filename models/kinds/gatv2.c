/* GATv2Conv: y_i = Σ_j α_ij W_l x_j + b per head, α_i the softmax of ⟨a, leaky(W_l x_j + W_r x_i)⟩ over j → i and i
 * itself; of edges with features f with W_e f_ij in the sum.
 * Brody, Alon & Yahav, ICLR 2022, eq. 7
 */
#include "models/kinds/model.h"

#define SLOPE 0.2F

static int gatv2_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width, n_head = attention_heads(model->job, layer), f = n_head * f_out;
    double glorot = glorot_bound(f, f_in), bound = linear_bound(f_in);
    int weight_l = named_param(program, f, f_in, glorot, "convs.%d.lin_l.weight", layer);
    int bias_l = named_param(program, 0, f, bound, "convs.%d.lin_l.bias", layer);
    int weight_r = named_param(program, f, f_in, glorot, "convs.%d.lin_r.weight", layer);
    int bias_r = named_param(program, 0, f, bound, "convs.%d.lin_r.bias", layer);
    int att = head_param(program, n_head, f_out, "convs.%d.att", layer);
    bool edges = program->n_edge_feature > 0;
    int weight_e = edges ? edge_param(program, f, glorot_bound(f, program->n_edge_feature), layer) : -1;
    int source = program_linear(program, x, weight_l, bias_l), target = program_linear(program, x, weight_r, bias_r);
    struct op op = {.aggregate = AGGREGATE_KIND_GATV2,
                    .in = {source, -1, target},
                    .param = {att, weight_e},
                    .n_head = n_head,
                    .dropout = model->job->model.attention_dropout,
                    .a = SLOPE};
    return heads_end(model, layer, program_attention(program, &op), n_head);
}

enum status gatv2_model(struct model *model)
{
    return model_stack(model, gatv2_layer);
}
