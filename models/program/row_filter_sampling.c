/* exchange.sampling: boundary-node sampling. Each epoch draws every node with the same chance.
 *
 * source  Wan et al., MLSys 2022 (BNS-GCN): there the sender draws and sends its list, and pairs with p · rows < 1
 *         send nothing
 */
#include "models/program/row_filter.h"

static double share(const struct job *job)
{
    return job->exchange.sampling;
}

static bool keeps(const struct row_filter_epoch *epoch, uint32_t node)
{
    return random_u32(&epoch->key, node, 0) < epoch->threshold;
}

const struct row_filter row_filter_sampling = {.share = share, .keeps = keeps};
