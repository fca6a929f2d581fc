/* APPNP: h = an MLP's output, then `steps` times z ← (1 − α) Â z + α h.
 * Klicpera, Bojchevski & Günnemann, ICLR 2019, eq. 4
 */
#include "models/kinds/layers.h"

int appnp_layer(struct program *program, const struct job *job, int layer, int x, int64_t f_out)
{
    (void)job;
    return plain_layer(program, layer, x, f_out);
}

int appnp_finish(struct program *program, const struct job *job, int x)
{
    float alpha = (float)job->model.alpha;
    int z = x;
    for (int64_t step = 0; step < job->model.steps; step++) {
        z = program_add(program, 1.0f - alpha, program_aggregate(program, z, AGGREGATE_KIND_GCN), alpha, x);
    }
    return z;
}
