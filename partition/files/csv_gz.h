/* Lines and tables of numbers from .csv.gz files, streamed: no header line, ',' between columns, LF or CRLF.
 *
 * Several gzip members in a row are one file, as in gzip; anything else after a member is refused. Independent of
 * graphs.
 */
#ifndef PARTITION_CSV_GZ_H
#define PARTITION_CSV_GZ_H

#include "partition/files/npy.h"
#include "protocol/base/status.h"

#include <stdint.h>

#define CSV_GZ_LINE_MOST ((size_t)1 << 20)

struct csv_gz;

/* errors  STATUS_NO_INPUT no such file · STATUS_IO */
enum status csv_gz_open(const char *path, struct csv_gz **out);
void csv_gz_close(struct csv_gz *csv);

/* The next line without its end, NUL-terminated, valid until the next call; NULL in *line_out after the last one. A
 * blank last line is no line.
 *
 *   errors  STATUS_DATA with file and line: not gzip, damaged, cut short, a line above CSV_GZ_LINE_MOST, a blank line
 */
enum status csv_gz_line(struct csv_gz *csv, char **line_out);

/* There is no line behind the n_row of the table `path`. errors  as csv_gz_line; STATUS_DATA there is one */
enum status csv_gz_end(struct csv_gz *csv, const char *path, int64_t n_row);

/* The next line as exactly n_column integers.
 *
 *   errors  as csv_gz_line; STATUS_DATA also at the end of the file and for anything but n_column integers
 */
enum status csv_gz_integers(struct csv_gz *csv, int n_column, int64_t *out);

/* The next line as exactly n_column numbers; an empty field is NaN. errors  as csv_gz_integers */
enum status csv_gz_reals(struct csv_gz *csv, int64_t n_column, float *out);

/* The number of lines of a file, without checking them. errors  as csv_gz_line */
enum status csv_gz_count(const char *path, int64_t *out);

/* A whole file as an array [lines, columns] of NPY_TYPE_F32 or NPY_TYPE_I64 (one column: [lines]). An empty field is
 * NaN.
 *
 *   n_row   lines expected; below 0 any, counted in a first pass
 *   owns    the caller owns *out: npy_close
 *   errors  as csv_gz_line; STATUS_DATA a line with another number of columns than the first, another number of
 *           lines; STATUS_NOMEM
 */
enum status csv_gz_table(const char *path, enum npy_type type, int64_t n_row, struct npy *out);

#endif
