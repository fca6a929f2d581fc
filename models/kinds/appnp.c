/* APPNP: h = an MLP's output, then `steps` times z ← (1 − α) Â z + α h.
 * Klicpera, Bojchevski & Günnemann, ICLR 2019, eq. 4
 */
#include "models/kinds/model.h"

enum status appnp_model(struct model *model)
{
    struct program *program = model->program;
    const struct stack stack = {.n_linear = (int)model->job->model.layers};
    float alpha = (float)model->job->model.alpha;
    int h = stack_layers(model, &stack, stack_features(model, &stack)), z = h;
    for (int64_t step = 0; step < model->job->model.steps; step++) {
        z = program_add(program, 1.0f - alpha, program_aggregate(program, z, AGGREGATE_KIND_GCN), alpha, h);
    }
    return STATUS_OK;
}
