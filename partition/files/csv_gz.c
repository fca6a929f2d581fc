/* gzip to lines to numbers. Inflation is done here, not by gzread, which reads a file cut in its first bytes as plain
 * text and skips everything after the last member.
 */
#include "partition/files/csv_gz.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define INPUT_BYTES 65536
#define TEXT_LEAST ((size_t)2 * INPUT_BYTES)
#define TEXT_MOST (CSV_GZ_LINE_MOST + INPUT_BYTES)

struct csv_gz {
    char name[NPY_NAME_BYTES];
    int file;
    z_stream stream;
    bool inside;       /* a member has begun and not ended */
    bool ended;        /* no more text will come */
    int64_t line;      /* lines returned so far */
    size_t begin, end; /* text not returned yet */
    size_t n_text;     /* room for text: grows with the longest line, to TEXT_MOST */
    char *text;        /* n_text + 1 */
    unsigned char input[INPUT_BYTES];
};

static enum status fail_at(const struct csv_gz *csv, const char *what)
{
    return status_fail(STATUS_DATA, "%s: line %" PRId64 ": %s", csv->name, csv->line + 1, what);
}

/* The data end or are damaged after the inflated text: the message names the next line. */
static enum status fail_behind(struct csv_gz *csv, const char *what)
{
    for (size_t i = csv->begin; i < csv->end; i++) {
        csv->line += csv->text[i] == '\n';
    }
    return fail_at(csv, what);
}

enum status csv_gz_open(const char *path, struct csv_gz **out)
{
    int file;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    struct csv_gz *csv = memory_alloc(1, sizeof *csv);
    snprintf(csv->name, sizeof csv->name, "%s", path);
    csv->file = file;
    csv->n_text = TEXT_LEAST;
    csv->text = memory_alloc(csv->n_text + 1, 1);
    if (inflateInit2(&csv->stream, 15 + 16) != Z_OK) {
        csv_gz_close(csv);
        return status_fail(STATUS_NOMEM, "%s: zlib cannot start", path);
    }
    *out = csv;
    return STATUS_OK;
}

void csv_gz_close(struct csv_gz *csv)
{
    if (csv == NULL) {
        return;
    }
    inflateEnd(&csv->stream);
    close(csv->file);
    free(csv->text);
    free(csv);
}

/* Make sure that there is input, or find the end of the file: an error inside a member. */
static enum status input_fill(struct csv_gz *csv)
{
    if (csv->stream.avail_in > 0) {
        return STATUS_OK;
    }
    ssize_t n;
    do {
        n = read(csv->file, csv->input, sizeof csv->input);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return status_fail(STATUS_IO, "%s: cannot read: %s", csv->name, strerror(errno));
    }
    csv->stream.next_in = csv->input;
    csv->stream.avail_in = (uInt)n;
    if (n == 0 && csv->inside) {
        return fail_behind(csv, "gzip data end too early, expected a whole file");
    }
    if (n == 0 && csv->stream.total_in == 0) {
        return fail_at(csv, "is empty, expected gzip data");
    }
    csv->ended = n == 0;
    return STATUS_OK;
}

/* Inflate after `end` until the buffer is full or the data end. */
static enum status text_fill(struct csv_gz *csv)
{
    memmove(csv->text, csv->text + csv->begin, csv->end - csv->begin);
    csv->end -= csv->begin;
    csv->begin = 0;
    csv->stream.next_out = (Bytef *)csv->text + csv->end;
    csv->stream.avail_out = (uInt)(csv->n_text - csv->end);
    while (csv->stream.avail_out > 0 && !csv->ended) {
        enum status status = input_fill(csv);
        if (status != STATUS_OK || csv->ended) {
            return status;
        }
        if (!csv->inside) {
            uLong total = csv->stream.total_in;
            inflateReset(&csv->stream);
            csv->stream.total_in = total;
            csv->inside = true;
        }
        int code = inflate(&csv->stream, Z_NO_FLUSH);
        csv->end = csv->n_text - csv->stream.avail_out;
        if (code == Z_STREAM_END) {
            csv->inside = false;
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            char what[128];
            snprintf(what, sizeof what, "gzip data are damaged (%s)",
                     csv->stream.msg != NULL ? csv->stream.msg : "not gzip");
            return fail_behind(csv, what);
        }
    }
    return STATUS_OK;
}

