/* Who may submit jobs: users and groups by name, of the keys submit_users and submit_groups.
 *
 * The user database is asked at each submission: who joins a group may submit without a daemon restart.
 */
#ifndef TRAINERD_DAEMON_SUBMITTERS_H
#define TRAINERD_DAEMON_SUBMITTERS_H

#include "protocol/base/status.h"

#include <sys/types.h>

struct submitters {
    char *users, *groups; /* names between blanks; both "": all users */
};

/* Copies both, NULL is "". Names that this machine does not know are named in the log: they let in no user. */
void submitters_init(struct submitters *submitters, const char *users, const char *groups);
void submitters_release(struct submitters *submitters);

/* May the user submit? gid: its first group. errors  STATUS_USAGE no; STATUS_IO the user database fails */
enum status submitters_check(const struct submitters *submitters, uid_t uid, gid_t gid);

#endif
