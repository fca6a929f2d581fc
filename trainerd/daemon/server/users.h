/* Users that log in over TCP, from users_file: secrets, the users of this machine that they act as, and roles.
 *
 *   [ada]                      # the name that `trainctl login` asks for
 *   secret = "64 hexadecimal digits"
 *   user = "ada"               # of this machine; default: the same name
 *   role = "submit"            # watch | submit | admin; default: submit
 *
 * Knows no connections.
 */
#ifndef TRAINERD_DAEMON_USERS_H
#define TRAINERD_DAEMON_USERS_H

#include "protocol/base/status.h"
#include "trainerd/socket/auth.h"

#include <stddef.h>
#include <sys/types.h>

#define USERS_FILE_MOST_BYTES (1 << 20)
#define USERS_SYSTEM_BYTES 64 /* the name of a user of this machine, with NUL */

/*         name    in files  may */
#define USER_ROLE_LIST(X)                                                                                            \
    X(WATCH, "watch")   /* read, of the jobs of its user of this machine */                                          \
    X(SUBMIT, "submit") /* what a user of the Unix socket may */                                                     \
    X(ADMIN, "admin")   /* what root may there */

enum user_role {
#define X(name, text) USER_ROLE_##name,
    USER_ROLE_LIST(X)
#undef X
        USER_ROLE_N
};

const char *user_role_name(enum user_role role);

struct user {
    char name[AUTH_USER_BYTES];
    struct auth_secret secret;
    char system[USERS_SYSTEM_BYTES]; /* the user of this machine */
    uid_t uid;                       /* of users_load */
    gid_t gid;
    enum user_role role;
};

struct users {
    struct user *user; /* n_user, in the order of the file */
    size_t n_user;
};

/* Read the text of a file of users; origin stands for its name in messages, which contain no secret.
 *
 *   owns    the caller owns *out: users_release, which wipes it; untouched after an error
 *   errors  STATUS_CONFIG "ORIGIN:LINE:COLUMN: …" with what was expected
 */
enum status users_read(const char *text, size_t n, const char *origin, struct users *out);

/* Read a file that only its owner can read, and find its users' numbers on this machine.
 * errors  those of auth_file_read and users_read; STATUS_CONFIG this daemon may not run jobs of such a user */
enum status users_load(const char *path, struct users *out);
void users_release(struct users *users);

/* NULL: no user has that name. */
const struct user *users_find(const struct users *users, const char *name);

/* The numbers of a user of this machine that this daemon may run jobs of: its own alone, unless it is root.
 * errors  STATUS_CONFIG no such user; `what` names where the name is from */
enum status users_system(const char *what, const char *name, uid_t *uid_out, gid_t *gid_out);

#endif
