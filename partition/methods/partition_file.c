/* A partition from a file: one part number per line, line i for node i. */
#include "partition/methods/partition_method.h"
#include "partition/part/part_format.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 64

/* Only digits, a value below n_part, and an end of line, \n or \r\n, which the last line may lack. A line longer than
 * its buffer has no end, and neither has one with a zero byte. */
static bool parse_part(const char *line, bool last, int32_t n_part, int32_t *out)
{
    int64_t value = 0;
    const char *c = line;
    for (; *c >= '0' && *c <= '9'; c++) {
        value = value * 10 + (*c - '0');
        if (value > INT32_MAX) {
            return false;
        }
    }
    bool ends = (*c == '\0' && last) || strcmp(c, "\n") == 0 || strcmp(c, "\r\n") == 0;
    *out = (int32_t)value;
    return c > line && ends && value < n_part;
}

static enum status read_lines(FILE *file, const char *path, int64_t n_node, int32_t n_part, int32_t *owner)
{
    char line[LINE_BYTES];
    int64_t n_line = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (n_line == n_node) {
            return status_fail(STATUS_DATA, "%s:%lld: expected the file to end, one line for each of the %lld nodes",
                               path, (long long)n_line + 1, (long long)n_node);
        }
        if (!parse_part(line, feof(file) != 0, n_part, &owner[n_line])) {
            line[strcspn(line, "\r\n")] = '\0';
            return status_fail(STATUS_DATA, "%s:%lld: '%s', expected a part number of 0 to %d and the line's end",
                               path, (long long)n_line + 1, line, n_part - 1);
        }
        n_line++;
    }
    if (ferror(file)) {
        return status_fail(STATUS_IO, "%s: %s", path, strerror(errno));
    }
    if (n_line != n_node) {
        return status_fail(STATUS_DATA,
                           "%s:%lld: the file ends after %lld lines, expected one for each of the %lld nodes", path,
                           (long long)n_line + 1, (long long)n_line, (long long)n_node);
    }
    return STATUS_OK;
}

static enum status check_used(const char *path, int64_t n_node, int32_t n_part, const int32_t *owner)
{
    bool *used = memory_alloc((size_t)n_part, sizeof *used);
    for (int64_t v = 0; v < n_node; v++) {
        used[owner[v]] = true;
    }
    enum status status = STATUS_OK;
    for (int32_t p = 0; p < n_part && status == STATUS_OK; p++) {
        if (!used[p]) {
            status = status_fail(STATUS_DATA,
                                 "%s: part %d has no node, expected at least one in each of the %d parts", path, p,
                                 n_part);
        }
    }
    free(used);
    return status;
}

static enum status read_file(const char *path, int64_t n_node, int32_t n_part, int32_t *owner)
{
    int descriptor;
    enum status status = file_open(path, &descriptor);
    if (status != STATUS_OK) {
        return status;
    }
    FILE *file = fdopen(descriptor, "r");
    if (file == NULL) {
        close(descriptor);
        return status_fail(STATUS_IO, "%s: cannot read: %s", path, strerror(errno));
    }
    status = read_lines(file, path, n_node, n_part, owner);
    fclose(file);
    return status;
}

enum status partition_file(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner)
{
    const char *path = job->partition.file;
    enum status status = read_file(path, dataset->n_node, n_part, owner);
    if (status != STATUS_OK) {
        return status;
    }
    return check_used(path, dataset->n_node, n_part, owner);
}

enum status partition_file_parts(const struct dataset *dataset, const struct job *job, int32_t *n_part_out)
{
    int32_t *owner, most = 0;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *owner, &owner);
    if (status != STATUS_OK) {
        return status;
    }
    status = read_file(job->partition.file, dataset->n_node, PART_N_PART_MOST, owner);
    for (int64_t v = 0; status == STATUS_OK && v < dataset->n_node; v++) {
        most = owner[v] > most ? owner[v] : most;
    }
    memory_release(MEMORY_OTHER, owner, (size_t)dataset->n_node, sizeof *owner);
    *n_part_out = most + 1;
    return status;
}
