#include "tests/equivalence/world.h"

#include "protocol/base/memory.h"
#include "protocol/base/status.h"
#include "worker/plan/memory_plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void world_open(const char *text, struct world *w)
{
    cr_assert_eq(job_load_text(text, strlen(text), "test", NULL, 0, &w->job), STATUS_OK, "%s", status_reason());
    cr_assert_eq(dataset_load(&w->job, &w->dataset), STATUS_OK);
    cr_assert_eq(partition_build(&w->dataset, &w->job, &w->partition), STATUS_OK);
    const struct dataset *d = &w->dataset;
    struct program_input input = {.facts = d->facts};
    cr_assert_eq(program_build(&w->job, &input, &w->program), STATUS_OK);
    input.stores = memory_plan_stores(&w->job, &w->program, false, d->n_node, w->partition.n_part > 1,
                                      (uint32_t)w->job.workers.count); /* as in the cluster */
    program_release(&w->program);
    cr_assert_eq(program_build(&w->job, &input, &w->program), STATUS_OK);
    truth_open(&w->program, d, &w->truth);
    float *weights = memory_alloc((size_t)w->program.n_weight, sizeof *weights);
    program_init_weights(&w->program, (uint64_t)w->job.train.seed, weights);
    for (int64_t i = 0; i < w->program.n_weight; i++) {
        w->truth.weights[i] = weights[i];
    }
    free(weights);
    w->truth.features = d->features.f32;
    w->truth.labels = d->labels.classes;
    w->truth.split = d->labels.split;
    w->truth.seed = (uint64_t)w->job.train.seed;
    w->truth.training = true;
    w->truth.owner = w->partition.owner;
}

void world_close(struct world *w)
{
    truth_release(&w->truth);
    program_release(&w->program);
    partition_release(&w->partition);
    dataset_release(&w->dataset);
}
