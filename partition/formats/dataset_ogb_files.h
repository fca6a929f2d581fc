/* Files that both layouts of format ogb have: tables of one count, and the folder of the split. */
#ifndef PARTITION_DATASET_OGB_FILES_H
#define PARTITION_DATASET_OGB_FILES_H

#include "partition/files/dataset_path.h"
#include "protocol/base/status.h"

#include <stdint.h>

/* The only number of a file for one graph. errors  STATUS_DATA it is no count; those of csv_gz_table */
enum status dataset_ogb_count(const char *path, int64_t *out);

/* Refuse a count in a line of the file `path` that differs from the lines of a table, before memory is allocated for
 * so many `what` ("nodes").
 * errors  STATUS_DATA; those of csv_gz_count */
enum status dataset_ogb_agree(const char *path, int line, int64_t n, const char *what, const char *table);

/* The one folder below split/ that has the file `name`. */
enum status dataset_ogb_split_folder(const char *folder, const char *name, struct dataset_path *out);

#endif
