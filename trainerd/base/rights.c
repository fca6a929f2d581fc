#include "trainerd/base/rights.h"

#include "protocol/base/log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USER_BYTES 16384 /* of a line of the user database */

enum status rights_find(uid_t uid, gid_t gid, struct rights *out)
{
    char bytes[USER_BYTES];
    struct passwd entry, *user = NULL;
    *out = (struct rights){.uid = uid, .gid = gid, .n_group = 1, .group = {gid}};
    int error = getpwuid_r(uid, &entry, bytes, sizeof bytes, &user);
    if (user == NULL) {
        return error == 0 || error == ENOENT || error == ESRCH
                   ? STATUS_OK
                   : status_fail(STATUS_IO, "cannot look up user %u: %s", (unsigned)uid, strerror(error));
    }
    out->n_group = RIGHTS_GROUPS_MOST;
    if (getgrouplist(user->pw_name, gid, out->group, &out->n_group) < 0) {
        return status_fail(STATUS_IO, "user '%s' is in more than %d groups", user->pw_name, RIGHTS_GROUPS_MOST);
    }
    return STATUS_OK;
}

/* The thread's own: the C library's setgroups changes all threads. */
static bool set_groups(const struct rights *rights)
{
    return syscall(SYS_setgroups, (long)rights->n_group, rights->group) == 0;
}

/* These calls return what was before, also when they fail: an invalid id only asks. */
static bool set_ids(const struct rights *rights)
{
    setfsgid(rights->gid);
    setfsuid(rights->uid);
    return (gid_t)setfsgid((gid_t)-1) == rights->gid && (uid_t)setfsuid((uid_t)-1) == rights->uid;
}

enum status rights_take(const struct rights *rights, struct rights *before_out)
{
    *before_out = (struct rights){.uid = geteuid(), .gid = getegid()};
    if (rights->uid == before_out->uid) {
        return STATUS_OK;
    }
    before_out->n_group = getgroups(RIGHTS_GROUPS_MOST, before_out->group);
    if (before_out->n_group < 0 || !set_groups(rights)) {
        return status_fail(STATUS_IO, "cannot take the groups of user %u: %s", (unsigned)rights->uid,
                           strerror(errno));
    }
    if (!set_ids(rights)) {
        rights_return(rights, before_out);
        return status_fail(STATUS_IO, "cannot take the rights of user %u", (unsigned)rights->uid);
    }
    return STATUS_OK;
}

void rights_return(const struct rights *taken, const struct rights *before)
{
    if (taken->uid != before->uid) {
        bool is_own = set_ids(before) && set_groups(before);
        ASSERT(is_own); /* a thread that stays another user would read that user's files for all */
    }
}
