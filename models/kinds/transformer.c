/* TransformerConv: y_i = W_s x_i + b_s + Σ_j α_ij (W_v x_j + b_v) per head, α_i the softmax of ⟨q_i, k_j⟩ / √d over j
 * → i; of edges with features f with W_e f_ij added to keys and values, which queries and sums take (head_widen).
 * Shi et al., IJCAI 2021, eq. 3-4, without gate
 */
#include "models/kinds/model.h"

#include <math.h>

static int mapped(const struct model *model, int layer, int x, int64_t f_out, const char *name)
{
    struct program *program = model->program;
    int64_t f_in = program->value[x].width;
    int weight = named_param(program, f_out, f_in, linear_bound(f_in), "convs.%d.%s.weight", layer, name);
    int bias = named_param(program, 0, f_out, linear_bound(f_in), "convs.%d.%s.bias", layer, name);
    return program_linear(program, x, weight, bias);
}

static int transformer_layer(const struct model *model, int layer, int x, int64_t f_out)
{
    struct program *program = model->program;
    int64_t n_head = attention_heads(model->job, layer);
    int key = mapped(model, layer, x, n_head * f_out, "lin_key");
    int query = mapped(model, layer, x, n_head * f_out, "lin_query");
    int value = mapped(model, layer, x, n_head * f_out, "lin_value");
    int edge = program->n_edge_feature > 0
                   ? edge_param(program, n_head * f_out, linear_bound(program->n_edge_feature), layer)
                   : -1;
    struct op op = {.aggregate = AGGREGATE_KIND_DOT,
                    .in = {value, key, edge >= 0 ? program_head_widen(program, query, edge, n_head) : query},
                    .param = {-1, -1},
                    .n_head = n_head,
                    .dropout = model->job->model.attention_dropout,
                    .a = (float)(1.0 / sqrt((double)f_out))};
    int y = program_attention(program, &op);
    y = heads_join(model, layer, edge >= 0 ? program_head_narrow(program, y, edge, n_head) : y, n_head);
    return program_add(program, 1.0F, y, 1.0F, mapped(model, layer, x, program->value[y].width, "lin_skip"));
}

enum status transformer_model(struct model *model)
{
    return model_stack(model, transformer_layer);
}
