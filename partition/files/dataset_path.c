#include "partition/files/dataset_path.h"

#include "partition/files/npy.h"

#include <stdio.h>

struct dataset_path dataset_path_join(const char *folder, const char *name)
{
    struct dataset_path path;
    snprintf(path.text, sizeof path.text, "%s/%s", folder, name);
    return path;
}

bool dataset_path_exists(const char *folder, const char *name)
{
    struct dataset_path path = dataset_path_join(folder, name);
    return npy_exists(path.text);
}
