/* The rows of a .csv.gz table of numbers, one after another, as often as needed: for tables that are not held
 * whole. */
#ifndef PARTITION_CSV_ROWS_H
#define PARTITION_CSV_ROWS_H

#include "partition/files/dataset_path.h"
#include "protocol/base/status.h"

#include <stdint.h>

struct csv_gz;

struct csv_rows {
    struct dataset_path path;
    int64_t n_row, n_column; /* as many columns as the first line has; 1 in a table without lines */
    struct csv_gz *csv;      /* the table, between its first row and its last; NULL: closed */
};

/* Look at the first line of a table that must have n_row.
 *
 *   owns    the caller owns *out: csv_rows_close
 *   errors  as csv_gz_line; STATUS_DATA a line in a table of 0 rows
 */
enum status csv_rows_open(const struct dataset_path *path, int64_t n_row, struct csv_rows *out);
void csv_rows_close(struct csv_rows *rows);

/* Row `row` of the struct csv_rows at `rows`: 0 starts again, else the row after the last one. out n_column
 * errors  as csv_gz_reals; STATUS_DATA lines after the last row */
enum status csv_rows_read(void *rows, int64_t row, float *out);

#endif
