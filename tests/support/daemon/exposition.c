#include "tests/support/daemon/exposition.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_SERIES 4096
#define SERIES_BYTES 512

struct reader {
    char metric[128]; /* the metric of the current lines */
    bool has_help, has_type, is_counter;
    char *seen[N_SERIES]; /* names of metrics and whole series */
    int n_seen;
};

static char fault[SERIES_BYTES + 128];

static const char *fail(const char *what, const char *line)
{
    snprintf(fault, sizeof fault, "%s: %.*s", what,
             (int)strcspn(line, "\n") < SERIES_BYTES ? (int)strcspn(line, "\n") : SERIES_BYTES, line);
    return fault;
}

/* Record a text; false when it was recorded before. */
static bool is_new(struct reader *reader, const char *text, size_t n)
{
    for (int i = 0; i < reader->n_seen; i++) {
        if (strlen(reader->seen[i]) == n && memcmp(reader->seen[i], text, n) == 0) {
            return false;
        }
    }
    if (reader->n_seen < N_SERIES) {
        reader->seen[reader->n_seen++] = strndup(text, n);
    }
    return true;
}

static size_t name_length(const char *at, bool may_have_colon)
{
    size_t n = 0;
    while (isalpha((unsigned char)at[n]) || at[n] == '_' || (may_have_colon && at[n] == ':') ||
           (n > 0 && isdigit((unsigned char)at[n]))) {
        n++;
    }
    return n;
}

/* name="value",… up to the closing brace; NULL when something is wrong. */
static const char *labels_end(const char *at)
{
    while (*at != '}') {
        size_t n = name_length(at, false);
        if (n == 0 || strncmp(at + n, "=\"", 2) != 0) {
            return NULL;
        }
        for (at += n + 2; *at != '"'; at++) {
            if (*at == '\\' && strchr("\\\"n", at[1]) != NULL && at[1] != '\0') {
                at++;
            } else if (*at == '\\' || *at == '\n' || *at == '\0') {
                return NULL;
            }
        }
        at++;
        if (*at == ',') {
            at++;
        } else if (*at != '}') {
            return NULL;
        }
    }
    return at + 1;
}

static const char *read_comment(struct reader *reader, const char *line)
{
    bool is_help = strncmp(line, "# HELP ", 7) == 0;
    if (!is_help && strncmp(line, "# TYPE ", 7) != 0) {
        return fail("neither HELP nor TYPE", line);
    }
    size_t n = name_length(line + 7, true);
    if (n == 0 || n >= sizeof reader->metric || line[7 + n] != ' ') {
        return fail("no metric's name", line);
    }
    if (strlen(reader->metric) != n || memcmp(reader->metric, line + 7, n) != 0) {
        if (!is_new(reader, line + 6, n + 1)) { /* with the blank before it, which begins no series */
            return fail("lines of a metric that are not consecutive", line);
        }
        snprintf(reader->metric, sizeof reader->metric, "%.*s", (int)n, line + 7);
        reader->has_help = reader->has_type = false;
    }
    if (is_help ? reader->has_help : reader->has_type) {
        return fail("a second HELP or TYPE", line);
    }
    if (is_help) {
        reader->has_help = true;
        return line[7 + n + 1] == '\n' ? fail("no help", line) : NULL;
    }
    reader->has_type = true;
    reader->is_counter = strncmp(line + 7 + n, " counter\n", 9) == 0;
    bool is_total = n > 6 && strncmp(line + 7 + n - 6, "_total", 6) == 0;
    if (!reader->is_counter && strncmp(line + 7 + n, " gauge\n", 7) != 0) {
        return fail("neither a gauge nor a counter", line);
    }
    return is_total == reader->is_counter ? NULL : fail("counters, and they alone, end in _total", line);
}

static const char *read_value(struct reader *reader, const char *line)
{
    size_t n = name_length(line, true);
    if (n != strlen(reader->metric) || memcmp(line, reader->metric, n) != 0 || !reader->has_help ||
        !reader->has_type) {
        return fail("a value without HELP and TYPE before it", line);
    }
    const char *at = line[n] == '{' ? labels_end(line + n + 1) : line + n;
    if (at == NULL) {
        return fail("its labels are wrong", line);
    }
    if (!is_new(reader, line, (size_t)(at - line))) {
        return fail("a series that is there twice", line);
    }
    char *end;
    double value = strtod(at + 1, &end);
    if (*at != ' ' || end == at + 1 || *end != '\n') {
        return fail("no number", line);
    }
    return reader->is_counter && value < 0 ? fail("a counter below zero", line) : NULL;
}

const char *exposition_fault(const char *text)
{
    static struct reader reader;
    reader = (struct reader){0};
    const char *wrong = text[0] == '\0' || text[strlen(text) - 1] != '\n' ? fail("the last line does not end", text)
                                                                          : NULL;
    const char *line = text;
    while (wrong == NULL && *line != '\0') {
        wrong = line[0] == '#' ? read_comment(&reader, line) : read_value(&reader, line);
        line = strchr(line, '\n') + 1;
    }
    for (int i = 0; i < reader.n_seen; i++) {
        free(reader.seen[i]);
    }
    return wrong;
}

double exposition_value(const char *text, const char *series)
{
    size_t n = strlen(series);
    const char *line = text;
    while (line != NULL && *line != '\0') {
        if (strncmp(line, series, n) == 0 && line[n] == ' ') {
            return strtod(line + n, NULL);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return NAN;
}

const char *exposition_promtool(const char *text)
{
    static char words[4096];
    static const char *const paths[] = {"build/promtool/usr/bin/promtool", "/usr/bin/promtool"};
    const char *program = access(paths[0], X_OK) == 0 ? paths[0] : paths[1];
    if (access(program, X_OK) != 0) {
        return NULL;
    }
    char path[] = "/tmp/exposition-XXXXXX", command[256];
    int file = mkstemp(path);
    bool is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    snprintf(command, sizeof command, "%s check metrics < %s 2>&1", program, path);
    FILE *answer = is_written ? popen(command, "r") : NULL;
    size_t n = answer != NULL ? fread(words, 1, sizeof words - 1, answer) : 0;
    words[n] = '\0';
    if (answer == NULL || (pclose(answer) != 0 && n == 0)) {
        snprintf(words, sizeof words, "promtool could not be run");
    }
    close(file);
    unlink(path);
    return words;
}
