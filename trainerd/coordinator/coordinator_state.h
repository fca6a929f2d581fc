/* A job under way, shared by coordinator_job.c (before its graph), coordinator_prepare.c (before any worker),
 * coordinator.c (up to the last epoch), coordinator_exact.c (other exchanges) and coordinator_results.c (the end). */
#ifndef TRAINERD_COORDINATOR_STATE_H
#define TRAINERD_COORDINATOR_STATE_H

#include "partition/graph/dataset.h"
#include "partition/links/links_asked.h"
#include "partition/part/partition.h"
#include "trainerd/coordinator/coordinator.h"
#include "trainerd/coordinator/epochs/training.h"
#include "trainerd/coordinator/folder/events.h"
#include "trainerd/coordinator/folder/run_folder.h"
#include "trainerd/coordinator/folder/splits.h"
#include "trainerd/coordinator/model_source.h"
#include "trainerd/coordinator/plan/plan.h"
#include "trainerd/coordinator/plan/roofline.h"
#include "trainerd/coordinator/records/embeddings.h"
#include "trainerd/coordinator/records/tensorboard.h"
#include "trainerd/coordinator/result.h"

#include <stdbool.h>

/* What is known of the partition's parts. */
struct coordinator_parts {
    struct partition_quality quality;
    int64_t n_bytes; /* the most that this process, or METIS with it, had until the graph was cut */
    struct prune prune;
    struct part_sizes *sizes; /* by part, as the next two */
    int32_t *rank_of_part;
    int64_t *n_buffer;       /* floats of its stale buffers and residuals; NULL: there are no such */
    struct part_dedup dedup; /* zeroed: parts of a worker share no rows */
    double cover_share;      /* rows that travel with covers, as a share of those that travel without */
};

struct coordinator_workers {
    struct fleet *fleet;
    struct fleet_memory *memory; /* one entry per worker, as of the next two */
    struct library_versions *libraries;
    uint32_t *machine_of_rank;
    const char *cipher; /* that seals messages; "none" */
};

struct coordinator {
    const struct coordinator_options *options;
    struct events *events; /* NULL: no supervisor */
    struct job job;
    struct { /* of a job that predicts */
        struct model_source source;
        struct links_asked asked; /* a model of links */
    };
    struct run_folder run;
    struct checkpoint checkpoint; /* to resume from */
    struct dataset dataset;
    struct dataset sizes; /* the dataset's sizes and the classes' names; they outlive its arrays */
    char class_names[DATASET_CLASS_NAMES_BYTES]; /* sizes.labels.class_names, where it is not NULL */
    uint64_t content[CHECKPOINT_N_CONTENT];      /* of a training */
    struct splits drawn;                         /* beside the results; empty where the splits are given */
    bool sparse_features;
    struct partition partition;
    struct coordinator_parts parts;
    struct program program;
    struct embeddings embeddings;
    struct {
        struct plan plan;
        struct roofline roofline; /* of --plan --roofline */
    };
    struct {
        struct output output;
        struct tensorboard tensorboard; /* that writes to it, too */
    };
    struct coordinator_workers workers;
    struct training training;
    struct progress progress;
    struct result result;
    double start_s, phase_start_s;
};

/* Steps, one after another, until one fails; NULL ends the list. */
typedef enum status coordinator_step(struct coordinator *c);
enum status coordinator_steps(struct coordinator *c, coordinator_step *const *step);

/* The job's file and its run's folder; is the folder whole already (run.is_done)? / The checkpoint to resume from,
 * the device, the limit of memory and the machine's room. In coordinator_job.c. */
enum status coordinator_open_job(struct coordinator *c);
enum status coordinator_settle(struct coordinator *c);

/* Everything that needs no workers, up to the plan. Ends early where the run's folder has whole results. */
enum status coordinator_prepare(struct coordinator *c);

/* The dataset of the job. / Of a job without epochs whose dataset is loaded: parts and plan; and workers, which
 * evaluate it, with the scores in the result. Then the dataset is released.
 * errors  those of a training; STATUS_NOMEM the plan exceeds the limit */
enum status coordinator_load(struct coordinator *c);
enum status coordinator_plan(struct coordinator *c);
enum status coordinator_evaluate(struct coordinator *c);

/* End the workers, and free all that the coordinator has and itself. `status`: how the job ended. */
void coordinator_close(struct coordinator *c, enum status status);

/* Does the job ask for propagations ([post])? / Can they be made of the dataset? / Make them, by workers of their own
 * after the job's, which have evaluated the best weights. / Print their metrics. In coordinator_post.c.
 * errors  STATUS_CONFIG several labels per node · STATUS_DATA no labels of training nodes, probabilities that do not
 *         fit · those of coordinator_evaluate, and of files */
bool coordinator_has_post(const struct coordinator *c);
enum status coordinator_check_post(struct coordinator *c);
enum status coordinator_post(struct coordinator *c);
void coordinator_print_post(struct coordinator *c);

/* The job's program, from the dataset. */
enum status coordinator_program(struct coordinator *c);

/* What each pass of the compiler makes of a vertex program, as text; *out is the caller's, after a failure, too.
 * errors  STATUS_CONFIG model.kind is another */
enum status coordinator_passes(const struct coordinator *c, char **out);

/* What its epochs leave out, the parts' sizes, covers and deduplicated rows, and the parts' workers. */
enum status coordinator_count(struct coordinator *c);

struct plan_input coordinator_plan_input(const struct coordinator *c);

/* What the job would receive with every exact exchange. In coordinator_exact.c. errors  STATUS_NOMEM */
enum status coordinator_exact(const struct coordinator *c, struct plan_exact out[PLAN_N_EXACT]);
/* The fewest workers within memory.limit, found by bisection. In coordinator_exact.c. errors  STATUS_NOMEM */
enum status coordinator_fewest(const struct coordinator *c, struct plan_fewest *out);

/* Add the time since the end of the last phase to this phase. Returns it. */
double coordinator_phase_end(struct coordinator *c, enum result_phase phase);

/* A job that predicts must not replace a training's results. errors  STATUS_CONFIG output.dir has such results */
enum status coordinator_spare_model(struct coordinator *c);

/* Predictions, logits and embeddings. In coordinator_predict.c. errors  those of the fleet and of files */
enum status coordinator_write_predictions(struct coordinator *c);

/* What a prediction of links is asked, from the nodes' rows, n_node × n_class: scores of pairs, partners of nodes. In
 * coordinator_links.c. errors  STATUS_NOMEM, those of files */
enum status coordinator_write_asked(struct coordinator *c, float *rows);

/* The rows of the last evaluation as the file `name` of the output folder. finish: gets them, n_node × width, before
 * the file is complete, and may change them; NULL: nothing does */
enum status coordinator_write_rows(struct coordinator *c, const char *name, enum worker_state what, int64_t width,
                                   enum status (*finish)(struct coordinator *c, float *rows));

/* The logits of the last evaluation, and what the result has of them; where asked for, their probabilities. */
enum status coordinator_write_logits(struct coordinator *c);

/* Does the result have which classes are taken for which? */
bool coordinator_counts_classes(const struct coordinator *c);

/* Logits, weights, result.json. errors  those of the fleet and of files */
enum status coordinator_write_results(struct coordinator *c);

/* Print the last lines of a finished job. */
void coordinator_print_end(struct coordinator *c);

#endif
