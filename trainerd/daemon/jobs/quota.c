#include "trainerd/daemon/jobs/quota.h"

#include "protocol/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024.0 * 1024.0)

/* What is limited, in the order in which it is said. */
static const struct limit {
    const char *key, *what;
    size_t in_need, in_quota;
    bool is_memory;
} limits[] = {
    {"max_running_per_user", "jobs that run", offsetof(struct need, n_job), offsetof(struct quota, n_running), false},
    {"max_slots_per_user", "slots", offsetof(struct need, n_slot), offsetof(struct quota, n_slot), false},
    {"max_gpus_per_user", "GPUs", offsetof(struct need, n_gpu), offsetof(struct quota, n_gpu), false},
    {"max_memory_per_user", "MiB of memory", offsetof(struct need, memory), offsetof(struct quota, memory), true},
};
enum { N_LIMIT = sizeof limits / sizeof *limits };

static int64_t in_need(const struct limit *limit, const struct need *need)
{
    return *(const int64_t *)((const char *)need + limit->in_need);
}

static bool holds(const struct quota *quota, uid_t uid)
{
    for (size_t i = 0; quota != NULL && i < quota->n_exempt; i++) {
        if (quota->exempt[i] == uid) {
            return false;
        }
    }
    return quota != NULL;
}

/* --- whom it holds for --- */

static enum status add_exempt(const char *name, struct quota *out)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(name, &end, 10);
    bool is_root = strcmp(name, "root") == 0; /* also where no list of users has it, as in small containers */
    bool is_number = is_root ||
                     (name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number < (uid_t)-1);
    const struct passwd *user = is_number ? NULL : getpwnam(name);
    if (!is_number && user == NULL) {
        return status_fail(STATUS_CONFIG,
                           "daemon.quota_exempt has '%.64s': expected users of this machine, between blanks", name);
    }
    if (out->n_exempt == QUOTA_EXEMPT_MOST) {
        return status_fail(STATUS_CONFIG, "daemon.quota_exempt has more than %d users", QUOTA_EXEMPT_MOST);
    }
    out->exempt[out->n_exempt++] = is_number ? (uid_t)number : user->pw_uid;
    return STATUS_OK;
}

enum status quota_read_exempt(const char *names, struct quota *out)
{
    char *copy = strdup(names), *rest;
    enum status status = STATUS_OK;
    ASSERT(copy != NULL);
    for (char *name = strtok_r(copy, " \t", &rest); name != NULL && status == STATUS_OK;
         name = strtok_r(NULL, " \t", &rest)) {
        status = add_exempt(name, out);
    }
    free(copy);
    return status;
}

/* --- what it allows --- */

struct need quota_find(const struct quota *quota, uid_t uid)
{
    struct need most = {NEED_UNLIMITED, NEED_UNLIMITED, NEED_UNLIMITED, NEED_UNLIMITED};
    for (int i = 0; i < N_LIMIT && holds(quota, uid); i++) {
        int64_t limit = *(const int64_t *)((const char *)quota + limits[i].in_quota);
        if (limit > 0) {
            *(int64_t *)((char *)&most + limits[i].in_need) = limit;
        }
    }
    return most;
}

int64_t quota_queued(const struct quota *quota, uid_t uid)
{
    return holds(quota, uid) ? quota->n_queued : 0;
}

enum status quota_check_queued(const struct quota *quota, int64_t n_queued, uid_t uid, size_t n_more)
{
    int64_t most = quota_queued(quota, uid);
    if (most == 0 || n_queued + (int64_t)n_more <= most) {
        return STATUS_OK;
    }
    return status_fail(STATUS_PEER,
                       "%" PRId64 " of your jobs wait, with %zu more they would be %" PRId64
                       ": expected at most %" PRId64 " (daemon.max_queued_per_user)",
                       n_queued, n_more, n_queued + (int64_t)n_more, most);
}

enum status quota_check_job(const struct quota *quota, const struct need *whole, const char *file,
                            const struct job_record *job)
{
    const struct need most = quota_find(quota, job->uid), need = need_of_job(whole, job);
    char text[JOB_REASON_BYTES];
    if (need_fits(&need, &most)) {
        return STATUS_OK;
    }
    quota_describe_above(&most, &need, text, sizeof text);
    return status_fail(STATUS_CONFIG, "%s%s%s", file != NULL ? file : "", file != NULL ? ": " : "", text);
}

/* --- as sentences --- */

/* A limit that a need is above: the first; NULL: none. */
static const struct limit *find(const struct need *most, const struct need *has, const struct need *need)
{
    for (int i = 0; i < N_LIMIT; i++) {
        int64_t is_most = in_need(&limits[i], most), is_had = has != NULL ? in_need(&limits[i], has) : 0;
        if (in_need(&limits[i], need) > (is_most > is_had ? is_most - is_had : 0)) {
            return &limits[i];
        }
    }
    return NULL;
}

void quota_describe_held(const struct need *most, const struct need *has, const struct need *need, char *out,
                         size_t capacity)
{
    const struct limit *limit = find(most, has, need);
    out[0] = '\0';
    if (limit != NULL && limit->is_memory) {
        snprintf(out, capacity, "its user has %.1f of %.1f %s, it needs %.1f (daemon.%s)",
                 (double)in_need(limit, has) / MIB, (double)in_need(limit, most) / MIB, limit->what,
                 (double)in_need(limit, need) / MIB, limit->key);
    } else if (limit != NULL) {
        snprintf(out, capacity, "its user has %" PRId64 " of %" PRId64 " %s, it needs %" PRId64 " (daemon.%s)",
                 in_need(limit, has), in_need(limit, most), limit->what, in_need(limit, need), limit->key);
    }
}

void quota_describe_above(const struct need *most, const struct need *need, char *out, size_t capacity)
{
    const struct limit *limit = find(most, NULL, need);
    out[0] = '\0';
    if (limit != NULL && limit->is_memory) {
        snprintf(out, capacity, "it needs %.1f %s, one user's jobs may have %.1f (daemon.%s)",
                 (double)in_need(limit, need) / MIB, limit->what, (double)in_need(limit, most) / MIB, limit->key);
    } else if (limit != NULL) {
        snprintf(out, capacity, "it needs %" PRId64 " %s, one user's jobs may have %" PRId64 " (daemon.%s)",
                 in_need(limit, need), limit->what, in_need(limit, most), limit->key);
    }
}
