/* See cgroup.h. A container sees its own group as the mounted folder, under any path in /proc. So missing levels of
 * the path are skipped, and the mounted folder itself also counts. */
#include "protocol/base/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number in a file; INT64_MAX where the file has no number ("max") or does not exist. */
static int64_t number_read(const char *path)
{
    char text[32] = "", *end = text;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return INT64_MAX;
    }
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    errno = 0;
    long long number = isdigit((unsigned char)text[0]) ? strtoll(text, &end, 10) : 0;
    bool all = end == text + n || (end[0] == '\n' && end + 1 == text + n);
    return all && errno == 0 && number > 0 ? number : INT64_MAX;
}

/* The number after oom_kill in a file of lines "name number"; -1 where there is no such line. */
static int64_t kills_read(const char *path)
{
    char line[128];
    long long n = -1;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "oom_kill %lld", &n) != 1) {
    }
    fclose(file);
    return n >= 0 ? n : -1;
}

struct found {
    int64_t limit; /* the least; INT64_MAX: no group has one */
    int64_t kills; /* of the first group upwards that counts them; -1: no group does */
};

/* Look into a group's folder and all above it, up to where groups are mounted. */
static void look_upwards(const char *mount, const char *group, struct found *found)
{
    size_t n = strlen(group);
    for (;;) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s%.*s/memory.max", mount, (int)n, group);
        int64_t limit = number_read(path);
        found->limit = limit < found->limit ? limit : found->limit;
        if (found->kills < 0) {
            snprintf(path, sizeof path, "%s%.*s/memory.events", mount, (int)n, group);
            found->kills = kills_read(path);
        }
        if (n == 0) {
            return;
        }
        do {
            n--;
        } while (n > 0 && group[n] != '/');
    }
}

/* The line "0::GROUP" of /proc/self/cgroup; other lines are of version 1. */
static void line_look(const char *root, const char *line, struct found *found)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    if (strncmp(line, "0::/", 4) != 0) {
        return;
    }
    /* ".." is a group outside of those that a container sees. */
    const char *group = strstr(line, "/..") != NULL ? "" : line + 3;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char mount[PATH_MAX];
        snprintf(mount, sizeof mount, "%s%s", root, places[i]);
        look_upwards(mount, group, found);
    }
}

static struct found look(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    struct found found = {.limit = INT64_MAX, .kills = -1};
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return found;
    }
    bool is_whole = true; /* lines longer than `line` are ignored as a whole */
    while (fgets(line, sizeof line, file) != NULL) {
        bool was_whole = is_whole;
        size_t n = strcspn(line, "\n");
        is_whole = line[n] == '\n';
        line[n] = '\0';
        if (is_whole && was_whole) {
            line_look(root, line, &found);
        }
    }
    fclose(file);
    return found;
}

int64_t cgroup_memory_limit(const char *root)
{
    return look(root).limit;
}

int64_t cgroup_oom_kills(const char *root)
{
    char path[PATH_MAX];
    int64_t kills = look(root).kills;
    snprintf(path, sizeof path, "%s/proc/vmstat", root);
    return kills >= 0 ? kills : kills_read(path);
}
