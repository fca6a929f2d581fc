#include "trainerd/daemon/commands/job_json.h"

#include "trainerd/base/fields.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/store/gpus.h"
#include "trainerd/daemon/store/job_clock.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define N_OWNER 16

/* A small cache of user names, since a lookup may be slow. */
const char *job_owner_name(uid_t uid)
{
    static struct {
        uid_t uid;
        char name[64];
    } known[N_OWNER];
    static size_t n;
    size_t n_known = n < N_OWNER ? n : N_OWNER;
    for (size_t i = 0; i < n_known; i++) {
        if (known[i].uid == uid) {
            return known[i].name;
        }
    }
    size_t at = n++ % N_OWNER;
    const struct passwd *user = getpwuid(uid);
    known[at].uid = uid;
    if (user != NULL) {
        snprintf(known[at].name, sizeof known[at].name, "%s", user->pw_name);
    } else {
        snprintf(known[at].name, sizeof known[at].name, "%u", (unsigned)uid);
    }
    return known[at].name;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* A time; null when it is not set. */
static json_t *moment(double at)
{
    return at > 0 ? json_real(at) : json_null();
}

static double ran_s(const struct job_record *record)
{
    return record->run.ran_s + (record->run.attempt_at > 0 ? job_clock_s() - record->run.attempt_at : 0.0);
}

static void set_progress(json_t *job, const struct job_progress *progress)
{
    double share = progress->n_epoch > 0 ? 100.0 * (double)progress->epoch / (double)progress->n_epoch : 0.0;
    set(job, "epoch", json_integer(progress->epoch));
    set(job, "epochs", json_integer(progress->n_epoch));
    set(job, "percent", json_real(share));
    set(job, "metric", progress->metric[0] != '\0' ? json_string(progress->metric) : json_null());
#define FIGURE(field, name, form) set(job, name, number_json(progress->field));
#include "trainerd/base/epoch_figures.def"
}

static json_t *gpus_json(uint64_t set)
{
    json_t *numbers = json_array();
    for (int i = 0; i < GPUS_MOST; i++) {
        if ((set >> i & 1u) != 0) {
            json_array_append_new(numbers, json_integer(i));
        }
    }
    return numbers;
}

static json_t *tags_json(const char *tags)
{
    json_t *all = json_array();
    for (const char *at = tags; *at != '\0';) {
        size_t n = strcspn(at, ",");
        json_array_append_new(all, json_stringn(at, n));
        at += n + (at[n] == ',');
    }
    return all;
}

json_t *job_json(const struct job_record *record, bool is_whole)
{
    json_t *job = json_object();
    set(job, "id", json_integer(record->id));
    set(job, "name", json_string(record->name));
    set(job, "uid", json_integer(record->uid));
    set(job, "owner", json_string(job_owner_name(record->uid)));
    set(job, "state", json_string(job_state_name(record->state)));
    if (!is_whole) {
        return job;
    }
    set(job, "reason", json_string(job_reason_name(record->reason)));
    set(job, "reason_text",
        json_string(record->reason_text[0] != '\0' ? record->reason_text : job_reason_text(record->reason)));
    bool waits = record->state == JOB_STATE_QUEUED && record->queued.place > 0;
    set(job, "position", waits ? json_integer(record->queued.place) : json_null());
    set(job, "group", record->group[0] != '\0' ? json_string(record->group) : json_null());
    set(job, "tags", tags_json(record->tags));
    set_progress(job, &record->progress);
    set(job, "priority", json_integer(record->priority));
    set(job, "submitted_at", moment(record->times.submitted_at));
    set(job, "started_at", moment(record->times.started_at));
    set(job, "ended_at", moment(record->times.ended_at));
    set(job, "changed_at", moment(record->times.changed_at));
    set(job, "workers", json_integer(record->n_worker));
    set(job, "parts", record->plan.n_part > 0 ? json_integer(record->plan.n_part) : json_null());
    set(job, "slots", json_integer(record->n_slot));
    set(job, "gpus", json_integer(record->n_gpu));
    set(job, "gpus_held", gpus_json(record->gpus));
    set(job, "memory", record->memory >= 0 ? json_integer(record->memory) : json_null());
    set(job, "time_limit_s", json_real(record->time_limit_s));
    set(job, "ran_s", json_real(ran_s(record)));
    set(job, "max_restarts", json_integer(record->max_restarts));
    set(job, "attempt", json_integer(record->attempt));
    set(job, "restarts", json_integer(record->run.n_restart));
    set(job, "pid", json_integer(record->run.pid));
    set(job, "slurm", record->run.slurm != 0 ? json_integer(record->run.slurm) : json_null());
    set(job, "exit_code", record->exit_code >= 0 ? json_integer(record->exit_code) : json_null());
    return job;
}