/* The end of the line at `begin`, or NULL. At least one byte after it is there, unless the data end or the line is
 * too long. */
static enum status newline_find(struct csv_gz *csv, char **out)
{
    enum status status = STATUS_OK;
    *out = memchr(csv->text + csv->begin, '\n', csv->end - csv->begin);
    while (status == STATUS_OK && !csv->ended && (*out == NULL || *out + 1 == csv->text + csv->end)) {
        if (csv->begin == 0 && csv->end == csv->n_text && csv->n_text == TEXT_MOST) {
            break;
        }
        if (csv->begin == 0 && csv->end == csv->n_text) {
            csv->n_text = 2 * csv->n_text < TEXT_MOST ? 2 * csv->n_text : TEXT_MOST;
            csv->text = memory_grow(csv->text, csv->n_text + 1);
        }
        status = text_fill(csv);
        *out = memchr(csv->text, '\n', csv->end);
    }
    return status;
}

enum status csv_gz_line(struct csv_gz *csv, char **line_out)
{
    char *newline;
    enum status status = newline_find(csv, &newline);
    if (status != STATUS_OK) {
        return status;
    }
    char *start = csv->text + csv->begin;
    size_t n = newline != NULL ? (size_t)(newline - start) : csv->end - csv->begin;
    if (n > CSV_GZ_LINE_MOST) {
        return fail_at(csv, "is longer than 1 MiB, expected a line of numbers");
    }
    csv->begin += n + (newline != NULL);
    n -= n > 0 && start[n - 1] == '\r';
    start[n] = '\0';
    *line_out = NULL;
    if (n == 0) {
        return csv->begin == csv->end ? STATUS_OK : fail_at(csv, "is blank, expected numbers");
    }
    if (strlen(start) != n) {
        return fail_at(csv, "holds a zero byte, expected numbers");
    }
    csv->line++;
    *line_out = start;
    return STATUS_OK;
}

enum status csv_gz_end(struct csv_gz *csv, const char *path, int64_t n_row)
{
    char *line;
    enum status status = csv_gz_line(csv, &line);
    if (status == STATUS_OK && line != NULL) {
        status = status_fail(STATUS_DATA, "%s: goes on after line %" PRId64 ", expected %" PRId64 " lines", path,
                             n_row, n_row);
    }
    return status;
}

/* The line that was just returned breaks a rule. */
static enum status fail_line(const struct csv_gz *csv, const char *expected, const char *line)
{
    return status_fail(STATUS_DATA, "%s: line %" PRId64 ": '%.40s', expected %s", csv->name, csv->line, line,
                       expected);
}

/* A required line. */
static enum status line_take(struct csv_gz *csv, char **line_out)
{
    enum status status = csv_gz_line(csv, line_out);
    if (status == STATUS_OK && *line_out == NULL) {
        status = status_fail(STATUS_DATA, "%s: ends after %" PRId64 " lines, expected more", csv->name, csv->line);
    }
    return status;
}

enum status csv_gz_integers(struct csv_gz *csv, int n_column, int64_t *out)
{
    char *line;
    enum status status = line_take(csv, &line);
    if (status != STATUS_OK) {
        return status;
    }
    char *at = line;
    for (int column = 0; column < n_column; column++) {
        char *end;
        errno = 0;
        bool digit = (*at >= '0' && *at <= '9') || (*at == '-' && at[1] >= '0' && at[1] <= '9');
        out[column] = strtoll(at, &end, 10);
        if (!digit || errno != 0 || *end != (column + 1 < n_column ? ',' : '\0')) {
            return fail_line(csv, n_column == 1 ? "one integer" : n_column == 2 ? "two integers" : "integers", line);
        }
        at = end + 1;
    }
    return STATUS_OK;
}

