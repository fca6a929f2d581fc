/* Users with jobs, what they have of the machine and may have, and what they have used of it. */
#include "protocol/base/memory.h"
#include "trainerd/base/fields.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/store/job_clock.h"

#include <stdlib.h>

/* Of the use of the whole machine: less is not shown, so that users who have long left are not. */
#define USED_LEAST_S 0.5

struct user_row {
    uid_t uid;
    int64_t n_queued;
    struct need has; /* that run */
    double used_s;
};

static int compare_users(const void *left, const void *right)
{
    uid_t a = ((const struct user_row *)left)->uid, b = ((const struct user_row *)right)->uid;
    return a < b ? -1 : a > b;
}

/* Add a use to a list that may have several entries of a user; unite them; the number of users. */
static size_t unite(struct user_row *user, size_t n)
{
    size_t n_user = 0;
    qsort(user, n, sizeof *user, compare_users);
    for (size_t i = 0; i < n; i++) {
        if (n_user > 0 && user[n_user - 1].uid == user[i].uid) {
            user[n_user - 1].n_queued += user[i].n_queued;
            user[n_user - 1].used_s += user[i].used_s;
            need_add(&user[n_user - 1].has, &user[i].has);
        } else {
            user[n_user++] = user[i];
        }
    }
    return n_user;
}

/* All users with jobs that have not ended, or with use; and `own`. owns  the caller frees *out */
static size_t find_users(struct jobs *jobs, uid_t own, struct user_row **out)
{
    size_t n, n_entry = 0;
    const struct job_record *const *open = jobs_live(jobs, &n);
    const struct shares *shares = jobs_shares(jobs);
    double now = job_clock_s();
    struct user_row *user = memory_alloc(n + shares->n + 1, sizeof *user);
    user[n_entry++].uid = own;
    for (size_t i = 0; i < shares->n; i++) {
        double used_s = shares_used(shares, shares->share[i].uid, now);
        if (used_s >= USED_LEAST_S) {
            user[n_entry++] = (struct user_row){.uid = shares->share[i].uid, .used_s = used_s};
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (open[i]->state == JOB_STATE_QUEUED && user[n_entry - 1].uid == open[i]->uid) {
            user[n_entry - 1].n_queued++; /* jobs come one after the other from a user who has many */
        } else if (open[i]->state == JOB_STATE_QUEUED) {
            user[n_entry++] = (struct user_row){.uid = open[i]->uid, .n_queued = 1};
        } else if (!job_state_ended(open[i]->state)) {
            struct need has = jobs_are_in_slurm(jobs) ? (struct need){.n_job = 1}
                                                      : need_of_job(&shares->whole, open[i]);
            user[n_entry++] = (struct user_row){
                .uid = open[i]->uid, .has = has, .used_s = shares_using(shares, open[i], now)};
        }
    }
    *out = user;
    return unite(user, n_entry);
}

static json_t *limit(int64_t most)
{
    return most == 0 || most == NEED_UNLIMITED ? json_null() : json_integer(most);
}

/* share: of the use of all, NaN where nobody used any */
static json_t *user_json(const struct user_row *user, const struct quota *quota, double share, bool is_whole)
{
    json_t *one = json_object();
    json_object_set_new(one, "uid", json_integer(user->uid));
    json_object_set_new(one, "user", json_string(job_owner_name(user->uid)));
    json_object_set_new(one, "queued", json_integer(user->n_queued));
    json_object_set_new(one, "running", json_integer(user->has.n_job));
    if (!is_whole) {
        return one;
    }
    const struct need most = quota_find(quota, user->uid);
    json_t *limits = json_pack("{s:o, s:o, s:o, s:o, s:o}", "queued", limit(quota_queued(quota, user->uid)),
                               "running", limit(most.n_job), "slots", limit(most.n_slot), "gpus", limit(most.n_gpu),
                               "memory", limit(most.memory));
    json_object_set_new(one, "slots", json_integer(user->has.n_slot));
    json_object_set_new(one, "gpus", json_integer(user->has.n_gpu));
    json_object_set_new(one, "memory", json_integer(user->has.memory));
    json_object_set_new(one, "used_s", number_json(user->used_s));
    json_object_set_new(one, "share", number_json(share));
    json_object_set_new(one, "limits", limits);
    return one;
}

enum status handle_users(struct commands *commands, struct connection *connection, const json_t *request)
{
    uid_t own = connection_uid(connection);
    bool is_admin = connection_is_admin(connection);
    struct user_row *user;
    size_t n = find_users(commands->jobs, own, &user);
    double half_life_s = jobs_shares(commands->jobs)->half_life_s, all_s = 0.0;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        all_s += user[i].used_s;
    }
    for (size_t i = 0; i < n; i++) {
        bool is_whole = is_admin || user[i].uid == own, has_jobs = user[i].n_queued > 0 || user[i].has.n_job > 0;
        if (is_whole || has_jobs) {
            double share = all_s > 0.0 ? user[i].used_s / all_s : 0.0;
            json_array_append_new(list, user_json(&user[i], jobs_quota(commands->jobs), share, is_whole));
        }
    }
    json_t *half_life = half_life_s > 0.0 ? json_real(half_life_s) : json_null();
    free(user);
    connection_send(connection, answer_with(request, "{s:o, s:o}", "users", list, "half_life_s", half_life));
    return STATUS_OK;
}
