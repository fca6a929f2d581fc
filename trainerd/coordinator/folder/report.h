/* JSON objects that result.json and --plan --json share. Writes no files. */
#ifndef TRAINERD_REPORT_H
#define TRAINERD_REPORT_H

#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "protocol/base/memory.h"
#include "protocol/base/status.h"
#include "protocol/files/dir.h"
#include "protocol/job/job.h"
#include "trainerd/base/fields.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/score/score.h"

#include <jansson.h>
#include <stdint.h>

/* Loss and metrics of an evaluation; where the job has train.metrics, each of these also by its name. / One. */
void report_score(json_t *all, const struct job *job, const struct job_choices *metrics,
                  const struct checkpoint_score *score);
void report_named(json_t *all, const char *split, int metric, double value);

/* {"dataset": {"path": …}, …}: every key of the job by section. */
json_t *report_job(const struct job *job);

/* Sizes of the graph as it was trained. */
json_t *report_dataset(const struct dataset *dataset);

/* What a model has a column for each of: "classes", "labels", "outputs". */
const char *report_outputs(const struct dataset *dataset);

/* Origin and sizes of the splits: "split given with the data: 140 train, 500 valid, 1000 test, 1068 in no split". */
struct report_splits {
    char text[320];
};
struct report_splits report_splits(const struct dataset *dataset);

/* Parts, method, cut, halo and imbalance. */
json_t *report_partition(const struct job *job, const struct partition_quality *quality);

/* {"split": "test", "support": nodes of each class, "predicted": that were given it, "precision": …, "recall": …,
 * "matrix": a row for each class, a column for each that was given}; without the matrix of more classes than
 * REPORT_MATRIX_CLASSES, since what shows a result takes a MiB of it. null where there are no labelled nodes. */
#define REPORT_MATRIX_CLASSES 200
json_t *report_confusion(const struct score_confusion *confusion);

/* {"structure": …, …, "all": their sum} from MEMORY_N numbers; "context" where there is one. */
json_t *report_memory(const int64_t bytes[MEMORY_N]);

/* {"model.safetensors": {"bytes": …, "xxh3_64": 16 hexadecimal digits}, …}: the result files of a folder itself but
 * result.json, as they are on the disk.
 *
 *   owns    the caller has the reference *out
 *   errors  STATUS_IO and those of file_open: a file cannot be read
 */
enum status report_files(const struct dir *dir, json_t **out);

#endif
