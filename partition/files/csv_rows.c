/* See csv_rows.h. */
#include "partition/files/csv_rows.h"

#include "partition/files/csv_gz.h"

enum status csv_rows_open(const struct dataset_path *path, int64_t n_row, struct csv_rows *out)
{
    struct csv_rows rows = {.path = *path, .n_row = n_row, .n_column = 1};
    char *line = NULL;
    enum status status = csv_gz_open(path->text, &rows.csv);
    if (status == STATUS_OK) {
        status = n_row == 0 ? csv_gz_end(rows.csv, path->text, 0) : csv_gz_line(rows.csv, &line);
    }
    for (; status == STATUS_OK && line != NULL && *line != '\0'; line++) {
        rows.n_column += *line == ',';
    }
    csv_rows_close(&rows);
    *out = rows;
    return status;
}

void csv_rows_close(struct csv_rows *rows)
{
    csv_gz_close(rows->csv);
    rows->csv = NULL;
}

enum status csv_rows_read(void *self, int64_t row, float *out)
{
    struct csv_rows *rows = self;
    enum status status = STATUS_OK;
    if (row == 0) {
        csv_rows_close(rows);
        status = csv_gz_open(rows->path.text, &rows->csv);
    }
    if (status == STATUS_OK) {
        status = csv_gz_reals(rows->csv, rows->n_column, out);
    }
    if (status == STATUS_OK && row == rows->n_row - 1) {
        status = csv_gz_end(rows->csv, rows->path.text, rows->n_row);
        csv_rows_close(rows);
    }
    return status;
}
