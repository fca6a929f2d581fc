/* A job as clients see it: all fields for its owner, name and state for others. */
#ifndef TRAINERD_DAEMON_JOB_JSON_H
#define TRAINERD_DAEMON_JOB_JSON_H

#include "trainerd/daemon/store/job_record.h"

#include <jansson.h>
#include <stdbool.h>

/* owns  the caller has the reference */
json_t *job_json(const struct job_record *record, bool is_whole);

/* A user's name, or the number of a user without name; until the next call. */
const char *job_owner_name(uid_t uid);

#endif
