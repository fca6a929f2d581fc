#include "tests/support/daemon/exposition.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *exposition_fault(const char *text)
{
    const char *words = exposition_promtool(text);
    return words == NULL || words[0] == '\0' ? NULL : words;
}
