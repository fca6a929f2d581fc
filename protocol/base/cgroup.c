/* See cgroup.h. A container sees its own group as the mounted folder itself, whatever /proc calls it; so levels of
 * its path that are not there are passed over, and the folder counts too. */
#include "protocol/base/cgroup.h"

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

/* The number after oom_kill in a file of lines "name number"; -1 where it has none. */
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

/* What is found in a group's folders. */
struct found {
    int64_t limit; /* the least; INT64_MAX: none */
    int64_t kills; /* of the first group upwards that counts them; -1: none does */
};

/* Look into a group's folder and all above it, up to where groups are mounted. */
static void look_upwards(const char *mount, const char *group, bool is_second, struct found *found)
{
    size_t n = strlen(group);
    for (;;) {
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)n, group,
                 is_second ? "memory.max" : "memory.limit_in_bytes");
        int64_t limit = number_read(path);
        found->limit = limit < found->limit ? limit : found->limit;
        if (found->kills < 0) {
            snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)n, group,
                     is_second ? "memory.events" : "memory.oom_control");
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
static void line_look(const char *root, char *line, struct found *found)
{
    static const struct {
        bool is_second;
        const char *mount;
    } places[] = {{true, "/sys/fs/cgroup"}, {true, "/sys/fs/cgroup/unified"}, {false, "/sys/fs/cgroup/memory"}};
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') {
        return;
    }
    *controllers++ = *group++ = '\0';
    bool is_second = strcmp(line, "0") == 0 && controllers[0] == '\0';
    /* ".." is a group outside of those that a container sees. */
    group = strstr(group, "/..") != NULL ? "" : group;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].is_second == is_second && (is_second || names(controllers, "memory"))) {
            char mount[PATH_MAX];
            snprintf(mount, sizeof mount, "%s%s", root, places[i].mount);
            look_upwards(mount, group, is_second, found);
        }
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
    bool is_whole = true; /* of a line longer than `line`, neither the beginning nor the rest counts */
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
