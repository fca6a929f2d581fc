/* What the coordinator's files share: a job on its way. coordinator.c up to the last epoch · coordinator_results.c the end. */
#ifndef TRAINERD_COORDINATOR_STATE_H
#define TRAINERD_COORDINATOR_STATE_H

#include "partition/dataset.h"
#include "partition/partition.h"
#include "trainerd/coordinator/coordinator.h"
#include "trainerd/coordinator/events.h"
#include "trainerd/coordinator/plan.h"
#include "trainerd/coordinator/results/embeddings.h"
#include "trainerd/coordinator/results/result.h"
#include "trainerd/coordinator/training.h"

#include <limits.h>
#include <stdbool.h>

struct coordinator {
    const struct coordinator_options *options;
    struct events *events; /* NULL: nobody follows */
    struct job job;
    char dir[PATH_MAX];
    struct checkpoint checkpoint; /* to go on from */
    struct dataset dataset;
    struct dataset facts; /* its sizes: they outlive its arrays */
    bool sparse_features;
    struct partition partition;
    struct partition_quality quality;
    struct prune prune;
    struct part_sizes *sizes;
    int32_t *rank_of_part;
    struct program program;
    struct embeddings embeddings;
    struct plan plan;
    struct output output;
    struct fleet *fleet;
    struct fleet_memory *memory;
    struct training training;
    struct progress progress;
    struct result result;
    double start_s, phase_start_s;
};

/* fleet_get and fleet_put: enum trainer_state. */
enum { COORDINATOR_TRAINED = 1, COORDINATOR_BEST = 4 };

/* What passed since the last phase ended belongs to this one. Returns it. */
double coordinator_phase_end(struct coordinator *c, enum result_phase phase);

/* Logits, weights, result.json. errors  those of the fleet and of files */
enum status coordinator_write_results(struct coordinator *c);

/* The last lines of a job that is done. */
void coordinator_say_end(struct coordinator *c);

#endif
