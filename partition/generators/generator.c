/* The table of built-in graphs. */
#include "partition/generators/generator.h"

#include "protocol/base/memory.h"
#include "protocol/job/job_keys.h"

#include <stdio.h>
#include <stdlib.h>

static enum status (*const generators[JOB_GENERATOR_N])(const struct job *, struct dataset *) = {
    [JOB_GENERATOR_KARATE] = generator_karate,
    [JOB_GENERATOR_SBM] = generator_sbm,
    [JOB_GENERATOR_RMAT] = generator_rmat,
};

enum status generator_build(const struct job *job, struct dataset *out)
{
    int generator = job->dataset.generator;
    snprintf(out->name, sizeof out->name, "%s", job_choice_text("dataset", "generator", generator));
    if (!job_makes_features(job)) {
        return generators[generator](job, out);
    }
    struct job *own = memory_alloc(1, sizeof *own); /* labels may depend on the features, which are replaced later */
    *own = *job;
    own->dataset.features = job_keys[JOB_KEY_dataset_features].int_default;
    enum status status = generators[generator](own, out);
    free(own);
    return status;
}
