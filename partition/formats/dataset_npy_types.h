/* Format npy: features by node type (feat_t<k>.npy or feat_t<k>_{indptr,indices,data}.npy beside node_type.npy). */
#ifndef PARTITION_DATASET_NPY_TYPES_H
#define PARTITION_DATASET_NPY_TYPES_H

#include "partition/formats/dataset_meta.h"
#include "protocol/job/job.h"

#include <stdbool.h>

struct dataset;

/* Is there a file that only a graph with types has? */
bool dataset_npy_is_typed(const char *folder);

/* Build the features from the folder's types; without node_type.npy all nodes are of one type.
 *
 *   errors  STATUS_NO_INPUT a file of a set that is not there; STATUS_DATA as node_types.h, features of a type
 *           without nodes
 */
enum status dataset_npy_types_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                                   struct dataset *out);

/* Types that are not read, since all nodes have features, must still be valid types of these nodes.
 * errors  STATUS_DATA as node_types.h */
enum status dataset_npy_types_check(const char *folder, int64_t n_node);

#endif
