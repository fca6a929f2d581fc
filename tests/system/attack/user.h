/* The users of an attacked daemon: unprivileged ones, with a home folder and a tree of files that nobody may change,
 * and root.
 *
 * The test acts as one of them by its ids, which the kernel tells the daemon when it connects, and by which files are
 * opened.
 */
#ifndef TESTS_SYSTEM_ATTACK_USER_H
#define TESTS_SYSTEM_ATTACK_USER_H

#include <stdbool.h>
#include <sys/types.h>

enum user { USER_FIRST, USER_SECOND, USER_THIRD, USER_FOURTH, USER_ROOT, USER_N };
enum { USER_ATTACKERS = 2 }; /* of a campaign: the first two */

/* Make the test's folder, with a home for each user: home0 … home3, root. false: this process is not root */
bool users_make(void);

uid_t user_uid(enum user who);
/* "home0": its folder, in the test's. */
const char *user_home(enum user who);

/* Act as that user, until user_leave. */
void user_become(enum user who);
void user_leave(void);

/* Every file of every user's tree is as it was made: path, owner, mode, bytes, time of its last change. */
void users_expect_untouched(void);

/* A text that one user has got has no secret of another. */
void user_expect_no_secret(enum user who, const char *text);

#endif
