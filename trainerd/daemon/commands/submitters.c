#include "trainerd/daemon/commands/submitters.h"

#include "protocol/base/log.h"
#include "trainerd/base/rights.h"

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\n"
#define NAME_BYTES 256

/* The next name of a list, which moves on; false: the end of the list. A name that is too long is "". */
static bool next_name(const char **list, char out[NAME_BYTES])
{
    const char *at = *list + strspn(*list, BLANKS);
    size_t n = strcspn(at, BLANKS);
    *list = at + n;
    out[0] = '\0';
    if (n < NAME_BYTES) {
        memcpy(out, at, n);
        out[n] = '\0';
    }
    return n > 0;
}

void submitters_init(struct submitters *submitters, const char *users, const char *groups)
{
    char name[NAME_BYTES];
    *submitters = (struct submitters){strdup(users != NULL ? users : ""), strdup(groups != NULL ? groups : "")};
    ASSERT(submitters->users != NULL && submitters->groups != NULL);
    for (const char *at = submitters->users; next_name(&at, name);) {
        if (getpwnam(name) == NULL) {
            log_warn("submit_users: there is no user '%s' on this machine", name);
        }
    }
    for (const char *at = submitters->groups; next_name(&at, name);) {
        if (getgrnam(name) == NULL) {
            log_warn("submit_groups: there is no group '%s' on this machine", name);
        }
    }
}

void submitters_release(struct submitters *submitters)
{
    free(submitters->users);
    free(submitters->groups);
    *submitters = (struct submitters){0};
}

static bool is_named(const char *list, uid_t uid)
{
    char name[NAME_BYTES];
    while (next_name(&list, name)) {
        const struct passwd *user = getpwnam(name);
        if (user != NULL && user->pw_uid == uid) {
            return true;
        }
    }
    return false;
}

static bool is_in_group(const char *list, const struct rights *rights)
{
    char name[NAME_BYTES];
    while (next_name(&list, name)) {
        const struct group *group = getgrnam(name);
        for (int i = 0; group != NULL && i < rights->n_group; i++) {
            if (rights->group[i] == group->gr_gid) {
                return true;
            }
        }
    }
    return false;
}

enum status submitters_check(const struct submitters *submitters, uid_t uid, gid_t gid)
{
    bool has_users = submitters->users[strspn(submitters->users, BLANKS)] != '\0';
    bool has_groups = submitters->groups[strspn(submitters->groups, BLANKS)] != '\0';
    struct rights rights;
    if ((!has_users && !has_groups) || is_named(submitters->users, uid)) {
        return STATUS_OK;
    }
    enum status status = has_groups ? rights_find(uid, gid, &rights) : STATUS_OK;
    if (status != STATUS_OK || (has_groups && is_in_group(submitters->groups, &rights))) {
        return status;
    }
    const struct passwd *user = getpwuid(uid);
    return status_fail(STATUS_USAGE,
                       "user '%s' (%u) may not submit jobs here, and is not among the users of %s: the daemon's "
                       "administrator can add it",
                       user != NULL ? user->pw_name : "?", (unsigned)uid,
                       has_users && has_groups ? "submit_users and submit_groups"
                       : has_users             ? "submit_users"
                                               : "submit_groups");
}
