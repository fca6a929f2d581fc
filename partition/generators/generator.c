/* The table of built-in graphs. */
#include "partition/generators/generator.h"

#include "protocol/base/memory.h"
#include "protocol/job/job_keys.h"

#include <stdio.h>
#include <stdlib.h>

struct generator_row {
    const char *name;
    enum status (*build)(const struct job *job, struct dataset *out);
};

static const struct generator_row generators[JOB_GENERATOR_N] = {
    [JOB_GENERATOR_KARATE] = {"karate", generator_karate},
    [JOB_GENERATOR_SBM] = {"sbm", generator_sbm},
    [JOB_GENERATOR_RMAT] = {"rmat", generator_rmat},
};

enum status generator_build(const struct job *job, struct dataset *out)
{
    const struct generator_row *row = &generators[job->dataset.generator];
    snprintf(out->name, sizeof out->name, "%s", row->name);
    if (!job_makes_features(job)) {
        return row->build(job, out);
    }
    struct job *own = memory_alloc(1, sizeof *own); /* labels may depend on the features, which are replaced later */
    *own = *job;
    own->dataset.features = job_keys[JOB_KEY_dataset_features].int_default;
    enum status status = row->build(own, out);
    free(own);
    return status;
}
