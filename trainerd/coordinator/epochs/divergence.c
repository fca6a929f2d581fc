#include "trainerd/coordinator/epochs/divergence.h"

#include <math.h>

#define CURE "lower train.lr or look at the features"

static enum status loss_fail(double loss, int64_t epoch)
{
    return status_fail(STATUS_TRAINING, "the loss is %s in epoch %lld: " CURE,
                       isnan(loss) ? "not a number" : "infinite", (long long)epoch);
}

static enum status parameter_fail(const struct parameter *param, bool of_gradient, int64_t epoch)
{
    char line[64] = "";
    if (param->line > 0) {
        snprintf(line, sizeof line, " (line %d of model.program)", param->line);
    }
    return status_fail(STATUS_TRAINING, "%s '%s'%s is not finite in epoch %lld: " CURE,
                       of_gradient ? "the gradient of" : "weight", param->name, line, (long long)epoch);
}

enum status divergence_find(const struct training *training, const struct fleet_report *report, int64_t epoch,
                            bool evaluate)
{
    const struct program *program = training->links.program;
    const uint32_t n_param = (uint32_t)program->n_param, found = report->not_finite;
    double after = evaluate ? report->score[DATASET_SPLIT_TRAIN][SCORE_SUM_LOSS] : 0.0;
    if (!isfinite(report->loss)) { /* no step was made */
        return loss_fail(report->loss, epoch);
    }
    if (found > 2 * n_param) {
        return status_fail(STATUS_PEER, "a worker reports weights %u, expected at most %u", found, 2 * n_param);
    }
    if (found > 0) {
        return parameter_fail(&program->param[(found - 1) % n_param], found > n_param, epoch);
    }
    return isfinite(after) ? STATUS_OK : loss_fail(after, epoch);
}

enum status divergence_weights(const struct program *program, const float *weights, int64_t epoch)
{
    for (int p = 0; p < program->n_param; p++) {
        const struct parameter *param = &program->param[p];
        for (int64_t i = param->offset; i < param->offset + param->n_shared; i++) {
            if (!isfinite(weights[i])) {
                return parameter_fail(param, false, epoch);
            }
        }
    }
    return STATUS_OK;
}