static int64_t columns_count(const char *line)
{
    int64_t n = 1;
    for (; *line != '\0'; line++) {
        n += *line == ',';
    }
    return n;
}

/* One line's numbers into a row of floats. */
static enum status reals_parse(const struct csv_gz *csv, char *line, int64_t n_column, float *out)
{
    char *at = line;
    for (int64_t column = 0; column < n_column; column++) {
        char *end = at;
        out[column] = *at == ',' || *at == '\0' ? NAN : strtof(at, &end);
        bool empty = end == at;
        if ((empty && !isnan(out[column])) || *end != (column + 1 < n_column ? ',' : '\0')) {
            char expected[64];
            snprintf(expected, sizeof expected, "%" PRId64 " numbers", n_column);
            return fail_line(csv, expected, line);
        }
        at = end + 1;
    }
    return STATUS_OK;
}

enum status csv_gz_reals(struct csv_gz *csv, int64_t n_column, float *out)
{
    char *line;
    enum status status = line_take(csv, &line);
    if (status != STATUS_OK) {
        return status;
    }
    return reals_parse(csv, line, n_column, out);
}

/* Lines, and columns of the first line. */
static enum status table_count(const char *path, int64_t *n_row_io, int64_t *n_column_out)
{
    struct csv_gz *csv;
    enum status status = csv_gz_open(path, &csv);
    if (status != STATUS_OK) {
        return status;
    }
    char *line;
    int64_t n_row = 0;
    do {
        status = csv_gz_line(csv, &line);
        if (status == STATUS_OK && line != NULL) {
            *n_column_out = n_row == 0 ? columns_count(line) : *n_column_out;
            n_row++;
        }
    } while (status == STATUS_OK && line != NULL && *n_row_io < 0);
    *n_row_io = *n_row_io < 0 ? n_row : *n_row_io;
    csv_gz_close(csv);
    return status;
}

enum status csv_gz_count(const char *path, int64_t *out)
{
    int64_t n_column;
    *out = -1;
    return table_count(path, out, &n_column);
}

static enum status table_fill(struct csv_gz *csv, struct npy *table)
{
    int64_t n_row = table->shape[0], n_column = table->shape[1];
    char *line = NULL;
    enum status status = STATUS_OK;
    for (int64_t row = 0; row < n_row && status == STATUS_OK; row++) {
        if (table->type == NPY_TYPE_I64) {
            status = csv_gz_integers(csv, (int)n_column, (int64_t *)table->map + row * n_column);
            continue;
        }
        status = csv_gz_line(csv, &line);
        if (status == STATUS_OK && line == NULL) {
            status = status_fail(STATUS_DATA, "%s: ends after %" PRId64 " lines, expected %" PRId64, csv->name, row,
                                 n_row);
        }
        if (status == STATUS_OK) {
            status = reals_parse(csv, line, n_column, (float *)table->map + row * n_column);
        }
    }
    return status == STATUS_OK ? csv_gz_end(csv, csv->name, n_row) : status;
}

enum status csv_gz_table(const char *path, enum npy_type type, int64_t n_row, struct npy *out)
{
    int64_t n_column = 1, n_value;
    enum status status = table_count(path, &n_row, &n_column);
    if (status != STATUS_OK) {
        return status;
    }
    if (__builtin_mul_overflow(n_row, n_column, &n_value) || n_column > INT32_MAX) {
        return status_fail(STATUS_DATA, "%s: %" PRId64 " columns are too many", path, n_column);
    }
    struct npy table;
    struct csv_gz *csv;
    status = npy_block(path, type, n_row, n_column > 1 ? n_column : 0, &table);
    if (status == STATUS_OK) {
        status = csv_gz_open(path, &csv);
    }
    if (status == STATUS_OK) {
        status = table_fill(csv, &table);
        csv_gz_close(csv);
    }
    if (status != STATUS_OK) {
        npy_close(&table);
        return status;
    }
    *out = table;
    return STATUS_OK;
}
