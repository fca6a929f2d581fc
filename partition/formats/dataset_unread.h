/* Files of a data folder that look as if they were meant and that nobody reads. */
#ifndef PARTITION_DATASET_UNREAD_H
#define PARTITION_DATASET_UNREAD_H

/* Format npy: a warning for each array of the folder that has none of the format's names, with the name that it may
 * want. A folder that cannot be listed draws none. */
void dataset_unread_npy(const char *folder);

/* Of a folder in no known format: "data.pt, edge_index.npy (here it is edges.npy)", entries that look like a graph of
 * another tool's; "" without any. */
#define DATASET_UNREAD_BYTES 400
void dataset_unread_like(const char *folder, char out[DATASET_UNREAD_BYTES]);

#endif
