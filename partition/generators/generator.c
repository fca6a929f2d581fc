/* The table of built-in graphs. */
#include "partition/generators/generator.h"

#include <stdio.h>

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
    return row->build(job, out);
}
