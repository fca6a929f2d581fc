#include "protocol/base/status.h"

#include "protocol/base/printable.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct status_row {
    int exit_code;
    const char *name;
    const char *text, *cure;
};

/* By code: 0, -1, … */
static const struct status_row status_rows[] = {
#define X(name, code, exit_code, text, cure) [-(code)] = {exit_code, #name, text, cure},
    STATUS_LIST(X)
#undef X
};

enum { N_STATUS = sizeof status_rows / sizeof *status_rows };

#define LINE_BYTES 1024

static _Thread_local char reason[STATUS_REASON_BYTES];

static const struct status_row *row_find(enum status code)
{
    bool is_known = code <= STATUS_OK && code > -N_STATUS;
    return &status_rows[-(is_known ? code : STATUS_BUG)];
}

enum status status_fail(enum status code, const char *format, ...)
{
    /* The arguments may point into the old reason, so the new one is built aside. */
    char fresh[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fresh, sizeof fresh, format, arguments);
    va_end(arguments);
    printable_copy(fresh, reason, LINE_BYTES);
    return code;
}

enum status status_fail_lines(enum status code, const char *lines)
{
    char fresh[STATUS_REASON_BYTES], line[STATUS_REASON_BYTES];
    size_t at = 0;
    while (*lines != '\0' && at + 1 < sizeof fresh) {
        size_t n = strcspn(lines, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, lines);
        printable_copy(line, fresh + at, sizeof fresh - 1 - at);
        at += strlen(fresh + at);
        lines += n + (lines[n] == '\n');
        if (*lines != '\0') {
            fresh[at++] = '\n';
        }
    }
    fresh[at] = '\0';
    memcpy(reason, fresh, at + 1);
    return code;
}

const char *status_reason(void)
{
    return reason;
}

void status_print(const char *program)
{
    const char *line = reason;
    do {
        size_t n = strcspn(line, "\n");
        fprintf(stderr, "%s: %.*s\n", program, (int)n, line);
        line += n + (line[n] == '\n');
    } while (*line != '\0');
}

const char *status_name(enum status code)
{
    return row_find(code)->name;
}

const char *status_text(enum status code)
{
    return row_find(code)->text;
}

const char *status_cure(enum status code)
{
    return row_find(code)->cure;
}

int status_exit_code(enum status code)
{
    return row_find(code)->exit_code;
}

enum status status_from_exit_code(int exit_code)
{
    for (int i = 0; i < N_STATUS; i++) {
        if (status_rows[i].exit_code == exit_code) {
            return (enum status) - i;
        }
    }
    return STATUS_BUG;
}
