#include "protocol/job/schedule.h"

#include <math.h>

double schedule_lr(const struct job *job, uint32_t epoch)
{
    const struct job_train *train = &job->train;
    if ((int64_t)epoch < train->warmup) {
        return train->lr * ((double)epoch + 1.0) / ((double)train->warmup + 1.0);
    }
    int64_t e = (int64_t)epoch - train->warmup;
    switch ((enum job_lr_schedule)train->lr_schedule) {
    case JOB_LR_SCHEDULE_COSINE: {
        int64_t n = train->epochs - train->warmup;
        return e < n ? train->lr * 0.5 * (1.0 + cos(M_PI * (double)e / (double)n)) : 0.0;
    }
    case JOB_LR_SCHEDULE_STEP:
        return train->lr * pow(train->lr_gamma, (double)(e / train->lr_step));
    case JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU: /* the coordinator's factor */
    case JOB_LR_SCHEDULE_CONSTANT:
    case JOB_LR_SCHEDULE_N:
        break;
    }
    return train->lr;
}
