/* The splits of a folder of format npy. */
#ifndef PARTITION_DATASET_NPY_SPLITS_H
#define PARTITION_DATASET_NPY_SPLITS_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <stdbool.h>

/* Put the nodes into the split that dataset.split names: of train_idx.npy, valid_idx.npy and test_idx.npy ([n] or [n,
 * 1], or a row for each split, no more rows than columns, -1 filling up the shorter ones), or where one of these is
 * missing of its mask ([N], or a column for each split). An array of one split holds for all. errors  those of
 * dataset_split_add and dataset_split_finish; STATUS_CONFIG there is no such split */
enum status dataset_npy_splits_load(const struct job *job, const char *folder, struct dataset *out);

/* The number of splits of the folder's files; 1 without such files. errors  STATUS_DATA files with different
 * numbers */
enum status dataset_npy_splits_count(const char *folder, int64_t *out);

/* Is this file of the folder read for a split? */
bool dataset_npy_splits_read(const char *folder, const char *name);

#endif
