/* See cgroup.h. A container sees its own group as the mounted folder, under any path in /proc. So missing levels of
 * the path are skipped, and the mounted folder itself also counts. */
#include "protocol/base/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t cgroup_number(const char *path)
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

int64_t cgroup_number_read(const char *path, const char *word)
{
    char line[128];
    long long number = -1;
    size_t n = strlen(word);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL &&
           (strncmp(line, word, n) != 0 || sscanf(line + n, "%lld", &number) != 1)) {
    }
    fclose(file);
    return number >= 0 ? number : -1;
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
        int64_t limit = cgroup_number(path);
        found->limit = limit < found->limit ? limit : found->limit;
        if (found->kills < 0) {
            snprintf(path, sizeof path, "%s%.*s/memory.events", mount, (int)n, group);
            found->kills = cgroup_number_read(path, "oom_kill");
        }
        if (n == 0) {
            return;
        }
        do {
            n--;
        } while (n > 0 && group[n] != '/');
    }
}

bool cgroup_own(const char *root, char out[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX] = "";
    bool is_whole = true, found = false; /* lines longer than `line` are ignored as a whole */
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        bool was_whole = is_whole;
        size_t n = strcspn(line, "\n");
        is_whole = line[n] == '\n';
        line[n] = '\0';
        found = is_whole && was_whole && strncmp(line, "0::/", 4) == 0; /* other lines are of version 1 */
    }
    if (file != NULL) {
        fclose(file);
    }
    /* ".." is a group outside of those that a container sees. */
    bool is_seen = found && strstr(line, "/..") == NULL && strcmp(line, "0::/") != 0;
    snprintf(out, PATH_MAX, "%s", is_seen ? line + 3 : "");
    return found;
}

static struct found look(const char *root)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char group[PATH_MAX], mount[PATH_MAX];
    struct found found = {.limit = INT64_MAX, .kills = -1};
    bool has_group = cgroup_own(root, group);
    for (size_t i = 0; has_group && i < sizeof places / sizeof *places; i++) {
        snprintf(mount, sizeof mount, "%s%s", root, places[i]);
        look_upwards(mount, group, &found);
    }
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
    return kills >= 0 ? kills : cgroup_number_read(path, "oom_kill");
}
