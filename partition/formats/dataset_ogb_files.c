#include "partition/formats/dataset_ogb_files.h"

#include "partition/files/csv_gz.h"
#include "partition/files/npy.h"

#include <dirent.h>
#include <inttypes.h>

#define COUNT_MOST (INT64_C(1) << 47) /* so that sums over relations stay in range */

enum status dataset_ogb_count(const char *path, int64_t *out)
{
    struct npy table;
    enum status status = csv_gz_table(path, NPY_TYPE_I64, 1, &table);
    if (status != STATUS_OK) {
        return status;
    }
    status = npy_expect(&table, NPY_KIND_INTEGER, 1, 1, 0);
    *out = npy_int(&table, 0);
    npy_close(&table);
    if (status == STATUS_OK && (*out < 0 || *out > COUNT_MOST)) {
        status = status_fail(STATUS_DATA, "%s: line 1: %" PRId64 ", expected a count", path, *out);
    }
    return status;
}

enum status dataset_ogb_agree(const char *path, int line, int64_t n, const char *what, const char *table)
{
    int64_t n_line;
    enum status status = csv_gz_count(table, &n_line);
    return status != STATUS_OK || n_line == n
               ? status
               : status_fail(STATUS_DATA,
                             "%s: line %d: %" PRId64 " %s, and %s has %" PRId64 " lines, expected as many", path,
                             line, n, what, table, n_line);
}

enum status dataset_ogb_split_folder(const char *folder, const char *name, struct dataset_path *out)
{
    struct dataset_path splits = dataset_path_join(folder, "split");
    DIR *directory = opendir(splits.text);
    if (directory == NULL) {
        return status_fail(STATUS_NO_INPUT, "%s: cannot open, expected a folder of splits", splits.text);
    }
    int n_found = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        struct dataset_path path = dataset_path_join(splits.text, entry->d_name);
        if (entry->d_name[0] != '.' && dataset_path_exists(path.text, name)) {
            n_found++;
            *out = path;
        }
    }
    closedir(directory);
    if (n_found != 1) {
        return status_fail(n_found == 0 ? STATUS_NO_INPUT : STATUS_DATA,
                           "%s: has %d folders with %s, expected one (split_dict.pt: convert the data set with "
                           "python3 -m trainerd convert)",
                           splits.text, n_found, name);
    }
    return STATUS_OK;
}
