/* Turns on the loop's thread: users with something to do share its time equally.
 *
 * Round robin over users: each gets a slice of time, and what it takes beyond that is taken from its next ones.
 * Between two slices the loop turns. Knows users and turns, neither connections nor requests.
 */
#ifndef TRAINERD_DAEMON_TURNS_H
#define TRAINERD_DAEMON_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define TURNS_SLICE_NS 5000000 /* of a user */

struct turn_user;
struct turns;

/* A member of what has something to do for a user. */
struct turn {
    struct turn_user *user; /* NULL: of no user */
    struct turn *next;      /* of those of the user that wait */
    bool waits;
    void (*take)(struct turn *turn); /* do a piece of it; one that has more to do then waits again */
};

struct turns {
    uv_idle_t idle; /* runs while a turn waits. One handle, which the caller closes */
    struct turn_user *users;
    struct turn_user *first, **last; /* of those with turns that wait */
    uint64_t (*now_ns)(void);
};

/* now_ns: NULL, the machine's clock */
void turns_init(uv_loop_t *loop, uint64_t (*now_ns)(void), struct turns *out);

/* The turn is one of this user's from here on / no user's any more; it does not wait then. */
void turns_join(struct turns *turns, uid_t uid, struct turn *turn);
void turns_leave(struct turns *turns, struct turn *turn);

/* Take it once, in its user's turn, after those of the user that wait already. Nothing changes where it waits. */
void turns_wait(struct turns *turns, struct turn *turn);

/* How many the user has, whether they wait or not / the user who has most, and how many. */
int turns_n(const struct turns *turns, uid_t uid);
int turns_most(const struct turns *turns, uid_t *uid_out);

#endif
