/* Jobs by what requests ask for: their owner, name, group and tags. Of each such set its jobs in their order, and how
 * many are in each state, kept with every change, so that no request has to look at all jobs.
 *
 * Knows records in memory, neither the store nor requests.
 */
#ifndef TRAINERD_DAEMON_JOB_INDEX_H
#define TRAINERD_DAEMON_JOB_INDEX_H

#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

/* Records, ids ascending. */
struct job_list {
    struct job_record **at; /* n */
    size_t n, capacity;
};

/* Where the first of those ids is, or would be, that are not less than this one. */
size_t job_list_place(const struct job_list *list, int64_t id);

/* What jobs of a set have in common. Groups and tags are their owner's: a name is another group for another user. */
enum job_key { JOB_KEY_OWNER, JOB_KEY_NAME, JOB_KEY_NAME_OF_OWNER, JOB_KEY_GROUP, JOB_KEY_TAG };

struct job_set {
    struct job_list jobs;
    int64_t n_of_state[JOB_STATE_N];
    int64_t n_promised; /* of an owner: that are about to wait */
};

struct job_index {
    struct job_set all;
    struct job_list open; /* those that have not ended */
    struct job_set_entry **bucket;
    size_t n_bucket, n_entry;
};

void job_index_release(struct job_index *index);

/* Borrows the record until it is removed. */
void job_index_add(struct job_index *index, struct job_record *record);
void job_index_remove(struct job_index *index, const struct job_record *record);
/* The state of a record was `before`. */
void job_index_changed(struct job_index *index, struct job_record *record, enum job_state before);

/* So many more of the owner's jobs are about to wait, or less than 0: fewer. */
void job_index_promise(struct job_index *index, uid_t uid, int64_t n);

/* text: of owners, "". uid: of names of all owners, 0. Never NULL: an empty set where no job matches. */
const struct job_set *job_index_find(const struct job_index *index, enum job_key key, uid_t uid, const char *text);

/* Jobs of these two sets, or of one (NULL), from the newest with an id below `before` on.
 *
 *   shapes  out n_most
 *   Returns how many were found; *n_looked_out: how many records were looked at
 */
struct job_ask {
    const struct job_set *one, *other; /* other NULL: one alone */
    bool is_open;                      /* only those that have not ended */
    int64_t before;
};
size_t job_index_select(const struct job_index *index, const struct job_ask *ask, size_t n_most,
                        const struct job_record **out, size_t *n_looked_out);

/* Number of jobs in each state in both sets, ended ones included. cost  of one set: O(1); of two: the smaller one */
void job_index_count(const struct job_ask *ask, int64_t n_of_state[JOB_STATE_N]);

#endif
