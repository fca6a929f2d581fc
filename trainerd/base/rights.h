/* A user's rights on files: which groups the user is in, and a thread that opens files as that user would.
 *
 * For root's daemon, which must not show a user what only root may read. Knows neither jobs nor files.
 */
#ifndef TRAINERD_DAEMON_RIGHTS_H
#define TRAINERD_DAEMON_RIGHTS_H

#include "protocol/base/status.h"

#include <sys/types.h>

#define RIGHTS_GROUPS_MOST 256

struct rights {
    uid_t uid;
    gid_t gid;
    int n_group;
    gid_t group[RIGHTS_GROUPS_MOST]; /* gid among them */
};

/* Rights of a user with that first group; an unknown user has no other group. The user database may be slow. errors
 * STATUS_IO more than RIGHTS_GROUPS_MOST groups; the database does not answer */
enum status rights_find(uid_t uid, gid_t gid, struct rights *out);

/* From here to rights_return this thread, and no other, looks up, opens and makes files as that user. Where the
 * process runs as that user, nothing changes. errors  STATUS_IO the daemon may not; the thread then has its own
 * rights */
enum status rights_take(const struct rights *rights, struct rights *before_out);
void rights_return(const struct rights *taken, const struct rights *before);

#endif
