/* Files of a data folder that look as if they were meant and that nobody reads. */
#ifndef PARTITION_DATASET_UNREAD_H
#define PARTITION_DATASET_UNREAD_H

/* Format npy: a warning for each array of the folder that has none of the format's names, with the name that it may want. A folder that
 * cannot be listed draws none. */
void dataset_unread_npy(const char *folder);

#endif
