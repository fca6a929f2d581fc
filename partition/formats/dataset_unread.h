/* Files of a data folder that look like data and are not read. */
#ifndef PARTITION_DATASET_UNREAD_H
#define PARTITION_DATASET_UNREAD_H

#include "protocol/job/job.h"

/* Format npy: a warning for each array of the folder with an unknown name, with the name that may be meant. A folder
 * that cannot be listed draws no warning. Where another job of links reads the array, the warning names the key. */
void dataset_unread_npy(const char *folder, const struct job *job);

/* For a folder in no known format: "data.pt, edge_index.npy (here it is edges.npy)", entries that look like a graph
 * of another tool; "" without any. */
#define DATASET_UNREAD_BYTES 400
void dataset_unread_like(const char *folder, char out[DATASET_UNREAD_BYTES]);

#endif
