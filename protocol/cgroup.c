/* See cgroup.h. A container sees its own group as the mounted folder itself, whatever /proc calls it; so levels of its path that
 * are not there are passed over, and the folder counts too. */
#include "protocol/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number in a file; INT64_MAX where the file has none ("max") or does not exist. */
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

/* The least number in the files of that name in a group's folder and all above it, up to where groups are mounted. */
static int64_t least_upwards(const char *mount, const char *group, const char *name)
{
    int64_t least = INT64_MAX;
    size_t n = strlen(group);
    for (;;) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)n, group, name);
        int64_t limit = number_read(path);
        least = limit < least ? limit : least;
        if (n == 0) {
            return least;
        }
        do {
            n--;
        } while (n > 0 && group[n] != '/');
    }
}

/* Is `word` one of those that commas part? */
static bool names(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (size_t n_here; (n_here = strcspn(list, ",")) != n || strncmp(list, word, n) != 0; list += n_here + 1) {
        if (list[n_here] == '\0') {
            return false;
        }
    }
    return true;
}

/* A line "number:controllers:group" of /proc/self/cgroup; version 2 has number 0 and no controllers. */
static int64_t line_limit(const char *root, char *line)
{
    static const struct {
        bool is_second;
        const char *mount, *file;
    } places[] = {{true, "/sys/fs/cgroup", "memory.max"},
                  {true, "/sys/fs/cgroup/unified", "memory.max"},
                  {false, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    int64_t least = INT64_MAX;
    if (group == NULL || group[1] != '/') {
        return least;
    }
    *controllers++ = *group++ = '\0';
    bool is_second = strcmp(line, "0") == 0 && controllers[0] == '\0';
    /* ".." is a group outside of those that a container sees. */
    group = strstr(group, "/..") != NULL ? "" : group;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].is_second == is_second && (is_second || names(controllers, "memory"))) {
            char mount[PATH_MAX];
            snprintf(mount, sizeof mount, "%s%s", root, places[i].mount);
            int64_t limit = least_upwards(mount, group, places[i].file);
            least = limit < least ? limit : least;
        }
    }
    return least;
}

int64_t cgroup_memory_limit(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    int64_t least = INT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return INT64_MAX;
    }
    bool is_whole = true; /* of a line longer than `line`, neither the beginning nor the rest counts */
    while (fgets(line, sizeof line, file) != NULL) {
        bool was_whole = is_whole;
        size_t n = strcspn(line, "\n");
        is_whole = line[n] == '\n';
        line[n] = '\0';
        int64_t limit = is_whole && was_whole ? line_limit(root, line) : INT64_MAX;
        least = limit < least ? limit : least;
    }
    fclose(file);
    return least;
}
