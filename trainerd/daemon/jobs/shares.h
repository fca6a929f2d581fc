/* Fair shares: the recent use of each user's jobs, by which the queue orders jobs of equal priority.
 *
 * Use is the largest part of slots, memory or GPUs that a job has, times the seconds that it has it ("machine
 * seconds"), and halves every half-life. What an attempt has used is saved with its end (store_use.c); what one that
 * runs has used follows from its beginning. All times are job_clock.h's.
 * source  dominant resources: Ghodsi et al., NSDI 2011; decay: Kay and Lauder, A Fair Share Scheduler, CACM 1988
 */
#ifndef TRAINERD_DAEMON_SHARES_H
#define TRAINERD_DAEMON_SHARES_H

#include "trainerd/daemon/jobs/need.h"
#include "trainerd/daemon/store/store.h"

/* A user. */
struct share {
    uid_t uid;
    double used, at;             /* machine seconds of attempts that have ended, as they were at that time */
    int64_t first;               /* the first of the user's waiting jobs; 0: none waits */
    double first_used, first_at; /* the user's use when that came to be the first */
};

struct shares {
    double half_life_s;  /* 0: nothing is counted, all users are equal */
    struct need whole;   /* the machine */
    struct share *share; /* n, uids ascending */
    size_t n;
};

/* Read what was saved. owns  the caller: shares_release. errors  STATUS_IO */
enum status shares_open(struct shares *out, double half_life_s, const struct need *whole, struct store *store);
void shares_release(struct shares *shares);

/* Use of the user's ended attempts, as of now / of the job's present attempt. Slurm jobs are not counted. */
double shares_used(const struct shares *shares, uid_t uid, double now);
double shares_using(const struct shares *shares, const struct job_record *job, double now);

/* The use that a change adds, to be saved with it: of an attempt that ends. false: it adds nothing */
bool shares_after(const struct shares *shares, const struct job_record *before, const struct job_record *after,
                  double now, struct store_use *out);
/* It is saved. */
void shares_set(struct shares *shares, const struct store_use *use);

/* The user's use when `job` came to be the first that waits, as much as is left of it. -1: it is not the first */
double shares_first_used(const struct shares *shares, uid_t uid, int64_t job, double now);
/* Note the user's first job that waits (0: no job) with the use until now, unless it was that already. */
void shares_first_set(struct shares *shares, uid_t uid, int64_t job, double used, double now);

#endif
