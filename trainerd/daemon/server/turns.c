#include "trainerd/daemon/server/turns.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

struct turn_user {
    uid_t uid;
    int n_turn;
    bool is_served;  /* its turns are being taken */
    int64_t left_ns; /* that it may take; less than 0: it has taken too much */
    struct turn *first, **last;
    struct turn_user *next;         /* of all */
    struct turn_user *next_waiting; /* of those with turns that wait */
};

static void line_up(struct turns *turns, struct turn_user *user)
{
    user->next_waiting = NULL;
    *turns->last = user;
    turns->last = &user->next_waiting;
}

static struct turn_user *take_first(struct turns *turns)
{
    struct turn_user *user = turns->first;
    turns->first = user->next_waiting;
    turns->last = turns->first == NULL ? &turns->first : turns->last;
    return user;
}

static struct turn *take_turn(struct turn_user *user)
{
    struct turn *turn = user->first;
    user->first = turn->next;
    user->last = user->first == NULL ? &user->first : user->last;
    turn->waits = false;
    return turn;
}

static void release_unused(struct turns *turns, struct turn_user *user)
{
    struct turn_user **link = &turns->users;
    if (user->n_turn > 0 || user->is_served) {
        return;
    }
    while (*link != user) {
        link = &(*link)->next;
    }
    *link = user->next;
    free(user);
}

/* The slice of one user: the first of those that wait. A single user need not give way. */
static void on_idle(uv_idle_t *idle)
{
    struct turns *turns = idle->data;
    if (turns->first == NULL) {
        uv_idle_stop(idle);
        return;
    }
    struct turn_user *user = take_first(turns);
    user->left_ns = turns->first == NULL ? TURNS_SLICE_NS : user->left_ns + TURNS_SLICE_NS;
    user->is_served = true;
    while (user->left_ns > 0 && user->first != NULL) {
        uint64_t begun_ns = turns->now_ns();
        struct turn *turn = take_turn(user);
        turn->take(turn);
        user->left_ns -= (int64_t)(turns->now_ns() - begun_ns);
    }
    user->left_ns = user->left_ns > 0 ? 0 : user->left_ns;
    if (user->first != NULL) {
        line_up(turns, user);
    }
    user->is_served = false;
    release_unused(turns, user);
}

void turns_init(uv_loop_t *loop, uint64_t (*now_ns)(void), struct turns *out)
{
    *out = (struct turns){.now_ns = now_ns != NULL ? now_ns : uv_hrtime};
    out->last = &out->first;
    uv_idle_init(loop, &out->idle);
    out->idle.data = out;
}

static struct turn_user *find(const struct turns *turns, uid_t uid)
{
    struct turn_user *user = turns->users;
    while (user != NULL && user->uid != uid) {
        user = user->next;
    }
    return user;
}

void turns_join(struct turns *turns, uid_t uid, struct turn *turn)
{
    struct turn_user *user = find(turns, uid);
    if (user == NULL) {
        user = memory_alloc(1, sizeof *user);
        *user = (struct turn_user){.uid = uid, .next = turns->users};
        user->last = &user->first;
        turns->users = user;
    }
    user->n_turn++;
    turn->user = user;
}

static void forget_turn(struct turns *turns, struct turn *turn)
{
    struct turn_user *user = turn->user;
    struct turn **link = &user->first;
    while (*link != turn) {
        link = &(*link)->next;
    }
    *link = turn->next;
    user->last = turn->next == NULL ? link : user->last;
    turn->waits = false;
    if (user->first != NULL) {
        return;
    }
    for (struct turn_user **at = &turns->first; *at != NULL; at = &(*at)->next_waiting) {
        if (*at == user) {
            *at = user->next_waiting;
            turns->last = *at == NULL ? at : turns->last;
            return;
        }
    }
}

void turns_leave(struct turns *turns, struct turn *turn)
{
    struct turn_user *user = turn->user;
    if (user == NULL) {
        return;
    }
    if (turn->waits) {
        forget_turn(turns, turn);
    }
    turn->user = NULL;
    user->n_turn--;
    release_unused(turns, user);
}

void turns_wait(struct turns *turns, struct turn *turn)
{
    struct turn_user *user = turn->user;
    if (turn->waits) {
        return;
    }
    turn->waits = true;
    turn->next = NULL;
    bool is_first = user->first == NULL;
    *user->last = turn;
    user->last = &turn->next;
    if (is_first && !user->is_served) {
        line_up(turns, user);
    }
    uv_idle_start(&turns->idle, on_idle);
}

int turns_n(const struct turns *turns, uid_t uid)
{
    const struct turn_user *user = find(turns, uid);
    return user != NULL ? user->n_turn : 0;
}

int turns_most(const struct turns *turns, uid_t *uid_out)
{
    int n_most = 0;
    for (const struct turn_user *user = turns->users; user != NULL; user = user->next) {
        *uid_out = user->n_turn > n_most ? user->uid : *uid_out;
        n_most = user->n_turn > n_most ? user->n_turn : n_most;
    }
    return n_most;
}
