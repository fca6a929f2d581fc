/* Format ogb, folders of several node types. */
#ifndef PARTITION_DATASET_OGB_TYPES_H
#define PARTITION_DATASET_OGB_TYPES_H

#include "protocol/base/status.h"
#include "protocol/job/job.h"

#include <stdbool.h>

struct dataset;

/* Does the folder have several node types? */
bool dataset_ogb_is_typed(const char *folder);

/* Load such a folder: nodes numbered type after type in the order of num-node-dict, relations in that of
 * triplet-type-list. Labels and splits are those of the one type that has labels.
 *
 *   errors  as the readers of dataset_build.h; STATUS_DATA tables with unknown types or nodes
 *   notes   tables of edges and features are streamed twice rather than held
 */
enum status dataset_ogb_typed_load(const struct job *job, const char *folder, struct dataset *out);

#endif
