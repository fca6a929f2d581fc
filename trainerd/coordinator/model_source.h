/* The trained model that a prediction is made with: the folder of a training's results, what its result.json says of
 * the job and the graph, and which file has the weights. A file of weights alone is a foreign model, which the job
 * that predicts describes. Knows no workers, and no graph but by its sizes.
 */
#ifndef TRAINERD_MODEL_SOURCE_H
#define TRAINERD_MODEL_SOURCE_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <limits.h>
#include <stdbool.h>

struct model_source {
    char folder[PATH_MAX];
    char weights[PATH_MAX]; /* the .safetensors file in it */
    bool foreign;           /* no result.json lies beside it: what follows is the predicting job's, or its graph's */
    struct job job;         /* that trained it */
    struct dataset_model model;
    char graph[33];                              /* model.graph */
    char class_names[DATASET_CLASS_NAMES_BYTES]; /* model.class_names */
    bool weighted;                               /* its graph's edges had weights */
};

/* Find the model of predict.model: a folder of results, for its best weights, or a file of weights, in such a folder
 * or of another program; `job` predicts.
 *
 *   owns    *out is plain; model.folder, model.graph and model.class_names point into it: it must not be moved
 *   errors  STATUS_NO_INPUT nothing is there, or no weights, or no result.json · STATUS_DATA a result.json that is
 *           none
 */
enum status model_source_open(const char *model, const struct job *job, struct model_source *out);

/* Take a foreign model's sizes from the graph to predict, and from its weights, which have n_class classes.
 * errors  STATUS_DATA the graph's classes have names, and are not as many */
enum status model_source_fit(struct model_source *source, const struct dataset *dataset, int64_t n_class);

/* Turn a job that predicts into the model's job with this one's data, parts, workers, memory and output: of its
 * exchange when rows travel, and of the data's keys all but those that say what is made of the files. What training
 * loses of rows, and how long it takes, is no prediction's. What changes rounding stays, so that the logits of the
 * model's own graph are those of its training, bit for bit. */
void model_source_apply(const struct model_source *source, struct job *job);

#endif
