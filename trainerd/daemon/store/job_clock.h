/* The time by which jobs' limits and waits are counted: it goes on evenly while the machine runs, daemon or not,
 * whatever is done to the wall clock; after the machine was started again it goes on from where it was, to the
 * minute.
 *
 * One of this process. Its zero means nothing to people: what they read is the wall clock's.
 */
#ifndef TRAINERD_DAEMON_JOB_CLOCK_H
#define TRAINERD_DAEMON_JOB_CLOCK_H

#include "trainerd/daemon/store/store.h"

#define JOB_CLOCK_KEEP_S 60 /* how often it is kept */

double job_clock_s(void);

/* Go on from the kept time, or from the wall clock if the store has no time. errors  STATUS_IO */
enum status job_clock_open(struct store *store);

/* Keep what it is now, with the machine's present start. errors  STATUS_IO */
enum status job_clock_keep(struct store *store);

#endif
