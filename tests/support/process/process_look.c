#include "tests/support/process/process_look.h"

#include <stdio.h>
#include <string.h>

bool process_look(pid_t pid, pid_t *parent_out, char name_out[64])
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    size_t n = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')'), state;
    int parent;
    if (open == NULL || close == NULL || sscanf(close + 1, " %c %d", &state, &parent) != 2 || state == 'Z' ||
        state == 'X') {
        return false;
    }
    *parent_out = parent;
    snprintf(name_out, 64, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}
