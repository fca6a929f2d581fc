/* Paths of a dataset's files. */
#ifndef PARTITION_DATASET_PATH_H
#define PARTITION_DATASET_PATH_H

#include <stdbool.h>

#define DATASET_PATH_BYTES 2048

struct dataset_path {
    char text[DATASET_PATH_BYTES];
};

/* "folder/name". A path that is too long is cut, and then not found. */
struct dataset_path dataset_path_join(const char *folder, const char *name);

bool dataset_path_exists(const char *folder, const char *name);

#endif
